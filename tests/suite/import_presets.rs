//! `license import --from`: the exports of each system, several rows of one key, what a person says of a file, and files that
//! nobody should import.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};

use crate::imports::{EDD_HEADER, LATER, counts, document, edd_row, import_text, instance, key, output_text};
use crate::support::instance::sha256;
use crate::support::server::{countersign, updates};
use crate::support::{License, Server, get, request};

const LMFWC_HEADER: &str = "order_id,product_id,license_key,created_at,expires_at,valid_for,source,status\n";

/// The plugin of the instance is product 12 of every system, `p-12` of those that have other ids.
const PRODUCT: &str = "p-12=forms";

fn freemius_key(number: usize) -> String {
    format!("sk_{}%^+;~!", &sha256(&format!("freemius {number}"))[..24])
}

fn freemius(number: usize) -> Value {
    json!({
        "id": number.to_string(), "plugin_id": "12", "user_id": "5", "plan_id": "3", "pricing_id": "4",
        "quota": if number.is_multiple_of(2) { json!(null) } else { json!(3) }, "activated": 1, "activated_local": null,
        "expiration": if number.is_multiple_of(3) { json!(null) } else { json!("2099-12-31 10:00:00") },
        "secret_key": freemius_key(number), "is_free_localhost": true, "is_block_features": !number.is_multiple_of(5),
        "is_cancelled": number.is_multiple_of(7), "created": "2025-01-02 03:04:05", "updated": null,
    })
}

fn lemon_squeezy(number: usize) -> Value {
    json!({
        "type": "license-keys", "id": number.to_string(), "attributes": {
            "store_id": 1, "order_id": number, "product_id": 12, "user_name": "Ann O'Hara", "user_email": "ann@buyer.example",
            "key": uuid(&format!("lemon {number}")), "activation_limit": if number.is_multiple_of(2) { json!(null) } else { json!(5) },
            "instances_count": 0, "disabled": 0, "status": if number.is_multiple_of(2) { "inactive" } else { "active" },
            "expires_at": if number.is_multiple_of(3) { json!(null) } else { json!("2099-12-31T14:15:07.000000Z") },
            "created_at": "2025-05-24T14:15:07.000000Z",
        },
    })
}

fn surecart(number: usize) -> Value {
    json!({
        "id": uuid(&format!("license {number}")), "object": "license", "activations_count": 0, "activation_limit": null,
        "key": uuid(&format!("surecart {number}")), "revokes_at": if number.is_multiple_of(3) { json!(null) } else { json!(4_102_444_799_u64) },
        "status": if number.is_multiple_of(7) { "revoked" } else { "inactive" },
        "customer": { "id": "c", "email": "ann@buyer.example", "name": "Ann" },
        "purchase": { "id": uuid(&format!("purchase {number}")), "product": "p-12" }, "created_at": 1_769_674_954,
    })
}

fn keygen(number: usize) -> Value {
    let status = ["ACTIVE", "INACTIVE", "EXPIRING", "SUSPENDED", "BANNED"][number % 5];
    json!({
        "id": uuid(&format!("keygen id {number}")), "type": "licenses", "attributes": {
            "name": null, "key": format!("{}-V3", uuid(&format!("keygen {number}")).to_uppercase()), "status": status,
            "expiry": if number.is_multiple_of(3) { json!(null) } else { json!("2099-12-31T21:00:00.000Z") },
            "maxMachines": 2, "created": "2025-01-02T20:26:53.464Z",
        },
        "relationships": { "product": { "data": { "type": "products", "id": "p-12" } }, "policy": { "data": { "id": "q" } } },
    })
}

fn uuid(of: &str) -> String {
    let hex = sha256(of);
    format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..32]
    )
}

/// Pages of an API of at most a hundred licenses, one after the other.
fn pages(list: &str, each: usize, license: fn(usize) -> Value) -> String {
    let numbers: Vec<usize> = (0..each).collect();
    numbers
        .chunks(100)
        .map(|page| {
            json!({ list: page.iter().copied().map(license).collect::<Vec<_>>(), "meta": {} }).to_string() + "\n"
        })
        .collect()
}

