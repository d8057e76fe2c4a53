//! Seats of a license: which sites use it, which of them are staging copies, and whether another site may.
//!
//! A staging copy is a site whose host is under that of another site of the same license, as `staging.example.com`
//! beside `example.com`. One under a [staging host](crate::staging_hosts) is one, too, if the license has a site outside them.
//! Some of them need no seat. No list of domain suffixes is asked, so `example.co.uk` would count as a copy of `co.uk`, if
//! somebody had a site there. Nobody has.
//!
//! A site outside the staging hosts that is under no other site is never a copy. So a license always uses a seat.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;

use foldhash::fast::FixedState;

use crate::binding::{Binding, Stored};
use crate::host_index::{FEW, SeatCounts};
use crate::license::{License, SiteLimit};
use crate::site_host::SiteHost;
use crate::staging_hosts::{StagingHosts, StagingRule};

/// Whether a host can use a license.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seat<'a> {
    /// The host is bound.
    Held,
    /// The host is not bound, and another site is allowed.
    Free,
    /// The host is not bound, and no other site is allowed. Has the first bound host.
    Taken {
        /// The host that was bound first.
        first: &'a SiteHost,
    },
}

/// How the sites of a license use its seats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeatUse<'a> {
    /// How many seats are used.
    pub seats: usize,
    /// The staging copies that need none, in the order of binding.
    pub copies: Vec<&'a SiteHost>,
    /// Bound sites that have no seat, because a license file lists others.
    pub gave_way: Vec<&'a SiteHost>,
}

impl License {
    /// Whether `host` can use this license. A bound host is not counted again, so it stays bound even if the vendor
    /// lowers `sites`. Hosts listed in the registry come first. `staging` is the server's setting; the license's own
    /// number goes before it.
    pub fn seat<'a>(&'a self, stored: &'a (impl Stored + ?Sized), staging: &StagingRule, host: &SiteHost) -> Seat<'a> {
        self.seat_beside(stored, &[], staging, host)
    }

