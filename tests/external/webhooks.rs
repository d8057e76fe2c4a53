//! Webhooks to a real receiver, which checks each message with the library of the Standard Webhooks project.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use countersign_model::build_id::BuildId;
use countersign_model::download_key::DownloadKey;
use serde_json::{Value, json};

use crate::support::instance::{question, sha256};
use crate::support::server::countersign;
use crate::support::shop::{add_shop, deliver, invoice};
use crate::support::{Instance, License, Server, eventually, eventually_within, post_json, request};
use crate::tools::receiver::Receiver;
use crate::tools::{plain_package, preload};

fn done_plain(instance: &Instance, arguments: &[&str]) {
    let output = run(instance, arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn run(instance: &Instance, arguments: &[&str]) -> Output {
    countersign(instance).args(arguments).output().unwrap()
}

#[track_caller]
fn done(instance: &Instance, arguments: &[&str]) -> Value {
    let output = countersign(instance).args(arguments).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// An instance with a shop and this license, whose server tells the receiver everything.
fn instance(receiver: &Receiver, more: &str, licenses: &[String]) -> Instance {
    let instance = match licenses {
        [] => Instance::new(),
        licenses => Instance::with_licenses(licenses),
    };
    add_shop(&instance);
    let webhook = format!("[webhooks.crm]\nurl = \"{}\"\n{more}", receiver.url());
    instance.write("countersign.toml", &format!("[shops.stripe]\n{webhook}"));
    let made = done(&instance, &["webhook", "secret", "crm"]);
    receiver.know(made["secret"].as_str().unwrap());
    instance
}

/// Sells a license that ends in 60 days: a new endpoint receives what ends in 30 or 7 days, too, if it is sold before the first look.
fn sell(server: &Server, number: i64) {
    let mut sale = invoice(&format!("in_{number}"), "subscription_create", "price_small", 1, 60);
    sale["parent"]["subscription_details"]["subscription"] = json!(format!("sub_{number}"));
    assert_eq!(deliver(server, "invoice.paid", number, &sale), 200);
}

/// The types of the messages of a license that were taken, in order.
fn types(receiver: &Receiver, license: &str) -> Vec<String> {
    let taken = receiver.taken().into_iter();
    let own = taken.filter(|body| body["data"]["license"] == license);
    own.map(|body| body["type"].as_str().unwrap().to_owned()).collect()
}

fn of_type(receiver: &Receiver, wanted: &str) -> Vec<Value> {
    let mut taken = receiver.taken();
    taken.retain(|body| body["type"] == wanted);
    taken
}

/// The only license that was sold.
fn sold(receiver: &Receiver) -> String {
    eventually("the sale arrives", || of_type(receiver, "license.issued").len() == 1);
    let issued = of_type(receiver, "license.issued").remove(0);
    assert_eq!(issued["data"]["by"], "shop stripe");
    assert_eq!(
        (&issued["data"]["sites"], &issued["data"]["modules"]),
        (&json!(1), &json!(["forms"]))
    );
    issued["data"]["license"].as_str().unwrap().to_owned()
}

#[test]
fn what_happens_is_told_signed_and_in_order() {
    let receiver = Receiver::start();
    let license = License::new();
    let instance = instance(&receiver, "", &[license.toml("")]);
    let server = Server::start(&instance);
    sell(&server, 1);
    let id = sold(&receiver);
    let steps: [(&[&str], &str); 5] = [
        (&["suspend"], "license.suspended"),
        (&["resume"], "license.resumed"),
        (&["renew", "--expires", "2098-12-31"], "license.renewed"),
        (&["sites", "3"], "license.changed"),
        (&["revoke"], "license.revoked"),
    ];
    let mut expected = vec!["license.issued"];
    for (verb, event) in steps {
        let arguments: Vec<_> = [&["license", verb[0], id.as_str()], &verb[1..]].concat();
        done(&instance, &arguments);
        expected.push(event);
    }
    assert_eq!(server.validate(&license, "https://shop.example.com").code(), "ok");
    // It moves without a secret.
    let mut moving = question(&license, "https://shop.example.com");
    moving["new_site_url"] = "https://new.example.com".into();
    moving["release_hash"] = "0".repeat(64).into();
    let moved = post_json(server.address, "/api/v1/release-site", &moving);
    assert_eq!(moved.code(), "ok", "{}", moved.text());
    done(
        &instance,
        &["license", "release", &license.id, "--host", "new.example.com"],
    );
    assert_eq!(server.validate(&license, "https://shop.example.com").code(), "ok");
    let leaving = question(&license, "https://shop.example.com");
    let left = post_json(server.address, "/api/v1/release-site", &leaving);
    assert_eq!(left.code(), "released", "{}", left.text());
    eventually("all events arrive", || {
        types(&receiver, &id).len() == expected.len() && types(&receiver, &license.id).len() == 5
    });
    assert_eq!(types(&receiver, &id), expected);
    assert_eq!(
        types(&receiver, &license.id),
        [
            "site.bound",
            "site.moved",
            "site.released",
            "site.bound",
            "site.released"
        ]
    );
    let told = of_type(&receiver, "site.moved").remove(0)["data"].clone();
    let expected =
        json!({ "license": license.id, "host": "new.example.com", "from": "shop.example.com", "by": "site" });
    assert_eq!(told, expected);
    let bound = of_type(&receiver, "site.bound").remove(0);
    assert_eq!(
        bound["data"],
        json!({ "license": license.id, "host": "shop.example.com" })
    );
    let released = of_type(&receiver, "site.released").remove(1);
    assert_eq!(
        (&released["data"]["license"], &released["data"]["host"]),
        (&json!(license.id), &json!("shop.example.com"))
    );
    for message in receiver.received() {
        assert_eq!(
            (&message["verified"], &message["type"]),
            (&json!(true), &json!("application/json")),
            "{message}"
        );
        assert_eq!(message["path"], "/in?token=CANARY-of-the-url");
    }
    // The receiver has a message before the server knows that it has.
    let sent = || server.metric("countersign_webhook_messages_total{webhook=\"crm\",result=\"sent\"}");
    eventually("all are counted", || sent() >= Some(11.0));
    assert_eq!(sent(), Some(11.0));
    let list = || done(&instance, &["webhook", "list"]);
    eventually("nothing waits", || list()[0]["waiting"] == 0);
    let listed = list();
    assert_eq!((&listed[0]["waiting"], &listed[0]["parked"]), (&json!(0), &json!(0)));
    // Neither the secret in the URL nor a buyer appears anywhere.
    for text in [server.log(), listed.to_string(), format!("{:?}", receiver.taken())] {
        assert!(!text.contains("CANARY"), "{text}");
    }
}

/// The longest pause between two attempts to reach an endpoint, and a minute: where the machine is slow, an endpoint is away for long.
const RETRIED: Duration = Duration::from_secs(360);

#[test]
fn an_endpoint_that_was_away_is_told_all_in_order_and_a_killed_server_loses_nothing() {
    let mut receiver = Receiver::start();
    let instance = instance(&receiver, "", &[]);
    receiver.end();
    let mut server = Server::start(&instance);
    for round in 0..3 {
        for number in 0..5 {
            sell(&server, round * 5 + number);
        }
        server.kill();
        server = Server::start(&instance);
    }
    eventually("the log says that it is away", || {
        server.log().contains("messages wait")
    });
    let listed = done(&instance, &["webhook", "list"]);
    assert!(
        listed[0]["reason"].as_str().unwrap().contains("http://localhost:"),
        "{listed}"
    );
    receiver.behave("503");
    receiver.start_again();
    eventually_within("it answers, but takes nothing", RETRIED, || {
        !receiver.received().is_empty()
    });
    receiver.behave("");
    eventually_within("all events arrive", RETRIED, || {
        let ids: BTreeSet<_> = of_type(&receiver, "license.issued")
            .iter()
            .map(|body| body["data"]["license"].to_string())
            .collect();
        ids.len() == 15
    });
    eventually_within("the log says that it is back", RETRIED, || {
        server.log().contains("takes messages again")
    });
    assert_eq!(server.log().matches("messages wait").count(), 1, "it is said once");
    // In the middle of sending, a kill may have a message sent twice: with one id.
    let mut killed = server;
    for number in 15..40 {
        sell(&killed, number);
        if number % 8 == 0 {
            killed.kill();
            killed = Server::start(&instance);
        }
    }
    eventually_within("all events arrive", RETRIED, || {
        let taken = of_type(&receiver, "license.issued");
        taken
            .iter()
            .map(|body| body["data"]["license"].to_string())
            .collect::<BTreeSet<_>>()
            .len()
            == 40
    });
    let received = receiver.received();
    let taken = || received.iter().filter(|message| message["status"] == 200);
    let ids: BTreeSet<_> = taken().map(|message| message["id"].to_string()).collect();
    let licenses: BTreeSet<_> = taken()
        .map(|message| message["body"]["data"]["license"].to_string())
        .collect();
    let messages: Vec<_> = taken()
        .map(|message| {
            let body = &message["body"];
            format!("{} {} {}", message["id"], body["type"], body["data"]["license"])
        })
        .collect();
    assert_eq!((ids.len(), licenses.len()), (40, 40), "{messages:#?}");
    // A server that was killed while the endpoint was away noted that; the next one takes it back.
    receiver.end();
    sell(&killed, 40);
    let failing = || done(&instance, &["webhook", "list"])[0].get("failing_since").is_some();
    eventually("it is away again", failing);
    killed.kill();
    receiver.start_again();
    let _server = Server::start(&instance);
    eventually("the list shows that it is back", || !failing());
}

#[test]
fn a_message_that_is_refused_holds_up_its_license_alone() {
    let receiver = Receiver::start();
    let [one, two] = [(); 2].map(|()| License::new());
    let licenses = [one.toml("sites = 5"), two.toml("sites = 5")];
    let instance = instance(&receiver, "events = [\"site.bound\"]\n", &licenses);
    let server = Server::start(&instance);
    receiver.behave("422 first.example");
    for host in ["first.example", "second.example", "third.example"] {
        assert_eq!(server.validate(&one, host).code(), "ok");
        assert_eq!(server.validate(&two, &format!("other-{host}")).code(), "ok");
    }
    let hosts = |license: &License| -> Vec<String> {
        let taken = receiver
            .taken()
            .into_iter()
            .filter(|body| body["data"]["license"] == license.id);
        taken
            .map(|body| body["data"]["host"].as_str().unwrap().to_owned())
            .collect()
    };
    // Both names have the refused text: the later ones of each license wait behind.
    receiver.behave(&format!("422 {}", one.id));
    // After a second refusal, the server waits five minutes: here too, where a busy machine took five seconds for the questions.
    eventually_within("the other license's messages arrive", RETRIED, || {
        hosts(&two).len() == 3
    });
    // Once the first was refused twice, the command below is faster than the server.
    let waiting = || done(&instance, &["webhook", "parked", "list", "--all"]);
    eventually_within("three wait", RETRIED, || {
        let waiting = waiting();
        waiting.as_array().unwrap().len() == 3 && waiting[0]["attempts"].as_u64() >= Some(2)
    });
    assert_eq!(hosts(&one), [""; 0]);
    let kept = waiting();
    assert!(
        kept[0]["reason"]
            .as_str()
            .unwrap()
            .ends_with("answered 422 Unprocessable Entity"),
        "{kept}"
    );
    assert!(kept[1].get("reason").is_none(), "it was not tried: {kept}");
    receiver.behave("");
    let first = kept[0]["id"].as_str().unwrap();
    done(&instance, &["webhook", "parked", "retry", first]);
    eventually_within("they arrive in order", RETRIED, || hosts(&one).len() == 3);
    assert_eq!(hosts(&one), ["first.example", "second.example", "third.example"]);
    // The receiver has a message before the server knows that it has.
    eventually_within("nothing waits", RETRIED, || waiting() == json!([]));
    let unknown = run(&instance, &["webhook", "parked", "drop", first]);
    assert_eq!(unknown.status.code(), Some(3));
}

#[test]
fn licenses_that_end_soon_and_licenses_that_too_many_ask_for_are_told_once_a_day() {
    // The receiver's clock is the server's: a signature of another time is refused.
    let receiver = Receiver::start_with_clock();
    // It is noon, so that some minutes later it is the same day.
    let now = Utc::now();
    let noon = (now.date_naive() + TimeDelta::days(1)).and_hms_opt(12, 0, 0).unwrap();
    let ahead = u32::try_from((noon.and_utc() - now).num_seconds()).unwrap();
    receiver.set_clock(ahead);
    let on = |days| (noon.date() + TimeDelta::days(days)).to_string();
    let [month, week, later, wanted] = [(); 4].map(|()| License::new());
    let instance = instance(
        &receiver,
        "",
        &[
            month.toml_with(&on(30), "", "forms = []"),
            week.toml_with(&on(7), "", "forms = []"),
            later.toml_with(&on(8), "", "forms = []"),
            wanted.toml(""),
        ],
    );
    let offset = receiver.clock();
    let environment: [(&str, &Path); 2] = [("LD_PRELOAD", preload::clock()), ("CLOCK_OFFSET", &offset)];
    let start = || Server::start_with_environment(&instance, &[], &environment);
    let server = start();
    for host in [
        "mine.example",
        "1.example",
        "2.example",
        "3.example",
        "4.example",
        "5.example",
    ] {
        server.validate(&wanted, host);
    }
    eventually("two end soon", || of_type(&receiver, "license.expiring").len() == 2);
    let days: BTreeSet<_> = of_type(&receiver, "license.expiring")
        .iter()
        .map(|body| body["data"].to_string())
        .collect();
    assert!(
        days.iter()
            .any(|data| data.contains(&month.id) && data.contains("\"days\":30")),
        "{days:?}"
    );
    assert!(
        days.iter()
            .any(|data| data.contains(&week.id) && data.contains("\"days\":7")),
        "{days:?}"
    );
    // What was refused is written when the server ends, and told some minutes later.
    assert!(server.stop().success());
    for minutes in [10, 20] {
        receiver.set_clock(ahead + minutes * 60);
        let server = start();
        eventually("the leak arrives", || {
            of_type(&receiver, "license.leak_suspected").len() == 1
        });
        let sequence = "countersign_webhook_sequence{webhook=\"crm\"}";
        eventually("the events arrive", || server.metric(sequence) == Some(1.0));
        assert!(server.stop().success());
    }
    let leak = of_type(&receiver, "license.leak_suspected").remove(0);
    assert_eq!(leak["data"]["hosts"].as_array().unwrap().len(), 5);
    let limit = of_type(&receiver, "license.limit_reached");
    assert_eq!((limit.len(), &limit[0]["data"]["host"]), (1, &json!("5.example")));
    assert_eq!(of_type(&receiver, "license.expiring").len(), 2, "not told again");
    // A day later, the one of eight days ends in seven.
    receiver.set_clock(ahead + 86_400);
    let server = start();
    eventually("it ends soon", || of_type(&receiver, "license.expiring").len() == 3);
    assert_eq!(of_type(&receiver, "license.expiring")[2]["data"]["license"], later.id);
    assert!(server.stop().success());
}

/// The build id of the copy that `given` got for a host today.
fn copy_of(instance: &Instance, given: &License, host: &str) -> Value {
    let secret: [u8; 32] = std::fs::read(instance.file("keys/downloads.key"))
        .unwrap()
        .try_into()
        .unwrap();
    let key = DownloadKey::new(&secret);
    let license = given.id.parse().unwrap();
    let today = Utc::now().date_naive();
    let copy = BuildId::new(&key, &license, &host.parse().unwrap(), today, "acme-forms", "1.20.0").unwrap();
    json!(copy.encrypt(&key))
}

#[test]
fn a_license_that_gave_too_many_first_copies_is_told_once_a_day() {
    let receiver = Receiver::start_with_clock();
    let [found, other] = [License::new(), License::new()];
    let tables = [found.toml(""), other.toml("")];
    let instance = instance(&receiver, "events = [\"license.too_many_first_copies\"]\n", &tables);
    plain_package::host(&instance);
    let offset = receiver.clock();
    let environment: [(&str, &Path); 2] = [("LD_PRELOAD", preload::clock()), ("CLOCK_OFFSET", &offset)];
    let start = || Server::start_with_environment(&instance, &[], &environment);
    let server = start();
    let ask = |license: &License| {
        let credentials = format!("License {}", license.key);
        let target = "/api/v1/packages/acme-forms";
        request(server.address, "GET", target, &[("Authorization", &credentials)], b"").status
    };
    assert_eq!(ask(&other), 200);
    let given = (0..30).filter(|_| ask(&found) == 200).count();
    assert_eq!(given, 20);
    // It is written when the server ends, and told some minutes later.
    assert!(server.stop().success());
    for minutes in [10, 20] {
        receiver.set_clock(minutes * 60);
        let server = start();
        eventually("the event arrives", || {
            of_type(&receiver, "license.too_many_first_copies").len() == 1
        });
        assert!(server.stop().success());
    }
    let told = of_type(&receiver, "license.too_many_first_copies");
    let expected = json!({ "license": found.id, "packages": 20, "networks": 1 });
    assert_eq!((told.len(), &told[0]["data"]), (1, &expected));
}

#[test]
fn licenses_whose_sites_report_copies_of_others_or_forged_ones_are_told_once_a_day() {
    let receiver = Receiver::start_with_clock();
    let [honest, given, forging] = [(); 3].map(|()| License::new());
    let licenses = [&honest, &given, &forging].map(|license| license.toml("sites = 5"));
    let instance = instance(&receiver, "events = [\"license.leak_suspected\"]\n", &licenses);
    done_plain(&instance, &["keys", "generate", "--downloads"]);
    let offset = receiver.clock();
    let environment: [(&str, &Path); 2] = [("LD_PRELOAD", preload::clock()), ("CLOCK_OFFSET", &offset)];
    let start = || Server::start_with_environment(&instance, &[], &environment);
    let sequence = "countersign_webhook_sequence{webhook=\"crm\"}";
    let server = start();
    let forged = json!("018f3b2e-7c1a-8000-8000-3f1c2d4e5f60");
    for (license, host, copy) in [
        (&honest, "honest.example", copy_of(&instance, &honest, "honest.example")),
        (&given, "buyer.example", copy_of(&instance, &honest, "honest.example")),
        (&forging, "forging.example", forged.clone()),
    ] {
        let mut question = question(license, host);
        question["build_id"] = copy;
        assert_eq!(server.ask(&question).code(), "ok");
    }
    eventually("the events arrive", || server.metric(sequence) == Some(3.0));
    assert!(server.stop().success());
    // A look each day. Nobody reports meanwhile, so the next day has nothing new.
    for days in [1, 2] {
        receiver.set_clock(days * 86_400 + 60);
        let server = start();
        eventually("two leaks arrive", || {
            of_type(&receiver, "license.leak_suspected").len() == 2
        });
        // Once the event of a later line arrives, the look is over.
        assert_eq!(server.validate(&honest, &format!("{days}.example")).code(), "ok");
        let all = Some(3.0 + f64::from(days));
        eventually("the events arrive", || server.metric(sequence) == all);
        assert!(server.stop().success());
    }
    let told = of_type(&receiver, "license.leak_suspected");
    assert_eq!(told.len(), 2, "{told:?}");
    let copies = |license: &License| {
        let of_license = told.iter().find(|body| body["data"]["license"] == license.id);
        of_license.map(|body| body["data"]["copies"].clone())
    };
    assert_eq!(copies(&honest), None);
    assert_eq!(copies(&given).unwrap()[0]["host"], "buyer.example");
    assert_eq!(
        copies(&forging).unwrap(),
        json!([{ "host": "forging.example", "build_id": forged }])
    );
}

#[test]
fn an_endpoint_is_told_after_a_compaction_what_it_missed_of_lines_that_have_one_time() {
    let receiver = Receiver::start();
    let more = "events = [\"site.bound\"]\n[serve]\nforeign_keys = true\n";
    let instance = instance(&receiver, more, &[]);
    let server = Server::start(&instance);
    eventually("the endpoint is known", || {
        instance.file("store/webhooks/crm/progress.json").exists()
    });
    let messages_about = |host: &str| {
        let taken = of_type(&receiver, "site.bound");
        taken.iter().filter(|body| body["data"]["host"] == host).count()
    };

    // All lines of an import are in one commit, and the sites have the day of the sale.
    receiver.behave("503 site-3.example");
    let site = |number: usize| format!("site-{number}.example");
    let rows = (0..6).map(|number| {
        let key = sha256(&format!("license {number}"));
        format!("{},2099-12-31,forms,{},2025-01-01\n", &key[..32], site(number))
    });
    let text = format!("key,expires,modules,hosts,created\n{}", rows.collect::<String>());
    instance.write("export.csv", &text);
    let file = instance.file("export.csv");
    done_plain(
        &instance,
        &["license", "import", file.to_str().unwrap(), "--from", "csv"],
    );
    eventually("the endpoint is away", || server.log().contains("messages wait"));
    assert!(server.stop().success());
    let ledger = std::fs::read_to_string(instance.file("store/ledger.jsonl")).unwrap();
    let lines = ledger.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let bound = lines.filter(|line| line["event"] == "bound");
    let times: Vec<_> = bound.map(|line| line["time"].to_string()).collect();
    assert!(
        times.len() == 6 && times.iter().all(|time| *time == times[0]),
        "{times:?}"
    );
    assert_eq!([2, 3].map(|number| messages_about(&site(number))), [1, 0]);

    done(&instance, &["bindings", "compact"]);
    receiver.behave("");
    let _server = Server::start(&instance);
    eventually("all events arrive", || {
        (0..6).all(|number| messages_about(&site(number)) > 0)
    });
    let once = [0, 1, 2].map(|number| messages_about(&site(number)));
    assert_eq!(once, [1; 3], "no event arrives again");
}

#[test]
fn a_server_that_is_stopped_while_it_sends_sends_no_message_twice() {
    const SITES: usize = 40;
    let receiver = Receiver::start();
    let license = License::new();
    let instance = instance(&receiver, "", &[license.toml("sites = \"unlimited\"")]);
    let server = Server::start_with(&instance, &["--drain-seconds", "30"]);
    receiver.behave("slow");
    for number in 0..SITES {
        assert_eq!(server.validate(&license, &format!("{number}.example")).code(), "ok");
    }
    eventually("it sends", || receiver.received().len() > 2);
    assert!(server.stop().success());
    assert!(receiver.received().len() < SITES, "it was stopped too late");
    receiver.behave("");
    let server = Server::start(&instance);
    eventually("the rest is sent", || {
        let ids: BTreeSet<_> = receiver
            .received()
            .iter()
            .map(|message| message["id"].to_string())
            .collect();
        ids.len() == SITES
    });
    let sequence = "countersign_webhook_sequence{webhook=\"crm\"}";
    eventually("the events arrive", || server.metric(sequence) == Some(SITES as f64));
    let hosts: Vec<_> = receiver
        .taken()
        .iter()
        .map(|body| body["data"]["host"].to_string())
        .collect();
    let expected: Vec<_> = (0..SITES).map(|number| format!("\"{number}.example\"")).collect();
    assert_eq!(hosts, expected);
}

#[test]
fn a_test_message_tells_what_is_wrong_and_a_secret_is_replaced_without_a_gap() {
    let receiver = Receiver::start_tls("localhost");
    let certificates = format!("certificates = \"{}\"\n", receiver.authority().display());
    let instance = instance(&receiver, &certificates, &[]);
    assert_eq!(done(&instance, &["webhook", "test", "crm"])["status"], 200);
    let refused = |code: i32, reason: &str| {
        let output = run(&instance, &["webhook", "test", "crm"]);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert!(stderr.contains(reason) && !stderr.contains("CANARY"), "{stderr}");
    };
    // The receiver knows only the new secret, then only the old one.
    let old = std::fs::read_to_string(instance.file("keys/webhooks/crm.secret")).unwrap();
    let twice = run(&instance, &["webhook", "secret", "crm"]);
    assert_eq!(twice.status.code(), Some(3), "a secret is not overwritten");
    let new = done(&instance, &["webhook", "secret", "crm", "--rotate"]);
    for known in [new["secret"].as_str().unwrap(), old.trim()] {
        receiver.know(known);
        done(&instance, &["webhook", "test", "crm"]);
    }
    assert_eq!(receiver.received().last().unwrap()["signatures"], 2);
    receiver.know("whsec_bm90IHRoZSBzZWNyZXQgb2YgYW55Ym9keSBoZXJl");
    refused(3, "answered 401 Unauthorized");
    // Another authority, a name that the certificate has not, and nobody.
    let text = std::fs::read_to_string(instance.file("countersign.toml")).unwrap();
    instance.write("countersign.toml", &text.replace(&certificates, ""));
    refused(4, "invalid peer certificate: UnknownIssuer");
    instance.write(
        "countersign.toml",
        &text.replace("https://localhost", "https://127.0.0.1"),
    );
    refused(4, "invalid peer certificate");
    instance.write(
        "countersign.toml",
        &text.replace(&format!(":{}/", receiver.port), ":1/"),
    );
    refused(4, "Connection refused");
    std::fs::remove_file(instance.file("keys/webhooks/crm.secret")).unwrap();
    refused(3, "there is no secret of this webhook");
    let start = run(&instance, &["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(
        start.status.code(),
        Some(3),
        "a server without the secret does not start"
    );
}
