//! All licenses by id, with their positions in the registry. `license_files` reads them.
//!
//! The registry takes all licenses or none. Every request looks up a license.

use std::path::{Path, PathBuf};

use countersign_model::license::License;
use countersign_model::license_key::LicenseId;
use countersign_model::license_table::{LicenseTable, OfLicense};

use crate::error::{Diagnostic, RegistryError};
use crate::files::RegistryFiles;
use crate::license::Notes;
use crate::license_files::{LicenseCollector, LicensePlace};
use crate::reader::MAX_DIAGNOSTICS;

/// The licenses by id, with their positions.
#[derive(Debug, Default)]
pub(super) struct Licenses {
    files: Vec<PathBuf>,
    held: LicenseTable<AlignedLicense>,
    /// Positions by license number.
    places: Vec<LicensePlace>,
}

/// A license on a cache line of its own, so that a look-up reads memory once.
#[derive(Debug)]
#[repr(align(64))]
struct AlignedLicense(License);

const _: () = assert!(size_of::<AlignedLicense>() == 64);

impl OfLicense for AlignedLicense {
    fn license_id(&self) -> &LicenseId {
        &self.0.id
    }
}

impl Licenses {
    /// Reads every license file, sorted by name.
    pub(super) fn load(files: &RegistryFiles, notes: Notes) -> Result<(Self, Vec<Diagnostic>), RegistryError> {
        let mut reading = LicenseCollector::new(notes);
        for listed in files.list("licenses")? {
            reading.read(files, &listed);
        }
        let LicenseCollector {
            files,
            licenses: mut read,
            mut diagnostics,
            ..
        } = reading;
        read.sort_unstable_by_key(|(license, place)| (license.id, *place));
        diagnostics.extend(duplicates(&mut read, &files));
        let (held, places) = read
            .into_iter()
            .map(|(license, place)| (AlignedLicense(license), place))
            .unzip();
        Ok((
            Self {
                files,
                held: LicenseTable::new(held),
                places,
            },
            diagnostics,
        ))
    }

    /// The number of a license: its rank among the ids.
    pub(super) fn find(&self, id: &LicenseId) -> Option<usize> {
        self.held.find(id)
    }

    /// The license with this number, from [`Self::find`].
    pub(super) fn get(&self, number: usize) -> &License {
        &self.held.get(number).0
    }

    /// The license whose id begins with these bytes.
    pub(super) fn beginning_with(&self, beginning: &[u8]) -> Option<&License> {
        self.held.beginning_with(beginning).map(|held| &held.0)
    }

    /// The position of the license with this number: the file, and the line from 1.
    pub(super) fn place(&self, number: usize) -> (&Path, usize) {
        let place = self.places[number];
        (&self.files[place.file as usize], place.line as usize)
    }

    /// The numbers of all licenses, in file order.
    pub(super) fn in_order(&self) -> Vec<usize> {
        let mut numbers: Vec<usize> = (0..self.len()).collect();
        numbers.sort_unstable_by_key(|number| self.places[*number]);
        numbers
    }

    /// All licenses, sorted by id.
    pub(super) fn iter(&self) -> impl Iterator<Item = &License> {
        self.held.iter().map(|held| &held.0)
    }

    /// The number of licenses.
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }
}

