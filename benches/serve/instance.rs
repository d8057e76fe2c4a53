//! Generates instances in target/bench: licenses as JSON lines, bindings in a ledger, plugins with manifests of 2 kB.
//!
//! They are generated once and kept. `SETTINGS` has the server's settings for all figures.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use countersign_model::license_key::LicenseKey;
use rsa::pkcs8::{EncodePrivateKey, LineEnding};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// After a change of this number, the benchmark makes its instances again.
const FORMAT: &str = "1";

/// Limits are far away: nothing that is measured is turned away by them.
const SETTINGS: &str = "[serve]
listen = \"127.0.0.1:0\"
admin_listen = \"off\"
requests_per_minute = 4000000000
requests_per_license = 4000000000
failures_per_minute = 4000000000
max_connections = 30000
connections_per_address = 30000
";

/// The most licenses of one file, which may have 1 GiB.
const IN_A_FILE: usize = 5_000_000;

/// The published version; its plugin is `acme-forms` of the module `forms`.
pub const LATEST: &str = "1.20.0";

/// How many licenses of each odd kind an instance has.
pub const ODD: usize = 1_000;

/// What is odd about a license.
#[derive(Clone, Copy)]
pub enum Odd {
    Expired,
    Suspended,
    Revoked,
    Unbound,
    BoundElsewhere,
    OtherModule,
    Unknown,
}

const ODDS: [Odd; 7] = [
    Odd::Expired,
    Odd::Suspended,
    Odd::Revoked,
    Odd::Unbound,
    Odd::BoundElsewhere,
    Odd::OtherModule,
    Odd::Unknown,
];

/// A folder laid out as an instance.
pub struct Instance {
    pub folder: PathBuf,
    /// Ordinary licenses, numbered from 0.
    pub licenses: usize,
}

impl Instance {
    /// The instance of `licenses` licenses, bound or not, that signs with a key of `bits`.
    pub fn new(bench: &Path, licenses: usize, bound: bool, bits: usize) -> io::Result<Self> {
        let folder = bench.join(format!("{licenses}-{}-{bits}", if bound { "bound" } else { "unbound" }));
        let instance = Self { folder, licenses };
        if fs::read_to_string(instance.file("made")).is_ok_and(|format| format == FORMAT) {
            instance.write("countersign.toml", SETTINGS)?;
            return Ok(instance);
        }
        eprintln!("making {}", instance.folder.display());
        let _ = fs::remove_dir_all(&instance.folder);
        for folder in [
            "registry/plugins",
            "registry/licenses",
            "releases/acme-forms",
            "store",
            "keys",
            "public",
        ] {
            fs::create_dir_all(instance.file(folder))?;
        }
        instance.write("countersign.toml", SETTINGS)?;
        instance.make_key(bits)?;
        let source = "repository = \"../../src\"\ndownload_url = \"https://dl.example/{slug}-{version}.zip\"\n";
        instance.write(
            "registry/plugins/acme-forms.toml",
            &format!("module = \"forms\"\n{source}"),
        )?;
        instance.write("registry/plugins/acme-bare.toml", "module = \"forms\"\n")?;
        instance.make_licenses()?;
        instance.publish(&["acme-forms"], &[LATEST])?;
        if bound {
            instance.make_ledger()?;
        }
        instance.write("made", FORMAT)?;
        Ok(instance)
    }

