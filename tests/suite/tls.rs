//! TLS: what curl and openssl meet, what a renewal does, and what does not speak it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::certificate::{CERTIFICATE, Certificate, KEY, flags};
use crate::support::http::Client;
use crate::support::instance::question;
use crate::support::server::countersign;
use crate::support::{Instance, License, Server, eventually};

fn serve(instance: &Instance, more: &[&str]) -> Server {
    let tls = flags(instance);
    let all: Vec<&str> = tls.iter().map(String::as_str).chain(more.iter().copied()).collect();
    Server::start_with(instance, &all)
}

/// What curl prints, where it trusts the instance's certificate.
fn curl(server: &Server, instance: &Instance, path: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "20", "--cacert"])
        .arg(instance.file(CERTIFICATE))
        .args(arguments)
        .arg(format!("https://{}{path}", server.address))
        .output()
        .expect("curl is installed: make tools");
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

/// The name in the certificate a new connection is shown.
fn shown(server: &Server) -> String {
    let output = Command::new("openssl")
        .args(["s_client", "-connect", &server.address.to_string()])
        .stdin(Stdio::null())
        .output()
        .expect("openssl is installed: make tools");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let subject = text.lines().find_map(|line| line.strip_prefix("subject="));
    subject.unwrap_or_else(|| panic!("no certificate: {text}")).replace("CN = ", "").replace("CN=", "")
}

#[test]
fn a_site_validates_over_tls_1_2_and_1_3_in_http_1_1() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    Certificate::new("first", 30).install(&instance);
    let server = serve(&instance, &[]);
    let body = question(&license, "a.com").to_string();
    for version in ["1.2", "1.3"] {
        let exactly = [&format!("--tlsv{version}"), "--tls-max", version, "--http2"];
        let form = ["--json", &body, "--write-out", "\n%{http_version} %{ssl_verify_result}"];
        let answer = curl(&server, &instance, "/api/v1/validate-license", &[&exactly[..], &form].concat()).unwrap();
        let (statement, facts) = answer.rsplit_once('\n').unwrap();
        assert!(statement.contains("\"code\":\"ok\"") && statement.contains("\"signature\":"), "{statement}");
        assert_eq!(facts, "1.1 0", "TLS {version}");
    }
    assert!(curl(&server, &instance, "/", &["--tls-max", "1.1", "--ciphers", "DEFAULT@SECLEVEL=0"]).is_err());
}

#[test]
fn a_renewed_certificate_is_shown_within_two_seconds_and_its_end_is_a_metric() {
    let instance = Instance::new();
    Certificate::new("first", 30).install(&instance);
    let server = serve(&instance, &[]);
    assert_eq!(shown(&server), "first");
    let ends = || server.metric("countersign_tls_certificate_expiry_timestamp_seconds").unwrap();
    let before = ends();
    Certificate::new("second", 60).install(&instance);
    eventually("the renewed certificate", Duration::from_secs(2), || shown(&server) == "second");
    // The two were made some seconds apart.
    let later = ends() - before - 30.0 * 86_400.0;
    assert!((0.0..60.0).contains(&later), "{later}");
    assert!(curl(&server, &instance, "/", &[]).unwrap().contains("hello"));
}

#[test]
fn a_broken_certificate_or_key_keeps_the_one_in_force_and_shows_on_readyz() {
    let instance = Instance::new();
    let good = Certificate::new("good", 30);
    good.install(&instance);
    let server = serve(&instance, &[]);
    let stale = |detail: &str| {
        let part = || server.part("tls");
        eventually(detail, Duration::from_secs(3), || {
            part()["state"] == "stale" && part()["detail"].as_str().unwrap().contains(detail)
        });
        assert_eq!(shown(&server), "good");
        assert!(server.metric("countersign_part_state{part=\"tls\",state=\"stale\"}") == Some(1.0));
    };
    instance.write(CERTIFICATE, "-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----\n");
    stale("tls/fullchain.pem: not a certificate chain in PEM");
    instance.write(CERTIFICATE, &Certificate::new("another", 30).chain);
    stale("tls/privkey.pem: not the key of the certificate in");
    instance.write(CERTIFICATE, &good.chain);
    fs::set_permissions(instance.file(KEY), fs::Permissions::from_mode(0o640)).unwrap();
    stale("others can read the certificate's key (mode 0640)");
    fs::remove_file(instance.file(KEY)).unwrap();
    stale("the certificate's key cannot be read");
    good.install(&instance);
    eventually("mended", Duration::from_secs(3), || server.part("tls")["state"] == "ok");
    assert!(server.metric("countersign_reloads_total{part=\"tls\",result=\"failed\"}").unwrap() >= 4.0);
}

