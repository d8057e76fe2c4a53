//! A vendor: the example plugin in a git repository with tags, its archives, and a server that offers what a build made.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use super::front::{Front, response};
use crate::support::history::make_repository;
use crate::support::instance::{Keys, shared_keys};
use crate::support::server::countersign;
use crate::support::{Instance, License, Server, eventually};

/// The example plugin's vendor, and what stands between its server and the sites.
pub struct Vendor {
    pub front: Front,
    pub server: Server,
    pub instance: Instance,
    history: Mutex<String>,
    /// The vendor's own license, to see what customers are offered.
    own: License,
}

const OWN_SITE: &str = "vendor.example";

impl Vendor {
    /// Serves Acme Forms in version 1.0.0.
    pub fn new(licenses: &[String]) -> Self {
        let front = Front::new();
        let instance = Instance::empty();
        let downloads = format!("{}/downloads/{{slug}}-{{version}}.zip", front.url());
        let entry = format!(
            "module = \"forms\"\nrepository = \"../../acme-forms.git\"\ndownload_url = \"{downloads}\"\n\
             homepage = \"https://acme.example/forms\"\nauthor = \"Acme\"\n"
        );
        instance.write("registry/plugins/acme-forms.toml", &entry);
        let own = License::new();
        instance.write_licenses(licenses);
        instance.write("registry/licenses/own.toml", &own.toml(""));
        instance.write_key(&shared_keys().private);
        instance.write("public/index.html", "<title>Acme</title>\n");
        let history = tagged("1.0.0", &plugin(&front.url(), shared_keys()), "The first release.");
        make_repository(&history, &instance.file("acme-forms.git"));
        build(&instance);
        let server = Server::start(&instance);
        front.forward_to(server.address);
        server.validate(&own, OWN_SITE);
        let vendor = Self { front, server, instance, history: Mutex::new(history), own };
        vendor.put_online("1.0.0");
        vendor
    }

    /// Tags another version of the plugin, builds, and waits for the server to have it.
    pub fn release(&self, version: &str, changes: impl Fn(String) -> String) {
        let files = plugin(&self.front.url(), shared_keys());
        let files: Vec<_> = files.into_iter().map(|(path, text)| (path, changes(text))).collect();
        *self.history.lock().unwrap() += &tagged(version, &files, "Forms can be exported.");
        // Objects and order are the same on every run, so a new repository with one more tag is the old one with it.
        fs::remove_dir_all(self.instance.file("acme-forms.git")).unwrap();
        make_repository(&self.history.lock().unwrap(), &self.instance.file("acme-forms.git"));
        build(&self.instance);
        self.put_online(version);
        eventually("the server has the release", Duration::from_secs(5), || {
            self.server.updates(&self.own, OWN_SITE, "").json()["version"] == version
        });
    }

    /// The archive of a version, as git makes it.
    pub fn archive(&self, version: &str) -> Vec<u8> {
        archive(&self.instance.file("acme-forms.git"), "acme-forms", version)
    }

    fn put_online(&self, version: &str) {
        let archive = self.archive(version);
        let zip = [("Content-Type", "application/zip")];
        self.front.put(&format!("/downloads/acme-forms-{version}.zip"), response(200, &zip, archive));
    }
}

fn build(instance: &Instance) {
    let output = countersign(instance).arg("build").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

pub fn archive(repository: &Path, slug: &str, version: &str) -> Vec<u8> {
    let mut git = Command::new("git");
    git.current_dir(repository).args(["archive", "--format=zip", &format!("--prefix={slug}/"), &format!("v{version}")]);
    let output = git.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

/// The example plugin's files, with what a vendor fills in: the address, the key, and the client's namespace.
pub fn plugin(base_url: &str, keys: &Keys) -> Vec<(String, String)> {
    let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/wordpress");
    let read = |path: &str| fs::read_to_string(clients.join(path)).unwrap();
    let filled_in = |text: String| {
        let text = text.replace("https://licenses.example.com", base_url);
        text.replace("-----BEGIN PUBLIC KEY-----\n(yours)\n-----END PUBLIC KEY-----\n", &keys.public)
    };
    let client = read("countersign-client.php").replace("\nnamespace Countersign\\Client;", "\nnamespace Acme\\Forms\\License;");
    vec![
        ("acme-forms.php".into(), filled_in(read("example-plugin/acme-forms.php"))),
        ("uninstall.php".into(), read("example-plugin/uninstall.php")),
        ("readme.txt".into(), read("example-plugin/readme.txt")),
        ("countersign-client.php".into(), client),
    ]
}

/// The steps of a repository that write these files in a version, with its line in the changelog, and tag it.
pub fn tagged(version: &str, files: &[(String, String)], change: &str) -> String {
    let mut steps = String::new();
    for (path, text) in files {
        let text = text.replace("Version: 1.0.0", &format!("Version: {version}"));
        let text = text.replace("Stable tag: 1.0.0", &format!("Stable tag: {version}"));
        let text = match version {
            "1.0.0" => text,
            _ => text.replace("== Changelog ==\n", &format!("== Changelog ==\n\n= {version} =\n* {change}\n")),
        };
        steps += &format!("\n>>> write {path}\n{text}");
    }
    format!("{steps}\n>>> tag v{version}\n")
}
