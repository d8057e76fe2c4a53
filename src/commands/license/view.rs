//! A license as `list`, `show` and `issue` print it with `--json`.

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDate, Utc};
use serde::Serialize;

use countersign_model::issued_license::{ChangeScope, Hex128, IssuedLicense};
use countersign_model::license::{License, LicenseStatus, Modules, SiteLimit};
use countersign_model::license_key::LicenseId;
use countersign_model::rights::Rights;
use countersign_model::shop_link::LicenseLinks;
use countersign_model::site_host::SiteHost;
use countersign_model::slug::Slug;
use countersign_model::stored_text::StoredText;
use countersign_registry::Registry;

/// The fields of the registry, and derived ones.
#[derive(Debug, Serialize)]
pub(super) struct View<'a> {
    id: LicenseId,
    status: LicenseStatus,
    standing: &'static str,
    expires: NaiveDate,
    modules: &'a Modules,
    #[serde(serialize_with = "number_or_unlimited")]
    sites: SiteLimit,
    #[serde(skip_serializing_if = "Option::is_none")]
    grace_period_hours: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    staging_sites: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    site_moves: Option<u16>,
    #[serde(flatten)]
    rights: &'a Rights,
    hosts: &'a [SiteHost],
    released: BTreeMap<&'a str, String>,
    note: &'a str,
    /// The license that this one replaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    replaces: Option<LicenseId>,
    /// The license that replaced this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced_by: Option<LicenseId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
    /// `file` or `ledger`.
    source: &'static str,
    /// Who issued a license of the ledger and when, and who changed it last and when.
    #[serde(skip_serializing_if = "Option::is_none")]
    issued_by: Option<&'a ChangeScope>,
    #[serde(skip_serializing_if = "Option::is_none")]
    issued_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    changed_by: Option<&'a ChangeScope>,
    #[serde(skip_serializing_if = "Option::is_none")]
    changed_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<u32>,
    /// The customer's number.
    #[serde(skip_serializing_if = "Option::is_none")]
    customer: Option<Hex128>,
    /// The offer that it was sold under.
    #[serde(skip_serializing_if = "Option::is_none")]
    offer: Option<&'a Slug>,
    /// What is bought with it is bought for this license.
    #[serde(skip_serializing_if = "Option::is_none")]
    renewal_token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    renew_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upgrade_url: Option<String>,
    /// The shop's order, and when its text was erased.
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reference_erased: Option<String>,
}

impl<'a> View<'a> {
    /// The view of `license` on `today`, with its position in the `registry`.
    pub(super) fn new(license: &'a License, registry: &'a Registry, today: NaiveDate) -> Self {
        let place = registry.place(&license.id);
        Self {
            place: place.map(|(file, line)| format!("{}:{line}", file.display())),
            ..Self::without_place(license, today)
        }
    }

    /// The view of a license of the ledger.
    pub(super) fn of_ledger(issued: &'a IssuedLicense, today: NaiveDate) -> Self {
        Self {
            source: "ledger",
            issued_by: Some(&issued.origin.scope),
            issued_at: Some(shown_time(issued.origin.issued)),
            changed_by: Some(&issued.scope),
            changed_at: Some(shown_time(issued.time)),
            revision: Some(issued.revision),
            ..Self::without_place(&issued.license, today)
        }
    }

    fn without_place(license: &'a License, today: NaiveDate) -> Self {
        Self {
            id: license.id,
            status: license.status,
            standing: license.state(today).word(),
            expires: license.expires,
            modules: &license.modules,
            sites: license.sites,
            grace_period_hours: license.grace_period_hours,
            staging_sites: license.details.staging_sites,
            site_moves: license.details.site_moves,
            rights: &license.details.rights,
            hosts: &license.details.hosts,
            released: released(license),
            note: &license.details.note,
            replaces: license.details.replaces,
            replaced_by: None,
            place: None,
            source: "file",
            issued_by: None,
            issued_at: None,
            changed_by: None,
            changed_at: None,
            revision: None,
            customer: license.details.remarks().holder,
            offer: license
                .details
                .remarks()
                .sold
                .as_deref()
                .and_then(|sold| sold.offer.as_ref()),
            renewal_token: None,
            renew_url: None,
            upgrade_url: None,
            reference: None,
            reference_erased: None,
        }
    }

