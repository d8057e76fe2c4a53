//! Claims of reminders: a node has a line in the ledger before it sends a mail, so that no license is reminded twice of one end, however
//! many nodes look. And the switch of all reminders, whose time is the same on all nodes.

use chrono::{DateTime, NaiveDate, Utc};

use countersign_model::issued_license::Hex128;
use countersign_model::license_key::LicenseId;
use countersign_model::reminder::ReminderKind;

use crate::command::{CommitTurn, LedgerCommand};
use crate::draft::CommitDraft;
use crate::log::record::LedgerEvent;
use crate::log::{ReminderEntry, SentReminder};
use crate::reminder_table::ReminderTable;

/// The most licenses of one claim.
pub const MOST_LICENSES: usize = 100;

/// The licenses that a mail reminds of.
#[derive(Clone, Debug)]
pub struct ReminderClaim {
    /// The last day of the licenses.
    pub expires: NaiveDate,
    /// Which reminder.
    pub kind: ReminderKind,
    /// The licenses, at most [`MOST_LICENSES`].
    pub licenses: Vec<LicenseId>,
    /// The mail's number: random.
    pub mail: Hex128,
    /// When. A shared ledger uses its own clock.
    pub now: DateTime<Utc>,
}

impl LedgerCommand for ReminderClaim {
    /// How many licenses the mail has.
    type Outcome = usize;
    const TURN: CommitTurn = CommitTurn::Token;
    const MOST_LINES: usize = 1;

    fn decide(&self, draft: &mut CommitDraft<'_>) -> usize {
        let time = draft.now(self.now);
        let licenses: Vec<_> = {
            let memory = draft.memory.events();
            let is_free = |license: &&LicenseId| {
                let claimed = |table: &ReminderTable| table.mail_of(license, self.expires, self.kind).is_some();
                !claimed(&draft.events.reminders) && !claimed(&memory.reminders)
            };
            let free = self.licenses.iter().filter(is_free).take(MOST_LICENSES);
            free.copied().collect()
        };
        let count = licenses.len();
        if count > 0 {
            let sent = SentReminder {
                expires: self.expires,
                kind: self.kind,
                licenses,
                mail: self.mail,
                time,
            };
            draft.append(LedgerEvent::Reminded(ReminderEntry::Sent(sent).into()));
        }
        count
    }
}

impl From<SentReminder> for ReminderClaim {
    fn from(sent: SentReminder) -> Self {
        Self {
            expires: sent.expires,
            kind: sent.kind,
            licenses: sent.licenses,
            mail: sent.mail,
            now: sent.time,
        }
    }
}

/// Reminders are sent from now on, or not any more.
#[derive(Clone, Debug)]
pub struct ReminderSwitch {
    /// Whether they are.
    pub on: bool,
    /// When. A shared ledger uses its own clock.
    pub now: DateTime<Utc>,
}

impl LedgerCommand for ReminderSwitch {
    type Outcome = ();
    const TURN: CommitTurn = CommitTurn::Token;
    const MOST_LINES: usize = 1;

    fn decide(&self, draft: &mut CommitDraft<'_>) {
        let known = draft.events.reminders.switched();
        let known = known.or(draft.memory.events().reminders.switched());
        if known.unwrap_or(false) != self.on {
            let time = draft.now(self.now);
            let entry = ReminderEntry::Switched { on: self.on, time };
            draft.append(LedgerEvent::Reminded(entry.into()));
        }
    }
}
