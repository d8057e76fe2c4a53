//! The spool: deliveries of shops that were answered with 200 and are not applied yet, one file each, in the node's own folder.
//!
//! A delivery has buyers' addresses, so that only the owner can read a file, and it is deleted once it is applied. Its name is
//! a digest: a delivery that comes twice is kept once. `NAME.early` waits for the delivery of its sale. `NAME.owed` says which
//! licenses a delivery issues whose keys are not mailed yet. `parked/` has those that a person has to decide.

mod delivery_file;
mod delivery_name;
mod error;
mod waiting_delivery;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::durable_file::{self, Access};
use crate::json_folder::JsonFolder;
use crate::regular_file;
use countersign_model::slug::Slug;

pub use delivery_file::SpooledDelivery;
pub use delivery_name::{DeliveryName, NotADelivery};
pub use error::{MAX_DELIVERIES, SpoolError};
pub use waiting_delivery::{DeliveryStage, WaitingDelivery};

/// The most deliveries that are parked. They have a limit of their own, so that they do not stop those that can be applied.
const MAX_PARKED: usize = MAX_DELIVERIES;

/// The folder in the node's own.
const FOLDER: &str = "deliveries";

/// The folder of those that a person has to decide.
const PARKED: &str = "parked";

/// The longest reason in bytes.
const MAX_REASON: u64 = 4_096;

/// Which licenses a delivery was about to issue: their keys are owed to the buyer. Written before they are issued, so that none
/// is forgotten, whatever happens to the server or to the licenses until the mail is in its queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwedLicenses {
    /// The places in the sale: the line of each, and which copy of it, both from 0.
    pub places: Vec<(usize, u32)>,
}

/// The deliveries of one node.
#[derive(Debug)]
pub struct Spool {
    folder: PathBuf,
    /// The same folder, as the place of the `.owed` files.
    owed: JsonFolder,
    /// How many wait. Approximate between two looks at the folder, because commands change it, too.
    waiting: AtomicUsize,
    /// How many are parked, in the same way.
    parked: AtomicUsize,
}

impl Spool {
    /// The spool in the node's own folder, which is made if it is missing.
    ///
    /// # Errors
    /// The folder cannot be made or listed.
    pub fn open(store: &Path) -> Result<Self, SpoolError> {
        let folder = JsonFolder::open(store.join(FOLDER))?;
        folder.remove_leftovers()?;
        JsonFolder::open(folder.path().join(PARKED))?.remove_leftovers()?;
        let spool = Self::in_folder(folder);
        spool.waiting()?;
        spool.parked()?;
        Ok(spool)
    }

    /// The spool of a node, to be read; `None` if there is none.
    pub fn existing(store: &Path) -> Option<Self> {
        JsonFolder::existing(store.join(FOLDER)).map(Self::in_folder)
    }

    fn in_folder(folder: JsonFolder) -> Self {
        Self {
            folder: folder.path().to_owned(),
            owed: folder,
            waiting: AtomicUsize::new(0),
            parked: AtomicUsize::new(0),
        }
    }

