//! The WordPress client in a real WordPress: a customer's site, the example plugin's vendor, and failures between them.

mod bought;
mod browser;
mod customer;
mod downloads;
mod edd;
mod edd_updaters;
mod faults;
mod field;
mod foreign_keys;
mod front;
mod going_back;
mod hosting;
mod hosts;
mod licenses;
mod manifests;
mod neighbours;
mod networks;
mod other_clients;
mod packages;
mod page;
mod php_versions;
mod real_packages;
mod releases;
mod renewal;
mod screens;
mod signatures;
mod signed_release;
mod signer;
mod site;
mod site_moves;
mod steps;
mod themes;
mod three_readers;
mod transports;
mod tutorial;
mod two_files;
mod updates;
mod vendor;
mod vendors_code;

use site::{Core, Site};
use vendor::Vendor;

use crate::support::License;

/// The site of the customer in these tests.
const HOST: &str = "customer.example";

/// The notice of a license that is good.
const ACTIVE: &str = "The license is active on this site.";

/// PHP that fetches what is behind the example's client.
const LICENSE: &str = "$license = (function () { return $this->loader->license(); })->call(acme_forms_license());";

/// A license for Acme Forms on one site, with 72 hours of grace.
fn licensed() -> (License, String) {
    let license = License::new();
    let table = license.toml("");
    (license, table)
}

/// A site with version 1.0.0 of the plugin, whose license is active.
fn active_site(core: Core, vendor: &Vendor, host: &str, key: &str) -> Site {
    let mut site = Site::new(core, host, &vendor.front);
    site.install("acme-forms", &vendor.archive("1.0.0"));
    assert_eq!(site.press("acme-forms", "activate", key).notices(), [ACTIVE]);
    site
}
