//! `countersign review`: build ids that sites report and that are not theirs.
//!
//! What a site reports is what it says: a finding is a reason to look, and nothing is decided from it.

use chrono::Utc;
use serde::Serialize;
use uuid::Uuid;

use crate::catalog::ReleaseIndex;
use crate::commands::copy_origin::{CopyOrigin, KnownCopies, TracedId, releases};
use crate::commands::output::Table;
use crate::commands::trace::{StoredSites, load_keys, stored_sites};
use crate::commands::{Exit, Failure, output};
use crate::config::Config;
use crate::model::license_key::LicenseId;
use crate::model::site_host::SiteHost;
use crate::registry::Registry;

/// List build ids that sites report and that are not theirs
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  countersign review
  countersign review --json

Sites say which copy they run; a site can say anything. Look at a finding with `countersign trace UUID`. What sites report is
readable while no server runs; review a copy of the store, or stop the server.")]
pub struct Args {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// A server holds what sites reported.
#[derive(Debug, thiserror::Error)]
#[error("what sites reported cannot be read: a server has the store, or its index is missing")]
struct ReportsNotReadable;

/// What is odd about a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Oddity {
    /// The copy was given to another license.
    OtherLicense,
    /// The copy was given to another site of the license.
    OtherHost,
    /// A key here made the id, and it says what never was.
    Forged,
    /// No key here made the id.
    Unknown,
}

/// A report that deserves a look.
#[derive(Debug, Serialize)]
struct OddReport {
    oddity: Oddity,
    build_id: Uuid,
    /// Who reports it.
    license: LicenseId,
    host: SiteHost,
    /// To whom it was given.
    given_to: Vec<LicenseId>,
}

/// Compares what every site reported with what it was given.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let registry = Registry::load(&config.paths.registry)?;
    let keys = load_keys(config)?;
    let index = ReleaseIndex::read(&config.paths.releases).map_err(Failure::input)?;
    let StoredSites { sites, reports } = stored_sites(config)?;
    let reports = reports.ok_or_else(|| {
        Failure::environment(ReportsNotReadable).hint("stop the server first, or review a copy of the whole store")
    })?;
    let known = KnownCopies {
        keys: &keys,
        registry: &registry,
        sites,
        releases: releases(&registry, &index.unwrap_or_default()),
        today: Utc::now().date_naive(),
    };
    let mut odd = Vec::new();
    for (license, host, report) in &reports {
        let Some(build_id) = report.build_id.filter(|id| !id.is_nil()) else {
            continue;
        };
        let traced = known.trace(build_id);
        if let Some(oddity) = oddity(&known, &traced, license, host) {
            odd.push(OddReport {
                oddity,
                build_id,
                license: *license,
                host: host.clone(),
                given_to: traced.licenses.iter().map(|license| license.id).collect(),
            });
        }
    }
    output::print(&if args.json { output::json(&odd)? } else { text(&odd) })
}

/// What is odd about a site that reports this copy.
fn oddity(known: &KnownCopies<'_>, traced: &TracedId, license: &LicenseId, host: &SiteHost) -> Option<Oddity> {
    match traced.origin {
        CopyOrigin::Unmarked => return None,
        CopyOrigin::Forged => return Some(Oddity::Forged),
        CopyOrigin::Unknown => return Some(Oddity::Unknown),
        CopyOrigin::Given => {}
    }
    // A license whose key was replaced runs the copy that it had before.
    let is_own = |given: &LicenseId| given == license || known.successors(given).contains(license);
    let mut own = traced.licenses.iter().filter(|given| is_own(&given.id)).peekable();
    if own.peek().is_none() {
        return Some(Oddity::OtherLicense);
    }
    // Where the ledger no longer knows the site it was given to, nothing is known of it.
    let fits = own.any(|given| given.hosts.is_empty() || given.hosts.contains(host));
    (!fits).then_some(Oddity::OtherHost)
}

fn text(odd: &[OddReport]) -> String {
    if odd.is_empty() {
        return "No site reports a build id that is not its own.\n".to_owned();
    }
    let mut table = Table::new(["FINDING", "SITE", "LICENSE", "GIVEN TO", "BUILD ID"]);
    for report in odd {
        let finding = match report.oddity {
            Oddity::OtherLicense => "another license's",
            Oddity::OtherHost => "another site's",
            Oddity::Forged => "forged",
            Oddity::Unknown => "not from here",
        };
        let given: Vec<_> = report.given_to.iter().map(LicenseId::log_tag).collect();
        table.row([
            &finding,
            &report.host,
            &report.license.log_tag(),
            &given.join(" "),
            &report.build_id,
        ]);
    }
    table.to_string()
}
