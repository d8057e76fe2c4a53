//! Adoption: the ledger takes a license that a file declares, and has it from then on.
//!
//! The license's origin keeps a digest of what the file granted. A later reader of the file can tell whether it grants
//! something else by now, which changes nothing: the ledger's license is in force.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};
use serde::Serialize;

use crate::binding::Stored;
use crate::digest::{Digest, Hex128};
use crate::issued_license::{ChangeKind, ChangeScope, IssueOrigin, IssuedLicense};
use crate::license::{License, LicenseStatus, Modules, SiteLimit};
use crate::license_key::LicenseId;
use crate::license_step::after;
use crate::rights::Rights;
use crate::seat::Seat;
use crate::site_host::SiteHost;
use crate::staging_hosts::StagingRule;

/// What a declaration grants, in the order of RFC 8785.
#[derive(Serialize)]
struct DeclaredGrant<'l> {
    expires: NaiveDate,
    #[serde(skip_serializing_if = "Option::is_none")]
    grace_period_hours: Option<u16>,
    hosts: Vec<&'l SiteHost>,
    modules: &'l Modules,
    released: BTreeMap<&'l str, DateTime<Utc>>,
    #[serde(skip_serializing_if = "Rights::is_empty")]
    rights: &'l Rights,
    #[serde(skip_serializing_if = "Option::is_none")]
    site_moves: Option<u16>,
    /// `None` for any number.
    sites: Option<NonZeroU32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    staging_sites: Option<u16>,
    status: LicenseStatus,
}

impl License {
    /// The first half of the SHA-256 of what the license grants, as canonical JSON (RFC 8785): status, expiry, modules, sites,
    /// limits, hosts, releases and rights. Two declarations of one license have the same digest if they grant the same. `note` and
    /// `replaces` grant nothing, and a server does not load them.
    pub fn grant_digest(&self) -> Hex128 {
        let details = &self.details;
        let of_hosts = details.released.hosts.iter();
        let of_hosts = of_hosts.map(|(host, time)| (host.as_str(), *time));
        let mut hosts: Vec<_> = details.hosts.iter().collect();
        hosts.sort_unstable();
        let grant = DeclaredGrant {
            expires: self.expires,
            grace_period_hours: self.grace_period_hours,
            hosts,
            modules: &self.modules,
            released: of_hosts.chain(details.released.all.map(|time| ("*", time))).collect(),
            rights: &details.rights,
            site_moves: details.site_moves,
            sites: match self.sites {
                SiteLimit::Limited(limit) => Some(limit),
                SiteLimit::Unlimited => None,
            },
            staging_sites: details.staging_sites,
            status: self.status,
        };
        // Texts, numbers and times always serialize.
        let json = serde_json::to_vec(&grant).unwrap_or_default();
        Hex128::first_half(Digest::of(&json))
    }

    /// The declared license as the ledger takes it at `now`, before its first revision: `by` adopts it.
    ///
    /// A site that has given way to a listed one ([`License::seat`]) is released, because the ledger's licenses give no seat
    /// back. `stored` are the bindings, void ones included.
    pub fn adopted(
        &self,
        stored: &(impl Stored + ?Sized),
        staging: &StagingRule,
        by: &Arc<ChangeScope>,
        now: DateTime<Utc>,
    ) -> IssuedLicense {
        let mut license = Self {
            is_declared: false,
            ..self.clone()
        };
        if !license.details.note.is_empty() {
            license.details.note.clear();
        }
        let has_given_way = |host: &SiteHost| self.seat(stored, staging, host) != Seat::Held;
        let valid = stored.all().iter().filter(|binding| !self.is_void(binding));
        for binding in valid.filter(|binding| has_given_way(&binding.host)) {
            let time = after(binding.bound_at);
            license.details.released.hosts.insert(binding.host.clone(), time);
        }
        IssuedLicense {
            origin: IssueOrigin {
                body: self.grant_digest(),
                key: adoption_key(&self.id),
                // The key was made elsewhere, so nothing is derived from these.
                salt: Hex128([0; 16]),
                secret: 0,
                scope: Arc::clone(by),
                issued: now,
            },
            reference: None,
            kind: ChangeKind::Issued,
            revision: 0,
            scope: Arc::clone(by),
            status_by: (license.status != LicenseStatus::Active).then(|| Arc::clone(by)),
            license,
            time: now,
        }
    }
}

impl IssuedLicense {
    /// The [digest](License::grant_digest) of the declaration that was adopted; `None` if the license was issued or imported.
    pub fn adopted_grant(&self) -> Option<Hex128> {
        let is_adopted = self.origin.secret == 0 && self.origin.key == adoption_key(&self.license.id);
        is_adopted.then_some(self.origin.body)
    }

    /// Whether a declaration with its id grants something else than the one that was adopted. A license that was issued differs
    /// from every declaration.
    pub fn differs_from(&self, declared: &License) -> bool {
        self.adopted_grant() != Some(declared.grant_digest())
    }
}

