//! Staging copies that need no seat: of licenses of files and of the ledger, after a restart, and by every setting.

use serde_json::{Value, json};

use crate::management::{Shop, forms, run, stdout_json};
use crate::support::issued::license_of;
use crate::support::server::countersign;
use crate::support::{Instance, License, Server};

fn codes(server: &Server, license: &License, sites: &[&str]) -> Vec<String> {
    sites.iter().map(|site| server.validate(license, site).code()).collect()
}

#[test]
fn a_staging_copy_is_served_beside_its_site_and_takes_no_seat() {
    let [license, reversed] = [License::new(), License::new()];
    let instance = Instance::with_licenses(&[license.toml(""), reversed.toml("")]);
    instance.publish("2.0.0");
    let sites = [
        "https://www.example.com/",
        "https://staging.example.com/",
        "https://dev.example.com/",
    ];
    let server = Server::start(&instance);
    assert_eq!(codes(&server, &license, &sites), ["ok", "ok", "bound_elsewhere"]);
    let others = ["a.com.evil.example", "example.com.evil.example", "other.example"];
    assert_eq!(codes(&server, &license, &others), ["bound_elsewhere"; 3]);
    let mut backwards = sites;
    backwards.reverse();
    assert_eq!(codes(&server, &reversed, &backwards[1..]), ["ok", "ok"]);
    assert_eq!(codes(&server, &reversed, &backwards[..1]), ["bound_elsewhere"]);
    let asked = |server: &Server, site: &str| server.updates(&license, site, "").status;
    assert_eq!(
        [sites[0], sites[1], sites[2]].map(|site| asked(&server, site)),
        [200, 200, 403]
    );
    server.kill();

    // Who is bound stays bound, whatever the setting is now.
    let strict = Server::start_with(&instance, &["--staging-sites", "0"]);
    assert_eq!(codes(&strict, &license, &sites), ["ok", "ok", "bound_elsewhere"]);
    let shown = stdout_json(&instance, &["license", "show", &license.id]);
    assert_eq!(shown["used_seats"], 2);
    assert!(strict.stop().success());
    let shown = stdout_json(&instance, &["license", "show", &license.id]);
    assert_eq!(shown["used_seats"], 1);
    let copies: Vec<_> = shown["bindings"].as_array().unwrap().iter().collect();
    assert_eq!(
        copies.iter().map(|site| &site["staging_copy"]).collect::<Vec<_>>(),
        [false, true]
    );
    let text = String::from_utf8(run(&instance, &["license", "show", &license.id]).stdout).unwrap();
    assert!(
        text.contains("sites        1 (1 used)\n") && text.contains("staging copy"),
        "{text}"
    );
}