/// The export of a system with so many licenses.
fn export(system: &str, each: usize) -> String {
    match system {
        "edd" => (0..each).fold(EDD_HEADER.to_owned(), |text, number| {
            let status = ["active", "inactive", "disabled"][number % 3];
            text + &edd_row(
                number,
                status,
                "Acme Forms",
                ["0", LATER][number % 2],
                "0",
                &format!("edd-{number}.example/"),
            )
        }),
        "lmfwc" => (0..each).fold(LMFWC_HEADER.to_owned(), |mut text, number| {
            let end = ["2099-12-31 00:00:00,,", ",365,", ",,"][number % 3];
            let status = ["SOLD", "DELIVERED", "INACTIVE"][number % 3];
            let key = uuid(&format!("lmfwc {number}"));
            writeln!(text, "{number},12,{key},2026-01-02 03:04:05,{end}1,{status}").unwrap();
            text
        }),
        "freemius" => pages("licenses", each, freemius),
        "lemon-squeezy" => pages("data", each, lemon_squeezy),
        "surecart" => pages("data", each, surecart),
        "keygen" => pages("data", each, keygen),
        _ => (each..2 * each).fold(
            "key,expires,sites,modules,customer,subscription,order\n".to_owned(),
            |mut text, number| {
                writeln!(
                    text,
                    "{},2099-12-31,unlimited,forms,a@b.example,sub_{number},{number}",
                    key(number)
                )
                .unwrap();
                text
            },
        ),
    }
}

const SYSTEMS: [&str; 7] = ["edd", "lmfwc", "freemius", "lemon-squeezy", "surecart", "keygen", "csv"];

#[test]
fn ten_thousand_licenses_of_each_system_are_imported_and_no_second_import_changes_one() {
    const EACH: usize = 10_000;
    let instance = instance();
    let server = Server::start_with(&instance, &["--foreign-keys", "true"]);
    for system in SYSTEMS {
        let text = export(system, EACH);
        let import = |more: &[&str]| {
            let flags = ["--from", system, "--json", "--map", PRODUCT];
            let started = Instant::now();
            let output = import_text(&instance, text.as_bytes(), &[&flags[..], more].concat());
            (output, started.elapsed())
        };
        let sites: &[&str] = if system == "lmfwc" { &["--sites", "3"] } else { &[] };
        let (previewed, preview) = import(&[sites, &["--dry-run"]].concat());
        assert_eq!(
            counts(&previewed)[..3],
            [EACH as u64, 0, 0],
            "{system}: {}",
            output_text(&previewed)
        );
        assert_eq!(document(&previewed)["licenses"].as_array().unwrap().len(), 10);
        let (imported, took) = import(sites);
        let bound = if system == "edd" { EACH as u64 } else { 0 };
        assert_eq!(
            counts(&imported),
            [EACH as u64, 0, 0, bound, 0],
            "{system}: {}",
            output_text(&imported)
        );
        let (again, repeated) = import(sites);
        assert_eq!(
            counts(&again),
            [0, 0, EACH as u64, 0, 0],
            "{system}: {}",
            output_text(&again)
        );
        eprintln!(
            "{system}: {EACH} licenses previewed in {preview:?}, imported in {took:?}, imported again in {repeated:?}"
        );
    }
    let found = |key: &str| {
        let license = License {
            key: key.to_owned(),
            id: sha256(&key.to_lowercase()),
        };
        let answer = server.validate(&license, "a.example");
        (
            answer.code(),
            answer.json()["expires"].as_str().unwrap_or_default().to_owned(),
        )
    };
    let ok = |day: &str| ("ok".to_owned(), day.to_owned());
    assert_eq!(found(&uuid("lmfwc 0")), ok("2099-12-31"));
    assert_eq!(found(&uuid("lmfwc 2")).0, "suspended");
    assert_eq!(found(&freemius_key(9_999)), ok("9999-12-31"));
    assert_eq!(found(&freemius_key(7)).0, "suspended");
    assert_eq!(found(&uuid("lemon 9998")), ok("2099-12-31"));
    assert_eq!(found(&uuid("surecart 1")), ok("2099-12-31"));
    assert_eq!(found(&uuid("surecart 7")).0, "revoked");
    assert_eq!(found(&format!("{}-v3", uuid("keygen 1"))), ok("2099-12-31"));
    assert_eq!(found(&format!("{}-V3", uuid("keygen 4").to_uppercase())).0, "revoked");
    assert_eq!(found(&key(10_001)), ok("2099-12-31"));
}

