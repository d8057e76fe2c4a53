//! The queue of mails of a running server: what it sends, and what becomes of mails that are not taken.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use chrono::{NaiveDate, Utc};
use countersign_ledger::{ChangeBasis, ChangeOutcome, LedgerChange};
use countersign_mail::queue::{Enqueued, MailQueue};
use countersign_model::issuing_key::IssueRequest;
use countersign_model::license::{Details, License as ModelLicense, LicenseStatus, SiteLimit};
use countersign_model::license_key::{LicenseId, LicenseKey};
use countersign_model::offer::SalesMode;
use countersign_model::remarks::{Author, NewRemarks};
use countersign_settings::keys::license_secrets::LicenseSecrets;
use countersign_settings::keys::secret_keys::{SecretKey, SecretKeys};
use serde_json::Value;

use crate::support::http::request;
use crate::support::server::countersign;
use crate::support::stored::{files_in, files_with};
use crate::support::{Instance, Server, eventually, get};
use crate::tools::plain_package;
use crate::tools::smtp::{MailServer, PASSWORD, USER, header};

/// An instance with licenses of the ledger, whose keys nobody has yet.
struct Vendor {
    instance: Instance,
    licenses: Vec<(LicenseId, LicenseKey)>,
}

impl Vendor {
    fn new(mail: &MailServer, licenses: u32, tls: &str) -> Self {
        let instance = Instance::new();
        instance.write_secret("keys/mail", PASSWORD);
        let login = match tls {
            "none" => String::new(),
            _ => format!(
                "certificates = \"{}\"\nuser = \"{USER}\"\npassword_file = \"keys/mail\"\n",
                mail.authority()
            ),
        };
        instance.write(
            "countersign.toml",
            &format!(
                "[mail]\nserver = \"localhost\"\nport = {}\nfrom = \"licenses@acme.example\"\ntls = \"{tls}\"\n\
                 timeout_seconds = 2\nretry_seconds = 1\n{login}",
                mail.port
            ),
        );
        for name in ["keys/issuing.key", "keys/references.key"] {
            let secret: String = std::iter::repeat_n(if name.contains("issuing") { 'i' } else { 'r' }, 32).collect();
            instance.write_secret(name, &secret);
        }
        let secrets = LicenseSecrets::new(
            load(&instance, "keys/issuing.key"),
            load(&instance, "keys/references.key"),
        );
        let store = countersign_ledger::open(&instance.file("store")).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let issue = |number: u32| {
            let scope = Arc::new("token:shop".parse().unwrap());
            let request = IssueRequest {
                scope: &scope,
                mode: SalesMode::Live,
                idempotency_key: &format!("order {number}"),
                body: b"{}",
            };
            let new = secrets.new_origin(&request).unwrap();
            let change = LedgerChange {
                remarks: NewRemarks::default(),
                author: Author::default(),
                license: ModelLicense {
                    id: new.key.id(),
                    status: LicenseStatus::Active,
                    expires: NaiveDate::from_ymd_opt(2099, 12, 31).unwrap(),
                    modules: Arc::new([("forms".parse().unwrap(), Vec::new())].into()),
                    sites: SiteLimit::Limited(NonZeroU32::new(3).unwrap()),
                    grace_period_hours: None,
                    details: Details::default(),
                    is_declared: false,
                },
                reference: None,
                scope,
                status_by: None,
                now: Utc::now(),
                basis: ChangeBasis::from(new.origin),
            };
            let outcome = runtime.block_on(store.change_license(change)).unwrap();
            assert!(matches!(outcome, ChangeOutcome::Recorded(_)), "{outcome:?}");
            (new.key.id(), new.key)
        };
        let licenses = (0..licenses).map(issue).collect();
        store.close().unwrap();
        Self { instance, licenses }
    }

    /// Puts a mail into the queue; a server may be running.
    fn enqueue(&self, address: &str, licenses: &[LicenseId], event: &str) -> Enqueued {
        let queue = MailQueue::open(&self.instance.file("store"), Utc::now()).unwrap();
        queue
            .enqueue(&address.parse().unwrap(), licenses, event, Utc::now())
            .unwrap()
    }

    fn queue(&self) -> Vec<Value> {
        let printed = self.command(&["mail", "parked", "list", "--all", "--json"]);
        serde_json::from_str(&printed).unwrap()
    }

