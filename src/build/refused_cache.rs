//! Tags that were refused, in `cache/refused/`: the next build neither reads nor packs them again.
//!
//! The key of a refusal is a digest of everything that it depends on: a changed tag, entry or program does not find it. Only
//! a refusal whose reason is in the tag is kept, because a file that cannot be read today may be readable tomorrow.
//! [`release_builder`](crate::build::release_builder) reads and adds refusals.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::build::report::outcome::Reason;
use countersign_files::durable_file::{self, Access};
use countersign_files::regular_file;
use countersign_model::digest::Digest;
use countersign_model::slug::Slug;
use countersign_model::version::Version;

/// Version of the rules that refuse tags and packages. Raise it when they change, so that no refusal of older rules is used.
const RULES: u32 = 3;

/// Size limit of a file in bytes: some 100,000 refusals.
const LIMIT: u64 = 64 << 20;

/// The refusals of one plugin.
pub(super) struct RefusedCache {
    place: PathBuf,
    before: BTreeMap<Digest, RefusedTag>,
    now: BTreeMap<Digest, RefusedTag>,
}

/// Why a tag gives no release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RefusedTag {
    /// The version that it would be published under.
    pub version: Version,
    /// A reason that [is in the tag](Reason::is_in_the_tag).
    pub reason: Reason,
}

impl RefusedCache {
    /// What earlier builds wrote into the folder `cache`; nothing if there is no such file, or it is damaged.
    pub(super) fn of(cache: &Path, slug: &Slug) -> Self {
        let place = cache.join("refused").join(format!("{slug}.json"));
        let bytes = regular_file::read(&place, LIMIT).unwrap_or_default();
        Self {
            before: serde_json::from_slice(&bytes).unwrap_or_default(),
            now: BTreeMap::new(),
            place,
        }
    }

    /// The refusal of the tag with these inputs.
    pub(super) fn get(&self, inputs: Digest) -> Option<&RefusedTag> {
        self.before.get(&key(inputs))
    }

    /// Keeps a refusal for the next build.
    pub(super) fn keep(&mut self, inputs: Digest, refusal: RefusedTag) {
        self.now.insert(key(inputs), refusal);
    }

    /// Writes what was kept. A failure costs time only: the next build reads the tags again.
    pub(super) fn write(&self) {
        if self.now == self.before {
            return;
        }
        let Some(folder) = self.place.parent() else { return };
        let _ = durable_file::create_folders(folder, Access::LikeFolder)
            .and_then(|()| durable_file::replace(&self.place, &serde_json::to_vec(&self.now)?));
    }
}

fn key(inputs: Digest) -> Digest {
    Digest::of(json!([RULES, inputs]).to_string().as_bytes())
}