    /// The customer's number.
    pub(super) fn customer(&self) -> Option<Hex128> {
        self.customer
    }

    /// The same with where it is renewed and upgraded.
    pub(super) fn with_links(self, links: LicenseLinks) -> Self {
        Self {
            renewal_token: links.token.map(|token| token.reveal()),
            renew_url: links.renew,
            upgrade_url: links.upgrade,
            ..self
        }
    }

    /// The offer, the addresses and the token, for people.
    pub(super) fn links(&self) -> [(&'static str, String); 4] {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        [
            ("offer", self.offer.map(ToString::to_string).unwrap_or_default()),
            ("renew at", text(&self.renew_url)),
            ("upgrade at", text(&self.upgrade_url)),
            ("token", text(&self.renewal_token)),
        ]
    }

    /// The same with what is kept of its order.
    pub(super) fn with_order(self, order: Option<&'a StoredText>) -> Self {
        Self {
            reference: order.and_then(StoredText::text),
            reference_erased: order.and_then(StoredText::erased_at).map(shown_time),
            ..self
        }
    }

    /// Its order, for people.
    pub(super) fn order(&self) -> String {
        let day = |time: &String| time.split('T').next().unwrap_or_default().to_owned();
        match (self.reference, &self.reference_erased) {
            (Some(text), _) => text.to_owned(),
            (None, Some(time)) => format!("erased on {}", day(time)),
            (None, None) => String::new(),
        }
    }

    /// The same with the license that replaced it, for which all licenses must be searched.
    pub(super) fn with_successor<'l>(self, mut licenses: impl Iterator<Item = &'l License>) -> Self {
        let successor = licenses.find(|other| other.details.replaces == Some(self.id));
        Self {
            replaced_by: successor.map(|license| license.id),
            ..self
        }
    }

    /// When and by whom a license of the ledger was issued; empty for a license of a file.
    pub(super) fn issued(&self) -> String {
        time_and_scope(self.issued_at.as_deref(), self.issued_by)
    }

    /// When and by whom it was changed last; empty for a license that nobody changed.
    pub(super) fn changed(&self) -> String {
        match self.revision {
            Some(2..) => time_and_scope(self.changed_at.as_deref(), self.changed_by),
            _ => String::new(),
        }
    }

    /// The license that replaced it.
    pub(super) fn replaced_by(&self) -> Option<LicenseId> {
        self.replaced_by
    }

    /// Its position, as `file:line`.
    pub(super) fn place(&self) -> &str {
        self.place.as_deref().unwrap_or_default()
    }
}

/// Hosts and `*`, with the time before which their bindings are void.
pub(super) fn released(license: &License) -> BTreeMap<&str, String> {
    release_times(license)
        .map(|(host, time)| (host, shown_time(time)))
        .collect()
}

/// The same as times.
pub(super) fn release_times(license: &License) -> impl Iterator<Item = (&str, DateTime<Utc>)> {
    let released = &license.details.released;
    let hosts = released.hosts.iter().map(|(host, time)| (host.as_str(), *time));
    hosts.chain(released.all.map(|time| ("*", time)))
}

/// A time as in the registry: RFC 3339, UTC, to the second.
pub(super) fn shown_time(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(chrono::SecondsFormat::Secs, true)
}

fn time_and_scope(time: Option<&str>, scope: Option<&ChangeScope>) -> String {
    match (time, scope) {
        (Some(time), Some(scope)) => format!("{time} by {}", scope.words()),
        _ => String::new(),
    }
}

fn number_or_unlimited<S: serde::Serializer>(sites: &SiteLimit, serializer: S) -> Result<S::Ok, S::Error> {
    match sites {
        SiteLimit::Limited(limit) => serializer.serialize_u32(limit.get()),
        SiteLimit::Unlimited => serializer.serialize_str("unlimited"),
    }
}
