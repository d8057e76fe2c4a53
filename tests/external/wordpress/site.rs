//! A real WordPress on SQLite, served by PHP: a customer's site, whose clock the tests can set.

use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;

use serde_json::Value;
use tempfile::TempDir;

use super::browser::{Browser, Page};
use super::front::Front;

/// Which WordPress, by the folder that `make tools` unpacks it in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Core {
    Debian,
    Npm,
    Newest,
    /// 6.6, the first that takes back what is fatal.
    Restoring,
}

pub const CORES: [Core; 3] = [Core::Debian, Core::Npm, Core::Newest];

/// Those that ask a site behind an automatic update whether it still runs, and restore by the plugin's slug what they backed up by its
/// folder.
pub const RESTORING: [Core; 2] = [Core::Restoring, Core::Newest];

impl Core {
    pub fn path(self) -> PathBuf {
        tools().join(match self {
            Self::Debian => ".wordpress",
            Self::Npm => ".wordpress-npm",
            Self::Newest => ".wordpress-newest",
            Self::Restoring => ".wordpress-6.6",
        })
    }
}

/// What a vendor sells, and a site has under the name Acme Forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Plugin,
    Theme,
}

impl fmt::Display for Kind {
    /// The word in WordPress' own names.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plugin => "plugin",
            Self::Theme => "theme",
        })
    }
}

impl Kind {
    /// The file with the header, and where updates change it.
    pub fn main_file(self) -> &'static str {
        match self {
            Self::Plugin => "acme-forms.php",
            Self::Theme => "style.css",
        }
    }

    /// How WordPress names it in a look for updates.
    pub fn id(self) -> &'static str {
        match self {
            Self::Plugin => "acme-forms/acme-forms.php",
            Self::Theme => "acme-forms",
        }
    }
}

/// A running site with an administrator logged in; PHP is ended when it is dropped.
pub struct Site {
    kind: Kind,
    network: bool,
    folder: TempDir,
    php: Child,
    pub host: String,
    outside: String,
    pub admin: Browser,
    address: SocketAddr,
    /// Seconds its clock is before the real time.
    clock: i64,
}

impl Site {
    /// A site at `http://<host>` whose outside world is `front`.
    pub fn new(core: Core, host: &str, front: &Front) -> Self {
        Self::start(core, host, front, false, "")
    }

    /// A site whose PHP has no cURL.
    pub fn without_curl(core: Core, host: &str, front: &Front) -> Self {
        Self::without(core, host, front, "curl_init,curl_exec")
    }

    /// A site whose PHP lacks these functions, separated by commas.
    pub fn without(core: Core, host: &str, front: &Front, functions: &str) -> Self {
        Self::start(core, host, front, false, functions)
    }

    /// A network of sites.
    pub fn network(core: Core, host: &str, front: &Front) -> Self {
        Self::start(core, host, front, true, "")
    }