#[test]
fn the_example_of_each_system_on_the_page_is_imported() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/import.md")).unwrap();
    let instance = instance();
    Server::start(&instance).stop();
    let products = [
        "0dbe616f-ddc8-4e2e-9b57-bb73360833a3=forms",
        "d471c8a1#70af414b=forms=pdf",
        "12=forms",
    ];
    let maps = products.iter().flat_map(|product| ["--map", product]);
    for system in SYSTEMS {
        let section = page.split(&format!("\n## {system}\n")).nth(1).unwrap();
        let example = section.split("```").nth(1).unwrap();
        let (_, example) = example.split_once('\n').unwrap();
        let flags: Vec<&str> = ["--from", system, "--sites", "3", "--dry-run", "--json"]
            .into_iter()
            .chain(maps.clone())
            .collect();
        let shown = import_text(&instance, example.as_bytes(), &flags);
        assert_eq!(counts(&shown)[..1], [1], "{system}: {}", output_text(&shown));
        let license = &document(&shown)["licenses"][0];
        assert_eq!(
            (&license["status"], &license["expires"]),
            (
                &json!("active"),
                &json!(if system == "lmfwc" { "2027-01-02" } else { "2027-12-31" })
            ),
            "{system}"
        );
    }
}

#[test]
fn a_key_with_signs_works_in_the_header_the_query_the_form_and_for_old_clients() {
    let instance = instance();
    let server = Server::start_with(&instance, &["--foreign-keys", "true", "--compat", "edd"]);
    let signs = [
        "sk_123FGqM456Pa786WtOp%^+67Y+;sX",
        "sk_%41%2B+&=?#/\\\"'<>[]{}|`~!@$*(),.:;",
    ];
    let text: String = signs
        .iter()
        .map(|key| {
            json!({ "key": key, "status": "active", "revokes_at": null, "activation_limit": 9, "product": "p-12" })
                .to_string()
        })
        .collect();
    let imported = import_text(
        &instance,
        text.as_bytes(),
        &["--from", "surecart", "--map", PRODUCT, "--json"],
    );
    assert_eq!(counts(&imported)[..1], [2], "{}", output_text(&imported));
    for (number, key) in signs.into_iter().enumerate() {
        for key in [key.to_owned(), key.to_uppercase()] {
            let license = License {
                id: sha256(&key.to_lowercase()),
                key: key.clone(),
            };
            let site = format!("site-{number}.example");
            assert_eq!(server.validate(&license, &site).code(), "ok", "{key}");
            // The query: percent-encoded once.
            let query = get(
                server.address,
                &updates("acme-forms", &license, &site, "&current_version=0.1"),
            );
            assert_eq!(query.status, 200, "{key}: {}", query.text());
            let bare = format!("/api/v1/updates/acme-forms?site_url={site}&current_version=0.1");
            let credentials = format!("License {key}");
            let header = request(server.address, "GET", &bare, &[("Authorization", &credentials)], b"");
            assert_eq!(header.status, 200, "{key}: {}", header.text());
            let mut form = url::form_urlencoded::Serializer::new(String::new());
            form.extend_pairs([("edd_action", "check_license"), ("license", &key), ("item_id", "12")]);
            form.extend_pairs([("url", format!("https://{site}").as_str())]);
            let form = form.finish();
            let kind = ("Content-Type", "application/x-www-form-urlencoded");
            for answer in [
                request(server.address, "POST", "/", &[kind], form.as_bytes()),
                request(server.address, "GET", &format!("/?{form}"), &[], b""),
            ] {
                assert_eq!(answer.json()["license"], "valid", "{key}: {}", answer.text());
            }
        }
    }
    let log = server.log();
    assert!(!log.contains("sk_"), "{log}");
}

