//! Sites that were installed again: their customer is mailed at once, and confirms it by the link.

use chrono::{TimeDelta, Utc};
use countersign_ledger::SeenHash;
use countersign_model::digest::Digest;
use countersign_model::site_release::ReleaseHash;
use serde_json::{Value, json};

use super::reminders::Shop;
use crate::support::http::{Client, Response};
use crate::support::instance::question;
use crate::support::{License, Server, eventually, post_json};
use crate::tools::midnight::wait_past_midnight;
use crate::tools::receiver::Receiver;
use crate::tools::smtp::{MailServer, header};

const CUSTOMER: &str = "anna@buyer.example";
const ORIGIN: &str = "https://licenses.acme.example";

/// A license of the ledger with its key, and its customer if it has one.
fn issue(shop: &Shop, customer: Option<&str>) -> License {
    let mut arguments = vec!["license", "issue", "--module", "forms", "--expires", "+1y", "--json"];
    arguments.extend(customer.into_iter().flat_map(|address| ["--customer", address]));
    let issued: Value = serde_json::from_str(&shop.command(&arguments)).unwrap();
    License {
        id: issued["id"].as_str().unwrap().to_owned(),
        key: issued["license_key"].as_str().unwrap().to_owned(),
    }
}

fn validate(server: &Server, license: &License, secret: &str) {
    let mut question = question(license, "https://a.com/");
    question["release_hash"] = Digest::of(secret.as_bytes()).to_string().into();
    let answer = server.ask(&question);
    assert_eq!(answer.code(), "ok", "{}", answer.text());
}

/// What a release with this secret is answered.
fn released(server: &Server, license: &License, secret: &str) -> String {
    let leaving = json!({ "license_key": license.key, "site_url": "a.com", "release_secret": secret });
    post_json(server.address, "/api/v1/release-site", &leaving).code()
}

fn asked(server: &Server, method: &str, target: &str) -> Response {
    let headers = [("Content-Type", "application/x-www-form-urlencoded")];
    Client::connect(server.address).request(method, target, &headers, b"")
}

fn steps(shop: &Shop) -> Vec<String> {
    let ledger = std::fs::read_to_string(shop.instance.file("store/ledger.jsonl")).unwrap();
    let lines = ledger.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let claimed = lines.filter(|line| line["event"] == "claimed");
    claimed.map(|line| line["step"].as_str().unwrap().to_owned()).collect()
}

/// The path of the link in a mail.
fn link(mail: &Value) -> String {
    let text = mail["text"].as_str().unwrap();
    let at = text
        .find(&format!("{ORIGIN}/site-claim/"))
        .unwrap_or_else(|| panic!("{text}"));
    let link = text[at..].split_whitespace().next().unwrap();
    link.strip_prefix(ORIGIN).unwrap().to_owned()
}

/// A site that lost its secret, and the link in the mail about it.
fn claimed(mail: &MailServer, server: &Server, license: &License) -> String {
    let before = mail.mails().len();
    validate(server, license, "old");
    for _ in 0..3 {
        validate(server, license, "new");
    }
    eventually("the mail", || mail.mails().len() > before);
    link(mail.mails().last().unwrap())
}

