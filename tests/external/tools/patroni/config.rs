//! The configuration of etcd and the members. Patroni reads YAML, and JSON is YAML.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::tools::daemon::{tool, unprivileged};
use crate::tools::postgres::Version;

/// Which commits are answered.
#[derive(Clone, Copy, PartialEq)]
pub enum Replication {
    /// Those that a standby has on disk, and no others: without a standby, nothing is written.
    Strict,
    /// All, at once. A failover loses some.
    Asynchronous,
}

/// The ports of a member.
#[derive(Clone, Copy)]
pub struct Ports {
    pub postgres: u16,
    pub rest: u16,
}

pub fn etcd(folder: &Path, client: u16, peer: u16) -> Command {
    let client = format!("http://127.0.0.1:{client}");
    let peer = format!("http://127.0.0.1:{peer}");
    let mut command = unprivileged(tool(".databases/usr/bin/etcd"));
    command.args(["--name", "e", "--initial-cluster", &format!("e={peer}")]);
    command.arg("--data-dir").arg(folder.join("etcd"));
    command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
    command.arg("--unsafe-no-fsync=true");
    command
}

/// A member that takes another for dead after 20 s.
pub fn member(folder: &Path, name: &str, ports: Ports, etcd: u16, replication: Replication) -> Value {
    let address = |port: u16| format!("127.0.0.1:{port}");
    let is_strict = replication == Replication::Strict;
    let role = |name: &str| json!({ "username": name, "password": name });
    json!({
        "scope": "cs",
        "name": name,
        "etcd3": { "host": address(etcd) },
        "restapi": { "listen": address(ports.rest), "connect_address": address(ports.rest) },
        "bootstrap": {
            "dcs": {
                "ttl": 20,
                "loop_wait": 5,
                "retry_timeout": 5,
                "primary_start_timeout": 0,
                "synchronous_mode": is_strict,
                "synchronous_mode_strict": is_strict,
                "postgresql": {
                    "use_pg_rewind": true,
                    "use_slots": true,
                    "parameters": {
                        "wal_log_hints": "on",
                        "synchronous_commit": "on",
                        "max_connections": 100,
                        "shared_buffers": "32MB",
                        "dynamic_shared_memory_type": "mmap",
                    },
                },
            },
            "initdb": [{ "encoding": "UTF8" }, { "locale": "C" }, "data-checksums"],
        },
        "postgresql": {
            "listen": address(ports.postgres),
            "connect_address": address(ports.postgres),
            "data_dir": folder.join(name),
            "bin_dir": Version::Debian.programs(),
            "pgpass": folder.join(format!("{name}.pgpass")),
            "pg_hba": [
                "local all all trust",
                "host all all 127.0.0.1/32 trust",
                "host replication all 127.0.0.1/32 trust",
            ],
            "authentication": {
                "superuser": role("postgres"),
                "replication": role("replicator"),
                "rewind": role("rewinder"),
            },
            "parameters": { "unix_socket_directories": folder },
        },
        "watchdog": { "mode": "off" },
    })
}