#[test]
fn several_rows_of_one_key_are_one_license_or_are_refused_by_their_lines() {
    let instance = instance();
    Server::start(&instance).stop();
    let import = |rows: &str, more: &[&str]| {
        let text = format!("key,expires,modules,sites,hosts,order\n{rows}");
        import_text(
            &instance,
            text.as_bytes(),
            &[&["--from", "csv", "--json"], more].concat(),
        )
    };
    let row = |number: usize, expires: &str, module: &str, sites: &str| {
        format!("{},{expires},{module},{sites},,{module}\n", key(number))
    };
    let same = row(1, "2099-01-01", "forms", "5") + &row(2, "never", "forms", "1") + &row(1, "2099-01-01", "maps", "5");
    let merged = import(&same, &["--dry-run"]);
    let document_of = document(&merged);
    assert_eq!(
        (counts(&merged)[0], &document_of["merged_rows"]),
        (2, &json!(1)),
        "{}",
        output_text(&merged)
    );
    let first = document_of["licenses"]
        .as_array()
        .unwrap()
        .iter()
        .find(|license| license["line"] == 2)
        .unwrap();
    assert_eq!(first["modules"], json!({ "forms": [], "maps": [] }));
    assert_eq!(counts(&import(&same, &[])), [2, 0, 0, 0, 0]);
    assert_eq!(counts(&import(&same, &[])), [0, 0, 2, 0, 0]);

    // An end that differs is a decision: nothing is taken until it is made.
    let differ =
        row(3, "2099-01-01", "forms", "5") + &row(3, "2098-01-01", "maps", "3") + &row(4, "never", "forms", "1");
    let refused = import(&differ, &[]);
    assert_eq!(counts(&refused), [1, 0, 0, 0, 2], "{}", output_text(&refused));
    for row in document(&refused)["rejected_rows"].as_array().unwrap() {
        assert!(
            row["reason"]
                .as_str()
                .unwrap()
                .starts_with("lines 2 and 3 have the same key and different ends"),
            "{row}"
        );
    }
    for (end, day) in [("earliest", "2098-01-01"), ("latest", "2099-01-01")] {
        let merged = import(&differ, &["--merge", end, "--dry-run"]);
        let first = &document(&merged)["licenses"][0];
        assert_eq!(
            (&first["expires"], &first["sites"]),
            (&json!(day), &json!(3)),
            "{}",
            output_text(&merged)
        );
    }

    // A row that cannot be taken keeps the others of its key: a license without a module would be another one.
    let half = row(5, "2099-01-01", "forms", "5") + &row(5, "soon", "maps", "5");
    let refused = import(&half, &[]);
    assert_eq!(counts(&refused), [0, 0, 0, 0, 2], "{}", output_text(&refused));
    assert!(
        output_text(&refused).contains("line 3 has the same key, and cannot be taken"),
        "{}",
        output_text(&refused)
    );

    let mut licenses = [freemius(1), freemius(1)];
    licenses[1].as_object_mut().unwrap().remove("quota");
    let text = json!({ "licenses": licenses }).to_string();
    let refused = import_text(&instance, text.as_bytes(), &["--from", "freemius", "--json"]);
    assert_eq!(counts(&refused), [0, 0, 0, 0, 2], "{}", output_text(&refused));

    // Case does not matter to the server, so two such keys would be one license.
    let upper = row(6, "never", "forms", "1").replace(&key(6), &key(6).to_uppercase());
    let cases = row(6, "never", "forms", "1") + &upper + &row(7, "never", "forms", "1");
    let refused = import(&cases, &[]);
    assert_eq!(counts(&refused), [1, 0, 0, 0, 2], "{}", output_text(&refused));
    for row in document(&refused)["rejected_rows"].as_array().unwrap() {
        assert!(
            row["reason"]
                .as_str()
                .unwrap()
                .contains("lines 2 and 3 have keys that differ in case only"),
            "{row}"
        );
    }
}

