//! The alarm of rollouts: sites that took a release, and a day later still report an older one.
//!
//! Each server judges the sites that took a release from it, and counts them in the [history](crate::serve::day_tally). The sum over all
//! servers decides. An alarm is a mark of the ledger, so that all nodes, webhooks and the desk know it, and it is raised once. Nothing is
//! stopped by it.

use std::io;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use crate::serve::history_report::HistoryReport;
use crate::serve::pages::label::PageLabel;
use crate::serve::pages::mail_sign_in::send_mail;
use crate::serve::state::Service;
use crate::serve::taken_releases::{SiteOutcome, TakenCount};
use countersign_ledger::stored_reports::{ReportRange, StoredReports};
use countersign_ledger::{RolloutChange, StoreError};
use countersign_mail::address::MailAddress;
use countersign_mail::queued_mail::MailId;
use countersign_mail::texts::RenderedMail;
use countersign_model::binding::SiteReport;
use countersign_model::day_counts::{DayCounts, DayLine, NamedCounts};
use countersign_model::license_key::LicenseId;
use countersign_model::remarks::Author;
use countersign_model::rollout::{PluginRollouts, Rollout, RolloutPhase, RolloutStep};
use countersign_model::site_host::SiteHost;
use countersign_model::slug::Slug;
use countersign_model::version::Version;

/// A site has so much time to run what it took.
const PATIENCE: TimeDelta = TimeDelta::hours(24);

/// The fewest sites that raise an alarm.
const FEWEST: usize = 5;

/// So many times the usual share raises an alarm.
const TIMES: f64 = 3.0;

/// The usual share before a release has finished: some sites cannot reach themselves, and report every release as failed.
const USUAL: f64 = 0.01;

/// For so many days, counts of earlier releases say what is usual.
const COUNTED_DAYS: u16 = 366;

/// Sites that are read at once, because the store waits meanwhile.
const PAGE: usize = 100;

impl TakenCount {
    /// What all servers counted of a release since its rollout began, the last time.
    fn of(rollout: &Rollout, lines: &[DayLine]) -> Self {
        let since = rollout.started.date_naive();
        let sum = |counts: fn(&DayCounts) -> &NamedCounts| {
            let lines = lines.iter().filter(|line| line.day >= since);
            let of_day = lines.filter_map(|line| counts(&line.counts).get(rollout.version.as_str()));
            usize::try_from(of_day.sum::<u64>()).unwrap_or(usize::MAX)
        };
        Self {
            known: sum(|counts| &counts.taken),
            failed: sum(|counts| &counts.failed),
        }
    }

    fn share(self) -> f64 {
        self.failed as f64 / self.known.max(1) as f64
    }

    /// Whether people have to look, by the share of the last finished release.
    fn is_alarming(self, usual: Option<f64>) -> bool {
        self.failed >= FEWEST && self.share() > TIMES * usual.unwrap_or(USUAL)
    }
}

/// The share of sites that did not run the last release before this one which everybody got; `None` if nothing is known of such a one.
fn usual_share(rollouts: &PluginRollouts, version: &Version, lines: &[DayLine]) -> Option<f64> {
    let finished = rollouts
        .iter()
        .filter(|rollout| rollout.phase() == RolloutPhase::Finished && rollout.version.cmp_php(version).is_lt());
    let mut counts = finished.map(|rollout| TakenCount::of(rollout, lines));
    counts.find(|count| count.known > 0).map(TakenCount::share)
}

/// How it went on these sites. Blocks.
fn outcomes(
    stored: &dyn StoredReports,
    slug: &Slug,
    version: &Version,
    sites: &[(LicenseId, SiteHost, DateTime<Utc>)],
) -> io::Result<Vec<SiteOutcome>> {
    let mut outcomes = Vec::new();
    for (license, host, taken) in sites {
        let Some(report) = report_of(stored, license, host)? else {
            continue;
        };
        if report.last_seen.is_none_or(|seen| seen < *taken + PATIENCE) {
            continue;
        }
        let runs = report
            .current_versions
            .get(slug)
            .and_then(|text| text.parse::<Version>().ok());
        if let Some(runs) = runs {
            outcomes.push(SiteOutcome {
                license: *license,
                host: host.clone(),
                has_failed: runs.cmp_php(version).is_lt(),
            });
        }
    }
    Ok(outcomes)
}