    /// Keeps a delivery durably, unless it is here already: waiting or parked.
    ///
    /// # Errors
    /// It is not kept: too many wait, or the disk fails.
    pub fn put(&self, shop: &Slug, received: DateTime<Utc>, body: &[u8]) -> Result<(), SpoolError> {
        let name = DeliveryName::of(shop, body);
        let is_waiting = DeliveryStage::ALL.iter().any(|stage| self.path(&name, *stage).exists());
        if is_waiting || self.parked_path(&name).exists() {
            return Ok(());
        }
        if self.waiting.load(Ordering::Relaxed) >= MAX_DELIVERIES {
            return Err(SpoolError::Full(self.folder.clone()));
        }
        let path = self.path(&name, DeliveryStage::New);
        let failed = |source: io::Error| SpoolError::Io {
            path: path.clone(),
            source,
        };
        let bytes = delivery_file::bytes(shop, received, body).map_err(failed)?;
        match durable_file::create_new(&path, &bytes, Access::Owner) {
            Ok(()) => {
                self.waiting.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            // The same delivery came twice at once.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }

    /// Those that wait, the oldest first. Files of other names are passed over.
    ///
    /// # Errors
    /// The folder cannot be listed.
    pub fn waiting(&self) -> Result<Vec<WaitingDelivery>, SpoolError> {
        let waiting = waiting_delivery::list(&self.folder)?;
        self.waiting.store(waiting.len(), Ordering::Relaxed);
        Ok(waiting)
    }

    /// Those that a person has to decide, the oldest first.
    ///
    /// # Errors
    /// The folder cannot be listed.
    pub fn parked(&self) -> Result<Vec<WaitingDelivery>, SpoolError> {
        let parked = waiting_delivery::list(&self.folder.join(PARKED))?;
        self.parked.store(parked.len(), Ordering::Relaxed);
        Ok(parked)
    }

    /// Reads one that waits.
    ///
    /// # Errors
    /// It is gone, cannot be read, or is damaged.
    pub fn read(&self, waiting: &WaitingDelivery) -> Result<SpooledDelivery, SpoolError> {
        delivery_file::read(self.path(&waiting.name, waiting.stage), &waiting.name)
    }

    /// Reads one that is parked.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_parked(&self, name: &DeliveryName) -> Result<SpooledDelivery, SpoolError> {
        delivery_file::read(self.parked_path(name), name)
    }

    /// Which licenses' keys a delivery owes to the buyer; `None` if it was not about to issue any.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn owed(&self, name: &DeliveryName) -> Result<Option<OwedLicenses>, SpoolError> {
        Ok(self.owed.read(&owed_file(name))?)
    }

    /// Notes that durably.
    ///
    /// # Errors
    /// The disk fails.
    pub fn note_owed(&self, name: &DeliveryName, owed: &OwedLicenses) -> Result<(), SpoolError> {
        Ok(self.owed.save(&owed_file(name), owed)?)
    }

    /// Notes durably how far a delivery is.
    ///
    /// # Errors
    /// The disk fails.
    pub fn advance(&self, waiting: &WaitingDelivery, stage: DeliveryStage) -> Result<(), SpoolError> {
        if waiting.stage == stage {
            return Ok(());
        }
        self.rename(
            &self.path(&waiting.name, waiting.stage),
            &self.path(&waiting.name, stage),
        )
    }

    /// Deletes one that is applied.
    ///
    /// # Errors
    /// The disk fails: it is applied again, which changes nothing.
    pub fn remove(&self, name: &DeliveryName) -> Result<(), SpoolError> {
        // First: a delivery that is left then owes nothing, and its licenses are there.
        self.owed.remove(&owed_file(name))?;
        for path in DeliveryStage::ALL.map(|stage| self.path(name, stage)) {
            match fs::remove_file(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(SpoolError::Io { path, source }),
                Ok(()) => count_down(&self.waiting),
            }
        }
        Ok(())
    }

    /// Leaves one to a person, with the reason, which must not quote it. Where too many are parked, the oldest is deleted, and
    /// the log says so.
    ///
    /// # Errors
    /// The disk fails: it waits on.
    pub fn park(&self, waiting: &WaitingDelivery, reason: &str) -> Result<(), SpoolError> {
        self.make_room_for_parked()?;
        let path = self.reason_path(&waiting.name);
        let written = match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => durable_file::create_new(&path, reason.as_bytes(), Access::Owner),
        };
        written.map_err(|source| SpoolError::Io { path, source })?;
        let parked = self.parked_path(&waiting.name);
        let rename = |stage| self.rename(&self.path(&waiting.name, stage), &parked);
        match rename(DeliveryStage::New) {
            // It was noted as early after it was listed.
            Err(SpoolError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                rename(DeliveryStage::Early)?;
            }
            renamed => renamed?,
        }
        count_down(&self.waiting);
        self.parked.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn make_room_for_parked(&self) -> Result<(), SpoolError> {
        if self.parked.load(Ordering::Relaxed) < MAX_PARKED {
            return Ok(());
        }
        // A person may have dropped some since.
        let parked = self.parked()?;
        let surplus = (parked.len() + 1).saturating_sub(MAX_PARKED);
        for oldest in parked.iter().take(surplus) {
            let reason = self.reason(&oldest.name);
            match self.drop_parked(&oldest.name) {
                // Somebody else dropped it.
                Err(SpoolError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => continue,
                dropped => dropped?,
            }
            tracing::error!(
                delivery = oldest.name.as_str(),
                reason,
                "{MAX_PARKED} deliveries are parked, so the oldest one was deleted: nothing of it is done"
            );
        }
        Ok(())
    }

    /// Why one was parked; empty if nobody wrote it.
    pub fn reason(&self, name: &DeliveryName) -> String {
        regular_file::read_to_string(&self.reason_path(name), MAX_REASON).unwrap_or_default()
    }

    /// Has a parked one wait again.
    ///
    /// # Errors
    /// The disk fails: it stays parked.
    pub fn retry(&self, name: &DeliveryName) -> Result<(), SpoolError> {
        self.rename(&self.parked_path(name), &self.path(name, DeliveryStage::New))?;
        count_down(&self.parked);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // What is left of it misleads nobody: the next reason replaces it.
        let _ = fs::remove_file(self.reason_path(name));
        Ok(())
    }

    /// Deletes a parked one.
    ///
    /// # Errors
    /// There is none of that name, or the disk fails.
    pub fn drop_parked(&self, name: &DeliveryName) -> Result<(), SpoolError> {
        let path = self.parked_path(name);
        let _ = fs::remove_file(self.reason_path(name));
        self.owed.remove(&owed_file(name))?;
        // Synced, so that a loss of power brings none back that a person dropped.
        let removed = fs::remove_file(&path).and_then(|()| durable_file::sync_folder(&self.folder.join(PARKED)));
        removed.map_err(|source| SpoolError::Io { path, source })?;
        count_down(&self.parked);
        Ok(())
    }

    /// Deletes one that waits and that a person does not want.
    ///
    /// # Errors
    /// The disk fails.
    pub fn discard(&self, name: &DeliveryName) -> Result<(), SpoolError> {
        self.remove(name)?;
        durable_file::sync_folder(&self.folder).map_err(|source| SpoolError::Io {
            path: self.folder.clone(),
            source,
        })
    }

    /// Renames a file durably. The folder that gets it is synced first, so that a loss of power leaves it in one of the two.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), SpoolError> {
        let renamed = fs::rename(from, to).and_then(|()| {
            let mut folders = vec![to.parent(), from.parent()];
            folders.dedup();
            folders.into_iter().flatten().try_for_each(durable_file::sync_folder)
        });
        renamed.map_err(|source| SpoolError::Io {
            path: from.to_owned(),
            source,
        })
    }

    fn parked_path(&self, name: &DeliveryName) -> PathBuf {
        self.folder.join(PARKED).join(name.as_str())
    }

    fn reason_path(&self, name: &DeliveryName) -> PathBuf {
        self.folder.join(PARKED).join(format!("{name}.reason"))
    }

    fn path(&self, name: &DeliveryName, stage: DeliveryStage) -> PathBuf {
        self.folder.join(format!("{name}{}", stage.ending()))
    }
}

fn owed_file(name: &DeliveryName) -> String {
    format!("{name}.owed")
}

/// A look at the folder may have counted it out already.
fn count_down(count: &AtomicUsize) {
    let _ = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1));
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn names(waiting: &[WaitingDelivery]) -> Vec<(&str, DeliveryStage)> {
        let pairs = waiting.iter().map(|waiting| (waiting.name.as_str(), waiting.stage));
        pairs.collect()
    }

    /// How many wait and how many are parked, as far as the spool knows.
    fn counts(spool: &Spool) -> (usize, usize) {
        (
            spool.waiting.load(Ordering::Relaxed),
            spool.parked.load(Ordering::Relaxed),
        )
    }

    #[test]
    fn a_full_spool_takes_deliveries_again_after_a_person_emptied_it() {
        let store = tempfile::tempdir().unwrap();
        let spool = Spool::open(store.path()).unwrap();
        let shop: Slug = "stripe".parse().unwrap();
        spool.put(&shop, Utc::now(), b"{}").unwrap();
        spool.waiting.store(MAX_DELIVERIES, Ordering::Relaxed);
        assert!(matches!(spool.put(&shop, Utc::now(), b"[]"), Err(SpoolError::Full(_))));
        // The command is another process.
        let command = Spool::existing(store.path()).unwrap();
        command.remove(&DeliveryName::of(&shop, b"{}")).unwrap();
        spool.waiting().unwrap();
        spool.put(&shop, Utc::now(), b"[]").unwrap();
    }

    #[test]
    fn parked_deliveries_stop_no_others_and_the_oldest_goes_where_they_are_too_many() {
        let store = tempfile::tempdir().unwrap();
        let spool = Spool::open(store.path()).unwrap();
        let shop: Slug = "stripe".parse().unwrap();
        let parked = store.path().join("deliveries/parked");
        let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1);
        for number in 0..MAX_PARKED {
            let file = fs::File::create(parked.join(format!("{number:032x}"))).unwrap();
            file.set_modified(long_ago + std::time::Duration::from_secs(number as u64))
                .unwrap();
        }
        fs::write(parked.join(format!("{:032x}.reason", 0)), "no offer").unwrap();
        let park = |body: &[u8]| {
            spool.put(&shop, Utc::now(), body).unwrap();
            let waiting = spool.waiting().unwrap();
            assert_eq!(waiting.len(), 1);
            spool.park(&waiting[0], "no offer").unwrap();
        };
        assert_eq!(spool.parked().unwrap().len(), MAX_PARKED);
        park(b"{}");
        let left = spool.parked().unwrap();
        assert_eq!(left.len(), MAX_PARKED);
        assert_eq!(left[0].name.as_str(), format!("{:032x}", 1), "the oldest is gone");
        assert_eq!(left[MAX_PARKED - 1].name, DeliveryName::of(&shop, b"{}"));
        assert!(!parked.join(format!("{:032x}.reason", 0)).exists());
        // A person made room, so none is deleted.
        Spool::existing(store.path())
            .unwrap()
            .drop_parked(&left[0].name)
            .unwrap();
        park(b"[]");
        assert_eq!(spool.parked().unwrap()[0].name, left[1].name);
        assert_eq!(counts(&spool), (0, MAX_PARKED));
    }

    #[test]
    fn the_error_of_a_delivery_that_cannot_be_parked_is_its_own() {
        let store = tempfile::tempdir().unwrap();
        let spool = Spool::open(store.path()).unwrap();
        let shop: Slug = "stripe".parse().unwrap();
        spool.put(&shop, Utc::now(), b"{}").unwrap();
        let waiting = spool.waiting().unwrap().remove(0);
        let name = waiting.name.as_str();
        fs::create_dir(store.path().join("deliveries/parked").join(name)).unwrap();
        let error = spool.park(&waiting, "no offer").unwrap_err();
        let SpoolError::Io { path, source } = error else {
            panic!("{error}");
        };
        assert_eq!(path, store.path().join("deliveries").join(name));
        assert_eq!(source.kind(), io::ErrorKind::IsADirectory);
    }

    #[test]
    fn a_delivery_waits_owes_and_goes_and_one_that_comes_twice_is_kept_once() {
        let store = tempfile::tempdir().unwrap();
        assert!(Spool::existing(store.path()).is_none());
        let spool = Spool::open(store.path()).unwrap();
        let shop: Slug = "stripe".parse().unwrap();
        let now = DateTime::from_timestamp(7, 0).unwrap();
        spool.put(&shop, now, b"{\n}").unwrap();
        spool.put(&shop, now, b"{\n}").unwrap();
        let waiting = spool.waiting().unwrap();
        let name = DeliveryName::of(&shop, b"{\n}");
        assert_eq!(names(&waiting), [(name.as_str(), DeliveryStage::New)]);
        let file = store.path().join("deliveries").join(name.as_str());
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
        let delivery = spool.read(&waiting[0]).unwrap();
        assert_eq!((delivery.received, &delivery.body[..]), (now, &b"{\n}"[..]));

        spool.advance(&waiting[0], DeliveryStage::Early).unwrap();
        let waiting = spool.waiting().unwrap();
        assert_eq!(names(&waiting), [(name.as_str(), DeliveryStage::Early)]);
        spool.put(&shop, now, b"{\n}").unwrap();
        assert_eq!(spool.owed(&name).unwrap(), None);
        for places in [vec![(0, 0)], vec![(0, 0), (1, 7)]] {
            let owed = OwedLicenses { places };
            spool.note_owed(&name, &owed).unwrap();
            assert_eq!(spool.owed(&name).unwrap(), Some(owed));
        }
        assert_eq!(names(&spool.waiting().unwrap()), names(&waiting));
        spool.park(&waiting[0], "no offer").unwrap();
        assert_eq!(spool.reason(&name), "no offer");
        spool.put(&shop, now, b"{\n}").unwrap();
        assert_eq!((spool.waiting().unwrap().len(), spool.parked().unwrap().len()), (0, 1));
        assert_eq!(spool.read_parked(&name).unwrap(), delivery);
        spool.retry(&name).unwrap();
        assert_eq!(names(&spool.waiting().unwrap()), [(name.as_str(), DeliveryStage::New)]);
        assert!(
            spool.owed(&name).unwrap().is_some(),
            "a person decided, and it is still owed"
        );
        spool.remove(&name).unwrap();
        assert_eq!(spool.owed(&name).unwrap(), None);
        assert_eq!(spool.waiting().unwrap(), []);
        assert_eq!(counts(&spool), (0, 0));
    }

    #[test]
    fn what_is_damaged_or_somebody_elses_is_told_and_other_files_are_passed_over() {
        let store = tempfile::tempdir().unwrap();
        let spool = Spool::open(store.path()).unwrap();
        let shop: Slug = "stripe".parse().unwrap();
        spool.put(&shop, Utc::now(), b"{}").unwrap();
        let folder = store.path().join("deliveries");
        fs::write(folder.join("notes.txt"), "").unwrap();
        fs::write(folder.join("0".repeat(32)), "{}").unwrap();
        let waiting = spool.waiting().unwrap();
        assert_eq!(waiting.len(), 2);
        let damaged = waiting
            .iter()
            .filter(|one| matches!(spool.read(one), Err(SpoolError::Damaged(_))));
        assert_eq!(damaged.count(), 1);
        let left = folder.join(format!(".{}.0123456789abcdef.tmp", waiting[0].name.as_str()));
        fs::write(&left, "jane@example.com").unwrap();
        let reopened = Spool::open(store.path()).unwrap();
        assert!(!left.exists(), "a killed process left it");
        assert_eq!(counts(&reopened), (2, 0));
        reopened.waiting.store(MAX_DELIVERIES, Ordering::Relaxed);
        assert!(matches!(
            reopened.put(&shop, Utc::now(), b"[]"),
            Err(SpoolError::Full(_))
        ));
        reopened.put(&shop, Utc::now(), b"{}").unwrap();
    }
}
