//! `license import`: keys, dates, limits, statuses and sites of another system, into a ledger with and without a server.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::http::Client;
use crate::support::instance::{LATEST, question, sha256};
use crate::support::server::countersign;
use crate::support::{Instance, License, Server, eventually};

const ON: [&str; 2] = ["--foreign-keys", "true"];

/// A key as EDD makes them.
pub fn key(number: usize) -> String {
    sha256(&format!("license {number}"))[..32].to_owned()
}

pub fn license(number: usize) -> License {
    let key = key(number);
    let id = sha256(&key);
    License { key, id }
}

/// An instance whose plugin `acme-forms` is EDD's download 12, "Acme Forms".
pub fn instance() -> Instance {
    let instance = Instance::new();
    instance.publish(LATEST);
    let file = instance.file("registry/plugins/acme-forms.toml");
    let entry = fs::read_to_string(&file).unwrap();
    let names = "edd_item_id = 12\nedd_item_name = [\"Acme Forms\", \"Acme – Bundle\"]\n";
    fs::write(&file, format!("{names}{entry}")).unwrap();
    instance
}

pub fn import_text(instance: &Instance, text: &[u8], arguments: &[&str]) -> Output {
    let file = instance.file("export.csv");
    fs::write(&file, text).unwrap();
    let mut command = countersign(instance);
    command.args(["license", "import"]).arg(&file).args(arguments);
    command.output().unwrap()
}

pub fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", output_text(output)))
}

pub fn output_text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// New, changed, unchanged, bound, rejected.
pub fn counts(output: &Output) -> [u64; 5] {
    let document = document(output);
    [
        "new_licenses",
        "changed_licenses",
        "unchanged_licenses",
        "sites_bound",
        "rejected",
    ]
    .map(|name| document[name].as_u64().unwrap())
}

pub const EDD_HEADER: &str = "\"License ID\",\"License Key\",\"License Status\",\"Customer ID\",\"Customer Email\",\"Customer Name\",\
                          \"User ID\",\"Product Name\",\"Price ID\",\"Purchase Date\",\"Expiration Date\",\"Activation Limit\",\
                          \"Activation Count\",\"Activated URLs\"\r\n";

/// A row of EDD's export since 3.6.
pub fn edd_row(number: usize, status: &str, product: &str, expires: &str, limit: &str, urls: &str) -> String {
    format!(
        "\"{number}\",\"{}\",\"{status}\",\"3\",\"jane@buyer.example\",\"Jane O\\'Hara, \nDr.\",\"0\",\"{product}\",\"\",\
         \"2025-03-04 05:06:07\",\"{expires}\",\"{limit}\",\"1\",\"{urls}\"\r\n",
        key(number)
    )
}

/// 2099-12-31 in Unix seconds.
pub const LATER: &str = "4102444799";

#[test]
fn an_edd_export_keeps_keys_dates_limits_statuses_and_sites() {
    let instance = instance();
    let file = instance.file("registry/plugins/acme-maps.toml");
    let maps = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("edd_item_name = 'Acme – Bundle'\n{maps}")).unwrap();
    let server = Server::start_with(&instance, &ON);
    let export = [
        EDD_HEADER.to_owned(),
        edd_row(1, "active", "Acme Forms", LATER, "1", "one.example/"),
        edd_row(2, "inactive", "Acme &#8211; Bundle", "0", "0", ""),
        edd_row(3, "expired", "Acme Forms", "1577836799", "1", "three.example/"),
        edd_row(
            4,
            "disabled",
            "Acme Forms",
            LATER,
            "1",
            "four.example/shop/, four.example/blog/",
        ),
        edd_row(
            5,
            "active",
            "Acme Forms",
            LATER,
            "2",
            "a.five.example/, b.five.example/, c.five.example/",
        ),
    ]
    .concat();
    let imported = import_text(&instance, export.as_bytes(), &["--from", "edd", "--json"]);
    assert_eq!(counts(&imported), [5, 0, 0, 6, 0], "{}", output_text(&imported));
    assert!(imported.status.success());
    assert!(!output_text(&imported).contains("buyer.example"));

    // In force on the running server when the command ends.
    let ask = |number: usize, site: &str| server.validate(&license(number), site);
    assert_eq!(ask(1, "one.example").code(), "ok");
    assert_eq!(ask(1, "https://other.example").json()["bound_domain"], "one.example");
    assert_eq!(ask(1, "one.example").json()["expires"], "2099-12-31");
    let bundle = ask(2, "two.example").json();
    assert_eq!(bundle["expires"], "9999-12-31");
    let modules: BTreeSet<&str> = bundle["modules"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert!(modules.len() == 2 && modules.contains("forms"), "{modules:?}");
    assert_eq!(ask(2, "more.example").code(), "ok", "no limit");
    assert_eq!(ask(3, "three.example").code(), "expired");
    assert_eq!(ask(4, "four.example").code(), "suspended");
    for site in ["a.five.example", "b.five.example", "c.five.example"] {
        assert_eq!(ask(5, site).code(), "ok", "all that were active stay so");
    }
    assert_eq!(ask(5, "d.five.example").code(), "bound_elsewhere");
    assert_eq!(server.updates(&license(1), "one.example", "").status, 200);

    let shown = countersign(&instance)
        .args(["license", "show", &key(1), "--json"])
        .output()
        .unwrap();
    let shown = document(&shown);
    assert_eq!(shown["bindings"][0]["bound_at"], "2025-03-04T05:06:07Z", "{shown}");

    let again = import_text(&instance, export.as_bytes(), &["--from", "edd"]);
    assert!(
        again.status.success() && output_text(&again).contains("Everything was imported before."),
        "{}",
        output_text(&again)
    );
    let ledger = fs::read_to_string(instance.file("store/ledger.jsonl")).unwrap();
    assert!(!ledger.contains(&key(1)) && !ledger.contains("buyer.example"));
    assert_eq!(ledger.matches("\"event\":\"license\"").count(), 5);
    assert!(server.stop().success());
    let verified = countersign(&instance).args(["bindings", "verify"]).output().unwrap();
    assert!(verified.status.success(), "{}", output_text(&verified));
    let server = Server::start_with(&instance, &ON);
    assert_eq!(server.validate(&license(5), "b.five.example").code(), "ok");
}

