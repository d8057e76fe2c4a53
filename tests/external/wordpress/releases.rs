//! Everything that is online belongs to an attacker: the server, its keys, its manifests, its packages. Nothing is installed but
//! what enough people have signed.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::front::{Answer, Front, response};
use super::signer::{self, HOW, How, Signer};
use super::site::{CORES, Core, Kind, Site};
use super::two_files::INCOMPLETE;
use super::vendor::{Vendor, with_settings};
use super::{HOST, active_site, licensed};
use crate::support::instance::shared_keys;
use crate::support::{License, Response};

const UUID: &str = "01234567-89ab-8def-8123-456789abcdef";
const OFFERED: &str = "/downloads/acme-forms-1.1.0.zip";
const NAME: &str = "countersign:acme-forms/1.1.0";

fn anna() -> Signer {
    Signer::plain(1)
}

fn bert() -> Signer {
    Signer::plain(2)
}

fn token() -> Signer {
    Signer::hardware(3)
}

/// Pins Anna's key in a file and in hardware, Bert's, and a token; two of them have to sign.
fn pins() -> String {
    let keys = [anna(), Signer::hardware(1), bert(), token()].map(|signer| format!("'{}'", signer.line()));
    format!("'release_keys' => [{}], 'release_threshold' => 2", keys.join(", "))
}

/// What each row of the tables is tried on.
const SITES: [(Kind, Core); 5] = [
    (Kind::Plugin, Core::Debian),
    (Kind::Plugin, Core::Npm),
    (Kind::Plugin, Core::Newest),
    (Kind::Theme, Core::Debian),
    (Kind::Theme, Core::Newest),
];

/// A vendor, a site with its plugin in 1.0.0 that pins release keys, and the release 1.1.0.
struct Desk {
    vendor: Vendor,
    site: Site,
    package: Vec<u8>,
    statement: Value,
}

/// What an attacker makes of a manifest, and what he serves as its package.
#[derive(Clone)]
struct Attack {
    manifest: Value,
    release: Value,
    download: Vec<u8>,
}

impl Desk {
    fn new(core: Core) -> Self {
        Self::of(Kind::Plugin, core)
    }

    fn of(kind: Kind, core: Core) -> Self {
        Self::made(kind, |front| Site::new(core, HOST, front), |text| text)
    }

    /// With another site, and a client that was changed.
    fn at(site: impl Fn(&Front) -> Site, change: impl Fn(String) -> String) -> Self {
        Self::made(Kind::Plugin, site, change)
    }