fn report_of(stored: &dyn StoredReports, license: &LicenseId, host: &SiteHost) -> io::Result<Option<SiteReport>> {
    let mut range = ReportRange {
        license: Some(*license),
        after: None,
    };
    loop {
        let page = stored.reports(&range, PAGE)?;
        if let Some((.., report)) = page.iter().find(|(_, reported, _)| reported == host) {
            return Ok(Some(report.clone()));
        }
        match page.last() {
            Some((license, host, _)) if page.len() == PAGE => range.after = Some((*license, host.clone())),
            _ => return Ok(None),
        }
    }
}

/// Looks at what sites took from this server, counts that, and raises the alarms that are due by what all servers counted.
///
/// # Errors
/// A line was not written. The next look tries again.
pub(super) async fn look(service: &Arc<Service>, now: DateTime<Utc>) -> Result<(), StoreError> {
    let due = service.taken.due(now, PATIENCE);
    let Some(stored) = service.gate.bindings().stored_reports().filter(|_| !due.is_empty()) else {
        return Ok(());
    };
    let looked = tokio::task::spawn_blocking(move || {
        let each = due.into_iter().map(|(slug, version, sites)| {
            let outcomes = outcomes(&*stored, &slug, &version, &sites)?;
            Ok((slug, version, outcomes))
        });
        each.collect::<io::Result<Vec<_>>>()
    });
    let looked = match looked.await {
        Ok(Ok(looked)) => looked,
        Ok(Err(error)) => {
            tracing::warn!(%error, "what sites reported after a release cannot be read");
            return Ok(());
        }
        Err(_) => return Ok(()),
    };
    for (slug, version, outcomes) in looked {
        let news = service.taken.judge(&slug, &version, outcomes);
        service.tally.outcomes(&slug, &version, news, now);
        let Some(rollouts) = service.gate.bindings().rollouts(&slug) else {
            continue;
        };
        let Some(rollout) = rollouts.of(&version).filter(|rollout| !rollout.is_alarmed()) else {
            continue;
        };
        let range = HistoryReport::range(Some(slug.clone()), COUNTED_DAYS, now.date_naive());
        // Why it cannot be read was logged.
        let Ok(lines) = service.history.read(range, service.tally.lines()).await else {
            continue;
        };
        let count = TakenCount::of(rollout, &lines);
        if count.is_alarming(usual_share(&rollouts, &version, &lines)) {
            raise(service, &slug, &version, count, now).await?;
        }
    }
    Ok(())
}

