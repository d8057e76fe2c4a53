//! What a list of licenses shows of all, by what each license is itself, and the beginning of a list that was found.

use chrono::NaiveDate;

use crate::serve::desk::figures::{LicenseMarks, ends_within};
use countersign_model::issued_license::IssuedPlace;
use countersign_model::license::{License, LicenseState};
use countersign_model::name::Name;
use countersign_model::period::NEVER;

/// How many licenses a page has.
pub(super) const PAGE: usize = 50;

/// The place of a license in the list: when it was issued, in nanoseconds since 1970, and its id. Declared licenses come last.
pub(super) type ListPlace = IssuedPlace;

/// What the list shows, of what each license is itself.
#[derive(Clone, Default, PartialEq)]
pub(super) struct TermsFilter {
    pub(super) today: NaiveDate,
    pub(super) module: Option<Name>,
    pub(super) state: Option<LicenseState>,
    pub(super) ends: Option<EndsFilter>,
    pub(super) seats: Option<SeatsFilter>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EndsFilter {
    Within(u64),
    Never,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SeatsFilter {
    Full,
    Unused,
}

impl TermsFilter {
    /// Whether the list has this license. Its sites are looked at last, because that takes longest.
    pub(super) fn takes(&self, license: &License, marks: impl FnOnce() -> LicenseMarks) -> bool {
        let ends = |ends: &EndsFilter| match ends {
            EndsFilter::Within(days) => {
                license.state(self.today) == LicenseState::Active && ends_within(license, self.today, *days)
            }
            EndsFilter::Never => license.expires == NEVER,
        };
        let seats = |seats: SeatsFilter| match seats {
            SeatsFilter::Full => marks().is_full,
            SeatsFilter::Unused => marks().is_unused,
        };
        self.module
            .as_ref()
            .is_none_or(|module| license.modules.contains_key(module))
            && self.state.is_none_or(|state| license.state(self.today) == state)
            && self.ends.as_ref().is_none_or(ends)
            && self.seats.is_none_or(seats)
    }
}

/// The first licenses that a look found, the newest first, and how many there are.
pub(super) struct LicenseList {
    pub(super) places: Vec<ListPlace>,
    pub(super) matching: usize,
}

impl LicenseList {
    /// What comes after a place, one more than a page has; `None` if the list does not reach so far.
    pub(super) fn after(&self, after: Option<ListPlace>) -> Option<Self> {
        let behind = self
            .places
            .iter()
            .filter(|place| after.is_none_or(|after| **place < after));
        let places: Vec<_> = behind.take(PAGE + 1).copied().collect();
        let is_whole = self.places.len() == self.matching;
        (is_whole || places.len() > PAGE).then_some(Self {
            places,
            matching: self.matching,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_model::license_key::LicenseId;

    #[test]
    fn a_kept_list_has_the_pages_that_it_reaches() {
        let place = |number: usize| (number as i64, LicenseId::from_bytes([7; 32]));
        let list = |places: usize, matching| LicenseList {
            places: (0..places).rev().map(place).collect(),
            matching,
        };
        let of = |list: &LicenseList, after: Option<usize>| {
            let part = list.after(after.map(place))?;
            Some((part.places.first()?.0, part.places.len(), part.matching))
        };
        let kept = list(120, 500);
        assert_eq!(of(&kept, None), Some((119, PAGE + 1, 500)));
        assert_eq!(of(&kept, Some(70)), Some((69, PAGE + 1, 500)));
        assert_eq!(of(&kept, Some(PAGE)), None, "what follows is not kept");
        assert_eq!(of(&list(120, 120), Some(PAGE)), Some((49, PAGE, 120)));
        assert_eq!(of(&list(0, 0), None), None);
        assert!(list(0, 0).after(None).is_some());
    }
}
