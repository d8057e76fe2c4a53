//! The mail that a buyer gets with a license key, from the vendor's own texts or the built-in ones.
//!
//! [`PreviewSnapshot`](crate::preview::snapshot::PreviewSnapshot) has it, and [`page`](crate::preview::page) shows it.

use std::path::Path;

use countersign_mail::texts::{MailTexts, RenderedMail};
use countersign_mail::{MailKind, made_up};
use countersign_model::plugin::Plugin;
use countersign_model::text::ErrorChain;

/// How many licenses the orders have that are shown.
pub const ORDERS: [u8; 2] = [1, 3];

/// The mails of [`ORDERS`], or why there are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LicenseMail {
    /// The folder of the vendor's own texts; `None` for the built-in ones, and where they cannot be read.
    pub folder: Option<String>,
    /// A mail for each order, or what is wrong with the texts and what to do, escaped for a terminal.
    pub mails: Result<[RenderedMail; ORDERS.len()], [String; 2]>,
}

impl LicenseMail {
    /// Fills in the texts of a registry with made-up licenses of a plugin, whose latest release has the name `published`.
    pub fn read(registry: &Path, plugin: Option<&Plugin>, published: Option<&str>) -> Self {
        let texts = match MailTexts::load(registry) {
            Ok(texts) => texts,
            Err(error) => {
                return Self {
                    folder: None,
                    mails: Err([ErrorChain(&error).to_string(), error.hint().to_owned()]),
                };
            }
        };
        let [one, several] =
            ORDERS.map(|count| texts.render(&made_up::content(MailKind::License, None, plugin, published, count)));
        let mails = one.and_then(|one| Ok([one, several?]));
        Self {
            folder: texts
                .folder(MailKind::License)
                .map(|folder| folder.display().to_string()),
            mails: mails.map_err(|error| [ErrorChain(&error).to_string(), error.hint().to_owned()]),
        }
    }

    /// The HTML of the mail for this order.
    pub fn html(&self, count: u8) -> Option<&str> {
        let at = ORDERS.iter().position(|order| *order == count)?;
        self.mails.as_ref().ok()?[at].html.as_deref()
    }
}
