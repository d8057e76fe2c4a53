//! `GET /api/v1/reports/…`: what sites reported, for programs with the scope `reports:read`.
//!
//! What a site reports is what it says. Nothing here names a buyer.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use uuid::Uuid;
use warp::http::StatusCode;

use crate::serve::api::licenses::document::LicenseAnswer;
use crate::serve::history_report::MOST_DAYS;
use crate::serve::plugin_usage::{PluginUsage, UsageCount, UsingSite};
use crate::serve::reply::problem::Problem;
use crate::serve::reply::response::{JSON, Response};
use crate::serve::reported_copies;
use crate::serve::state::Service;
use crate::serve::vouches::{self, VouchedLicense};
use countersign_ledger::log::ClaimEntry;
use countersign_ledger::stored_reports::{ReportRange, StoredReports};
use countersign_ledger::{Ledger, SiteReports};
use countersign_model::binding::SiteReport;
use countersign_model::license_key::LicenseId;
use countersign_model::refused_hosts::{MANY_HOSTS, RefusedHosts};
use countersign_model::site_claim::{CLAIM_PERIOD, ClaimStep};
use countersign_model::site_host::SiteHost;
use countersign_model::site_release::{MANY_MOVES, ReleasedBy};
use countersign_model::slug::Slug;

/// The path of all reports.
pub(super) const REPORTS: &str = "/api/v1/reports/";

/// Sites that are read at once, because the store waits meanwhile.
const PAGE: usize = 500;

/// The most entries in a list of an answer.
const MOST: usize = 500;

/// One report at a time: each reads what every site reported.
static TURN: Semaphore = Semaphore::const_new(1);

/// What deserves a look.
#[derive(Clone, Debug, Serialize)]
pub(in crate::serve) struct ReviewReport {
    /// Sites whose build id is not their own.
    pub odd_copies: Vec<OddCopy>,
    /// Licenses that many hosts asked for in vain, those with the most hosts first.
    pub many_hosts: Vec<RefusedLicense>,
    /// Licenses whose sites gave a seat back often in 30 days, those with the most moves first.
    pub many_moves: Vec<RestlessLicense>,
    /// Licenses whose first copies went to many networks in 14 days or were refused, those with the most networks first.
    pub many_first_copies: Vec<CopiedOften>,
    /// Sites that were installed again, and ask for their seat with another secret.
    pub claims: Vec<ReportedClaim>,
}

impl ReviewReport {
    /// This report without the findings about licenses for which somebody vouched; claims stay.
    pub(in crate::serve) fn without(&self, fine: &HashSet<LicenseId>) -> Self {
        fn listed<T: Clone>(found: &[T], is_fine: impl Fn(&T) -> bool) -> Vec<T> {
            found.iter().filter(|found| !is_fine(found)).cloned().collect()
        }
        Self {
            odd_copies: listed(&self.odd_copies, |found| fine.contains(&found.license)),
            many_hosts: listed(&self.many_hosts, |found| fine.contains(&found.license)),
            many_moves: listed(&self.many_moves, |found| fine.contains(&found.license)),
            many_first_copies: listed(&self.many_first_copies, |found| fine.contains(&found.license)),
            claims: self.claims.clone(),
        }
    }

    /// How many licenses and sites deserve a look; claims decide themselves.
    pub(in crate::serve) fn count(&self) -> usize {
        self.odd_copies.len() + self.many_hosts.len() + self.many_moves.len() + self.many_first_copies.len()
    }
}

/// The answer of `review`.
#[derive(Debug, Serialize)]
struct ReviewAnswer {
    #[serde(flatten)]
    report: ReviewReport,
    vouched: Vec<VouchedLicense>,
}

/// A site that reports the build id of another copy.
#[derive(Clone, Debug, Serialize)]
pub(in crate::serve) struct OddCopy {
    pub license: LicenseId,
    pub host: SiteHost,
    pub build_id: Uuid,
}

/// A license that many hosts asked for in vain.
#[derive(Clone, Debug, Serialize)]
pub(in crate::serve) struct RefusedLicense {
    pub license: LicenseId,
    pub since: DateTime<Utc>,
    pub last: DateTime<Utc>,
    pub hosts: Vec<SiteHost>,
}

