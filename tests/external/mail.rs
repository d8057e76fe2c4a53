//! Mails to a real mail server, and read by Python's own library.

mod queue;
pub mod reminders;
mod sales;
mod site_claims;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Output;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::Instance;
use crate::support::server::countersign;
use crate::tools::smtp::{MailServer, PASSWORD, USER, header};

/// An instance whose mails go to this port.
fn instance(port: u16, more: &str) -> Instance {
    let instance = Instance::new();
    settings(&instance, port, more);
    instance
}

fn settings(instance: &Instance, port: u16, more: &str) {
    instance.write(
        "countersign.toml",
        &format!(
            "[mail]\nserver = \"localhost\"\nport = {port}\nfrom = \"Acme Lizenzen für alle <licenses@acme.example>\"\n{more}\n"
        ),
    );
}

/// The settings of a server that asks for a login.
fn encrypted(server: &MailServer, tls: &str) -> String {
    format!(
        "tls = \"{tls}\"\ncertificates = \"{}\"\nuser = \"{USER}\"\npassword_file = \"keys/mail\"\n",
        server.authority()
    )
}

fn send_test(instance: &Instance, to: &str) -> Output {
    countersign(instance)
        .args(["mail", "send-test", to, "--json"])
        .output()
        .unwrap()
}

/// Exit code and the error.
fn refused(instance: &Instance, to: &str) -> (Option<i32>, String) {
    let output = send_test(instance, to);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!stderr.contains(PASSWORD), "{stderr}");
    let error: Value =
        serde_json::from_str(stderr.lines().last().unwrap_or_else(|| panic!("no error: {stderr}"))).unwrap();
    assert!(error["hint"].is_string(), "{error}");
    (output.status.code(), error["error"].as_str().unwrap().to_owned())
}

#[track_caller]
fn taken(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_mail_arrives_as_text_and_html_that_another_library_reads_without_a_defect() {
    let server = MailServer::start("none");
    let instance = instance(
        server.port,
        "tls = \"none\"\nreply_to = \"Hilfe <help@acme.example>\"\n",
    );
    instance.write(
        "registry/mail/license.txt",
        "Subject: Ihr Schlüssel für {{ license.plugins[0] }}\n\nGrüße\n.\n.. zwei Punkte\nFrom here\n{{ license.key }}\n",
    );
    instance.write(
        "registry/mail/license.html",
        &format!(
            "<p>Grüße & <b>{{{{ license.key }}}}</b></p><p>{}</p>\n",
            "ü".repeat(2_000)
        ),
    );
    taken(&send_test(&instance, "anna.o'neil@example.com"));
    taken(&send_test(&instance, "jürgen@exämple.example"));
    let mails = server.mails();
    assert_eq!(mails.len(), 2);
    let mail = &mails[0];
    assert_eq!(mail["defects"].as_array().unwrap().len(), 0, "{mail:#}");
    assert_eq!(
        (&mail["ascii"], &mail["bare_line_ends"]),
        (&true.into(), &0.into()),
        "{mail:#}"
    );
    assert!(mail["longest_line"].as_u64().unwrap() <= 998, "{mail:#}");
    assert_eq!(mail["kind"], "multipart/alternative");
    assert_eq!(mail["parts"], serde_json::json!(["text/plain", "text/html"]));
    assert_eq!(mail["sender"], "licenses@acme.example");
    assert_eq!(mail["recipients"], serde_json::json!(["anna.o'neil@example.com"]));
    assert_eq!(header(mail, "From"), "Acme Lizenzen für alle <licenses@acme.example>");
    assert_eq!(header(mail, "Reply-To"), "Hilfe <help@acme.example>");
    assert_eq!(header(mail, "To"), "anna.o'neil@example.com");
    let subject = header(mail, "Subject");
    assert!(subject.starts_with("[Test] Ihr Schlüssel für acme-"), "{subject}");
    assert_eq!(header(mail, "Auto-Submitted"), "auto-generated");
    assert!(header(mail, "Message-ID").ends_with("@acme.example>"));
    let text = mail["text"].as_str().unwrap().replace("\r\n", "\n");
    assert!(text.starts_with("Grüße\n.\n.. zwei Punkte\nFrom here\n"), "{text}");
    let key = text.trim_end().lines().last().unwrap();
    assert_eq!(key.len(), 29);
    let html = mail["html"].as_str().unwrap();
    assert!(
        html.contains(&format!("<b>{key}</b>")) && html.contains(&"ü".repeat(2_000)),
        "{html}"
    );
    assert_ne!(header(mail, "Message-ID"), header(&mails[1], "Message-ID"));
    assert_eq!(mails[1]["recipients"], serde_json::json!(["jürgen@exämple.example"]));

    // What the preview prints is the same mail.
    let raw = countersign(&instance)
        .args(["mail", "preview", "--raw"])
        .output()
        .unwrap();
    let raw = String::from_utf8(raw.stdout).unwrap();
    assert!(
        raw.contains("To: buyer@example.com\r\n") && raw.contains("multipart/alternative"),
        "{raw}"
    );
}

#[test]
fn with_encryption_and_login_nothing_is_said_before_the_certificate_is_known() {
    for tls in ["starttls", "tls"] {
        let server = MailServer::start(tls);
        let instance = instance(server.port, &encrypted(&server, tls));
        instance.write_secret("keys/mail", &format!("{PASSWORD}\n"));
        taken(&send_test(&instance, "anna@example.com"));
        let mail = &server.mails()[0];
        assert_eq!((&mail["tls"], &mail["login"]), (&true.into(), &true.into()), "{tls}");

        instance.write_secret("keys/mail", "wrong\n");
        let (exit, error) = refused(&instance, "anna@example.com");
        assert_eq!(exit, Some(3));
        assert!(
            error.starts_with("the mail server refused the login with 535"),
            "{error}"
        );
        instance.write_secret("keys/mail", PASSWORD);

        // A certificate that nobody trusts, and one of another name.
        settings(
            &instance,
            server.port,
            &encrypted(&server, tls).replace("certificates = ", "#certificates = "),
        );
        let (_, error) = refused(&instance, "anna@example.com");
        assert!(error.contains("UnknownIssuer"), "{error}");
        let other = MailServer::start_as(tls, "elsewhere.example");
        settings(&instance, other.port, &encrypted(&other, tls));
        let (_, error) = refused(&instance, "anna@example.com");
        assert!(error.contains("not valid for name"), "{error}");
        assert_eq!((server.mails().len(), other.mails().len()), (1, 0));
    }
}

#[test]
fn a_server_without_starttls_gets_neither_the_password_nor_a_mail() {
    let server = MailServer::start("none");
    let instance = instance(
        server.port,
        "tls = \"starttls\"\nuser = \"acme\"\npassword_file = \"keys/mail\"\n",
    );
    instance.write_secret("keys/mail", PASSWORD);
    let (exit, error) = refused(&instance, "anna@example.com");
    assert_eq!((exit, error.as_str()), (Some(3), "the mail server offers no STARTTLS"));
    assert_eq!(server.mails().len(), 0);
}

#[test]
fn what_a_server_answers_is_told_with_its_words_and_without_the_key() {
    let server = MailServer::start("none");
    let instance = instance(server.port, "tls = \"none\"\ntimeout_seconds = 10\n");
    for (to, exit, told) in [
        (
            "unknown@example.com",
            3,
            "the mail server refused the buyer's address with 550: ",
        ),
        (
            "grey-1@example.com",
            3,
            "the mail server refused the buyer's address with 451: ",
        ),
        (
            "spam@example.com",
            3,
            "the mail server refused the mail with 554: 5.7.1 looks like spam: ",
        ),
        (
            "cut@example.com",
            4,
            "the connection to the mail server broke: the mail: ",
        ),
        (
            "silent@example.com",
            4,
            "the mail server did not answer within 10 s: the buyer's address",
        ),
    ] {
        let (code, error) = refused(&instance, to);
        assert_eq!(code, Some(exit), "{to}: {error}");
        assert!(error.starts_with(told), "{to}: {error}");
        assert!(!to.starts_with("spam") || error.contains("[license key]"), "{error}");
    }
    server.behave("unknown");
    assert_eq!(refused(&instance, "anna@example.com").0, Some(3));
    assert_eq!(server.mails().len(), 0);
    server.behave("");
    taken(&send_test(&instance, "anna@example.com"));
    drop(server);
    let (exit, error) = refused(&instance, "anna@example.com");
    assert!(exit == Some(4) && error.contains("Connection refused"), "{error}");
}

/// A server that says these lines, one for each that it hears, and then `end`s with the connection.
fn odd_server(lines: &'static [&'static str], end: impl FnOnce(TcpStream) + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut heard = [0; 1024];
        for (number, line) in lines.iter().enumerate() {
            if number > 0 {
                let _ = stream.read(&mut heard);
            }
            let _ = stream.write_all(line.as_bytes());
        }
        end(stream);
    });
    port
}