    fn made(kind: Kind, site: impl Fn(&Front) -> Site, change: impl Fn(String) -> String) -> Self {
        let (license, table) = licensed();
        let pins = pins();
        let pinned = with_settings(&pins);
        let change = |text: String| change(pinned(text));
        let vendor = Vendor::of_kind(kind, &[table], change);
        let mut site = site(&vendor.front);
        match kind {
            Kind::Plugin => site.install("acme-forms", &vendor.archive("1.0.0")),
            Kind::Theme => site.install_theme("acme-forms", &vendor.archive("1.0.0")),
        }
        site.press("acme-forms", "activate", &license.key);
        assert_eq!(site.vendor_sees("acme-forms")["active"], true);
        vendor.release("1.1.0", change);
        let package = signer::package("acme-forms", &vendor.files("1.1.0"));
        let statement = signer::statement("acme-forms", "1.1.0", &package);
        // Whatever is unpacked reaches this, before the client has looked at it.
        site.neighbour(
            "add_filter('upgrader_source_selection', function ($source) { \
             file_put_contents(SITE . '/unpacked.log', \"$source\\n\", FILE_APPEND); return $source; }, PHP_INT_MIN); \
             eval((string) @file_get_contents(SITE . '/neighbour.code'));",
        );
        Self {
            vendor,
            site,
            package,
            statement,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        signer::bytes(&self.statement)
    }

    fn copy(&self) -> Vec<u8> {
        signer::copy(&self.package, &self.statement, UUID)
    }

    /// What Anna and the token signed.
    fn release(&self) -> Value {
        self.release_of(&self.statement)
    }

    fn release_of(&self, statement: &Value) -> Value {
        let bytes = signer::bytes(statement);
        signer::release(&bytes, &[anna().sign(&bytes), token().sign(&bytes)])
    }

    /// No attack at all.
    fn good(&self) -> Attack {
        Attack {
            manifest: json!({}),
            release: self.release(),
            download: self.copy(),
        }
    }

    /// A package of the attacker's, with nothing wrong but who made it.
    fn evil(&self) -> Vec<u8> {
        self.evil_as("1.1.0")
    }

    /// The same, which says that it is another version.
    fn evil_as(&self, version: &str) -> Vec<u8> {
        let mut files = self.vendor.files("1.1.0");
        let main_file = self.site.kind().main_file();
        let main = files.iter_mut().find(|(name, _)| name == main_file).unwrap();
        main.1 = String::from_utf8_lossy(&main.1).replace("1.1.0", version).into_bytes();
        files.push(("evil.php".into(), b"<?php // Anything.".to_vec()));
        let package = signer::package("acme-forms", &files);
        let statement = signer::statement("acme-forms", version, &package);
        signer::copy(&package, &statement, UUID)
    }

    /// The same in as many bytes as the signed package.
    fn evil_of_the_same_size(&self) -> Vec<u8> {
        let mut files = self.vendor.files("1.1.0");
        let shown = ["acme-forms.php", "index.php"];
        let page = files
            .iter_mut()
            .find(|(name, _)| shown.contains(&name.as_str()))
            .unwrap();
        let text = String::from_utf8(page.1.clone()).unwrap();
        page.1 = text.replace("Your message", "Your password").into_bytes();
        let readme = files.iter_mut().find(|(name, _)| name == "readme.txt").unwrap();
        let shorter = readme.1.len() - 1;
        readme.1.truncate(shorter);
        let package = signer::package("acme-forms", &files);
        assert_eq!(package.len(), self.package.len());
        let statement = signer::statement("acme-forms", "1.1.0", &package);
        signer::copy(&package, &statement, UUID)
    }

    /// Has the server do this from now on.
    fn serve(&self, attack: &Attack) {
        self.vendor.put_archive_online("1.1.0", attack.download.clone());
        let members = attack.manifest.clone();
        let release = attack.release.clone();
        self.vendor
            .front
            .answer_with(Answer::Made(Arc::new(move |_, mut answer: Response| {
                let mut manifest: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
                if manifest["version"].is_string() {
                    for (name, value) in members.as_object().unwrap() {
                        manifest[name] = value.clone();
                    }
                    if !release.is_null() {
                        manifest["release"] = release.clone();
                    }
                    answer.body = manifest.to_string().into();
                }
                answer
            })));
    }

    /// Has the server give this to who goes back to 1.0.0, and the good release to who asks for updates.
    fn serve_back(&self, release: &Value, download: Vec<u8>) {
        self.vendor.put_archive_online("1.0.0", download);
        let package = format!("{}/downloads/acme-forms-1.0.0.zip", self.vendor.front.url());
        let mut back = json!({ "slug": "acme-forms", "version": "1.0.0", "package": package });
        if !release.is_null() {
            back["release"] = release.clone();
        }
        let good = self.release();
        self.vendor
            .front
            .answer_with(Answer::Made(Arc::new(move |asked, mut answer: Response| {
                if asked.target.starts_with("/api/v1/releases/acme-forms/1.0.0?") {
                    return response(200, &[("Content-Type", "application/json")], back.to_string());
                }
                let mut manifest: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
                if manifest["version"].is_string() {
                    manifest["release"] = good.clone();
                    answer.body = manifest.to_string().into();
                }
                answer
            })));
    }

    /// What has been unpacked since the last call.
    fn take_unpacked(&self) -> String {
        let log = self.site.file("unpacked.log");
        let unpacked = fs::read_to_string(&log).unwrap_or_default();
        let _ = fs::remove_file(log);
        unpacked
    }

    /// Whether this version and nothing else is there, and the site runs.
    fn assert_installed(&mut self, version: &str, what: &str) {
        assert_eq!(self.site.version(), version, "{what}");
        assert_eq!(self.site.vendor_sees("acme-forms")["active"], true, "{what}");
        assert!(!self.site.own("evil.php").exists(), "{what}");
        let left: Vec<_> = fs::read_dir(self.site.file("tmp")).unwrap().collect();
        assert!(left.is_empty(), "{what}: {left:?}");
    }

    /// Everything was refused, and each page that tells of updates says why.
    fn assert_refused(&mut self, told: &str, what: &str) {
        assert_eq!(self.take_unpacked(), "", "{what}: nothing is unpacked");
        self.assert_installed("1.0.0", what);
        let license_page = self.site.license_page("acme-forms");
        for page in [&self.site.list(), "/wp-admin/update-core.php", &license_page] {
            let text = self.site.admin.get(page).text();
            assert!(text.contains(told), "{what}: {told} in {page}: {text}");
            assert!(
                text.contains("nothing proves that it comes from the vendor of Acme Forms"),
                "{what}: {text}"
            );
        }
    }

    /// The attack is not even offered.
    fn refuses_offer(&mut self, attack: &Attack, told: &str, what: &str) {
        self.serve(attack);
        self.site.check_again();
        assert!(!self.site.row().1, "{what}: nothing is offered");
        // A request without a button.
        assert_ne!(self.site.update_now()["success"], json!(true), "{what}");
        self.assert_refused(told, what);
    }

    /// The attack is offered, and its package refused.
    fn refuses_package(&mut self, attack: &Attack, told: &str, what: &str) {
        self.serve(attack);
        self.site.check_again();
        assert!(self.site.row().1, "{what}: the update is offered");
        let answer = self.site.update_now();
        assert_eq!(answer["success"], false, "{what}: {answer}");
        let message = answer["data"]["errorMessage"].as_str().unwrap();
        assert!(message.contains(told), "{what}: {message}");
        self.assert_refused(told, what);
    }

    /// At last, the vendor's own release.
    fn installs_the_good_one(&mut self) {
        self.serve(&self.good());
        self.site.check_again();
        assert!(self.site.row().1, "the update is offered");
        let answer = self.site.update_now();
        assert_eq!(answer["success"], true, "{answer}");
        self.assert_installed("1.1.0", "the good one");
        let mark = fs::read_to_string(self.site.own("build-id.php")).unwrap();
        assert!(mark.contains(UUID));
        self.site.check_again();
        let page = self.site.admin.get(&self.site.list()).text();
        assert!(!page.contains("nothing proves"), "{page}");
        assert_eq!(self.site.complaints(), [""; 0]);
    }
}

const UNSIGNED: &str = "The license server sent no signatures with it.";
const OTHER: &str = "What was signed is another release";
const UNREADABLE: &str = "What was signed is not written as a release statement must be.";
const OLDER: &str = "It is not newer than what is installed.";
const BYTES: &str = "Its download is not the signed package.";
const SIZE: &str = "Its download has another size than the signed package.";
const MARK: &str = "Its download does not have the mark of this site";
const SWAPPED: &str = "Its file was changed on this site after it had been checked.";
const FILES: &str = "The unpacked files are not those that were signed.";
const WAY: &str = "Something else on this site downloaded or unpacked it";

fn signatures(good: u8) -> String {
    format!("It needs 2 good signatures of the vendor's release keys, and has {good}.")
}

/// A row of the table: what the attacker does, and what the client says to it.
type Row = (&'static str, Attack, String);

/// Releases that too few of the right people signed.
fn too_few_signatures(desk: &Desk) -> Vec<Row> {
    let bytes = desk.bytes();
    let [a, b, t] = [anna().sign(&bytes), bert().sign(&bytes), token().sign(&bytes)];
    let twice = Signer::hardware(1).sign(&bytes);
    let how = |signer: Signer, how: How| signer.sign_as(&bytes, &how);
    let elsewhere = how(
        bert(),
        How {
            namespace: "file",
            ..HOW
        },
    );
    let untouched = how(token(), How { flags: 4, ..HOW });
    let md5 = how(bert(), How { hash: "md5", ..HOW });
    let unknown = Signer::plain(7).sign(&bytes);
    let broken = b.replace("BEGIN SSH", "BEGIN PGP");
    let many: Vec<_> = std::iter::repeat_n(unknown.clone(), 15)
        .chain([a.clone(), b.clone()])
        .collect();
    let with = |release: Value| Attack { release, ..desk.good() };
    let signed = |signatures: &[String]| with(signer::release(&bytes, signatures));
    vec![
        ("by one of two", signed(std::slice::from_ref(&a)), signatures(1)),
        (
            "by unknown keys",
            signed(&[unknown.clone(), Signer::plain(8).sign(&bytes)]),
            signatures(0),
        ),
        ("by a removed key", signed(&[a.clone(), unknown]), signatures(1)),
        ("by the same key twice", signed(&[a.clone(), a.clone()]), signatures(1)),
        ("by one key as plain and sk", signed(&[a.clone(), twice]), signatures(1)),
        ("for another namespace", signed(&[a.clone(), elsewhere]), signatures(1)),
        ("without touch", signed(&[a.clone(), untouched]), signatures(1)),
        ("md5 as hash", signed(&[a.clone(), md5]), signatures(1)),
        ("broken armor", signed(&[a.clone(), broken]), signatures(1)),
        ("two in one text", signed(&[format!("{a}{b}")]), signatures(0)),
        ("too many", signed(&many), signatures(0)),
        ("unsigned", with(Value::Null), UNSIGNED.to_owned()),
        ("no signatures", signed(&[]), UNSIGNED.to_owned()),
        ("a text", with(json!("signed")), UNSIGNED.to_owned()),
        ("no statement", with(json!({ "signatures": [a, b, t] })), signatures(0)),
        (
            "odd members",
            with(json!({ "statement": [1], "signatures": { "a": 1, "b": [a] } })),
            signatures(0),
        ),
    ]
}

#[test]
fn what_too_few_of_the_right_people_signed_is_not_offered() {
    for (kind, core) in SITES {
        let mut desk = Desk::of(kind, core);
        for (what, attack, told) in too_few_signatures(&desk) {
            desk.refuses_offer(&attack, &told, &format!("{kind} {core:?}: {what}"));
        }
        desk.installs_the_good_one();
    }
}

#[test]
fn a_site_goes_back_to_exactly_the_signed_version_that_was_chosen() {
    for (kind, core) in SITES {
        let mut desk = Desk::of(kind, core);
        desk.installs_the_good_one();
        desk.take_unpacked();
        let package = signer::package("acme-forms", &desk.vendor.files("1.0.0"));
        let statement = signer::statement("acme-forms", "1.0.0", &package);
        let copy = signer::copy(&package, &statement, UUID);
        let bytes = signer::bytes(&statement);
        let attacks = [
            (Value::Null, copy.clone(), UNSIGNED.to_owned()),
            (
                signer::release(&bytes, &[anna().sign(&bytes)]),
                copy.clone(),
                signatures(1),
            ),
            (desk.release(), copy.clone(), OTHER.to_owned()),
            (desk.release_of(&statement), desk.evil_as("1.0.0"), SIZE.to_owned()),
        ];
        for (release, download, told) in attacks {
            desk.serve_back(&release, download);
            let notices = desk.site.press_with("back_really", "version", "1.0.0").notices();
            assert!(notices[0].contains(&told), "{core:?}: {told} in {notices:?}");
            assert_eq!(desk.take_unpacked(), "", "{core:?}: {told}");
            desk.assert_installed("1.1.0", &told);
        }
        desk.serve_back(&desk.release_of(&statement), copy);
        let notices = desk.site.press_with("back_really", "version", "1.0.0").notices();
        assert!(
            notices[0].starts_with("The earlier version is installed."),
            "{notices:?}"
        );
        desk.assert_installed("1.0.0", "the way back");
        let page = desk.site.admin.get(&desk.site.list()).text() + &desk.site.row().0;
        assert!(
            page.contains("You went back from version 1.1.0") && !page.contains("nothing proves"),
            "{page}"
        );
        assert_eq!(desk.site.complaints(), [""; 0]);
    }
}

/// Statements that were signed, for something else than what is offered.
fn signed_for_something_else(desk: &Desk) -> Vec<Row> {
    let other = |change: &dyn Fn(&mut Value)| {
        let mut statement = desk.statement.clone();
        change(&mut statement);
        Attack {
            release: desk.release_of(&statement),
            ..desk.good()
        }
    };
    let as_version = |attack: Attack, version: &str| Attack {
        manifest: json!({ "version": version, "new_version": version }),
        ..attack
    };
    let old = other(&|statement| statement["version"] = json!("0.9.0"));
    let maps = other(&|statement| statement["slug"] = json!("acme-maps"));
    let text = String::from_utf8(desk.bytes()).unwrap();
    let signed = |text: &str| {
        let bytes = text.as_bytes();
        let release = signer::release(bytes, &[anna().sign(bytes), token().sign(bytes)]);
        Attack { release, ..desk.good() }
    };
    let twice = signed(&text.replace("\"version\":\"1.1.0\"", "\"version\":\"0.9.0\",\"version\":\"1.1.0\""));
    let spaced = signed(&format!("{text}\n"));
    let cases = [
        ("an old version", as_version(old, "0.9.0"), OLDER),
        (
            "the installed version",
            as_version(other(&|s| s["version"] = json!("1.0.0")), "1.0.0"),
            OLDER,
        ),
        (
            "an old version as new",
            other(&|s| s["version"] = json!("0.9.0")),
            OTHER,
        ),
        ("a new version as newer", as_version(desk.good(), "1.2.0"), OTHER),
        ("another plugin's", maps, OTHER),
        ("a member twice", twice, UNREADABLE),
        ("other white space", spaced, UNREADABLE),
        (
            "another type",
            other(&|s| s["type"] = json!("countersign-release-2")),
            UNREADABLE,
        ),
        (
            "an unknown member",
            other(&|s| s["install_from"] = json!("elsewhere")),
            UNREADABLE,
        ),
        (
            "an unknown member of the package",
            other(&|s| s["package"]["url"] = json!("elsewhere")),
            UNREADABLE,
        ),
        ("no package", other(&|s| s["package"] = Value::Null), UNREADABLE),
        (
            "a mark outside",
            other(&|s| s["package"]["mark"]["uuid"] = json!(1 << 30)),
            UNREADABLE,
        ),
    ];
    cases.map(|(what, attack, told)| (what, attack, told.to_owned())).into()
}

#[test]
fn what_was_signed_for_something_else_is_not_offered() {
    for (kind, core) in SITES {
        let mut desk = Desk::of(kind, core);
        for (what, attack, told) in signed_for_something_else(&desk) {
            desk.refuses_offer(&attack, &told, &format!("{kind} {core:?}: {what}"));
        }
        desk.installs_the_good_one();
    }
}

/// Packages that are not the signed one, with its good signatures.
fn other_packages(desk: &Desk) -> Vec<Row> {
    let copy = desk.copy();
    let place = |pointer: &str| desk.statement.pointer(pointer).unwrap().as_u64().unwrap() as usize;
    let uuid = place("/package/mark/uuid");
    let [local, central] = ["/package/mark/crc/0", "/package/mark/crc/1"].map(place);
    let changed = |at: usize, to: &[u8]| {
        let mut copy = copy.clone();
        copy[at..at + to.len()].copy_from_slice(to);
        copy
    };
    let flipped = |at: usize| changed(at, &[copy[at] ^ 1]);
    let marked = |uuid: &str| signer::copy(&desk.package, &desk.statement, uuid);
    let other_version = {
        let package = signer::package("acme-forms", &desk.vendor.files("1.0.0"));
        let statement = signer::statement("acme-forms", "1.0.0", &package);
        signer::copy(&package, &statement, UUID)
    };
    let second_directory = [&copy[..], &copy[central - 16..]].concat();
    let mut moved = desk.package.clone();
    moved[uuid - 1..uuid + 35].copy_from_slice(UUID.as_bytes());
    let cases = [
        ("arbitrary", desk.evil(), SIZE),
        ("arbitrary, of the same size", desk.evil_of_the_same_size(), BYTES),
        ("of another version", other_version, SIZE),
        ("the first byte", flipped(0), BYTES),
        ("the last byte", flipped(copy.len() - 1), BYTES),
        ("in the mark", flipped(uuid + 3), MARK),
        ("in front of the mark", flipped(uuid - 1), BYTES),
        ("behind the mark", flipped(uuid + 36), BYTES),
        ("an appended byte", [&copy[..], b"\0"].concat(), SIZE),
        ("a byte in front", [b"#", &copy[..]].concat(), SIZE),
        ("a byte less", copy[..copy.len() - 1].to_vec(), SIZE),
        ("a second central directory", second_directory, SIZE),
        ("a wrong CRC", changed(local, b"abcd"), MARK),
        ("unequal CRCs", flipped(central), MARK),
        ("an end of the archive as CRC", changed(central, b"PK\x05\x06"), MARK),
        (
            "two ends of the archive",
            {
                let mut copy = changed(central, b"PK\x05\x06");
                copy[local..local + 4].copy_from_slice(b"PK\x05\x06");
                copy
            },
            MARK,
        ),
        ("a mark elsewhere", moved, MARK),
        ("nobody's copy", desk.package.clone(), MARK),
        ("capitals", marked(&UUID.to_uppercase()), MARK),
        ("another kind of UUID", marked(&UUID.replace("-8def", "-4def")), MARK),
        ("code as a mark", marked("'.system($_GET[0]).'0000000000000000"), MARK),
    ];
    let row = |(what, download, told): (&'static str, Vec<u8>, &str)| {
        let attack = Attack {
            download,
            ..desk.good()
        };
        (what, attack, told.to_owned())
    };
    cases.into_iter().map(row).collect()
}

#[test]
fn another_package_than_the_signed_one_is_not_unpacked() {
    for (kind, core) in SITES {
        let mut desk = Desk::of(kind, core);
        for (what, attack, told) in other_packages(&desk) {
            desk.refuses_package(&attack, &told, &format!("{kind} {core:?}: {what}"));
        }
        // The download leads elsewhere.
        desk.serve(&desk.good());
        desk.vendor.front.put("/evil.zip", response(200, &[], desk.evil()));
        let redirect = response(302, &[("Location", "/evil.zip")], "");
        desk.site.check_again();
        desk.vendor.front.put(OFFERED, redirect);
        let answer = desk.site.update_now();
        assert!(
            answer["data"]["errorMessage"].as_str().unwrap().contains(SIZE),
            "{answer}"
        );
        desk.assert_refused(SIZE, "a redirect");
        desk.installs_the_good_one();
    }
}

/// Serves a package that never ends, or is slow, and gives how long the client took it after as many bytes as were signed.
fn streamed(desk: &Desk, head: &'static str, paces: bool) -> Arc<Mutex<Option<Duration>>> {
    let copy = desk.copy();
    let took = Arc::new(Mutex::new(None));
    let told = Arc::clone(&took);
    desk.vendor.front.stream(OFFERED, move |stream| {
        stream.write_all(head.as_bytes())?;
        let end = if paces { copy.len() } else { copy.len() - 1 };
        stream.write_all(&copy[..end])?;
        let began = Instant::now();
        let mut gone = Ok(0);
        if paces {
            // Neither fast nor slow: 400 KB a second.
            while stream.write_all(&[b'x'; 4_096]).is_ok() && began.elapsed() < Duration::from_secs(60) {
                std::thread::sleep(Duration::from_millis(10));
            }
        } else {
            stream.set_read_timeout(Some(Duration::from_secs(120)))?;
            gone = stream.read(&mut [0]);
        }
        *told.lock().unwrap() = Some(began.elapsed());
        gone.map(|_| ())
    });
    took
}

#[test]
fn a_transfer_is_cut_off_where_the_signed_package_ends() {
    let sites: [fn(&Front) -> Site; 4] = [
        |front| Site::new(Core::Debian, HOST, front),
        |front| Site::new(Core::Newest, HOST, front),
        |front| Site::without_curl(Core::Debian, HOST, front),
        |front| Site::without_curl(Core::Newest, HOST, front),
    ];
    for (number, site) in sites.into_iter().enumerate() {
        let mut desk = Desk::at(site, |text| text);
        desk.serve(&desk.good());
        for (what, head) in [
            ("endless", "HTTP/1.1 200 OK\r\n\r\n"),
            (
                "longer than it should be",
                "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
            ),
            ("gzip", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"),
        ] {
            let took = streamed(&desk, head, true);
            desk.site.check_again();
            let answer = desk.site.update_now();
            let message = answer["data"]["errorMessage"].as_str().unwrap();
            assert!(message.contains(SIZE), "{number} {what}: {message}");
            desk.assert_refused(SIZE, what);
            let took = took.lock().unwrap().expect("it has ended");
            eprintln!("{number} {what}: {took:?} after the last signed byte");
            // A second, and a machine that has other things to do.
            assert!(took < Duration::from_secs(10), "{number} {what}: {took:?}");
        }
    }
}

#[test]
fn a_package_that_does_not_come_to_its_end_is_not_waited_for_long() {
    let sites: [fn(&Front) -> Site; 2] = [
        |front| Site::new(Core::Newest, HOST, front),
        |front| Site::without_curl(Core::Debian, HOST, front),
    ];
    for (number, site) in sites.into_iter().enumerate() {
        let mut desk = Desk::at(site, |text| text);
        desk.serve(&desk.good());
        let took = streamed(&desk, "HTTP/1.1 200 OK\r\n\r\n", false);
        desk.site.check_again();
        let answer = desk.site.update_now();
        assert_eq!(answer["success"], false, "{number}: {answer}");
        assert_eq!(desk.take_unpacked(), "");
        desk.assert_installed("1.0.0", "slow");
        let took = took.lock().unwrap().expect("it has ended");
        assert!(took < Duration::from_secs(45), "{number}: {took:?}");
    }
}

#[test]
fn a_file_that_changes_after_its_check_and_another_plugins_file_are_not_installed() {
    for (kind, core) in SITES {
        let mut desk = Desk::of(kind, core);
        let evil = desk.site.file("evil.zip");
        let path = evil.display().to_string();
        // No file of PHP's, of which PHP keeps for seconds what was in it.
        let neighbour_code = desk.site.file("neighbour.code");
        let own_archive = desk.evil();
        let late = |code: &str| {
            format!(
                "add_filter('upgrader_pre_download', function ($first) {{ \
                 add_filter('upgrader_pre_download', function ($reply) {{ {code} }}, PHP_INT_MAX); return $first; }}, 1);"
            )
        };
        let early = |code: &str| format!("add_filter('upgrader_pre_download', function ($reply) {{ {code} }});");
        // What a later filter gives instead of the file is unpacked where WordPress does not say what it unpacks.
        let is_unpacked = core == Core::Debian;
        for (what, neighbour, told, unpacked) in [
            (
                "the file is swapped",
                late(&format!("is_string($reply) && copy('{path}', $reply); return $reply;")),
                SWAPPED,
                false,
            ),
            (
                "the file is gone",
                late("is_string($reply) && unlink($reply) && touch($reply); return $reply;"),
                SWAPPED,
                false,
            ),
            (
                "a later filter",
                late(&format!("copy('{path}', '{path}.copy'); return '{path}.copy';")),
                WAY,
                is_unpacked,
            ),
            ("an earlier filter", early(&format!("return '{path}';")), WAY, false),
        ] {
            fs::write(&evil, &own_archive).unwrap();
            fs::write(&neighbour_code, neighbour).unwrap();
            desk.serve(&desk.good());
            desk.site.check_again();
            assert!(desk.site.row().1, "{what}: the update is offered");
            let answer = desk.site.update_now();
            assert_eq!(answer["success"], false, "{core:?} {what}: {answer}");
            let log = desk.take_unpacked();
            assert_eq!(!log.is_empty(), unpacked, "{core:?} {what}: {log} {answer}");
            desk.assert_refused(told, &format!("{kind} {core:?}: {what}"));
        }
        fs::remove_file(neighbour_code).unwrap();
        // A stored offer that leads elsewhere.
        desk.serve(&desk.good());
        desk.vendor.front.put("/evil.zip", response(200, &[], own_archive));
        desk.site.check_again();
        // WordPress looks once more on the next page.
        assert!(desk.site.row().1);
        desk.site.run(&format!(
            "$updates = get_site_transient('update_{kind}s'); $update = $updates->response['{id}']; \
             is_array($update) ? $update['package'] = '{url}/evil.zip' : $update->package = '{url}/evil.zip'; \
             $updates->response['{id}'] = $update; set_site_transient('update_{kind}s', $updates);",
            id = kind.id(),
            url = desk.vendor.front.url()
        ));
        let answer = desk.site.update_now();
        assert_eq!(answer["success"], false, "{answer}");
        desk.assert_refused(WAY, &format!("{core:?}: a changed transient"));
        desk.installs_the_good_one();
    }
}

/// What another plugin may do to the unpacked files before they are moved into place.
const CHANGES: [(&str, &str); 11] = [
    ("a file more", "file_put_contents($source . 'evil.php', '<?php');"),
    (
        "a hidden file more",
        "file_put_contents($source . '.evil.php', '<?php');",
    ),
    (
        "a folder more",
        "mkdir($source . 'more'); file_put_contents($source . 'more/evil.php', '<?php');",
    ),
    ("a file less", "unlink($source . 'readme.txt');"),
    (
        "another file",
        "file_put_contents($source . 'acme-forms.php', '// More.', FILE_APPEND);",
    ),
    (
        "a link to a file",
        "rename($source . 'readme.txt', SITE . '/readme.txt'); symlink(SITE . '/readme.txt', $source . 'readme.txt');",
    ),
    ("a folder within itself", "symlink('.', $source . 'more');"),
    (
        "code behind the mark",
        "file_put_contents($source . 'build-id.php', 'evil();', FILE_APPEND);",
    ),
    (
        "code as the mark",
        "file_put_contents($source . 'build-id.php', str_replace('return', 'evil(); return', \
         file_get_contents($source . 'build-id.php')));",
    ),
    ("no mark", "unlink($source . 'build-id.php');"),
    (
        "another folder",
        "rename($source, dirname($source) . '/evil'); $source = dirname($source) . '/evil/';",
    ),
];

#[test]
fn other_files_than_those_that_were_signed_are_not_moved_into_place() {
    for (kind, core) in SITES {
        let mut desk = Desk::of(kind, core);
        let evil = desk.site.file("evil.zip");
        fs::write(&evil, desk.evil()).unwrap();
        let neighbour_code = desk.site.file("neighbour.code");
        let mut rows: Vec<_> = CHANGES
            .iter()
            .map(|(what, code)| {
                let code = code.replace("acme-forms.php", kind.main_file());
                let filter = format!(
                    "add_filter('upgrader_source_selection', function ($source) {{ {code} return $source; }});"
                );
                (*what, filter)
            })
            .collect();
        if core != Core::Debian {
            // Since WordPress 6.4.
            let unpacks = format!(
                "add_filter('pre_unzip_file', function ($result, $file, $to) {{ $zip = new ZipArchive; $zip->open('{}'); \
                 return $zip->extractTo($to); }}, 10, 3);",
                evil.display()
            );
            let adds = "add_filter('unzip_file', function ($result, $file, $to) { \
                 file_put_contents($to . '/acme-forms/evil.php', '<?php'); return $result; }, 10, 3);";
            rows.extend([
                ("another archive is unpacked", unpacks),
                ("a file is added behind the unpacking", adds.to_owned()),
            ]);
        }
        for (what, code) in rows {
            fs::write(&neighbour_code, code).unwrap();
            desk.serve(&desk.good());
            desk.site.check_again();
            assert!(desk.site.row().1, "{core:?} {what}: the update is offered");
            let answer = desk.site.update_now();
            assert_eq!(answer["success"], false, "{core:?} {what}: {answer}");
            let message = answer["data"]["errorMessage"].as_str().unwrap();
            assert!(message.contains(FILES), "{core:?} {what}: {message}");
            assert_ne!(desk.take_unpacked(), "", "{core:?} {what}");
            let left = desk.site.left_unpacked();
            assert!(left.is_empty(), "{core:?} {what}: {left:?}");
            desk.assert_installed("1.0.0", what);
        }
        fs::remove_file(neighbour_code).unwrap();
        desk.installs_the_good_one();
    }
}

/// PHP that lets each of WordPress' ways to install have the stored offer, and prints what came of it.
const WAYS: &str = "require_once ABSPATH . 'wp-admin/includes/admin.php'; \
    require_once ABSPATH . 'wp-admin/includes/class-wp-upgrader.php'; \
    $plugin = 'acme-forms/acme-forms.php'; \
    update_site_option('auto_update_plugins', [$plugin]); \
    $offers = get_site_transient('update_plugins'); \
    $offer = $offers->response[$plugin]; \
    $again = function () use ($offers) { set_site_transient('update_plugins', $offers); }; \
    $say = function ($way, $result) use ($plugin) { \
        $version = get_plugin_data(WP_PLUGIN_DIR . '/' . $plugin)['Version']; \
        $result = is_array($result) && isset($result[$plugin]) ? $result[$plugin] : $result; \
        echo $way, ' ', is_wp_error($result) ? 'refused' : (is_array($result) || true === $result ? 'done' : 'refused'), ' ', $version, \"\\n\"; }; \
    $upgrader = function () { return new Plugin_Upgrader(new Automatic_Upgrader_Skin()); }; ";

const ALL_WAYS: &str = "$say('upgrade', $upgrader()->upgrade($plugin)); $again(); \
    $say('bulk', $upgrader()->bulk_upgrade([$plugin])); $again(); \
    $say('install', $upgrader()->install($offer->package, ['overwrite_package' => true])); $again(); \
    $say('automatic', (new WP_Automatic_Updater())->update('plugin', $offer, WP_PLUGIN_DIR));";

#[test]
fn an_offer_that_was_stored_installs_nothing_where_the_client_is_not_loaded() {
    for core in CORES {
        let mut desk = Desk::new(core);
        desk.serve(&desk.good());
        desk.site.check_again();
        assert!(desk.site.row().1);
        let evil = response(200, &[], desk.evil());
        desk.vendor.front.put(OFFERED, evil);
        let code = format!("update_option('active_plugins', []); {WAYS} echo $offer->package, \"\\n\"; {ALL_WAYS}");
        // Plugins are loaded before an option is changed, so this is another process.
        desk.site.run("$offers = get_site_transient('update_plugins'); update_option('active_plugins', []); set_site_transient('update_plugins', $offers);");
        let said = desk.site.run(&code);
        let lines: Vec<_> = said.lines().filter(|line| !line.trim().is_empty()).collect();
        let mut expected = vec![NAME.to_owned()];
        expected.extend(["upgrade", "bulk", "install", "automatic"].map(|way| format!("{way} refused 1.0.0")));
        assert_eq!(lines, expected, "{core:?}: {said}");
        assert_eq!(desk.take_unpacked(), "");
        let details = desk
            .site
            .run("update_option('active_plugins', ['acme-forms/acme-forms.php']);");
        assert_eq!(details, "");
        desk.installs_the_good_one();
    }
}

/// What `wp --skip-plugins` does before it loads WordPress: filters of the list of plugins.
const SKIP_PLUGINS: &str = "$wp_filter['option_active_plugins'][999]['skip'] = \
    ['function' => function () { return []; }, 'accepted_args' => 1];";

/// A session in WordPress' recovery mode, in which this plugin is paused.
const RECOVERY: &str = "define('WP_RECOVERY_MODE_SESSION_ID', 'session');";
const PAUSE: &str =
    "update_option('session_paused_extensions', ['plugin' => ['acme-forms' => ['message' => 'An error.']]]);";

#[test]
fn where_plugins_are_skipped_or_paused_nothing_unverified_is_installed() {
    for core in CORES {
        let mut desk = Desk::new(core);
        desk.serve(&desk.good());
        desk.site.check_again();
        assert!(desk.site.row().1);
        desk.vendor.front.put(OFFERED, response(200, &[], desk.evil()));
        desk.site.run(PAUSE);
        let code = format!(
            "echo class_exists('Countersign\\\\Client\\\\Client') || class_exists('Acme\\\\Forms\\\\License\\\\Client') ? 'here' : 'absent', \"\\n\"; {WAYS} {ALL_WAYS}"
        );
        for before in [SKIP_PLUGINS, RECOVERY] {
            let said = desk.site.run_behind(before, &code);
            let lines: Vec<_> = said.lines().filter(|line| !line.trim().is_empty()).collect();
            let mut expected = vec!["absent".to_owned()];
            expected.extend(["upgrade", "bulk", "install", "automatic"].map(|way| format!("{way} refused 1.0.0")));
            assert_eq!(lines, expected, "{core:?} {before}: {said}");
            assert_eq!(desk.take_unpacked(), "", "{core:?} {before}");
        }
        assert!(
            desk.site
                .run_behind(
                    "",
                    "echo class_exists('Acme\\\\Forms\\\\License\\\\Client') ? 'here' : 'absent';"
                )
                .contains("here")
        );
        desk.site
            .run("update_option('active_plugins', ['acme-forms/acme-forms.php']);");
        desk.installs_the_good_one();
    }
}

#[test]
fn each_way_to_install_proves_what_it_installs() {
    for core in CORES {
        for way in ["upgrade", "bulk", "install", "automatic"] {
            let mut desk = Desk::new(core);
            let code = ALL_WAYS
                .split(';')
                .find(|code| code.contains(&format!("'{way}'")))
                .unwrap();
            let run = |desk: &mut Desk, attack: &Attack| {
                desk.serve(attack);
                desk.site.check_again();
                assert!(desk.site.row().1);
                if way == "automatic" {
                    // Debian's WordPress cannot send mail.
                    let no_mail = "add_filter('auto_plugin_update_send_email', '__return_false');";
                    fs::write(desk.site.file("neighbour.code"), no_mail).unwrap();
                    // WordPress asks itself afterwards whether it is well, so this is not for the command line.
                    desk.site
                        .run("update_site_option('auto_update_plugins', ['acme-forms/acme-forms.php']);");
                    desk.site.pass(13 * 3600);
                    desk.site.cron();
                } else {
                    desk.site
                        .run(&format!("{WAYS} {code}; update_option('active_plugins', [$plugin]);"));
                }
            };
            let download = desk.evil_of_the_same_size();
            let attack = Attack {
                download,
                ..desk.good()
            };
            run(&mut desk, &attack);
            desk.assert_refused(BYTES, &format!("{core:?} {way}"));
            let good = desk.good();
            run(&mut desk, &good);
            desk.assert_installed("1.1.0", &format!("{core:?} {way}"));
        }
    }
}

#[test]
fn without_its_second_file_the_client_lets_nothing_unverified_be_installed() {
    for core in CORES {
        let mut desk = Desk::new(core);
        desk.serve(&desk.good());
        desk.site.check_again();
        assert!(desk.site.row().1);
        desk.vendor.front.put("/evil.zip", response(200, &[], desk.evil()));
        let evil = desk.site.file("evil.zip");
        fs::write(&evil, desk.evil()).unwrap();
        let path = evil.display();
        let gives = format!("copy('{path}', '{path}.copy'); return '{path}.copy';");
        let early = format!("add_filter('upgrader_pre_download', function () {{ {gives} }});");
        let late = format!(
            "add_action('wp_loaded', function () {{ add_filter('upgrader_pre_download', function () {{ {gives} }}, PHP_INT_MAX); }});"
        );
        let stored = format!(
            "add_filter('site_transient_update_plugins', function ($updates) {{ \
             if (isset($updates->response['acme-forms/acme-forms.php'])) {{ \
             $updates->response['acme-forms/acme-forms.php']->package = '{}/evil.zip'; }} return $updates; }});",
            desk.vendor.front.url()
        );
        // After each attempt WordPress looks again, and nobody offers anything.
        let kept = "get_option('kept_updates')";
        desk.site
            .run("update_option('kept_updates', get_site_transient('update_plugins'));");
        let offer_again = format!("set_site_transient('update_plugins', {kept}); ");
        let right = fs::read(desk.site.second_file()).unwrap();
        let half = &right[..right.len() / 2];
        for (what, second) in [("missing", None), ("half of it", Some(half))] {
            match second {
                Some(bytes) => fs::write(desk.site.second_file(), bytes).unwrap(),
                None => fs::remove_file(desk.site.second_file()).unwrap(),
            }
            for neighbour in ["", &early, &stored, &late] {
                fs::write(desk.site.file("neighbour.code"), neighbour).unwrap();
                let what = format!("{core:?}: {what}: {neighbour}");
                desk.site.run(&offer_again);
                let answer = desk.site.update_now();
                assert_eq!(answer["success"], false, "{what}: {answer}");
                let message = answer["data"]["errorMessage"].as_str().unwrap();
                let told = INCOMPLETE.strip_prefix("Acme Forms: ").unwrap();
                assert!(message.contains(told), "{what}: {message}");
                // A file of nobody's, which somebody installs without saying for which plugin, is no update of this one.
                let ways = ALL_WAYS
                    .split_inclusive("$again(); ")
                    .filter(|way| ["", &early].contains(&neighbour) || !way.contains("'install'"));
                let ways: Vec<_> = ways.collect();
                let code = format!(
                    "{offer_again} {WAYS} {}; update_option('active_plugins', [$plugin]);",
                    ways.concat()
                );
                for area in ["", "define('WP_ADMIN', true);"] {
                    let said = desk.site.run_behind(area, &code);
                    let refused = said.lines().filter(|line| line.ends_with(" refused 1.0.0")).count();
                    assert_eq!(refused, ways.len(), "{what}: {said}");
                    // In wp-admin what comes later is unpacked, and not moved into place.
                    let is_unpacked = neighbour == late && !area.is_empty();
                    assert_eq!(!desk.take_unpacked().is_empty(), is_unpacked, "{what} {area}");
                }
            }
        }
        fs::remove_file(desk.site.file("neighbour.code")).unwrap();
        fs::write(desk.site.second_file(), &right).unwrap();
        let _ = fs::remove_file(desk.site.file("debug.log"));
        desk.site
            .run("update_option('active_plugins', ['acme-forms/acme-forms.php']);");
        desk.installs_the_good_one();
    }
}

#[test]
fn the_details_and_a_network_have_no_other_address_than_the_packages_name() {
    let install = "$say('bulk', $upgrader()->bulk_upgrade([$plugin]));";
    for core in CORES {
        let mut desk = Desk::at(|front| Site::network(core, HOST, front), |text| text);
        let look = "require_once ABSPATH . 'wp-admin/includes/admin.php'; delete_site_transient('update_plugins'); wp_update_plugins(); \
                    $offers = get_site_transient('update_plugins')->response; \
                    echo $offers['acme-forms/acme-forms.php']->package ?? 'none', ' '; \
                    require_once ABSPATH . 'wp-admin/includes/plugin-install.php'; \
                    echo plugins_api('plugin_information', (object) ['slug' => 'acme-forms'])->download_link;";
        let run = |desk: &Desk| desk.site.run(&format!("{WAYS} {install}"));
        let without = Attack {
            release: Value::Null,
            ..desk.good()
        };
        desk.serve(&without);
        assert_eq!(desk.site.run(look), "none ", "{core:?}");
        let plugins = desk.site.admin.get("/wp-admin/network/plugins.php").text();
        assert!(plugins.contains(UNSIGNED), "{core:?}: {plugins}");

        let evil = Attack {
            download: desk.evil_of_the_same_size(),
            ..desk.good()
        };
        desk.serve(&evil);
        assert_eq!(desk.site.run(look), format!("{NAME} {NAME}"), "{core:?}");
        assert!(run(&desk).contains("bulk refused 1.0.0"), "{core:?}");
        assert_eq!(desk.take_unpacked(), "");
        let plugins = desk.site.admin.get("/wp-admin/network/plugins.php").text();
        assert!(plugins.contains(BYTES), "{core:?}: {plugins}");

        desk.serve(&desk.good());
        desk.site.run(look);
        assert!(run(&desk).contains("bulk done 1.1.0"), "{core:?}");
        assert_eq!(desk.site.complaints(), [""; 0]);
    }
}

/// What is not installed without the check either: WordPress and the client's other checks refuse it.
const STOPPED_ELSEWHERE: [&str; 6] = [
    // It is not newer.
    "an old version",
    "the installed version",
    // The archive has another version than the offer.
    "of another version",
    // It is not a ZIP archive.
    "the first byte",
    "a byte in front",
    "a byte less",
];

fn copy_folder(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(copied.unwrap().success());
}

#[test]
fn without_its_check_the_client_installs_what_the_attacker_sends() {
    for core in CORES {
        let toothless =
            |text: String| text.replace("$this->pins_releases = [] !== $lines;", "$this->pins_releases = false;");
        let mut desk = Desk::at(|front| Site::new(core, HOST, front), toothless);
        let plugin = desk.site.file("wp-content/plugins/acme-forms");
        let saved = desk.site.file("saved");
        copy_folder(&plugin, &saved);
        let main_file = |plugin: &Path| fs::read(plugin.join("acme-forms.php")).unwrap();

        let offers = [too_few_signatures(&desk), signed_for_something_else(&desk)].concat();
        let with_evil = |(what, attack, _): Row| {
            let version = attack.manifest["version"].as_str().unwrap_or("1.1.0");
            let download = desk.evil_as(version);
            (what, Attack { download, ..attack })
        };
        let mut rows: Vec<_> = offers.into_iter().map(with_evil).collect();
        rows.extend(
            other_packages(&desk)
                .into_iter()
                .map(|(what, attack, _)| (what, attack)),
        );
        let mut stopped = Vec::new();
        for (what, attack) in rows {
            desk.serve(&attack);
            desk.site.check_again();
            let answer = desk.site.update_now();
            if answer["success"] == true {
                assert_ne!(desk.take_unpacked(), "", "{core:?}: {what}");
                assert_ne!(main_file(&plugin), main_file(&saved), "{core:?}: {what}");
            } else {
                stopped.push(what);
                desk.take_unpacked();
            }
            // The next row meets the same site.
            fs::remove_dir_all(&plugin).unwrap();
            copy_folder(&saved, &plugin);
        }
        assert_eq!(stopped, STOPPED_ELSEWHERE, "{core:?}");
    }
}

#[test]
fn a_package_that_the_server_made_and_marked_is_the_signed_one() {
    for core in CORES {
        let (license, table) = licensed();
        let pins = pins();
        let change = with_settings(&pins);
        let vendor = Vendor::hosting_with(&[table], &change);
        let mut site = Site::new(core, HOST, &vendor.front);
        site.install("acme-forms", &vendor.package("1.0.0"));
        site.press("acme-forms", "activate", &license.key);
        vendor.release("1.1.0", &change);
        let package = vendor.package("1.1.0");
        let statement = signer::statement("acme-forms", "1.1.0", &package);
        let bytes = signer::bytes(&statement);
        let release = signer::release(&bytes, &[bert().sign(&bytes), token().sign(&bytes)]);
        vendor
            .front
            .answer_with(Answer::Made(Arc::new(move |_, mut answer: Response| {
                if let Ok(mut manifest) = serde_json::from_slice::<Value>(&answer.body)
                    && manifest["version"].is_string()
                {
                    manifest["release"] = release.clone();
                    answer.body = manifest.to_string().into();
                }
                answer
            })));
        site.check_again();
        let answer = site.update_now();
        assert_eq!(answer["success"], true, "{core:?}: {answer}");
        assert!(site.row().0.contains("Version 1.1.0"), "{core:?}");
        let mark = fs::read_to_string(site.file("wp-content/plugins/acme-forms/build-id.php")).unwrap();
        assert!(
            mark.contains("return '") && !mark.contains("'00000000-"),
            "{core:?}: {mark}"
        );
        assert_eq!(site.complaints(), [""; 0]);
    }
}

#[test]
fn a_site_behind_a_change_of_keys_installs_what_its_own_keys_signed_too() {
    let mut desk = Desk::new(Core::Newest);
    let bytes = desk.bytes();
    let new = [Signer::plain(21), Signer::plain(22)].map(|signer| signer.sign(&bytes));
    let attack = Attack {
        release: signer::release(&bytes, &new),
        ..desk.good()
    };
    desk.refuses_offer(&attack, &signatures(0), "signed by new keys only");
    let both: Vec<_> = new
        .into_iter()
        .chain([bert().sign(&bytes), token().sign(&bytes)])
        .collect();
    let release = signer::release(&bytes, &both);
    desk.serve(&Attack { release, ..desk.good() });
    desk.site.check_again();
    assert!(desk.site.row().1);
    assert_eq!(desk.site.update_now()["success"], true);
    desk.assert_installed("1.1.0", "signed by old keys, too");
}

#[test]
fn what_a_release_needs_is_what_was_signed() {
    let mut desk = Desk::new(Core::Newest);
    for (member, version) in [("requires", "99.1"), ("requires_php", "99.0")] {
        let mut statement = desk.statement.clone();
        statement[member] = json!(version);
        let release = desk.release_of(&statement);
        desk.serve(&Attack { release, ..desk.good() });
        desk.site.check_again();
        assert_ne!(desk.site.update_now()["success"], json!(true), "{member}");
        desk.assert_installed("1.0.0", member);
    }
    // The server cannot hold a signed release back by saying that it needs more.
    let manifest = json!({ "requires": "99.1", "requires_php": "99.0" });
    desk.serve(&Attack {
        manifest,
        ..desk.good()
    });
    desk.site.check_again();
    assert_eq!(desk.site.update_now()["success"], true);
    desk.assert_installed("1.1.0", "requirements");
}

#[test]
fn where_an_older_client_was_loaded_first_a_plugin_that_pins_keys_gets_no_update() {
    // Two plugins share a namespace, and the client of the first knows nothing of releases.
    let old = |text: String| {
        text.replace("final class Release {", "final class Something_Else {")
            .replace("$this->pins_releases = [] !== $lines;", "$this->pins_releases = false;")
            .replace("public const VERSION =", "public const NUMBER =")
            .replace("Client::VERSION", "Client::NUMBER")
    };
    let pins = pins();
    for (pinned, success) in [(true, false), (false, true)] {
        let (_, table) = licensed();
        let forms = Vendor::of("acme-forms", Front::new(), shared_keys(), &[table], old);
        let license = License::new();
        let table = license.toml_with("2099-12-31", "", "maps = []");
        let change = |text: String| {
            let domain = "'text_domain' => 'acme-maps'";
            let settings = if pinned {
                format!("{pins}, {domain}")
            } else {
                domain.to_owned()
            };
            text.replace("Acme\\Maps\\License", "Acme\\Forms\\License")
                .replace(domain, &settings)
        };
        let maps = Vendor::of("acme-maps", forms.front.clone(), shared_keys(), &[table], change);
        let mut site = Site::new(Core::Newest, HOST, &forms.front);
        site.install("acme-forms", &forms.archive("1.0.0"));
        site.install("acme-maps", &maps.archive("1.0.0"));
        site.press("acme-maps", "activate", &license.key);
        maps.release("1.1.0", change);
        site.check_again();
        let said = site.run(
            "require_once ABSPATH . 'wp-admin/includes/admin.php'; \
             require_once ABSPATH . 'wp-admin/includes/class-wp-upgrader.php'; \
             $skin = new Automatic_Upgrader_Skin(); \
             (new Plugin_Upgrader($skin))->bulk_upgrade(['acme-maps/acme-maps.php']); \
             echo implode(' ', $skin->get_upgrade_messages()), ' ', \
             get_plugin_data(WP_PLUGIN_DIR . '/acme-maps/acme-maps.php')['Version'];",
        );
        let told = "an older copy of its license client, from another plugin on this site, cannot check that";
        assert_eq!(said.contains(told), !success, "{said}");
        assert!(said.ends_with(if success { "1.1.0" } else { "1.0.0" }), "{said}");
    }
}

#[test]
fn keys_that_cannot_be_read_let_nothing_in_and_the_author_is_told() {
    let set = with_settings("'release_keys' => ['ssh-rsa AAAA'], 'release_threshold' => 2");
    let (license, table) = licensed();
    let vendor = Vendor::of("acme-forms", Front::new(), shared_keys(), &[table], &set);
    let mut site = active_site(Core::Newest, &vendor, HOST, &license.key);
    vendor.release("1.1.0", &set);
    site.check_again();
    assert!(!site.row().1);
    assert_ne!(site.update_now()["success"], json!(true));
    let complaints = site.complaints().join("\n");
    for told in [
        "release_keys has something that is not an Ed25519 key",
        "release_threshold needs more keys than release_keys has",
    ] {
        assert!(complaints.contains(told), "{complaints}");
    }
}
