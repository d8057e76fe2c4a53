//! Reminders of a running server: who is reminded when, who is not, and how one says no.
//!
//! The licenses and the switch are written with times of the past, so that a moment of today is one that a server reminds of.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Days, NaiveDate, TimeDelta, Utc};
use countersign_ledger::{ChangeBasis, ChangeOutcome, CustomerErasure, Ledger, LedgerChange, ReminderSwitch};
use countersign_model::customer::{CustomerAddress, LicenseMails, NewCustomer};
use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_model::issuing_key::IssueRequest;
use countersign_model::license::{Details, License as ModelLicense, LicenseDetails, LicenseStatus, SiteLimit};
use countersign_model::license_key::LicenseId;
use countersign_model::offer::SalesMode;
use countersign_model::remarks::{Author, NewRemarks};
use countersign_settings::config::CustomerRule;
use countersign_settings::keys::license_secrets::LicenseSecrets;
use countersign_settings::keys::secret_keys::{SecretKey, SecretKeys};
use serde_json::Value;

use crate::support::http::{Client, Response};
use crate::support::server::countersign;
use crate::support::{Instance, Server, eventually};
use crate::tools::midnight::wait_past_midnight;
use crate::tools::smtp::{MailServer, header};

/// Longer than the first look and the sending of what it found.
const QUIET: Duration = Duration::from_secs(4);

/// A vendor whose server reminds.
pub struct Shop {
    pub instance: Instance,
    secrets: LicenseSecrets,
    runtime: tokio::runtime::Runtime,
    numbers: std::cell::Cell<u32>,
}

/// What a license of the tests is.
#[derive(Default)]
pub struct Wanted<'a> {
    pub customer: Option<&'a str>,
    pub reminders_to: Option<&'a str>,
    pub language: Option<&'a str>,
    pub renews: bool,
    pub is_suspended: bool,
    /// Issued now, and not long ago.
    pub is_new: bool,
}

fn ago(days: i64) -> DateTime<Utc> {
    Utc::now() - TimeDelta::days(days)
}

/// So many days from today.
pub fn in_days(days: i64) -> NaiveDate {
    Utc::now().date_naive() + TimeDelta::days(days)
}

fn load<K: SecretKey>(instance: &Instance, name: &str) -> SecretKeys<K> {
    SecretKeys::load(&instance.file(name), &instance.file("keys/retired"))
        .unwrap()
        .0
}

impl Shop {
    pub fn new(port: u16) -> Self {
        let instance = Instance::new();
        instance.write(
            "countersign.toml",
            &format!(
                "serve.public_url = \"https://licenses.acme.example\"\n[mail]\nserver = \"localhost\"\nport = {port}\n\
                 from = \"licenses@acme.example\"\ntls = \"none\"\nretry_seconds = 1\nreminders_before = [30, 7, 1]\n\
                 reminders_after = [3]\n"
            ),
        );
        instance.write_issuing_secrets();
        instance.write_secret("keys/downloads.key", &"d".repeat(32));
        let secrets = LicenseSecrets::new(
            load(&instance, "keys/issuing.key"),
            load(&instance, "keys/references.key"),
        );
        Self {
            instance,
            secrets,
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap(),
            numbers: std::cell::Cell::new(0),
        }
    }

    /// Works with the ledger while no server runs. The switch is long ago.
    pub fn with<T>(&self, work: impl FnOnce(&Self, &Ledger) -> T) -> T {
        let store = countersign_ledger::open(&self.instance.file("store")).unwrap();
        let switch = ReminderSwitch { on: true, now: ago(90) };
        self.runtime.block_on(store.switch_reminders(switch)).unwrap();
        let done = work(self, &store);
        store.close().unwrap();
        done
    }

    pub fn customer(&self, store: &Ledger, address: &str) -> Hex128 {
        let address: CustomerAddress = address.parse().unwrap();
        let new = self.secrets.references().customer(
            &address,
            Some("Anna Quirk"),
            &ChangeScope::operator(),
            CustomerRule::Keep,
        );
        self.runtime.block_on(store.keep_customer(new.unwrap())).unwrap()
    }

