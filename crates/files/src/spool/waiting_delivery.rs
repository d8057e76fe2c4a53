//! The deliveries in a folder of the spool, by the names of their files.

use std::fs;
use std::path::Path;

use crate::spool::delivery_name::DeliveryName;
use crate::spool::error::SpoolError;

/// How far a delivery is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryStage {
    /// Nobody looked at it yet.
    New,
    /// It changes a sale that is not issued yet.
    Early,
}

impl DeliveryStage {
    pub(super) const ALL: [Self; 2] = [Self::New, Self::Early];

    /// The ending of its file's name.
    pub(super) fn ending(self) -> &'static str {
        match self {
            Self::New => "",
            Self::Early => ".early",
        }
    }
}

/// A delivery that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingDelivery {
    /// The digest that it is filed under.
    pub name: DeliveryName,
    /// How far it is.
    pub stage: DeliveryStage,
    /// When its file was changed last.
    changed: std::time::SystemTime,
}

impl WaitingDelivery {
    /// When it came, or got as far as it is.
    pub fn changed(&self) -> std::time::SystemTime {
        self.changed
    }
}

/// The deliveries in a folder, the oldest first. Files of other names are passed over.
pub(super) fn list(folder: &Path) -> Result<Vec<WaitingDelivery>, SpoolError> {
    let failed = |source| SpoolError::Io {
        path: folder.to_owned(),
        source,
    };
    let mut waiting = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let text = entry.file_name();
        let Some(text) = text.to_str() else { continue };
        let (stem, stage) = match text.strip_suffix(DeliveryStage::Early.ending()) {
            Some(stem) => (stem, DeliveryStage::Early),
            None => (text, DeliveryStage::New),
        };
        let Ok(name) = stem.parse() else { continue };
        // One that is gone was applied meanwhile.
        let Ok(metadata) = entry.metadata() else { continue };
        waiting.push(WaitingDelivery {
            name,
            stage,
            changed: metadata.modified().unwrap_or(std::time::UNIX_EPOCH),
        });
    }
    waiting.sort_by(|one, other| (one.changed, &one.name).cmp(&(other.changed, &other.name)));
    Ok(waiting)
}
