//! A vendor: the example plugin or theme in a git repository with tags, its archives, and a server with the built releases.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use serde_json::Value;

use super::front::{Front, response};
use super::site::Kind;
use crate::clients;
use crate::support::history::make_repository;
use crate::support::instance::{Keys, shared_keys};
use crate::support::server::{countersign, updates};
use crate::support::{Instance, License, Server, eventually, get};

/// A vendor who sells a copy of the example plugin, with a server and the proxy before it.
pub struct Vendor {
    pub kind: Kind,
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
        let front = Front::new();
        Self::make(Kind::Plugin, "acme-forms", front, shared_keys(), licenses, true, change)
    }

    /// Serves a plugin `acme-…` in version 1.0.0 through `front`, with files that `change` has made of the example's.
    pub fn of(slug: &str, front: Front, keys: &Keys, licenses: &[String], change: impl Fn(String) -> String) -> Self {
        Self::make(Kind::Plugin, slug, front, keys, licenses, false, change)
    }

    /// Serves the example in version 1.0.0 as a plugin or as a theme, under the same name.
    pub fn of_kind(kind: Kind, licenses: &[String], change: impl Fn(String) -> String) -> Self {
        Self::make(kind, "acme-forms", Front::new(), shared_keys(), licenses, false, change)
    }

    fn make(
        kind: Kind,
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
        let entry_kind = if kind == Kind::Theme { "type = \"theme\"\n" } else { "" };
        let entry = format!(
            "{entry_kind}module = \"{module}\"\nrepository = \"../../plugin.git\"\n{downloads}\
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
        let files = example(kind, slug, &front.url(), keys, change);
        let history = tagged("1.0.0", &files, "The first release.");
        make_repository(&history, &instance.file("plugin.git"));
        build(&instance);
        let public_url = front.url();
        let flags = ["--public-url", &public_url];
        let server = Server::start_in(instance.path(), if hosts { &flags } else { &[] });
        front.forward_to(server.address);
        server.validate(&own, OWN_SITE);
        let vendor = Self {
            kind,
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
        eventually("the server has the release", || self.offered() == version);
    }

    /// Releases to a channel: the same for a version that only sites get that ask for it.
    pub fn release_to(&self, channel: &str, version: &str, change: impl Fn(String) -> String) {
        self.tag(version, change);
        build(&self.instance);
        self.put_online(version);
        let question = updates(&self.slug, &self.own, OWN_SITE, &format!("&channel={channel}"));
        eventually("the server has the release", || {
            get(self.server.address, &question).json()["version"] == version
        });
    }

    /// Releases a version that comes in steps, and waits until a site that knows what "held" means is held from it.
    pub fn release_in_steps(&self, version: &str, change: impl Fn(String) -> String) {
        self.tag(version, change);
        build(&self.instance);
        self.put_online(version);
        let question = updates(&self.slug, &self.own, OWN_SITE, "&holds=1");
        eventually("the release is held", || {
            let manifest = get(self.server.address, &question).json();
            manifest["version"] == version && manifest["held"] == true
        });
    }

    /// Has releases come in steps from now on: none of a million sites is among the first.
    pub fn roll_out(&self, more: &str) {
        self.add_to_entry(&format!(
            "\n[rollout]\nsteps = [\"0h 0.001%\", \"240h 100%\"]\n{more}\n"
        ));
        eventually("the server knows what sites have already", || {
            let output = countersign(&self.instance)
                .args(["rollout", &self.slug, "show"])
                .output()
                .unwrap();
            String::from_utf8_lossy(&output.stdout).contains("finished")
        });
    }

    /// Publishes another plugin of this vendor in these versions, on the same server, and gives the archive of the first.
    pub fn publish_beside(&self, slug: &str, versions: &[&str]) -> Vec<u8> {
        let files = example(Kind::Plugin, slug, &self.front.url(), shared_keys(), |text| text);
        let repository = format!("{slug}.git");
        let _ = fs::remove_dir_all(self.instance.file(&repository));
        let history: String = versions
            .iter()
            .map(|version| tagged(version, &files, "More."))
            .collect();
        make_repository(&history, &self.instance.file(&repository));
        let module = slug.strip_prefix("acme-").expect("a plugin of Acme");
        let downloads = format!("{}/downloads/{{slug}}-{{version}}.zip", self.front.url());
        let entry =
            format!("module = \"{module}\"\nrepository = \"../../{repository}\"\ndownload_url = \"{downloads}\"\n");
        self.instance.write(&format!("registry/plugins/{slug}.toml"), &entry);
        build(&self.instance);
        let archives = versions.iter().map(|version| {
            let output = Command::new("git")
                .current_dir(self.instance.file(&repository))
                .args([
                    "archive",
                    "--format=zip",
                    &format!("--prefix={slug}/"),
                    &format!("v{version}"),
                ])
                .output()
                .unwrap();
            assert!(output.status.success(), "{output:?}");
            let zip = [("Content-Type", "application/zip")];
            let path = format!("/downloads/{slug}-{version}.zip");
            self.front.put(&path, response(200, &zip, output.stdout.clone()));
            output.stdout
        });
        let archives: Vec<_> = archives.collect();
        archives.into_iter().next().expect("a version")
    }

    /// Adds to the plugin's entry, for the next build.
    pub fn add_to_entry(&self, more: &str) {
        let path = format!("registry/plugins/{}.toml", self.slug);
        let entry = fs::read_to_string(self.instance.file(&path)).unwrap();
        self.instance.write(&path, &(entry + more));
    }

    /// Tags another version of the plugin.
    pub fn tag(&self, version: &str, change: impl Fn(String) -> String) {
        let files = example(self.kind, &self.slug, &self.front.url(), shared_keys(), change);
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

/// The example with more settings of its client.
pub fn with_settings(settings: &str) -> impl Fn(String) -> String {
    let domain = "'text_domain' => 'acme-forms'";
    let settings = format!("{settings}, {domain}");
    // The settings of the theme are aligned in another column.
    move |text| {
        text.replace("'text_domain'  =>", "'text_domain' =>")
            .replace(domain, &settings)
    }
}

fn build(instance: &Instance) {
    let output = countersign(instance).arg("build").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The example's files under another name, with what a vendor fills in: the address, the key, the client's namespace.
fn example(
    kind: Kind,
    slug: &str,
    base_url: &str,
    keys: &Keys,
    change: impl Fn(String) -> String,
) -> Vec<(String, String)> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/wordpress");
    let placeholder = "-----BEGIN PUBLIC KEY-----\n(yours)\n-----END PUBLIC KEY-----\n";
    let (own, files): (_, &[&str]) = match kind {
        Kind::Plugin => ("forms", &["acme-forms.php", "uninstall.php", "readme.txt"]),
        Kind::Theme => (
            "shop",
            &["style.css", "functions.php", "license.php", "index.php", "readme.txt"],
        ),
    };
    let files = files.iter().map(|name| (*name, format!("example-{kind}/{name}")));
    let files = files.map(|(name, path)| (name, fs::read_to_string(examples.join(path)).unwrap()));
    let client = CLIENT_FILES.map(|name| (name, clients::wordpress(name)));
    let name = slug.strip_prefix("acme-").expect("a plugin of Acme");
    let capital = |name: &str| format!("{}{}", name[..1].to_uppercase(), &name[1..]);
    let named = |text: &str| {
        text.replace(&format!("acme-{own}"), slug)
            .replace(&format!("acme_{own}"), &slug.replace('-', "_"))
            .replace(
                &format!("ACME_{}", own.to_uppercase()),
                &slug.replace('-', "_").to_uppercase(),
            )
            .replace(&format!("Acme\\{}", capital(own)), &format!("Acme\\{}", capital(name)))
            .replace(&format!("Acme {}", capital(own)), &format!("Acme {}", capital(name)))
    };
    let filled = |(name, text): (&str, String)| {
        let text = text
            .replace("https://licenses.example.com", base_url)
            .replace(placeholder, &keys.public);
        let namespace = format!("\nnamespace Acme\\{}\\License;", capital(own));
        let text = text.replace("\nnamespace Countersign\\Client;", &namespace);
        (named(name), change(named(&text)))
    };
    files.chain(client).map(filled).collect()
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