#[test]
fn whoever_speaks_in_the_clear_is_told_so() {
    let instance = Instance::new();
    Certificate::new("first", 30).install(&instance);
    let server = serve(&instance, &[]);
    let mut client = Client::connect(server.address);
    let response = client.request("GET", "/index.html", &[], b"");
    assert_eq!((response.status, response.code().as_str()), (400, "malformed_request"));
    assert_eq!(response.json()["detail"], "This port speaks TLS: ask it with https://.");
    assert_eq!(response.header("connection"), Some("close"));
    assert!(client.receive().is_err(), "closed");
}

#[test]
fn a_client_that_is_silent_in_the_handshake_is_closed_while_others_are_answered() {
    let instance = Instance::new();
    Certificate::new("first", 30).install(&instance);
    let server = serve(&instance, &["--tls-handshake-timeout-seconds", "1"]);
    let mut silent = Client::connect(server.address);
    let mut halfway = Client::connect(server.address);
    // A record of 512 bytes that belongs to the handshake, and one byte of it.
    halfway.send(&[22, 3, 1, 2, 0, 1]).unwrap();
    let started = Instant::now();
    assert!(curl(&server, &instance, "/", &[]).is_ok());
    assert!(silent.receive().is_err() && halfway.receive().is_err());
    assert!(started.elapsed() < Duration::from_secs(10));
    eventually("both are counted", Duration::from_secs(5), || {
        server.metric("countersign_connections_timed_out_total{reason=\"handshake\"}") == Some(2.0)
    });
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
        let text =
            String::from_utf8(output.stderr).unwrap().replace(&instance.path().display().to_string(), "INSTANCE");
        assert_eq!(text.lines().count(), 2, "one line and a hint: {text}");
        (output.status.code(), text)
    };
    let tls = flags(&instance);
    assert_eq!(
        refused(&tls[..2]),
        (
            Some(3),
            "error: tls_certificate is set and tls_key is not\nhint: set both for TLS, or neither behind a proxy that has it\n"
                .to_owned()
        )
    );
    let (status, text) = refused(&tls);
    assert_eq!(status, Some(4));
    assert!(text.starts_with("error: INSTANCE/tls/fullchain.pem: the certificate cannot be read"), "{text}");
    good.install(&instance);
    fs::set_permissions(instance.file(KEY), fs::Permissions::from_mode(0o644)).unwrap();
    let exposed = "error: INSTANCE/tls/privkey.pem: others can read the certificate's key (mode 0644)\nhint: chmod 600 INSTANCE/tls/privkey.pem\n";
    assert_eq!(refused(&tls), (Some(3), exposed.to_owned()));
    instance.write_secret(KEY, &Certificate::new("another", 30).key);
    let (_, text) = refused(&tls);
    assert!(text.starts_with("error: INSTANCE/tls/privkey.pem: not the key of the certificate in"), "{text}");
    instance.write_secret(KEY, &good.chain);
    let (_, text) = refused(&tls);
    assert!(text.starts_with("error: INSTANCE/tls/privkey.pem: not a private key in PEM"), "{text}");
    instance.write(CERTIFICATE, &good.key);
    let (_, text) = refused(&tls);
    assert!(text.starts_with("error: INSTANCE/tls/fullchain.pem: not a certificate chain in PEM"), "{text}");
}

#[test]
fn doctor_looks_at_the_certificate_the_file_names() {
    let instance = Instance::new();
    instance.write("countersign.toml", &format!("[serve]\ntls_certificate = \"{CERTIFICATE}\"\ntls_key = \"{KEY}\"\n"));
    let finding = || {
        let output = countersign(&instance).args(["doctor", "--json"]).output().unwrap();
        let findings: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
        let finding = findings.into_iter().find(|finding| finding["part"] == "tls").unwrap();
        (finding["verdict"].as_str().unwrap().to_owned(), finding["finding"].as_str().unwrap().to_owned())
    };
    let (verdict, text) = finding();
    assert!(verdict == "broken" && text.contains("the certificate cannot be read"), "{text}");
    for (days, expected) in [(30, "ok"), (7, "warning")] {
        Certificate::new("any", days).install(&instance);
        let (verdict, text) = finding();
        assert!(verdict == expected && text.starts_with("the certificate ends on 2"), "{verdict}: {text}");
    }
}
