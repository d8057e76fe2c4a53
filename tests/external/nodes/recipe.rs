//! The complete recipe of docs/operating.md for several nodes, run as it is written: its settings, commands and files, with other
//! paths and ports, and without TLS to the database.

use std::fs::{self, Permissions};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::certificate::Certificate;
use crate::support::instance::question;
use crate::support::server::{countersign_in, updates};
use crate::support::{Instance, License, eventually_within, get};
use crate::tools::daemon::{Daemon, run, tool};
use crate::tools::patroni::{Patroni, Replication};
use crate::tools::postgres::Version;

const PAGE: &str = include_str!("../../../docs/operating.md");
const PATIENCE: Duration = Duration::from_secs(300);

/// The block of the recipe in this language, or the one of them that has these words.
fn block(language: &str, words: &str) -> String {
    let (_, recipe) = PAGE.split_once("\n### A complete recipe for several nodes\n").unwrap();
    let recipe = recipe.split("\n## ").next().unwrap();
    let mut blocks = recipe.split("```").skip(1).step_by(2);
    let found = blocks.find_map(|block| {
        block
            .strip_prefix(&format!("{language}\n"))
            .filter(|text| text.contains(words))
    });
    found.unwrap_or_else(|| panic!("no {language} with {words}")).to_owned()
}

/// The same text with our words in place of theirs, each of which is there.
fn with(mut text: String, words: &[(&str, &str)]) -> String {
    for (theirs, ours) in words {
        assert!(text.contains(theirs), "{theirs} in {text}");
        text = text.replace(theirs, ours);
    }
    text
}

/// Runs commands of the recipe in a folder.
fn sh(commands: &str, folder: &Path) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_countersign")).parent().unwrap();
    let programs = Version::Debian.programs();
    let path = std::env::var("PATH").unwrap();
    run(Command::new("sh")
        .args(["-e", "-c", commands])
        .current_dir(folder)
        .env("PATH", format!("{}:{}:{path}", programs.display(), program.display())))
}

/// Addresses of the loopback for `10.0.0.10` to `10.0.0.12`, that nobody else has while this lives. So a node may stop, and
/// find its port as it left it.
struct Network {
    /// Its port is what the addresses are made of.
    _holder: TcpListener,
    prefix: String,
}

impl Network {
    fn new() -> Self {
        let holder = TcpListener::bind("127.0.0.1:0").unwrap();
        let [high, low] = holder.local_addr().unwrap().port().to_be_bytes();
        Self {
            _holder: holder,
            prefix: format!("127.{high}.{low}."),
        }
    }

    fn address(&self, last: u8, port: u16) -> SocketAddr {
        format!("{}{last}:{port}", self.prefix).parse().unwrap()
    }

    /// A file of the recipe with these addresses.
    fn with_addresses(&self, text: &str) -> String {
        with(text.to_owned(), &[("10.0.0.", &self.prefix)])
    }
}

/// The machines of the recipe.
struct Machines {
    database: Option<Patroni>,
    ci: Instance,
    nodes: Vec<AppServer>,
    certificate: PathBuf,
    balancer: Option<Daemon>,
    network: Network,
    folder: TempDir,
}

/// One of the nodes.
struct AppServer {
    /// The last part of its address in the recipe.
    last: u8,
    folder: PathBuf,
    listen: SocketAddr,
    admin: SocketAddr,
    daemon: Option<Daemon>,
}

/// Where HAProxy listens instead of 443, which not everybody may.
const HTTPS: u16 = 8443;

impl AppServer {
    fn start(&mut self) {
        let mut command = countersign_in(&self.folder);
        command.arg("serve");
        self.daemon = Some(Daemon::start("node", command, &self.folder.join("log")));
        self.wait_until_ready();
    }

    fn wait_until_ready(&self) {
        eventually_within("the node is ready", PATIENCE, || self.ready() == Some(200));
    }

    /// The status of `/readyz`, if it answers.
    fn ready(&self) -> Option<u16> {
        TcpStream::connect(self.admin).ok()?;
        Some(get(self.admin, "/readyz").status)
    }

    /// Whether it offers this version to a site. HAProxy may send every request to another node for a while.
    fn offers(&self, version: &str, license: &License, host: &str) -> bool {
        let answer = get(self.listen, &updates("acme-forms", license, host, ""));
        answer.status == 200 && answer.json()["version"] == version
    }

    /// Whether it has answered a request for updates since its start.
    fn has_updates(&self) -> bool {
        let metrics = get(self.admin, "/metrics").text();
        metrics.contains("countersign_requests_total{operation=\"updates\",code=\"update\"}")
    }

    fn stop(&mut self) {
        self.daemon.take().expect("it runs").end(Signal::TERM);
    }
}