#[test]
fn a_site_on_a_web_host_needs_no_seat_beside_a_site_elsewhere() {
    let [license, hosted] = [License::new(), License::new()];
    let instance = Instance::with_licenses(&[license.toml(""), hosted.toml("")]);
    instance.publish("2.0.0");
    let server = Server::start(&instance);
    let sites = [
        "https://shop.example",
        "https://STG-shop.Kinsta.cloud:8443/wp",
        "b.kinsta.cloud",
    ];
    assert_eq!(codes(&server, &license, &sites), ["ok", "ok", "bound_elsewhere"]);
    let others = [
        "kinsta.cloud",
        "evilkinsta.cloud",
        "kinsta.cloud.evil.example",
        "stg.kinsta.cloud.evil.example",
        "staging.shop.example",
    ];
    assert_eq!(codes(&server, &license, &others), ["bound_elsewhere"; 5]);
    assert_eq!(server.updates(&license, sites[1], "").status, 200);
    // Where all sites are on such hosts, each needs a seat, until a site elsewhere comes.
    let on_hosts = ["a.kinsta.cloud", "b.wpengine.com", "c.ngrok-free.app"];
    assert_eq!(
        codes(&server, &hosted, &on_hosts),
        ["ok", "bound_elsewhere", "bound_elsewhere"]
    );
    assert_eq!(codes(&server, &hosted, &["shop.example"]), ["ok"]);
    assert_eq!(
        codes(&server, &hosted, &on_hosts),
        ["ok", "bound_elsewhere", "bound_elsewhere"]
    );

    let shown = stdout_json(&instance, &["license", "show", &license.id]);
    assert_eq!(
        (&shown["used_seats"], &shown["bindings"][1]["staging_copy"]),
        (&json!(1), &json!(true))
    );
    // The site leaves: its copy has the seat, until it leaves, too.
    run(
        &instance,
        &["license", "release", &license.id, "--host", "shop.example"],
    );
    assert_eq!(
        codes(&server, &license, &["b.kinsta.cloud", sites[1]]),
        ["bound_elsewhere", "ok"]
    );
    let shown = stdout_json(&instance, &["license", "show", &license.id]);
    let copies: Vec<_> = shown["bindings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|site| &site["staging_copy"])
        .collect();
    assert_eq!((&shown["used_seats"], copies), (&json!(1), vec![&json!(false); 2]));
    run(
        &instance,
        &["license", "release", &license.id, "--host", "stg-shop.kinsta.cloud"],
    );
    assert_eq!(codes(&server, &license, &["b.kinsta.cloud"]), ["ok"]);
}

#[test]
fn the_list_of_staging_hosts_is_replaced_extended_or_empty() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("staging_sites = 9\n")]);
    let sites = [
        "shop.example",
        "a.kinsta.cloud",
        "a.staging.agency.example",
        "staging.agency.example",
    ];
    let answers = |flags: &[&str]| {
        let server = Server::start_with(&instance, flags);
        let codes = codes(&server, &license, &sites);
        run(&instance, &["license", "release", &license.id, "--all"]);
        let shown = stdout_json(&instance, &["license", "show", &license.id]);
        assert_eq!(shown["used_seats"], 0);
        codes.iter().map(|code| code == "ok").collect::<Vec<_>>()
    };
    assert_eq!(answers(&[]), [true, true, false, false]);
    let own = "*.STAGING.agency.example";
    assert_eq!(answers(&["--staging-hosts", own]), [true, false, true, false]);
    let more = "default,*.staging.agency.example,staging.agency.example";
    assert_eq!(answers(&["--staging-hosts", more]), [true; 4]);
    assert_eq!(answers(&["--staging-hosts", "none"]), [true, false, false, false]);
    for (bad, reason) in [
        ("*.com", "a name of one label has sites of everybody"),
        ("default,com", "a name of one label has sites of everybody"),
        ("*.", "expected the name of a host"),
        ("10.0.0.1", "expected the name of a host"),
        ("https://a.example", "expected the name of a host"),
    ] {
        let output = countersign(&instance)
            .args(["serve", "--staging-hosts", bad])
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.code() == Some(2) && stderr.contains(reason),
            "{bad}: {stderr}"
        );
    }
}

#[test]
fn of_200_sites_on_a_web_host_that_ask_at_once_as_many_are_bound_as_may_be() {
    let [one, three] = [License::new(), License::new()];
    let tables = [one.toml(""), three.toml("sites = 2\nstaging_sites = 3\n")];
    let instance = Instance::with_licenses(&tables);
    let server = Server::start_with(&instance, &["--signing-queue", "1024"]);
    let ask = |license: &License, elsewhere: usize| {
        std::thread::scope(|scope| {
            let asked = (0..200).map(|number| {
                let site = match number == elsewhere {
                    true => "shop.example".to_owned(),
                    false => format!("s{number}.kinsta.cloud"),
                };
                let server = &server;
                scope.spawn(move || server.validate(license, &site).code())
            });
            let asked: Vec<_> = asked.collect();
            let codes = asked.into_iter().map(|answer| answer.join().unwrap());
            codes.filter(|code| code == "ok").count()
        })
    };
    // The site elsewhere always gets in, no matter which was first. A site that was refused before it came
    // gets in at the second time.
    assert_eq!([ask(&one, 150), ask(&one, 150)], [2, 2]);
    assert!((3..=5).contains(&ask(&three, 150)));
    assert_eq!(ask(&three, 150), 5);
    for (license, seats) in [(&one, 1), (&three, 2)] {
        let shown = stdout_json(&instance, &["license", "show", &license.id]);
        assert_eq!(shown["used_seats"], seats);
    }
}

