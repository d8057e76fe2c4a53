//! Customers: a number in the ledger, and beside it the address, by which licenses are found until it is erased.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use serde_json::{Value, json};

use crate::management::{run, stdout_json};
use crate::support::server::countersign;
use crate::support::shop::{add_shop, deliver, invoice};
use crate::support::stored::files_with;
use crate::support::{Instance, Server, eventually};

const FILE: &str = "store/texts.jsonl";
fn instance() -> Instance {
    let instance = Instance::new();
    for key in ["--issuing", "--references"] {
        run(&instance, &["keys", "generate", key]);
    }
    instance
}

/// Runs a command with this text on stdin.
fn fed(instance: &Instance, arguments: &[&str], text: &str) -> Output {
    let mut child = countersign(instance)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn output_text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Issues a license for a customer; its id.
fn issue(instance: &Instance, address: &str) -> String {
    let arguments = [
        "license",
        "issue",
        "--module",
        "forms",
        "--expires",
        "never",
        "--customer",
        "-",
        "--json",
    ];
    let issued = fed(instance, &arguments, address);
    assert!(issued.status.success(), "{}", output_text(&issued));
    let issued: Value = serde_json::from_slice(&issued.stdout).unwrap();
    issued["id"].as_str().unwrap().to_owned()
}

fn ids(list: &Value) -> Vec<String> {
    let all = list.as_array().unwrap().iter();
    let mut ids: Vec<_> = all.map(|one| one["id"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids
}

fn sorted(mut ids: Vec<String>) -> Vec<String> {
    ids.sort();
    ids
}

fn of(instance: &Instance, address: &str) -> Vec<String> {
    ids(&stdout_json(instance, &["license", "list", "--customer", address]))
}

#[test]
fn a_customer_is_found_by_every_spelling_of_the_address_with_a_server_and_without() {
    let instance = instance();
    let alone = issue(&instance, " Anna@Buyer.Example\n");
    let server = Server::start(&instance);
    let beside = issue(&instance, "anna@buyer.example");
    let other = issue(&instance, "bert+shop@m\u{fc}nchen.example");
    let both = sorted(vec![alone.clone(), beside.clone()]);
    assert_eq!(of(&instance, "ANNA@buyer.example"), both);
    assert_eq!(
        of(&instance, "bert+shop@xn--mnchen-3ya.example"),
        std::slice::from_ref(&other)
    );
    assert_eq!(of(&instance, "bert@m\u{fc}nchen.example"), [""; 0]);
    assert_eq!(
        ids(&stdout_json(&instance, &["license", "list", "--find", "BUYER.ex"])),
        both
    );

    let number = stdout_json(&instance, &["license", "show", &alone])["customer"].clone();
    let number = number.as_str().unwrap();
    assert_eq!(number.len(), 32);
    for name in [number, "anna@buyer.example"] {
        let shown = stdout_json(&instance, &["customer", "show", name]);
        assert_eq!(shown["customer"], number);
        assert_eq!(
            shown["addresses"],
            json!([{ "address": "Anna@Buyer.Example", "by": "operator:cli" }])
        );
        assert_eq!(ids(&shown["licenses"]), both);
    }
    let text = String::from_utf8(run(&instance, &["customer", "show", number]).stdout).unwrap();
    assert!(text.contains("Anna@Buyer.Example (by operator cli)"), "{text}");

    // Another customer, once.
    let assign = ["license", "assign", &other, "--customer", "anna@buyer.example"];
    assert_eq!(stdout_json(&instance, &assign)["changed"], true);
    assert_eq!(stdout_json(&instance, &assign)["changed"], false);
    assert_eq!(of(&instance, "anna@buyer.example").len(), 3);
    let history = stdout_json(&instance, &["license", "history", &other]);
    assert_eq!(history["events"][0]["what"], json!(["another customer"]));
    assert!(server.stop().success());
    let back = fed(
        &instance,
        &["license", "assign", &other, "--customer", "-"],
        "carl@buyer.example",
    );
    assert!(back.status.success(), "{}", output_text(&back));
    assert_eq!(of(&instance, "anna@buyer.example"), both);
    assert_eq!(of(&instance, "carl@buyer.example"), std::slice::from_ref(&other));

    // A new key is for the same customer.
    run(&instance, &["license", "rekey", &other]);
    assert_eq!(of(&instance, "carl@buyer.example").len(), 2);
    for (arguments, text) in [
        (&["license", "list", "--customer", "-"][..], "quirk"),
        (
            &["license", "assign", &other, "--customer", "-"],
            "anna@buyer.example, bert@buyer.example",
        ),
        (&["customer", "show", "-"], ""),
    ] {
        let refused = fed(&instance, arguments, text);
        assert_eq!(refused.status.code(), Some(2), "{}", output_text(&refused));
        assert!(
            text.is_empty() || !output_text(&refused).contains(text),
            "{}",
            output_text(&refused)
        );
    }
    let unknown = fed(&instance, &["customer", "show", "-"], "nobody@buyer.example");
    assert_eq!(unknown.status.code(), Some(3));
    assert!(!output_text(&unknown).contains("nobody"), "{}", output_text(&unknown));
}

#[test]
fn an_erased_customer_is_in_no_file_and_no_backup_brings_the_address_back() {
    let instance = instance();
    let export = "key,expires,modules,customer,name\nan-imported-key-1,2099-12-31,forms,Zoe@Buyer.Example,Zoë Quist\n";
    let import = ["license", "import", "-", "--from", "csv", "--json"];
    let imported = fed(&instance, &import, export);
    assert!(imported.status.success(), "{}", output_text(&imported));
    let imported: Value = serde_json::from_slice(&imported.stdout).unwrap();
    assert_eq!(imported["not_taken_over"], json!([]));
    let server = Server::start(&instance);
    let license = issue(&instance, "zoe@buyer.example");
    issue(&instance, "other@buyer.example");
    let found = stdout_json(&instance, &["license", "list", "--find", "zoe QUIST"]);
    assert_eq!(ids(&found).len(), 2, "{found}");
    let shown = stdout_json(&instance, &["customer", "show", "zoe@buyer.example"]);
    assert_eq!(
        shown["addresses"],
        json!([{ "address": "Zoe@Buyer.Example", "name": "Zoë Quist", "by": "operator:import" }])
    );
    let number = shown["customer"].as_str().unwrap().to_owned();
    for text in ["zoe@buyer", "quist"] {
        assert_eq!(files_with(instance.path(), &[text]), [instance.file(FILE)], "{text}");
    }
    let backup = fs::read(instance.file(FILE)).unwrap();

    let unasked = fed(&instance, &["customer", "forget", "zoe@buyer.example"], "");
    assert_eq!(unasked.status.code(), Some(2));
    assert!(output_text(&unasked).contains("--yes"), "{}", output_text(&unasked));
    let forget = ["customer", "forget", "zoe@buyer.example", "--yes"];
    assert_eq!(
        stdout_json(&instance, &forget),
        json!({ "customer": number, "changed": true, "addresses": 1, "licenses": 2 })
    );
    for text in ["zoe@buyer", "quist"] {
        assert_eq!(files_with(instance.path(), &[text]), Vec::<PathBuf>::new(), "{text}");
    }
    let log = server.log();
    assert!(log.contains("erased a customer") && log.contains(&number), "{log}");
    assert!(
        !log.to_lowercase().contains("zoe") && !log.to_lowercase().contains("quist"),
        "{log}"
    );
    assert_eq!(of(&instance, "zoe@buyer.example"), [""; 0]);
    assert_eq!(of(&instance, "other@buyer.example").len(), 1);
    // The license still has the number, and the ledger says that it is erased, once.
    let shown = stdout_json(&instance, &["customer", "show", &number]);
    assert_eq!(
        (&shown["addresses"], shown["licenses"].as_array().unwrap().len()),
        (&json!([]), 2)
    );
    let again = stdout_json(&instance, &["customer", "forget", &number, "--yes"]);
    assert_eq!((&again["changed"], &again["addresses"]), (&json!(false), &json!(0)));
    let ledger = fs::read_to_string(instance.file("store/ledger.jsonl")).unwrap();
    assert_eq!(ledger.matches("\"event\":\"erased\"").count(), 1);

    // A customer who is erased and buys again is somebody else; the same import again keeps nobody.
    let imported = fed(&instance, &import, export);
    assert!(imported.status.success(), "{}", output_text(&imported));
    assert_eq!(files_with(instance.path(), &["quist"]), Vec::<PathBuf>::new());
    let new = issue(&instance, "zoe@buyer.example");
    assert_eq!(of(&instance, "zoe@buyer.example"), [new]);

    // A backup of the texts, and a compacted ledger.
    assert!(server.stop().success());
    run(&instance, &["bindings", "compact"]);
    fs::write(instance.file(FILE), backup).unwrap();
    let server = Server::start(&instance);
    assert_eq!(
        files_with(instance.path(), &["quist"]),
        Vec::<PathBuf>::new(),
        "{}",
        server.log()
    );
    assert_eq!(of(&instance, "other@buyer.example").len(), 1);
    run(&instance, &["bindings", "verify"]);
    assert_eq!(
        stdout_json(&instance, &["license", "show", &license])["customer"],
        number.as_str()
    );
}

#[test]
fn a_sale_has_the_customer_of_its_buyer_whatever_the_shop_says_later_and_no_log_has_the_address() {
    let instance = Instance::new();
    add_shop(&instance);
    let server = Server::start(&instance);
    let mut sale = invoice("in_1", "subscription_create", "price_small", 2, 30);
    sale["customer_email"] = json!("CANARY-mia@buyer.example");
    sale["customer_name"] = json!("CANARY Mia");
    assert_eq!(deliver(&server, "invoice.paid", 1, &sale), 200);
    eventually("the sale is applied", || {
        of(&instance, "canary-mia@buyer.example").len() == 2
    });
    let shown = stdout_json(&instance, &["customer", "show", "canary-mia@buyer.example"]);
    assert_eq!(
        shown["addresses"],
        json!([{ "address": "CANARY-mia@buyer.example", "name": "CANARY Mia", "by": "shop:stripe" }])
    );
    let mut renewal = invoice("in_2", "subscription_cycle", "price_small", 2, 60);
    renewal["customer_email"] = json!("CANARY-new@buyer.example");
    assert_eq!(deliver(&server, "invoice.paid", 2, &renewal), 200);
    let expires = || stdout_json(&instance, &["license", "list"])[0]["expires"].clone();
    let before = shown["licenses"][0]["expires"].clone();
    eventually("the renewal is applied", || expires() != before);
    assert_eq!(of(&instance, "canary-mia@buyer.example").len(), 2);
    assert_eq!(files_with(instance.path(), &["canary-new"]), Vec::<PathBuf>::new());
    // Two more of the same buyer.
    let mut second = invoice("in_3", "subscription_create", "price_large", 1, 30);
    second["parent"]["subscription_details"]["subscription"] = json!("sub_2");
    second["customer_email"] = json!("canary-MIA@buyer.example");
    assert_eq!(deliver(&server, "invoice.paid", 3, &second), 200);
    eventually("the second sale is applied", || {
        of(&instance, "canary-mia@buyer.example").len() == 3
    });
    assert!(
        !server.log().contains("CANARY") && !server.log().contains("canary"),
        "{}",
        server.log()
    );
    assert!(server.stop().success());
    let ledger = fs::read_to_string(instance.file("store/ledger.jsonl")).unwrap();
    assert!(!ledger.to_lowercase().contains("canary"));
}

#[test]
fn where_only_hashes_are_kept_a_customer_is_found_by_the_whole_address_alone() {
    let instance = instance();
    instance.write("countersign.toml", "serve.customers = \"hash\"\n");
    let license = issue(&instance, "mia@buyer.example");
    let server = Server::start(&instance);
    let second = issue(&instance, "Mia@buyer.example");
    assert_eq!(files_with(instance.path(), &["mia@"]), Vec::<PathBuf>::new());
    assert_eq!(
        of(&instance, "mia@buyer.example"),
        sorted(vec![license.clone(), second])
    );
    let find = countersign(&instance)
        .args(["license", "list", "--find", "mia"])
        .output()
        .unwrap();
    assert_eq!(find.status.code(), Some(2));
    assert!(
        output_text(&find).contains("--customer finds the whole address"),
        "{}",
        output_text(&find)
    );
    let shown = stdout_json(&instance, &["customer", "show", "mia@buyer.example"]);
    assert_eq!(shown["addresses"], json!([{ "by": "operator:cli" }]));
    // After a rotation of the key, too.
    run(&instance, &["keys", "generate", "--references", "--rotate"]);
    assert_eq!(of(&instance, "mia@buyer.example").len(), 2);
    assert!(server.stop().success());
    let third = issue(&instance, "mia@buyer.example");
    assert!(of(&instance, "mia@buyer.example").contains(&third));
    assert_eq!(of(&instance, "mia@buyer.example").len(), 3);
    let forgotten = stdout_json(&instance, &["customer", "forget", "mia@buyer.example", "--yes"]);
    assert_eq!(
        (&forgotten["addresses"], &forgotten["licenses"]),
        (&json!(2), &json!(3))
    );
    assert_eq!(of(&instance, "mia@buyer.example"), [""; 0]);
}

#[test]
fn a_license_has_a_language_and_another_recipient_of_reminders_beside_the_ledger() {
    let instance = instance();
    let issue = [
        "license",
        "issue",
        "--module",
        "forms",
        "--expires",
        "never",
        "--customer",
        "client@buyer.example",
        "--reminders-to",
        "-",
        "--language",
        "pt_BR",
        "--json",
    ];
    let issued = fed(&instance, &issue, "office@agency.example\n");
    assert!(issued.status.success(), "{}", output_text(&issued));
    let issued: Value = serde_json::from_slice(&issued.stdout).unwrap();
    let id = issued["id"].as_str().unwrap();
    assert_eq!(files_with(instance.path(), &["office@agency"]), [instance.file(FILE)]);
    assert_eq!(files_with(instance.path(), &["pt-br"]), [instance.file(FILE)]);
    let number = |address: &str| stdout_json(&instance, &["customer", "show", address])["customer"].clone();
    let [client, agency] = ["client@buyer.example", "office@agency.example"].map(number);
    assert_ne!(client, agency);
    let rows = || fs::read_to_string(instance.file(FILE)).unwrap();
    let last = || -> Value { serde_json::from_str(rows().lines().last().unwrap()).unwrap() };
    assert_eq!(
        last()["customer"]["mails"],
        json!({ "language": "pt-br", "reminders_to": agency })
    );
    let server = Server::start(&instance);
    let assign =
        |more: &[&str]| stdout_json(&instance, &[&["license", "assign", id], more].concat())["changed"].clone();
    assert_eq!(assign(&["--reminders-to", "office@agency.example"]), false);
    assert_eq!(assign(&["--reminders-to", "customer", "--language", "de"]), true);
    assert_eq!(last()["customer"]["mails"], json!({ "language": "de" }));
    // What is kept goes with the new customer.
    assert_eq!(assign(&["--customer", "next@buyer.example"]), true);
    assert_eq!(last()["customer"]["number"], number("next@buyer.example"));
    let nothing = fed(&instance, &["license", "assign", id], "");
    assert_eq!(nothing.status.code(), Some(2), "{}", output_text(&nothing));
    let twice = ["license", "assign", id, "--customer", "-", "--reminders-to", "-"];
    assert_eq!(fed(&instance, &twice, "a@b.example").status.code(), Some(2));
    let forgotten = stdout_json(&instance, &["customer", "forget", "next@buyer.example", "--yes"]);
    assert_eq!(forgotten["addresses"], 1);
    assert!(!rows().contains("\"language\":\"de\""), "{}", rows());
    assert!(server.stop().success());

    instance.write("countersign.toml", "serve.customers = \"hash\"\n");
    let refused = fed(
        &instance,
        &["license", "assign", id, "--reminders-to", "-"],
        "office@agency.example",
    );
    assert_eq!(refused.status.code(), Some(3), "{}", output_text(&refused));
    assert!(
        output_text(&refused).contains("hash") && !output_text(&refused).contains("agency"),
        "{}",
        output_text(&refused)
    );
}

#[test]
fn doctor_says_why_nobody_is_reminded() {
    let instance = instance();
    let findings = |settings: &str| {
        instance.write("countersign.toml", settings);
        let output = countersign(&instance).arg("doctor").output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    const NOBODY: &str = "nobody is reminded";
    assert!(!findings("").contains(NOBODY));
    let alone = findings("mail.reminders_before = [7]\n");
    assert!(alone.contains(&format!("{NOBODY}: there is no mail server")), "{alone}");
    let mail = "mail.server = \"localhost\"\nmail.tls = \"none\"\nmail.from = \"a@acme.example\"\n";
    let without = findings(&format!("{mail}mail.reminders_after = [3]\n"));
    assert!(
        without.contains(&format!("{NOBODY}: there is no public_url")),
        "{without}"
    );
    let url = "serve.public_url = \"https://licenses.acme.example\"\n";
    let without = findings(&format!("{url}{mail}mail.reminders_after = [3]\n"));
    assert!(
        without.contains(&format!("{NOBODY}: there is no keys/downloads.key")),
        "{without}"
    );
}
