//! Work of the spool's disk, on a thread that may wait.

use std::sync::Arc;

use tokio::task::spawn_blocking;

use crate::serve::state::Service;
use countersign_files::spool::{Spool, SpoolError};

/// Does work of the disk on a thread that may wait.
pub(super) async fn in_spool<T: Send + 'static>(
    service: &Arc<Service>,
    work: impl FnOnce(&Spool) -> Result<T, SpoolError> + Send + 'static,
) -> Result<T, SpoolError> {
    let Some(spool) = service.hooks.spool().cloned() else {
        return Err(SpoolError::Stopped("there is no shop".to_owned()));
    };
    let done = spawn_blocking(move || work(&spool)).await;
    done.unwrap_or_else(|error| Err(SpoolError::Stopped(error.to_string())))
}