impl Machines {
    fn new(license: &License) -> Self {
        let ci = Instance::with_licenses(&[license.toml("sites = \"unlimited\"")]);
        let git = "git init --quiet -b main && git config user.email ci@acme && git config user.name CI && git add . && git commit --quiet -m Licenses";
        sh(git, &ci.file("registry"));
        let folder = TempDir::new().unwrap();
        let certificate = folder.path().join("certificate.pem");
        let made = Certificate::new("haproxy", 10);
        fs::write(&certificate, made.chain + &made.key).unwrap();
        let network = Network::new();
        let node = |last: u8| AppServer {
            last,
            folder: folder.path().join(format!("app{last}")),
            listen: network.address(last, 8080),
            admin: network.address(last, 8081),
            daemon: None,
        };
        Self {
            database: Some(Patroni::start(Replication::Asynchronous)),
            ci,
            nodes: [11, 12].map(node).into(),
            certificate,
            balancer: None,
            network,
            folder,
        }
    }

    fn database(&self) -> &Patroni {
        self.database.as_ref().expect("it runs")
    }

    /// Settings, role and tables.
    fn prepare_database(&self) {
        let folder = self.folder.path();
        fs::write(folder.join("countersign.yml"), block("yaml", "ttl")).unwrap();
        let patronictl = tool(".patroni/bin/patronictl").display().to_string();
        let settings = self.database().settings().display().to_string();
        let commands = with(
            block("sh", "patronictl"),
            &[
                ("db1,db2,db3", &self.database().servers()),
                (
                    "patronictl -c /etc/patroni/config.yml",
                    &format!("{patronictl} -c {settings}"),
                ),
            ],
        );
        // The schema is printed in the folder of an instance.
        let commands = commands.replace(
            "countersign bindings",
            &format!("countersign -C {} bindings", self.ci.path().display()),
        );
        sh(&commands, folder);
        // What the commands changed: commits now wait for a standby.
        self.database().wait_for_sync_standby();
    }

    /// The two blocks about files: the first for a new node, the other one for each minute.
    fn bring_files(&self, block_with: &str) {
        let ci = format!("{}/", self.ci.path().display());
        for node in &self.nodes {
            let own = node.folder.display().to_string();
            let mut commands = block("sh", block_with);
            for (theirs, ours) in [
                ("cd /srv/countersign", format!("cd {own}")),
                ("ci:/srv/countersign/", ci.clone()),
                ("backup:/srv/countersign/", ci.clone()),
            ] {
                commands = commands.replace(theirs, &ours);
            }
            assert!(!commands.contains("/srv/") && !commands.contains("ci:"), "{commands}");
            sh(&commands, self.folder.path());
        }
    }

    fn start_nodes(&mut self) {
        let passfile = self.folder.path().join("pgpass");
        fs::write(&passfile, "*:*:countersign:countersign_node:PASSWORD\n").unwrap();
        fs::set_permissions(&passfile, Permissions::from_mode(0o600)).unwrap();
        let servers = self.database().servers();
        for node in &mut self.nodes {
            let mut settings = with(
                block("toml", "paths.store"),
                &[
                    ("db1,db2,db3", &servers),
                    ("sslmode=verify-full", "sslmode=disable"),
                    ("/etc/countersign/pgpass", &passfile.display().to_string()),
                    ("\"10.0.0.11:", &format!("\"10.0.0.{}:", node.last)),
                    // Where a connection over the loopback comes from.
                    ("proxies = [\"10.0.0.10\"]", "proxies = [\"127.0.0.1\"]"),
                ],
            );
            settings = self.network.with_addresses(&settings);
            fs::write(node.folder.join("countersign.toml"), settings).unwrap();
            node.start();
        }
    }

    fn start_balancer(&mut self) {
        let settings = with(
            block("haproxy", "backend"),
            &[
                ("10.0.0.10:443 ", &format!("10.0.0.10:{HTTPS} ")),
                (
                    "/etc/haproxy/licenses.example.com.pem",
                    &self.certificate.display().to_string(),
                ),
            ],
        );
        let settings = self.network.with_addresses(&settings);
        let file = self.folder.path().join("haproxy.cfg");
        fs::write(&file, settings).unwrap();
        let mut command = Command::new(tool(".databases/usr/sbin/haproxy"));
        command.arg("-db").arg("-f").arg(file);
        let log = self.folder.path().join("haproxy.log");
        let mut balancer = Daemon::start("haproxy", command, &log);
        let is_there = || TcpStream::connect(self.network.address(10, HTTPS)).is_ok();
        balancer
            .wait_until("listens", PATIENCE, is_there)
            .unwrap_or_else(|log| panic!("{log}"));
        self.balancer = Some(balancer);
    }

    /// Asks as a site does, and gives the status and the body.
    fn ask(&self, target: &str, more: &[&str]) -> (String, Value) {
        let output = Command::new("curl")
            .args([
                "--silent",
                "--insecure",
                "--max-time",
                "60",
                "--write-out",
                "\n%{http_code}",
            ])
            .args(more)
            .arg(format!("https://{}{target}", self.network.address(10, HTTPS)))
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (body, status) = text.rsplit_once('\n').unwrap();
        (status.to_owned(), serde_json::from_str(body).unwrap_or_default())
    }

    /// The status of the answer and its code.
    fn validate(&self, license: &License, host: &str) -> (String, String) {
        let question = question(license, host).to_string();
        let json = ["--header", "Content-Type: application/json", "--data", &question];
        let (status, body) = self.ask("/api/v1/validate-license", &json);
        (status, body["code"].as_str().unwrap_or_default().to_owned())
    }

