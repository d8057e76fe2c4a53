//! TLS between a node and the database: a certificate of the vendor's own, and everything that must not be trusted.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::database::prepared_cluster;
use super::node::{code, instance, refusal, start};
use crate::support::License;
use crate::tools::daemon::{give, run};
use crate::tools::postgres::Cluster;

/// Certificates, each in a file.
struct Authority {
    folder: TempDir,
}

impl Authority {
    /// A certificate that signs others.
    fn new() -> Self {
        let authority = Self {
            folder: TempDir::new().unwrap(),
        };
        authority.openssl("req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=Acme -keyout ca.key -out ca.pem");
        authority
    }

    fn openssl(&self, arguments: &str) {
        run(Command::new("openssl")
            .args(arguments.split(' '))
            .current_dir(self.folder.path()));
    }

    /// Has the server show a certificate for this name from now on.
    fn certify(&self, cluster: &Cluster, name: &str) {
        fs::write(self.folder.path().join("names"), format!("subjectAltName={name}")).unwrap();
        self.openssl("req -newkey rsa:2048 -nodes -subj /CN=db -keyout server.key -out server.csr");
        self.openssl(
            "x509 -req -days 2 -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile names -out server.crt",
        );
        for file in ["server.key", "server.crt"] {
            let to = cluster.data().join(file);
            fs::copy(self.folder.path().join(file), &to).unwrap();
            fs::set_permissions(&to, Permissions::from_mode(0o600)).unwrap();
            give(&to);
        }
        let rules = "local all all trust\nhostssl all all 127.0.0.1/32 trust\n";
        fs::write(cluster.data().join("pg_hba.conf"), rules).unwrap();
        cluster.psql("ALTER SYSTEM SET ssl = on");
        cluster.psql("SELECT pg_reload_conf()");
    }

    /// The parameters of an address that trusts this file of certificates.
    fn parameters(&self, file: &str) -> String {
        format!("sslmode=verify-full&sslrootcert={}", self.path(file).display())
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }
}

fn address(cluster: &Cluster, parameters: &str) -> String {
    format!("{}?{parameters}", cluster.url("node"))
}

#[test]
fn a_node_trusts_the_named_certificates_and_no_others() {
    let cluster = prepared_cluster();
    let own = Authority::new();
    let strange = Authority::new();
    let license = License::new();
    let node = instance(&[&license]);
    own.certify(&cluster, "IP:127.0.0.1");

    let running = start(&node, &address(&cluster, &own.parameters("ca.pem")));
    assert_eq!(code(&running.validate(&license, "https://a.example")), "ok");
    let encrypted = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'node'";
    assert_eq!(cluster.psql(encrypted), "t");
    assert!(running.stop().success());

    fs::write(own.path("empty.pem"), "no certificate\n").unwrap();
    for (parameters, told) in [
        (strange.parameters("ca.pem"), "invalid peer certificate"),
        (
            "sslmode=verify-full".to_owned(),
            "invalid peer certificate: UnknownIssuer",
        ),
        ("sslmode=disable".to_owned(), "no encryption"),
        (own.parameters("missing.pem"), "missing.pem: No such file"),
        (own.parameters("empty.pem"), "empty.pem: has no certificate"),
        (own.parameters("server.key"), "server.key: has no certificate"),
    ] {
        let said = refusal(&node, &address(&cluster, &parameters), 4);
        assert!(said.contains(told), "{parameters}: {said}");
        assert!(
            said.contains("hint: ") && said.contains("sslrootcert"),
            "{parameters}: {said}"
        );
    }
    own.certify(&cluster, "DNS:db.example");
    let said = refusal(&node, &address(&cluster, &own.parameters("ca.pem")), 4);
    assert!(said.contains("certificate not valid for name \"127.0.0.1\""), "{said}");
}
