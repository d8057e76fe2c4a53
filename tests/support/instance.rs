//! An instance in a temporary folder, written without the program, because parsing the vendor's files is under test,
//! too.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

use chrono::Utc;
use countersign_model::license_key::LicenseKey;
use rsa::pkcs8::{EncodePrivateKey, EncodePublicKey, LineEnding};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

/// A signing key: the private half as PEM, and the public half as PEM.
pub struct Keys {
    pub private: String,
    pub public: String,
}

/// Makes a key of `bits`; slow, so tests that need no key of their own share one.
pub fn new_keys(bits: usize) -> Keys {
    let private = rsa::RsaPrivateKey::new(&mut rsa::rand_core::OsRng, bits).unwrap();
    Keys {
        private: private.to_pkcs8_pem(LineEnding::LF).unwrap().to_string(),
        public: private.to_public_key().to_public_key_pem(LineEnding::LF).unwrap(),
    }
}

pub fn shared_keys() -> &'static Keys {
    static KEYS: OnceLock<Keys> = OnceLock::new();
    KEYS.get_or_init(|| new_keys(2048))
}

/// A license as its customer has it.
#[derive(Clone, Debug)]
pub struct License {
    pub key: String,
    pub id: String,
}

impl License {
    /// A key no other test has.
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        // A key takes five bits of each byte.
        let random = std::array::from_fn(|index| {
            if index < 6 {
                (number >> (5 * index)) as u8 & 31
            } else {
                11
            }
        });
        let key = LicenseKey::from_random(random);
        Self {
            key: key.reveal().to_owned(),
            id: key.id().to_string(),
        }
    }

    /// Its `[[license]]` table: active, one site, module `forms`; `more` lines stand before the modules.
    pub fn toml(&self, more: &str) -> String {
        self.toml_with("2099-12-31", more, "forms = [\"pdf\", \"api\"]")
    }

    pub fn toml_with(&self, expires: &str, more: &str, modules: &str) -> String {
        format!(
            "[[license]]\nid = \"{}\"\nexpires = {expires}\n{more}\n[license.modules]\n{modules}\n\n",
            self.id
        )
    }
}

/// A folder laid out as an instance.
pub struct Instance {
    folder: TempDir,
    ever_published: Mutex<BTreeSet<(String, String)>>,
}

/// What `acme-forms` is published as.
pub const LATEST: &str = "1.2.0";

impl Instance {
    /// A folder with nothing in it.
    pub fn empty() -> Self {
        Self {
            folder: TempDir::new().unwrap(),
            ever_published: Mutex::default(),
        }
    }

    /// Plugins `acme-forms` (module `forms`, released), `acme-maps` (module `maps`, nothing released yet) and
    /// `acme-bare` (no source); the shared signing key; no license.
    pub fn new() -> Self {
        let instance = Self::empty();
        let plugin = |module: &str, source: &str| format!("module = \"{module}\"\n{source}");
        let source = "repository = \"../../src\"\ndownload_url = \"https://dl.example/{slug}-{version}.zip\"\n";
        instance.write("registry/plugins/acme-forms.toml", &plugin("forms", source));
        instance.write("registry/plugins/acme-maps.toml", &plugin("maps", source));
        instance.write("registry/plugins/acme-bare.toml", &plugin("forms", ""));
        instance.write("registry/licenses/licenses.toml", "# none yet\n");
        instance.write("public/index.html", "<title>hello</title>\n");
        instance.write_key(&shared_keys().private);
        instance.publish(LATEST);
        instance
    }

    pub fn with_licenses(tables: &[String]) -> Self {
        let instance = Self::new();
        instance.write_licenses(tables);
        instance
    }

