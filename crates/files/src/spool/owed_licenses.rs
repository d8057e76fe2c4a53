//! Which licenses a delivery was about to issue: their keys are owed to the buyer. Written before they are issued, so that none is
//! forgotten, whatever happens to the server or to the licenses until the mail is in its queue.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::durable_file::{self, Access};
use crate::regular_file;
use crate::spool::error::SpoolError;

/// Size limit of a file, in bytes: a thousand licenses take ten thousand.
const MAX_FILE: u64 = 1 << 20;

/// Places in a sale.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwedLicenses {
    /// The line of each, and which copy of it: both from 0.
    pub places: Vec<(usize, u32)>,
}

pub(super) fn read(path: &Path) -> Result<Option<OwedLicenses>, SpoolError> {
    match regular_file::read(path, MAX_FILE) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|_| SpoolError::Damaged(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(failed(path, source)),
    }
}

pub(super) fn write(path: &Path, owed: &OwedLicenses) -> Result<(), SpoolError> {
    let written = serde_json::to_vec(owed).map_err(io::Error::other);
    let written = written.and_then(|bytes| match path.exists() {
        true => durable_file::replace(path, &bytes),
        false => durable_file::create_new(path, &bytes, Access::Owner),
    });
    written.map_err(|source| failed(path, source))
}

/// Before the delivery is deleted: one that is left then owes nothing, and its licenses are there.
pub(super) fn remove(path: &Path) -> Result<(), SpoolError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(failed(path, source)),
        _ => Ok(()),
    }
}

fn failed(path: &Path, source: io::Error) -> SpoolError {
    SpoolError::Io {
        path: path.to_owned(),
        source,
    }
}
