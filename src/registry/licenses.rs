//! Licenses: `registry/licenses/*.toml` with any number of `[[license]]`, and `*.jsonl` with one license a line.
//!
//! Both spell the same fields; JSON writes dates and times as strings. The registry takes all licenses or none.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::model::license::{License, Modules, ReleaseTimes, Released, Sites, Status};
use crate::model::license_key::{LicenseId, LicenseKey};
use crate::model::name::Name;
use crate::model::site_host::SiteHost;

use super::RegistryError;
use super::complaint::Complaint;
use super::document::{Table, Value};
use super::files::{Listed, RegistryFiles};
use super::plain_line::PlainLine;
use super::reader::{Reader, array, table};

/// Longer than a year, a grace period is no grace any more.
pub const MAX_GRACE_PERIOD_HOURS: u32 = 8_760;

/// An export that is wrong in every line is told so this often.
const MAX_COMPLAINTS: usize = 1_000;

/// Texts of module sets that are remembered; an export has few.
const MAX_TEXTS: usize = 1_024;

const FIELDS: &[&str] =
    &["id", "status", "expires", "modules", "sites", "grace_period_hours", "note", "hosts", "released"];

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

/// What the table says, if nothing is wrong with it.
fn license(reader: &mut Reader<'_>, table: &Table<'_>) -> Option<License> {
    let complaints_before = reader.complained();
    reader.only(table, FIELDS);
    reader.without_keys(table);
    for required in ["id", "expires", "modules"] {
        reader.require(table, required);
    }
    let sites = sites(reader, table).unwrap_or(Sites::DEFAULT);
    let license = License {
        id: id(reader, table).unwrap_or(LicenseId::from_bytes([0; 32])),
        status: status(reader, table).unwrap_or(Status::Active),
        expires: reader.date(table, "expires").unwrap_or_default(),
        modules: Arc::new(modules(reader, table)),
        sites,
        grace_period_hours: reader.integer(table, "grace_period_hours", 0..=MAX_GRACE_PERIOD_HOURS),
        hosts: hosts(reader, table, sites),
        released: released(reader, table),
        note: reader.string(table, "note").map(|(_, note)| note.to_owned()).unwrap_or_default(),
    };
    (reader.complained() == complaints_before).then_some(license)
}

fn id(reader: &mut Reader<'_>, table: &Table<'_>) -> Option<LicenseId> {
    let (at, text) = reader.string(table, "id")?;
    if let Ok(key) = text.parse::<LicenseKey>() {
        // SECURITY: the complaint names the id only.
        reader.complain(at, format!("\"id\" must not be the license key itself; the key's id is {}", key.id()));
        return None;
    }
    reader.parse(at, "id", text)
}

fn status(reader: &mut Reader<'_>, table: &Table<'_>) -> Option<Status> {
    let (at, text) = reader.string(table, "status")?;
    let status =
        [Status::Active, Status::Suspended, Status::Revoked].into_iter().find(|status| status.as_str() == text);
    if status.is_none() {
        reader.complain(at, "\"status\" must be \"active\", \"suspended\" or \"revoked\"");
    }
    status
}

fn sites(reader: &mut Reader<'_>, table: &Table<'_>) -> Option<Sites> {
    let sites = |value: &Value<'_>| match value {
        Value::String(text) if text == "unlimited" => Some(Sites::Unlimited),
        Value::Integer(number) => u32::try_from(*number).ok().and_then(NonZeroU32::new).map(Sites::Limited),
        _ => None,
    };
    let field = table.fields.get("sites")?;
    let found = sites(&field.node.value);
    if found.is_none() {
        reader.complain(field.node.at, "\"sites\" must be an integer from 1 on, or \"unlimited\"");
    }
    found
}

fn modules(reader: &mut Reader<'_>, table: &Table<'_>) -> Modules {
    let Some(inner) = reader.table(table, "modules") else { return Modules::new() };
    if inner.fields.is_empty() {
        reader.complain(inner.at, "\"modules\" must not be empty: such a license grants nothing");
    }
    let mut modules = Modules::new();
    for (module, field) in &inner.fields {
        let name = reader.parse::<Name>(field.at, module, module);
        let features = reader.strings_of(&field.node, module).unwrap_or_default();
        let features = features.into_iter().filter_map(|(at, text)| reader.parse(at, module, text)).collect();
        modules.extend(name.map(|name| (name, features)));
    }
    modules
}

