//! A license with 20,000 sites: what one of them asks costs as much as that of a license with one site.

use std::fs;
use std::sync::Arc;

use chrono::{DateTime, NaiveDate};
use countersign_ledger::{ImportRequest, Ledger, LicenseImport};
use countersign_model::issued_license::Hex128;
use countersign_model::license::{Details, License as ModelLicense, LicenseStatus, SiteLimit};
use countersign_model::license_key::LicenseKey;
use countersign_model::site_host::SiteHost;

use crate::hosted::{SECRET, hosting, link_of, put_secret};
use crate::support::http::Client;
use crate::support::instance::{LATEST, question};
use crate::support::server::{countersign, updates};
use crate::support::{Instance, License, Server};

/// A kind of request: its name, method, target, headers and body, and the status of its answer.
type Kind<'a> = (&'static str, &'a str, &'a str, &'a [(&'a str, &'a str)], &'a str, u16);

const MANY: usize = 20_000;

/// Requests of each kind. Each took 3 ms more of a release build when every site was looked at.
const ASKED: usize = 300;

fn site(number: usize) -> String {
    format!("site-{number}.example")
}

/// Has the ledger bind all sites of a license.
fn bind(store: &Ledger, license: &License, sites: usize) {
    let key: LicenseKey = license.key.parse().unwrap();
    let now = DateTime::from_timestamp(1_700_000_000, 0).unwrap();
    let import = |sites: Vec<SiteHost>, limit: u32| LicenseImport {
        license: ModelLicense {
            id: key.id(),
            status: LicenseStatus::Active,
            expires: NaiveDate::from_ymd_opt(2099, 12, 31).unwrap(),
            modules: Arc::new([("forms".parse().unwrap(), Vec::new())].into()),
            sites: SiteLimit::Limited(limit.try_into().unwrap()),
            grace_period_hours: None,
            details: Details::default(),
            is_declared: false,
        },
        reference: None,
        holder: None,
        content: Hex128([1; 16]),
        sites: sites.into_iter().map(|host| (host, now)).collect(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let hosts: Vec<SiteHost> = (0..sites).map(|number| site(number).parse().unwrap()).collect();
    for part in hosts.chunks(400) {
        let licenses = vec![import(part.to_vec(), sites as u32)];
        let outcomes = runtime.block_on(store.import(ImportRequest { licenses, now })).unwrap();
        assert_eq!(outcomes[0].bound, part.len());
    }
}

/// What the server has computed since its start, in hundredths of a second (proc_pid_stat(5)).
fn computed(server: &Server) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", server.pid())).unwrap();
    let fields: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// What the kinds of requests cost, each about a site that has a seat, or about a stranger at a license that is full.
fn costs(server: &Server, license: &License, host: &str) -> Vec<(&'static str, u64)> {
    let link = link_of(server, "acme-forms", license, host);
    let mut client = Client::connect(server.address);
    let edd = format!(
        "/edd?edd_action=check_license&license={}&item_id=12&url={host}",
        license.key
    );
    let update = updates("acme-forms", license, host, "");
    let stranger = updates("acme-forms", license, "stranger.example", "");
    let validation = question(license, "stranger.example").to_string();
    let kinds: [Kind<'_>; 5] = [
        (
            "a download that is not modified",
            "GET",
            &link,
            &[("If-None-Match", "*")],
            "",
            304,
        ),
        ("EDD's check", "GET", &edd, &[], "", 200),
        ("an update", "GET", &update, &[], "", 200),
        ("a stranger's update", "GET", &stranger, &[], "", 403),
        (
            "a stranger's validation",
            "POST",
            "/api/v1/validate-license",
            &[("Content-Type", "application/json")],
            &validation,
            200,
        ),
    ];
    let mut costs = Vec::new();
    for (name, method, target, headers, body, status) in kinds {
        let mut ask = |times: usize| {
            for _ in 0..times {
                let answer = client.try_request(method, target, headers, body.as_bytes()).unwrap();
                assert_eq!(answer.status, status, "{name}: {}", answer.text());
            }
        };
        // What is counted once for each change of the license is not what each request costs.
        ask(1);
        let before = computed(server);
        ask(ASKED);
        costs.push((name, computed(server) - before));
    }
    costs
}

#[test]
fn a_site_of_20_000_costs_no_more_than_the_only_one() {
    let [few, many, few_listed, many_listed] = std::array::from_fn(|_| License::new());
    let listed = |license: &License, sites: usize| {
        let hosts: Vec<_> = (0..sites).map(|number| format!("\"{}\"", site(number))).collect();
        license.toml(&format!("sites = {sites}\nhosts = [{}]", hosts.join(", ")))
    };
    let tables = [listed(&few_listed, 1), listed(&many_listed, MANY)];
    let (instance, _) = hosting(&tables, &[("acme-forms", &[LATEST], true)]);
    put_secret(&instance, "keys/downloads.key", &SECRET);
    name_item(&instance);
    let store = countersign_ledger::open(&instance.file("store")).unwrap();
    bind(&store, &few, 1);
    bind(&store, &many, MANY);
    store.close().unwrap();
    drop(store);
    let flags = [
        "--compat",
        "edd",
        "--requests-per-minute",
        "1000000",
        "--requests-per-license",
        "1000000",
    ];
    let server = Server::start_with(&instance, &flags);
    for (kind, [few, many]) in [("bound", [few, many]), ("listed", [few_listed, many_listed])] {
        let least = costs(&server, &few, &site(0));
        let most = costs(&server, &many, &site(MANY - 1));
        eprintln!("{kind}: {least:?}, {most:?}");
        for ((name, least), (_, most)) in least.into_iter().zip(most) {
            // Without an index, it was from ten to a hundred times as much.
            assert!(
                most <= 2 * least + ASKED as u64 / 10,
                "{kind}, {name}: {most} instead of {least}"
            );
        }
    }
}

#[test]
fn all_of_20_000_sites_are_released_before_the_command_gives_up() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml(&format!("sites = {MANY}"))]);
    let store = countersign_ledger::open(&instance.file("store")).unwrap();
    bind(&store, &license, MANY);
    store.close().unwrap();
    drop(store);
    let _server = Server::start(&instance);
    let mut release = countersign(&instance);
    let output = release
        .args(["license", "release", &license.id, "--all"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

fn name_item(instance: &Instance) {
    let file = instance.file("registry/plugins/acme-forms.toml");
    let entry = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("edd_item_id = 12\n{entry}")).unwrap();
}
