//! A record of the licenses last in force: their number, and a sample of their ids. The server writes it to the store's
//! folder, so that the next start can detect, as a reload does, that many licenses are missing.
//!
//! Beside it, a record of the releases last in force, for the same reason.
//!
//! License ids are digests, so the smallest ones are a random sample. Up to 512 licenses it has all ids, and the
//! answer is exact. For more, the missing share is known to within about 2 percent.

use std::io;
use std::path::Path;

use chrono::{DateTime, Utc};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use countersign_files::durable_file;
use countersign_files::regular_file;
use countersign_model::license_key::LicenseId;
use countersign_model::release_list::ReleaseList;

/// The file's name in the store's folder.
const NAME: &str = "accepted-licenses.json";

/// The name of the file with the releases.
const RELEASES: &str = "accepted-releases.json";

/// Its size limit in bytes.
const RELEASES_LIMIT: u64 = 64 << 20;

/// The size of the sample.
const SAMPLE: usize = 512;

/// Size limit of the file in bytes: twice what the sample needs.
const LIMIT: u64 = 1 << 16;

/// The licenses last in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accepted {
    licenses: usize,
    /// The smallest ids.
    sample: Vec<LicenseId>,
}

/// The releases last in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "ReleasesRecord")]
pub struct AcceptedReleases {
    /// The releases.
    pub releases: ReleaseList,
    /// The time of the newest list of removed releases that was seen.
    pub removed_at: DateTime<Utc>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ReleasesRecord {
    Whole {
        releases: ReleaseList,
        removed_at: DateTime<Utc>,
    },
    /// Of an older version.
    Releases(ReleaseList),
}

impl From<ReleasesRecord> for AcceptedReleases {
    fn from(record: ReleasesRecord) -> Self {
        match record {
            ReleasesRecord::Whole { releases, removed_at } => Self { releases, removed_at },
            ReleasesRecord::Releases(releases) => Self {
                releases,
                removed_at: DateTime::UNIX_EPOCH,
            },
        }
    }
}

impl Accepted {
    /// A record of this many licenses, whose ids are sorted.
    pub fn new(licenses: usize, ids: impl Iterator<Item = LicenseId>) -> Self {
        Self {
            licenses,
            sample: ids.take(SAMPLE).collect(),
        }
    }

    /// The number of licenses.
    pub fn licenses(&self) -> usize {
        self.licenses
    }

    /// The same without the licenses that the ledger has: one that was adopted is not missing when no file declares it any more.
    #[must_use]
    pub fn without(&self, is_in_ledger: impl Fn(&LicenseId) -> bool) -> Self {
        let rest = self.sample.iter().filter(|id| !is_in_ledger(id));
        let sample: Vec<_> = rest.copied().collect();
        let licenses = match self.sample.len() {
            0 => self.licenses,
            all => self.licenses * sample.len() / all,
        };
        Self { licenses, sample }
    }

    /// How many of them are missing among `now` licenses; `has` looks up an id.
    pub fn dropped(&self, now: usize, has: impl Fn(&LicenseId) -> bool) -> usize {
        let missing = self.sample.iter().filter(|id| !has(id)).count();
        if self.sample.len() == self.licenses {
            return missing;
        }
        let estimate = missing * self.licenses / self.sample.len().max(1);
        estimate.max(self.licenses.saturating_sub(now))
    }

    /// The record in the store's folder `store`; `None` if there is none yet.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    pub fn read(store: &Path) -> io::Result<Option<Self>> {
        read(&store.join(NAME), LIMIT)
    }

    /// Writes the record, durably.
    pub fn write(&self, store: &Path) -> io::Result<()> {
        durable_file::replace(&store.join(NAME), &serde_json::to_vec(self)?)
    }
}

/// The releases last in force, as the store's folder `store` has them; `None` if it has no list yet.
///
/// # Errors
/// The list cannot be read, or is damaged.
pub fn accepted_releases(store: &Path) -> io::Result<Option<AcceptedReleases>> {
    read(&store.join(RELEASES), RELEASES_LIMIT)
}

/// Writes the record, durably.
pub fn accept_releases(store: &Path, accepted: &AcceptedReleases) -> io::Result<()> {
    durable_file::replace(&store.join(RELEASES), &serde_json::to_vec(accepted)?)
}

fn read<T: DeserializeOwned>(path: &Path, limit: u64) -> io::Result<Option<T>> {
    match regular_file::read(path, limit) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spreads the number over the id, as a digest would.
    fn id(number: u64) -> LicenseId {
        LicenseId::from_bytes(*countersign_model::digest::Digest::of(&number.to_le_bytes()).as_bytes())
    }

    fn accepted(numbers: std::ops::Range<u64>) -> Accepted {
        let mut ids: Vec<_> = numbers.map(id).collect();
        ids.sort();
        Accepted::new(ids.len(), ids.into_iter())
    }

    #[test]
    fn of_few_licenses_each_that_is_gone_is_known_whatever_came_in_its_place() {
        let kept =
            |numbers: std::ops::Range<u64>| move |id: &LicenseId| numbers.clone().any(|number| self::id(number) == *id);
        assert_eq!(accepted(0..10).dropped(10, kept(0..10)), 0);
        assert_eq!(accepted(0..10).dropped(10, kept(3..13)), 3);
        assert_eq!(accepted(0..0).dropped(7, |_| true), 0);
    }

    #[test]
    fn of_many_licenses_the_share_that_is_gone_is_estimated_and_the_number_is_known() {
        let all = accepted(0..20_000);
        assert_eq!(all.dropped(20_000, |_| true), 0);
        assert_eq!(all.dropped(12_000, |_| true), 8_000, "the number alone says so");
        // Every fourth license is another one, but their number is the same.
        let dropped = all.dropped(20_000, |id| id.as_bytes()[31] % 4 != 0);
        assert!((4_000..6_000).contains(&dropped), "{dropped}");
    }

    #[test]
    fn what_the_ledger_has_is_not_missing() {
        let few = accepted(0..10);
        let adopted = |id: &LicenseId| (0..8).any(|number| self::id(number) == *id);
        let rest = few.without(adopted);
        assert_eq!((rest.licenses(), rest.dropped(0, |_| false)), (2, 2));
        assert_eq!(few.without(|_| true).dropped(0, |_| false), 0);
        let many = accepted(0..20_000).without(|id| id.as_bytes()[31] % 4 != 0);
        assert!((4_000..6_000).contains(&many.licenses()), "{}", many.licenses());
        assert_eq!(many.dropped(0, |_| false), many.licenses());
        assert_eq!(many.dropped(20_000, |_| true), 0);
    }

    #[test]
    fn it_is_read_back_within_its_limit_and_a_damaged_one_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Accepted::read(folder.path()).unwrap(), None);
        let all = accepted(0..20_000);
        all.write(folder.path()).unwrap();
        assert_eq!(Accepted::read(folder.path()).unwrap(), Some(all));
        std::fs::write(folder.path().join(NAME), "{\"licenses\":7").unwrap();
        assert!(Accepted::read(folder.path()).is_err());
        std::fs::write(folder.path().join(NAME), " ".repeat(70_000)).unwrap();
        assert_eq!(
            Accepted::read(folder.path()).unwrap_err().kind(),
            io::ErrorKind::FileTooLarge
        );
    }
}
