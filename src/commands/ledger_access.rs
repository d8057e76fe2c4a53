//! Changes the ledger for a command: through the running server, or by itself where none runs.
//!
//! With a database, the command is one node more for a moment, so it works on any machine that has the database's address.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::process::geteuid;

use crate::commands::Failure;
use crate::commands::server_questions::QuestionError;
use crate::commands::store::store_failure;
use crate::serve::ops::admin_socket::ConnectError;
use countersign_ledger::{Ledger, StoreError};
use countersign_model::text::printable::Printable;
use countersign_model::text::stderr;
use countersign_settings::config::Config;

/// Why a command does not open the store itself.
#[derive(Debug, thiserror::Error)]
enum AccessError {
    #[error("{0}: there is no store yet, and its folder belongs to another user")]
    NoStore(String),
    #[error("{0}: the store belongs to another user")]
    AnotherUser(String),
}

/// Asks the running server; without one, works on the store itself.
pub(super) fn through<T>(
    config: &Config,
    ask: impl FnOnce() -> Result<T, QuestionError>,
    own: impl AsyncFnOnce(&Ledger) -> Result<T, StoreError>,
) -> Result<T, Failure> {
    let folder = &config.paths.store;
    let unanswered = match ask() {
        Err(error) if error.may_mean_no_server() => error,
        asked => return Ok(asked?),
    };
    let opened = match &config.paths.database {
        Some(address) => countersign_ledger::open_shared(address, folder, config.store.is_synchronous_assumed()),
        None => {
            require_own(folder)?;
            countersign_ledger::open(folder)
        }
    };
    let bindings = match opened {
        Err(StoreError::InUse(_)) => return Err(unanswered.into()),
        opened => opened.map_err(store_failure)?,
    };
    if let QuestionError::Connect(ConnectError::NobodyListens(socket)) = &unanswered {
        stderr::line(format_args!(
            "note: no server runs: a server that was killed has left {}. This command works on the store itself",
            Printable(socket.display())
        ));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = runtime.map_err(Failure::environment)?.block_on(own(&bindings));
    let closed = bindings.close();
    let done = done.map_err(store_failure)?;
    closed.map_err(store_failure)?;
    Ok(done)
}

/// The server could not open a store, or files in it, that another user made. So this user must own the store; where there is
/// none yet, the folder that it is made in.
fn require_own(folder: &Path) -> Result<(), Failure> {
    let shown = folder.display().to_string();
    let is_foreign = |found: &fs::Metadata| found.uid() != geteuid().as_raw();
    match fs::metadata(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
            match fs::metadata(parent.unwrap_or(Path::new("."))).map(|found| is_foreign(&found)) {
                Ok(true) => {
                    Err(Failure::environment(AccessError::NoStore(shown)).hint("run this as the user of the server"))
                }
                _ => Ok(()),
            }
        }
        Ok(found) if is_foreign(&found) => {
            Err(Failure::environment(AccessError::AnotherUser(shown)).hint("run this as the user of the server"))
        }
        _ => Ok(()),
    }
}
