//! What became of an attempt of a group commit that nobody confirmed.

use crate::log::Position;

/// Lines that were sent with a COMMIT. If no answer comes, they may be in the log.
#[derive(Default)]
pub(crate) struct CommitAttempt {
    /// The last of the lines that this attempt sends; `None` before it sends any.
    sent: Option<Position>,
    /// What an earlier attempt sent last.
    unconfirmed: Option<Position>,
    /// Whether the lines of the earlier attempt were read in the log.
    is_there: bool,
}

impl CommitAttempt {
    /// Notes the last line before it is sent.
    pub(crate) fn send(&mut self, last: Position) {
        self.sent = Some(last);
    }

    /// Another attempt begins; whether this one sent lines.
    pub(crate) fn begin_again(&mut self) -> bool {
        self.is_there = false;
        let sent = self.sent.take();
        self.unconfirmed = sent.or(self.unconfirmed);
        sent.is_some()
    }

    /// Looks whether a line that was read is the last one of the earlier attempt. Number and digest say so.
    pub(crate) fn read(&mut self, line: Position) {
        self.is_there |= self.unconfirmed == Some(line);
    }

    /// Whether the lines of the earlier attempt are in the log. It is asked once: then this attempt decides anew.
    pub(crate) fn is_confirmed(&mut self) -> bool {
        self.unconfirmed.take().is_some() && self.is_there
    }
}
