//! The file of a delivery: a line with the shop and the time, then the body, byte for byte.

use std::io;
use std::path::PathBuf;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::regular_file;
use countersign_model::slug::Slug;

use crate::spool::delivery_name::DeliveryName;
use crate::spool::error::SpoolError;

/// The largest file in bytes: a delivery of 1 MiB and its head.
const MAX_FILE: u64 = (1 << 20) + 4_096;

/// A delivery in the spool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpooledDelivery {
    /// The digest that it is filed under.
    pub name: DeliveryName,
    /// The name of the shop.
    pub shop: Slug,
    /// When it arrived.
    pub received: DateTime<Utc>,
    /// The body, byte for byte.
    pub body: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeliveryHead {
    received: DateTime<Utc>,
    shop: Slug,
}

/// The content of the file.
pub(super) fn bytes(shop: &Slug, received: DateTime<Utc>, body: &[u8]) -> io::Result<Vec<u8>> {
    let shop = shop.clone();
    let mut bytes = serde_json::to_vec(&DeliveryHead { received, shop })?;
    bytes.push(b'\n');
    bytes.extend_from_slice(body);
    Ok(bytes)
}

/// Reads a file of this name.
pub(super) fn read(path: PathBuf, name: &DeliveryName) -> Result<SpooledDelivery, SpoolError> {
    let bytes = regular_file::read(&path, MAX_FILE).map_err(|source| SpoolError::Io {
        path: path.clone(),
        source,
    })?;
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let head: Option<DeliveryHead> = serde_json::from_slice(&bytes[..end]).ok();
    let body = bytes.get(end + 1..).unwrap_or_default();
    match head {
        Some(DeliveryHead { received, shop }) if DeliveryName::of(&shop, body) == *name => Ok(SpooledDelivery {
            name: name.clone(),
            shop,
            received,
            body: body.to_vec(),
        }),
        _ => Err(SpoolError::Damaged(path)),
    }
}
