//! The kinds of lines: each is a row of one table, with what it says and how it is read. A new kind is a file and a row.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::de::{self, DeserializeOwned, Visitor};
use serde::forward_to_deserialize_any;

use crate::log::bound_line::{BoundLine, LedgerEntry};
use crate::log::claim_line::{ClaimEntry, ClaimLine};
use crate::log::compacted_line::{CompactedLine, Compaction};
use crate::log::erasure_line::{ErasureEntry, ErasureLine};
use crate::log::handed_line::{HandedEntry, HandedLine};
use crate::log::license_line::LicenseLine;
use crate::log::license_words;
use crate::log::line_event::{ChangesBy, EventLine, EventTexts, LineActor, LineEvent};
use crate::log::position::Position;
use crate::log::release_line::{ReleaseEntry, ReleaseLine};
use crate::log::reminder_line::{ReminderEntry, ReminderLine};
use crate::log::rollout_line::{RolloutEntry, RolloutLine};
use crate::log::sale_line::{EarlierSaleLine, SaleEntry, SaleLine};
use crate::log::session_line::{SessionEntry, SessionLine};
use crate::log::token_line::TokenLine;
use crate::log::vouch_line::{VouchEntry, VouchLine};
use countersign_model::api_token::ApiToken;
use countersign_model::digest::Digest;
use countersign_model::issued_license::{ChangeScope, IssuedLicense};
use countersign_model::license_key::LicenseId;

/// Declares [`LedgerEvent`] and [`KINDS`]: for each kind of line its event, the value of `event`, and the lines that say it.
macro_rules! kinds_of_lines {
    ($($(#[$doc:meta])* $kind:ident($event:ty) = $($name:literal $line:ty),+;)+) => {
        /// The event of a line.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum LedgerEvent {
            $($(#[$doc])* $kind($event),)+
        }

        impl LedgerEvent {
            fn line(&self) -> &dyn LineEvent {
                match self {
                    $(Self::$kind(event) => event.line(),)+
                }
            }
        }

        /// The kinds of lines that this version knows, the most frequent first.
        pub(super) const KINDS: &[LineKind] = &[
            $($(LineKind {
                name: $name,
                read: |bytes| read::<$line>(bytes, LedgerEvent::$kind),
                members: members_of::<$line>,
            },)+)+
        ];
    };
}

kinds_of_lines! {
    /// A site was bound.
    Bound(LedgerEntry) = "bound" BoundLine;
    /// A license was issued or changed: the whole license as it is now.
    License(Arc<IssuedLicense>) = "license" LicenseLine;
    /// A client released a site, or moved it to another host.
    Released(ReleaseEntry) = "released" ReleaseLine;
    /// A shop reported a change of a sale.
    Sale(Arc<SaleEntry>) = "sold" SaleLine, "sale" EarlierSaleLine;
    /// A token was made, revoked, or used on a new day: the whole token as it is now.
    Token(Arc<ApiToken>) = "token" TokenLine;
    /// A site that was installed again claimed its binding, or what became of that.
    Claimed(ClaimEntry) = "claimed" ClaimLine;
    /// A customer was erased.
    Erased(ErasureEntry) = "erased" ErasureLine;
    /// A mail reminds of licenses, or all reminders were switched.
    Reminded(Arc<ReminderEntry>) = "reminded" ReminderLine;
    /// A session or code of pages ended early.
    Session(SessionEntry) = "session" SessionLine;
    /// A step of a rollout.
    Rollout(RolloutEntry) = "rollout" RolloutLine;
    /// Somebody vouched for a license, or took that back.
    Vouched(Arc<VouchEntry>) = "vouched" VouchLine;
    /// The customer of a license got something.
    Handed(Arc<HandedEntry>) = "handed" HandedLine;
    /// The first line of a compacted ledger.
    Compacted(Compaction) = "compacted" CompactedLine;
}

/// The names of all kinds of lines.
#[cfg(test)]
pub(crate) fn kinds() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|kind| kind.name)
}

/// How lines of a kind are read.
pub(super) struct LineKind {
    /// The value of `event`.
    pub name: &'static str,
    /// Parses such a line.
    pub read: fn(&[u8]) -> serde_json::Result<ReadLine>,
    /// The members that such a line may have.
    pub members: fn() -> LineMembers,
}

/// What is in a line: `sequence`, `previous` and `synced`, and the event.
pub(super) type ReadLine = ((u64, Digest, u64), LedgerEvent);

fn read<L: EventLine>(bytes: &[u8], event: fn(L::Event) -> LedgerEvent) -> serde_json::Result<ReadLine> {
    let line: L = serde_json::from_slice(bytes)?;
    Ok((line.place(), event(line.event()?)))
}

impl LedgerEvent {
    /// The binding, if it makes one.
    pub fn binding(self) -> Option<LedgerEntry> {
        match self {
            Self::Bound(entry) => Some(entry),
            Self::Released(ReleaseEntry { license, successor, .. }) => {
                successor.map(|binding| LedgerEntry { license, binding })
            }
            _ => None,
        }
    }

    /// Appends its line, which continues `previous`.
    pub(super) fn write(&self, bytes: &mut Vec<u8>, previous: Position, synced: u64) -> serde_json::Result<()> {
        self.line().write(bytes, previous, synced)
    }

    /// When it happened.
    pub fn time(&self) -> DateTime<Utc> {
        self.line().time()
    }

    /// The license that it is about; `None` if it is about something else.
    pub fn license(&self) -> Option<&LicenseId> {
        self.line().license()
    }

    /// The texts that it names.
    pub fn texts(&self) -> EventTexts {
        self.line().texts()
    }

    /// The token, the shop or the command. What a site, a customer or the server does by itself has none.
    pub(crate) fn scope(&self) -> Option<&ChangeScope> {
        self.line().scope()
    }

    /// Whose doing it is where it names nobody.
    pub(crate) fn actor(&self) -> LineActor {
        self.line().actor()
    }

    /// A word for the event, such as `renewed`, and what changed. `before` is the license before this line; without
    /// it, the license is described as a new one.
    pub(crate) fn words(&self, before: Option<&IssuedLicense>) -> (&'static str, Vec<String>) {
        match (self, before) {
            (Self::License(after), Some(before)) => (after.kind.into(), license_words::changes(before, after)),
            _ => self.line().words(),
        }
    }

    /// Whose changes it counts among; `None` if no list of changes shows it.
    pub(crate) fn change(&self) -> Option<ChangesBy> {
        self.line().change()
    }
}

/// The names of the members of a line.
type LineMembers = &'static [&'static str];

/// The members of `L`, as `serde` derives them: there is no second list of them.
fn members_of<L: DeserializeOwned>() -> LineMembers {
    let mut found: LineMembers = &[];
    // It reads nothing, so it fails.
    let _ = L::deserialize(MemberNames(&mut found));
    found
}

/// Notes the names that a struct asks for.
struct MemberNames<'n>(&'n mut LineMembers);

impl<'de> de::Deserializer<'de> for MemberNames<'_> {
    type Error = de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(de::Error::custom("there is nothing to read"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        members: LineMembers,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        *self.0 = members;
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}