    /// The same, if those in `under_way` are about to be bound, too.
    pub fn seat_beside<'a>(
        &'a self,
        stored: &'a (impl Stored + ?Sized),
        under_way: &'a [Binding],
        staging: &StagingRule,
        host: &SiteHost,
    ) -> Seat<'a> {
        let ahead = &self.details.hosts;
        if ahead.contains(host)
            || under_way.iter().any(|binding| binding.host == *host)
            || self.holds(stored, staging, host)
        {
            return Seat::Held;
        }
        match self.hosts(stored.all(), under_way).next() {
            Some(first) if !self.has_room(stored, under_way, staging, host) => Seat::Taken { first },
            _ => Seat::Free,
        }
    }

    /// How the sites use the seats, site by site. To know the number alone, [`License::used_seats`] looks at none.
    pub fn seat_use<'a>(&'a self, stored: &'a (impl Stored + ?Sized), staging: &StagingRule) -> SeatUse<'a> {
        let counts = self.counts(stored, staging);
        let (holding, rest) = stored.all().split_at(counts.holding);
        let using = || self.hosts(holding, &[]);
        let sites = SitesByName::new(using(), &staging.hosts);
        let mut seen = HashSet::new();
        let in_order = using().filter(|host| seen.insert(*host));
        let copies = in_order.filter(|host| sites.is_copy(host));
        let valid = rest.iter().filter(|binding| !self.is_void(binding));
        let gave_way = valid.map(|binding| &binding.host);
        SeatUse {
            seats: counts.seats,
            copies: copies.take(self.most_copies(staging)).collect(),
            gave_way: gave_way.filter(|host| !self.details.hosts.contains(host)).collect(),
        }
    }

    /// How many seats are used.
    pub fn used_seats(&self, stored: &(impl Stored + ?Sized), staging: &StagingRule) -> usize {
        let mut hosts = self.hosts(stored.all(), &[]);
        match (hosts.next(), hosts.next()) {
            (None, _) => 0,
            // A site alone is never a copy. Most licenses have one.
            (Some(_), None) => 1,
            _ => self.counts(stored, staging).seats,
        }
    }

    /// Whether there is a seat for every host that is listed or bound.
    pub fn fits(&self, stored: &(impl Stored + ?Sized), staging: &StagingRule) -> bool {
        match self.sites {
            SiteLimit::Unlimited => true,
            SiteLimit::Limited(limit) => self.seats(self.hosts(stored.all(), &[]), staging) <= limit.get() as usize,
        }
    }

    /// Whether a host that uses this license is a staging copy.
    pub fn is_copy(&self, stored: &(impl Stored + ?Sized), staging: &StagingRule, host: &SiteHost) -> bool {
        // Most licenses have one site, which is no copy.
        let has_others = self.hosts(stored.all(), &[]).any(|other| other != host);
        let is_at_staging_host = || staging.hosts.has(host) && self.counts(stored, staging).has_outside;
        has_others && (self.has_site_above(stored, host) || is_at_staging_host())
    }

    /// How many staging copies need no seat.
    fn most_copies(&self, staging: &StagingRule) -> usize {
        let own = self.details.staging_sites;
        own.map_or(staging.sites as usize, usize::from)
    }

    /// Every host that uses the license; one that is listed and bound is there twice.
    fn hosts<'a>(
        &'a self,
        stored: &'a [Binding],
        under_way: &'a [Binding],
    ) -> impl Iterator<Item = &'a SiteHost> + Clone {
        let valid = stored.iter().filter(|binding| !self.is_void(binding));
        let bound = valid.chain(under_way).map(|binding| &binding.host);
        self.details.hosts.iter().chain(bound)
    }

    /// Whether `host` is allowed beside the other sites. The order of binding does not matter: the new host may be the copy, or
    /// the site that others are copies of.
    fn has_room(
        &self,
        stored: &(impl Stored + ?Sized),
        under_way: &[Binding],
        staging: &StagingRule,
        host: &SiteHost,
    ) -> bool {
        let SiteLimit::Limited(limit) = self.sites else {
            return true;
        };
        let limit = limit.get() as usize;
        if self.details.hosts.len() + stored.all().len() + under_way.len() < limit {
            // Without a count, which each new site of a large license would make necessary again.
            return true;
        }
        let counts = self.counts(stored, staging);
        let sites = counts.hosts + under_way.len() + 1;
        let too_many = sites.saturating_sub(limit);
        if too_many == 0 || too_many > self.most_copies(staging) {
            return too_many == 0;
        }
        if !under_way.is_empty() {
            let sites = SitesByName::new(self.hosts(stored.all(), under_way).chain([host]), &staging.hosts);
            return sites.copies().take(too_many).count() == too_many;
        }
        let hosts = &staging.hosts;
        let has_outside = counts.has_outside || hosts.is_outside(host);
        let is_copy = |site: &SiteHost| self.has_site_above(stored, site) || (has_outside && hosts.has(site));
        let waiting = if has_outside { counts.waiting } else { 0 };
        let copies = counts.copies + waiting + usize::from(is_copy(host));
        let missing = too_many.saturating_sub(copies);
        let bound = stored.under(host).into_iter().filter(|binding| !self.is_void(binding));
        let bound = bound.map(|binding| &binding.host);
        let listed = self.details.hosts.under(host).into_iter();
        let under = listed.filter(|host| self.valid(stored, host).is_none()).chain(bound);
        // Those under another site or a staging host are counted.
        let new_copies = under.filter(|copy| copy.parents().any(|parent| parent == host.as_str()) && !is_copy(copy));
        new_copies.take(missing).count() == missing
    }

    /// Whether a site of the license is above this host.
    fn has_site_above(&self, stored: &(impl Stored + ?Sized), host: &SiteHost) -> bool {
        let is_valid = |position: usize| !self.is_void(&stored.all()[position]);
        let uses = |name: &str| self.details.hosts.has(name) || stored.position(name).is_some_and(is_valid);
        host.parents().any(uses)
    }

    /// Whether `host` is bound, and holds a seat by that.
    fn holds(&self, stored: &(impl Stored + ?Sized), staging: &StagingRule, host: &SiteHost) -> bool {
        let position = stored.position(host.as_str());
        let valid = position.filter(|&position| !self.is_void(&stored.all()[position]));
        valid.is_some_and(|position| !self.may_give_way() || position < self.counts(stored, staging).holding)
    }

    /// The binding of `host`, unless it is void.
    fn valid<'a>(&self, stored: &'a (impl Stored + ?Sized), host: &SiteHost) -> Option<&'a Binding> {
        stored.find(host).filter(|binding| !self.is_void(binding))
    }

    /// Whether bound sites may give way to listed ones: in files alone, because the ledger's thread lists a host only if there is
    /// a seat for it.
    fn may_give_way(&self) -> bool {
        self.is_declared && !self.details.hosts.is_empty() && self.sites != SiteLimit::Unlimited
    }

    /// The sites in numbers. Of a license with many, they are counted once for each change.
    fn counts(&self, stored: &(impl Stored + ?Sized), staging: &StagingRule) -> SeatCounts {
        let count = || self.count(stored, staging);
        let all = stored.all();
        let listed = &self.details.hosts;
        if all.len() <= FEW && listed.len() <= FEW {
            return count();
        }
        let hash = FixedState::default();
        let most_copies = self.most_copies(staging);
        let released = &self.details.released;
        let key = hash.hash_one((
            listed.fingerprint(),
            released,
            self.sites,
            most_copies,
            staging.hosts.fingerprint(),
            self.is_declared,
        ));
        if all.len() > FEW {
            return stored.counted(key, count);
        }
        let bound: Vec<_> = all
            .iter()
            .map(|binding| (&binding.host, self.is_void(binding)))
            .collect();
        listed.counted(hash.hash_one((key, bound)), count)
    }

    /// Hosts that a license file lists come first. A site may have been bound before the server read the file, and then the
    /// listed ones and the bound ones can be too many: those that were bound last give way. They stay bound if they are too
    /// many without the listed ones, because the vendor has lowered `sites`.
    fn count(&self, stored: &(impl Stored + ?Sized), staging: &StagingRule) -> SeatCounts {
        let all = stored.all();
        let sites = SitesByName::new(self.hosts(all, &[]), &staging.hosts);
        let copies = sites.copies().count();
        let hosts = sites.by_name.len();
        let mut counts = SeatCounts {
            hosts,
            copies,
            waiting: sites.waiting(),
            has_outside: sites.has_outside,
            seats: hosts - copies.min(self.most_copies(staging)),
            holding: all.len(),
        };
        let limit = match self.sites {
            SiteLimit::Limited(limit) if self.may_give_way() => limit.get() as usize,
            _ => return counts,
        };
        if counts.seats <= limit {
            return counts;
        }
        let valid: Vec<_> = (0..all.len()).filter(|&at| !self.is_void(&all[at])).collect();
        let seats = |listed: &[SiteHost], holding: usize| {
            let bound = valid[..holding].iter().map(|&at| &all[at].host);
            self.seats(listed.iter().chain(bound), staging)
        };
        let most = seats(&[], valid.len()).max(limit);
        let mut holding = valid.len();
        while counts.seats > most && holding > 0 {
            holding = holding.saturating_sub(counts.seats - most);
            counts.seats = seats(&self.details.hosts, holding);
        }
        counts.holding = valid.get(holding).copied().unwrap_or(all.len());
        counts
    }

    /// How many seats these hosts need.
    fn seats<'a>(&self, hosts: impl Iterator<Item = &'a SiteHost>, staging: &StagingRule) -> usize {
        let sites = SitesByName::new(hosts, &staging.hosts);
        sites.by_name.len() - sites.copies().take(self.most_copies(staging)).count()
    }
}

