//! Installs, upgrades and removes the `.deb` in a Debian with systemd, and makes the images for containers.
//!
//! They need root, namespaces and Debian's mirror, so `make lived-with` runs these tests, and `make test` does not.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::dist::{project, sh};
use crate::support::{eventually, eventually_within};

/// The name of the server in the guide.
const NAME: &str = "licenses.example.com";

/// The container has the name of this machine.
fn hostname() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname")
        .unwrap()
        .trim()
        .to_owned()
}

/// A Debian in a container that systemd booted, without a network.
struct Debian {
    folder: TempDir,
    container: Child,
    /// The process of its systemd.
    leader: String,
}

impl Debian {
    fn boot() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // What the guide has people install, and what a server of a hoster has.
        let packages = "systemd,systemd-sysv,dbus,sudo,curl,python3,ca-certificates,git,openssh-client,caddy";
        let mirror = "http://deb.debian.org/debian";
        let make = format!("mmdebstrap --quiet --variant=minbase --include={packages} bookworm root {mirror}");
        sh(folder.path(), &make);
        let hosts = format!("127.0.0.1 localhost {NAME} {}\n", hostname());
        fs::write(folder.path().join("root/etc/hosts"), hosts).unwrap();
        let container = Command::new("systemd-nspawn")
            .args([
                "--quiet",
                "--register=no",
                "--keep-unit",
                "--private-network",
                "--console=pipe",
                "--boot",
                "--directory",
            ])
            .arg(folder.path().join("root"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut debian = Self {
            folder,
            container,
            leader: String::new(),
        };
        let pid = debian.container.id();
        let children = format!("/proc/{pid}/task/{pid}/children");
        // The first child only prepares the second.
        eventually_within("Debian has booted", Duration::from_secs(120), || {
            debian.leader = fs::read_to_string(&children).unwrap().trim().to_owned();
            let state = debian.try_run("systemctl is-system-running").stdout;
            state.starts_with(b"running") || state.starts_with(b"degraded")
        });
        debian
    }

    /// A folder in it.
    fn file(&self, path: &str) -> std::path::PathBuf {
        self.folder.path().join("root").join(path.trim_start_matches('/'))
    }

    fn try_run(&self, command: &str) -> Output {
        Command::new("nsenter")
            .args([
                "--target",
                &self.leader,
                "--all",
                "--root",
                "--wd",
                "bash",
                "-O",
                "expand_aliases",
                "-euc",
                command,
            ])
            .output()
            .unwrap()
    }

    /// Runs a command in it as root, and gives what it prints.
    #[track_caller]
    fn run(&self, command: &str) -> String {
        let Output { status, stdout, stderr } = self.try_run(command);
        let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        let journal = || String::from_utf8_lossy(&self.try_run("journalctl -n 50").stdout).into_owned();
        assert!(status.success(), "{command}: {stdout}{stderr}{}", journal());
        stdout.trim().to_owned()
    }

    /// Whether a unit is active.
    fn state(&self, unit: &str) -> String {
        String::from_utf8(self.try_run(&format!("systemctl is-active {unit}")).stdout)
            .unwrap()
            .trim()
            .to_owned()
    }
}

impl Drop for Debian {
    fn drop(&mut self) {
        // Its systemd is the init of the container: everything in it ends with it.
        let _ = Command::new("kill").args(["-KILL", &self.leader]).status();
        let _ = self.container.kill();
        let _ = self.container.wait();
    }
}

/// docs/install.md.
struct Guide(String);

impl Guide {
    fn read() -> Self {
        Self(fs::read_to_string(project("docs/install.md")).unwrap())
    }

    fn section(&self, number: usize) -> &str {
        let rest = self.0.split(&format!("\n## {number}. ")).nth(1).unwrap();
        rest.split("\n## ").next().unwrap()
    }