    /// The status of the answer, and the version that is offered or the code.
    fn offered(&self, license: &License, host: &str) -> (String, String) {
        let (status, body) = self.ask(&updates("acme-forms", license, host, ""), &[]);
        let said = body["version"].as_str().or(body["code"].as_str());
        (status, said.unwrap_or("no answer of a node").to_owned())
    }
}

fn ok(status: &str, word: &str) -> (String, String) {
    (status.to_owned(), word.to_owned())
}

/// Sites that ask for updates and to be bound, one request after the other, until `stop` is set. No answer but 200.
fn load(machines: &Machines, license: &License, number: usize, stop: &AtomicBool, asked: &AtomicUsize) {
    for round in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let host = format!("new-{number}-{round}.example");
        assert_eq!(machines.validate(license, &host), ok("200", "ok"), "{host}");
        assert_eq!(machines.offered(license, "a.example").0, "200");
        asked.fetch_add(2, Ordering::Relaxed);
    }
}

/// Stops and starts one node after the other while sites ask.
fn upgrade(machines: &mut Machines, license: &License) {
    let mut nodes = std::mem::take(&mut machines.nodes);
    let stop = &AtomicBool::new(false);
    let asked = &AtomicUsize::new(0);
    let machines_now: &Machines = machines;
    thread::scope(|scope| {
        let sites: Vec<_> = (0..2)
            .map(|number| scope.spawn(move || load(machines_now, license, number, stop, asked)))
            .collect();
        let some_more = || {
            let before = asked.load(Ordering::Relaxed);
            eventually_within("sites were answered", PATIENCE, || {
                asked.load(Ordering::Relaxed) > before + 20 || sites.iter().any(thread::ScopedJoinHandle::is_finished)
            });
        };
        for node in &mut nodes {
            some_more();
            node.stop();
            some_more();
            node.start();
            eventually_within("HAProxy uses the node again", PATIENCE, || node.has_updates());
        }
        some_more();
        stop.store(true, Ordering::Relaxed);
        for site in sites {
            site.join().unwrap();
        }
    });
    eprintln!(
        "{} requests while both nodes were replaced, none refused",
        asked.load(Ordering::Relaxed)
    );
    machines.nodes = nodes;
}

#[test]
fn the_recipe_for_several_nodes_works_as_it_stands() {
    let license = License::new();
    let mut machines = Machines::new(&license);
    machines.prepare_database();
    for node in &machines.nodes {
        fs::create_dir(&node.folder).unwrap();
    }
    machines.bring_files("git clone");
    machines.bring_files("--delay-updates");
    machines.start_nodes();
    machines.start_balancer();
    assert_eq!(machines.validate(&license, "a.example"), ok("200", "ok"));
    for _ in 0..4 {
        assert_eq!(machines.offered(&license, "a.example"), ok("200", "1.2.0"));
    }

    upgrade(&mut machines, &license);

    machines.ci.publish("1.3.0");
    machines.bring_files("--delay-updates");
    eventually_within("both nodes offer the release", PATIENCE, || {
        let mut nodes = machines.nodes.iter();
        nodes.all(|node| node.offers("1.3.0", &license, "a.example"))
    });

    machines.database().kill_primary();
    for _ in 0..20 {
        assert_eq!(machines.offered(&license, "a.example"), ok("200", "1.3.0"));
    }
    eventually_within("another primary binds", PATIENCE, || {
        machines.validate(&license, "b.example") == ok("200", "ok")
    });
    // Both know it, so both may say yes without the database.
    eventually_within("both nodes have read the binding", PATIENCE, || {
        let mut nodes = machines.nodes.iter();
        nodes.all(|node| node.offers("1.3.0", &license, "b.example"))
    });

    // No database at all.
    machines.database = None;
    eventually_within("no node is ready", PATIENCE, || {
        machines.nodes.iter().all(|node| node.ready() == Some(503))
    });
    eventually_within("HAProxy has seen it", PATIENCE, || {
        machines.validate(&license, "c.example") == ok("503", "store_unavailable")
    });
    for _ in 0..20 {
        assert_eq!(machines.offered(&license, "b.example"), ok("200", "1.3.0"));
        assert_eq!(machines.validate(&license, "a.example"), ok("200", "ok"));
    }

    // A declaration says no only with the ledger: it may have adopted the license and renewed it.
    machines
        .ci
        .write_licenses(&[license.toml("sites = \"unlimited\"\nstatus = \"suspended\"")]);
    sh("git commit --quiet -a -m Suspended", &machines.ci.file("registry"));
    machines.bring_files("--delay-updates");
    eventually_within("both nodes have it", PATIENCE, || {
        (0..6).all(|_| machines.validate(&license, "a.example") == ok("503", "store_unavailable"))
    });
    for log in ["haproxy.log", "app11/log", "app12/log"] {
        let text = fs::read_to_string(machines.folder.path().join(log)).unwrap();
        assert!(!text.contains(&license.key), "{log}: {text}");
    }
}
