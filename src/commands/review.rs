//! `countersign review`: build ids that sites report and that are not theirs, licenses that many hosts ask for, licenses that
//! moved often, and those that gave many first copies.
//!
//! What a site reports is what it says: a finding is a reason to look, and nothing is decided from it.

use std::cmp::Reverse;

use chrono::{DateTime, Utc};
use serde::Serialize;
use uuid::Uuid;

use crate::commands::copy_origin::{CopyOrigin, KnownCopies, TracedId};
use crate::commands::output::Table;
use crate::commands::store::KeptTexts;
use crate::commands::stored_sites::MovesByLicense;
use crate::commands::{Exit, Failure, output, stored_sites};
use crate::serve::vouches::VouchedLicense;
use countersign_ledger::log::ClaimEntry;
use countersign_ledger::{FirstCopiesByLicense, RefusedByLicense};
use countersign_model::first_copies::{DAYS, MANY_NETWORKS};
use countersign_model::license_key::LicenseId;
use countersign_model::refused_hosts::{MANY_HOSTS, MOST_HOSTS};
use countersign_model::site_claim::{CLAIM_PERIOD, ClaimStep};
use countersign_model::site_host::SiteHost;
use countersign_model::site_release::{MANY_MOVES, ReleasedBy, SiteRelease};
use countersign_settings::config::Config;

/// List what looks like abuse: build ids of other sites, refused hosts, frequent moves, and many first copies
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  countersign review
  countersign review --json

Sites say which copy they run; a site can say anything. Look at a finding with `countersign trace \
UUID`. A license is listed once five hosts were refused because it is bound to others, and once its \
sites gave a seat back three times in 30 days. It is listed, too, if its first copies went to more \
than five networks in 14 days, or if it asked for more of them than it may have. While a server \
runs, it is asked for what sites reported. A license that somebody vouched for, with `countersign \
license vouch`, is not listed until the day that was named.

