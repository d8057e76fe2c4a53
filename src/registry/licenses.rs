//! Licenses: `registry/licenses/*.toml` with any number of `[[license]]`, and `*.jsonl` with one license a line.
//!
//! Both spell the same fields; JSON writes dates and times as strings. The registry takes all licenses or none.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::model::license::{License, Modules};
use crate::model::license_key::LicenseId;

use super::RegistryError;
use super::complaint::Complaint;
use super::document::Table;
use super::files::{Listed, RegistryFiles};
use super::license::license;
use super::plain_line::PlainLine;
use super::reader::{Reader, array, table};

/// An export that is wrong in every line is told so this often.
const MAX_COMPLAINTS: usize = 1_000;

/// Texts of module sets that are remembered; an export has few.
const MAX_TEXTS: usize = 1_024;

/// The licenses by id, and where each stands.
#[derive(Debug, Default)]
pub struct Licenses {
    files: Vec<PathBuf>,
    /// In the order of their ids: a million of them shall fit into memory, and be found with few looks at it.
    held: Vec<Held>,
    /// Where those begin whose ids begin with 0, 1, 2, … in their first `bits`. Ids are digests, so it is about one each, or none.
    starts: Vec<u32>,
    bits: u32,
}

/// A license, and the number of its file and line.
#[derive(Debug)]
struct Held {
    license: License,
    file: u32,
    line: u32,
}

/// What is shared between licenses while they are read.
#[derive(Default)]
struct Known {
    /// Every set of modules once, however many licenses grant it.
    modules: HashSet<Arc<Modules>>,
    /// The same by its text in an export.
    texts: HashMap<String, Arc<Modules>>,
}

impl Licenses {
    /// Reads every license file, in the order of their names.
    pub fn load(files: &RegistryFiles) -> Result<(Self, Vec<Complaint>), RegistryError> {
        let (mut licenses, mut known) = (Self::default(), Known::default());
        let mut complaints = Vec::new();
        for listed in files.list("licenses")? {
            licenses.files.push(listed.file.clone());
            complaints.extend(licenses.read(files, &listed, &mut known));
        }
        licenses.held.shrink_to_fit();
        licenses.held.sort_unstable_by_key(|held| (held.license.id, held.file, held.line));
        complaints.extend(licenses.twins());
        licenses.index();
        Ok((licenses, complaints))
    }

    /// A license and its place: the file, and the line counted from 1.
    pub fn get(&self, id: &LicenseId) -> Option<(&License, &Path, usize)> {
        let first = first_bits(id, self.bits);
        let stretch = *self.starts.get(first)? as usize..*self.starts.get(first + 1)? as usize;
        let held = self.held[stretch].iter().find(|held| held.license.id == *id)?;
        Some((&held.license, &self.files[held.file as usize], held.line as usize))
    }

    /// All licenses, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = &License> {
        self.held.iter().map(|held| &held.license)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Complains about every license that stands somewhere else already, and takes it out.
    fn twins(&mut self) -> Vec<Complaint> {
        let (files, mut complaints) = (&self.files, Vec::new());
        self.held.dedup_by(|later, first| {
            let same = later.license.id == first.license.id;
            if same && complaints.len() < MAX_COMPLAINTS {
                let place = (files[first.file as usize].display(), first.line);
                let tag = first.license.id.log_tag();
                let message = format!("the license {tag} is already at {}:{}", place.0, place.1);
                let (file, line) = (files[later.file as usize].clone(), later.line as usize);
                complaints.push(Complaint { file, line, column: 1, message });
            }
            same
        });
        complaints.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
        complaints
    }