    /// The first block of a section in this language.
    fn block(&self, number: usize, language: &str) -> &str {
        let rest = self.section(number).split(&format!("```{language}\n")).nth(1).unwrap();
        rest.split("```").next().unwrap()
    }

    /// The commands of a section that a person types, without those that check a signature, which this release does not have.
    fn commands(&self, number: usize) -> String {
        let typed = self.section(number).lines().filter_map(|line| line.strip_prefix("$ "));
        let typed = typed.filter(|command| !command.starts_with("ssh-keygen"));
        let typed = typed.map(|command| command.replace("sudo apt install ", "sudo apt install --yes "));
        typed.collect::<Vec<_>>().join("\n")
    }

    /// What the guide calls `cs`.
    fn alias(&self) -> String {
        let section = self.commands(2);
        section
            .lines()
            .find(|line| line.starts_with("alias cs="))
            .unwrap()
            .to_owned()
    }
}

/// Packs the program under test, and the same as a newer version.
fn packages(folder: &Path) -> [String; 2] {
    let version = env!("CARGO_PKG_VERSION");
    let program = env!("CARGO_BIN_EXE_countersign");
    sh(folder, &format!("strip -o program {program}"));
    let pack = project("packaging/pack");
    sh(folder, &format!("{} program x86_64 . {program}", pack.display()));
    let [older, newer] = [format!("countersign_{version}_amd64.deb"), "newer.deb".to_owned()];
    let repack = format!(
        "dpkg-deb -R {older} newer && sed -i 's/^Version: .*/Version: {version}+1/' newer/DEBIAN/control && dpkg-deb -Znone --build newer {newer}"
    );
    sh(folder, &repack);
    [older, newer]
}

/// Validates from four threads until /root/stop exists. Two open a connection for each request, and two keep theirs. Prints the answers of
/// both kinds, the lost requests, and why the first one was lost.
const LOAD: &str = r#"
import http.client, json, os, sys, threading
body = json.dumps({"license_key": sys.argv[1], "plugin_version": "1.0.0", "site_url": "https://a.example"})
answered, lost = [0, 0], []

def ask(keeps):
    client = None
    while not os.path.exists("/root/stop"):
        try:
            client = client or http.client.HTTPConnection("127.0.0.1", 8080, timeout=60)
            client.request("POST", "/api/v1/validate-license", body, {"Content-Type": "application/json"})
            answer = client.getresponse()
            text = answer.read()
            if answer.status != 200 or json.loads(text)["code"] != "ok":
                raise ValueError(text)
            answered[keeps] += 1
            if not keeps:
                client.close()
        except Exception as error:
            lost.append(repr(error))
            client = None

threads = [threading.Thread(target=ask, args=(number % 2,)) for number in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(*answered, len(lost), *lost[:1])
"#;

#[test]
#[ignore = "boots a Debian: make lived-with"]
fn the_guide_to_install_works_as_it_stands_and_the_deb_is_upgraded_under_load_removed_and_purged() {
    let folder = tempfile::tempdir().unwrap();
    let [older, newer] = packages(folder.path());
    let debian = Debian::boot();
    for deb in [&older, &newer] {
        fs::copy(folder.path().join(deb), debian.file("/root").join(deb)).unwrap();
    }

    let guide = Guide::read();
    // 1. The program: a user and units, and nothing runs.
    sh(&debian.file("/root"), &format!("sha256sum {older} > SHA256SUMS"));
    debian.run(&format!("cd /root && {}", guide.commands(1)));
    debian.run("getent passwd countersign && systemctl start countersign.socket countersign");
    assert_eq!(debian.state("countersign.service"), "inactive", "without an instance");

    // 2. The instance.
    let made = guide.commands(2);
    let (make, start) = made.split_at(made.find("sudo systemctl enable").unwrap());
    debian.run(make);
    let settings = debian.file("/srv/countersign/countersign.toml");
    let text = fs::read_to_string(&settings).unwrap();
    let limits = "serve.requests_per_minute = 4000000\nserve.requests_per_license = 4000000\n";
    fs::write(&settings, format!("{text}{}{limits}", guide.block(2, "toml"))).unwrap();
    let doctor = debian.run(&format!("{}\n{start}", guide.alias()));
    assert!(doctor.contains("ok       server       ready"), "{doctor}");

    // 3. TLS, with a certificate of Caddy's own.
    let recipe = fs::read_to_string(project("docs/operating.md")).unwrap();
    let recipe = recipe
        .split("```caddyfile\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let recipe = recipe.replacen("{\n", "{\n\tlocal_certs\n\tskip_install_trust\n", 1);
    fs::write(debian.file("/etc/caddy/Caddyfile"), recipe).unwrap();
    debian.run("sudo systemctl reload caddy");
    let trust = "export CURL_CA_BUNDLE=/var/lib/caddy/.local/share/caddy/pki/authorities/local/root.crt";
    eventually("Caddy has a certificate", || {
        let keys = debian.try_run(&format!("{trust}\n{}", guide.commands(3)));
        String::from_utf8_lossy(&keys.stdout).contains("\"keys\"")
    });

    // 4. The first plugin, from a repository of this machine.
    let repository = "mkdir -p /srv/git/acme-forms && cd /srv/git/acme-forms && git init --quiet && git config user.email a@acme.example && \
        git config user.name Acme && printf '<?php\n/*\nPlugin Name: Acme Forms\nVersion: 1.0.0\n*/\n' > acme-forms.php && git add . && \
        git commit --quiet -m First && git tag 1.0.0 && chown -R countersign /srv/git";
    debian.run(repository);
    let plugin = guide
        .commands(4)
        .replace("https://github.com/acme/acme-forms", "/srv/git/acme-forms");
    let built = debian.run(&format!(
        "{}\n{plugin}\nsystemctl start countersign-build",
        guide.alias()
    ));
    assert!(built.contains("latest 1.0.0"), "{built}");

    // 5. The first license. 7. The desk. 8. The backup.
    let issued = debian.run(&format!("{}\n{}", guide.alias(), guide.commands(5)));
    let key = issued.lines().next().unwrap();
    let link = debian.run(&format!("{}\n{}", guide.alias(), guide.commands(7)));
    assert!(link.contains("/link/") && link.contains("ssh -L 8082"), "{link}");
    let backup = guide.commands(8).replace(&format!("ssh root@{NAME} "), "sh -c ");
    debian.run(&format!(
        "cd /root\n{backup}\ntar -tzf countersign-backup.tar.gz | grep -q keys/signing.pem"
    ));
    // A site asks through Caddy.
    let ask = format!(
        "{trust}\ncurl --silent --json '{{\"license_key\": \"{key}\", \"plugin_version\": \"0.9.0\", \"site_url\": \"https://a.example\"}}' \
         https://{NAME}/api/v1/validate-license\n\
         curl --silent --get --data-urlencode license_key={key} --data-urlencode site_url=https://a.example \
         https://{NAME}/api/v1/updates/acme-forms"
    );
    let answers = debian.run(&ask);
    assert!(
        answers.contains("\"code\":\"ok\"") && answers.contains("1.0.0"),
        "{answers}"
    );

    // Upgraded while sites ask.
    fs::write(debian.file("/root/load.py"), LOAD).unwrap();
    debian.run(&format!("python3 /root/load.py {key} > /root/load.txt 2>&1 & sleep 2"));
    let pid = || debian.run("systemctl show --property MainPID --value countersign");
    let before = pid();
    debian.run(&format!("dpkg -i /root/{newer}"));
    assert_ne!(pid(), before, "the new program runs");
    assert_eq!(debian.state("countersign.service"), "active");
    debian
        .run("systemctl restart countersign && sleep 2 && systemctl reload countersign && sleep 1 && touch /root/stop");
    eventually("the load has ended", || {
        fs::metadata(debian.file("/root/load.txt")).unwrap().len() > 0
    });
    let load = debian.run("cat /root/load.txt");
    eprintln!(
        "an upgrade, a restart and a reload under systemd: answered on new and on kept connections, and lost: {load}"
    );
    let counts: Vec<usize> = load.split(' ').map_while(|count| count.parse().ok()).collect();
    assert!(counts[0] > 20 && counts[1] > 20 && counts[2] == 0, "{load}");
    let journal = debian.run("journalctl -u countersign --output cat");
    assert!(!journal.contains(key), "the log has no key");
    for fault in [
        "Operation not permitted",
        "Permission denied",
        "Read-only file system",
        "panicked",
    ] {
        assert!(!journal.contains(fault), "{journal}");
    }

    // Removed and purged: nothing runs, and the instance is there.
    debian.run("sudo apt remove --yes countersign");
    for unit in ["countersign.socket", "countersign.service"] {
        assert_eq!(debian.state(unit), "inactive", "{unit}");
    }
    debian.run("sudo apt purge --yes countersign");
    debian.run("getent passwd countersign");
    assert!(debian.file("/srv/countersign/keys").exists() && !debian.file("/usr/bin/countersign").exists());
}

#[test]
#[ignore = "makes a Debian: make lived-with"]
fn the_images_have_the_same_bytes_twice_and_the_program_starts_in_them() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("program.c"),
        "#include <stdio.h>\nint main(int count, char **words) { return printf(\"%d %s\\n\", count, words[1]) < 0; }\n",
    )
    .unwrap();
    sh(folder.path(), "gcc -static -o program program.c");
    let image = project("packaging/image");
    for (kind, name) in [("serve", "countersign"), ("build", "countersign-build")] {
        let name = format!("{name}-{}-x86_64.oci.tar", env!("CARGO_PKG_VERSION"));
        for (out, environment) in [("first", "TZ=UTC"), ("second", "TZ=Asia/Tokyo LANG=de_DE.UTF-8")] {
            let make = format!(
                "umask 077; env {environment} SOURCE_DATE_EPOCH=1700000000 {} {kind} program x86_64 {out}",
                image.display()
            );
            sh(folder.path(), &make);
        }
        sh(folder.path(), &format!("cmp first/{name} second/{name}"));
        // As a container engine has it: the layer, with the user and the words of the image's configuration.
        let unpack = format!(
            "rm -rf layout tree && mkdir layout tree && tar -C layout -xf first/{name} && \
             for blob in layout/blobs/sha256/*; do if gzip -t $blob 2>/dev/null; then tar -C tree -xzf $blob; fi; done"
        );
        sh(folder.path(), &unpack);
        let ran = sh(
            folder.path(),
            "chroot --userspec 10001:10001 tree /usr/bin/countersign -C /srv/countersign",
        );
        assert_eq!(ran, "3 -C\n");
        let owner = sh(
            folder.path(),
            "stat -c '%u:%g %a' tree/srv/countersign && stat -c '%a' tree/tmp",
        );
        assert_eq!(owner, "10001:10001 750\n1777\n", "{kind}");
        let user = "grep -aho '\"User\":\"[^\"]*\"' layout/blobs/sha256/*";
        assert_eq!(sh(folder.path(), user), "\"User\":\"10001:10001\"\n");
        if kind == "build" {
            sh(folder.path(), "test -x tree/usr/bin/git && test -x tree/usr/bin/ssh");
        } else {
            let files = sh(folder.path(), "cd tree && find . -type f | sort");
            let expected = [
                "./etc/group",
                "./etc/hosts",
                "./etc/nsswitch.conf",
                "./etc/passwd",
                "./etc/ssl/certs/ca-certificates.crt",
                "./usr/bin/countersign",
            ];
            assert_eq!(files.lines().collect::<Vec<_>>(), expected);
        }
    }
}