#[test]
fn a_license_of_a_file_has_its_own_numbers_of_staging_copies_and_moves() {
    let [none, two] = [License::new(), License::new()];
    let tables = [
        none.toml("staging_sites = 0\nsite_moves = 0\n"),
        two.toml("staging_sites = 2\n"),
    ];
    let instance = Instance::with_licenses(&tables);
    let server = Server::start(&instance);
    let sites = ["example.com", "a.example.com", "b.example.com", "c.example.com"];
    assert_eq!(codes(&server, &none, &sites[..2]), ["ok", "bound_elsewhere"]);
    assert_eq!(codes(&server, &two, &sites), ["ok", "ok", "ok", "bound_elsewhere"]);
    let leave = |license: &License| {
        let body = json!({ "license_key": license.key, "site_url": "example.com" });
        crate::support::post_json(server.address, "/api/v1/release-site", &body)
    };
    assert_eq!(leave(&none).code(), "too_many_moves");
    assert_eq!(leave(&two).status, 200);
    // Its copies stay, and take the seats.
    assert_eq!(codes(&server, &two, &["other.example"]), ["bound_elsewhere"]);
    assert_eq!(codes(&server, &two, &sites[..2]), ["ok", "ok"]);
}

#[test]
fn a_license_of_the_ledger_has_its_own_numbers_too_and_a_program_changes_them() {
    let shop = Shop::open(&["--staging-sites", "0"]);
    let mut body = forms();
    body["staging_sites"] = json!(1);
    body["site_moves"] = json!(9);
    let issued = shop.issue("1", &body);
    let license = license_of(&issued);
    assert_eq!(
        (&issued.json()["staging_sites"], &issued.json()["site_moves"]),
        (&json!(1), &json!(9))
    );
    let sites = ["example.com", "a.example.com", "b.example.com"];
    assert_eq!(codes(&shop.server, &license, &sites), ["ok", "ok", "bound_elsewhere"]);
    let patch = |body: Value| {
        let headers = [("If-Match", "*")];
        let answer = shop.send("PATCH", &format!("/{}", license.id), &headers, &body);
        (
            answer.status,
            answer.json()["staging_sites"].clone(),
            answer.json()["site_moves"].clone(),
        )
    };
    let seats = || {
        let answer = shop.send("PATCH", &format!("/{}", license.id), &[("If-Match", "*")], &json!({}));
        (answer.json()["bound"].clone(), answer.json()["used_seats"].clone())
    };
    assert_eq!(seats(), (json!(2), json!(1)));
    assert_eq!(patch(json!({ "staging_sites": 2 })), (200, json!(2), json!(9)));
    assert_eq!(codes(&shop.server, &license, &sites), ["ok", "ok", "ok"]);
    for bad in [json!(-1), json!(65_536), json!("1")] {
        assert_eq!(patch(json!({ "staging_sites": bad })).0, 400);
    }
    let Shop { server, instance, .. } = &shop;
    let shown = stdout_json(instance, &["license", "show", &license.id]);
    assert_eq!(
        (&shown["staging_sites"], &shown["site_moves"], &shown["used_seats"]),
        (&json!(2), &json!(9), &json!(1))
    );
    assert_eq!(
        patch(json!({ "staging_sites": null, "site_moves": null })),
        (200, Value::Null, Value::Null)
    );
    let shown = stdout_json(instance, &["license", "show", &license.id]);
    assert_eq!((shown.get("staging_sites"), &shown["used_seats"]), (None, &json!(3)));
    // Beside a running server, an order of a command reaches it whole.
    run(instance, &["license", "sites", &license.id, "unlimited"]);
    assert_eq!(codes(server, &license, &["z.example"]), ["ok"]);
}

