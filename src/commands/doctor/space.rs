//! Checks the free space where the instance writes: the store, the releases and the keys.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::statvfs;

use crate::commands::doctor::finding::{Finding, broken, ok, warning};
use countersign_settings::config::Paths;

/// A warning below this many bytes: a million bindings take 300 MB, and a build writes releases beside the old ones.
const LITTLE: u64 = 1 << 30;

/// An error below this many bytes: a server may not be able to write its next line.
const NONE: u64 = 1 << 20;

/// A warning below this many files that can still be created.
const FEW_FILES: u64 = 10_000;

/// One finding for each file system that the instance writes to.
pub(super) fn findings(paths: &Paths) -> Vec<Finding> {
    let keys = paths.signing_key.parent().unwrap_or(Path::new(""));
    let mut systems: Vec<(u64, Vec<&str>, &Path)> = Vec::new();
    for (name, folder) in [
        ("store", paths.store.as_path()),
        ("releases", &paths.releases),
        ("keys", keys),
    ] {
        let existing = folder
            .ancestors()
            .find(|folder| folder.exists())
            .unwrap_or(Path::new("."));
        let Ok(device) = existing.metadata().map(|metadata| metadata.dev()) else {
            continue;
        };
        match systems.iter_mut().find(|(known, ..)| *known == device) {
            Some((_, names, _)) => names.push(name),
            None => systems.push((device, vec![name], existing)),
        }
    }
    systems
        .iter()
        .map(|(_, names, folder)| look(&names.join(", "), folder))
        .collect()
}

fn look(names: &str, folder: &Path) -> Finding {
    match statvfs(folder) {
        // A file system without a fixed number of files reports 0 of 0.
        Ok(found) => {
            let files = if found.f_files == 0 { u64::MAX } else { found.f_favail };
            judge(names, found.f_bavail.saturating_mul(found.f_frsize), files)
        }
        Err(error) => warning(
            "space",
            format!("{}: {error}", folder.display()),
            "let this user read the folder",
        ),
    }
}

/// The finding for this many free bytes and files.
fn judge(names: &str, bytes: u64, files: u64) -> Finding {
    const FREE: &str = "delete old ledgers, packages and logs; when the disk is full, the server refuses new sites";
    let finding = format!("{names}: {} MiB free", bytes >> 20);
    if bytes < NONE || files == 0 {
        broken("space", format!("{finding}, {files} files"), Some(FREE.to_owned()))
    } else if bytes < LITTLE {
        warning("space", finding, FREE)
    } else if files < FEW_FILES {
        warning("space", format!("{names}: room for {files} more files"), FREE)
    } else {
        ok("space", finding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::finding::Severity;

    #[test]
    fn little_space_is_a_warning_and_none_is_a_fault_of_bytes_and_of_files() {
        let verdict = |bytes, files| judge("store", bytes, files).verdict;
        assert_eq!(verdict(1 << 40, u64::MAX), Severity::Ok);
        assert_eq!(
            [verdict(LITTLE - 1, u64::MAX), verdict(1 << 40, FEW_FILES - 1)],
            [Severity::Warning; 2]
        );
        assert_eq!(
            [verdict(NONE - 1, u64::MAX), verdict(1 << 40, 0)],
            [Severity::Broken; 2]
        );
    }

    #[test]
    fn folders_on_one_file_system_are_one_finding_also_before_they_are_made() {
        let folder = tempfile::tempdir().unwrap();
        let no = (&Default::default(), &Default::default());
        let config = countersign_settings::config::Config::load(folder.path(), no.0, no.1).unwrap();
        let found = findings(&config.paths);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].finding.starts_with("store, releases, keys: "),
            "{}",
            found[0].finding
        );
    }
}
