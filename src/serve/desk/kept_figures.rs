//! Counts that a look at everything found, shown again for a while.

use std::sync::Arc;

use chrono::TimeDelta;

use crate::serve::api::licenses::reports::{self, ReviewReport};
use crate::serve::desk::asked::Asked;
use crate::serve::desk::figures::LicenseFigures;
use crate::serve::pages::page_problem::PageProblem;
use crate::serve::vouches;

/// How old counts of licenses may be.
pub(super) const COUNTS_FOR: TimeDelta = TimeDelta::minutes(1);

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
