//! The output of commands with `--json` matches the schemas of docs/cli-json.md.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::process::Output;

use chrono::Utc;
use clap::CommandFactory as _;
use countersign::cli::Cli;
use countersign_mail::queue::MailQueue;
use countersign_model::license_key::LicenseId;
use countersign_package::writer::PackageWriter;
use serde_json::{Value, json};

use crate::support::cli_json::Page;
use crate::support::history::make_repository;
use crate::support::server::{countersign, countersign_in};
use crate::support::{Instance, License, Server};

/// Verbs that print no JSON document, and why.
const WITHOUT: [(&str, &str); 7] = [
    ("serve", "it prints nothing to stdout"),
    ("completions", "it prints a script for a shell"),
    ("manual", "it prints a page for people"),
    ("bindings export", "it prints JSON without being asked"),
    ("bindings schema", "it prints SQL"),
    ("webhook test", "it needs a receiver: external webhooks:: runs it"),
    ("mail send-test", "it needs a mail server: external mail:: runs it"),
];

/// Verbs that need a database. The tests of nodes check what they print.
const OF_DATABASE: [&str; 2] = ["bindings copy", "bindings repair"];

/// Runs commands of one instance and checks what each prints; remembers which verbs were run.
struct Checker<'a> {
    instance: &'a Path,
    page: Page,
    verbs: BTreeSet<String>,
}

impl Checker<'_> {
    fn run(&mut self, arguments: &[&str]) -> Output {
        let is_group = matches!(
            arguments[0],
            "license"
                | "customer"
                | "bindings"
                | "keys"
                | "package"
                | "shop"
                | "mail"
                | "token"
                | "webhook"
                | "security"
        );
        self.verbs.insert(match arguments {
            // The plugin is between the two words.
            ["rollout", _, verb, ..] => format!("rollout {verb}"),
            _ => arguments[..if is_group { 2 } else { 1 }].join(" "),
        });
        // After `--`, it would be a value.
        let values = arguments.iter().position(|argument| *argument == "--");
        let (options, values) = arguments.split_at(values.unwrap_or(arguments.len()));
        countersign_in(self.instance)
            .args(options)
            .arg("--json")
            .args(values)
            .output()
            .unwrap()
    }

    /// Runs a command that succeeds.
    #[track_caller]
    fn done(&mut self, schema: &str, arguments: &[&str]) -> Value {
        let output = self.run(arguments);
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        self.checked(schema, &output)
    }

    #[track_caller]
    fn checked(&self, schema: &str, output: &Output) -> Value {
        let document = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        self.page.check(schema, &document);
        document
    }

    /// Runs a command that fails with `exit`.
    #[track_caller]
    fn fails(&mut self, exit: i32, arguments: &[&str]) -> Output {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(exit), "{arguments:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        let error: Value = serde_json::from_str(stderr.lines().last().unwrap()).unwrap();
        self.page.check("error", &error);
        assert_eq!(error["exit_code"], exit);
        output
    }
}

/// Every verb of the command line, as `license issue`.
fn verbs() -> BTreeSet<String> {
    let mut verbs = BTreeSet::new();
    for command in Cli::command().get_subcommands() {
        let own = command.get_name().to_owned();
        let below: Vec<_> = command
            .get_subcommands()
            .map(|verb| format!("{own} {}", verb.get_name()))
            .collect();
        verbs.extend(if below.is_empty() { vec![own] } else { below });
    }
    verbs
}