#[test]
fn a_changed_export_changes_what_changed_and_not_what_was_decided_here() {
    let instance = instance();
    Server::start(&instance).stop();
    let row = |number: usize, expires: &str, hosts: &str| format!("{},{expires},forms,{hosts}\n", key(number));
    let import = |rows: &[String]| {
        let text = format!("key,expires,modules,hosts\n{}", rows.concat());
        import_text(&instance, text.as_bytes(), &["--from", "csv", "--json"])
    };
    let first = [
        row(1, "2098-01-01", "a.com"),
        row(2, "2098-01-01", "b.com"),
        row(3, "lifetime", ""),
    ];
    let preview = import_text(
        &instance,
        format!("key,expires,modules,hosts\n{}", first.concat()).as_bytes(),
        &["--from", "csv", "--json", "--dry-run"],
    );
    assert_eq!(counts(&preview), [3, 0, 0, 2, 0]);
    assert_eq!(
        (&document(&preview)["changed"], &document(&preview)["dry_run"]),
        (&false.into(), &true.into())
    );
    assert_eq!(counts(&import(&first)), [3, 0, 0, 2, 0], "the dry run changed nothing");
    assert_eq!(counts(&import(&first)), [0, 0, 3, 0, 0]);

    // Renewed in the shop, and one site more there.
    let renewed = [row(1, "2099-01-01", "a.com c.com"), first[1].clone(), first[2].clone()];
    assert_eq!(counts(&import(&renewed)), [0, 1, 2, 1, 0]);
    assert_eq!(counts(&import(&renewed)), [0, 0, 3, 0, 0]);

    // The vendor decides here: one license is suspended, a site of another is released.
    for arguments in [
        ["license", "suspend", &key(2)[..]].to_vec(),
        vec!["license", "release", &key(1), "--host", "c.com"],
    ] {
        let done = countersign(&instance).args(&arguments).output().unwrap();
        // One site is the default, and this license has two bound.
        assert!(done.status.success(), "{arguments:?}: {}", output_text(&done));
    }
    let same = import(&renewed);
    assert_eq!(counts(&same)[1..4], [0, 3, 0], "{}", output_text(&same));
    let conflict = import(&[renewed[0].clone(), row(2, "2099-06-01", "b.com"), first[2].clone()]);
    assert_eq!(conflict.status.code(), Some(3));
    let rejected = &document(&conflict)["rejected_rows"];
    let reason = rejected
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["line"] == 3)
        .unwrap();
    assert!(
        reason["reason"].as_str().unwrap().contains("changed here since"),
        "{rejected}"
    );
    let server = Server::start_with(&instance, &ON);
    assert_eq!(server.validate(&license(2), "b.com").code(), "suspended");
    assert_eq!(
        server.validate(&license(1), "c.com").code(),
        "bound_elsewhere",
        "it was released here"
    );
    assert_eq!(server.validate(&license(1), "a.com").json()["expires"], "2099-01-01");
}

