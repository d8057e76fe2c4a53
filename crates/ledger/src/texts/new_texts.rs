//! The texts of orders that one group commit keeps with its lines.

use std::io;

use countersign_model::issued_license::{Hex128, IssuedLicense};
use countersign_model::order_reference::OrderReference;
use countersign_model::remarks::{Author, NamedText};

/// The text of an order whose license is in the ledger.
#[derive(Clone)]
pub(crate) struct NewText {
    /// How the license's line names the order.
    pub name: Hex128,
    /// Every name of the order. If the text was erased under one of them, it is not kept again.
    pub names: Vec<Hex128>,
    /// The text.
    pub text: Box<str>,
}

/// A text with a random name, for a line that is about to be written.
///
/// # Errors
/// The system has no random numbers.
pub fn named_at_random(text: &str) -> io::Result<NamedText> {
    let mut name = [0; 16];
    getrandom::fill(&mut name).map_err(io::Error::other)?;
    Ok(NamedText::random(name, text))
}

/// The texts of one group commit.
#[derive(Default)]
pub(crate) struct NewTexts(Vec<NewText>);

impl NewTexts {
    /// Keeps the text of an order, if the license is of this order. A license that another request changed may be of another.
    pub(crate) fn keep(&mut self, reference: Option<&OrderReference>, license: &IssuedLicense) {
        let Some((reference, name)) = reference.zip(license.reference) else {
            return;
        };
        if let Some(text) = &reference.text
            && reference.names().any(|own| own == name)
        {
            self.0.push(NewText {
                name,
                names: reference.names().collect(),
                text: text.clone(),
            });
        }
    }

    /// Keeps what people wrote of a change that is about to be written.
    pub(crate) fn keep_author(&mut self, author: &Author) {
        author.texts().for_each(|text| self.keep_named(text));
    }

    /// Keeps a text that a line is about to name.
    pub(crate) fn keep_named(&mut self, text: &NamedText) {
        self.0.push(NewText {
            name: text.name,
            names: text.names().collect(),
            text: text.text.clone(),
        });
    }

    pub(crate) fn all(&self) -> &[NewText] {
        &self.0
    }
}
