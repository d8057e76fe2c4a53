//! Writers that bind sites as fast as a server accepts them, and record what it acknowledged.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::http::Client;
use super::instance::question;
use super::server::{Server, countersign, updates};
use super::{Instance, License, eventually};

const VALIDATE: &str = "/api/v1/validate-license";

/// How many ask at once.
const WRITERS: usize = 64;

/// Licenses for any number of sites, and what was asked and acknowledged for them.
pub struct Writers {
    pub licenses: Vec<License>,
    next: AtomicUsize,
    /// By site.
    pub acknowledged: Mutex<BTreeMap<usize, Asked>>,
}

/// When a question was sent, and when its answer was there.
type Asked = (DateTime<Utc>, DateTime<Utc>);

/// Bindings as `bindings export` tells them: site to when it was bound.
pub type Exported = BTreeMap<usize, DateTime<Utc>>;

impl Writers {
    pub fn new() -> Self {
        let licenses = (0..WRITERS).map(|_| License::new()).collect();
        Self {
            licenses,
            next: AtomicUsize::new(0),
            acknowledged: Mutex::default(),
        }
    }

    /// An instance with the licenses, each for `sites` sites.
    pub fn instance(&self, sites: &str) -> Instance {
        let instance = Instance::new();
        self.license(&instance, sites);
        instance
    }

    /// Gives each license so many sites.
    pub fn license(&self, instance: &Instance, sites: &str) {
        let tables: Vec<_> = self
            .licenses
            .iter()
            .map(|license| license.toml(&format!("sites = {sites}")))
            .collect();
        instance.write_licenses(&tables);
    }

    /// The license a site is bound with.
    pub fn license_of(&self, site: usize) -> &License {
        &self.licenses[site % self.licenses.len()]
    }

    /// How many bindings were acknowledged.
    pub fn acknowledged(&self) -> usize {
        self.acknowledged.lock().unwrap().len()
    }

    /// Binds new sites at 64 connections until `more` are acknowledged, then `end`s the server under load.
    pub fn storm(&self, server: Server, more: usize, end: impl FnOnce(Server)) {
        let address = server.address;
        let stop = AtomicBool::new(false);
        let enough = self.acknowledged() + more;
        thread::scope(|scope| {
            for _ in 0..WRITERS {
                scope.spawn(|| self.write(address, &stop));
            }
            eventually("bindings are acknowledged", || self.acknowledged() >= enough);
            end(server);
            stop.store(true, Ordering::Relaxed);
        });
    }

    fn write(&self, address: SocketAddr, stop: &AtomicBool) {
        let Ok(mut client) = Client::try_connect(address) else {
            return;
        };
        while !stop.load(Ordering::Relaxed) {
            let site = self.next.fetch_add(1, Ordering::Relaxed);
            let body = question(self.license_of(site), &host(site)).to_string();
            let asked = Utc::now();
            let Ok(answer) = client.try_request("POST", VALIDATE, &[], body.as_bytes()) else {
                return;
            };
            if answer.code() == "ok" {
                self.acknowledged.lock().unwrap().insert(site, (asked, Utc::now()));
            }
        }
    }

    /// Whatever was acknowledged is in the ledger, once; whatever is in it was asked for; and what was in it `before`
    /// is unchanged.
    pub fn check(&self, instance: &Instance, before: &Exported) -> Exported {
        let output = countersign(instance).args(["bindings", "export"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut exported = Exported::new();
        for line in String::from_utf8(output.stdout).unwrap().lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let site = site(line["host"].as_str().unwrap());
            assert!(site < self.next.load(Ordering::Relaxed), "{line} was never asked for");
            assert_eq!(line["license"], self.license_of(site).id.as_str());
            let bound_at = line["bound_at"].as_str().unwrap().parse().unwrap();
            assert_eq!(exported.insert(site, bound_at), None, "{line} is there twice");
        }
        for site in self.acknowledged.lock().unwrap().keys() {
            assert!(
                exported.contains_key(site),
                "{} was acknowledged and is lost",
                host(*site)
            );
        }
        for (site, bound_at) in before {
            assert_eq!(exported.get(site), Some(bound_at), "{} was changed", host(*site));
        }
        exported
    }

    /// The server takes every acknowledged site for bound, and with no seat left nobody else.
    pub fn check_served(&self, instance: &Instance) {
        self.license(instance, "1");
        let server = Server::start(instance);
        let mut client = Client::connect(server.address);
        for site in self.acknowledged.lock().unwrap().keys() {
            let target = updates("acme-forms", self.license_of(*site), &host(*site), "");
            assert_eq!(client.request("GET", &target, &[], b"").status, 200, "{}", host(*site));
        }
        assert_eq!(
            server.validate(&self.licenses[0], "never.com").code(),
            "bound_elsewhere"
        );
    }
}

pub fn host(site: usize) -> String {
    format!("site-{site}.com")
}

/// The site of a host that [`host`] made.
pub fn site(host: &str) -> usize {
    host.strip_prefix("site-")
        .and_then(|rest| rest.strip_suffix(".com")?.parse().ok())
        .expect("a site of ours")
}