#[test]
fn a_command_changes_the_limits_of_a_license() {
    let shop = Shop::open(&["--staging-sites", "0", "--site-moves", "1"]);
    let issued = license_of(&shop.issue("1", &forms()));
    let Shop { server, instance, .. } = &shop;
    let sites = ["example.com", "a.example.com", "b.example.com"];
    let license = &issued;
    let set = |arguments: &[&str]| {
        let changed = stdout_json(instance, &[&["license", "sites", &license.id], arguments].concat());
        let limits = ["sites", "staging_sites", "site_moves"].map(|name| changed["license"][name].clone());
        (changed["changed"] == true, limits)
    };
    let leave = || {
        let body = json!({ "license_key": license.key, "site_url": "a.example.com" });
        crate::support::post_json(server.address, "/api/v1/release-site", &body)
    };
    assert_eq!(codes(server, license, &sites[..2]), ["ok", "bound_elsewhere"]);
    let own = ["--staging-sites", "1", "--site-moves", "0"];
    assert_eq!(set(&own), (true, [json!(1), json!(1), json!(0)]));
    assert_eq!(set(&own), (false, [json!(1), json!(1), json!(0)]));
    assert_eq!(codes(server, license, &sites), ["ok", "ok", "bound_elsewhere"]);
    assert_eq!(leave().code(), "too_many_moves");
    assert_eq!(
        set(&["2", "--site-moves", "default"]),
        (true, [json!(2), json!(1), Value::Null])
    );
    assert_eq!(codes(server, license, &sites), ["ok"; 3]);
    assert_eq!(leave().status, 200);
    assert_eq!(
        set(&["--staging-sites", "default"]),
        (true, [json!(2), Value::Null, Value::Null])
    );
    let output = run(
        instance,
        &["license", "sites", &license.id, "1", "--staging-sites", "2"],
    );
    let stdout = String::from_utf8(output.stdout).unwrap();
    let expected = "now for 1 site, 2 staging copies.";
    assert!(stdout.contains(expected), "{stdout}");
    let own = ["--staging-sites", "7", "--site-moves", "0", "--json"];
    let issue = ["license", "issue", "--module", "forms", "--expires", "never"];
    let made: Value = serde_json::from_slice(&run(instance, &[&issue[..], &own].concat()).stdout).unwrap();
    let shown = stdout_json(instance, &["license", "show", made["id"].as_str().unwrap()]);
    assert_eq!((&shown["staging_sites"], &shown["site_moves"]), (&json!(7), &json!(0)));
    for (arguments, reason) in [
        (&[][..], "required"),
        (
            &["--staging-sites", "many"],
            "expected a number from 0 to 65535, or 'default'",
        ),
        (
            &["--site-moves", "65536"],
            "expected a number from 0 to 65535, or 'default'",
        ),
    ] {
        let command = [&["license", "sites", &issued.id], arguments].concat();
        let output = countersign(instance).args(command).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && stderr.contains(reason), "{stderr}");
    }
}

#[test]
fn show_tells_the_settings_of_the_running_server() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("sites = 2\n")]);
    let flags = [
        "--staging-sites",
        "0",
        "--site-moves",
        "9",
        "--grace-period-hours",
        "24",
    ];
    let server = Server::start_with(&instance, &flags);
    assert_eq!(
        codes(&server, &license, &["example.com", "a.example.com"]),
        ["ok", "ok"]
    );
    let shown = |arguments: &[&str]| {
        let output = run(&instance, &[&["license", "show", &license.id], arguments].concat());
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap())
    };
    let [text, notes] = shown(&[]);
    for line in [
        "sites        2 (2 used)\n",
        "staging      0 (the server's setting)\n",
        "moves        9 (the server's setting) in 30 days\n",
        "grace        24 hours (the server's setting)\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert!(!text.contains("staging copy") && notes.is_empty(), "{text}{notes}");
    assert_eq!(
        stdout_json(&instance, &["license", "show", &license.id])["used_seats"],
        2
    );
    // Nobody listens on the socket that a killed server left.
    server.kill();
    let [text, notes] = shown(&[]);
    assert!(text.contains("staging      1 (the server's setting)\n"), "{text}");
    assert_eq!(notes, "");
}