/// A license that moved often.
#[derive(Clone, Debug, Serialize)]
pub(in crate::serve) struct RestlessLicense {
    pub license: LicenseId,
    pub moves: Vec<ReportedMove>,
}

/// A license with many first copies.
#[derive(Clone, Debug, Serialize)]
pub(in crate::serve) struct CopiedOften {
    pub license: LicenseId,
    pub packages: u32,
    pub networks: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<DateTime<Utc>>,
    pub last: DateTime<Utc>,
}

/// A site that gave its seat back.
#[derive(Clone, Debug, Serialize)]
pub(in crate::serve) struct ReportedMove {
    pub host: SiteHost,
    pub time: DateTime<Utc>,
    pub by: ReleasedBy,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<SiteHost>,
}

/// A site that was installed again, and what became of its claim.
#[derive(Clone, Debug, Serialize)]
pub(in crate::serve) struct ReportedClaim {
    pub license: LicenseId,
    pub host: SiteHost,
    pub step: ClaimStep,
    pub time: DateTime<Utc>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<DateTime<Utc>>,
}

/// The answer to the path below [`REPORTS`].
pub(super) async fn reply(service: &Service, path: &str, query: &str) -> Result<LicenseAnswer, Problem> {
    if let Some(plugin) = path.strip_prefix("usage/") {
        let days = days(query)?;
        let plugin: Slug = plugin.parse().map_err(|_| Problem::NotFound)?;
        return usage(service, plugin, days).await;
    }
    match path {
        "review" if query.is_empty() => review(service).await,
        "review" => Err(malformed("This report takes no parameter.")),
        "history" => history(service, query).await,
        _ => Err(Problem::NotFound),
    }
}

/// The versions of a plugin in the field.
async fn usage(service: &Service, plugin: Slug, days: u16) -> Result<LicenseAnswer, Problem> {
    let usage = usage_of(service, vec![plugin], days).await?.pop();
    answer(&usage.flatten().ok_or(Problem::NotFound)?)
}

/// What was counted day by day.
async fn history(service: &Service, query: &str) -> Result<LicenseAnswer, Problem> {
    let (plugin, days) = history_range(query)?;
    if let Some(plugin) = &plugin
        && service.gate.load().registry.plugin(plugin.as_str()).is_none()
    {
        return Err(Problem::NotFound);
    }
    let own = service.tally.lines();
    answer(&service.history.report(plugin, days, own, Utc::now()).await?)
}

/// The versions of these plugins in the field, in their order; `None` of one without a published release that no site
/// reports.
pub(in crate::serve) async fn usage_of(
    service: &Service,
    plugins: Vec<Slug>,
    days: u16,
) -> Result<Vec<Option<PluginUsage>>, Problem> {
    with_releases(service, counted_usage(service, plugins, days).await?).await
}

/// The versions of these plugins that sites report, in the order of `plugins`. Reads the reports of all sites.
pub(in crate::serve) async fn counted_usage(
    service: &Service,
    plugins: Vec<Slug>,
    days: u16,
) -> Result<Vec<PluginUsage>, Problem> {
    let _turn = TURN.acquire().await.map_err(|error| Problem::internal(&error))?;
    let mut counts: Vec<_> = plugins.into_iter().map(UsageCount::new).collect();
    each_report(service, |license, host, report| {
        counts.iter_mut().for_each(|count| count.add(license, host, report));
    })
    .await?;
    let usage = spawn_blocking(move || {
        let now = Utc::now();
        counts.into_iter().map(|count| count.finish(days, now)).collect()
    });
    usage.await.map_err(|error| Problem::internal(&error))
}

