//! Counts that a look at everything found, shown again for a while.

use std::sync::Arc;

use chrono::TimeDelta;

use crate::serve::api::licenses::reports;
use crate::serve::desk::asked::Asked;
use crate::serve::desk::figures::{LicenseFigures, SharingFigures};
use crate::serve::pages::page_problem::PageProblem;

/// How old counts of licenses may be.
pub(super) const COUNTS_FOR: TimeDelta = TimeDelta::minutes(1);

/// How old a look at what sites reported may be.
const SHARING_FOR: TimeDelta = TimeDelta::minutes(10);

/// The counts of licenses.
pub(super) async fn licenses(asked: &Asked<'_>) -> Result<Arc<LicenseFigures>, PageProblem> {
    let kept = &asked.state.licenses;
    if let Some(figures) = kept.within(COUNTS_FOR, asked.now) {
        return Ok(figures);
    }
    let service = Arc::clone(&asked.state.service);
    let snapshot = Arc::clone(asked.snapshot);
    let today = asked.today();
    let look = move || LicenseFigures::of_all(&service, &snapshot, today);
    let figures = asked.state.scans.look(look).await?;
    Ok(kept.keep(figures, asked.now))
}

/// What looks like sharing.
pub(super) async fn sharing(asked: &Asked<'_>) -> Result<Arc<SharingFigures>, PageProblem> {
    let kept = &asked.state.sharing;
    if let Some(figures) = kept.within(SHARING_FOR, asked.now) {
        return Ok(figures);
    }
    let look = reports::review_report(&asked.state.service);
    let report = asked.state.scans.look_with(look).await??;
    Ok(kept.keep(SharingFigures(report), asked.now))
}