    fn command(&self, arguments: &[&str]) -> String {
        let output = countersign(&self.instance).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

fn load<K: SecretKey>(instance: &Instance, name: &str) -> SecretKeys<K> {
    SecretKeys::load(&instance.file(name), &instance.file("keys/retired"))
        .unwrap()
        .0
}

fn mails_of(server: &Server, state: &str) -> f64 {
    server
        .metric(&format!("countersign_mails{{state=\"{state}\"}}"))
        .unwrap()
}

#[test]
fn a_key_of_the_ledger_reaches_its_buyer_and_nothing_else_has_it_or_the_address() {
    let mail = MailServer::start("starttls");
    let vendor = Vendor::new(&mail, 3, "starttls");
    let ids: Vec<_> = vendor.licenses.iter().map(|(id, _)| *id).collect();
    vendor.enqueue("anna.canary@example.com", &ids[..1], "evt_1");
    let server = Server::start(&vendor.instance);
    eventually("the mail from before the start", || mail.mails().len() == 1);
    vendor.enqueue("bert.canary@example.com", &ids[1..], "evt_2");
    // Quoted by the mail server, with the key.
    vendor.enqueue("spam-canary@example.com", &ids[..1], "evt_3");
    vendor.enqueue("unknown-canary@example.com", &ids[..1], "evt_4");
    vendor.enqueue("grey-canary@example.com", &ids[..1], "evt_5");
    eventually("three mails", || mail.mails().len() == 3);
    eventually("two are parked", || mails_of(&server, "parked") == 2.0);
    let mails = mail.mails();
    let to = |address: &str| mails.iter().find(|mail| mail["recipients"][0] == address).unwrap();
    let key = |number: usize| vendor.licenses[number].1.reveal();
    let anna = to("anna.canary@example.com")["text"].as_str().unwrap();
    assert!(
        anna.contains(key(0)) && anna.contains("Sites:       3") && anna.contains("2099-12-31"),
        "{anna}"
    );
    assert!(anna.contains("acme-forms") && !anna.contains(key(1)), "{anna}");
    let bert = to("bert.canary@example.com");
    assert!(bert["text"].as_str().unwrap().contains(key(1)) && bert["html"].as_str().unwrap().contains(key(2)));
    assert!(mails.iter().all(|mail| mail["tls"] == true && mail["login"] == true));

    let parked = vendor.queue();
    let reasons: Vec<_> = parked.iter().map(|mail| mail["reason"].as_str().unwrap()).collect();
    assert!(
        reasons.iter().any(|reason| reason.contains("no such user")),
        "{reasons:?}"
    );
    assert!(
        reasons.iter().any(|reason| reason.contains("[license key]")),
        "{reasons:?}"
    );
    eventually("all are counted", || {
        server.metric("countersign_mails_sent_total") == Some(3.0)
    });
    assert!(server.metric("countersign_mail_failures_total").unwrap() >= 4.0);
    let doctor = countersign(&vendor.instance).arg("doctor").output().unwrap();
    let doctor = String::from_utf8(doctor.stdout).unwrap();
    assert!(doctor.contains("2 mails parked"), "{doctor}");

    // The canaries: neither keys nor addresses nor the password.
    let metrics = get(server.admin, "/metrics").text();
    let readyz = get(server.admin, "/readyz").text();
    let log = server.log();
    assert!(
        log.contains("mailed a license key") && log.contains("a mail is parked"),
        "{log}"
    );
    for (place, text) in [
        ("metrics", &metrics),
        ("readyz", &readyz),
        ("log", &log),
        ("doctor", &doctor),
    ] {
        for secret in [key(0), key(1), key(2), PASSWORD, "canary", "example.com"] {
            assert!(!text.contains(secret), "{place} has {secret}: {text}");
        }
    }
    assert!(server.stop().success());
    let files = files_in(&vendor.instance.file("store"));
    for (path, content) in &files {
        let text = String::from_utf8_lossy(content);
        for number in 0..3 {
            assert!(!text.contains(key(number)), "{}", path.display());
        }
        assert!(!text.contains("anna") && !text.contains("bert"), "{}", path.display());
    }
    assert!(files.len() > 3);
    // An event that comes again gets no second mail, although the mail is sent.
    assert_eq!(
        vendor.enqueue("anna.canary@example.com", &ids[..1], "evt_1"),
        Enqueued::Known
    );
}

#[test]
fn a_mail_links_to_the_page_that_gives_the_plugin_and_no_refusal_keeps_the_link() {
    let mail = MailServer::start("none");
    let vendor = Vendor::new(&mail, 1, "none");
    plain_package::host(&vendor.instance);
    let ids = [vendor.licenses[0].0];
    let server = Server::start(&vendor.instance);
    vendor.enqueue("anna@example.com", &ids, "evt_1");
    // Quoted by the mail server.
    vendor.enqueue("spam@example.com", &ids, "evt_2");
    eventually("the mail", || mail.mails().len() == 1);
    let mails = mail.mails();
    let text = mails[0]["text"].as_str().unwrap();
    let address = server.address.to_string();
    let link = text
        .split_whitespace()
        .find(|word| word.contains("/first-copy/"))
        .unwrap();
    let path = link.split_once(&address).unwrap_or_else(|| panic!("{text}")).1;
    let page = get(server.address, path);
    assert_eq!(page.status, 200, "{}", page.text());
    let copy = request(server.address, "POST", &format!("{path}/acme-forms"), &[], b"");
    assert_eq!((copy.status, copy.text().as_str()), (200, plain_package::PACKAGE));
    eventually("one is parked", || mails_of(&server, "parked") == 1.0);
    let token = path.rsplit('/').next().unwrap();
    let parked = vendor.command(&["mail", "parked", "list", "--json"]);
    assert!(
        parked.contains("looks like spam") && !parked.contains(&token[..20]),
        "{parked}"
    );
    let mails = vendor.instance.file("store/mail");
    assert_eq!(files_with(&mails, &[&token[..20]]), Vec::<PathBuf>::new());
    assert!(!server.log().contains(&token[..20]));
}

#[test]
fn a_program_has_a_key_mailed_again_once_for_each_request() {
    let mail = MailServer::start("none");
    let vendor = Vendor::new(&mail, 1, "none");
    let server = Server::start(&vendor.instance);
    let scopes = ["--scope", "licenses:write", "--scope", "keys:read"];
    let token = vendor.command(&[&["token", "create", "support"][..], &scopes].concat());
    let bearer = format!("Bearer {}", token.trim());
    let (id, key) = &vendor.licenses[0];
    let resend = |request_key: &str| {
        let headers = [
            ("Authorization", bearer.as_str()),
            ("Idempotency-Key", request_key),
            ("Content-Type", "application/json"),
        ];
        let target = format!("/api/v1/licenses/{id}/resend");
        let answer = request(
            server.address,
            "POST",
            &target,
            &headers,
            br#"{"address":"anna.canary@example.com"}"#,
        );
        assert_eq!(answer.status, 202, "{}", answer.text());
        assert!(
            !answer.text().contains(key.reveal()) && !answer.text().contains("canary"),
            "{}",
            answer.text()
        );
    };
    resend("1");
    eventually("the mail", || mail.mails().len() == 1);
    // A retry, also after the mail is gone.
    resend("1");
    resend("2");
    eventually("the second mail", || mail.mails().len() == 2);
    let mails = mail.mails();
    assert!(
        mails
            .iter()
            .all(|mail| mail["text"].as_str().unwrap().contains(key.reveal()))
    );
    assert_ne!(header(&mails[0], "Message-ID"), header(&mails[1], "Message-ID"));
    // The mail server has a mail before the server knows that it has.
    eventually("the queue is empty", || vendor.queue().is_empty());
    assert!(
        !server.log().contains("canary") && !server.log().contains(key.reveal()),
        "{}",
        server.log()
    );
}

#[test]
fn a_download_link_is_mailed_without_the_key_and_only_where_there_is_a_download() {
    let mail = MailServer::start("none");
    let vendor = Vendor::new(&mail, 1, "none");
    let (id, key) = &vendor.licenses[0];
    let id = id.to_string();
    let order = ["license", "resend", &id, "--to", "anna@example.com", "--download"];
    let refused = countersign(&vendor.instance).args(order).output().unwrap();
    let reason = String::from_utf8_lossy(&refused.stderr);
    assert!(
        refused.status.code() == Some(3) && reason.contains("no first copies of what the license covers"),
        "{reason}"
    );
    plain_package::host(&vendor.instance);
    let scopes = ["--scope", "licenses:write", "--scope", "keys:read"];
    let token = vendor.command(&[&["token", "create", "support"][..], &scopes].concat());
    let server = Server::start(&vendor.instance);
    vendor.command(&order);
    let bearer = format!("Bearer {}", token.trim());
    let headers = [("Authorization", bearer.as_str()), ("Idempotency-Key", "1")];
    let headers = [&headers[..], &[("Content-Type", "application/json")]].concat();
    let target = format!("/api/v1/licenses/{id}/resend");
    let asked = |what: &str| {
        let body = format!("{{\"address\":\"bert@example.com\",\"what\":\"{what}\"}}");
        request(server.address, "POST", &target, &headers, body.as_bytes())
    };
    let unknown = asked("plugin");
    assert_eq!((unknown.status, unknown.code().as_str()), (400, "malformed_request"));
    assert_eq!(asked("download").status, 202);
    eventually("both mails", || mail.mails().len() == 2);
    let downloads = mail.mails();
    // The same request is one mail of each kind.
    for what in ["download", "key", "key"] {
        assert_eq!(asked(what).status, 202);
    }
    eventually("the key", || mail.mails().len() == 3);
    for mail in downloads {
        let subject = header(&mail, "Subject");
        assert_eq!(subject, "Your download");
        for part in ["text", "html"] {
            let text = mail[part].as_str().unwrap().replace("&#x2f;", "/");
            assert!(!LicenseKey::is_in(&text) && !text.contains(key.reveal()), "{text}");
            let (_, link) = text.split_once(&server.address.to_string()).unwrap();
            let end = link.find(|letter: char| letter.is_whitespace() || "\"<".contains(letter));
            let page = get(server.address, &link[..end.unwrap_or(link.len())]);
            assert_eq!(page.status, 200, "{link}");
        }
    }
}

#[test]
fn mails_wait_while_the_mail_server_is_away_and_a_person_decides_about_the_parked() {
    let mail = MailServer::start("none");
    let vendor = Vendor::new(&mail, 1, "none");
    let license = [vendor.licenses[0].0];
    vendor.enqueue("unknown@example.com", &license, "evt_1");
    vendor.enqueue("silent@example.com", &license, "evt_2");
    vendor.enqueue("anna@example.com", &license, "evt_3");
    let server = Server::start(&vendor.instance);
    eventually("one is parked", || mails_of(&server, "parked") == 1.0);
    eventually("one is sent", || mail.mails().len() == 1);
    let first = &vendor.queue()[0];
    assert_eq!((&first["state"], &first["event"]), (&"parked".into(), &"evt_1".into()));
    let id = first["id"].as_str().unwrap();
    // Its file cannot be changed to another address, but it can be dropped and ordered again.
    assert!(vendor.command(&["mail", "parked", "retry", &id[..8]]).contains(id));
    eventually("it is refused again", || {
        let all = vendor.queue();
        all.iter()
            .any(|mail| mail["id"] == id && mail["state"] == "parked" && mail["attempts"] == 1)
    });
    assert!(vendor.command(&["mail", "parked", "drop", id]).contains("deleted"));
    eventually("it is gone", || mails_of(&server, "parked") == 0.0);
    assert_eq!(vendor.enqueue("berta@example.com", &license, "evt_1"), Enqueued::New);
    eventually("the new order is sent", || mail.mails().len() == 2);

    // Away, and back.
    let port = mail.port;
    drop(mail);
    vendor.enqueue("carl@example.com", &license, "evt_4");
    eventually("the log says so", || server.log().contains("Connection refused"));
    assert_eq!(
        server.log().matches("Connection refused").count(),
        1,
        "once: {}",
        server.log()
    );
    let carl = vendor
        .queue()
        .into_iter()
        .find(|mail| mail["event"] == "evt_4")
        .unwrap();
    assert_eq!((&carl["state"], &carl["attempts"]), (&"waiting".into(), &0.into()));
    let mail = MailServer::start_at(port);
    eventually("the mail arrives", || {
        mail.mails()
            .iter()
            .any(|mail| mail["recipients"][0] == "carl@example.com")
    });
    assert!(server.log().contains("mails are sent again"), "{}", server.log());
}

#[test]
fn whoever_kills_the_server_gets_each_mail_once_or_twice_with_one_message_id() {
    let mail = MailServer::start("none");
    let vendor = Vendor::new(&mail, 40, "none");
    // The server is killed before it sends the same mail again by itself.
    let settings = std::fs::read_to_string(vendor.instance.file("countersign.toml")).unwrap();
    vendor.instance.write(
        "countersign.toml",
        &settings.replace("timeout_seconds = 2", "timeout_seconds = 60"),
    );
    for (number, (id, _)) in vendor.licenses.iter().enumerate() {
        vendor.enqueue(&format!("buyer{number}@example.com"), &[*id], &format!("evt_{number}"));
    }
    let mut kills = 0;
    let served = |mail: &MailServer| mail.mails().len();
    while served(&mail) < 30 {
        let before = served(&mail);
        // Between the mail server's note and its 250, every second time.
        mail.behave(if kills % 2 == 0 { "late" } else { "" });
        let server = Server::start(&vendor.instance);
        eventually("some more", || served(&mail) > before);
        server.kill();
        kills += 1;
    }
    mail.behave("");
    let _server = Server::start(&vendor.instance);
    eventually("the queue is empty", || vendor.queue().is_empty());
    let mut by_buyer: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for mail in mail.mails() {
        by_buyer
            .entry(mail["recipients"][0].as_str().unwrap().to_owned())
            .or_default()
            .push(mail);
    }
    assert_eq!(by_buyer.len(), vendor.licenses.len());
    let mut doubled = 0;
    for (number, (_, key)) in vendor.licenses.iter().enumerate() {
        let mails = &by_buyer[&format!("buyer{number}@example.com")];
        doubled += mails.len() - 1;
        for mail in mails {
            assert_eq!(header(mail, "Message-ID"), header(&mails[0], "Message-ID"));
            assert_eq!(header(mail, "Date"), header(&mails[0], "Date"));
            assert!(mail["text"].as_str().unwrap().contains(key.reveal()));
        }
    }
    assert!(doubled <= kills, "{doubled} twice, {kills} kills");
    assert!(doubled > 0, "the case was met: {kills} kills");
}