#[test]
fn the_customer_confirms_that_a_site_was_installed_again() {
    wait_past_midnight();
    let mail = MailServer::start("none");
    let receiver = Receiver::start();
    let shop = Shop::new(mail.port);
    let settings = std::fs::read_to_string(shop.instance.file("countersign.toml")).unwrap();
    let webhook = format!("[webhooks.crm]\nurl = \"{}\"\n", receiver.url());
    shop.instance.write("countersign.toml", &(settings + &webhook));
    let made: Value = serde_json::from_str(&shop.command(&["webhook", "secret", "crm", "--json"])).unwrap();
    receiver.know(made["secret"].as_str().unwrap());
    let license = issue(&shop, Some(CUSTOMER));
    let mut server = Server::start(&shop.instance);
    let link = claimed(&mail, &server, &license);
    let mails = mail.mails();
    assert_eq!(mails.len(), 1, "{mails:#?}");
    assert_eq!(header(&mails[0], "Subject"), "Was a.com set up again?");
    assert_eq!(header(&mails[0], "To"), CUSTOMER);
    let day = (Utc::now() + TimeDelta::days(14)).date_naive().to_string();
    let whole = mails[0].to_string();
    assert!(whole.contains(&day) && whole.contains(&license.id[..12]), "{whole}");
    assert!(!whole.contains(&license.key), "{whole}");
    assert_eq!(steps(&shop), ["begun"]);

    // A mail scanner opens it.
    for _ in 0..2 {
        let page = asked(&server, "GET", &link);
        assert_eq!(page.status, 200);
        assert_eq!(page.header("cache-control"), Some("no-store"));
        assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(page.header("x-robots-tag"), Some("noindex"));
        assert!(page.header("content-security-policy").is_some());
        assert!(page.text().contains("<form method=\"post\">"), "{}", page.text());
    }
    let changed = format!(
        "{}{}",
        &link[..link.len() - 1],
        if link.ends_with('A') { 'B' } else { 'A' }
    );
    for bad in [
        changed,
        format!("{link}A"),
        "/site-claim/".to_owned(),
        format!("{link}/x"),
    ] {
        assert_eq!(asked(&server, "POST", &bad).status, 404, "{bad}");
    }
    assert_eq!(steps(&shop), ["begun"]);
    assert_eq!(released(&server, &license, "new"), "wrong_release_secret");

    for _ in 0..2 {
        let done = asked(&server, "POST", &link);
        assert_eq!(done.status, 200);
        assert!(
            done.text().contains("a.com counts now") && !done.text().contains("<form"),
            "{}",
            done.text()
        );
    }
    assert_eq!(steps(&shop), ["begun", "confirmed"]);
    validate(&server, &license, "new");
    assert_eq!(released(&server, &license, "old"), "wrong_release_secret");
    assert!(server.stop().success());
    shop.command(&["bindings", "compact"]);
    server = Server::start(&shop.instance);
    assert!(!server.log().contains("rebuilding"), "{}", server.log());
    // The earlier installation was alive, and its owner did not know it.
    validate(&server, &license, "old");
    assert_eq!(steps(&shop).last().unwrap(), "returned");
    assert!(asked(&server, "POST", &link).text().contains("still running"));
    assert_eq!(released(&server, &license, "new"), "wrong_release_secret");
    assert_eq!(released(&server, &license, "old"), "released");
    assert!(
        !server.log().contains(CUSTOMER) && !server.log().contains(&link),
        "{}",
        server.log()
    );
    let delivered = || {
        let taken = receiver.taken().into_iter();
        let claimed = taken.filter(|body| body["type"] == "site.claimed");
        claimed.map(|body| body["data"].clone()).collect::<Vec<_>>()
    };
    eventually("the receiver has all events", || delivered().len() == 3);
    let delivered = delivered();
    let steps: Vec<_> = delivered.iter().map(|data| &data["step"]).collect();
    assert_eq!(steps, ["begun", "confirmed", "returned"]);
    assert!(
        delivered[0]["host"] == "a.com" && delivered[0]["until"].is_string(),
        "{delivered:?}"
    );
}

