//! `countersign review`: build ids that sites report and that are not theirs, and licenses that many hosts ask for.
//!
//! What a site reports is what it says: a finding is a reason to look, and nothing is decided from it.

use std::cmp::Reverse;

use chrono::{DateTime, Utc};
use serde::Serialize;
use uuid::Uuid;

use crate::commands::copy_origin::{CopyOrigin, KnownCopies, TracedId};
use crate::commands::output::Table;
use crate::commands::stored_sites::SitesByLicense;
use crate::commands::{Exit, Failure, output, stored_sites};
use crate::config::Config;
use crate::model::license_key::LicenseId;
use crate::model::refused_hosts::MOST_HOSTS;
use crate::model::site_host::SiteHost;
use crate::registry::Registry;
use crate::store::RefusedByLicense;

/// List what looks like abuse: build ids of others, and licenses that many hosts ask for
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  countersign review
  countersign review --json

Sites say which copy they run; a site can say anything. Look at a finding with `countersign trace UUID`. A license is listed
once five hosts were refused because it is bound to others. While a server runs, it is asked for what sites reported.")]
pub struct Args {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// A license that so many hosts were refused is worth a look. Fewer are staging sites and moves.
const MANY_HOSTS: usize = 5;

/// Everything that deserves a look.
#[derive(Debug, Serialize)]
struct Findings {
    odd_reports: Vec<OddReport>,
    many_hosts: Vec<WantedLicense>,
}

/// A license that many hosts ask for which it is not bound to.
#[derive(Debug, Serialize)]
struct WantedLicense {
    license: LicenseId,
    note: String,
    /// The first refusal.
    since: DateTime<Utc>,
    /// The latest one.
    last: DateTime<Utc>,
    /// The latest last. At most 32 are kept.
    hosts: Vec<SiteHost>,
}

/// What is odd about a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Oddity {
    /// The copy was given to another license.
    OtherLicense,
    /// The copy was given to another site of the license.
    OtherHost,
    /// One of our keys made the id, but what it says is not true.
    Forged,
    /// None of our keys made the id.
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
    let known = KnownCopies::load(config)?;
    let reports = stored_sites::reports(config)??;
    let many_hosts = many_hosts(stored_sites::refused(config)?, &known.registry, &known.sites);
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
    let findings = Findings {
        odd_reports: odd,
        many_hosts,
    };
    output::print(&if args.json {
        output::json(&findings)?
    } else {
        odd_text(&findings.odd_reports) + &many_hosts_text(&findings.many_hosts)
    })
}

/// The licenses that many hosts were refused, those with the most hosts first. A host that was bound since does not
/// count.
fn many_hosts(refused: RefusedByLicense, registry: &Registry, sites: &SitesByLicense) -> Vec<WantedLicense> {
    let mut wanted: Vec<WantedLicense> = Vec::new();
    for (license, refused) in refused {
        let details = registry.license(&license).map(|license| &license.details);
        let ahead = details.map_or(&[][..], |details| &details.hosts);
        let bound = sites.get(&license).map_or(&[][..], Vec::as_slice);
        let hosts = refused.hosts().iter();
        let hosts: Vec<_> = hosts
            .filter(|host| !bound.contains(host) && !ahead.contains(host))
            .cloned()
            .collect();
        if hosts.len() >= MANY_HOSTS {
            wanted.push(WantedLicense {
                license,
                note: details.map_or(String::new(), |details| details.note.clone()),
                since: refused.since,
                last: refused.last,
                hosts,
            });
        }
    }
    wanted.sort_by_key(|wanted| (Reverse(wanted.hosts.len()), wanted.license));
    wanted
}

/// What is odd about a site that reports this copy.
fn oddity(known: &KnownCopies, traced: &TracedId, license: &LicenseId, host: &SiteHost) -> Option<Oddity> {
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

fn odd_text(odd: &[OddReport]) -> String {
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

fn many_hosts_text(wanted: &[WantedLicense]) -> String {
    if wanted.is_empty() {
        return format!("No license was refused to {MANY_HOSTS} hosts or more.\n");
    }
    let mut table = Table::new(["LICENSE", "HOSTS REFUSED", "SINCE", "LAST", "NOTE"]);
    for license in wanted {
        let count = match license.hosts.len() {
            MOST_HOSTS.. => format!("{MOST_HOSTS} or more"),
            count => count.to_string(),
        };
        table.row([
            &license.license.log_tag(),
            &count,
            &license.since.date_naive(),
            &license.last.date_naive(),
            &license.note,
        ]);
    }
    format!("\n{table}")
}
