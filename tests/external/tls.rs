//! TLS with curl and openssl: handshakes, certificate renewal, and clients that are silent during the handshake.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::certificate::{CERTIFICATE, Certificate, KEY, serve};
use crate::support::http::Client;
use crate::support::instance::question;
use crate::support::{Instance, License, Server, eventually, eventually_within};

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
    if output.status.success() {
        Ok(text(output.stdout))
    } else {
        Err(text(output.stderr))
    }
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
    subject
        .unwrap_or_else(|| panic!("no certificate: {text}"))
        .replace("CN = ", "")
        .replace("CN=", "")
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
        let answer = curl(
            &server,
            &instance,
            "/api/v1/validate-license",
            &[&exactly[..], &form].concat(),
        )
        .unwrap();
        let (statement, facts) = answer.rsplit_once('\n').unwrap();
        assert!(
            statement.contains("\"code\":\"ok\"") && statement.contains("\"signature\":"),
            "{statement}"
        );
        assert_eq!(facts, "1.1 0", "TLS {version}");
    }
    assert!(
        curl(
            &server,
            &instance,
            "/",
            &["--tls-max", "1.1", "--ciphers", "DEFAULT@SECLEVEL=0"]
        )
        .is_err()
    );
}

#[test]
fn a_renewed_certificate_is_shown_before_the_poll_and_its_end_is_a_metric() {
    let instance = Instance::new();
    Certificate::new("first", 30).install(&instance);
    let server = serve(&instance, &[]);
    assert_eq!(shown(&server), "first");
    let ends = || {
        server
            .metric("countersign_tls_certificate_expiry_timestamp_seconds")
            .unwrap()
    };
    let before = ends();
    Certificate::new("second", 60).install(&instance);
    // The poll would find it after 30 seconds.
    eventually_within("the renewed certificate", Duration::from_secs(20), || {
        shown(&server) == "second"
    });
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
        eventually(detail, || {
            part()["state"] == "stale" && part()["detail"].as_str().unwrap().contains(detail)
        });
        assert_eq!(shown(&server), "good");
        assert!(server.metric("countersign_part_state{part=\"tls\",state=\"stale\"}") == Some(1.0));
    };
    instance.write(
        CERTIFICATE,
        "-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----\n",
    );
    stale("tls/fullchain.pem: not a certificate chain in PEM");
    instance.write(CERTIFICATE, &Certificate::new("another", 30).chain);
    stale("tls/privkey.pem: not the key of the certificate in");
    instance.write(CERTIFICATE, &good.chain);
    fs::set_permissions(instance.file(KEY), fs::Permissions::from_mode(0o644)).unwrap();
    stale("others can read the certificate's key (mode 0644)");
    fs::remove_file(instance.file(KEY)).unwrap();
    stale("the certificate's key cannot be read");
    good.install(&instance);
    eventually("mended", || server.part("tls")["state"] == "ok");
    assert!(
        server
            .metric("countersign_reloads_total{part=\"tls\",result=\"failed\"}")
            .unwrap()
            >= 4.0
    );
}

#[test]
fn a_client_that_is_silent_in_the_handshake_is_closed_while_others_are_answered() {
    let instance = Instance::new();
    Certificate::new("first", 30).install(&instance);
    let server = serve(&instance, &["--tls-handshake-timeout-seconds", "5"]);
    let mut silent = Client::connect(server.address);
    let mut halfway = Client::connect(server.address);
    // A record of 512 bytes that belongs to the handshake, and one byte of it.
    halfway.send(&[22, 3, 1, 2, 0, 1]).unwrap();
    let started = Instant::now();
    assert!(curl(&server, &instance, "/", &[]).is_ok());
    assert!(silent.receive().is_err() && halfway.receive().is_err());
    assert!(started.elapsed() < Duration::from_secs(30));
    eventually("both are counted", || {
        server.metric("countersign_connections_timed_out_total{reason=\"handshake\"}") == Some(2.0)
    });
}
