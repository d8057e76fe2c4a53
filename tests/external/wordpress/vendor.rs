//! A vendor: the example plugin in a git repository with tags, its archives, and a server with the built releases.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use serde_json::Value;

use super::LIVE;
use super::front::{Front, response};
use crate::support::history::make_repository;
use crate::support::instance::{Keys, shared_keys};
use crate::support::server::{countersign, updates};
use crate::support::{Instance, License, Server, eventually, get};

/// A vendor of one plugin, made of the example plugin, and what stands between its server and the sites.
pub struct Vendor {
    pub front: Front,
    pub server: Server,
    pub instance: Instance,
    slug: String,
    history: Mutex<String>,
    /// Whether the server hosts the packages, and no download of the vendor's own.
    hosts: bool,
    /// The vendor's own license, to see what customers are offered.
    own: License,
}

const OWN_SITE: &str = "vendor.example";

/// The client: what every page loads, and what only those that manage something load.
pub const CLIENT_FILES: [&str; 2] = ["countersign-client.php", "countersign-client-admin.php"];

impl Vendor {
    /// Serves Acme Forms in version 1.0.0.
    pub fn new(licenses: &[String]) -> Self {
        Self::of("acme-forms", Front::new(), shared_keys(), licenses, |text| text)
    }

    /// The same with packages that the server makes and hosts.
    pub fn hosting(licenses: &[String]) -> Self {
        Self::hosting_with(licenses, |text| text)
    }

    /// The same with files that `change` has made of the example's.
    pub fn hosting_with(licenses: &[String], change: impl Fn(String) -> String) -> Self {
        Self::make("acme-forms", Front::new(), shared_keys(), licenses, true, change)
    }

    /// Serves a plugin `acme-…` in version 1.0.0 through `front`, with files that `change` has made of the example's.
    pub fn of(slug: &str, front: Front, keys: &Keys, licenses: &[String], change: impl Fn(String) -> String) -> Self {
        Self::make(slug, front, keys, licenses, false, change)
    }

