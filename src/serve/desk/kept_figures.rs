//! Counts that a look at everything found, shown again for a while.

use std::sync::Arc;

use chrono::TimeDelta;

use crate::serve::api::licenses::reports::{self, ReviewReport};
use crate::serve::desk::asked::Asked;
use crate::serve::desk::figures::LicenseFigures;
use crate::serve::pages::page_problem::PageProblem;
use crate::serve::plugin_usage::{PluginUsage, UsageCount};
use crate::serve::vouches;
use countersign_model::plugin::Plugin;

/// How old counts of licenses may be.
pub(super) const COUNTS_FOR: TimeDelta = TimeDelta::minutes(1);

/// Sites count that were seen within so many days.
pub(super) const DAYS: u16 = 30;

/// Counts of fewer sites are not kept: a look takes some 10 ms then, and the desk shows each report at once.
const MANY_SITES: usize = 10_000;

/// How old a look at what sites reported may be.
const SHARING_FOR: TimeDelta = TimeDelta::minutes(10);

/// The counts of licenses.
pub(super) async fn licenses(asked: &Asked<'_>) -> Result<Arc<LicenseFigures>, PageProblem> {
    let kept = &asked.state.licenses;
    if let Some(figures) = kept.within(&(), COUNTS_FOR, asked.now) {
        return Ok(figures);
    }
    let service = Arc::clone(&asked.state.service);
    let snapshot = Arc::clone(asked.snapshot);
    let today = asked.today();
    let look = move || LicenseFigures::of_all(&service, &snapshot, today);
    let figures = asked.state.scans.look(look).await?;
    Ok(kept.keep((), figures, asked.now))
}

/// How many sites run which versions of these plugins; `None` for a plugin without a published release that no site reports. Counts may be
/// a minute old; what is published is not.
pub(super) async fn usage<'p>(
    asked: &Asked<'_>,
    plugins: impl IntoIterator<Item = &'p Plugin>,
) -> Result<Vec<Option<PluginUsage>>, PageProblem> {
    let kept = &asked.state.usage;
    let service = &asked.state.service;
    let counted = match kept.within(&(), COUNTS_FOR, asked.now) {
        Some(counted) => counted,
        None => {
            let all = asked.snapshot.registry.plugins();
            let all = all.map(|plugin| plugin.slug.clone()).collect();
            let look = reports::counted_usage(service, all, DAYS);
            let counted = asked.state.scans.look_with(look).await??;
            let sites: usize = counted.iter().map(|usage| usage.sites + usage.silent).sum();
            match sites < MANY_SITES {
                true => Arc::new(counted),
                false => kept.keep((), counted, asked.now),
            }
        }
    };
    let of_plugin = |plugin: &Plugin| {
        let known = counted.iter().find(|usage| usage.plugin == plugin.slug);
        // An entry that is newer than the look.
        known
            .cloned()
            .unwrap_or_else(|| UsageCount::new(plugin.slug.clone()).finish(DAYS, asked.now))
    };
    let wanted = plugins.into_iter().map(of_plugin).collect();
    Ok(reports::with_releases(service, wanted).await?)
}

/// What looks like sharing. What a look found is kept; a license that somebody vouches for disappears at once.
pub(super) async fn sharing(asked: &Asked<'_>) -> Result<ReviewReport, PageProblem> {
    let kept = &asked.state.sharing;
    let service = &asked.state.service;
    let report = match kept.within(&(), SHARING_FOR, asked.now) {
        Some(report) => report,
        None => {
            let look = reports::review_report(service);
            kept.keep((), asked.state.scans.look_with(look).await??, asked.now)
        }
    };
    let fine = vouches::fine_licenses(service.gate.bindings(), asked.today());
    Ok(report.without(&fine))
}
