//! How a node starts: it reads the whole log, or goes on with what it kept when the log lost lines.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::{BackendError, LedgerState};
use crate::postgres::kept_memory::{self, KeptFile};
use crate::postgres::load::{self, LoadedLog};
use crate::postgres::node_state::prove_in_time;
use crate::postgres::session::{KnownLog, Session};
use crate::postgres::settings::DatabaseSettings;
use crate::postgres::text_erasure;

/// What a node knows when it starts.
pub(super) struct NodeStart {
    /// `None` where no server has the lines that the node had read.
    pub session: Option<Session>,
    pub loaded: LoadedLog,
    pub epoch: i32,
    /// How long ago the node knew all of the log.
    pub age: Duration,
}

/// Connects, and reads the log. A node that kept its memory goes on with it, until the lines are back or a person repaired
/// the log.
pub(super) async fn start(settings: &DatabaseSettings, folder: &Path) -> Result<NodeStart, BackendError> {
    let Some(kept) = kept_memory::files_in(folder)?.pop() else {
        let session = Session::open(settings, KnownLog::none(), None).await?;
        return read(session).await;
    };
    let loaded = kept.read()?;
    let known = KnownLog {
        end: loaded.end,
        epoch: kept.epoch,
    };
    match Session::open(settings, known, None).await {
        Ok(session) => {
            let start = read(session).await?;
            remove_if_restored(&kept, start.epoch);
            Ok(start)
        }
        Err(error) if error.state == LedgerState::LinesLost => {
            tracing::warn!(
                file = %kept.path.display(),
                lines = loaded.end.sequence,
                "the shared ledger lacks lines: this node goes on with what it had kept"
            );
            Ok(NodeStart {
                session: None,
                loaded,
                epoch: kept.epoch,
                age: kept.age(),
            })
        }
        Err(error) => Err(error),
    }
}

/// Removes the file with the lines that the node kept, if the log has these lines again. After a repair of the log the file stays, because
/// a person decides about it.
fn remove_if_restored(kept: &KeptFile, epoch: i32) {
    match epoch == kept.epoch {
        true => kept.remove(),
        false => tracing::warn!(
            file = %kept.path.display(),
            "the shared ledger was repaired; `countersign bindings repair` says whether this file has more"
        ),
    }
}

async fn read(session: Session) -> Result<NodeStart, BackendError> {
    let begun = Instant::now();
    let loaded = load::all(&session.client).await?;
    // What was read is proved: a primary that was replaced does not commit.
    let epoch = prove_in_time(&session).await?.epoch;
    // A backup may have brought them back, or the process that erased them was killed.
    let erased: Vec<_> = loaded.tables.events.erased.numbers().into_iter().collect();
    if !erased.is_empty() {
        text_erasure::forget_in_time(&session, &erased).await?;
    }
    tracing::info!(
        server = session.server,
        lines = loaded.end.sequence,
        "read the shared ledger"
    );
    Ok(NodeStart {
        session: Some(session),
        loaded,
        epoch,
        age: begun.elapsed(),
    })
}