    fn start(core: Core, host: &str, front: &Front, network: bool, disabled: &str) -> Self {
        let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let outside = front.url();
        lay_out(core, folder.path());
        // Sites of one core differ in nothing before their plugins are there, so WordPress is installed once for all.
        if network {
            install(folder.path(), host, true);
        } else {
            static INSTALLED: [OnceLock<TempDir>; CORES.len() + 1] = [const { OnceLock::new() }; CORES.len() + 1];
            let installed = INSTALLED[core as usize].get_or_init(|| {
                let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
                lay_out(core, folder.path());
                install(folder.path(), "customer.example", false);
                folder
            });
            fs::copy(
                installed.path().join("wordpress.sqlite"),
                folder.path().join("wordpress.sqlite"),
            )
            .unwrap();
        }

        let clock = folder.path().join("clock");
        fs::write(&clock, "+0").unwrap();
        let mut php = Command::new("php");
        php.arg(format!("-ddisable_functions={disabled}"));
        // PHP tells versions of a file apart by the second of its change, unless its clock is at that second: this one is moved, and tests
        // are fast. So it caches nothing that an update replaces.
        let uncached = folder.path().join("uncached");
        fs::write(&uncached, format!("{}/\n", folder.path().join("wp-content").display())).unwrap();
        php.arg(format!("-dopcache.blacklist_filename={}", uncached.display()));
        php.args(["-S", "127.0.0.1:0", "-t"]).arg(folder.path().join("core"));
        // The clock is a file that can be changed while PHP runs; time-outs and file times stay real.
        php.env("LD_PRELOAD", libfaketime())
            .env("FAKETIME_TIMESTAMP_FILE", &clock)
            .env("FAKETIME_NO_CACHE", "1");
        php.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("NO_FAKE_STAT", "1");
        environment(&mut php, folder.path(), host, &outside, network);
        // WordPress may ask itself. The workers are ended with their parent, as a group.
        php.env("PHP_CLI_SERVER_WORKERS", "3").process_group(0);
        let mut php = php
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(php.stderr.take().unwrap());
        let mut line = String::new();
        log.read_line(&mut line).unwrap();
        let address = line
            .split("(http://")
            .nth(1)
            .and_then(|rest| rest.split(')').next()?.parse().ok());
        let address = address.unwrap_or_else(|| panic!("PHP did not start: {line}"));
        thread::spawn(move || log.read_to_end(&mut Vec::new()));
        let host = host.to_owned();
        let admin = Browser::new(address, &host);
        let mut site = Self {
            kind: Kind::Plugin,
            network,
            folder,
            php,
            host,
            outside,
            admin,
            address,
            clock: 0,
        };
        site.admin.log_in();
        site
    }

    /// Where its PHP listens.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// A browser of somebody who is not logged in.
    pub fn visitor(&self) -> Browser {
        Browser::new(self.address, &self.host)
    }

    /// Installs a plugin from its archive and activates it, as an administrator does.
    pub fn install(&mut self, slug: &str, archive: &[u8]) {
        let page = self.upload(slug, archive);
        let activate = page.between("action=activate", "", "\"");
        let target = format!("{}plugins.php?{activate}", self.wp_admin());
        let page = self.admin.get(&target);
        assert!(page.text().contains("activated."), "{}", page.text());
    }

    /// Installs a theme from its archive and activates it on this site. From now on, Acme Forms is a theme here.
    pub fn install_theme(&mut self, slug: &str, archive: &[u8]) {
        self.kind = Kind::Theme;
        self.upload(slug, archive);
        if self.network {
            // Its link leads back to where a browser came from.
            self.run(&format!("WP_Theme::network_enable_theme('{slug}');"));
        }
        self.activate_theme(slug);
    }

    /// Activates a theme on the page of themes.
    pub fn activate_theme(&mut self, slug: &str) {
        let settings = self.theme(slug).expect("the theme is there");
        let link = settings["actions"]["activate"].as_str().expect("it can be activated");
        let target = link.split("/wp-admin/").nth(1).unwrap().replace("&amp;", "&");
        let page = self.admin.get(&format!("/wp-admin/{target}"));
        assert!(page.text().contains("New theme activated."), "{}", page.text());
    }

    /// What the page of themes knows of a theme, which a script shows.
    pub fn theme(&mut self, slug: &str) -> Option<Value> {
        let page = self.admin.get("/wp-admin/themes.php");
        let settings = page.from("_wpThemeSettings = ").split_once('{').unwrap().1;
        let settings = format!("{{{settings}");
        let settings = serde_json::Deserializer::from_str(&settings)
            .into_iter::<Value>()
            .next();
        let settings = settings.expect("settings").expect("JSON");
        let mut themes = settings["themes"].as_array().unwrap().iter();
        themes.find(|theme| theme["id"] == slug).cloned()
    }