#[test]
fn servers_that_say_nothing_too_much_or_something_else_cost_a_bounded_time_and_memory() {
    let wait = |mut stream: TcpStream| drop(stream.read_to_end(&mut Vec::new()));
    let flood = |mut stream: TcpStream| while stream.write_all(&[b'x'; 65_536]).is_ok() {};
    let nothing: &[&str] = &[];
    for (tls, port) in [
        ("none", odd_server(nothing, wait)),
        ("starttls", odd_server(nothing, wait)),
        ("tls", odd_server(nothing, wait)),
        ("none", odd_server(nothing, flood)),
        ("starttls", odd_server(nothing, flood)),
        ("tls", odd_server(nothing, flood)),
        (
            "none",
            odd_server(&["220 a\r\n", "250-a\r\n250-   \r\n250 b\r\n"], wait),
        ),
        ("none", odd_server(&["HTTP/1.1 400 Bad Request\r\n\r\n"], wait)),
        ("starttls", odd_server(&["HTTP/1.1 400 Bad Request\r\n\r\n"], wait)),
        ("none", odd_server(&["220 a\r\n", "\u{e9}\r\n"], drop)),
        ("starttls", odd_server(&["220 a\r\n"], drop)),
        // Words in plain text behind the answer to STARTTLS: they must not count as said in TLS.
        (
            "starttls",
            odd_server(
                &["220 a\r\n", "250-a\r\n250 STARTTLS\r\n", "220 go\r\n250 b\r\n250 c\r\n"],
                wait,
            ),
        ),
    ] {
        let instance = instance(port, &format!("tls = \"{tls}\"\ntimeout_seconds = 1\n"));
        let started = Instant::now();
        let (exit, error) = refused(&instance, "anna@example.com");
        assert!(matches!(exit, Some(3 | 4)), "{tls}: {error}");
        assert!(started.elapsed() < Duration::from_secs(10), "{tls}: {error}");
        assert!(!error.contains("panicked"), "{error}");
    }
}