    /// A copy of it beside it, in the place of an earlier one of that name.
    pub fn copied(&self, name: &str) -> io::Result<Self> {
        let copy = Self {
            folder: self.folder.with_file_name(name),
            licenses: self.licenses,
        };
        let _ = fs::remove_dir_all(&copy.folder);
        let mut command = Command::new("cp");
        command.arg("-a").arg(&self.folder).arg(&copy.folder);
        match command.status()?.success() {
            true => Ok(copy),
            false => Err(io::Error::other(format!("{} is not copied", self.folder.display()))),
        }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes a file beside its place and renames it there.
    pub fn write(&self, name: &str, text: &str) -> io::Result<()> {
        let path = self.file(name);
        let beside = path.with_extension("new~");
        fs::write(&beside, text)?;
        fs::rename(beside, path)
    }

    /// Takes away every binding.
    pub fn clear_store(&self) -> io::Result<()> {
        fs::remove_dir_all(self.file("store"))?;
        fs::create_dir_all(self.file("store"))
    }

    /// Publishes manifests of 2 kB, the index last. The last version is the latest.
    pub fn publish(&self, slugs: &[&str], versions: &[&str]) -> io::Result<()> {
        let mut plugins = serde_json::Map::new();
        for slug in slugs {
            fs::create_dir_all(self.file("releases").join(slug))?;
            let mut releases = Vec::new();
            for version in versions.iter().rev() {
                let manifest = manifest(slug, version);
                let path = self.file("releases").join(slug).join(format!("{version}.json"));
                if !fs::read_to_string(&path).is_ok_and(|there| there == manifest) {
                    fs::write(path, &manifest)?;
                }
                releases.push(json!({
                    "version": version, "tag": format!("v{version}"), "commit": "0".repeat(40),
                    "sha256": hex(&Sha256::digest(&manifest)),
                }));
            }
            plugins.insert(
                (*slug).to_owned(),
                json!({ "latest": versions.last(), "releases": releases }),
            );
        }
        self.write(
            "releases/index.json",
            &json!({ "plugins": Value::Object(plugins) }).to_string(),
        )
    }

    fn make_key(&self, bits: usize) -> io::Result<()> {
        let private = rsa::RsaPrivateKey::new(&mut rsa::rand_core::OsRng, bits).map_err(io::Error::other)?;
        let pem = private.to_pkcs8_pem(LineEnding::LF).map_err(io::Error::other)?;
        self.write("keys/signing.pem", &pem)?;
        fs::set_permissions(self.file("keys/signing.pem"), fs::Permissions::from_mode(0o600))
    }

    fn make_licenses(&self) -> io::Result<()> {
        for start in (0..self.licenses).step_by(IN_A_FILE) {
            let name = match start {
                0 => "registry/licenses/export.jsonl".to_owned(),
                start => format!("registry/licenses/export-from-{start}.jsonl"),
            };
            let mut lines = BufWriter::new(File::create(self.file(&name))?);
            for number in start..self.licenses.min(start + IN_A_FILE) {
                writeln!(lines, "{}", license_line(number, "active"))?;
            }
            lines.flush()?;
        }
        let mut lines = BufWriter::new(File::create(self.file("registry/licenses/odd.jsonl"))?);
        for odd in ODDS {
            for number in odd.numbers() {
                let line = license_line(number, "active");
                let line = match odd {
                    Odd::Expired => line.replace("2099-", "2001-"),
                    Odd::Suspended => license_line(number, "suspended"),
                    Odd::Revoked => license_line(number, "revoked"),
                    Odd::Unbound | Odd::BoundElsewhere => line,
                    Odd::OtherModule => line.replace("forms", "maps"),
                    Odd::Unknown => continue,
                };
                writeln!(lines, "{line}")?;
            }
        }
        lines.flush()
    }

    /// Writes the ledger as a server would have (docs/design.md), and lets the program prove it and make its index.
    fn make_ledger(&self) -> io::Result<()> {
        let mut lines = BufWriter::new(File::create(self.file("store/ledger.jsonl"))?);
        let mut previous = Sha256::digest(b"countersign ledger 1\n");
        let bound = [Odd::BoundElsewhere, Odd::OtherModule]
            .into_iter()
            .flat_map(Odd::numbers);
        for (at, number) in (0..self.licenses).chain(bound).enumerate() {
            let line = format!(
                "{{\"event\":\"bound\",\"host\":\"{}\",\"license\":\"{}\",\"previous\":\"{}\",\"sequence\":{},\
                 \"synced\":{at},\"time\":\"2026-01-01T00:00:00Z\"}}\n",
                host(number),
                key(number).id(),
                hex(&previous),
                at + 1,
            );
            previous = Sha256::digest(&line);
            lines.write_all(line.as_bytes())?;
        }
        lines.flush()?;
        let program = Command::new(env!("CARGO_BIN_EXE_countersign"))
            .arg("-C")
            .arg(&self.folder)
            .args(["bindings", "rebuild"])
            .stdout(Stdio::null())
            .status()?;
        if program.success() {
            Ok(())
        } else {
            Err(io::Error::other("the ledger is not taken"))
        }
    }
}

impl Odd {
    /// The numbers of these licenses.
    pub fn numbers(self) -> std::ops::Range<usize> {
        let first = 0x3000_0000 + self as usize * ODD;
        first..first + ODD
    }
}

/// The key of a license, by its number.
pub fn key(number: usize) -> LicenseKey {
    // A key takes five bits of each byte.
    LicenseKey::from_random(std::array::from_fn(|at| {
        if at < 6 { (number >> (5 * at)) as u8 & 31 } else { 11 }
    }))
}

/// The site that is bound to a license, by its number.
pub fn host(number: usize) -> String {
    format!("customer-{number}.example.com")
}

/// A line of an export from a shop.
pub fn license_line(number: usize, status: &str) -> String {
    let features = ["\"pdf\",\"api\"", "\"pdf\"", "", "\"pdf\",\"api\",\"sso\""][number % 4];
    format!(
        "{{\"id\":\"{}\",\"status\":\"{status}\",\"expires\":\"2099-12-31\",\"modules\":{{\"forms\":[{features}]}},\
         \"note\":\"order {}\"}}",
        key(number).id(),
        1_000_000 + number,
    )
}

fn manifest(slug: &str, version: &str) -> String {
    let known = json!({
        "slug": slug, "name": "Acme Forms", "version": version, "new_version": version, "tag": format!("v{version}"),
        "download_url": format!("https://dl.example/{slug}-{version}.zip"), "tested": "6.8", "description": "Forms.",
    });
    let mut manifest = known.to_string();
    let changelog = "a change ".repeat((2_048 - manifest.len() - 16) / 9 + 1);
    manifest.truncate(manifest.len() - 1);
    manifest += &format!(",\"changelog\":\"{changelog}");
    manifest.truncate(2_045);
    manifest + "\"}\n"
}

/// A digest in hex.
pub fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