/// Raises an alarm, unless another node did.
async fn raise(
    service: &Arc<Service>,
    slug: &Slug,
    version: &Version,
    count: TakenCount,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let change = RolloutChange {
        slug: slug.clone(),
        version: version.clone(),
        step: RolloutStep::Alarmed,
        least: None,
        author: Author::default(),
        now,
    };
    if !service.gate.bindings().change_rollout(change).await?.is_changed {
        return Ok(());
    }
    let TakenCount { known, failed } = count;
    tracing::warn!(plugin = %slug, %version, known, failed, "many sites do not run the release that they took a day ago");
    let Some(account) = service.alarm_mail.get().cloned() else {
        return Ok(());
    };
    let rendered = RenderedMail {
        subject: format!("{slug} {version}: {failed} of {known} sites do not run it"),
        text: format!(
            "{failed} of {known} sites that took {slug} {version} a day ago or more still report an older version.\n\nIt goes on to \
             further sites. To stop that:\n\n  countersign rollout {slug} pause --release {version}\n\nTo take it back, add {version} \
             to `withhold` in the plugin's entry, and build.\n"
        ),
        html: None,
        unsubscribe: None,
    };
    let snapshot = service.gate.snapshot();
    for person in snapshot.registry.people() {
        let Ok(address) = person.address.written().parse::<MailAddress>() else {
            continue;
        };
        let id = MailId::of_event(&format!("rollout alarm {slug} {version} {now} {}", address.reveal()));
        let account = Arc::clone(&account);
        let rendered = rendered.clone();
        tokio::spawn(async move { send_mail(PageLabel::DESK, &account, &address, id, now, &rendered).await });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::day_tally::DayTally;
    use crate::serve::gate::PermittedDownload;
    use crate::serve::taken_releases::TakenPackages;
    use countersign_ledger::SiteReports;
    use countersign_model::digest::Digest;
    use countersign_model::first_copies::FirstCopies;
    use countersign_model::refused_hosts::RefusedHosts;
    use countersign_model::rollout::RolloutMark;
    use countersign_package::catalog::HeldPackage;

    #[test]
    fn five_sites_and_more_than_three_times_the_usual_share_raise_an_alarm() {
        for (failed, known, usual, expected) in [
            (4, 4, None, false),
            (5, 100, None, true),
            // Sites that cannot call themselves report every release as failed.
            (5, 500, None, false),
            (16, 500, None, true),
            (5, 500, Some(0.0), true),
            (30, 500, Some(0.02), false),
            (31, 500, Some(0.02), true),
            (0, 0, Some(0.0), false),
        ] {
            let count = TakenCount { known, failed };
            assert_eq!(count.is_alarming(usual), expected, "{failed} of {known}, {usual:?}");
        }
    }

    /// What sites of one license reported, two on a page.
    struct Reported(Vec<(SiteHost, SiteReport)>);

    impl StoredReports for Reported {
        fn reports(&self, range: &ReportRange, _limit: usize) -> io::Result<SiteReports> {
            let license = range.license.unwrap();
            let after = range.after.as_ref().map(|(_, host)| host);
            let later = self.0.iter().filter(|(host, _)| after.is_none_or(|after| host > after));
            Ok(later
                .take(PAGE)
                .map(|(host, report)| (license, host.clone(), report.clone()))
                .collect())
        }

        fn refused(&self, _: Option<&LicenseId>, _: usize) -> io::Result<Vec<(LicenseId, RefusedHosts)>> {
            Ok(Vec::new())
        }

        fn refused_of(&self, _: &LicenseId) -> io::Result<Option<RefusedHosts>> {
            Ok(None)
        }

        fn first_copies(&self, _: Option<&LicenseId>, _: usize) -> io::Result<Vec<(LicenseId, FirstCopies)>> {
            Ok(Vec::new())
        }

        fn first_copies_of(&self, _: &LicenseId) -> io::Result<Option<FirstCopies>> {
            Ok(None)
        }
    }

    #[test]
    fn a_site_counts_once_it_reported_something_a_day_later() {
        let slug: Slug = "acme-forms".parse().unwrap();
        let version: Version = "2.0".parse().unwrap();
        let license = LicenseId::from_bytes([7; 32]);
        let at = |hours: i64| DateTime::UNIX_EPOCH + TimeDelta::hours(hours);
        let taken = TakenPackages::default();
        // Two hundred sites stand before those that count.
        let mut reported: Vec<(SiteHost, SiteReport)> = (0..200)
            .map(|number| (format!("a{number:03}.com").parse().unwrap(), SiteReport::default()))
            .collect();
        for (host, hours, runs) in [
            ("b.com", 30, "2.0"),
            ("c.com", 30, "1.9"),
            // It went back.
            ("d.com", 100, "1.9"),
            // It has time until tomorrow.
            ("e.com", 20, "1.9"),
            ("f.com", 30, "2.1"),
            ("g.com", 30, "nightly"),
        ] {
            let host: SiteHost = host.parse().unwrap();
            for hour in [1, 2] {
                taken.note(&permitted(&slug, &version, license, &host), at(hour));
            }
            let report = SiteReport {
                last_seen: Some(at(hours)),
                current_versions: [(slug.clone(), runs.to_owned())].into(),
                ..SiteReport::default()
            };
            reported.push((host, report));
        }
        assert!(taken.due(at(24), PATIENCE)[0].2.is_empty(), "nobody took it a day ago");
        let due = taken.due(at(25), PATIENCE).remove(0);
        assert_eq!((&due.0, &due.1, due.2.len()), (&slug, &version, 6));
        let said = outcomes(&Reported(reported.clone()), &slug, &version, &due.2).unwrap();
        assert_eq!(taken.judge(&slug, &version, said.clone()), count(4, 2));
        // Each is counted once, and one that goes back later fails later.
        assert_eq!(taken.judge(&slug, &version, said), count(0, 0));
        let due = taken.due(at(50), PATIENCE).remove(0);
        assert_eq!(due.2.len(), 4, "those that failed are not looked at again");
        let (_, report) = reported.iter_mut().find(|(host, _)| host.as_str() == "b.com").unwrap();
        report.current_versions.insert(slug.clone(), "1.9".to_owned());
        let said = outcomes(&Reported(reported), &slug, &version, &due.2).unwrap();
        assert_eq!(taken.judge(&slug, &version, said), count(0, 1));
        assert!(taken.due(at(24 * 8), PATIENCE).is_empty(), "forgotten after a week");
    }

    fn count(known: usize, failed: usize) -> TakenCount {
        TakenCount { known, failed }
    }

    #[test]
    fn what_all_servers_counted_decides_beside_the_last_finished_release() {
        let slug: Slug = "acme-forms".parse().unwrap();
        let [old, other, new] = ["1.0", "1.1", "2.0"].map(|text| text.parse::<Version>().unwrap());
        let now: DateTime<Utc> = "2026-11-26T10:00:00Z".parse().unwrap();
        let later = now + TimeDelta::days(1);
        // Two servers, each of which counted too few, over two days.
        let servers = [DayTally::new(now), DayTally::new(now)];
        for (server, version, time, news) in [
            (0, &old, now, count(90, 1)),
            (1, &old, now, count(10, 1)),
            (0, &new, now, count(30, 2)),
            (1, &new, now, count(10, 1)),
            (1, &new, later, count(5, 2)),
        ] {
            servers[server].outcomes(&slug, version, news, time);
        }
        let lines: Vec<_> = servers.iter().flat_map(DayTally::lines).collect();
        let mut rollouts = PluginRollouts::default();
        for (version, step) in [
            (&old, RolloutStep::Finished),
            (&other, RolloutStep::Finished),
            (&new, RolloutStep::Started),
        ] {
            let mark = RolloutMark {
                step,
                time: now,
                who: None,
                reason: None,
            };
            assert!(rollouts.take(version, mark));
        }
        let counted = |rollouts: &PluginRollouts, lines: &[DayLine]| TakenCount::of(rollouts.of(&new).unwrap(), lines);
        assert_eq!(counted(&rollouts, &lines), count(45, 5));
        // Nobody took 1.1.
        let usual = usual_share(&rollouts, &new, &lines);
        assert_eq!(usual, Some(0.02));
        assert_eq!(usual_share(&rollouts, &old, &lines), None);
        assert!(counted(&rollouts, &lines).is_alarming(usual));
        for server in &servers {
            assert!(!counted(&rollouts, &server.lines()).is_alarming(usual));
        }
        // What was counted before it was taken back says nothing of it.
        for (step, time) in [(RolloutStep::Withheld, later), (RolloutStep::Restarted, later)] {
            let mark = RolloutMark {
                step,
                time,
                who: None,
                reason: None,
            };
            assert!(rollouts.take(&new, mark));
        }
        assert_eq!(counted(&rollouts, &lines), count(5, 2));
    }

    fn permitted(slug: &Slug, version: &Version, license: LicenseId, host: &SiteHost) -> PermittedDownload {
        PermittedDownload {
            license,
            host: Some(host.clone()),
            slug: slug.clone(),
            version: version.clone(),
            path: std::path::PathBuf::new(),
            package: HeldPackage {
                size: 1,
                sha256: Digest::of(b""),
                mark: None,
            },
            is_after_end: false,
        }
    }
}
