//! One group commit: the requests that share it, and what it adds to the ledger.
//!
//! A backend first passes on what other nodes appended ([`BindingBatch::learn`]), then asks for the lines to append
//! ([`BindingBatch::decide`]), and makes them durable. Only then does memory change, and the requests are answered. [`CommitAttempt`]
//! knows what became of an attempt that nobody confirmed.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::command::WaitingRequest;
use crate::draft::CommitDraft;
use crate::ledger_tables::LedgerTables;
use crate::log::Position;
use crate::log::record::LedgerEvent;
use crate::memory::BindingMemory;
use crate::texts::NewText;

/// The requests of one group commit.
pub(crate) struct BindingBatch<'m> {
    /// In the order in which they are decided.
    requests: Vec<WaitingRequest>,
    draft: CommitDraft<'m>,
    attempt: CommitAttempt,
    /// What takes memory's place, if the log differs from it.
    replacement: Option<LedgerTables>,
}

impl<'m> BindingBatch<'m> {
    /// A batch of these requests, which may be none.
    pub(crate) fn new(memory: &'m BindingMemory, mut requests: Vec<WaitingRequest>) -> Self {
        requests.sort_by_key(|request| request.turn());
        Self {
            requests,
            draft: CommitDraft::new(memory),
            attempt: CommitAttempt::default(),
            replacement: None,
        }
    }

    /// What is in force before this commit.
    pub(crate) fn memory(&self) -> &'m BindingMemory {
        self.draft.memory
    }

    /// Forgets what was learned: another attempt begins. What was decided counts if its lines turn out to be in the log.
    pub(crate) fn begin_again(&mut self) {
        let was_sent = self.attempt.begin_again();
        self.requests
            .iter_mut()
            .for_each(|request| request.begin_again(was_sent));
        self.draft = CommitDraft::new(self.draft.memory);
    }

    /// Takes the event of a line that another node appended.
    pub(crate) fn learn(&mut self, event: LedgerEvent) {
        self.draft.learn(event);
    }

    /// Takes the position of a line that was read: it may be one that an earlier attempt of this commit sent.
    pub(crate) fn read_to(&mut self, line: Position) {
        self.attempt.read(line);
    }

    /// Notes the last line of this attempt before it is sent.
    pub(crate) fn send(&mut self, last: Position) {
        self.attempt.send(last);
    }

    /// Has memory replaced: the log differs from it, and is right. For a batch without requests.
    pub(crate) fn replace_memory(&mut self, tables: LedgerTables) {
        self.replacement = Some(tables);
    }

    /// Decides every request; returns the events to append. `clock` is the time of a log that several nodes share,
    /// whose own clocks may differ.
    ///
    /// An earlier attempt whose lines are in the log has decided: a second decision could be another one, because others
    /// went on from these lines.
    pub(crate) fn decide(&mut self, clock: Option<DateTime<Utc>>) -> &[LedgerEvent] {
        if self.attempt.is_confirmed() {
            self.requests.iter_mut().for_each(|request| request.confirm());
            return self.draft.appended();
        }
        self.draft.set_clock(clock);
        for request in &mut self.requests {
            request.decide(&mut self.draft);
        }
        self.draft.appended()
    }

    /// The texts of orders to keep with what was decided.
    pub(crate) fn texts(&self) -> &[NewText] {
        self.draft.texts.all()
    }

    /// The events to append.
    pub(crate) fn appended(&self) -> &[LedgerEvent] {
        self.draft.appended()
    }

    /// How many requests wait for this commit.
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Puts durable changes in force, and answers. After a failure, nothing is in force and every request fails.
    pub(crate) fn complete(mut self, result: Result<(), Arc<str>>) {
        if result.is_ok() {
            if let Some(tables) = self.replacement {
                self.draft.memory.replace(tables);
            }
            self.draft.put_in_force();
        }
        self.requests.iter_mut().for_each(|request| request.finish(&result));
    }
}

/// Lines that were sent with a COMMIT. If no answer comes, they may be in the log.
#[derive(Default)]
struct CommitAttempt {
    /// The last of the lines that this attempt sends; `None` before it sends any.
    sent: Option<Position>,
    /// What an earlier attempt sent last.
    unconfirmed: Option<Position>,
    /// Whether the lines of the earlier attempt were read in the log.
    is_there: bool,
}

impl CommitAttempt {
    /// Notes the last line before it is sent.
    fn send(&mut self, last: Position) {
        self.sent = Some(last);
    }

    /// Another attempt begins; whether this one sent lines.
    fn begin_again(&mut self) -> bool {
        self.is_there = false;
        let sent = self.sent.take();
        self.unconfirmed = sent.or(self.unconfirmed);
        sent.is_some()
    }

    /// Looks whether a line that was read is the last one of the earlier attempt. Number and digest say so.
    fn read(&mut self, line: Position) {
        self.is_there |= self.unconfirmed == Some(line);
    }

    /// Whether the lines of the earlier attempt are in the log. It is asked once: then this attempt decides again.
    fn is_confirmed(&mut self) -> bool {
        self.unconfirmed.take().is_some() && self.is_there
    }
}