    pub fn write_licenses(&self, tables: &[String]) {
        self.write("registry/licenses/licenses.toml", &tables.concat());
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn file(&self, relative: &str) -> PathBuf {
        self.path().join(relative)
    }

    /// Writes a file as a careful person does: beside, then renamed.
    pub fn write(&self, relative: &str, content: &str) {
        let path = self.file(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let beside = path.with_extension("new~");
        fs::write(&beside, content).unwrap();
        fs::rename(beside, path).unwrap();
    }

    pub fn write_key(&self, pem: &str) {
        self.write_secret("keys/signing.pem", pem);
    }

    /// The same for a file that only its owner may read.
    pub fn write_secret(&self, relative: &str, pem: &str) {
        let path = self.file(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let beside = path.with_extension("new~");
        fs::write(&beside, pem).unwrap();
        fs::set_permissions(&beside, fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(beside, path).unwrap();
    }

    /// The same bytes for the key that licenses are issued with and the one that hides orders.
    pub fn write_issuing_secrets(&self) {
        for name in ["issuing", "references"] {
            self.write_secret(&format!("keys/{name}.key"), &name.repeat(5)[..32]);
        }
    }

    /// An instance that may issue licenses, with these in a file.
    pub fn issuing(tables: &[String]) -> Self {
        let instance = Self::new();
        if !tables.is_empty() {
            instance.write_licenses(tables);
        }
        instance.write_issuing_secrets();
        instance
    }

    /// Publishes `acme-forms` in one version, manifest first and index last.
    pub fn publish(&self, version: &str) {
        self.publish_in("releases", version);
    }

    pub fn publish_in(&self, releases: &str, version: &str) {
        self.publish_all(releases, version, &[(version, false)]);
    }

    /// The same in several versions, newest first; each with whether it is a security release.
    pub fn publish_all(&self, releases: &str, latest: &str, versions: &[(&str, bool)]) {
        let publish = |&(version, security): &(&str, bool)| {
            let manifest = manifest(version);
            self.write(&format!("{releases}/acme-forms/{version}.json"), &manifest);
            let tag = format!("v{version}");
            let commit = "0".repeat(40);
            let mut release = json!({ "version": version, "tag": tag, "commit": commit, "sha256": sha256(&manifest) });
            if security {
                release["security"] = json!(true);
            }
            release
        };
        let published: Vec<_> = versions.iter().map(publish).collect();
        let plugins = json!({
            "acme-forms": { "latest": latest, "releases": published },
            "acme-maps": { "latest": null, "releases": [] },
        });
        self.write_index(releases, &plugins);
    }

    /// Writes `index.json` with these plugins.
    pub fn write_index(&self, releases: &str, plugins: &Value) {
        let of = |(slug, plugin): (&String, &Value)| -> Vec<(String, String)> {
            let releases = plugin["releases"].as_array().unwrap().iter();
            let version = |release: &Value| release["version"].as_str().unwrap().to_owned();
            releases.map(|release| (slug.clone(), version(release))).collect()
        };
        self.note_removed(releases, plugins.as_object().unwrap().iter().flat_map(of).collect());
        self.write(
            &format!("{releases}/index.json"),
            &json!({ "plugins": plugins }).to_string(),
        );
    }

    /// Lists, as builds do, the releases that were published before and are not among these, by plugin and version.
    pub fn note_removed(&self, releases: &str, published: BTreeSet<(String, String)>) {
        let mut ever = self.ever_published.lock().unwrap();
        let mut removed: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (slug, version) in ever.difference(&published) {
            removed.entry(slug).or_default().push(version);
        }
        let removed = json!({ "time": Utc::now(), "releases": removed });
        self.write(&format!("{releases}/removed.json"), &removed.to_string());
        ever.extend(published);
    }
}

/// The manifest's bytes; the server must not care what they are.
pub fn manifest(version: &str) -> String {
    format!("{{\"version\":\"{version}\", \"note\": \"bytes as  they are ü\"}}\n")
}

pub fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The question of a plugin on a site.
pub fn question(license: &License, site_url: &str) -> Value {
    json!({ "license_key": license.key, "site_url": site_url })
}
