//! EDD's clients while the database is away: what the node knows is answered, and everything else is 503, which they take for
//! no answer.

use std::fs;
use std::net::SocketAddr;
use std::thread;

use super::database::prepared_cluster;
use crate::support::http::{Response, get, request};
use crate::support::instance::{LATEST, sha256};
use crate::support::server::countersign;
use crate::support::{Instance, License, Server, eventually};

const ACTIONS: [&str; 4] = ["check_license", "activate_license", "deactivate_license", "get_version"];

fn license(number: usize) -> License {
    let key = sha256(&format!("license {number}"))[..32].to_owned();
    let id = sha256(&key);
    License { key, id }
}

/// Asks as the classic client does, with a form, or as the newer one does, with a query.
fn ask(address: SocketAddr, method: &str, action: &str, license: &License, site: &str) -> Response {
    let key = &license.key;
    let fields =
        format!("edd_action={action}&license={key}&item_id=12&url=https%3A%2F%2F{site}&version=1.0.0&slug=acme");
    match method {
        "GET" => get(address, &format!("/?{fields}")),
        _ => {
            let kind = [("Content-Type", "application/x-www-form-urlencoded")];
            request(address, "POST", "/", &kind, fields.as_bytes())
        }
    }
}

/// Adds a license of the old shop to the ledger.
fn import(instance: &Instance, store: &str, rows: &[(&License, &str, &str)]) {
    let mut text = "key,expires,modules\n".to_owned();
    for (license, expires, modules) in rows {
        text += &format!("{},{expires},{modules}\n", license.key);
    }
    let file = instance.file("export.csv");
    fs::write(&file, text).unwrap();
    let mut command = countersign(instance);
    command.args(["--store", store, "license", "import"]).arg(&file);
    let output = command.args(["--from", "csv"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A question, and what of the answer must be there: the status, and a member with its value.
type Row<'a> = (&'a str, &'a License, &'a str, u16, Option<(&'a str, &'a str)>);

#[test]
fn while_the_database_is_away_edds_clients_hear_yes_from_memory_or_nothing() {
    let mut cluster = prepared_cluster();
    let [in_file, in_ledger, expired, unknown, other] = [0, 1, 2, 3, 4].map(license);
    let instance = Instance::with_licenses(&[in_file.toml("sites = 2")]);
    let entry = fs::read_to_string(instance.file("registry/plugins/acme-forms.toml")).unwrap();
    instance.write(
        "registry/plugins/acme-forms.toml",
        &format!("edd_item_id = 12\n{entry}"),
    );
    let store = cluster.url("node");
    import(
        &instance,
        &store,
        &[
            (&in_ledger, "2099-12-31", "forms"),
            (&expired, "2001-12-31", "forms"),
            (&other, "2099-12-31", "maps"),
        ],
    );
    let flags = ["--store", &store, "--foreign-keys", "true", "--compat", "edd"];
    let server = Server::start_command(countersign(&instance), &flags);
    for license in [&in_file, &in_ledger] {
        let bound = ask(server.address, "POST", "activate_license", license, "bound.example");
        assert_eq!(bound.json()["license"], "valid", "{}", bound.text());
    }
    let not_covered = ask(server.address, "GET", "check_license", &other, "bound.example");
    assert_eq!(not_covered.json()["license"], "invalid_item_id");
    let over = ask(server.address, "GET", "check_license", &expired, "bound.example");
    assert_eq!(over.json()["license"], "expired");

    let mut rows: Vec<Row<'_>> = Vec::new();
    for license in [&in_file, &in_ledger] {
        rows.extend([
            (
                "check_license",
                license,
                "bound.example",
                200,
                Some(("license", "valid")),
            ),
            (
                "activate_license",
                license,
                "bound.example",
                200,
                Some(("license", "valid")),
            ),
            (
                "get_version",
                license,
                "bound.example",
                200,
                Some(("new_version", LATEST)),
            ),
            // It would change the ledger.
            ("deactivate_license", license, "bound.example", 503, None),
        ]);
        rows.extend(ACTIONS.map(|action| (action, license, "new.example", 503, None)));
    }
    // Somebody may have renewed the first one, sold the second, and let the third have another plugin.
    for license in [&expired, &unknown, &other] {
        rows.extend(ACTIONS.map(|action| (action, license, "bound.example", 503, None)));
    }
    for freezes in [false, true] {
        if freezes {
            cluster.freeze();
        } else {
            cluster.kill();
        }
        // Together: each that cannot be asked takes its whole time.
        thread::scope(|scope| {
            for (row, method) in rows.iter().flat_map(|row| [(row, "GET"), (row, "POST")]) {
                scope.spawn(move || {
                    let (action, license, site, status, member) = *row;
                    let answer = ask(server.address, method, action, license, site);
                    let what = format!("{method} {action} {} {site}: {}", license.id, answer.text());
                    assert_eq!(answer.status, status, "{what}");
                    match member {
                        Some((name, value)) => assert_eq!(answer.json()[name], value, "{what}"),
                        None => {
                            assert_eq!(answer.code(), "store_unavailable", "{what}");
                            assert!(answer.header("retry-after").is_some(), "{what}");
                        }
                    }
                });
            }
        });
        if freezes {
            cluster.thaw();
        } else {
            cluster.restart();
        }
        eventually("a no is said again", || {
            let answer = ask(server.address, "POST", "check_license", &unknown, "bound.example");
            answer.status == 200 && answer.json()["license"] == "invalid"
        });
    }
    let checked = ask(server.address, "GET", "check_license", &in_ledger, "bound.example");
    assert_eq!(checked.json()["license"], "valid", "nothing was given back");
    let bound = ask(server.address, "GET", "activate_license", &in_file, "new.example");
    assert_eq!(bound.json()["license"], "valid", "{}", bound.text());
}