#[test]
fn a_dry_run_shows_the_first_licenses_and_counts_what_no_license_has_here() {
    let instance = instance();
    Server::start(&instance).stop();
    let mut text = LMFWC_HEADER.to_owned();
    for number in 0..12 {
        writeln!(text, "{number},12,{},2098-01-01,,365,1,SOLD", key(number)).unwrap();
    }
    writeln!(text, "99,12,{},2026-01-01,,,1,ACTIVE", key(99)).unwrap();
    writeln!(text, "98,12,{},2026-01-01,,,1,INACTIVE", key(98)).unwrap();
    let needs = import_text(&instance, text.as_bytes(), &["--from", "lmfwc", "--dry-run"]);
    assert_eq!(needs.status.code(), Some(2), "{}", output_text(&needs));
    assert!(output_text(&needs).contains("--sites N"), "{}", output_text(&needs));
    let shown = import_text(
        &instance,
        text.as_bytes(),
        &["--from", "lmfwc", "--sites", "3", "--dry-run"],
    );
    let page = String::from_utf8(shown.stdout.clone()).unwrap();
    let table: Vec<&str> = page
        .lines()
        .skip_while(|line| !line.starts_with("LINE"))
        .take(12)
        .collect();
    assert_eq!(table.len(), 12, "{page}");
    assert!(
        table[0]
            .split_whitespace()
            .eq(["LINE", "ID", "RESULT", "STATUS", "EXPIRES", "SITES", "BOUND", "MODULES"]),
        "{page}"
    );
    let cells: Vec<&str> = table[1].split_whitespace().collect();
    assert_eq!((cells[0], cells[2]), ("2", "new"));
    assert_eq!(cells[3..], ["active", "2099-01-01", "3", "0", "forms"], "{page}");
    assert!(table[11].is_empty(), "ten licenses: {page}");
    for expected in [
        "14 rows: 13 new",
        "13  no number of sites: 3",
        "1  no end: lifetime",
        "1  rows with the status \"active\"",
        "13  order",
        "1 license ends never.",
    ] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    assert!(!page.contains(&key(0)), "{page}");
    let as_json = document(&import_text(
        &instance,
        text.as_bytes(),
        &["--from", "lmfwc", "--sites", "3", "--dry-run", "--json"],
    ));
    assert_eq!(
        (&as_json["skipped_rows"], &as_json["lifetime_licenses"]),
        (&json!(1), &json!(1))
    );
    let stock = import_text(
        &instance,
        text.as_bytes(),
        &["--from", "lmfwc", "--sites", "3", "--status", "ACTIVE=active", "--json"],
    );
    assert_eq!(counts(&stock), [14, 0, 0, 0, 0], "{}", output_text(&stock));
}

