//! Compares updates and packages with two alternatives behind nginx and PHP-FPM with opcache: wp-update-server, and a route of WordPress
//! that only reads a file.
//!
//! Neither alternative looks up a license or signs. `make tools` brings Debian's WordPress, which runs on SQLite; the benchmark fetches
//! wp-update-server from GitHub.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use countersign_package::writer::PackageWriter;

use crate::client::{get, updates_of};
use crate::hosted::{self, HOSTED};
use crate::instance::{Instance, LATEST, host, key};
use crate::nginx;
use crate::process::Server;
use crate::report::{Target, heading, median, row};
use crate::wrk::{Questions, Run};

/// Runs of each server, in turns; odd, so that there is a median.
const ROUNDS: usize = 5;

const STRETCH: Duration = Duration::from_secs(2);

/// PHP's processes: two for each core of a small machine.
const WORKERS: usize = 4;

/// The version of wp-update-server that is measured.
const SOURCE: &str = "https://github.com/YahnisElsts/wp-update-server";
const COMMIT: &str = "a449b410b399ba2d1f8d198e56ae1c804ac4833a";

/// Names a folder with a copy of it, where GitHub cannot be reached.
const COPY: &str = "WP_UPDATE_SERVER";

/// A server, and what it is asked.
struct Candidate {
    name: &'static str,
    server: Server,
    updates: Vec<String>,
    packages: Vec<String>,
}

pub fn run(bench: &Path) -> io::Result<()> {
    let instance = Instance::new(bench, 10_000, true, 2048)?;
    hosted::add(&instance)?;
    let folder = bench.join("php");
    fs::create_dir_all(&folder)?;
    heading("beside other servers: 64 connections, 4 processes of PHP (medians of 5)");
    let mut candidates = vec![ours(&instance)?];
    for candidate in [wordpress(&folder, &instance), wp_update_server(&folder)] {
        match candidate {
            Ok(candidate) => candidates.push(candidate),
            Err(error) => println!("  NOT MEASURED: {error}"),
        }
    }
    compare(bench, "an update", &candidates, |candidate| &candidate.updates)?;
    compare(bench, "a package of 5 MB", &candidates, |candidate| &candidate.packages)
}

fn ours(instance: &Instance) -> io::Result<Candidate> {
    let server = Server::countersign(&instance.folder)?;
    let update = |at| updates_of(HOSTED, key(at).reveal(), &host(at), "&current_version=1.19.0");
    Ok(Candidate {
        name: "countersign",
        updates: (0..instance.licenses).map(update).collect(),
        packages: (0..64).map(|at| hosted::link(&server, at)).collect::<io::Result<_>>()?,
        server,
    })
}

/// Asks each candidate in turn, and compares it with the first. A candidate without questions is left out.
fn compare(
    bench: &Path,
    what: &str,
    candidates: &[Candidate],
    questions: impl Fn(&Candidate) -> &Vec<String>,
) -> io::Result<()> {
    let mut asked = Vec::new();
    for candidate in candidates {
        let questions = questions(candidate);
        if let Some(first) = questions.first() {
            let status = get(candidate.server.address, first)?.status;
            if status != 200 {
                return Err(io::Error::other(format!("{}: {status}", candidate.name)));
            }
            let name = format!("{what} of {}", candidate.name);
            asked.push((
                candidate,
                Questions::new(bench, &name, questions.iter().cloned())?,
                Vec::new(),
            ));
        }
    }
    for _ in 0..ROUNDS {
        for (candidate, questions, runs) in &mut asked {
            runs.push(questions.ask(&candidate.server, STRETCH)?);
        }
    }
    let of = |runs: &[Run], figure: fn(&Run) -> f64| median(runs.iter().map(figure));
    let ours = asked.first().map_or(f64::NAN, |(_, _, runs)| of(runs, |run| run.cpu));
    for (candidate, _, runs) in &asked {
        let cpu = of(runs, |run| run.cpu);
        let rate = of(runs, |run| run.rate);
        let p99 = of(runs, |run| run.p99) * 1e3;
        let figure = format!(
            "{what}, {} ({:.0} µs of CPU, {rate:.0}/s, p99 {p99:.1} ms)",
            candidate.name,
            cpu * 1e6
        );
        row(&figure, cpu / ours, "x", Target::None);
    }
    Ok(())
}

/// Debian's WordPress with one route that answers with the manifest.
fn wordpress(folder: &Path, instance: &Instance) -> io::Result<Candidate> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tools = root.join("tests/tools");
    let site = folder.join("wordpress");
    let _ = fs::remove_dir_all(&site);
    for folder in ["wp-content/mu-plugins", "wp-content/themes/plain"] {
        fs::create_dir_all(site.join(folder))?;
    }
    let core = site.join("core");
    done(Command::new("cp").arg("-a").arg(tools.join(".wordpress")).arg(&core))?;
    // It is a link to the system's configuration.
    let _ = fs::remove_file(core.join("wp-config.php"));
    let own = root.join("benches/tools/wordpress");
    fs::copy(own.join("wp-config.php"), core.join("wp-config.php"))?;
    fs::copy(own.join("updates.php"), site.join("wp-content/mu-plugins/updates.php"))?;
    fs::copy(
        instance.file(&format!("releases/{HOSTED}/{LATEST}.json")),
        site.join("wp-content/mu-plugins/manifest.json"),
    )?;
    fs::copy(tools.join("wordpress/db.php"), site.join("wp-content/db.php"))?;
    fs::write(
        site.join("wp-content/themes/plain/style.css"),
        "/*\nTheme Name: Plain\n*/",
    )?;
    fs::write(site.join("wp-content/themes/plain/index.php"), "A page.")?;
    let environment = [
        ("WORDPRESS_SITE", site.clone()),
        ("WORDPRESS_HOME", "http://127.0.0.1".into()),
        ("WORDPRESS_SQLITE", tools.join(".wordpress-sqlite")),
    ];
    let mut install = Command::new("php");
    install
        .args(["-d", "error_reporting=0"])
        .arg(tools.join("wordpress/install.php"))
        .envs(environment.clone());
    done(&mut install)?;
    Ok(Candidate {
        name: "a route of WordPress",
        server: php(&folder.join("wordpress-php"), &core, &environment)?,
        updates: vec!["/?rest_route=/acme/v1/updates".into()],
        packages: Vec::new(),
    })
}