/// Adds to each plugin what is published and withheld of it now.
pub(in crate::serve) async fn with_releases(
    service: &Service,
    counted: Vec<PluginUsage>,
) -> Result<Vec<Option<PluginUsage>>, Problem> {
    let snapshot = service.gate.snapshot();
    let usage = spawn_blocking(move || {
        let now = Utc::now();
        let published = counted.into_iter().map(|usage| {
            let entry = snapshot.registry.plugin(usage.plugin.as_str());
            let withheld = entry.map_or(&[][..], |entry| &entry.withhold);
            usage.with_releases(snapshot.catalog.folder(), withheld, now)
        });
        published.collect::<Result<Vec<_>, _>>()
    });
    let usage = usage.await.map_err(|error| Problem::internal(&error))?;
    usage.map_err(|error| Problem::internal(&error))
}

/// The sites that run this version of a plugin, of those that were seen within `days`, sorted by host.
pub(in crate::serve) async fn sites_running(
    service: &Service,
    plugin: Slug,
    version: &str,
    days: u16,
) -> Result<Vec<UsingSite>, Problem> {
    let _turn = TURN.acquire().await.map_err(|error| Problem::internal(&error))?;
    let mut count = UsageCount::new(plugin);
    each_report(service, |license, host, report| count.add(license, host, report)).await?;
    let mut sites = count.sites(days, Utc::now());
    sites.retain(|site| site.version == version);
    Ok(sites)
}

/// The licenses that were refused to a host for want of a seat.
pub(in crate::serve) async fn licenses_refused_to(
    service: &Service,
    host: &SiteHost,
) -> Result<Vec<LicenseId>, Problem> {
    let mut found = Vec::new();
    each_refused(service, |license, refused| {
        if refused.hosts().contains(host) {
            found.push(license);
        }
    })
    .await?;
    Ok(found)
}

/// What the sites of a license reported, at most `limit` of them.
pub(in crate::serve) async fn reports_of(
    service: &Service,
    license: LicenseId,
    limit: usize,
) -> Result<SiteReports, Problem> {
    let range = ReportRange {
        license: Some(license),
        after: None,
    };
    read(service, move |stored| stored.reports(&range, limit)).await
}

/// The hosts that a license was refused to; `None` if there are none.
pub(in crate::serve) async fn refused_of(
    service: &Service,
    license: LicenseId,
) -> Result<Option<RefusedHosts>, Problem> {
    read(service, move |stored| stored.refused_of(&license)).await
}

/// Everything that deserves a look, and which licenses somebody vouched for.
async fn review(service: &Service) -> Result<LicenseAnswer, Problem> {
    let report = review_report(service).await?;
    let vouches = service.gate.bindings().vouches(Utc::now().date_naive());
    let fine: HashSet<_> = vouches.iter().map(|entry| entry.license).collect();
    let report = report.without(&fine);
    // Names and reasons may be personal.
    let vouched = vouches.iter().filter_map(|entry| VouchedLicense::of(entry, |_| None));
    let mut vouched: Vec<_> = vouched.collect();
    vouched.truncate(MOST);
    answer(&ReviewAnswer { report, vouched })
}

/// Everything that deserves a look, and the same of licenses that somebody vouched for, which do not count for the most entries of
/// a list.
pub(in crate::serve) async fn review_report(service: &Service) -> Result<ReviewReport, Problem> {
    let _turn = TURN.acquire().await.map_err(|error| Problem::internal(&error))?;
    let snapshot = service.gate.snapshot();
    let bindings = service.gate.bindings();
    let now = Utc::now();
    let fine = vouches::fine_licenses(bindings, now.date_naive());
    let mut odd_copies = Vec::new();
    let mut room = MOST;
    each_report(service, |license, host, report| {
        if let Some(build_id) = report.build_id.filter(|id| !id.is_nil())
            && (room > 0 || fine.contains(license))
            && !reported_copies::is_own(&service.gate, &snapshot, license, host, build_id, now)
        {
            room -= usize::from(!fine.contains(license));
            odd_copies.push(OddCopy {
                license: *license,
                host: host.clone(),
                build_id,
            });
        }
    })
    .await?;
    let mut many_hosts = Vec::new();
    each_refused(service, |license, refused| {
        let bound = bindings.of(&license);
        let hosts = refused.hosts().iter();
        let hosts: Vec<_> = hosts
            .filter(|host| bound.iter().all(|binding| binding.host != **host))
            .cloned()
            .collect();
        if hosts.len() >= MANY_HOSTS {
            many_hosts.push(RefusedLicense {
                license,
                since: refused.since,
                last: refused.last,
                hosts,
            });
        }
    })
    .await?;
    many_hosts.sort_by_key(|found| (std::cmp::Reverse(found.hosts.len()), found.license));
    shorten(&mut many_hosts, |found| fine.contains(&found.license));
    let moves = bindings.moves(now).into_iter();
    let often = moves.filter(|(_, moves)| moves.len() >= MANY_MOVES);
    let often = often.map(|(license, moves)| RestlessLicense {
        license,
        moves: moves
            .into_iter()
            .map(|release| ReportedMove {
                host: release.host,
                time: release.time,
                by: release.by,
                to: release.moved.map(|moved| moved.to),
            })
            .collect(),
    });
    let mut many_moves: Vec<_> = often.collect();
    many_moves.sort_by_key(|found| (std::cmp::Reverse(found.moves.len()), found.license));
    shorten(&mut many_moves, |found| fine.contains(&found.license));
    Ok(ReviewReport {
        odd_copies,
        many_hosts,
        many_moves,
        many_first_copies: many_first_copies(service, &fine, now).await?,
        claims: claims(bindings, now),
    })
}

