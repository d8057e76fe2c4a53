//! Counts of all licenses, found by a look at everything.

use chrono::{Days, NaiveDate};

use crate::serve::background::TimeSlice;
use crate::serve::day_history::LicenseDay;
use crate::serve::found_license;
use crate::serve::gate::Snapshot;
use crate::serve::state::Service;
use countersign_ledger::Ledger;
use countersign_model::binding::Stored as _;
use countersign_model::license::{License, LicenseState, SiteLimit};
use countersign_model::staging_hosts::StagingRule;

/// A license that ends within so many days ends soon.
const SOON: u64 = 30;

/// How many licenses there are, and of which kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LicenseFigures {
    pub(super) all: usize,
    pub(super) active: usize,
    /// Active ones that end within 30 days.
    pub(super) ending: usize,
    /// Of these, those that renew by themselves.
    pub(super) renewing: usize,
    /// Active ones whose seats are all used.
    pub(super) full: usize,
    /// Active ones that no site ever used.
    pub(super) unused: usize,
    /// Seats that sites hold.
    pub(super) seats: usize,
    /// Licenses that were sold today. The history has those of the days before.
    pub(super) sold_today: u64,
    /// Licenses that were renewed today.
    pub(super) renewed_today: u64,
}

/// How a license is counted.
pub(super) struct LicenseMarks {
    pub(super) is_active: bool,
    pub(super) ends_soon: bool,
    pub(super) is_full: bool,
    pub(super) is_unused: bool,
    pub(super) seats: usize,
}

impl LicenseMarks {
    pub(super) fn of(license: &License, bindings: &Ledger, staging: &StagingRule, today: NaiveDate) -> Self {
        let bound = bindings.of(&license.id);
        let seats = license.used_seats(&bound, staging);
        let is_active = license.state(today) == LicenseState::Active;
        Self {
            is_active,
            ends_soon: is_active && ends_within(license, today, SOON),
            is_full: is_active && matches!(license.sites, SiteLimit::Limited(limit) if seats >= limit.get() as usize),
            is_unused: is_active && bound.all().is_empty() && license.details.hosts.is_empty(),
            seats,
        }
    }
}

/// Whether a license ends within so many days.
pub(super) fn ends_within(license: &License, today: NaiveDate, days: u64) -> bool {
    let last = today.checked_add_days(Days::new(days)).unwrap_or(today);
    (today..=last).contains(&license.end_on(today))
}

impl LicenseFigures {
    /// Counts a license.
    pub(super) fn add(&mut self, license: &License, marks: &LicenseMarks) {
        self.all += 1;
        self.active += usize::from(marks.is_active);
        self.ending += usize::from(marks.ends_soon);
        self.renewing += usize::from(marks.ends_soon && license.renews());
        self.full += usize::from(marks.is_full);
        self.unused += usize::from(marks.is_unused);
        self.seats += marks.seats;
    }

    /// Counts all licenses. Blocks.
    pub(super) fn of_all(service: &Service, snapshot: &Snapshot, today: NaiveDate) -> Self {
        let mut figures = Self::default();
        let bindings = service.gate.bindings();
        let staging = &service.gate.rules().staging;
        let marks = |license: &License| LicenseMarks::of(license, bindings, staging, today);
        let offers = snapshot.registry.offers();
        let mut slice = TimeSlice::begin();
        bindings.each_issued(|issued| {
            slice.pause_after_small_step();
            figures.add(&issued.license, &marks(&issued.license));
            if let Some(change) = LicenseDay::counted(issued, today, bindings, offers) {
                figures.sold_today += u64::from(change.is_sold);
                figures.renewed_today += u64::from(change.is_renewed);
            }
        });
        found_license::declared_alone(&snapshot.registry, bindings)
            .for_each(|license| figures.add(license, &marks(license)));
        figures
    }
}
