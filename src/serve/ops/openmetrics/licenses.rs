//! The metric of all licenses, declared and of the ledger, by what they are today.

use std::fmt;

use chrono::{NaiveDate, Utc};
use prometheus_client::metrics::gauge::ConstGauge;

use crate::serve::found_license;
use crate::serve::ops::openmetrics::writer::{MetricWriter, Series};
use crate::serve::state::Service;
use countersign_model::license::{License, LicenseState};

/// How many licenses of the ledger to take at once: whoever commits waits for no more than that.
const AT_ONCE: usize = 10_000;

#[derive(Default)]
struct Counts {
    active: u64,
    expired: u64,
    suspended: u64,
    revoked: u64,
}

impl Counts {
    fn add(&mut self, license: &License, today: NaiveDate) {
        let count = match license.state(today) {
            LicenseState::Active => &mut self.active,
            LicenseState::Expired => &mut self.expired,
            LicenseState::Suspended => &mut self.suspended,
            LicenseState::Revoked => &mut self.revoked,
        };
        *count += 1;
    }
}

/// Looks at every license: a million take some tens of milliseconds.
pub(super) fn write(page: &mut MetricWriter<'_>, service: &Service) -> fmt::Result {
    let today = Utc::now().date_naive();
    let snapshot = service.gate.snapshot();
    let mut counts = Counts::default();
    let bindings = service.gate.bindings();
    found_license::declared_alone(&snapshot.registry, bindings).for_each(|license| counts.add(license, today));
    let mut last = None;
    loop {
        let licenses = bindings.issued_after(last.as_ref(), AT_ONCE, &|_| true);
        licenses.iter().for_each(|issued| counts.add(&issued.license, today));
        match licenses.last() {
            Some(issued) if licenses.len() == AT_ONCE => last = Some(issued.license.id),
            _ => break,
        }
    }
    let standings = [
        ("active", counts.active),
        ("expired", counts.expired),
        ("suspended", counts.suspended),
        ("revoked", counts.revoked),
    ];
    let series = standings.map(|(standing, count)| ([("standing", standing)], ConstGauge::new(count)));
    let help = "Licenses that files declare and licenses of the ledger, each id once";
    page.add("countersign_licenses", help, &Series(series.into()))?;
    let differing = ConstGauge::new(service.declarations.count() as u64);
    let help = "Declarations that grant something else than the ledger's license with their id, which is in force";
    page.add("countersign_declarations_differing", help, &differing)
}
