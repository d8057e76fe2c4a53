//! The place of an endpoint's progress: in the node's own folder, or in the database that nodes share.
//!
//! With a database, only the node that holds the endpoint's lease sends the events of the ledger and of the time. A node
//! sends what it keeps in its own folder itself, whichever node holds the lease.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use chrono::{DateTime, Utc};

use crate::serve::webhooks::endpoint::SendingError;
use crate::serve::webhooks::sender_lease::SenderLease;
use crate::webhook::outbox::{EndpointProgress, Outbox};
use countersign_ledger::log::Position;
use countersign_ledger::{Ledger, StoreSource};

/// The place of an endpoint's progress.
pub(super) enum ProgressPlace {
    /// This server alone sends to the endpoint.
    Own(Outbox),
    /// The nodes of a shared ledger take turns.
    Shared {
        lease: SenderLease,
        /// The turn of the last look.
        term: i64,
    },
}

impl ProgressPlace {
    /// The place for this ledger. `name` is the endpoint's.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(super) fn new(outbox: &Outbox, ledger: &Ledger, name: &str, is_stopping: &Arc<AtomicBool>) -> io::Result<Self> {
        match (ledger.source(), ledger.node()) {
            (StoreSource::Database(address), Some(node)) => Ok(Self::Shared {
                lease: SenderLease::start(address, name, node, Arc::clone(is_stopping))?,
                term: 0,
            }),
            _ => Ok(Self::Own(outbox.clone())),
        }
    }

    /// Which node has the turn.
    pub(super) fn look(&mut self) -> Result<SenderTurn, SendingError> {
        let Self::Shared { lease, term } = self else {
            return Ok(SenderTurn::Own);
        };
        match lease.hold()? {
            None => Ok(SenderTurn::Others),
            Some(held) if held.term == *term => Ok(SenderTurn::Own),
            Some(held) => {
                *term = held.term;
                Ok(SenderTurn::New)
            }
        }
    }

    /// Whether this node may tell the endpoint now.
    pub(super) fn may_send(&self) -> bool {
        match self {
            Self::Own(_) => true,
            Self::Shared { lease, .. } => lease.is_held(),
        }
    }

    /// The progress of the endpoint. A new endpoint begins behind this line.
    pub(super) fn load(&self, end: Position, now: DateTime<Utc>) -> Result<EndpointProgress, SendingError> {
        let stored = match self {
            Self::Own(outbox) => outbox.progress()?,
            Self::Shared { lease, .. } => {
                let held = lease.hold()?.ok_or(SendingError::OtherNode)?;
                serde_json::from_str(&held.progress).map_err(|_| SendingError::Cursor)?
            }
        };
        if let Some(progress) = stored {
            return Ok(progress);
        }
        let progress = EndpointProgress::beginning_after(end, now);
        self.save(&progress)?;
        Ok(progress)
    }

    /// Stores the progress durably.
    pub(super) fn save(&self, progress: &EndpointProgress) -> Result<(), SendingError> {
        match self {
            Self::Own(outbox) => Ok(outbox.save(progress)?),
            Self::Shared { lease, term } => {
                let json = serde_json::to_string(progress).map_err(|_| SendingError::Cursor)?;
                match lease.save(*term, &json)? {
                    true => Ok(()),
                    false => Err(SendingError::OtherNode),
                }
            }
        }
    }

    /// At the end of the server: lets another node go on at once.
    pub(super) fn give_up(&self) {
        if let Self::Shared { lease, .. } = self {
            lease.give_up();
        }
    }
}

/// Which node has the turn to send to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SenderTurn {
    /// This node's, as at the last look.
    Own,
    /// This node's, and it was another one's since the last look.
    New,
    /// Another node's.
    Others,
}
