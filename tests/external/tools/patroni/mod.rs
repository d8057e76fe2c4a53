//! Three PostgreSQL servers under Patroni and etcd: one is the primary, and another takes its place when it is away.

mod config;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use self::config::Ports;
use super::daemon::{Daemon, family, free_ports, give, kill_family, signal, tool, unprivileged};
use super::postgres::{Version, psql, remove_shared_memory};
use crate::support::eventually_within;

pub use config::Replication;

const MEMBERS: usize = 3;
/// On two busy cores, a failover took a minute.
const PATIENCE: Duration = Duration::from_secs(300);

/// The running servers. All of them are ended when it is dropped.
pub struct Patroni {
    members: Vec<Member>,
    _etcd: Daemon,
    _folder: TempDir,
}

struct Member {
    name: String,
    ports: Ports,
    data: PathBuf,
    daemon: Daemon,
    is_frozen: bool,
}

impl Patroni {
    /// Waits until a primary takes writes, with a standby beside it.
    pub fn start(replication: Replication) -> Self {
        let folder = TempDir::new().unwrap();
        give(folder.path());
        let path = folder.path();
        let ports = free_ports(2 + 2 * MEMBERS);
        let mut etcd = Daemon::start("etcd", config::etcd(path, ports[0], ports[1]), &path.join("etcd.log"));
        etcd.wait_until("listens", PATIENCE, || {
            TcpStream::connect(("127.0.0.1", ports[0])).is_ok()
        })
        .unwrap_or_else(|log| panic!("etcd did not start: {log}"));
        let member = |(index, pair): (usize, &[u16])| {
            let own = Ports {
                postgres: pair[0],
                rest: pair[1],
            };
            Member::start(path, &format!("n{index}"), own, ports[0], replication)
        };
        let patroni = Self {
            members: ports[2..].chunks(2).enumerate().map(member).collect(),
            _etcd: etcd,
            _folder: folder,
        };
        let standby = match replication {
            Replication::Strict => "sync_standby",
            Replication::Asynchronous => "replica",
        };
        patroni.wait_for(standby);
        patroni
    }

    /// The address of whichever server takes writes.
    pub fn url(&self, role: &str) -> String {
        format!(
            "postgres://{role}@{}/postgres?target_session_attrs=read-write",
            self.servers()
        )
    }

    /// The servers, as an address of a database names them.
    pub fn servers(&self) -> String {
        let hosts: Vec<_> = self.members.iter().map(Member::host).collect();
        hosts.join(",")
    }

    /// The settings of a member, which say where its etcd is.
    pub fn settings(&self) -> PathBuf {
        self.members[0].data.with_extension("yml")
    }

    /// The address of one server.
    pub fn url_of(&self, member: usize, role: &str) -> String {
        format!("postgres://{role}@{}/postgres", self.members[member].host())
    }

    /// Runs a statement on one server.
    pub fn psql_of(&self, member: usize, sql: &str) -> Result<String, String> {
        psql(Version::Debian, &self.url_of(member, "postgres"), sql)
    }

    /// The primary, as those members see it that are not frozen; `None` while there is none.
    pub fn primary(&self) -> Option<usize> {
        let has_role = |member: &Value| member["role"] == "leader" && member["state"] == "running";
        let cluster = self.cluster()?;
        let leader = cluster["members"].as_array()?.iter().find(|member| has_role(member))?;
        self.members
            .iter()
            .position(|member| leader["name"] == member.name.as_str())
    }

    /// Waits until there is a primary, and a standby that its commits wait for.
    pub fn wait_for_sync_standby(&self) {
        self.wait_for("sync_standby");
    }

    /// Waits until there is a primary, and a standby that follows it.
    pub fn wait_for_replica(&self) {
        self.wait_for("replica");
    }

    /// Waits until there is a primary, and as well a server in a role.
    fn wait_for(&self, role: &str) {
        eventually_within(&format!("a primary and a {role}"), PATIENCE, || {
            let cluster = self.cluster().unwrap_or_default();
            let members = cluster["members"].as_array().cloned().unwrap_or_default();
            let streams = |member: &Value| member["role"] == role && member["state"] == "streaming";
            self.primary().is_some() && members.iter().any(streams)
        });
    }

    /// kill -9 of the primary and its children; Patroni notices it. Says which it was.
    pub fn kill_primary(&self) -> usize {
        let (primary, postmaster) = self.running_primary();
        kill_family(postmaster);
        primary
    }

    /// The primary and its process. On a busy machine there may be none for a moment, or nobody says so in time.
    fn running_primary(&self) -> (usize, u32) {
        let mut found = None;
        eventually_within("a primary that runs", PATIENCE, || {
            found = self
                .primary()
                .and_then(|primary| Some((primary, self.members[primary].postmaster()?)));
            found.is_some()
        });
        found.expect("it was waited for")
    }

    /// Stops what sends the primary's log to its standbys, as where the network to them is cut.
    pub fn cut_standbys_off(&self) {
        let (_, postmaster) = self.running_primary();
        let is_sender = |pid: &u32| {
            let title = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            title.contains("walsender")
        };
        let senders: Vec<_> = family(postmaster).into_iter().filter(is_sender).collect();
        assert!(!senders.is_empty(), "it has a standby");
        senders.into_iter().for_each(|pid| signal(pid, Signal::STOP));
    }

    /// Stops the Patroni of a member; its server goes on. The others take it for dead after 20 s.
    pub fn freeze(&mut self, member: usize) {
        let member = &mut self.members[member];
        signal(member.daemon.pid(), Signal::STOP);
        member.is_frozen = true;
    }

    pub fn thaw(&mut self, member: usize) {
        let member = &mut self.members[member];
        signal(member.daemon.pid(), Signal::CONT);
        member.is_frozen = false;
    }

    /// What a member says of all of them.
    fn cluster(&self) -> Option<Value> {
        self.members
            .iter()
            .filter(|member| !member.is_frozen)
            .find_map(|member| {
                let answer = member.ask("/cluster").ok()?;
                serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
            })
    }
}

impl Drop for Patroni {
    fn drop(&mut self) {
        // A Patroni that runs would start its server again.
        for member in &mut self.members {
            member.daemon.kill();
        }
        for member in &self.members {
            if let Some(postmaster) = member.postmaster() {
                kill_family(postmaster);
            }
            remove_shared_memory(&member.data);
        }
    }
}

impl Member {
    fn start(folder: &Path, name: &str, ports: Ports, etcd: u16, replication: Replication) -> Self {
        let file = folder.join(format!("{name}.yml"));
        let settings = config::member(folder, name, ports, etcd, replication);
        fs::write(&file, settings.to_string()).unwrap();
        let mut command = unprivileged(tool(".patroni/bin/patroni"));
        command.arg(file).env("HOME", folder);
        Self {
            name: name.to_owned(),
            ports,
            data: folder.join(name),
            daemon: Daemon::start("patroni", command, &folder.join(format!("{name}.log"))),
            is_frozen: false,
        }
    }

    /// Patroni says where its answer ends by closing the connection.
    fn ask(&self, target: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.ports.rest))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(format!("GET {target} HTTP/1.0\r\n\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    fn host(&self) -> String {
        format!("127.0.0.1:{}", self.ports.postgres)
    }

    /// The server's process. It is no child of its Patroni's, so its folder says whether it is the one.
    fn postmaster(&self) -> Option<u32> {
        let file = fs::read_to_string(self.data.join("postmaster.pid")).ok()?;
        let pid = file.lines().next()?.parse().ok()?;
        let folder = fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
        (folder == self.data).then_some(pid)
    }
}