/// Reports and removes duplicate licenses, which are adjacent because the licenses are sorted by id.
fn duplicates(licenses: &mut Vec<(License, LicensePlace)>, files: &[PathBuf]) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    licenses.dedup_by(|(later, place), (first, first_place)| {
        let same = later.id == first.id;
        if same && diagnostics.len() < MAX_DIAGNOSTICS {
            let already = (files[first_place.file as usize].display(), first_place.line);
            let message = format!(
                "the license {} is already at {}:{}",
                first.id.log_tag(),
                already.0,
                already.1
            );
            let file = files[place.file as usize].clone();
            let line = place.line as usize;
            diagnostics.push(Diagnostic {
                file,
                line,
                column: 1,
                message,
            });
        }
        same
    });
    diagnostics.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    diagnostics
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    pub(crate) const ID: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    pub(crate) fn load(files: &[(&str, &str)]) -> (Licenses, Vec<String>) {
        let registry = tempfile::tempdir().unwrap();
        std::fs::create_dir(registry.path().join("licenses")).unwrap();
        for (name, text) in files {
            std::fs::write(registry.path().join("licenses").join(name), text).unwrap();
        }
        let (licenses, diagnostics) = Licenses::load(&RegistryFiles::folder(registry.path()), Notes::Kept).unwrap();
        let folder = format!("{}/licenses/", registry.path().display());
        (
            licenses,
            diagnostics
                .iter()
                .map(|diagnostic| diagnostic.to_string().replace(&folder, ""))
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::licenses::testing::{ID, load};

    #[test]
    fn a_line_of_an_export_is_complained_about_with_its_column() {
        let good = format!(r#"{{"id":"{ID}","expires":"2027-12-31","modules":{{"a":[]}}}}"#);
        let text = format!("{good}\n{{\"id\": 1}}\n[]\n{{\"id\n{}\n", good.replace("12-31", "2-31"));
        let (_, diagnostics) = load(&[("a.jsonl", &text)]);
        assert_eq!(
            diagnostics,
            [
                r#"a.jsonl:2:1: missing field "expires""#,
                r#"a.jsonl:2:1: missing field "modules""#,
                r#"a.jsonl:2:8: "id" must be a string, not an integer"#,
                "a.jsonl:3:1: expected an object, found an array",
                "a.jsonl:4:4: EOF while parsing a string",
                r#"a.jsonl:5:84: "expires" must be a string such as "2027-12-31""#,
            ]
        );
    }

    #[test]
    fn the_same_id_twice_names_both_places() {
        let toml = format!("# first\n[[license]]\nid = '{ID}'\nexpires = 2027-12-31\nmodules = {{ a = [] }}\n");
        let json = format!("\n{{\"id\":\"{ID}\",\"expires\":\"2027-12-31\",\"modules\":{{\"a\":[]}}}}\n");
        let (_, diagnostics) = load(&[("a.toml", &toml), ("b.jsonl", &json)]);
        assert_eq!(
            diagnostics,
            ["b.jsonl:2:1: the license 001122334455 is already at a.toml:2"]
        );
    }

    #[test]
    fn a_license_file_that_may_be_half_written_is_refused_at_every_length() {
        let text = format!("[[license]]\nid = '{ID}'\nexpires = 2027-12-31\nmodules = {{ a = [] }}\n");
        for length in 0..text.len() {
            let (licenses, diagnostics) = load(&[("a.toml", &text[..length])]);
            assert!(!diagnostics.is_empty() && licenses.len() == 0, "{:?}", &text[..length]);
        }
        let line = format!("{{\"id\":\"{ID}\",\"expires\":\"2027-12-31\",\"modules\":{{\"a\":[]}}}}\n");
        let lines = format!("{line}{}", line.replace("00112233", "10112233"));
        for length in (0..lines.len()).filter(|length| *length != line.len()) {
            assert_eq!(
                load(&[("a.jsonl", &lines[..length])]).1.len(),
                1,
                "{:?}",
                &lines[..length]
            );
        }
    }

    #[test]
    fn lines_may_be_blank_and_end_as_they_do_elsewhere_but_not_in_other_blanks() {
        let line =
            |first: u8| format!("{{\"id\":\"{first:064x}\",\"expires\":\"2027-12-31\",\"modules\":{{\"a\":[]}}}}");
        let (licenses, diagnostics) = load(&[("a.jsonl", &format!("\n{}\r\n \t\n{} \n", line(1), line(2)))]);
        assert_eq!((licenses.len(), diagnostics), (2, vec![]));
        let (_, diagnostics) = load(&[("a.jsonl", &format!("{}\u{a0}\n", line(1)))]);
        assert!(diagnostics[0].starts_with("a.jsonl:1:"), "{diagnostics:?}");
    }

    #[test]
    fn a_folder_has_no_place_among_license_files() {
        let registry = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(registry.path().join("licenses/old")).unwrap();
        let (_, diagnostics) = Licenses::load(&RegistryFiles::folder(registry.path()), Notes::Kept).unwrap();
        assert!(
            diagnostics[0].to_string().ends_with("old: unexpected directory"),
            "{diagnostics:?}"
        );
    }

    #[test]
    fn notes_may_be_left_out_and_are_checked_all_the_same() {
        let registry = tempfile::tempdir().unwrap();
        std::fs::create_dir(registry.path().join("licenses")).unwrap();
        let load = |lines: &str| {
            std::fs::write(registry.path().join("licenses/a.jsonl"), lines).unwrap();
            let files = RegistryFiles::folder(registry.path());
            [Notes::Kept, Notes::Skipped].map(|notes| {
                let (licenses, diagnostics) = Licenses::load(&files, notes).unwrap();
                let notes: Vec<_> = licenses.iter().map(|license| license.details.note.clone()).collect();
                (notes.join("+"), diagnostics.len())
            })
        };
        let line = |byte: u8, note: &str| {
            format!("{{\"id\":\"{byte:064x}\",\"expires\":\"2027-12-31\",\"modules\":{{\"a\":[]}},\"note\":{note}}}\n")
        };
        let good = line(1, "\"a\"") + &line(2, "\"b\"") + &line(3, "\"\\u0063\"");
        assert_eq!(load(&good), [("a+b+c".to_owned(), 0), ("++".to_owned(), 0)]);
        assert_eq!(
            load(&(good + &line(4, "1"))).map(|(_, diagnostics)| diagnostics),
            [1, 1]
        );
    }

    #[test]
    fn licenses_that_grant_the_same_share_it() {
        let line =
            |byte: u8| format!("{{\"id\":\"{byte:064x}\",\"expires\":\"2027-12-31\",\"modules\":{{\"a\":[\"b\"]}}}}\n");
        let (licenses, diagnostics) = load(&[("a.jsonl", &(line(1) + &line(2)))]);
        assert_eq!(diagnostics, [""; 0]);
        let modules: Vec<_> = licenses.iter().map(|license| &license.modules).collect();
        assert!(Arc::ptr_eq(modules[0], modules[1]));
    }

    #[test]
    fn an_export_that_is_wrong_throughout_is_not_read_to_its_end() {
        let (_, diagnostics) = load(&[("a.jsonl", &"1\n".repeat(5_000))]);
        assert_eq!(diagnostics.len(), MAX_DIAGNOSTICS + 1);
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(noise in ".{0,12}", at in 0..200_usize, cut in 0..12_usize) {
            let toml = format!("[[license]]\nid = '{ID}'\nexpires = 2027-12-31\nsites = 2\nhosts = ['a.com']\n[license.modules]\na = ['b']\n");
            let json = format!("{{\"id\":\"{ID}\",\"expires\":\"2027-12-31\",\"modules\":{{\"a\":[\"b\"]}},\"released\":{{}}}}\n");
            for (name, mut text) in [("a.toml", toml), ("a.jsonl", json)] {
                let at = at.min(text.len());
                text.replace_range(at..(at + cut).min(text.len()), &noise);
                let (licenses, diagnostics) = load(&[(name, &text)]);
                proptest::prop_assert!(licenses.len() <= 1 && diagnostics.iter().all(|text| text.starts_with(name)));
            }
        }
    }
}