#[test]
fn every_command_prints_what_the_page_of_json_says() {
    let folder = tempfile::tempdir().unwrap();
    let instance = folder.path().join("demo");
    let mut checker = Checker {
        instance: folder.path(),
        page: Page::read(),
        verbs: BTreeSet::new(),
    };
    let made = checker.done("init", &["init", "--demo", instance.to_str().unwrap()]);
    checker.instance = &instance;
    checker.fails(3, &["init", instance.to_str().unwrap()]);

    checker.done("build", &["build"]);
    fs::remove_file(instance.join("releases/acme-forms/1.0.0.json")).unwrap();
    checker.done("build", &["build", "--all"]);
    let other = folder.path().join("other");
    checker.done("publish", &["publish", "releases", other.to_str().unwrap()]);
    checker.fails(3, &["publish", "nosuch"]);
    checker.done("preview", &["preview", "--print"]);

    checker.done("license-list", &["license", "list"]);
    let issued = checker.done(
        "license-issue",
        &["license", "issue", "--module", "acme-forms", "--expires", "+1y"],
    );
    let customer = "anna@buyer.example";
    let assign = [
        "license",
        "assign",
        issued["id"].as_str().unwrap(),
        "--customer",
        customer,
    ];
    checker.done("license-changed", &assign);
    checker.done("license-list", &["license", "list", "--customer", customer]);
    checker.done("license-list", &["license", "list", "--find", "anna"]);
    checker.done("customer-show", &["customer", "show", customer]);
    checker.done("customer-forget", &["customer", "forget", customer, "--yes"]);
    checker.fails(3, &["customer", "show", customer]);
    checker.fails(2, &["customer", "forget", issued["id"].as_str().unwrap()]);
    let declare = [
        "license",
        "issue",
        "--module",
        "acme-forms",
        "--expires",
        "+1y",
        "--declare",
    ];
    checker.done("license-declared", &declare);
    let id = issued["id"].as_str().unwrap();
    for change in [
        &["renew", id, "--expires", "2099-01-01"][..],
        &["suspend", id],
        &["resume", id],
        &["sites", id, "unlimited"],
        &["sites", id, "--staging-sites", "2", "--site-moves", "default"],
        &["rights", id, "--channel", "beta"],
    ] {
        checker.done("license-changed", &[&["license"], change].concat());
    }
    for verb in ["vouch", "unvouch"] {
        for _ in 0..2 {
            checker.done("license-vouched", &["license", verb, id, "--reason", "an agency"]);
        }
    }
    checker.fails(3, &["license", "vouch", id, "--until", "never"]);
    checker.done("license-history", &["license", "history", id]);
    checker.done("license-vouched", &["license", "vouch", id, "--until", "+2y"]);
    let changes = checker.done("changes", &["changes"]);
    assert_eq!(changes["changes"][0]["event"], "vouched");
    checker.done("changes", &["changes", "--anyone", "--limit", "1"]);
    let review = checker.done("review", &["review"]);
    assert_eq!(review["vouched"].as_array().map(Vec::len), Some(1));
    checker.done("license-composer-token", &["license", "composer-token", id]);
    checker.done("license-composer-token", &["license", "composer-token", id, "--revoke"]);
    checker.done("license-show", &["license", "show", id]);
    let rekeyed = checker.done("license-rekey", &["license", "rekey", id]);
    checker.done("license-show", &["license", "show", id]);
    checker.done(
        "license-changed",
        &["license", "revoke", rekeyed["id"].as_str().unwrap()],
    );
    checker.fails(3, &["license", "resume", id]);
    checker.fails(3, &["license", "resend", id, "--to", "anna@example.com"]);
    checker.done("license-list", &["license", "list"]);

    checker.done(
        "keys-generate",
        &[
            "keys",
            "generate",
            "--out",
            instance.join("next.pem").to_str().unwrap(),
            "--bits",
            "2048",
        ],
    );
    checker.done(
        "keys-generate",
        &["keys", "rotate", instance.join("next.pem").to_str().unwrap()],
    );
    checker.done("keys-list", &["keys", "list"]);
    checker.done("keys-publish", &["keys", "publish"]);
    let key_id = made["key_id"].as_str().unwrap();
    checker.done("keys-remove", &["keys", "remove", "--", key_id]);
    fs::create_dir(instance.join("registry/offers")).unwrap();
    let offer = "shop = 'stripe'\nprices = ['price_1']\nperiod = '1y'\nmodules.acme-forms = ['pdf']\n";
    fs::write(instance.join("registry/offers/forms.toml"), offer).unwrap();
    assert_eq!(checker.done("shop-offers", &["shop", "offers"])[0]["period"], "1y");
    let delivery = json!({ "id": "evt_1", "type": "invoice.paid", "created": 1_700_000_000, "livemode": true,
        "data": { "object": { "id": "in_1", "billing_reason": "subscription_create", "customer_email": "anna@example.com",
            "parent": { "subscription_details": { "subscription": "sub_1" } },
            "lines": { "data": [
                { "pricing": { "price_details": { "price": "price_1" } }, "quantity": 2, "period": { "end": 1_800_000_000 } },
                { "pricing": { "price_details": { "price": "price_9" } }, "quantity": 1, "period": { "end": 1_800_000_000 } },
            ] } } } });
    let file = instance.join("delivery.json");
    fs::write(&file, delivery.to_string()).unwrap();
    let check = ["shop", "check", "stripe", file.to_str().unwrap()];
    let checked = checker.done("shop-check", &check);
    assert_eq!(checked["licenses"].as_array().unwrap().len(), 2);
    assert_eq!(checked["licenses"][1]["expires"], "2027-01-15");
    assert_eq!(checked["remainder"], json!([{ "kind": "no_offer", "of": "price_9" }]));
    assert!(!checked.to_string().contains("anna"));
    let test = checker.done("shop-check", &[&check[..], &["--mode", "test"]].concat());
    assert_eq!(test["licenses"], json!([]));
    let secret = instance.join("secret.txt");
    fs::write(&secret, "whsec_of_the_test\n").unwrap();
    let output = checker.run(&[&check[..], &["--secret-file", secret.to_str().unwrap()]].concat());
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(
        checker.checked("shop-check", &output)["deliveries"][0]["signature"],
        "there is no header Stripe-Signature"
    );
    checker.fails(3, &["shop", "check", "paddle", file.to_str().unwrap()]);
    checker.fails(2, &["shop", "check", "my-shop", file.to_str().unwrap()]);
    checker.fails(3, &["shop", "regrant", "no-offer"]);
    checker.fails(3, &["shop", "attach", "sub_1", "4f1c9a02"]);
    assert_eq!(
        checker.done("shop-remainder-list", &["shop", "remainder", "list"]),
        json!([])
    );
    assert_eq!(checker.done("shop-sales-list", &["shop", "sales", "list"]), json!([]));
    let waiting = ["shop", "sales", "list", "--waiting"];
    assert_eq!(checker.done("shop-sales-waiting", &waiting), json!([]));
    assert_eq!(checker.done("shop-parked-list", &["shop", "parked", "list"]), json!([]));
    assert_eq!(
        checker.done("parked-retry", &["shop", "parked", "retry", "--all"])["retried"],
        json!([])
    );
    checker.fails(3, &["shop", "parked", "drop", &"0".repeat(32)]);
    assert_eq!(checker.done("webhook-list", &["webhook", "list"]), json!([]));
    let settings = instance.join("countersign.toml");
    let before = fs::read_to_string(&settings).unwrap();
    let webhook = "\n[webhooks.crm]\nurl = \"https://crm.example/in?token=1\"\nevents = [\"site.bound\"]\n";
    fs::write(&settings, before.clone() + webhook).unwrap();
    let made = checker.done("webhook-secret", &["webhook", "secret", "crm"]);
    assert!(made["file"].as_str().unwrap().ends_with("keys/webhooks/crm.secret"));
    checker.fails(3, &["webhook", "secret", "crm"]);
    checker.fails(3, &["webhook", "test", "cmr"]);
    let listed = checker.done("webhook-list", &["webhook", "list"]);
    assert_eq!(listed[0]["origin"], "https://crm.example");
    assert_eq!(
        checker.done("webhook-parked-list", &["webhook", "parked", "list"]),
        json!([])
    );
    assert_eq!(
        checker.done("parked-retry", &["webhook", "parked", "retry", "--all"])["retried"],
        json!([])
    );
    checker.fails(3, &["webhook", "parked", "drop", &"0".repeat(32)]);
    fs::write(&settings, &before).unwrap();
    let built_in = checker.done("mail-preview", &["mail", "preview"]);
    assert_eq!((&built_in["from"], &built_in["texts"]), (&Value::Null, &Value::Null));
    // Without a name in the entry, it is that of the release, as on sites.
    let entry = instance.join("registry/plugins/acme-forms.toml");
    let named = fs::read_to_string(&entry).unwrap();
    fs::write(&entry, named.replace("name = \"Acme Forms\"", "")).unwrap();
    assert!(built_in["text"].as_str().unwrap().contains("Acme Forms"));
    assert_eq!(
        checker.done("mail-preview", &["mail", "preview"])["text"],
        built_in["text"]
    );
    let steps = format!("{named}\n[rollout]\nsteps = [\"0h 2%\", \"72h 100%\"]\n");
    fs::write(&entry, steps).unwrap();
    let rollouts = checker.done("rollout", &["rollout", "acme-forms", "show"]);
    assert_eq!(rollouts["releases"], json!([]));
    for verb in ["pause", "resume", "finish"] {
        checker.fails(3, &["rollout", "acme-forms", verb]);
    }
    fs::write(&entry, named).unwrap();
    let written = checker.done("mail-write-texts", &["mail", "write-texts"]);
    assert_eq!(written["written"].as_array().map(Vec::len), Some(10));
    let kept = checker.done("mail-write-texts", &["mail", "write-texts"]);
    assert_eq!(kept["kept"], written["written"]);
    let own = checker.done("mail-preview", &["mail", "preview"]);
    assert_eq!(own["text"], built_in["text"]);
    assert!(own["texts"].as_str().unwrap().ends_with("registry/mail"));
    for kind in ["reminder-before", "reminder-after"] {
        let preview = ["mail", "preview", "--kind", kind, "--language", "de"];
        let preview = checker.done("mail-preview", &preview);
        assert!(preview["unsubscribe"].is_string(), "{preview}");
    }
    let preview = checker.done("mail-preview", &["mail", "preview", "--kind", "site-claimed"]);
    assert_eq!(preview["subject"], "Was example.com set up again?");
    checker.fails(2, &["mail", "preview", "--kind", "reminder"]);
    checker.fails(3, &["mail", "reminders"]);
    fs::write(&settings, before.clone() + "\n[mail]\nreminders_before = [7]\n").unwrap();
    let planned = checker.done("mail-reminders", &["mail", "reminders", "--days", "366"]);
    assert!(planned["reminders"].is_array());
    fs::write(&settings, &before).unwrap();
    checker.fails(3, &["mail", "send-test", "you@example.com"]);
    assert_eq!(checker.done("mail-parked-list", &["mail", "parked", "list"]), json!([]));
    let queue = MailQueue::open(&instance.join("store"), Utc::now()).unwrap();
    let license = [LicenseId::from_bytes([7; 32])];
    queue
        .enqueue(&"anna@example.com".parse().unwrap(), &license, "evt_1", Utc::now())
        .unwrap();
    let listed = checker.done("mail-parked-list", &["mail", "parked", "list", "--all"]);
    let mail = listed[0]["id"].as_str().unwrap();
    assert_eq!(
        (&listed[0]["state"], &listed[0]["event"]),
        (&json!("waiting"), &json!("evt_1"))
    );
    assert_eq!(
        checker.done("parked-retry", &["mail", "parked", "retry", "--all"])["retried"],
        json!([mail])
    );
    assert_eq!(
        checker.done("parked-drop", &["mail", "parked", "drop", "--all"])["dropped"],
        json!([]),
        "it waits"
    );
    assert_eq!(
        checker.done("parked-drop", &["mail", "parked", "drop", &mail[..8]])["dropped"],
        json!([mail])
    );
    checker.fails(3, &["mail", "parked", "drop", mail]);
    checker.fails(2, &["mail", "parked", "retry", "0f"]);
    checker.done("doctor", &["doctor"]);
    checker.fails(3, &["bindings", "verify", "--store", "nosuch"]);
    checker.fails(2, &["license", "renew", id, "--expires", "tomorrow"]);

    let of_bindings = bindings();
    let of_statements = statements();
    let of_packages = packages();
    let of_releases = signed_releases();
    let run: BTreeSet<String> = checker
        .verbs
        .into_iter()
        .chain(of_bindings)
        .chain(of_statements)
        .chain(of_packages)
        .chain(of_releases)
        .chain(WITHOUT.map(|(verb, _)| verb.to_owned()))
        .chain(OF_DATABASE.map(str::to_owned))
        .collect();
    assert_eq!(
        run,
        verbs(),
        "each verb is run with --json, or is in WITHOUT or OF_DATABASE"
    );
}