fn hosts(reader: &mut Reader<'_>, table: &Table<'_>, sites: Sites) -> Vec<SiteHost> {
    let texts = reader.strings(table, "hosts").unwrap_or_default();
    if let (Sites::Limited(limit), Some((at, _))) = (sites, texts.first())
        && texts.len() > limit.get() as usize
    {
        reader.complain(*at, format!("\"hosts\" has {} hosts, but \"sites\" is {limit}", texts.len()));
    }
    texts.into_iter().filter_map(|(at, text)| host(reader, at, "hosts", text)).collect()
}

/// A host in the form in which hosts are stored and compared: what is reviewed is what is bound.
fn host(reader: &mut Reader<'_>, at: usize, field: &str, text: &str) -> Option<SiteHost> {
    match text.parse::<SiteHost>() {
        Ok(host) if host.as_str() == text => return Some(host),
        Ok(host) => reader.complain(at, format!("{field:?} has {text:?}, which must be written {host:?}")),
        Err(error) => reader.complain(at, format!("{field:?} has {text:?}, which is no site host: {error}")),
    }
    None
}

fn released(reader: &mut Reader<'_>, table: &Table<'_>) -> Released {
    let Some(inner) = reader.table(table, "released") else { return Released::default() };
    let mut released = ReleaseTimes::default();
    for (name, field) in &inner.fields {
        let time = reader.time(inner, name);
        if name == "*" {
            released.all = time;
        } else if let (Some(host), Some(time)) = (host(reader, field.at, "released", name), time) {
            released.hosts.insert(host, time);
        }
    }
    released.into()
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

    fn only(files: &[(&str, &str)]) -> License {
        let (licenses, complaints) = load(files);
        assert_eq!(complaints, [""; 0]);
        assert_eq!(licenses.len(), 1);
        licenses.iter().next().unwrap().clone()
    }

    #[test]
    fn toml_and_json_spell_the_same_license() {
        let toml = format!(
            "[[license]]\nid = \"{ID}\"\nstatus = \"suspended\"\nexpires = 2027-12-31\nsites = 3\ngrace_period_hours = 0\n\
             note = \"a\\nb\"\nhosts = [\"example.com\", \"xn--mnchen-3ya.de\"]\n[license.modules]\nforms = [\"pdf\", \"api\"]\n\
             base = []\n[license.released]\n\"old.example.com\" = 2026-11-20T11:00:00+01:00\n\"*\" = 2026-01-01 00:00:00Z\n"
        );
        let json = format!(
            r#"{{"id":"{ID}","status":"suspended","expires":"2027-12-31","sites":3,"grace_period_hours":0,"note":"a\nb",
            "hosts":["example.com","xn--mnchen-3ya.de"],"modules":{{"forms":["pdf","api"],"base":[]}},
            "released":{{"old.example.com":"2026-11-20T10:00:00Z","*":"2026-01-01T00:00:00.000Z"}}}}"#
        )
        .replace('\n', "");
        let license = only(&[("a.toml", &toml)]);
        assert_eq!(license, only(&[("a.jsonl", &format!("\n{json}\r\n"))]));
        assert_eq!(
            (license.id.to_string().as_str(), license.status, license.note.as_str()),
            (ID, Status::Suspended, "a\nb")
        );
        assert_eq!((license.expires.to_string().as_str(), license.grace_period_hours), ("2027-12-31", Some(0)));
        assert_eq!(license.modules["forms"].iter().map(Name::as_str).collect::<Vec<_>>(), ["pdf", "api"]);
        assert_eq!(license.hosts.len(), 2);
        assert_eq!(license.released.hosts["old.example.com"].to_rfc3339(), "2026-11-20T10:00:00+00:00");
        assert_eq!(license.released.all.unwrap().to_rfc3339(), "2026-01-01T00:00:00+00:00");
    }

    #[test]
    fn a_license_without_more_is_active_for_one_site() {
        let license =
            only(&[("a.toml", &format!("[[license]]\nid = '{ID}'\nexpires = 2027-12-31\nmodules.base = []\n"))]);
        assert_eq!((license.status, license.sites, license.grace_period_hours), (Status::Active, Sites::DEFAULT, None));
        assert_eq!((license.hosts, license.released), (vec![], Released::default()));
    }

    #[test]
    fn every_mistake_of_every_license_is_found_with_its_place() {
        let key = LicenseKey::from_random([7; 20]);
        let text = format!(
            "title = 1\n[[license]]\nid = \"{}\"\nexpires = \"2027-12-31\"\nstatus = \"on\"\nsites = 0\n\
             hosts = [\"https://www.Example.com/\", \"a b\", \"a.com\", \"a.com\"]\ngrace_period_hours = 8761\n[license.modules]\n\
             [[license]]\nid = \"{}\"\nexpire = 2027-12-31\n[license.modules]\n\"my forms\" = [\"pdf\", \"\"]\nbase = true\n\
             [license.released]\n\"Old.com\" = 2026-11-20\n",
            key.reveal(),
            ID.to_uppercase(),
        );
        let (licenses, complaints) = load(&[("a.toml", &text)]);
        assert_eq!(licenses.len(), 0);
        let name = "expected 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-', starting with a letter or a digit";
        assert_eq!(
            complaints,
            [
                r#"a.toml:1:1: unknown field "title""#.to_owned(),
                format!(r#"a.toml:3:6: "id" must not be the license key itself; the key's id is {}"#, key.id()),
                r#"a.toml:4:11: "expires" must be a date such as 2027-12-31, not a string"#.into(),
                r#"a.toml:5:10: "status" must be "active", "suspended" or "revoked""#.into(),
                r#"a.toml:6:9: "sites" must be an integer from 1 on, or "unlimited""#.into(),
                r#"a.toml:7:10: "hosts" has 4 hosts, but "sites" is 1"#.into(),
                r#"a.toml:7:10: "hosts" has "https://www.Example.com/", which must be written "example.com""#.into(),
                r#"a.toml:7:38: "hosts" has "a b", which is no site host: it contains a blank, a control character or a backslash"#.into(),
                r#"a.toml:7:54: "hosts" has "a.com" twice"#.into(),
                r#"a.toml:8:22: "grace_period_hours" must be an integer from 0 to 8760"#.into(),
                r#"a.toml:9:1: "modules" must not be empty: such a license grants nothing"#.into(),
                r#"a.toml:10:1: missing field "expires""#.into(),
                r#"a.toml:11:6: "id" is not a SHA-256 digest: expected 64 lower-case hex digits"#.into(),
                r#"a.toml:12:1: unknown field "expire" (did you mean "expires"?)"#.into(),
                format!(r#"a.toml:14:1: "my forms" is not a name: {name}"#),
                format!(r#"a.toml:14:22: "my forms" is not a name: {name}"#),
                r#"a.toml:15:8: "base" must be an array of strings, not a boolean"#.into(),
                r#"a.toml:17:1: "released" has "Old.com", which must be written "old.com""#.into(),
                r#"a.toml:17:13: "Old.com" must be a time such as 2026-11-20T10:17:03Z, not a date"#.into(),
            ]
        );
    }

    #[test]
    fn a_license_key_belongs_in_no_field() {
        let key = LicenseKey::from_random([7; 20]);
        let bare = key.reveal().replace('-', "").to_lowercase();
        let key = key.reveal();
        let toml = format!(
            "[[license]]\nid = '{ID}'\nexpires = 2027-12-31\nnote = 'for {key}.'\nhosts = ['{bare}.com']\n\
             modules = {{ {key} = ['pdf'], base = ['api', '{bare}'] }}\nreleased = {{ '{bare}.com' = 2026-01-01T00:00:00Z }}\n"
        );
        let json = format!(
            r#"{{"id":"{ID}","expires":"2027-12-31","note":"{bare}","hosts":["{bare}.com"],"modules":{{"{key}":["{key}"]}}}}"#
        );
        let (licenses, complaints) = load(&[("a.toml", &toml), ("b.jsonl", &(json + "\n"))]);
        let place = |complaint: &String| {
            let (place, field) = complaint.split_once(": a license key stands in ").unwrap();
            format!("{place} {}", field.strip_suffix(": keys belong to customers only").unwrap())
        };
        assert_eq!(
            complaints.iter().map(place).collect::<Vec<_>>(),
            [
                "a.toml:4:8 \"note\"",
                "a.toml:5:10 \"hosts\"",
                "a.toml:6:13 \"modules\"",
                "a.toml:6:69 \"modules\"",
                "a.toml:7:14 \"released\"",
                "b.jsonl:1:104 \"note\"",
                "b.jsonl:1:141 \"hosts\"",
                "b.jsonl:1:185 \"modules\"",
                "b.jsonl:1:218 \"modules\"",
            ]
        );
        assert_eq!(licenses.len(), 0);
    }

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