    pub fn issue(&self, store: &Ledger, expires: NaiveDate, wanted: &Wanted<'_>) -> LicenseId {
        let number = self.numbers.get();
        self.numbers.set(number + 1);
        let scope = Arc::new(ChangeScope::operator());
        let request = IssueRequest {
            scope: &scope,
            mode: SalesMode::Live,
            idempotency_key: &format!("order {number}"),
            body: b"{}",
        };
        let new = self.secrets.new_origin(&request).unwrap();
        let id = new.key.id();
        let holder = wanted.customer.map(|address| self.customer(store, address));
        let change = LedgerChange {
            remarks: NewRemarks {
                holder,
                ..NewRemarks::default()
            },
            author: Author::default(),
            license: ModelLicense {
                id,
                status: LicenseStatus::Active,
                expires,
                modules: Arc::new([("forms".parse().unwrap(), Vec::new())].into()),
                sites: SiteLimit::Limited(NonZeroU32::new(3).unwrap()),
                grace_period_hours: None,
                details: Details::from(LicenseDetails {
                    renewal_days: wanted.renews.then_some(3),
                    ..LicenseDetails::default()
                }),
                is_declared: false,
            },
            reference: None,
            scope: Arc::clone(&scope),
            status_by: None,
            now: if wanted.is_new { Utc::now() } else { ago(60) },
            basis: ChangeBasis::from(new.origin),
        };
        let outcome = self.runtime.block_on(store.change_license(change)).unwrap();
        assert!(matches!(outcome, ChangeOutcome::Recorded(_)), "{outcome:?}");
        let mails = LicenseMails {
            language: wanted.language.map(|tag| tag.parse().unwrap()),
            product: None,
            reminders_to: wanted.reminders_to.map(|address| self.customer(store, address)),
        };
        if mails != LicenseMails::default() {
            let row = NewCustomer::of_license(&id, holder, &scope, mails);
            self.runtime.block_on(store.keep_customers(vec![row])).unwrap();
        }
        if wanted.is_suspended {
            let issued = store.issued(&id).unwrap();
            let change = LedgerChange {
                remarks: NewRemarks::default(),
                author: Author::default(),
                license: ModelLicense {
                    status: LicenseStatus::Suspended,
                    ..issued.license.clone()
                },
                reference: None,
                scope: Arc::clone(&scope),
                status_by: Some(scope),
                now: ago(50),
                basis: ChangeBasis::Revision(1),
            };
            self.runtime.block_on(store.change_license(change)).unwrap();
        }
        id
    }

    pub fn command(&self, arguments: &[&str]) -> String {
        let output = countersign(&self.instance).args(arguments).output().unwrap();
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// The claims in the ledger.
    fn claims(&self) -> Vec<Value> {
        let lines = std::fs::read_to_string(self.instance.file("store/ledger.jsonl")).unwrap();
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines
            .filter(|line| line["event"] == "reminded" && line["mail"].is_string())
            .collect()
    }
}

fn to<'m>(mails: &'m [Value], address: &str) -> &'m Value {
    let mut found = mails.iter().filter(|mail| mail["recipients"][0] == address);
    let mail = found.next().unwrap_or_else(|| panic!("no mail to {address}"));
    assert!(found.next().is_none(), "one mail to {address}");
    mail
}

fn asked(server: &Server, method: &str, target: &str, body: &[u8]) -> Response {
    let headers = [("Content-Type", "application/x-www-form-urlencoded")];
    Client::connect(server.address).request(method, target, &headers, body)
}

