//! Whether a node has kept what it knew when the log lost lines, and what it tells the operator about it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use chrono::Utc;

use crate::error::{BackendError, LedgerState};
use crate::memory::BindingMemory;
use crate::postgres::kept_memory::{self, KeptFile};
use crate::postgres::session::KnownLog;

/// When to try again after a failure, such as on a full disk. A million bindings take some seconds.
const RETRY: Duration = Duration::from_secs(30);

/// What a node kept since the log lost lines.
pub(super) struct KeptLines {
    folder: PathBuf,
    file: Option<KeptFile>,
    failed: Option<(Instant, String)>,
}

impl KeptLines {
    /// Nothing is lost yet.
    pub(super) fn in_folder(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            file: None,
            failed: None,
        }
    }

    /// Removes the file, if the log has its lines again. After a repair of the log the file stays, because a person decides about it.
    pub(super) fn remove_if_restored(&mut self, is_restored: bool) {
        self.failed = None;
        if let Some(file) = self.file.take().filter(|_| is_restored) {
            file.remove();
        }
    }

    /// The error of an attempt. If the log lost lines, memory is kept, and the error says what to do.
    pub(super) fn after(&mut self, error: BackendError, known: KnownLog, memory: &BindingMemory) -> BackendError {
        if error.state != LedgerState::LinesLost {
            return error;
        }
        self.keep(known, memory);
        let kept = match (&self.file, &self.failed) {
            (Some(file), _) => format!("this node keeps what it knows in {}", file.path.display()),
            (None, Some((_, why))) => format!("this node cannot write what it knows ({why}), so do not restart it"),
            (None, None) => "this node knows more".to_owned(),
        };
        let what = error.message;
        BackendError {
            message: format!(
                "{what}; {kept}; bring back the server that has these lines, or run `countersign bindings repair` as the \
                 owner of the tables"
            ),
            ..error
        }
    }

    fn keep(&mut self, known: KnownLog, memory: &BindingMemory) {
        let is_due = self.failed.as_ref().is_none_or(|(at, _)| at.elapsed() >= RETRY);
        if self.file.is_some() || !is_due {
            return;
        }
        match kept_memory::write(&self.folder, known, memory, Utc::now()) {
            Ok(file) => {
                tracing::warn!(file = %file.path.display(), "the shared ledger lost lines: kept what this node knows");
                self.file = Some(file);
                self.failed = None;
            }
            Err(error) => {
                tracing::error!(%error, "the shared ledger lost lines, and this node cannot write what it knows");
                self.failed = Some((Instant::now(), error.to_string()));
            }
        }
    }
}