/// The claims that wait, and those of the last 30 days; those that wait first.
fn claims(bindings: &Ledger, now: DateTime<Utc>) -> Vec<ReportedClaim> {
    let known = bindings.claims().into_iter();
    let recent = known.filter(|entry| entry.claim.step == ClaimStep::Begun || entry.claim.is_recent(now));
    let reported = recent.map(|ClaimEntry { license, claim }| ReportedClaim {
        license,
        until: (claim.step == ClaimStep::Begun).then(|| claim.time + CLAIM_PERIOD),
        host: claim.host,
        step: claim.step,
        time: claim.time,
    });
    let mut reported: Vec<_> = reported.collect();
    reported.sort_by_key(|claim| (claim.until.is_none(), std::cmp::Reverse(claim.time), claim.license));
    reported.truncate(MOST);
    reported
}

/// Keeps the first [`MOST`] entries that nobody vouched for, and all that somebody vouched for.
fn shorten<T>(found: &mut Vec<T>, is_fine: impl Fn(&T) -> bool) {
    let mut room = MOST;
    found.retain(|found| {
        let stays = room > 0 || is_fine(found);
        room -= usize::from(stays && !is_fine(found));
        stays
    });
}

async fn many_first_copies(
    service: &Service,
    fine: &HashSet<LicenseId>,
    now: DateTime<Utc>,
) -> Result<Vec<CopiedOften>, Problem> {
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page = read(service, move |stored| stored.first_copies(after.as_ref(), PAGE)).await?;
        after = page.last().map(|(license, _)| *license);
        let is_last = page.len() < PAGE;
        let odd = page.into_iter().filter(|(_, copies)| copies.are_odd(now));
        found.extend(odd.map(|(license, copies)| CopiedOften {
            license,
            packages: copies.packages(now),
            networks: copies.networks(now),
            refused: copies.refused,
            last: copies.last,
        }));
        if is_last {
            break;
        }
    }
    found.sort_by_key(|found| (std::cmp::Reverse((found.networks, found.packages)), found.license));
    shorten(&mut found, |found| fine.contains(&found.license));
    Ok(found)
}

/// Passes on what every site reported, page by page.
async fn each_report(
    service: &Service,
    mut each: impl FnMut(&LicenseId, &SiteHost, &SiteReport),
) -> Result<(), Problem> {
    let mut range = ReportRange::default();
    loop {
        let wanted = range.clone();
        let page = read(service, move |stored| stored.reports(&wanted, PAGE)).await?;
        for (license, host, report) in &page {
            each(license, host, report);
        }
        match page.last() {
            Some((license, host, _)) if page.len() == PAGE => range.after = Some((*license, host.clone())),
            _ => return Ok(()),
        }
    }
}