#[test]
fn customers_are_reminded_once_before_and_after_and_nobody_whose_license_does_not_end() {
    wait_past_midnight();
    let mail = MailServer::start("none");
    let shop = Shop::new(mail.port);
    shop.instance.write(
        "registry/mail/reminder-before.de.txt",
        "Subject: Ende am {{ license.expires }}\n\n{{ customer.name }}, noch {{ days }} Tage: {{ unsubscribe }}\n",
    );
    let ids = shop.with(|shop, store| {
        let of = |address| Wanted {
            customer: Some(address),
            ..Wanted::default()
        };
        for days in [8, 6, 29, 2, 0, -1, -2, -4, -30, 400] {
            // Their moments are none of today, and older ones are two days back at least, or it is too late to tell.
            if ![6, 29, 0, -4].contains(&days) {
                shop.issue(store, in_days(days), &of("nobody@buyer.example"));
            }
        }
        shop.issue(
            store,
            in_days(7),
            &Wanted {
                renews: true,
                ..of("nobody@buyer.example")
            },
        );
        shop.issue(
            store,
            in_days(7),
            &Wanted {
                is_suspended: true,
                ..of("nobody@buyer.example")
            },
        );
        // An import: its moment was before it.
        shop.issue(
            store,
            in_days(7),
            &Wanted {
                is_new: true,
                ..of("nobody@buyer.example")
            },
        );
        shop.issue(store, in_days(7), &Wanted::default());
        shop.issue(store, in_days(7), &of("erased@buyer.example"));
        let erased = shop.customer(store, "erased@buyer.example");
        let erasure = CustomerErasure {
            number: erased,
            author: Author::default(),
            now: Utc::now(),
        };
        shop.runtime.block_on(store.erase_customer(erasure)).unwrap();
        let first = shop.issue(store, in_days(7), &of("anna@buyer.example"));
        let second = shop.issue(store, in_days(7), &of("anna@buyer.example"));
        shop.issue(store, in_days(-3), &of("anna-after@buyer.example"));
        shop.issue(
            store,
            in_days(30),
            &Wanted {
                reminders_to: Some("office@agency.example"),
                ..of("client@buyer.example")
            },
        );
        shop.issue(
            store,
            in_days(1),
            &Wanted {
                language: Some("de-AT"),
                ..of("bert@buyer.example")
            },
        );
        [first, second]
    });
    let planned: Value = serde_json::from_str(&shop.command(&["mail", "reminders", "--days", "1", "--json"])).unwrap();
    let planned = planned["reminders"].as_array().unwrap();
    assert_eq!(planned.len(), 4, "{planned:#?}");
    assert!(planned.iter().all(|mail| mail.get("address").is_none()));
    let shown = shop.command(&["mail", "reminders", "--days", "1", "--addresses"]);
    assert!(
        shown.contains("office@agency.example") && shown.contains("4 mails"),
        "{shown}"
    );

    let server = Server::start(&shop.instance);
    eventually("four reminders", || mail.mails().len() >= 4);
    std::thread::sleep(QUIET);
    let mails = mail.mails();
    assert_eq!(mails.len(), 4, "{mails:#?}");
    let anna = to(&mails, "anna@buyer.example");
    let text = anna["text"].as_str().unwrap();
    assert!(header(anna, "Subject").starts_with("Your licenses end on "), "{anna:#}");
    assert!(text.contains("Hello Anna Quirk,"), "{text}");
    for id in ids {
        assert!(text.contains(&id.to_string()[..12]), "{text}");
    }
    let link = header(anna, "List-Unsubscribe").trim_matches(['<', '>']).to_owned();
    assert!(link.starts_with("https://licenses.acme.example/unsubscribe/"), "{link}");
    assert!(text.contains(&link), "{text}");
    assert_eq!(header(anna, "List-Unsubscribe-Post"), "List-Unsubscribe=One-Click");
    assert!(header(to(&mails, "anna-after@buyer.example"), "Subject").ends_with("has ended"));
    let bert = to(&mails, "bert@buyer.example");
    assert_eq!(header(bert, "Subject"), format!("Ende am {}", in_days(1)));
    assert!(
        bert["text"].as_str().unwrap().contains("Anna Quirk, noch 1 Tage"),
        "{bert:#}"
    );
    to(&mails, "office@agency.example");
    assert_eq!(shop.claims().len(), 4);
    assert!(server.stop().success());

    // Not again, by another start or after a compaction.
    shop.command(&["bindings", "compact"]);
    assert_eq!(shop.claims().len(), 4);
    let server = Server::start(&shop.instance);
    std::thread::sleep(QUIET);
    assert_eq!(mail.mails().len(), 4);
    assert!(!server.log().contains("buyer.example"), "{}", server.log());
    assert!(server.stop().success());
}

#[test]
fn one_who_says_no_by_post_gets_none_and_a_look_at_the_link_changes_nothing() {
    let mail = MailServer::start("none");
    let shop = Shop::new(mail.port);
    let anna = Wanted {
        customer: Some("anna@buyer.example"),
        ..Wanted::default()
    };
    shop.with(|shop, store| shop.issue(store, in_days(7), &anna));
    let server = Server::start(&shop.instance);
    eventually("a reminder", || mail.mails().len() == 1);
    let link = header(&mail.mails()[0], "List-Unsubscribe")
        .trim_matches(['<', '>'])
        .to_owned();
    let path = link.strip_prefix("https://licenses.acme.example").unwrap().to_owned();
    for _ in 0..2 {
        let page = asked(&server, "GET", &path, b"");
        assert_eq!(page.status, 200);
        assert!(page.text().contains("<form method=\"post\">"), "{}", page.text());
        assert_eq!(page.header("x-robots-tag"), Some("noindex"));
    }
    let shown = || shop.command(&["customer", "show", "anna@buyer.example"]);
    assert!(!shown().contains("no reminders"), "{}", shown());
    let other_letter = if path.ends_with('A') { 'Q' } else { 'A' };
    let changed = format!("{}{other_letter}", &path[..path.len() - 1]);
    for bad in [
        changed,
        format!("{path}A"),
        "/unsubscribe/".to_owned(),
        format!("{path}/x"),
    ] {
        assert_eq!(asked(&server, "POST", &bad, b"").status, 404, "{bad}");
    }
    assert!(!shown().contains("no reminders"), "{}", shown());
    assert!(server.stop().success());

    // Another one is due, and one click says no to it.
    shop.with(|shop, store| shop.issue(store, in_days(-3), &anna));
    mail.behave("busy");
    let server = Server::start(&shop.instance);
    eventually("a claim", || shop.claims().len() == 2);
    let clicked = asked(&server, "POST", &path, b"List-Unsubscribe=One-Click");
    assert_eq!(clicked.status, 200, "{}", clicked.text());
    assert!(!clicked.text().contains("<form"), "{}", clicked.text());
    assert_eq!(asked(&server, "POST", &path, b"").status, 200);
    assert!(shown().contains("The customer wants no reminders."), "{}", shown());
    mail.behave("");
    // It was claimed, and is not sent any more.
    eventually("an empty queue", || {
        server.metric("countersign_mails{state=\"waiting\"}") == Some(0.0)
    });
    assert!(server.stop().success());
    shop.with(|shop, store| shop.issue(store, in_days(1), &anna));
    let server = Server::start(&shop.instance);
    std::thread::sleep(QUIET);
    assert_eq!((mail.mails().len(), shop.claims().len()), (1, 2));
    assert!(server.stop().success());
}