/// What an idempotency key is for adopted licenses. Those of requests are HMACs, so none is equal to it.
fn adoption_key(id: &LicenseId) -> Hex128 {
    Hex128::of_words("adopt\n", format_args!("{id}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binding::Binding;
    use crate::license::Details;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(seconds, 0).unwrap()
    }

    fn host(name: &str) -> SiteHost {
        name.parse().unwrap()
    }

    fn declared() -> License {
        License {
            id: LicenseId::from_bytes([7; 32]),
            status: LicenseStatus::Active,
            expires: NaiveDate::from_ymd_opt(2027, 12, 31).unwrap(),
            modules: Arc::new([("forms".parse().unwrap(), vec!["pro".parse().unwrap()])].into()),
            sites: SiteLimit::DEFAULT,
            grace_period_hours: None,
            details: Details::default(),
            is_declared: true,
        }
    }

    #[test]
    fn the_digest_names_what_is_granted_and_nothing_else() {
        let text = r#"{"expires":"2027-12-31","hosts":[],"modules":{"forms":["pro"]},"released":{},"sites":1,"status":"active"}"#;
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json_canonicalizer::to_string(&value).unwrap(), text);
        let expected = Hex128::first_half(Digest::of(text.as_bytes()));
        assert_eq!(declared().grant_digest(), expected);
        let changed = |change: fn(&mut License)| {
            let mut license = declared();
            change(&mut license);
            license.grant_digest()
        };
        let same: [fn(&mut License); 3] = [
            |license| license.details.note = "Anna".into(),
            |license| license.details.replaces = Some(LicenseId::from_bytes([8; 32])),
            |license| license.is_declared = false,
        ];
        for change in same {
            assert_eq!(changed(change), expected);
        }
        let others: [fn(&mut License); 12] = [
            |license| license.status = LicenseStatus::Revoked,
            |license| license.expires = NaiveDate::from_ymd_opt(2028, 1, 1).unwrap(),
            |license| license.modules = Arc::default(),
            |license| license.sites = SiteLimit::Unlimited,
            |license| license.grace_period_hours = Some(0),
            |license| license.details.hosts = vec![host("a.com")].into(),
            |license| license.details.released.all = Some(at(1)),
            |license| license.details.released.hosts = [(host("a.com"), at(1))].into(),
            |license| license.details.staging_sites = Some(0),
            |license| license.details.rights.channels = [crate::channel::Channel::Beta].into(),
            |license| license.details.rights.white_label = true,
            |license| license.details.site_moves = Some(0),
        ];
        let mut seen: std::collections::HashSet<_> = others.into_iter().map(changed).collect();
        assert!(seen.insert(expected) && seen.len() == 13);
        let listed = |names: [&str; 2]| {
            let mut license = declared();
            license.details.hosts = names.map(host).into_iter().collect();
            license.grant_digest()
        };
        assert_eq!(listed(["a.com", "b.com"]), listed(["b.com", "a.com"]));
    }

    #[test]
    fn an_adopted_license_names_the_grant_and_a_site_that_gave_way_gets_no_seat_back() {
        let by = Arc::new(ChangeScope::operator());
        let mut license = declared();
        license.details.hosts = vec![host("listed.com")].into();
        let bound = [Binding::new(host("early.com"), at(5))];
        assert!(matches!(
            license.seat(&bound[..], &StagingRule::NONE, &host("early.com")),
            Seat::Taken { .. }
        ));
        let adopted = license.adopted(&bound[..], &StagingRule::NONE, &by, at(9));
        let early = adopted.license.seat(&bound[..], &StagingRule::NONE, &host("early.com"));
        assert!(matches!(early, Seat::Taken { .. }), "{early:?}");
        assert_eq!(adopted.adopted_grant(), Some(license.grant_digest()));
        assert_eq!((adopted.revision, adopted.status_by), (0, None));
        // With a seat for both, nobody gives way.
        license.sites = SiteLimit::Limited(NonZeroU32::new(2).unwrap());
        let adopted = license.adopted(&bound[..], &StagingRule::NONE, &by, at(9));
        assert!(adopted.license.details.released.is_empty());
        let mut imported = adopted.clone();
        imported.origin.key = Hex128([9; 16]);
        assert_eq!(imported.adopted_grant(), None);
        assert!(imported.differs_from(&license) && !adopted.differs_from(&license));
    }

    #[test]
    fn a_staging_copy_stays_where_the_file_lists_its_site() {
        let mut license = declared();
        license.details.hosts = vec![host("shop.example")].into();
        let bound = [Binding::new(host("stg.kinsta.cloud"), at(1))];
        let by = Arc::new(ChangeScope::operator());
        let one = StagingRule {
            sites: 1,
            hosts: ["*.kinsta.cloud".parse().unwrap()].into_iter().collect(),
        };
        for (rule, held) in [(one, true), (StagingRule::from(1), false)] {
            let adopted = license.adopted(&bound[..], &rule, &by, at(9)).license;
            let seat = adopted.seat(&bound[..], &rule, &host("stg.kinsta.cloud"));
            assert_eq!(seat == Seat::Held, held);
        }
    }
}
