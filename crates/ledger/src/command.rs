//! A request that a group commit decides: what each kind of request says of itself, how it waits, and where its answer goes.
//!
//! Commands such as `SessionEnd` implement [`LedgerCommand`]; `binding_batch` decides them by [`InCommit`].

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::draft::CommitDraft;
use crate::error::StoreError;

/// The most lines of a request, unless it is an import.
pub(crate) const LINES: usize = 2;

/// A request that a group commit decides.
pub(crate) trait LedgerCommand: Send + 'static {
    /// The result, which the sender gets once the lines are durable.
    type Outcome: Send + 'static;
    /// When it is decided.
    const TURN: CommitTurn;
    /// How many lines it has at most, without those of staging copies that leave.
    const MOST_LINES: usize;

    /// Decides it by what is durable and what this commit has decided before. Its lines are added to the draft.
    fn decide(&self, draft: &mut CommitDraft<'_>) -> Self::Outcome;
}

/// The order in which a commit decides its requests; those of one turn are decided as they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CommitTurn {
    /// First, so that the seats are free for those who ask for one.
    Release,
    Bind,
    /// After binds, so that a step sees the seats that this commit gives.
    License,
    Token,
    Sale,
    /// At most one in a commit.
    Import,
}

/// A command that waits for a group commit, and the outcome that the commit decides.
struct WaitingCommand<C: LedgerCommand> {
    command: C,
    /// Until it is answered.
    answer: Option<Answer<C::Outcome>>,
    decided: Option<C::Outcome>,
    /// What an earlier attempt of the commit decided, which nobody confirmed.
    unconfirmed: Option<C::Outcome>,
}

/// The steps of a commit, whatever a request asks for.
pub(crate) trait InCommit: Send {
    /// When it is decided.
    fn turn(&self) -> CommitTurn;
    /// Decides it. The answer is sent once the commit is durable.
    fn decide(&mut self, draft: &mut CommitDraft<'_>);
    /// Another attempt of the commit begins. What this one decided is kept if its lines were sent.
    fn begin_again(&mut self, was_sent: bool);
    /// The lines of an earlier attempt are in the log: what it decided counts.
    fn confirm(&mut self);
    /// Answers with what was decided. After a failure nothing is in force, and the request fails.
    fn finish(&mut self, result: &Result<(), Arc<str>>);
}

/// A request of any kind that waits for a group commit.
pub(crate) type WaitingRequest = Box<dyn InCommit>;

/// A command that waits for a group commit, and what waits for its answer.
pub(crate) fn waiting<C: LedgerCommand>(command: C) -> (WaitingRequest, Pending<C::Outcome>) {
    const { assert!(C::MOST_LINES <= LINES || matches!(C::TURN, CommitTurn::Import)) };
    let (answer, pending) = pending();
    let waiting = WaitingCommand {
        command,
        answer: Some(answer),
        decided: None,
        unconfirmed: None,
    };
    (Box::new(waiting), pending)
}

impl<C: LedgerCommand> InCommit for WaitingCommand<C> {
    fn turn(&self) -> CommitTurn {
        C::TURN
    }

    fn decide(&mut self, draft: &mut CommitDraft<'_>) {
        self.decided = Some(self.command.decide(draft));
    }

    fn begin_again(&mut self, was_sent: bool) {
        let decided = self.decided.take();
        if was_sent {
            self.unconfirmed = decided;
        }
    }

    fn confirm(&mut self) {
        self.decided = self.unconfirmed.take();
    }

    fn finish(&mut self, result: &Result<(), Arc<str>>) {
        let decided = self.decided.take().ok_or_else(|| "the commit decided nothing".into());
        let outcome = result.clone().and(decided);
        // Who asked may have left.
        let _ = self.answer.take().map(|answer| answer.send(outcome));
    }
}

/// Where the answer to a request goes. Its sender may have left.
pub(crate) type Answer<T> = oneshot::Sender<Result<T, Arc<str>>>;

/// Waits for an answer of the group commit.
pub(crate) struct Pending<T>(oneshot::Receiver<Result<T, Arc<str>>>);

/// A question to the group commit, and what waits for its answer.
pub(crate) fn pending<T>() -> (Answer<T>, Pending<T>) {
    let (answer, pending) = oneshot::channel();
    (answer, Pending(pending))
}

impl<T> Pending<T> {
    pub(crate) async fn wait(self) -> Result<T, StoreError> {
        match self.0.await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(reason)) => Err(StoreError::NotDurable(reason)),
            Err(_) => Err(StoreError::Closed),
        }
    }
}