    fn make(
        slug: &str,
        front: Front,
        keys: &Keys,
        licenses: &[String],
        hosts: bool,
        change: impl Fn(String) -> String,
    ) -> Self {
        let instance = Instance::empty();
        let module = slug.strip_prefix("acme-").expect("a plugin of Acme");
        let downloads = format!(
            "download_url = \"{}/downloads/{{slug}}-{{version}}.zip\"\n",
            front.url()
        );
        let downloads = if hosts { "" } else { &downloads };
        let entry = format!(
            "module = \"{module}\"\nrepository = \"../../plugin.git\"\n{downloads}\
             homepage = \"https://acme.example/{module}\"\nauthor = \"Acme\"\n"
        );
        instance.write(&format!("registry/plugins/{slug}.toml"), &entry);
        let own = License::new();
        instance.write_licenses(licenses);
        instance.write(
            "registry/licenses/own.toml",
            &own.toml_with("2099-12-31", "", &format!("{module} = []")),
        );
        instance.write_key(&keys.private);
        if hosts {
            let output = countersign(&instance)
                .args(["keys", "generate", "--downloads"])
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        instance.write("public/index.html", "<title>Acme</title>\n");
        let files = plugin(slug, &front.url(), keys, change);
        let history = tagged("1.0.0", &files, "The first release.");
        make_repository(&history, &instance.file("plugin.git"));
        build(&instance);
        let public_url = front.url();
        let flags = ["--public-url", &public_url];
        let server = Server::start_in(instance.path(), if hosts { &flags } else { &[] });
        front.forward_to(server.address);
        server.validate(&own, OWN_SITE);
        let vendor = Self {
            front,
            server,
            instance,
            slug: slug.into(),
            history: Mutex::new(history),
            hosts,
            own,
        };
        vendor.put_online("1.0.0");
        vendor
    }

    /// Stops the server, and leaves the rest for another one.
    pub fn leave(self) -> (Front, Instance) {
        assert!(self.server.stop().success());
        (self.front, self.instance)
    }

    /// Tags another version of the plugin, builds, and waits for the server to have it.
    pub fn release(&self, version: &str, change: impl Fn(String) -> String) {
        self.tag(version, change);
        build(&self.instance);
        self.put_online(version);
        eventually("the server has the release", LIVE, || self.offered() == version);
    }

    /// Tags another version of the plugin.
    pub fn tag(&self, version: &str, change: impl Fn(String) -> String) {
        let files = plugin(&self.slug, &self.front.url(), shared_keys(), change);
        *self.history.lock().unwrap() += &tagged(version, &files, "Forms can be exported.");
        // Objects and order are the same on every run, so a new repository with one more tag is the old one with it.
        fs::remove_dir_all(self.instance.file("plugin.git")).unwrap();
        make_repository(&self.history.lock().unwrap(), &self.instance.file("plugin.git"));
    }

    /// The version that the server offers now.
    pub fn offered(&self) -> Value {
        let manifest = get(self.server.address, &updates(&self.slug, &self.own, OWN_SITE, "")).json();
        manifest["version"].clone()
    }

    /// The archive of a version, as git makes it.
    pub fn archive(&self, version: &str) -> Vec<u8> {
        self.archive_in(&format!("{}/", self.slug), version)
    }

    /// The package of a version, as the build made it: without a mark.
    pub fn package(&self, version: &str) -> Vec<u8> {
        fs::read(self.instance.file(&format!("releases/{}/{version}.zip", self.slug))).unwrap()
    }

    /// The same with its files in another folder.
    pub fn archive_in(&self, prefix: &str, version: &str) -> Vec<u8> {
        let mut git = Command::new("git");
        git.current_dir(self.instance.file("plugin.git"))
            .args(["archive", "--format=zip"]);
        let output = git
            .args([&format!("--prefix={prefix}"), &format!("v{version}")])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        output.stdout
    }

    /// The files of a version, by their names in the plugin's folder.
    pub fn files(&self, version: &str) -> Vec<(String, Vec<u8>)> {
        let git = |arguments: &[&str]| {
            let mut git = Command::new("git");
            let output = git
                .current_dir(self.instance.file("plugin.git"))
                .args(arguments)
                .output();
            let output = output.unwrap();
            assert!(output.status.success(), "{output:?}");
            output.stdout
        };
        let tag = format!("v{version}");
        let names = String::from_utf8(git(&["ls-tree", "-r", "--name-only", &tag])).unwrap();
        let names = names.lines().map(str::to_owned);
        names
            .map(|name| {
                let bytes = git(&["show", &format!("{tag}:{name}")]);
                (name, bytes)
            })
            .collect()
    }

    /// Serves the archive of a version with its files in another folder, or in none.
    pub fn put_online_in(&self, prefix: &str, version: &str) {
        self.put_archive_online(version, self.archive_in(prefix, version));
    }

    fn put_online(&self, version: &str) {
        if self.hosts {
            return;
        }
        self.put_archive_online(version, self.archive(version));
    }

    pub fn put_archive_online(&self, version: &str, archive: Vec<u8>) {
        let zip = [("Content-Type", "application/zip")];
        self.front.put(
            &format!("/downloads/{}-{version}.zip", self.slug),
            response(200, &zip, archive),
        );
    }
}

/// The example plugin with more settings of its client.
pub fn with_settings(settings: &str) -> impl Fn(String) -> String {
    let domain = "'text_domain' => 'acme-forms'";
    let settings = format!("{settings}, {domain}");
    move |text| text.replace(domain, &settings)
}

fn build(instance: &Instance) {
    let output = countersign(instance).arg("build").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The example plugin's files under another name, with what a vendor fills in: the address, the key, the client's
/// namespace.
fn plugin(slug: &str, base_url: &str, keys: &Keys, change: impl Fn(String) -> String) -> Vec<(String, String)> {
    let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/wordpress");
    let placeholder = "-----BEGIN PUBLIC KEY-----\n(yours)\n-----END PUBLIC KEY-----\n";
    let files = ["acme-forms.php", "uninstall.php", "readme.txt"].map(|name| (name, format!("example-plugin/{name}")));
    let client = CLIENT_FILES.map(|name| (name, name.to_owned()));
    let name = slug.strip_prefix("acme-").expect("a plugin of Acme");
    let capital = format!("{}{}", name[..1].to_uppercase(), &name[1..]);
    let named = |text: &str| {
        text.replace("acme-forms", slug)
            .replace("acme_forms", &slug.replace('-', "_"))
            .replace("ACME_FORMS", &slug.replace('-', "_").to_uppercase())
            .replace("Acme\\Forms", &format!("Acme\\{capital}"))
            .replace("Acme Forms", &format!("Acme {capital}"))
    };
    let read = |(name, path): (&str, String)| {
        let text = fs::read_to_string(clients.join(path)).unwrap();
        let text = text
            .replace("https://licenses.example.com", base_url)
            .replace(placeholder, &keys.public);
        let text = text.replace("\nnamespace Countersign\\Client;", "\nnamespace Acme\\Forms\\License;");
        (named(name), change(named(&text)))
    };
    files.into_iter().chain(client).map(read).collect()
}

/// The steps of a repository that write these files in a version, with its line in the changelog, and tag it.
fn tagged(version: &str, files: &[(String, String)], change: &str) -> String {
    let mut steps = String::new();
    for (path, text) in files {
        let text = text.replace("Version: 1.0.0", &format!("Version: {version}"));
        let text = text.replace("Stable tag: 1.0.0", &format!("Stable tag: {version}"));
        let text = match version {
            "1.0.0" => text,
            _ => text.replace(
                "== Changelog ==\n",
                &format!("== Changelog ==\n\n= {version} =\n* {change}\n"),
            ),
        };
        steps += &format!("\n>>> write {path}\n{text}");
    }
    format!("{steps}\n>>> tag v{version}\n")
}