/// The verbs that need a store.
fn bindings() -> BTreeSet<String> {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("sites = 3")]);
    let mut checker = Checker {
        instance: instance.path(),
        page: Page::read(),
        verbs: BTreeSet::new(),
    };
    checker.done("keys-generate", &["keys", "generate", "--issuing"]);
    checker.done("keys-generate", &["keys", "generate", "--references"]);
    // After the keys: a running server reads new ones within a second, and the next commands are faster.
    instance.write("countersign.toml", "[desk]\nlisten = \"127.0.0.1:0\"\n");
    let server = Server::start(&instance);
    checker.done("desk", &["desk"]);
    let create = ["token", "create", "shop", "--scope", "licenses:write"];
    checker.done("token-create", &create);
    checker.fails(3, &create);
    checker.done("token-revoke", &["token", "revoke", "shop"]);
    assert_eq!(checker.done("token-list", &["token", "list"])[0]["name"], "shop");
    let export = instance.file("export.csv");
    let key = "cc22c1ec86304b36883440e2e84cddff";
    let rows = format!("key,expires,modules,mail,reference\n{key},lifetime,forms,a@b.example,order 7\n");
    fs::write(&export, &rows).unwrap();
    let export = export.to_str().unwrap();
    for more in [&["--dry-run"][..], &[], &[]] {
        let arguments = [&["license", "import", export, "--from", "csv"], more].concat();
        checker.done("license-import", &arguments);
    }
    fs::write(export, rows + "short,lifetime,forms,,\n").unwrap();
    let refused = checker.run(&["license", "import", export, "--from", "csv"]);
    assert_eq!(refused.status.code(), Some(3));
    let report = checker.checked("license-import", &refused);
    assert_eq!(report["rejected_rows"][0]["line"], 3);
    let listed = checker.done("license-list", &["license", "list", "--reference", "order 7"]);
    assert_eq!(listed[0]["reference"], "order 7");
    let id = listed[0]["id"].as_str().unwrap();
    let history = checker.done("license-history", &["license", "history", id]);
    assert_eq!(history["events"][0]["by"], "operator:import");
    assert_eq!(checker.done("license-forget", &["license", "forget", id])["texts"], 0);
    let forget = ["license", "forget", "--reference", "order 7"];
    assert_eq!(checker.done("license-forget", &forget)["changed"], true);
    assert_eq!(checker.done("license-forget", &forget)["changed"], false);
    checker.fails(3, &["license", "forget", "--reference", "order 8"]);
    checker.fails(3, &["license", "forget", "--person", "nobody"]);
    let listed = checker.done("license-list", &["license", "list", "--reference", "order 7"]);
    assert!(listed[0].get("reference_erased").is_some(), "{listed}");
    assert_eq!(server.validate(&license, "a.com").code(), "ok");
    assert_eq!(server.validate(&license, "b.com").code(), "ok");
    let adopt = ["license", "import", &*license.id, "--from", "registry"];
    let would = checker.done("license-adopted", &[&adopt[..], &["--dry-run"]].concat());
    assert_eq!((&would["changed"], &would["adopted"]), (&json!(false), &json!(1)));
    let release = ["license", "release", &license.id, "--host", "b.com"];
    assert_eq!(checker.done("license-changed", &release)["changed"], true);
    assert_eq!(checker.done("wait", &["wait"])["in_force"], true);
    let moved = ["license", "move", &license.id, "--from", "a.com", "--to", "b.com"];
    assert_eq!(checker.done("license-changed", &moved)["changed"], true);
    assert_eq!(checker.done("license-changed", &moved)["changed"], false);
    let back = ["license", "move", &license.id, "--from", "b.com", "--to", "a.com"];
    checker.done("license-changed", &back);
    // Of a running server.
    checker.done("license-show", &["license", "show", &license.id]);
    assert_eq!(server.updates(&license, "a.com", "&current_version=1.0").status, 200);
    server.stop();

    let shown = checker.done("license-show", &["license", "show", &license.id]);
    assert_eq!(shown["bindings"].as_array().map(Vec::len), Some(2));
    checker.done("bindings-verify", &["bindings", "verify"]);
    checker.done("bindings-installed", &["bindings", "installed"]);

    // A ledger that lacks what the index knows.
    let ledger = instance.file("store/ledger.jsonl");
    let text = fs::read_to_string(&ledger).unwrap();
    let kept = text.trim_end().rsplit_once('\n').unwrap().0;
    fs::write(&ledger, format!("{kept}\n")).unwrap();
    let refused = checker.fails(3, &["bindings", "rebuild"]);
    let lacking = checker.checked("bindings-rebuild", &refused);
    assert_eq!(lacking["lacking"].as_array().map(Vec::len), Some(1));
    fs::write(&ledger, text).unwrap();

    let made = countersign(&instance)
        .args(["keys", "generate", "--downloads"])
        .output()
        .unwrap();
    assert!(made.status.success());
    checker.done("trace", &["trace", "018f3b2e-7c1a-7000-8000-3f1c2d4e5f60"]);
    checker.done("review", &["review"]);
    let usage = checker.done("usage", &["usage", "acme-forms"]);
    assert_eq!(usage["versions"][0]["version"], "1.0");
    checker.done("usage-sites", &["usage", "acme-forms", "--sites"]);
    let history = checker.done("usage-history", &["usage", "acme-forms", "--history"]);
    assert_eq!(history["history"][0]["counts"]["updates"]["update"], 1, "{history}");
    checker.fails(3, &["usage", "acme-none", "--history"]);
    checker.fails(3, &["usage", "acme-none"]);
    let security = checker.done("security-report", &["security", "report", "acme-forms"]);
    assert_eq!(security["sites"], usage["sites"], "{security}");
    checker.fails(3, &["security", "report", "acme-forms", "9.9"]);
    checker.fails(3, &["security", "report", "acme-none"]);

    checker.done("bindings-rebuild", &["bindings", "rebuild"]);
    checker.done("bindings-compact", &["bindings", "compact"]);
    let exported = countersign(&instance).args(["bindings", "export"]).output().unwrap();
    let lines: Vec<Value> = String::from_utf8(exported.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    lines
        .iter()
        .for_each(|line| checker.page.check("bindings-export", line));
    let every = countersign(&instance)
        .args(["bindings", "export", "--all"])
        .output()
        .unwrap();
    let file = instance.file("events.jsonl");
    fs::write(&file, every.stdout).unwrap();
    let [store, file] = [instance.file("new-store"), file].map(|path| path.to_str().unwrap().to_owned());
    checker.done("bindings-import", &["bindings", "import", &file, "--store", &store]);
    checker.fails(3, &["bindings", "import", &file]);
    let released = |host: &str| lines.iter().find(|line| line["host"] == host).unwrap()["released"].clone();
    assert_eq!((released("a.com"), released("b.com")), (json!(false), json!(true)));
    checker.verbs
}