#[test]
fn a_server_that_is_killed_after_its_claim_sends_the_mail_once_and_a_new_end_is_another_one() {
    let mail = MailServer::start("none");
    let port = mail.port;
    drop(mail);
    let shop = Shop::new(port);
    let anna = Wanted {
        customer: Some("anna@buyer.example"),
        ..Wanted::default()
    };
    let bert = Wanted {
        customer: Some("bert@buyer.example"),
        ..Wanted::default()
    };
    let renewed = shop.with(|shop, store| {
        shop.issue(store, in_days(7), &anna);
        shop.issue(store, in_days(7), &bert)
    });
    let server = Server::start(&shop.instance);
    eventually("two claims", || shop.claims().len() == 2);
    server.kill();
    // Meanwhile Bert renews: what waits is moot, and the new end has a reminder of its own.
    let id = renewed.to_string();
    let days = in_days(30).to_string();
    shop.command(&["license", "renew", &id[..12], "--expires", &days]);
    let mail = MailServer::start_at(port);
    let server = Server::start(&shop.instance);
    eventually("the mails", || mail.mails().len() == 2);
    std::thread::sleep(QUIET);
    let mails = mail.mails();
    assert_eq!(mails.len(), 2, "{mails:#?}");
    to(&mails, "anna@buyer.example");
    let bert = to(&mails, "bert@buyer.example");
    assert!(bert["text"].as_str().unwrap().contains(&days), "{bert:#}");
    assert_eq!(shop.claims().len(), 3);
    assert!(server.stop().success());
}

#[test]
fn an_import_of_ten_thousand_old_licenses_mails_nobody() {
    let mail = MailServer::start("none");
    let shop = Shop::new(mail.port);
    shop.with(|_, _| ());
    let server = Server::start(&shop.instance);
    let mut export = "key,expires,modules,customer\n".to_owned();
    let today = Utc::now().date_naive();
    for number in 0..10_000_u64 {
        let day = (today - Days::new(100)) + Days::new(number % 140);
        export += &format!("an-imported-key-{number:06},{day},forms,buyer{number}@buyer.example\n");
    }
    shop.instance.write("export.csv", &export);
    let file = shop.instance.file("export.csv").display().to_string();
    shop.command(&["license", "import", &file, "--from", "csv"]);
    assert!(server.stop().success());
    let server = Server::start(&shop.instance);
    std::thread::sleep(QUIET);
    assert_eq!((mail.mails().len(), shop.claims().len()), (0, 0));
    assert!(server.stop().success());
}

#[test]
fn where_the_switch_is_new_nobody_is_reminded_of_what_was_before_it() {
    let mail = MailServer::start("none");
    let shop = Shop::new(mail.port);
    let anna = Wanted {
        customer: Some("anna@buyer.example"),
        ..Wanted::default()
    };
    let store = countersign_ledger::open(&shop.instance.file("store")).unwrap();
    shop.issue(&store, in_days(7), &anna);
    store.close().unwrap();
    drop(store);
    let server = Server::start(&shop.instance);
    std::thread::sleep(QUIET);
    assert!(server.stop().success());
    assert_eq!((mail.mails().len(), shop.claims().len()), (0, 0));
    let lines = std::fs::read_to_string(shop.instance.file("store/ledger.jsonl")).unwrap();
    assert!(lines.contains("\"event\":\"reminded\",\"on\":true"), "{lines}");
}