#[test]
fn a_link_is_for_one_claim_and_says_what_became_of_it() {
    let mail = MailServer::start("none");
    let shop = Shop::new(mail.port);
    let licenses = [0; 2].map(|_| issue(&shop, Some(CUSTOMER)));
    // A claim of long ago, of which nobody was notified.
    shop.with(|_, store| {
        let issued = store.issued(&licenses[1].id.parse().unwrap()).unwrap();
        let host = "a.com".parse().unwrap();
        let hash = |secret| ReleaseHash::of(secret);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let request = countersign_ledger::SeatRequest {
            release_hash: Some(hash("old")),
            ..countersign_ledger::SeatRequest::new(&issued.license, &host, Utc::now())
        };
        runtime.block_on(store.bind(request)).unwrap();
        for (secret, days) in [("new", 40), ("old", 39)] {
            let seen = SeenHash {
                license: &issued.license,
                host: &host,
                hash: hash(secret),
                is_active: true,
                may_begin: true,
                now: Utc::now() - TimeDelta::days(days),
            };
            runtime.block_on(store.see_hash(seen)).unwrap().unwrap();
        }
    });
    let server = Server::start(&shop.instance);
    let [ended, waits] = licenses.each_ref().map(|license| claimed(&mail, &server, license));
    validate(&server, &licenses[0], "old");
    for method in ["GET", "POST"] {
        let page = asked(&server, method, &ended);
        assert!(
            page.text().contains("Nothing has changed") && !page.text().contains("<form"),
            "{}",
            page.text()
        );
    }
    // That of another license carries out only its own.
    assert_eq!(steps(&shop), ["begun", "ended", "begun", "begun", "ended"]);
    assert_eq!(asked(&server, "POST", &waits).status, 200);
    assert_eq!(released(&server, &licenses[0], "new"), "wrong_release_secret");
    assert_eq!(released(&server, &licenses[1], "new"), "released");

    // A license that is stopped, and one that has another customer.
    let [stopped, given] = [0; 2].map(|_| issue(&shop, Some(CUSTOMER)));
    let links = [&stopped, &given].map(|license| claimed(&mail, &server, license));
    shop.command(&["license", "suspend", &stopped.id]);
    shop.command(&["license", "assign", &given.id, "--customer", "bert@buyer.example"]);
    let before = steps(&shop);
    for link in links {
        assert_eq!(asked(&server, "GET", &link).status, 410);
        assert_eq!(asked(&server, "POST", &link).status, 410);
    }
    assert_eq!(steps(&shop), before);
}

#[test]
fn nobody_claims_a_site_by_the_key_alone_if_no_customer_is_told() {
    let mail = MailServer::start("none");
    let shop = Shop::new(mail.port);
    let [nobodys, annas, erased] = [None, Some(CUSTOMER), Some("bert@buyer.example")].map(|of| issue(&shop, of));
    shop.command(&["customer", "forget", "bert@buyer.example", "--yes"]);
    let settings = std::fs::read_to_string(shop.instance.file("countersign.toml")).unwrap();
    let no_mail = settings.split("[mail]").next().unwrap().to_owned();
    for (settings, has_links, licenses) in [
        (&settings, true, [&nobodys, &erased]),
        (&no_mail, true, [&annas, &annas]),
        (&settings, false, [&annas, &annas]),
    ] {
        shop.instance.write("countersign.toml", settings);
        if !has_links {
            std::fs::remove_file(shop.instance.file("keys/downloads.key")).unwrap();
        }
        let server = Server::start(&shop.instance);
        for license in licenses {
            for secret in ["old", "new", "new"] {
                validate(&server, license, secret);
            }
            assert_eq!(released(&server, license, "new"), "wrong_release_secret");
        }
        assert!(server.stop().success());
    }
    assert_eq!(steps(&shop), Vec::<String>::new());
    assert_eq!(mail.mails(), Vec::<Value>::new());
}

#[test]
fn a_mail_that_waits_is_not_sent_once_the_site_was_heard_of() {
    let mail = MailServer::start("none");
    let shop = Shop::new(mail.port);
    let license = issue(&shop, Some(CUSTOMER));
    mail.behave("busy");
    let server = Server::start(&shop.instance);
    validate(&server, &license, "old");
    validate(&server, &license, "new");
    let waiting = |count: f64| server.metric("countersign_mails{state=\"waiting\"}") == Some(count);
    eventually("the mail waits", || waiting(1.0));
    let queue = shop.command(&["mail", "parked", "list", "--all", "--json"]);
    assert!(!queue.contains(&license.key), "{queue}");
    validate(&server, &license, "old");
    mail.behave("");
    assert_eq!(steps(&shop), ["begun", "ended"]);
    eventually("the mail is dropped", || waiting(0.0));
    assert_eq!(mail.mails(), Vec::<Value>::new());
}