/// wp-update-server with a plugin of 5 MB.
fn wp_update_server(folder: &Path) -> io::Result<Candidate> {
    let place = folder.join("wp-update-server");
    let _ = fs::remove_dir_all(&place);
    match std::env::var_os(COPY) {
        Some(copy) => done(Command::new("cp").arg("-a").arg(copy).arg(&place))?,
        None => {
            let git = || {
                let mut git = Command::new("git");
                git.arg("-C").arg(&place).env("GIT_TERMINAL_PROMPT", "0");
                git
            };
            fs::create_dir_all(&place)?;
            done(git().args(["init", "--quiet"]))?;
            done(git().args(["fetch", "--quiet", "--depth", "1", SOURCE, COMMIT]))
                .map_err(|error| io::Error::other(format!("wp-update-server: name a copy in {COPY}: {error}")))?;
            done(git().args(["checkout", "--quiet", "FETCH_HEAD"]))?;
        }
    }
    let slug = HOSTED.parse().map_err(io::Error::other)?;
    let package = File::create(place.join(format!("packages/{HOSTED}.zip")))?;
    let header = format!("<?php\n/*\nPlugin Name: Acme\nVersion: {LATEST}\n*/\n");
    let readme = format!("=== Acme ===\nStable tag: {LATEST}\n\n== Changelog ==\n\n= {LATEST} =\n* Faster.\n");
    let content = hosted::content();
    let mut writer = PackageWriter::new(package, &slug, chrono::DateTime::UNIX_EPOCH);
    for (name, bytes) in [
        (format!("{HOSTED}.php"), header.as_bytes()),
        ("data.bin".to_owned(), &content),
        ("readme.txt".to_owned(), readme.as_bytes()),
    ] {
        writer
            .add(&name, bytes.len() as u64, || Ok(bytes))
            .map_err(io::Error::other)?;
    }
    writer.finish(true).map_err(io::Error::other)?;
    Ok(Candidate {
        name: "wp-update-server",
        server: php(&folder.join("wp-update-server-php"), &place, &[])?,
        updates: vec![format!("/?action=get_metadata&slug={HOSTED}")],
        packages: vec![format!("/?action=download&slug={HOSTED}")],
    })
}

/// nginx in front of PHP-FPM, which answers every request with the `index.php` in `root`. Both write to `folder`.
fn php(folder: &Path, root: &Path, environment: &[(&str, PathBuf)]) -> io::Result<Server> {
    let unpacked = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/tools/.php-fpm/usr/sbin");
    let found = fs::read_dir(&unpacked).ok().and_then(|mut files| files.next()?.ok());
    let program = found
        .ok_or_else(|| io::Error::other("there is no PHP-FPM: run benches/tools/install"))?
        .path();
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let version = name.trim_start_matches("php-fpm");
    fs::create_dir_all(folder)?;
    let socket = folder.join("php.sock");
    let _ = fs::remove_file(&socket);
    let is_root = fs::metadata("/proc/self")?.uid() == 0;
    let user = if is_root { "user = root\ngroup = root\n" } else { "" };
    let configuration = format!(
        "[global]\nerror_log = {0}/php.log\ndaemonize = no\n[www]\n{user}listen = {1}\npm = static\npm.max_children = {WORKERS}\nclear_env = no\n",
        folder.display(),
        socket.display(),
    );
    fs::write(folder.join("php-fpm.conf"), configuration)?;
    let mut command = Command::new(program);
    command
        .args(is_root.then_some("-R"))
        .arg("-y")
        .arg(folder.join("php-fpm.conf"))
        .arg("-c")
        .arg(format!("/etc/php/{version}/cli"))
        .env("PHP_INI_SCAN_DIR", format!("/etc/php/{version}/cli/conf.d"))
        .envs(environment.iter().cloned())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let behind = command.spawn()?;
    let until = Instant::now() + Duration::from_secs(10);
    while !socket.exists() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    let parameters: String = [
        ("SCRIPT_FILENAME", "$document_root/index.php"),
        ("SCRIPT_NAME", "/index.php"),
        ("REQUEST_METHOD", "$request_method"),
        ("QUERY_STRING", "$query_string"),
        ("REQUEST_URI", "$request_uri"),
        ("SERVER_PROTOCOL", "$server_protocol"),
        ("SERVER_NAME", "$server_name"),
        ("REMOTE_ADDR", "$remote_addr"),
        ("HTTP_HOST", "$http_host"),
    ]
    .map(|(name, value)| format!("fastcgi_param {name} {value}; "))
    .concat();
    let directives = format!(
        "root {}; location / {{ fastcgi_pass unix:{}; {parameters} }}",
        root.display(),
        socket.display()
    );
    let front = nginx::start(folder, &directives)?;
    let front = front.ok_or_else(|| io::Error::other("there is no nginx: run benches/tools/install"))?;
    Ok(front.with_behind(behind))
}

fn done(command: &mut Command) -> io::Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "{}: {}",
            command.get_program().display(),
            String::from_utf8_lossy(&output.stderr).trim()
        ))),
    }
}