In the JSON document, `odd_reports` are the sites that report such build ids. The management API \
lists the same sites as `odd_copies`.")]
pub struct Args {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Everything that deserves a look.
#[derive(Debug, Serialize)]
struct Findings {
    odd_reports: Vec<OddReport>,
    many_hosts: Vec<WantedLicense>,
    many_moves: Vec<MovedLicense>,
    many_first_copies: Vec<CopiedLicense>,
    claims: Vec<ReviewedClaim>,
    /// Licenses that somebody vouched for. Of the other lists, only `claims` names them.
    vouched: Vec<VouchedLicense>,
}

/// A license that gave many first copies.
#[derive(Debug, Serialize)]
struct CopiedLicense {
    license: LicenseId,
    note: String,
    /// In the last 14 days, rounded up.
    packages: u32,
    /// To how many networks.
    networks: usize,
    /// When one was refused last, because there were too many.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<DateTime<Utc>>,
    /// The latest copy or refusal.
    last: DateTime<Utc>,
}

/// A license that moved often.
#[derive(Debug, Serialize)]
struct MovedLicense {
    license: LicenseId,
    note: String,
    /// In the last 30 days, the latest last.
    moves: Vec<ReviewedMove>,
}

/// A site that was installed again, and asks for its seat with another secret.
#[derive(Debug, Serialize)]
struct ReviewedClaim {
    license: LicenseId,
    note: String,
    host: SiteHost,
    step: ClaimStep,
    time: DateTime<Utc>,
    /// While it waits: when it is carried out if the old secret is not seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<DateTime<Utc>>,
}

/// A site that gave its seat back.
#[derive(Debug, Serialize)]
struct ReviewedMove {
    host: SiteHost,
    time: DateTime<Utc>,
    /// `secret`, `key` where the license key alone was enough, or `customer` on the customer's page.
    by: ReleasedBy,
    /// The host that got the seat in the same event.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<SiteHost>,
}

impl From<SiteRelease> for ReviewedMove {
    fn from(release: SiteRelease) -> Self {
        let SiteRelease { host, time, by, moved } = release;
        let to = moved.map(|moved| moved.to);
        Self { host, time, by, to }
    }
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
    let reports = stored_sites::reports(config)??;
    let now = Utc::now();
    let vouched = vouched(config, now)?;
    let is_listed = |license: &LicenseId| vouched.iter().all(|fine| fine.license != *license);
    let reports = reports.into_iter().filter(|(license, ..)| is_listed(license));
    let reported = reports.filter_map(|(license, host, report)| {
        let build_id = report.build_id.filter(|id| !id.is_nil())?;
        Some((license, host, build_id))
    });
    let reported: Vec<_> = reported.collect();
    // A vendor whose packages are elsewhere has no keys to compare build ids with, and no site reports one.
    let known = match reported.is_empty() {
        true => KnownCopies::without_keys(config)?,
        false => KnownCopies::load(config)?,
    };
    let mut many_hosts = many_hosts(stored_sites::refused(config)?, &known);
    many_hosts.retain(|found| is_listed(&found.license));
    let mut many_moves = many_moves(stored_sites::moves(config, now)?, &known);
    many_moves.retain(|found| is_listed(&found.license));
    let mut many_first_copies = many_first_copies(stored_sites::first_copies(config)?, &known, now);
    many_first_copies.retain(|found| is_listed(&found.license));
    let claims = claims(stored_sites::claims(config, now)?, &known);
    let odd_reports = odd_reports(&known, reported);
    let findings = Findings {
        odd_reports,
        many_hosts,
        many_moves,
        many_first_copies,
        claims,
        vouched,
    };
    output::print(&if args.json {
        output::json(&findings)?
    } else {
        odd_text(&findings.odd_reports)
            + &many_hosts_text(&findings.many_hosts)
            + &many_moves_text(&findings.many_moves)
            + &many_first_copies_text(&findings.many_first_copies)
            + &claims_text(&findings.claims)
            + &vouched_text(&findings.vouched)
    })
}

/// The licenses that somebody vouched for, with who and why.
fn vouched(config: &Config, now: DateTime<Utc>) -> Result<Vec<VouchedLicense>, Failure> {
    let entries = stored_sites::vouches(config, now.date_naive())?;
    let names = entries.iter().flat_map(|entry| [entry.who, entry.reason]).flatten();
    let texts = KeptTexts::of(names, config);
    let text = |name| texts.get(name)?.text().map(str::to_owned);
    Ok(entries
        .iter()
        .filter_map(|entry| VouchedLicense::of(entry, text))
        .collect())
}

/// What is odd about build ids that sites reported.
fn odd_reports(known: &KnownCopies, reported: Vec<(LicenseId, SiteHost, Uuid)>) -> Vec<OddReport> {
    let odd = reported.into_iter().filter_map(|(license, host, build_id)| {
        let traced = known.trace(build_id);
        let oddity = oddity(known, &traced, &license, &host)?;
        let given_to = traced.licenses.iter().map(|license| license.id).collect();
        Some(OddReport {
            oddity,
            build_id,
            license,
            host,
            given_to,
        })
    });
    odd.collect()
}

/// The licenses that many hosts were refused, those with the most hosts first. A host that was bound since does not
/// count.
fn many_hosts(refused: RefusedByLicense, known: &KnownCopies) -> Vec<WantedLicense> {
    let mut wanted: Vec<WantedLicense> = Vec::new();
    for (license, refused) in refused {
        let details = known.licenses.with_id(&license).map(|license| &license.details);
        let ahead = details.map_or(&[][..], |details| &details.hosts);
        let bound = known.sites.get(&license).map_or(&[][..], Vec::as_slice);
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

/// The licenses that moved often, those with the most moves first.
fn many_moves(moves: MovesByLicense, known: &KnownCopies) -> Vec<MovedLicense> {
    let often = moves.into_iter().filter(|(_, moves)| moves.len() >= MANY_MOVES);
    let moved = often.map(|(license, moves)| MovedLicense {
        license,
        note: known.licenses.note(&license),
        moves: moves.into_iter().map(ReviewedMove::from).collect(),
    });
    let mut moved: Vec<_> = moved.collect();
    moved.sort_by_key(|moved| (Reverse(moved.moves.len()), moved.license));
    moved
}

/// The licenses whose first copies went to many networks, or were refused; those with the most networks first.
fn many_first_copies(copies: FirstCopiesByLicense, known: &KnownCopies, now: DateTime<Utc>) -> Vec<CopiedLicense> {
    let odd = copies.into_iter().filter(|(_, copies)| copies.are_odd(now));
    let copied = odd.map(|(license, copies)| CopiedLicense {
        license,
        note: known.licenses.note(&license),
        packages: copies.packages(now),
        networks: copies.networks(now),
        refused: copies.refused,
        last: copies.last,
    });
    let mut copied: Vec<_> = copied.collect();
    copied.sort_by_key(|copied| (Reverse((copied.networks, copied.packages)), copied.license));
    copied
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
    // Where the ledger no longer knows the site it was given to, nothing is known of it. A first copy was given to no site.
    let fits = traced.first_copy || own.any(|given| given.hosts.is_empty() || given.hosts.contains(host));
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

fn many_moves_text(moved: &[MovedLicense]) -> String {
    if moved.is_empty() {
        return format!("No license moved {MANY_MOVES} times or more in 30 days.\n");
    }
    let mut table = Table::new(["LICENSE", "MOVES", "FIRST", "LAST", "RELEASED HOSTS", "NOTE"]);
    for license in moved {
        let [first, .., last] = &license.moves[..] else {
            continue;
        };
        let mut hosts: Vec<_> = license.moves.iter().map(|site| site.host.as_str()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        table.row([
            &license.license.log_tag(),
            &license.moves.len(),
            &first.time.date_naive(),
            &last.time.date_naive(),
            &hosts.join(" "),
            &license.note,
        ]);
    }
    format!("\n{table}")
}

/// The claims, those that wait first.
fn claims(claims: Vec<ClaimEntry>, known: &KnownCopies) -> Vec<ReviewedClaim> {
    let reviewed = claims.into_iter().map(|ClaimEntry { license, claim }| ReviewedClaim {
        license,
        note: known.licenses.note(&license),
        until: (claim.step == ClaimStep::Begun).then(|| claim.time + CLAIM_PERIOD),
        host: claim.host,
        step: claim.step,
        time: claim.time,
    });
    let mut reviewed: Vec<_> = reviewed.collect();
    reviewed.sort_by_key(|claim| (claim.until.is_none(), Reverse(claim.time), claim.license));
    reviewed
}

fn claims_text(claims: &[ReviewedClaim]) -> String {
    if claims.is_empty() {
        return "No site that was installed again waits for its seat.\n".to_owned();
    }
    let mut table = Table::new(["LICENSE", "INSTALLED AGAIN", "STATE", "SINCE", "CARRIED OUT", "NOTE"]);
    for claim in claims {
        let until = claim
            .until
            .map_or("-".to_owned(), |until| until.date_naive().to_string());
        table.row([
            &claim.license.log_tag(),
            &claim.host,
            &<&str>::from(claim.step),
            &claim.time.date_naive(),
            &until,
            &claim.note,
        ]);
    }
    format!("\n{table}")
}

fn vouched_text(vouched: &[VouchedLicense]) -> String {
    if vouched.is_empty() {
        return String::new();
    }
    let mut table = Table::new(["FINE", "UNTIL", "SINCE", "BY", "REASON"]);
    for fine in vouched {
        table.row([
            &fine.license.log_tag(),
            &fine.until,
            &fine.time.date_naive(),
            &fine.who.clone().unwrap_or_else(|| fine.by.words()),
            &fine.reason.as_deref().unwrap_or("-"),
        ]);
    }
    format!("\n{table}")
}

fn many_first_copies_text(copied: &[CopiedLicense]) -> String {
    if copied.is_empty() {
        return format!(
            "No license's first copies went to more than {MANY_NETWORKS} networks in {DAYS} days, and none were refused.\n"
        );
    }
    let mut table = Table::new(["LICENSE", "FIRST COPIES", "NETWORKS", "REFUSED", "LAST", "NOTE"]);
    for license in copied {
        let refused = license
            .refused
            .map_or("no".to_owned(), |time| time.date_naive().to_string());
        table.row([
            &license.license.log_tag(),
            &license.packages,
            &license.networks,
            &refused,
            &license.last.date_naive(),
            &license.note,
        ]);
    }
    format!("\n{table}")
}
