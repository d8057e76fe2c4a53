//! Long tests with a library between the server and the system, for `make soak`.

use std::fs;
use std::time::{Duration, Instant};

use crate::desk_browser;
use crate::power;
use crate::support::http::Client;
use crate::support::random::Random;
use crate::support::soak::timed;
use crate::support::writers::{Exported, Writers};
use crate::support::{Instance, Server, eventually};
use crate::tools::preload;

#[test]
#[ignore = "takes long: make soak"]
fn ten_thousand_losses_of_power_lose_nothing() {
    timed("loss of power", || {
        for seed in 1..=10 {
            assert_eq!(power::losses(10, 100, 300, seed), 0, "seed {seed}");
        }
        "10,000 disks, none with a loss".to_owned()
    });
}

#[test]
#[ignore = "takes long: make soak"]
fn a_desk_of_a_million_licenses_fits_every_screen_and_answers_in_time() {
    timed("the desk", desk_browser::a_million_licenses);
}

/// SOAK_MINUTES, an hour where nothing is said.
#[test]
#[ignore = "takes long: make soak"]
fn an_hour_with_all_faults_at_once_loses_nothing() {
    let minutes = std::env::var("SOAK_MINUTES").map_or(60, |minutes| minutes.parse().unwrap());
    timed("all faults at once", || {
        let end = Instant::now() + Duration::from_secs(60 * minutes);
        let mut random = Random::new(7);
        let mut acknowledged = 0;
        let mut kills = 0;
        while Instant::now() < end {
            let writers = Writers::new();
            let instance = writers.instance("\"unlimited\"");
            let mut exported = Exported::new();
            for _ in 0..10 {
                instance.write("offset", "0");
                let offset = instance.file("offset");
                let clock = [("LD_PRELOAD", preload::clock()), ("CLOCK_OFFSET", &*offset)];
                writers.storm(Server::start_limitable(&instance, &clock), 200, |server| {
                    faults(&instance, &writers, &server, &mut random);
                    server.kill();
                });
                exported = writers.check(&instance, &exported);
                kills += 1;
            }
            writers.check_served(&instance);
            acknowledged += writers.acknowledged();
            eprintln!("all faults at once: {kills} kills, {acknowledged} bindings acknowledged, none lost");
        }
        format!("{kills} kills, {acknowledged} acknowledged, none lost, none changed")
    });
}

/// Twelve faults in any order, each at once after the one before: clocks, full disks, broken files, silent connections.
fn faults(instance: &Instance, writers: &Writers, server: &Server, random: &mut Random) {
    let mut silent = Vec::new();
    for number in 0..12 {
        match random.below(5) {
            0 => instance.write("offset", random.pick(&["-31536000", "31536000", "-600", "0"])),
            1 => {
                let length = fs::metadata(instance.file("store/ledger.jsonl")).unwrap().len();
                server.limit_files(&(length + 1_000).to_string());
            }
            2 => {
                server.limit_files("unlimited");
                let before = writers.acknowledged();
                eventually("bindings go on", || writers.acknowledged() > before);
            }
            3 => {
                instance.write("registry/licenses/broken.toml", "[[license]\n");
                server.signal("HUP");
                let noticed = || server.part("registry")["state"] == "stale";
                eventually("the broken file is noticed", noticed);
                fs::remove_file(instance.file("registry/licenses/broken.toml")).unwrap();
                writers.license(instance, "\"unlimited\"");
                instance.publish(&format!("1.{number}.0"));
            }
            _ => silent.extend((0..50).filter_map(|_| {
                let mut client = Client::try_connect(server.address).ok()?;
                client.send(b"POST /api/v1/validate-license HTTP/1.1\r\n").ok()?;
                Some(client)
            })),
        }
    }
}