#[test]
fn what_cannot_be_taken_is_reported_and_can_be_mended_and_imported() {
    let in_file = license(9);
    let instance = instance();
    instance.write_licenses(&[in_file.toml("")]);
    let server = Server::start_with(&instance, &ON);
    let export = [
        EDD_HEADER.to_owned(),
        edd_row(1, "active", "Acme Forms", LATER, "1", ""),
        edd_row(2, "active", "Acme Unknown", LATER, "1", ""),
        edd_row(1, "active", "Acme Forms", LATER, "5", ""),
        edd_row(9, "active", "Acme Forms", LATER, "1", ""),
        edd_row(3, "private", "Acme Forms", LATER, "1", ""),
        edd_row(4, "active", "Acme Forms", "soon", "1", ""),
        edd_row(5, "active", "Acme Forms", LATER, "-1", ""),
        edd_row(6, "active", "Acme Forms", LATER, "1", "not a site!"),
        edd_row(7, "expired", "Acme Forms", LATER, "1", ""),
        "\"8\",\"=1+1+1+1+1+1+1+1 +1\",active,1,a@b.c,A,0,Acme Forms,,2025-01-01,0,1,0,\r\n".to_owned(),
        "too,few\r\n".to_owned(),
    ]
    .concat();
    let mut export = export.into_bytes();
    export.extend(b"\"8\",\"\xff\xfe7890123456789012\",active,1,a@b.c,A,0,Acme Forms,,2025-01-01,0,1,0,\r\n");
    let rejects = instance.file("rejects.csv");
    let flags = ["--from", "edd", "--rejects", rejects.to_str().unwrap()];
    let imported = import_text(&instance, &export, &flags);
    assert_eq!(imported.status.code(), Some(3));
    let text = output_text(&imported);
    for expected in [
        "12 rows: 1 new, 0 changed, 0 as before, 11 not taken.",
        "line 4: column \"Product Name\": no plugin entry",
        "lines 2, 6: lines 2 and 6 have the same key and different numbers of sites: with --merge",
        "its license is in ",
        "\"License Status\": \"private\" is unknown, expected active",
        "\"Expiration Date\": expected a date",
        "\"Activation Limit\": expected a number",
        "\"Activated URLs\": one of its sites",
        "1  expired, and the end is not past: suspended",
        "it has 2 cells, and there are 14 columns",
        "\"License Key\": it is not UTF-8",
        "\"License Key\": the key has a blank",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(
        !text.contains(&key(2)) && !text.contains("buyer.example") && !text.contains("=1+1"),
        "{text}"
    );
    assert_eq!(fs::metadata(&rejects).unwrap().permissions().mode() & 0o777, 0o600);
    let mended = fs::read_to_string(&rejects).unwrap_or_else(|_| {
        let bytes = fs::read(&rejects).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let mended = mended
        .replace("Acme Unknown", "Acme Forms")
        .replace("private", "inactive")
        .replace("soon", LATER)
        .replace(",-1,", ",3,")
        .replace("not a site!", "six.example/");
    let again = import_text(&instance, mended.as_bytes(), &["--from", "edd", "--json"]);
    assert_eq!(counts(&again)[..4], [5, 0, 0, 1], "{}", output_text(&again));
    assert_eq!(server.validate(&license(6), "six.example").code(), "ok");
}

#[test]
fn odd_files_are_read_or_refused_with_a_reason() {
    let instance = instance();
    let server = Server::start_with(&instance, &ON);
    let import =
        |text: &[u8], more: &[&str]| import_text(&instance, text, &[&["--from", "csv", "--json"], more].concat());
    // A byte order mark, CRLF, quoted line ends, other separators and headers, broken UTF-8 where nobody looks.
    let mut text = "\u{feff}Schlüssel;Gültig bis;modules;Notiz\r\n".as_bytes().to_vec();
    text.extend(
        format!(
            "{};2099-01-01;forms=pdf;\"eins\r\nzwei; \"\"drei\"\"\"\r\n",
            key(1).to_uppercase()
        )
        .bytes(),
    );
    text.extend(format!("{};2099-01-01;forms;", key(2)).bytes());
    text.extend(b"\xe4\r\n\r\n");
    text.extend(format!("{};2099-01-01;forms;x", key(3)).bytes());
    let more = [
        "--delimiter",
        ";",
        "--column",
        "key=schlüssel",
        "--column",
        "expires=Gültig bis",
    ];
    let imported = import(&text, &more);
    assert_eq!(counts(&imported), [3, 0, 0, 0, 0], "{}", output_text(&imported));
    assert_eq!(document(&imported)["unused_columns"], serde_json::json!(["Notiz"]));
    assert_eq!(
        server.validate(&license(1), "a.com").json()["features"]["forms"][0],
        "pdf"
    );

    for (text, code, expected) in [
        (&b""[..], 3, "the file is empty"),
        (b"\xff\xfek\0e\0y\0", 3, "UTF-16"),
        (b"key;expires;modules\n", 3, "no column for key, expires, modules"),
        (b"key,expires,modules,key\n", 3, "two columns for key"),
        (b"key,expires,modules\n", 0, "\"rows\": 0"),
    ] {
        let refused = import(text, &[]);
        assert_eq!(refused.status.code(), Some(code), "{}", output_text(&refused));
        assert!(output_text(&refused).contains(expected), "{}", output_text(&refused));
    }
    let folder = countersign(&instance)
        .args(["license", "import", ".", "--from", "csv"])
        .output()
        .unwrap();
    assert_eq!(folder.status.code(), Some(3), "{}", output_text(&folder));
    let pipe = instance.file("pipe");
    rustix_mkfifo(&pipe);
    let refused = countersign(&instance)
        .args(["license", "import"])
        .arg(&pipe)
        .args(["--from", "csv"])
        .output()
        .unwrap();
    assert!(
        refused.status.code() == Some(3) && output_text(&refused).contains("with '-'"),
        "{}",
        output_text(&refused)
    );
    let mut child = countersign(&instance)
        .args(["license", "import", "-", "--from", "csv", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    write!(stdin, "key,expires,modules\n{},2099-01-01,forms\n", key(7)).unwrap();
    drop(stdin);
    assert_eq!(counts(&child.wait_with_output().unwrap()), [1, 0, 0, 0, 0]);

    // A quote that is never closed: what is before it is taken, and the rest is reported.
    let mut endless = format!("key,expires,modules\n{},2099-01-01,forms\n\"", key(8)).into_bytes();
    endless.resize(3 << 20, b'x');
    let cut = import(&endless, &[]);
    assert_eq!(cut.status.code(), Some(3));
    assert_eq!(document(&cut)["new_licenses"], 1);
    assert!(
        output_text(&cut).contains("begins in line 3 is longer than"),
        "{}",
        output_text(&cut)
    );
}

#[test]
fn an_import_that_failed_does_not_say_that_all_was_imported_before() {
    let instance = instance();
    Server::start(&instance).stop();
    let text = format!("{EDD_HEADER}{}", edd_row(1, "active", "Acme Forms", LATER, "3", ""));
    let first = import_text(&instance, text.as_bytes(), &["--from", "edd", "--json"]);
    assert_eq!(counts(&first), [1, 0, 0, 0, 0], "{}", output_text(&first));
    let again = output_text(&import_text(&instance, text.as_bytes(), &["--from", "edd"]));
    assert!(again.contains("Everything was imported before."), "{again}");
    // Nobody listens there.
    let nowhere = ["--from", "edd", "--store", "postgres://localhost:1/countersign"];
    for dry_run in [&[][..], &["--dry-run"]] {
        let failed = import_text(&instance, text.as_bytes(), &[&nowhere, dry_run].concat());
        let text = output_text(&failed);
        assert_eq!(failed.status.code(), Some(4), "{text}");
        assert!(
            !text.contains("imported before") && text.contains("not the whole file"),
            "{text}"
        );
    }
}

fn rustix_mkfifo(path: &std::path::Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

#[test]
fn a_license_with_more_sites_than_a_commit_has_lines_is_taken_whole() {
    let instance = instance();
    let server = Server::start_with(&instance, &ON);
    let hosts: Vec<String> = (0..1_234).map(|number| format!("site-{number}.example")).collect();
    let text = format!(
        "key,expires,modules,sites,hosts\n{},2099-01-01,forms,unlimited,{}\n",
        key(1),
        hosts.join(" ")
    );
    let imported = import_text(&instance, text.as_bytes(), &["--from", "csv", "--json"]);
    assert_eq!(counts(&imported), [1, 0, 0, 1_234, 0], "{}", output_text(&imported));
    assert_eq!(server.validate(&license(1), "site-1233.example").code(), "ok");
    let again = import_text(&instance, text.as_bytes(), &["--from", "csv", "--json"]);
    assert_eq!(counts(&again), [0, 0, 1, 0, 0]);
}

/// Asks for a license that is bound in one of the shapes of EDD's clients: the classic updater posts a form, the newer SDK
/// gets a query, both to the shop's root.
fn ask_as_edds_clients_do(client: &mut Client, turn: usize, license: &License, site: &str) {
    let actions = ["check_license", "activate_license", "get_version"];
    let action = actions[turn / 2 % actions.len()];
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    form.extend_pairs([("edd_action", action), ("license", &license.key), ("item_id", "12")]);
    form.extend_pairs([
        ("item_name", "Acme%20Forms"),
        ("version", "0.1"),
        ("slug", "acme-forms"),
    ]);
    form.extend_pairs([
        ("url", format!("https://{site}").as_str()),
        ("environment", "production"),
    ]);
    let form = form.finish();
    let answer = if turn.is_multiple_of(2) {
        let kind = ("Content-Type", "application/x-www-form-urlencoded");
        client.request("POST", "/", &[kind], form.as_bytes())
    } else {
        client.request("GET", &format!("/?{form}"), &[], b"")
    };
    let answered = answer.json();
    let (field, expected) = match action {
        "get_version" => ("new_version", LATEST),
        _ => ("license", "valid"),
    };
    assert_eq!(answered[field], expected, "{turn} {action}: {answered}");
}

/// Ten thousand licenses of each kind are imported into a running server while another client binds, and validated with the
/// old keys.
#[test]
fn ten_thousand_licenses_of_each_kind_are_imported_beside_binders_and_validated() {
    const EACH: usize = 10_000;
    let binder = License::new();
    let instance = instance();
    instance.write_licenses(&[binder
        .toml("sites = 'unlimited'")
        .replace("'unlimited'", "\"unlimited\"")]);
    let flags = [
        "--requests-per-minute",
        "100000000",
        "--requests-per-license",
        "100000000",
    ];
    let server = Server::start_with(&instance, &[&ON[..], &["--compat", "edd"], &flags].concat());
    let mut edd = EDD_HEADER.to_owned();
    let mut csv = "key,expires,status,sites,modules,hosts,created\n".to_owned();
    for number in 0..EACH {
        edd += &edd_row(
            number,
            "active",
            "Acme Forms",
            LATER,
            "1",
            &format!("edd-{number}.example/"),
        );
        let key = key(EACH + number);
        writeln!(csv, "{key},2099-12-31,active,1,forms,csv-{number}.example,2025-01-01").unwrap();
    }
    let import_started = Instant::now();
    let address = server.address;
    let stop = std::sync::atomic::AtomicBool::new(false);
    let (seconds, mut waits) = thread::scope(|scope| {
        let binding = scope.spawn(|| {
            let mut waits = Vec::new();
            let mut client = Client::connect(address);
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let started = Instant::now();
                let site = format!("bound-{}.example", waits.len());
                let answer = client.post_json("/api/v1/validate-license", &question(&binder, &site));
                assert_eq!(answer.code(), "ok");
                waits.push(started.elapsed());
            }
            waits
        });
        let mut imported = Vec::new();
        for (text, format) in [(&edd, "edd"), (&csv, "csv")] {
            imported.push(import_text(&instance, text.as_bytes(), &["--from", format, "--json"]));
        }
        let seconds = import_started.elapsed();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        for output in &imported {
            assert_eq!(
                counts(output),
                [EACH as u64, 0, 0, EACH as u64, 0],
                "{}",
                output_text(output)
            );
        }
        (seconds, binding.join().unwrap())
    });
    waits.sort_unstable();
    let longest = *waits.last().unwrap();
    let median = waits[waits.len() / 2];
    eprintln!(
        "imported {} licenses in {seconds:?}; {} binders beside it waited {median:?} in the middle and {longest:?} at most",
        2 * EACH,
        waits.len()
    );
    assert!(
        longest < Duration::from_secs(10),
        "a debug build on a busy machine: {longest:?}"
    );

    let mut client = Client::connect(address);
    let mut validated = 0;
    for number in 0..EACH {
        // Every license by an update request, which asks for its binding, and in a shape of EDD's clients; every tenth by a
        // signed validation.
        for (place, site) in [(number, "edd"), (EACH + number, "csv")] {
            let license = license(place);
            let site = format!("{site}-{number}.example");
            let target = crate::support::server::updates("acme-forms", &license, &site, "&current_version=0.1");
            let answer = client.request("GET", &target, &[], b"");
            assert_eq!(answer.status, 200, "{place}: {}", answer.text());
            ask_as_edds_clients_do(&mut client, place, &license, &site);
            if number % 10 == 0 {
                let answer = client.post_json("/api/v1/validate-license", &question(&license, &site));
                assert_eq!(answer.code(), "ok");
            }
            validated += 1;
        }
    }
    assert_eq!(validated, 2 * EACH);
    eventually("the server is ready", || server.part("store")["state"] == "ok");
}