/// The verb that needs a statement.
fn statements() -> BTreeSet<String> {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    let server = Server::start(&instance);
    let statement = server.validate(&license, "a.com");
    fs::write(instance.file("answer.json"), &statement.body).unwrap();
    let mut checker = Checker {
        instance: instance.path(),
        page: Page::read(),
        verbs: BTreeSet::new(),
    };
    checker.done("keys-publish", &["keys", "publish"]);
    let key = instance.file(&format!(
        "public/keys/{}.pem",
        statement.json()["key_id"].as_str().unwrap()
    ));
    let answer = instance.file("answer.json");
    let verify = ["verify", answer.to_str().unwrap(), "--key", key.to_str().unwrap()];
    assert_eq!(checker.done("verify", &verify)["grants"], true);
    let late = checker.done("verify", &[&verify[..], &["--at", "2100-01-01T00:00:00Z"]].concat());
    assert!(late["objection"].is_string());
    checker.verbs
}

/// The verbs that need a release with signatures. Nothing is signed, so that OpenSSH is not needed.
fn signed_releases() -> BTreeSet<String> {
    let instance = Instance::empty();
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let vector = |name: &str| vectors.join(name).to_str().unwrap().to_owned();
    let keys = fs::read_to_string(vector("release/keys.pub")).unwrap();
    let key = keys.lines().next().unwrap();
    instance.write("countersign.toml", "");
    instance.write(
        "registry/plugins/acme.toml",
        &format!("repository = \"../../plugin.git\"\n[signing]\nkeys = [\"{key}\"]\n"),
    );
    let history = "\n>>> write acme.php\n<?php\n/*\nPlugin Name: Acme\nVersion: 1.1.0\n*/\n\n>>> tag v1.1.0\n";
    make_repository(history, &instance.file("plugin.git"));
    let mut checker = Checker {
        instance: instance.path(),
        page: Page::read(),
        verbs: BTreeSet::new(),
    };
    let shown = checker.done("sign", &["sign", "acme", "1.1.0", "--dry-run"]);
    assert_eq!(
        (&shown["dry_run"], &shown["statement"]["number"]),
        (&json!(true), &json!(1))
    );
    checker.fails(3, &["sign", "acme", "9.9.9", "--dry-run"]);
    let package = vector("package/marked.zip");
    let statement = vector("release/statement.json");
    let signatures = vector("release/anna.sig");
    let signers = vector("release/keys.pub");
    let verify = [
        "verify",
        "--release",
        &package,
        "--statement",
        &statement,
        "--signatures",
        &signatures,
    ];
    let verified = checker.done("verify-release", &[&verify[..], &["--signers", &signers]].concat());
    assert_eq!(verified["signed_by"], json!(["anna@acme"]));
    checker.verbs
}

