//! The alarm of rollouts: sites that took a release, and a day later still report an older one.
//!
//! An alarm is a mark of the ledger, so that all nodes, webhooks and the desk know it, and it is raised once. Nothing is stopped by it.
//! What sites took is known to this node alone, and forgotten when it stops.

use std::io;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use crate::serve::pages::label::PageLabel;
use crate::serve::pages::mail_sign_in::send_mail;
use crate::serve::state::Service;
use countersign_ledger::stored_reports::{ReportRange, StoredReports};
use countersign_ledger::{RolloutChange, StoreError};
use countersign_mail::address::MailAddress;
use countersign_mail::mail_id::MailId;
use countersign_mail::texts::RenderedMail;
use countersign_model::binding::SiteReport;
use countersign_model::license_key::LicenseId;
use countersign_model::remarks::Author;
use countersign_model::rollout::{RolloutPhase, RolloutStep};
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

/// Sites that are read at once, because the store waits meanwhile.
const PAGE: usize = 100;

/// How many sites run what they took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TakenCount {
    /// Those that reported anything a day later or more.
    pub(crate) known: usize,
    /// Those of them that reported an older version.
    pub(crate) failed: usize,
}

impl TakenCount {
    fn share(self) -> f64 {
        self.failed as f64 / self.known.max(1) as f64
    }

    /// Whether people have to look, by the share of the last finished release.
    fn is_alarming(self, usual: Option<f64>) -> bool {
        self.failed >= FEWEST && self.share() > TIMES * usual.unwrap_or(USUAL)
    }
}

/// How it went on these sites. Blocks.
fn count(
    stored: &dyn StoredReports,
    slug: &Slug,
    version: &Version,
    sites: &[(LicenseId, SiteHost, DateTime<Utc>)],
) -> io::Result<TakenCount> {
    let mut counted = TakenCount::default();
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
            counted.known += 1;
            counted.failed += usize::from(runs.cmp_php(version).is_lt());
        }
    }
    Ok(counted)
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

/// Looks at what sites took, and raises the alarms that are due.
///
/// # Errors
/// A line was not written. The next look tries again.
pub(super) async fn look(service: &Arc<Service>, now: DateTime<Utc>) -> Result<(), StoreError> {
    let due = service.taken.due(now, PATIENCE);
    let Some(stored) = service.gate.bindings().stored_reports().filter(|_| !due.is_empty()) else {
        return Ok(());
    };
    let counted = tokio::task::spawn_blocking(move || {
        let each = due.into_iter().map(|(slug, version, sites)| {
            let count = count(&*stored, &slug, &version, &sites)?;
            Ok((slug, version, count))
        });
        each.collect::<io::Result<Vec<_>>>()
    });
    let counted = match counted.await {
        Ok(Ok(counted)) => counted,
        Ok(Err(error)) => {
            tracing::warn!(%error, "what sites reported after a release cannot be read");
            return Ok(());
        }
        Err(_) => return Ok(()),
    };
    for (slug, version, count) in counted {
        let Some(rollouts) = service.gate.bindings().rollouts(&slug) else {
            continue;
        };
        let Some(rollout) = rollouts.of(&version) else { continue };
        let usual = service.taken.usual(&slug);
        if !rollout.is_alarmed() && count.is_alarming(usual) {
            raise(service, &slug, &version, count, now).await?;
        } else if rollout.phase() == RolloutPhase::Finished && count.known > 0 {
            service.taken.note_usual(slug, count.share());
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
    use crate::serve::gate::PermittedDownload;
    use crate::serve::taken_releases::TakenPackages;
    use countersign_ledger::SiteReports;
    use countersign_model::digest::Digest;
    use countersign_model::first_copies::FirstCopies;
    use countersign_model::refused_hosts::RefusedHosts;
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
        let counted = count(&Reported(reported), &slug, &version, &due.2).unwrap();
        assert_eq!(counted, TakenCount { known: 4, failed: 2 });
        assert!(taken.due(at(24 * 8), PATIENCE).is_empty(), "forgotten after a week");
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