/// Passes on which hosts each license was refused to, page by page.
async fn each_refused(service: &Service, mut each: impl FnMut(LicenseId, RefusedHosts)) -> Result<(), Problem> {
    let mut after = None;
    loop {
        let page = read(service, move |stored| stored.refused(after.as_ref(), PAGE)).await?;
        after = page.last().map(|(license, _)| *license);
        let is_last = page.len() < PAGE;
        for (license, refused) in page {
            each(license, refused);
        }
        if is_last {
            return Ok(());
        }
    }
}

/// Reads from the store on a thread that may wait.
async fn read<T: Send + 'static>(
    service: &Service,
    read: impl FnOnce(&dyn StoredReports) -> io::Result<T> + Send + 'static,
) -> Result<T, Problem> {
    let stored: Arc<dyn StoredReports> = service
        .gate
        .bindings()
        .stored_reports()
        .ok_or(Problem::StoreUnavailable)?;
    let read = spawn_blocking(move || read(&*stored)).await;
    let read = read.map_err(|error| Problem::internal(&error))?;
    read.map_err(|error| {
        tracing::error!(%error, "what sites reported cannot be read");
        Problem::StoreUnavailable
    })
}

/// The parameters of the history.
fn history_range(query: &str) -> Result<(Option<Slug>, u16), Problem> {
    let mut plugin: Option<Slug> = None;
    let mut days: Option<u16> = None;
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "slug" if plugin.is_none() => {
                let slug = value
                    .parse()
                    .map_err(|_| malformed("'slug' must be the slug of a plugin."))?;
                plugin = Some(slug);
            }
            "days" if days.is_none() => {
                let number = value.parse().ok().filter(|days| (1..=MOST_DAYS).contains(days));
                days = Some(number.ok_or_else(|| malformed("'days' must be a number from 1 to 3660."))?);
            }
            _ => return Err(malformed("The parameters are 'slug' and 'days', each once.")),
        }
    }
    Ok((plugin, days.unwrap_or(30)))
}

/// The only parameter: sites count that were seen within this many days.
fn days(query: &str) -> Result<u16, Problem> {
    let mut days = None;
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        let number = value.parse().ok().filter(|days: &u16| *days > 0);
        match (&*name, number) {
            ("days", Some(number)) if days.is_none() => days = Some(number),
            ("days", _) => return Err(malformed("'days' must be one number from 1 to 65535.")),
            _ => return Err(malformed("The only parameter is 'days'.")),
        }
    }
    Ok(days.unwrap_or(30))
}

fn malformed(text: &str) -> Problem {
    Problem::Malformed(text.to_owned())
}

fn answer(report: &impl Serialize) -> Result<LicenseAnswer, Problem> {
    let body = serde_json::to_vec(report).map_err(|error| Problem::internal(&error))?;
    Ok(LicenseAnswer {
        response: Response {
            status: StatusCode::OK,
            ..JSON.answer(body)
        },
        headers: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_is_of_one_plugin_or_all() {
        assert_eq!(history_range(""), Ok((None, 30)));
        assert_eq!(
            history_range("slug=acme&days=365"),
            Ok((Some("acme".parse().unwrap()), 365))
        );
        for bad in [
            "slug=A",
            "days=0",
            "days=3661",
            "days=1&days=1",
            "slug=a&slug=a",
            "plugin=a",
        ] {
            assert!(history_range(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_fine_takes_no_room_in_a_list() {
        let mut found: Vec<usize> = (0..2 * MOST).collect();
        shorten(&mut found, |number| number % 10 == 9);
        assert_eq!(found.iter().filter(|number| *number % 10 != 9).count(), MOST);
        assert_eq!(found.iter().filter(|number| *number % 10 == 9).count(), 2 * MOST / 10);
        assert_eq!(found[..3], [0, 1, 2]);
    }

    #[test]
    fn days_are_one_number_from_1() {
        assert_eq!(days(""), Ok(30));
        assert_eq!(days("days=7"), Ok(7));
        for bad in ["days=0", "days=", "days=65536", "days=1&days=2", "days=+1x", "day=1"] {
            assert!(days(bad).is_err(), "{bad}");
        }
    }
}