/// The verbs that need a package.
fn packages() -> BTreeSet<String> {
    let folder = tempfile::tempdir().unwrap();
    let made = |name: &str, php: &str| {
        let path = folder.path().join(name);
        let top = "acme".parse().unwrap();
        let mut writer = PackageWriter::new(File::create(&path).unwrap(), &top, Utc::now());
        for (name, text) in [("acme.php", php), ("readme.txt", "Acme")] {
            writer.add(name, text.len() as u64, || Ok(text.as_bytes())).unwrap();
        }
        writer.finish(false).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let newer = made("newer.zip", "<?php\n/* Plugin Name: Acme\nVersion: 1.1.0 */");
    let older = made("older.zip", "<?php\n/* Plugin Name: Acme\nVersion: 1.0.0 */");
    let mut checker = Checker {
        instance: folder.path(),
        page: Page::read(),
        verbs: BTreeSet::new(),
    };
    let checked = checker.done(
        "package-check",
        &["package", "check", &newer, "--plugin", "acme", "--version", "1.1.0"],
    );
    assert_eq!((&checked["problems"], &checked["files"]), (&json!([]), &json!(2)));
    let output = checker.run(&["package", "check", &newer, "--plugin", "other"]);
    assert_eq!(output.status.code(), Some(3));
    let refused = checker.checked("package-check", &output);
    assert_eq!(refused["problems"].as_array().map(Vec::len), Some(1));
    let shown = checker.done("package-show", &["package", "show", &newer]);
    assert_eq!(shown["changes"], json!(null));
    let changed = checker.done("package-show", &["package", "show", &newer, "--against", &older]);
    assert_eq!(changed["changes"]["changed"][0]["name"], "acme/acme.php");
    fs::create_dir_all(folder.path().join("registry/plugins")).unwrap();
    fs::write(
        folder.path().join("registry/plugins/acme.toml"),
        "[package]\nfrom = \"file\"\n",
    )
    .unwrap();
    let added = checker.done("package-add", &["package", "add", "acme", "1.1.0", &newer]);
    assert_eq!(added["change"], "added");
    let again = checker.done("package-add", &["package", "add", "acme", "1.1.0", &newer]);
    assert_eq!(again["change"], "already_there");
    checker.fails(3, &["package", "add", "acme", "1.1.0", &older]);
    let listed = checker.done("package-list", &["package", "list"]);
    assert_eq!(
        (&listed[0]["plugin"], &listed[0]["state"]),
        (&json!("acme"), &json!("waiting"))
    );
    fs::write(folder.path().join("none.zip"), "none").unwrap();
    checker.fails(
        3,
        &["package", "show", folder.path().join("none.zip").to_str().unwrap()],
    );
    checker.verbs
}

#[test]
fn a_schema_of_the_page_refuses_a_member_that_it_does_not_list() {
    let page = Page::read();
    let error = json!({ "error": "e", "caused_by": [], "hint": null, "exit_code": 3 });
    page.check("error", &error);
    for name in page
        .0
        .keys()
        .filter(|name| !matches!(**name, "license_key" | "license_id" | "license"))
    {
        let one = |document: &Value| {
            if page.0[name]["type"] == "array" {
                json!([document])
            } else {
                document.clone()
            }
        };
        let fault = page.fault(name, &one(&json!({ "unheard_of": 1 }))).unwrap_or_default();
        assert!(!fault.is_empty(), "{name} takes a member that nobody listed");
    }
    let mut more = error;
    more["unheard_of"] = json!(1);
    assert!(page.fault("error", &more).unwrap().contains("unheard_of"));
}
