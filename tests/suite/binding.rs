//! Bindings under concurrency and kill -9: never too many, none lost.

use std::collections::BTreeSet;
use std::sync::{Arc, Barrier};
use std::thread;

use crate::support::http::Client;
use crate::support::instance::question;
use crate::support::writers::{Exported, Writers, host};
use crate::support::{Instance, License, Server};

const CLIENTS: usize = 64;
const ROUNDS: usize = 200;
const VALIDATE: &str = "/api/v1/validate-license";

/// 64 hosts validate a fresh license at once, 200 times over: exactly `sites` become active, the others get the
/// first bound domain, and a bound host that comes back at the limit stays active.
fn rush(sites: usize) {
    let licenses: Vec<License> = (0..ROUNDS).map(|_| License::new()).collect();
    let tables: Vec<String> = licenses
        .iter()
        .map(|license| license.toml(&format!("sites = {sites}")))
        .collect();
    let instance = Instance::with_licenses(&tables);
    let server = Server::start_with(&instance, &["--signing-queue", "1024"]);
    let address = server.address;
    let licenses = Arc::new(licenses);
    let barrier = Arc::new(Barrier::new(CLIENTS));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let licenses = Arc::clone(&licenses);
            let barrier = Arc::clone(&barrier);
            thread::spawn(move || {
                let mut connection = Client::connect(address);
                let answers = licenses.iter().map(|license| {
                    barrier.wait();
                    connection
                        .post_json(VALIDATE, &question(license, &format!("site-{client}.com")))
                        .json()
                });
                answers.collect::<Vec<_>>()
            })
        })
        .collect();
    let answers: Vec<Vec<serde_json::Value>> = clients.into_iter().map(|client| client.join().unwrap()).collect();

    let mut again = Client::connect(address);
    for (round, license) in licenses.iter().enumerate() {
        let (active, refused): (Vec<_>, Vec<_>) = answers
            .iter()
            .map(|answers| &answers[round])
            .partition(|a| a["status"] == "active");
        let winners: BTreeSet<&str> = active.iter().map(|answer| answer["domain"].as_str().unwrap()).collect();
        assert_eq!(winners.len(), sites, "round {round}");
        let first: BTreeSet<&str> = refused
            .iter()
            .map(|answer| answer["bound_domain"].as_str().unwrap())
            .collect();
        assert_eq!(first.len(), 1, "round {round}: everyone gets the same first host");
        assert!(first.is_subset(&winners), "round {round}");
        for winner in winners {
            assert_eq!(
                again.post_json(VALIDATE, &question(license, winner)).code(),
                "ok",
                "round {round}"
            );
        }
    }
}

impl Writers {
    /// With a clock that is true, each was bound between question and answer.
    pub fn check_times(&self, exported: &Exported) {
        for (site, (asked, answered)) in self.acknowledged.lock().unwrap().iter() {
            let bound_at = &exported[site];
            assert!(
                asked <= bound_at && bound_at <= answered,
                "{}: {bound_at}, asked {asked}",
                host(*site)
            );
        }
    }
}

#[test]
fn of_64_hosts_at_once_exactly_one_gets_a_license_for_one_site() {
    rush(1);
}

#[test]
fn of_64_hosts_at_once_exactly_three_get_a_license_for_three_sites() {
    rush(3);
}

/// 64 writers bind sites while the server is killed so many times, after so many acknowledged bindings each time at
/// least. A new store is begun every `GENERATION` kills, so that a start stays short. Returns how many were
/// acknowledged.
pub fn kill_9(kills: usize, bindings_each: usize) -> usize {
    const GENERATION: usize = 25;
    let mut acknowledged = 0;
    for generation in 0..kills.div_ceil(GENERATION) {
        let writers = Writers::new();
        let instance = writers.instance("\"unlimited\"");
        let mut exported = Exported::new();
        for kill in generation * GENERATION..kills.min((generation + 1) * GENERATION) {
            // At a moment that differs from kill to kill, but never before anything was acknowledged.
            writers.storm(
                Server::start(&instance),
                bindings_each + (kill * 37) % 150,
                Server::kill,
            );
            exported = writers.check(&instance, &exported);
            writers.check_times(&exported);
        }
        writers.check_served(&instance);
        acknowledged += writers.acknowledged();
        eprintln!(
            "kill -9: {} of {kills}, {acknowledged} bindings acknowledged",
            kills.min((generation + 1) * GENERATION)
        );
    }
    acknowledged
}

#[test]
fn every_acknowledged_binding_survives_kill_9() {
    assert!(kill_9(50, 1) > 50);
}