#[test]
fn rejected_licenses_of_an_api_can_be_mended_and_imported() {
    let instance = instance();
    Server::start(&instance).stop();
    let mut licenses = [freemius(1), freemius(2), freemius(3), freemius(4)];
    licenses[1]["plugin_id"] = json!(99);
    licenses[2]["expiration"] = json!("31/12/2099");
    licenses[3].as_object_mut().unwrap().remove("quota");
    let text = serde_json::to_string_pretty(&json!({ "licenses": licenses, "count": 4 })).unwrap() + "\n7\n";
    let rejects = instance.file("rejects.json");
    let flags = ["--from", "freemius", "--json", "--rejects", rejects.to_str().unwrap()];
    let imported = import_text(&instance, text.as_bytes(), &flags);
    assert_eq!(counts(&imported), [1, 0, 0, 0, 4], "{}", output_text(&imported));
    assert_eq!(fs::metadata(&rejects).unwrap().permissions().mode() & 0o777, 0o600);
    let reasons: Vec<String> = document(&imported)["rejected_rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| format!("{}: {}", row["line"], row["reason"].as_str().unwrap()))
        .collect();
    for (reason, expected) in reasons.iter().zip([
        "2: member \"plugin_id\": no plugin entry has this product",
        "3: member \"expiration\": 31/12/2027 and 12/31/2027 look alike",
        "4: member \"quota\": it is missing",
        "5: it is no object",
    ]) {
        assert!(reason.starts_with(expected), "{reason}");
    }
    let mended = fs::read_to_string(&rejects)
        .unwrap()
        .replace("\"plugin_id\":99", "\"plugin_id\":12");
    let mended = mended
        .replace("\"secret_key\":", "\"quota\":1,\"secret_key\":")
        .replacen("\"quota\":1,", "", 2);
    let again = import_text(
        &instance,
        mended.as_bytes(),
        &["--from", "freemius", "--date-format", "dmy", "--json"],
    );
    assert_eq!(counts(&again), [3, 0, 0, 0, 1], "{mended}: {}", output_text(&again));
}

#[test]
fn a_product_is_named_by_its_number_or_price_too() {
    let instance = instance();
    Server::start(&instance).stop();
    let text = format!(
        "key,expires,product_id,price\n{},never,77,1\n{},never,77,2\n{},never,77,\n{},never,12,5\n",
        key(1),
        key(2),
        key(3),
        key(4)
    );
    let maps = ["--map", "77=forms", "--map", "77#2=forms=pdf;maps"];
    let shown = import_text(
        &instance,
        text.as_bytes(),
        &[&["--from", "csv", "--dry-run", "--json"], &maps[..]].concat(),
    );
    let document = document(&shown);
    let modules: Vec<&Value> = document["licenses"]
        .as_array()
        .unwrap()
        .iter()
        .map(|license| &license["modules"])
        .collect();
    let plain = json!({ "forms": [] });
    assert_eq!(
        modules,
        [&plain, &json!({ "forms": ["pdf"], "maps": [] }), &plain, &plain],
        "{}",
        output_text(&shown)
    );
    assert!(
        document["not_taken_over"]
            .as_array()
            .unwrap()
            .contains(&json!({ "what": "price", "rows": 2 })),
        "{document}"
    );
}

/// A file, the flags behind `--from`, and what is reported.
type Hostile = (Vec<u8>, &'static [&'static str], &'static str);

/// Files that nobody should import, each with the row that is reported.
fn hostile() -> Vec<Hostile> {
    let key = key(1);
    let csv = |row: &str| format!("key,expires,modules\n{row}\n").into_bytes();
    let row = |rest: &str| csv(&format!("{key},{rest}"));
    let bytes = |row: &[u8]| [&b"key,expires,modules\n"[..], row].concat();
    let lemon = |change: fn(&mut Value)| {
        let mut license = lemon_squeezy(1);
        change(&mut license);
        json!({ "data": [lemon_squeezy(2), license] })
            .to_string()
            .replace("},{", "},\n{")
            .into_bytes()
    };
    const CSV: &[&str] = &["csv"];
    const LEMON: &[&str] = &["lemon-squeezy"];
    vec![
        (
            row("31/12/2099,forms"),
            CSV,
            "line 2: column \"expires\": 31/12/2027 and 12/31/2027 look alike",
        ),
        (
            row("31.12.2099,forms"),
            CSV,
            "line 2: column \"expires\": 31/12/2027 and 12/31/2027 look alike",
        ),
        (
            row("12/31/2099,forms"),
            &["csv", "--date-format", "dmy"],
            "line 2: column \"expires\": it is no date in the order",
        ),
        (
            row("1/2/27,forms"),
            &["csv", "--date-format", "mdy"],
            "line 2: column \"expires\": it is no date in the order",
        ),
        (
            row("2099-02-30,forms"),
            CSV,
            "line 2: column \"expires\": expected a date",
        ),
        (row("46387,forms"), CSV, "line 2: column \"expires\": expected a date"),
        (
            row("99999999999999999999,forms"),
            CSV,
            "line 2: column \"expires\": expected a date",
        ),
        (row("-1,forms"), CSV, "line 2: column \"expires\": expected a date"),
        (
            row("+10000-01-01,forms"),
            CSV,
            "line 2: column \"expires\": expected a date",
        ),
        (
            row("2099-01-01\0,forms"),
            CSV,
            "line 2: column \"expires\": expected a date",
        ),
        (row(",forms"), CSV, "line 2: column \"expires\": it is empty: --no-end"),
        (
            csv("0123456789abc\0def,never,forms"),
            CSV,
            "line 2: column \"key\": the key has a blank",
        ),
        (
            csv("short,never,forms"),
            CSV,
            "line 2: column \"key\": the key has fewer than 16",
        ),
        (
            csv(&format!("{},never,forms", "k".repeat(129))),
            CSV,
            "line 2: column \"key\": the key has more than 128",
        ),
        (
            csv("=HYPERLINK(\"\"http://x\"\" 1),never,forms"),
            CSV,
            "line 2: column \"key\": the key has a blank",
        ),
        (
            csv("\"=\"\"0123456789abcdef\"\"\",never,forms"),
            CSV,
            "line 2: column \"key\": it has a sign of a spreadsheet",
        ),
        (
            csv("01234567-89ab–cdef-0123,never,forms"),
            CSV,
            "line 2: column \"key\": the key has a blank",
        ),
        (
            bytes(b"01234567\xff89abcdef,never,forms\n"),
            CSV,
            "line 2: column \"key\": it is not UTF-8",
        ),
        (
            row("never,=cmd|' /C calc'!A0"),
            CSV,
            "line 2: column \"modules\": expected modules",
        ),
        (
            row(&format!("never,{}", "m ".repeat(600_000))),
            CSV,
            "begins in line 2 is longer than",
        ),
        (
            row("never,\"forms"),
            CSV,
            "begins in line 2 has a quote that is not closed",
        ),
        (row("never"), CSV, "line 2: it has 2 cells, and there are 3 columns"),
        (
            row("never,forms,more"),
            CSV,
            "line 2: it has 4 cells, and there are 3 columns",
        ),
        (
            row(&format!("never,forms\n{key},2099-01-01,forms")),
            CSV,
            "lines 2, 3: lines 2 and 3 have the same key",
        ),
        (
            row(&format!("never,forms\n{},never,forms", key.to_uppercase())),
            CSV,
            "lines 2 and 3 have keys that differ in case only",
        ),
        (
            format!("{key},never,forms\n").into_bytes(),
            CSV,
            "the first line has no column for key",
        ),
        (b"\xff\xfek\0e\0y\0".to_vec(), CSV, "the file is UTF-16"),
        (b"\xff\xfe{\0}\0".to_vec(), LEMON, "the file is UTF-16"),
        (
            format!("key,expires,modules,status\n{key},never,forms,private\n").into_bytes(),
            CSV,
            "line 2: column \"status\": \"private\" is unknown",
        ),
        (
            format!("key,expires,modules,sites\n{key},never,forms,-1\n").into_bytes(),
            CSV,
            "line 2: column \"sites\": expected a number",
        ),
        (
            format!("key,expires,modules,hosts\n{key},never,forms,localhost:evil@@\n").into_bytes(),
            CSV,
            "line 2: column \"hosts\": one of its sites",
        ),
        (
            format!("key,expires,modules,order\n{key},never,forms,{key}\n").into_bytes(),
            CSV,
            "line 2: column \"order\": it has a license key",
        ),
        (b"".to_vec(), LEMON, "the file is empty"),
        (
            "[".repeat(200_000).into_bytes(),
            LEMON,
            "line 1, column 200000: the file ends within its JSON",
        ),
        (
            format!("{{\"data\":[{}{}]}}", "[".repeat(100_000), "]".repeat(100_000)).into_bytes(),
            LEMON,
            "license 1: it is no object",
        ),
        (b"{\"data\":[\n{},]}".to_vec(), LEMON, "line 2, column 4: it is no JSON"),
        (
            b"{\"data\":{\"a\":1}}".to_vec(),
            LEMON,
            "line 1: the member \"data\" is no list",
        ),
        (b"{\"data\":[\n\"\xff\"]}".to_vec(), LEMON, "line 2 is not UTF-8"),
        (
            b"{\"errors\":[{\"detail\":\"Unauthenticated.\"}]}".to_vec(),
            LEMON,
            "license 1: member \"attributes.key\": it is missing",
        ),
        (
            lemon(|license| license["attributes"] = json!([])),
            LEMON,
            "license 2: member \"attributes.key\": it is missing",
        ),
        (
            lemon(|license| license["attributes"]["key"] = json!(["a"])),
            LEMON,
            "license 2: member \"attributes.key\": expected a text",
        ),
        (
            lemon(|license| license["attributes"]["expires_at"] = json!("")),
            LEMON,
            "license 2: member \"attributes.expires_at\": it is empty",
        ),
        (
            lemon(|license| license["attributes"]["expires_at"] = json!(true)),
            LEMON,
            "license 2: member \"attributes.expires_at\": expected a date",
        ),
        (
            lemon(|license| license["attributes"]["activation_limit"] = json!(0)),
            LEMON,
            "license 2: member \"attributes.activation_limit\": it is no number",
        ),
        (
            lemon(|license| license["attributes"]["activation_limit"] = json!(1e300)),
            LEMON,
            "license 2: member \"attributes.activation_limit\": expected",
        ),
        (
            lemon(|license| license["attributes"]["status"] = json!("\u{202e}evil")),
            LEMON,
            "license 2: member \"attributes.status\": its word is unknown",
        ),
        (
            lemon(|license| license["attributes"]["product_id"] = json!("12; DROP TABLE")),
            LEMON,
            "license 2: member \"attributes.product_id\": expected a number",
        ),
    ]
}

#[test]
fn hostile_files_are_refused_row_by_row_and_nothing_of_them_is_quoted() {
    let instance = instance();
    Server::start(&instance).stop();
    for (number, (text, flags, expected)) in hostile().into_iter().enumerate() {
        let refused = import_text(&instance, &text, &[&["--from"], flags, &["--dry-run"]].concat());
        let said = output_text(&refused);
        assert_eq!(refused.status.code(), Some(3), "{number} {expected}: {said}");
        assert!(said.contains(expected), "{number} {expected}: {said}");
        for part in [&key(1)[..], "DROP", "calc", "HYPERLINK", "evil", "\0"] {
            assert!(!said.contains(part), "{number} {expected}: {said}");
        }
    }
    let listed = countersign(&instance)
        .args(["license", "list", "--json"])
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&listed.stdout).trim(),
        "[]",
        "{}",
        output_text(&listed)
    );
}
