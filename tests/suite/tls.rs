//! TLS: clients that do not speak it, and invalid certificates. `tests/external/tls.rs` has other clients.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::Instance;
use crate::support::certificate::{CERTIFICATE, Certificate, KEY, flags, serve};
use crate::support::http::Client;
use crate::support::server::countersign;

#[test]
fn whoever_speaks_in_the_clear_gets_a_hint() {
    let instance = Instance::new();
    Certificate::new("first", 30).install(&instance);
    let server = serve(&instance, &[]);
    let mut client = Client::connect(server.address);
    let response = client.request("GET", "/index.html", &[], b"");
    assert_eq!((response.status, response.code().as_str()), (400, "malformed_request"));
    assert_eq!(response.json()["detail"], "This port speaks TLS: use https://.");
    assert_eq!(response.header("connection"), Some("close"));
    assert!(client.receive().is_err(), "closed");
}

#[test]
fn without_a_usable_certificate_there_is_no_server() {
    let instance = Instance::new();
    let good = Certificate::new("good", 30);
    let refused = |flags: &[String]| {
        let output = countersign(&instance)
            .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "off"])
            .args(flags)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stderr)
            .unwrap()
            .replace(&instance.path().display().to_string(), "INSTANCE");
        assert_eq!(text.lines().count(), 2, "one line and a hint: {text}");
        (output.status.code(), text)
    };
    let tls = flags(&instance);
    assert_eq!(
        refused(&tls[..2]),
        (
            Some(3),
            "error: tls_certificate is set, but tls_key is not\nhint: set both for TLS, or neither behind a proxy that speaks TLS\n"
                .to_owned()
        )
    );
    let (status, text) = refused(&tls);
    assert_eq!(status, Some(4));
    assert!(
        text.starts_with("error: INSTANCE/tls/fullchain.pem: the certificate cannot be read"),
        "{text}"
    );
    good.install(&instance);
    fs::set_permissions(instance.file(KEY), fs::Permissions::from_mode(0o644)).unwrap();
    let exposed = "error: INSTANCE/tls/privkey.pem: others can read the certificate's key (mode 0644)\nhint: chmod 600 INSTANCE/tls/privkey.pem; or chmod 640 INSTANCE/tls/privkey.pem, if its group is one of the server's\n";
    assert_eq!(refused(&tls), (Some(3), exposed.to_owned()));
    instance.write_secret(KEY, &Certificate::new("another", 30).key);
    let (_, text) = refused(&tls);
    assert!(
        text.starts_with("error: INSTANCE/tls/privkey.pem: not the key of the certificate in"),
        "{text}"
    );
    instance.write_secret(KEY, &good.chain);
    let (_, text) = refused(&tls);
    assert!(
        text.starts_with("error: INSTANCE/tls/privkey.pem: not a private key in PEM"),
        "{text}"
    );
    instance.write(CERTIFICATE, &good.key);
    let (_, text) = refused(&tls);
    assert!(
        text.starts_with("error: INSTANCE/tls/fullchain.pem: not a certificate chain in PEM"),
        "{text}"
    );
}

#[test]
fn doctor_looks_at_the_certificate_the_file_names() {
    let instance = Instance::new();
    instance.write(
        "countersign.toml",
        &format!("[serve]\ntls_certificate = \"{CERTIFICATE}\"\ntls_key = \"{KEY}\"\n"),
    );
    let finding = || {
        let output = countersign(&instance).args(["doctor", "--json"]).output().unwrap();
        let findings: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
        let finding = findings.into_iter().find(|finding| finding["part"] == "tls").unwrap();
        (
            finding["verdict"].as_str().unwrap().to_owned(),
            finding["finding"].as_str().unwrap().to_owned(),
        )
    };
    let (verdict, text) = finding();
    assert!(
        verdict == "broken" && text.contains("the certificate cannot be read"),
        "{text}"
    );
    for (days, expected) in [(30, "ok"), (7, "warning")] {
        Certificate::new("any", days).install(&instance);
        let (verdict, text) = finding();
        assert!(
            verdict == expected && text.starts_with("the certificate ends on 2"),
            "{verdict}: {text}"
        );
    }
}