    fn index(&mut self) {
        self.bits = self.held.len().checked_ilog2().map_or(0, |bits| bits + 1);
        let mut starts = vec![0; (1 << self.bits) + 1];
        for held in &self.held {
            starts[first_bits(&held.license.id, self.bits) + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        self.starts = starts;
    }

    fn read(&mut self, files: &RegistryFiles, listed: &Listed, known: &mut Known) -> Vec<Complaint> {
        let text = match files.text(listed) {
            Ok(text) => text,
            Err(complaint) => return vec![complaint],
        };
        match listed.name.rsplit_once('.') {
            Some((_, "toml")) => self.read_toml(listed, &text, known),
            Some((_, "jsonl")) => self.read_jsonl(listed, &text, known),
            _ => vec![Complaint::of_file(&listed.file, "not a license file: its name must end in .toml or .jsonl")],
        }
    }

    fn read_toml(&mut self, listed: &Listed, text: &str, known: &mut Known) -> Vec<Complaint> {
        let expected = "an array of tables, each [[license]]";
        let (mut reader, document) = Reader::toml(&listed.file, text);
        let Some(document) = document else { return reader.complaints() };
        reader.only(&document, &["license"]);
        let tables = reader.field(&document, "license", expected, array);
        for node in tables.map_or(&[][..], |(_, tables)| tables) {
            if let Some((_, table)) = reader.typed(node, "license", expected, table) {
                self.take(&mut reader, table, known);
            }
        }
        reader.complaints()
    }

    fn read_jsonl(&mut self, listed: &Listed, text: &str, known: &mut Known) -> Vec<Complaint> {
        let mut complaints = Vec::new();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let plain = PlainLine::read(line);
            let modules = plain.as_ref().and_then(|plain| known.texts.get(plain.modules()).cloned());
            if let Some(license) = plain.as_ref().zip(modules).and_then(|(plain, modules)| plain.license(modules)) {
                self.hold(license, index + 1);
                continue;
            }
            let (mut reader, table) = Reader::json(&listed.file, index + 1, line);
            let license = table.and_then(|table| self.take(&mut reader, &table, known));
            if let (Some(license), Some(plain)) = (license, plain)
                && known.texts.len() < MAX_TEXTS
            {
                let modules = license.modules.clone();
                known.texts.insert(plain.modules().to_owned(), modules);
            }
            complaints.extend(reader.complaints());
            if complaints.len() >= MAX_COMPLAINTS {
                complaints.push(Complaint::of_file(&listed.file, "too many mistakes: the rest was not read"));
                break;
            }
        }
        complaints
    }

    fn take(&mut self, reader: &mut Reader<'_>, table: &Table<'_>, known: &mut Known) -> Option<&License> {
        let mut license = license(reader, table)?;
        match known.modules.get(&license.modules) {
            Some(shared) => license.modules = shared.clone(),
            None => drop(known.modules.insert(license.modules.clone())),
        }
        self.hold(license, reader.line(table.at));
        self.held.last().map(|held| &held.license)
    }

    /// Takes over a license of the last file.
    fn hold(&mut self, license: License, line: usize) {
        self.held.push(Held { license, file: self.files.len() as u32 - 1, line: line as u32 });
    }
}

/// The first `bits` of an id as a number; at most 32.
fn first_bits(id: &LicenseId, bits: u32) -> usize {
    let [a, b, c, d, ..] = *id.as_bytes();
    (u64::from(u32::from_be_bytes([a, b, c, d])) >> (32 - bits)) as usize
}

#[cfg(test)]
pub mod testing {
    use super::*;

    pub const ID: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    pub fn load(files: &[(&str, &str)]) -> (Licenses, Vec<String>) {
        let registry = tempfile::tempdir().unwrap();
        std::fs::create_dir(registry.path().join("licenses")).unwrap();
        for (name, text) in files {
            std::fs::write(registry.path().join("licenses").join(name), text).unwrap();
        }
        let (licenses, complaints) = Licenses::load(&RegistryFiles::folder(registry.path())).unwrap();
        let folder = format!("{}/licenses/", registry.path().display());
        (licenses, complaints.iter().map(|complaint| complaint.to_string().replace(&folder, "")).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{ID, load};
    use super::*;

    #[test]
    fn a_line_of_an_export_is_complained_about_with_its_column() {
        let good = format!(r#"{{"id":"{ID}","expires":"2027-12-31","modules":{{"a":[]}}}}"#);
        let text = format!("{good}\n{{\"id\": 1}}\n[]\n{{\"id\n{}\n", good.replace("12-31", "2-31"));
        let (_, complaints) = load(&[("a.jsonl", &text)]);
        assert_eq!(
            complaints,
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
        let (_, complaints) = load(&[("a.toml", &toml), ("b.jsonl", &json)]);
        assert_eq!(complaints, ["b.jsonl:2:1: the license 001122334455 is already at a.toml:2"]);
    }

    #[test]
    fn a_license_file_that_may_be_half_written_is_refused_at_every_length() {
        let text = format!("[[license]]\nid = '{ID}'\nexpires = 2027-12-31\nmodules = {{ a = [] }}\n");
        for length in 0..text.len() {
            let (licenses, complaints) = load(&[("a.toml", &text[..length])]);
            assert!(!complaints.is_empty() && licenses.len() == 0, "{:?}", &text[..length]);
        }
    }

    #[test]
    fn licenses_that_grant_the_same_share_it() {
        let line =
            |byte: u8| format!("{{\"id\":\"{byte:064x}\",\"expires\":\"2027-12-31\",\"modules\":{{\"a\":[\"b\"]}}}}\n");
        let (licenses, complaints) = load(&[("a.jsonl", &(line(1) + &line(2)))]);
        assert_eq!(complaints, [""; 0]);
        let modules: Vec<_> = licenses.iter().map(|license| &license.modules).collect();
        assert!(Arc::ptr_eq(modules[0], modules[1]));
    }

    #[test]
    fn an_export_that_is_wrong_throughout_is_not_read_to_its_end() {
        let (_, complaints) = load(&[("a.jsonl", &"1\n".repeat(5_000))]);
        assert_eq!(complaints.len(), MAX_COMPLAINTS + 1);
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(noise in ".{0,12}", at in 0..200_usize, cut in 0..12_usize) {
            let toml = format!("[[license]]\nid = '{ID}'\nexpires = 2027-12-31\nsites = 2\nhosts = ['a.com']\n[license.modules]\na = ['b']\n");
            let json = format!("{{\"id\":\"{ID}\",\"expires\":\"2027-12-31\",\"modules\":{{\"a\":[\"b\"]}},\"released\":{{}}}}\n");
            for (name, mut text) in [("a.toml", toml), ("a.jsonl", json)] {
                let at = at.min(text.len());
                text.replace_range(at..(at + cut).min(text.len()), &noise);
                let (licenses, complaints) = load(&[(name, &text)]);
                proptest::prop_assert!(licenses.len() <= 1 && complaints.iter().all(|text| text.starts_with(name)));
            }
        }
    }
}