    /// Where the site's, or the network's, administration is.
    fn wp_admin(&self) -> &'static str {
        if self.network {
            "/wp-admin/network/"
        } else {
            "/wp-admin/"
        }
    }

    /// The page that lists plugins, or themes.
    pub fn list(&self) -> String {
        format!("{}{}s.php", self.wp_admin(), self.kind)
    }

    /// What Acme Forms is here.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// A file of Acme Forms.
    pub fn own(&self, relative: &str) -> PathBuf {
        self.file(&format!("wp-content/{}s/acme-forms/{relative}", self.kind))
    }

    /// Uploads an archive and gives the page that follows.
    pub fn upload(&mut self, slug: &str, archive: &[u8]) -> Page {
        let admin = self.wp_admin();
        let kind = self.kind;
        let page = self.admin.get(&format!("{admin}{kind}-install.php?tab=upload"));
        let nonce = page.between("wp-upload-form", "name=\"_wpnonce\" value=\"", "\"");
        let submit = format!("install-{kind}-submit");
        let form = [("_wpnonce", nonce.as_str()), (submit.as_str(), "Install Now")];
        let target = format!("{admin}update.php?action=upload-{kind}");
        let page = self
            .admin
            .upload(&target, &form, &format!("{kind}zip"), &format!("{slug}.zip"), archive);
        let done = match kind {
            Kind::Plugin => "Plugin installed successfully.",
            Kind::Theme => "Theme installed successfully.",
        };
        assert!(page.text().contains(done), "{}", page.text());
        page
    }

    /// Presses a button of a plugin's license page.
    pub fn press(&mut self, slug: &str, button: &str, key: &str) -> Page {
        let target = self.license_page(slug);
        let page = self.admin.get(&target);
        assert_eq!(page.status, 200, "{}", page.text());
        let nonce = page.between("<form method=\"post\"", "name=\"_wpnonce\" value=\"", "\"");
        self.admin
            .post(&target, &[("_wpnonce", &nonce), ("license_key", key), ("do", button)])
    }

    pub fn license_page(&self, slug: &str) -> String {
        let parent = match (self.kind, self.network) {
            (Kind::Theme, _) => "themes.php",
            (Kind::Plugin, true) => "settings.php",
            (Kind::Plugin, false) => "options-general.php",
        };
        format!("{}{parent}?page={slug}-license", self.wp_admin())
    }

    /// What the client tells the vendor's code, on a page for visitors.
    pub fn vendor_sees(&self, slug: &str) -> Value {
        let page = self
            .visitor()
            .get(&format!("/?vendor={}_license", slug.replace('-', "_")));
        assert_eq!(page.status, 200, "{}", page.text());
        serde_json::from_str(&page.html).unwrap_or_else(|_| panic!("{}", page.html))
    }

    /// Lets time pass on the site.
    pub fn pass(&mut self, seconds: i64) {
        self.set_clock(self.clock + seconds);
    }

    /// Sets the clock this many seconds before or after the real time.
    pub fn set_clock(&mut self, seconds: i64) {
        self.clock = seconds;
        let path = self.folder.path().join("clock");
        fs::write(path.with_extension("new"), format!("{seconds:+}")).unwrap();
        fs::rename(path.with_extension("new"), path).unwrap();
    }

    /// Has WordPress do what is due.
    pub fn cron(&self) {
        assert_eq!(
            self.visitor().get("/wp-cron.php").status,
            200,
            "{:?}",
            self.complaints()
        );
    }

    /// Runs PHP within this WordPress, by the real clock, and gives what it prints.
    pub fn run(&self, code: &str) -> String {
        self.run_behind("", code)
    }

    /// The same, with something that runs before WordPress does.
    pub fn run_behind(&self, before: &str, code: &str) -> String {
        let mut php = Command::new("php");
        environment(&mut php, self.folder.path(), &self.host, &self.outside, self.network);
        let code = format!(
            "$_SERVER += ['HTTP_HOST' => '{}', 'REQUEST_URI' => '/', 'SERVER_PROTOCOL' => 'HTTP/1.1', \
             'REQUEST_METHOD' => 'GET']; {before} require '{}/core/wp-load.php'; {code}",
            self.host,
            self.folder.path().display()
        );
        let output = php.arg("-r").arg(code).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{printed} {:?}", self.complaints());
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn file(&self, relative: &str) -> PathBuf {
        self.folder.path().join(relative)
    }

    /// What updates left where WordPress unpacks archives, beside WordPress' own `index.php`.
    pub fn left_unpacked(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.file("wp-content/upgrade")).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter(|path| !path.ends_with("index.php")).collect()
    }

    /// Addresses WordPress asked that are neither loopback nor a part of the tests' outside world.
    pub fn outside(&self) -> Vec<String> {
        let log = fs::read_to_string(self.file("outside.log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    /// What PHP complained of in a plugin or a theme, or because of it.
    pub fn complaints(&self) -> Vec<String> {
        let log = fs::read_to_string(self.file("debug.log")).unwrap_or_default();
        let ours = |line: &&str| {
            ["/plugins/", "/themes/acme", "Fatal", "was called"]
                .iter()
                .any(|mark| line.contains(mark))
        };
        log.lines().filter(ours).map(str::to_owned).collect()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // The group: the workers outlive their parent otherwise.
        let _ = Command::new("sh")
            .arg("-c")
            .arg(format!("kill -KILL -{}", self.php.id()))
            .status();
        let _ = self.php.wait();
    }
}

fn tools() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools")
}

/// A site's files, without a database. It has its core for itself, because an update puts a file there that closes the site.
fn lay_out(core: Core, site: &Path) {
    let unpacked = fs::canonicalize(core.path()).expect("WordPress is unpacked: make tools");
    // By links where that can be, which is thirty times faster.
    let copy = |how: &[&str]| {
        let copied = Command::new("cp")
            .arg("--archive")
            .args(how)
            .arg(&unpacked)
            .arg(site.join("core"))
            .output();
        copied.unwrap().status.success()
    };
    if !copy(&["--link"]) {
        let _ = fs::remove_dir_all(site.join("core"));
        assert!(copy(&[]), "WordPress is copied");
    }
    let write = |relative: &str, content: &[u8]| {
        let path = site.join(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    let ours = |name: &str| fs::read(tools().join("wordpress").join(name)).unwrap();
    // Whatever came with the core may be a link to where it was copied from.
    let _ = fs::remove_file(site.join("core/wp-config.php"));
    write("core/wp-config.php", &ours("wp-config.php"));
    write("wp-content/db.php", &ours("db.php"));
    write("wp-content/mu-plugins/tests.php", &ours("mu-plugin.php"));
    write("wp-content/themes/plain/style.css", b"/*\nTheme Name: Plain\n*/");
    write(
        "wp-content/themes/plain/index.php",
        b"A page.<?php echo do_shortcode('[acme_form]');",
    );
    fs::create_dir(site.join("wp-content/plugins")).unwrap();
    fs::create_dir(site.join("tmp")).unwrap();
}

fn install(site: &Path, host: &str, network: bool) {
    let mut php = Command::new("php");
    environment(&mut php, site, host, "http://127.0.0.1:9", network);
    let output = php
        .arg(tools().join("wordpress/install.php"))
        .output()
        .expect("PHP: make tools");
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
}

fn environment(php: &mut Command, site: &Path, host: &str, outside: &str, network: bool) {
    php.env("WORDPRESS_SITE", site)
        .env("WORDPRESS_HOME", format!("http://{host}"))
        .env("WORDPRESS_OUTSIDE", outside);
    php.env("WORDPRESS_SQLITE", tools().join(".wordpress-sqlite"));
    php.envs(network.then_some(("WORDPRESS_NETWORK", "1")));
}

fn libfaketime() -> PathBuf {
    let libraries = fs::read_dir("/usr/lib").unwrap().flatten().map(|entry| entry.path());
    let mut found = libraries.map(|folder| folder.join("faketime/libfaketime.so.1"));
    found
        .find(|path| path.exists())
        .expect("faketime is installed: make tools")
}
