//! What each kind of line implements in its own file: how the event is written, read and described.
//!
//! [`event`](crate::log::event) lists the kinds.

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde::de::DeserializeOwned;

use countersign_model::digest::Digest;
use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_model::license_key::LicenseId;

use crate::log::position::Position;

/// A line of one kind: its members in the order of RFC 8785.
pub(super) trait EventLine: DeserializeOwned {
    /// What such a line says.
    type Event;

    /// Its `sequence`, `previous` and `synced`.
    fn place(&self) -> (u64, Digest, u64);

    /// What it says.
    fn event(self) -> serde_json::Result<Self::Event>;
}

/// What a line of one kind says, whatever the kind is.
pub(crate) trait LineEvent {
    /// This event.
    fn line(&self) -> &dyn LineEvent
    where
        Self: Sized,
    {
        self
    }

    /// Appends its line, which continues `previous`.
    fn write(&self, bytes: &mut Vec<u8>, previous: Position, synced: u64) -> serde_json::Result<()>;

    /// When it happened.
    fn time(&self) -> DateTime<Utc>;

    /// The license that it is about; `None` if it is about something else.
    fn license(&self) -> Option<&LicenseId> {
        None
    }

    /// The texts that it names.
    fn texts(&self) -> EventTexts {
        EventTexts::default()
    }

    /// The token, the shop or the command. What a site, a customer or the server does by itself has none.
    fn scope(&self) -> Option<&ChangeScope> {
        None
    }

    /// Whose doing it is where it names nobody.
    fn actor(&self) -> LineActor {
        LineActor::Somebody
    }

    /// One word for it, and what happened.
    fn words(&self) -> (&'static str, Vec<String>);

    /// Whose changes it counts among; `None` if no list of changes shows it.
    fn change(&self) -> Option<ChangesBy>;
}

/// Appends a line with its line feed.
pub(super) fn append(bytes: &mut Vec<u8>, line: &impl Serialize) -> serde_json::Result<()> {
    serde_json::to_writer(&mut *bytes, line)?;
    bytes.push(b'\n');
    Ok(())
}

/// Whose doing a line is that names neither a token, a shop, a command nor a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineActor {
    /// A site that validates.
    Site,
    /// The customer, by a click.
    Customer,
    /// A person or a command whose name is not known.
    Somebody,
    /// The server, of itself.
    Server,
}

impl LineActor {
    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Site => "the site",
            Self::Customer => "the customer",
            Self::Somebody => "somebody",
            Self::Server => "the server",
        }
    }
}

/// Whose changes somebody wants to see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChangesBy {
    /// Those of people and programs: at the desk, by a command, with a token, or on the customer's page.
    #[default]
    People,
    /// Those of shops, sites and the server, too. A sale is not listed, but the licenses that it changes are.
    Anyone,
}

/// The names of texts that stand beside the ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventTexts {
    /// The vendor's note of the license.
    pub note: Option<Hex128>,
    /// Why it happened.
    pub reason: Option<Hex128>,
    /// The name of the person.
    pub who: Option<Hex128>,
}

impl EventTexts {
    /// Why something was changed, and the person.
    pub(super) fn of_change(reason: Option<Hex128>, who: Option<Hex128>) -> Self {
        Self {
            note: None,
            reason,
            who,
        }
    }

    /// The texts about a license, which are erased with it. The name of a person is in other lines, too.
    pub fn about_license(self) -> impl Iterator<Item = Hex128> {
        let Self { note, reason, who: _ } = self;
        [note, reason].into_iter().flatten()
    }
}