/// The sites of a license by their names.
struct SitesByName<'a, 's> {
    by_name: HashMap<&'a str, &'a SiteHost>,
    staging: &'s StagingHosts,
    /// Whether one of them is outside the staging hosts.
    has_outside: bool,
}

impl<'a, 's> SitesByName<'a, 's> {
    fn new(hosts: impl Iterator<Item = &'a SiteHost>, staging: &'s StagingHosts) -> Self {
        let by_name: HashMap<_, _> = hosts.map(|host| (host.as_str(), host)).collect();
        let has_outside = by_name.values().any(|host| staging.is_outside(host));
        Self {
            by_name,
            staging,
            has_outside,
        }
    }

    /// Whether the host is under another one.
    fn is_under_another(&self, host: &SiteHost) -> bool {
        host.parents().any(|parent| self.by_name.contains_key(parent))
    }

    /// Whether the host is a staging copy.
    fn is_copy(&self, host: &SiteHost) -> bool {
        self.is_under_another(host) || (self.has_outside && self.staging.has(host))
    }

    fn copies(&self) -> impl Iterator<Item = &'a SiteHost> {
        self.by_name.values().copied().filter(|host| self.is_copy(host))
    }

    /// How many would be copies if there were a site outside the staging hosts.
    fn waiting(&self) -> usize {
        let waits = |host: &&&SiteHost| self.staging.has(host) && !self.is_copy(host);
        self.by_name.values().filter(waits).count()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::sync::Arc;

    use chrono::{DateTime, NaiveDate, Utc};

    use super::*;
    use crate::license::{Details, LicenseStatus, ReleaseTimes};
    use crate::license_key::LicenseId;

    fn license() -> License {
        License {
            id: LicenseId::from_bytes([1; 32]),
            status: LicenseStatus::Active,
            expires: NaiveDate::MAX,
            modules: Arc::default(),
            sites: SiteLimit::DEFAULT,
            grace_period_hours: None,
            details: Details::default(),
            is_declared: false,
        }
    }

    fn limited(sites: u32) -> License {
        License {
            sites: SiteLimit::Limited(NonZeroU32::new(sites).unwrap()),
            ..license()
        }
    }

    /// Whether one host after the other gets a seat, and how many seats they use then.
    fn bound_one_by_one(license: &License, staging_sites: u32, hosts: &[&str]) -> (Vec<bool>, usize) {
        bound_under(license, &staging_sites.into(), hosts)
    }

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(seconds, 0).unwrap()
    }

    fn host(text: &str) -> SiteHost {
        text.parse().unwrap()
    }

    fn binding(text: &str, seconds: i64) -> Binding {
        Binding::new(host(text), at(seconds))
    }

    #[test]
    fn a_full_license_names_the_first_bound_host_and_keeps_those_bound() {
        let three = License {
            sites: SiteLimit::Limited(NonZeroU32::new(3).unwrap()),
            ..license()
        };
        let stored = [binding("a.com", 1), binding("b.com", 2), binding("c.com", 3)];
        assert_eq!(three.seat(&stored[..2], &StagingRule::NONE, &host("d.com")), Seat::Free);
        assert_eq!(
            three.seat(&stored[..], &StagingRule::NONE, &host("d.com")),
            Seat::Taken { first: &host("a.com") }
        );
        assert_eq!(three.seat(&stored[..], &StagingRule::NONE, &host("c.com")), Seat::Held);
        let one = license();
        assert_eq!(
            one.seat(&stored[..], &StagingRule::NONE, &host("c.com")),
            Seat::Held,
            "sites lowered since"
        );
    }

    #[test]
    fn a_release_voids_what_was_bound_before_it_and_nothing_after() {
        let mut moved = license();
        moved.details.released.hosts.insert(host("a.com"), at(10));
        assert_eq!(
            moved.seat(&[binding("a.com", 9)][..], &StagingRule::NONE, &host("b.com")),
            Seat::Free
        );
        assert_eq!(
            moved.seat(&[binding("a.com", 10)][..], &StagingRule::NONE, &host("b.com")),
            Seat::Taken { first: &host("a.com") }
        );
        moved.details.released = ReleaseTimes {
            all: Some(at(20)),
            ..ReleaseTimes::default()
        };
        assert_eq!(
            moved.seat(&[binding("a.com", 19)][..], &StagingRule::NONE, &host("b.com")),
            Seat::Free
        );
    }

    #[test]
    fn hosts_bound_ahead_take_a_seat_once() {
        let mut ahead = license();
        ahead.details.hosts.push(host("a.com"));
        assert_eq!(ahead.seat(&[][..], &StagingRule::NONE, &host("a.com")), Seat::Held);
        assert_eq!(
            ahead.seat(&[][..], &StagingRule::NONE, &host("b.com")),
            Seat::Taken { first: &host("a.com") }
        );
        let two = License {
            sites: SiteLimit::Limited(NonZeroU32::new(2).unwrap()),
            ..ahead
        };
        assert_eq!(
            two.seat(&[binding("a.com", 1)][..], &StagingRule::NONE, &host("b.com")),
            Seat::Free
        );
    }

    #[test]
    fn hosts_that_a_file_lists_come_first_and_who_was_bound_last_gives_way() {
        let mut listed = License {
            is_declared: true,
            ..limited(2)
        };
        listed.details.hosts.push(host("listed.com"));
        let stored = ["a.com", "b.com", "c.com"].map(|name| binding(name, 1));
        let held = |license: &License, bound: usize| -> Vec<bool> {
            let seat = |one: &Binding| license.seat(&stored[..bound], &StagingRule::NONE, &one.host) == Seat::Held;
            stored[..bound].iter().map(seat).collect()
        };
        assert_eq!(held(&listed, 1), [true]);
        assert_eq!(held(&listed, 2), [true, false]);
        let used = listed.seat_use(&stored[..2], &StagingRule::NONE);
        assert_eq!((used.seats, used.gave_way), (2, vec![&host("b.com")]));
        assert!(!listed.fits(&stored[..2], &StagingRule::NONE) && listed.fits(&stored[..1], &StagingRule::NONE));
        assert_eq!(
            listed.seat(&stored[..2], &StagingRule::NONE, &host("listed.com")),
            Seat::Held
        );
        let first = &host("listed.com");
        assert_eq!(
            listed.seat(&stored[..2], &StagingRule::NONE, &host("b.com")),
            Seat::Taken { first }
        );
        assert_eq!(held(&listed, 3), [true, true, false], "sites lowered since");
        let of_ledger = License {
            is_declared: false,
            ..listed.clone()
        };
        assert_eq!(held(&of_ledger, 2), [true, true]);
        listed.details.hosts.push(host("b.com"));
        assert_eq!(held(&listed, 2), [false, true], "it is listed, too");
        listed.sites = SiteLimit::Unlimited;
        assert_eq!(held(&listed, 3), [true, true, true]);
    }

    #[test]
    fn a_copy_gives_way_to_a_listed_host_if_its_site_has_left() {
        let mut moved = License {
            is_declared: true,
            ..license()
        };
        moved.details.hosts.push(host("new.com"));
        moved.details.released.hosts.insert(host("old.com"), at(5));
        let stored = [binding("old.com", 1), binding("x.old.com", 2)];
        let first = &host("new.com");
        assert_eq!(
            moved.seat(&stored[..], &1_u32.into(), &host("x.old.com")),
            Seat::Taken { first }
        );
        assert_eq!(moved.seat_use(&stored[..], &1_u32.into()).seats, 1);
        let copy = [binding("x.new.com", 2)];
        assert_eq!(moved.seat(&copy[..], &1_u32.into(), &host("x.new.com")), Seat::Held);
    }

    #[test]
    fn unlimited_is_never_taken() {
        let unlimited = License {
            sites: SiteLimit::Unlimited,
            ..license()
        };
        assert_eq!(
            unlimited.seat(&[binding("a.com", 1)][..], &StagingRule::NONE, &host("b.com")),
            Seat::Free
        );
    }

    #[test]
    fn one_staging_copy_needs_no_seat_in_either_order() {
        for hosts in [
            ["example.com", "staging.example.com"],
            ["staging.example.com", "example.com"],
        ] {
            assert_eq!(
                bound_one_by_one(&license(), 1, &hosts),
                (vec![true, true], 1),
                "{hosts:?}"
            );
            assert_eq!(
                bound_one_by_one(&license(), 0, &hosts),
                (vec![true, false], 1),
                "{hosts:?}"
            );
        }
        let more = [
            "example.com",
            "staging.example.com",
            "dev.example.com",
            "a.b.example.com",
            "other.com",
        ];
        assert_eq!(
            bound_one_by_one(&license(), 1, &more),
            (vec![true, true, false, false, false], 1)
        );
        assert_eq!(
            bound_one_by_one(&license(), 3, &more),
            (vec![true, true, true, true, false], 1)
        );
        assert_eq!(
            bound_one_by_one(&limited(2), 1, &more),
            (vec![true, true, true, false, false], 2),
            "one more copy takes a seat"
        );
    }

    #[test]
    fn a_copy_stands_under_a_site_of_the_license_that_has_a_dot() {
        for [first, second] in [
            ["a.com", "a.com.evil"],
            ["a.com", "evila.com"],
            ["a.com", "b.com"],
            ["x.example.com", "y.example.com"],
            ["com", "a.com"],
            ["localhost", "shop.localhost"],
            ["1.2.3.4", "1.2.3.5"],
            ["[2001:db8::1]", "[2001:db8::1:1]"],
        ] {
            for hosts in [[first, second], [second, first]] {
                assert_eq!(
                    bound_one_by_one(&license(), 1, &hosts),
                    (vec![true, false], 1),
                    "{hosts:?}"
                );
            }
        }
        // Without a list of suffixes, this is a copy. But one copy is all that it can be.
        let under_a_suffix = ["co.uk", "a.co.uk", "b.co.uk"];
        assert_eq!(
            bound_one_by_one(&license(), 1, &under_a_suffix),
            (vec![true, true, false], 1)
        );
    }

    #[test]
    fn a_license_has_its_own_number_of_staging_copies() {
        let mut own = license();
        own.details.staging_sites = Some(0);
        let hosts = ["example.com", "staging.example.com"];
        assert_eq!(bound_one_by_one(&own, 9, &hosts), (vec![true, false], 1));
        own.details.staging_sites = Some(1);
        assert_eq!(bound_one_by_one(&own, 0, &hosts), (vec![true, true], 1));
        assert_eq!((own.most_moves(5), license().most_moves(5)), (5, 5));
        own.details.site_moves = Some(0);
        assert_eq!(own.most_moves(5), 0);
    }

    #[test]
    fn a_copy_keeps_its_binding_when_its_site_leaves_and_takes_the_seat() {
        let mut license = license();
        let stored = [binding("example.com", 1), binding("staging.example.com", 2)];
        let seats = |license: &License| {
            let used = license.seat_use(&stored[..], &1_u32.into());
            (used.seats, used.copies.len())
        };
        assert_eq!(seats(&license), (1, 1));
        license.details.released.hosts.insert(host("example.com"), at(5));
        assert_eq!(seats(&license), (1, 0));
        let asked = |name: &str| license.seat(&stored[..], &1_u32.into(), &host(name));
        let first = &host("staging.example.com");
        assert_eq!(asked("staging.example.com"), Seat::Held);
        assert_eq!(asked("other.com"), Seat::Taken { first });
        assert_eq!(asked("example.com"), Seat::Free, "its own site may come back");
    }

    #[test]
    fn hosts_that_are_listed_and_bound_count_once_among_copies() {
        let mut two = limited(2);
        for name in ["example.com", "a.example.com"] {
            two.details.hosts.push(host(name));
        }
        let stored = [
            binding("example.com", 1),
            binding("a.example.com", 2),
            binding("b.com", 3),
        ];
        let used = two.seat_use(&stored[..], &2_u32.into());
        assert_eq!((used.seats, used.copies), (2, vec![&host("a.example.com")]));
        assert!(matches!(
            two.seat(&stored[..], &2_u32.into(), &host("c.com")),
            Seat::Taken { .. }
        ));
        assert_eq!(two.seat(&stored[..], &2_u32.into(), &host("b.example.com")), Seat::Free);
    }

    fn rule(sites: u32, patterns: &[&str]) -> StagingRule {
        StagingRule {
            sites,
            hosts: patterns.iter().map(|pattern| pattern.parse().unwrap()).collect(),
        }
    }

    /// Which of these hosts are bound in turn under a rule, and how many seats they use.
    fn bound_under(license: &License, rule: &StagingRule, hosts: &[&str]) -> (Vec<bool>, usize) {
        let mut stored = Vec::new();
        let asked = hosts.iter().map(|name| {
            let is_bound = license.seat(&stored[..], rule, &host(name)) == Seat::Free;
            if is_bound {
                stored.push(binding(name, 1));
            }
            is_bound
        });
        let asked = asked.collect();
        (asked, license.used_seats(&stored[..], rule))
    }

    #[test]
    fn a_site_under_a_staging_host_needs_no_seat_beside_a_site_elsewhere_in_either_order() {
        let one = rule(1, &["*.kinsta.cloud", "staging.agency.example"]);
        let none = rule(0, &["*.kinsta.cloud"]);
        for hosts in [
            ["shop.example", "stg.kinsta.cloud"],
            ["stg.kinsta.cloud", "shop.example"],
            ["shop.example", "staging.agency.example"],
            ["staging.agency.example", "shop.example"],
        ] {
            assert_eq!(
                bound_under(&license(), &one, &hosts),
                (vec![true, true], 1),
                "{hosts:?}"
            );
            assert_eq!(
                bound_under(&license(), &none, &hosts),
                (vec![true, false], 1),
                "{hosts:?}"
            );
        }
        // Both kinds of copies share one number.
        let both = [
            "shop.example",
            "a.kinsta.cloud",
            "b.kinsta.cloud",
            "x.shop.example",
            "other.example",
        ];
        assert_eq!(
            bound_under(&license(), &one, &both),
            (vec![true, true, false, false, false], 1)
        );
        let two = rule(2, &["*.kinsta.cloud"]);
        assert_eq!(
            bound_under(&license(), &two, &both),
            (vec![true, true, true, false, false], 1)
        );
        assert_eq!(
            bound_under(&limited(2), &one, &both),
            (vec![true, true, true, false, false], 2)
        );
        let mut own = license();
        own.details.staging_sites = Some(0);
        assert_eq!(bound_under(&own, &one, &both[..2]), (vec![true, false], 1));
    }

    #[test]
    fn where_all_sites_are_under_staging_hosts_each_needs_a_seat() {
        let many = rule(9, &["*.kinsta.cloud", "*.ngrok.app", "agency.example"]);
        for hosts in [
            ["a.kinsta.cloud", "b.kinsta.cloud"],
            ["a.kinsta.cloud", "b.ngrok.app"],
            ["a.kinsta.cloud", "agency.example"],
            // Under a staging host that is a pattern by itself, nothing is elsewhere.
            ["a.kinsta.cloud", "x.agency.example"],
        ] {
            for hosts in [[hosts[0], hosts[1]], [hosts[1], hosts[0]]] {
                assert_eq!(
                    bound_under(&license(), &many, &hosts),
                    (vec![true, false], 1),
                    "{hosts:?}"
                );
            }
        }
        // A subdomain of such a site is its copy still, and the two are no copies of each other.
        let under = ["agency.example", "x.agency.example", "a.kinsta.cloud"];
        assert_eq!(bound_under(&license(), &many, &under), (vec![true, true, false], 1));
        assert_eq!(bound_under(&limited(2), &many, &under), (vec![true, true, true], 2));
        // The host of the web host itself is elsewhere.
        let of_the_host = ["a.kinsta.cloud", "kinsta.cloud"];
        assert_eq!(bound_under(&license(), &many, &of_the_host), (vec![true, true], 1));
    }

    #[test]
    fn a_copy_under_a_staging_host_takes_the_seat_when_the_site_elsewhere_leaves() {
        let mut license = license();
        let one = rule(1, &["*.kinsta.cloud"]);
        let stored = [binding("shop.example", 1), binding("stg.kinsta.cloud", 2)];
        let used = license.seat_use(&stored[..], &one);
        assert_eq!((used.seats, used.copies), (1, vec![&host("stg.kinsta.cloud")]));
        license.details.released.hosts.insert(host("shop.example"), at(5));
        let used = license.seat_use(&stored[..], &one);
        assert_eq!((used.seats, used.copies), (1, vec![]));
        let asked = |name: &str| license.seat(&stored[..], &one, &host(name));
        let first = &host("stg.kinsta.cloud");
        assert_eq!(asked("stg.kinsta.cloud"), Seat::Held);
        assert_eq!(asked("other.kinsta.cloud"), Seat::Taken { first });
        assert_eq!(asked("shop.example"), Seat::Free, "it is a copy again");
        assert_eq!(asked("other.example"), Seat::Free, "of whatever site is elsewhere");
    }

    #[test]
    fn a_listed_host_is_a_site_elsewhere_too() {
        let mut ahead = license();
        ahead.details.hosts.push(host("shop.example"));
        let one = rule(1, &["*.kinsta.cloud"]);
        assert_eq!(
            bound_under(&ahead, &one, &["a.kinsta.cloud", "b.kinsta.cloud"]).0,
            [true, false]
        );
    }

    proptest::proptest! {
        #[test]
        fn whoever_asks_in_whatever_order_the_used_seats_never_exceed_the_limit(
            hosts in proptest::collection::vec("([ab][.]){0,3}(c[.]com|d[.]com|e|s[.]io|t[.]io)", 1..14),
            sites in 1..5_u32,
            staging_sites in 0..4_u32,
        ) {
            let license = limited(sites);
            let rule = rule(staging_sites, &["*.s.io", "t.io", "*.a.t.io"]);
            let mut stored: Vec<Binding> = Vec::new();
            for name in &hosts {
                let asking = host(name);
                let is_known = stored.iter().any(|binding| binding.host == asking);
                let seat = license.seat(&stored[..], &rule, &asking);
                let names: HashSet<_> = stored.iter().map(|binding| binding.host.to_string()).collect();
                let beside: HashSet<_> = names.iter().cloned().chain([asking.to_string()]).collect();
                // The increment says what a count of all says.
                let expected = match is_known {
                    true => Seat::Held,
                    false if used(&beside, staging_sites) <= sites as usize => Seat::Free,
                    false => Seat::Taken { first: &stored[0].host },
                };
                proptest::prop_assert_eq!(seat, expected, "{} beside {:?}", asking, names);
                let also = license.seat_beside(&[][..], &stored, &rule, &asking);
                proptest::prop_assert_eq!(also, expected);
                if seat == Seat::Free {
                    stored.push(Binding::new(asking, at(1)));
                }
            }
            let names: HashSet<_> = stored.iter().map(|binding| binding.host.to_string()).collect();
            let used = used(&names, staging_sites);
            proptest::prop_assert!((1..=sites as usize).contains(&used), "{names:?}");
            let counted = license.seat_use(&stored[..], &rule);
            proptest::prop_assert_eq!(used, counted.seats);
            proptest::prop_assert_eq!(names.len() - used, counted.copies.len());
        }
    }

    /// How many seats these names use, by another way: with `*.s.io`, `t.io` and `*.a.t.io` as staging hosts.
    fn used(names: &HashSet<String>, staging_sites: u32) -> usize {
        let ends = |name: &str, end: &str| name.strip_suffix(end).is_some_and(|rest| rest.ends_with('.'));
        let is_staging = |name: &str| name == "t.io" || ends(name, "s.io") || ends(name, "a.t.io");
        let is_elsewhere = |name: &String| !is_staging(name) && !ends(name, "t.io");
        let has_elsewhere = names.iter().any(is_elsewhere);
        let is_under = |name: &String| names.iter().any(|other| other.contains('.') && ends(name, other));
        let is_copy = |name: &&String| is_under(name) || (has_elsewhere && is_staging(name));
        names.len() - names.iter().filter(is_copy).count().min(staging_sites as usize)
    }
}
