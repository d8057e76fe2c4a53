//! What a line of the ledger tells endpoints.

use serde_json::{Value, json};

use crate::webhook::event::{EventId, WebhookEvent};
use countersign_ledger::ledger_feed::FeedLine;
use countersign_ledger::log::RolloutEntry;
use countersign_ledger::log::record::LedgerEvent;
use countersign_ledger::{HandedEntry, HandedPackage, Handout};
use countersign_model::event_kind::EventKind;
use countersign_model::issued_license::{ChangeKind, IssuedLicense};
use countersign_model::license::{License, SiteLimit};
use countersign_model::rollout::RolloutStep;
use countersign_model::site_claim::{CLAIM_PERIOD, ClaimStep};
use countersign_model::site_release::ReleasedBy;

/// The event of a line; `None` for lines that no endpoint gets, such as those of tokens. The id names the line's
/// content, not its place, which a compaction changes.
pub(super) fn event_of(line: &FeedLine) -> Option<WebhookEvent> {
    match &line.event {
        LedgerEvent::Bound(entry) => {
            let host = &entry.binding.host;
            let time = entry.binding.bound_at;
            let id = EventId::of(format_args!("bound {} {host} {time}", entry.license));
            let data = json!({ "host": host });
            Some(WebhookEvent::new(id, EventKind::Bound, entry.license, time, data))
        }
        LedgerEvent::Released(entry) => {
            let release = &entry.release;
            let by = match release.by {
                ReleasedBy::Key | ReleasedBy::Secret => "site",
                ReleasedBy::Customer => "customer",
                ReleasedBy::Taken => "another site or the vendor",
            };
            let id = EventId::of(format_args!(
                "released {} {} {}",
                entry.license, release.host, release.time
            ));
            let (kind, data) = match &release.moved {
                Some(moved) => (
                    EventKind::Moved,
                    json!({ "host": moved.to, "from": release.host, "by": by }),
                ),
                None => (EventKind::Released, json!({ "host": release.host, "by": by })),
            };
            Some(WebhookEvent::new(id, kind, entry.license, release.time, data))
        }
        LedgerEvent::Claimed(entry) => {
            let claim = &entry.claim;
            let step = <&str>::from(claim.step);
            let id = EventId::of(format_args!(
                "claimed {} {} {step} {}",
                entry.license, claim.host, claim.time
            ));
            let mut data = json!({ "host": claim.host, "step": step });
            if claim.step == ClaimStep::Begun {
                data["until"] = json!(claim.time + CLAIM_PERIOD);
            }
            Some(WebhookEvent::new(
                id,
                EventKind::Claimed,
                entry.license,
                claim.time,
                data,
            ))
        }
        LedgerEvent::License(issued) => Some(license_event(issued)),
        LedgerEvent::Handed(entry) => handed_event(entry),
        LedgerEvent::Rollout(entry) => Some(rollout_event(entry)),
        LedgerEvent::Sale(_)
        | LedgerEvent::Token(_)
        | LedgerEvent::Erased(_)
        | LedgerEvent::Reminded(_)
        | LedgerEvent::Session(_)
        | LedgerEvent::Vouched(_)
        | LedgerEvent::Compacted(_) => None,
    }
}

fn handed_event(entry: &HandedEntry) -> Option<WebhookEvent> {
    let by = entry.scope.words();
    let (kind, data) = match &entry.what {
        Handout::Page | Handout::Address => return None,
        Handout::Key => (EventKind::KeyMailed, json!({ "by": by })),
        Handout::Package(HandedPackage { plugin, version, host }) => {
            let mut data = json!({ "plugin": plugin, "version": version, "by": by });
            if let Some(host) = host {
                data["host"] = json!(host);
            }
            (EventKind::Downloaded, data)
        }
    };
    let id = EventId::of(format_args!("handed {} {}", entry.license, entry.id));
    Some(WebhookEvent::new(id, kind, entry.license, entry.time, data))
}

fn rollout_event(entry: &RolloutEntry) -> WebhookEvent {
    let RolloutEntry { slug, version, mark } = entry;
    let step = mark.step.as_str();
    let kind = match mark.step {
        RolloutStep::Alarmed => EventKind::RolloutAlarm,
        _ => EventKind::RolloutChanged,
    };
    let id = EventId::of(format_args!("rollout {slug} {version} {step} {}", mark.time));
    let data = json!({ "plugin": slug, "version": version, "step": step });
    WebhookEvent::of_plugin(id, kind, mark.time, &data)
}

fn license_event(issued: &IssuedLicense) -> WebhookEvent {
    let kind = match issued.kind {
        ChangeKind::Issued => EventKind::Issued,
        ChangeKind::Renewed => EventKind::Renewed,
        ChangeKind::Changed => EventKind::Changed,
        ChangeKind::Suspended => EventKind::Suspended,
        ChangeKind::Resumed => EventKind::Resumed,
        ChangeKind::Revoked => EventKind::Revoked,
        ChangeKind::Released => EventKind::Released,
    };
    let license = &issued.license;
    let id = EventId::of(format_args!(
        "license {} {} {}",
        license.id, issued.revision, issued.time
    ));
    let mut data = terms(license);
    data["by"] = json!(issued.scope.words());
    data["revision"] = json!(issued.revision);
    if let Some(replaces) = &license.details.replaces {
        data["replaces"] = json!(replaces);
    }
    WebhookEvent::new(id, kind, license.id, issued.time, data)
}

/// What a license is for.
pub(super) fn terms(license: &License) -> Value {
    json!({
        "status": license.status,
        "expires": license.expires,
        "modules": license.modules.keys().collect::<Vec<_>>(),
        "sites": match license.sites {
            SiteLimit::Limited(limit) => json!(limit),
            SiteLimit::Unlimited => json!("unlimited"),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use chrono::DateTime;
    use countersign_model::issued_license::{ChangeScope, Hex128};
    use countersign_model::license_key::LicenseId;

    #[test]
    fn an_event_says_what_a_customer_got_and_for_which_site() {
        let package = |host: Option<&str>| HandedPackage {
            plugin: "acme-forms".parse().unwrap(),
            version: "1.2.0".parse().unwrap(),
            host: host.map(|host| host.parse().unwrap()),
        };
        let event = |what| {
            let entry = HandedEntry {
                id: Hex128([1; 16]),
                license: LicenseId::from_bytes([7; 32]),
                what,
                scope: Arc::new(ChangeScope::account()),
                reason: None,
                who: None,
                time: DateTime::UNIX_EPOCH,
            };
            let body: Value = serde_json::from_str(&handed_event(&entry).unwrap().body).unwrap();
            let mut data = body["data"].clone();
            data.as_object_mut().unwrap().remove("license");
            (body["type"].clone(), data)
        };
        for (what, kind, data) in [
            (Handout::Key, "license.key_mailed", json!({ "by": "the customer" })),
            (
                Handout::Package(package(None)),
                "license.downloaded",
                json!({ "plugin": "acme-forms", "version": "1.2.0", "by": "the customer" }),
            ),
            (
                Handout::Package(package(Some("new.example"))),
                "license.downloaded",
                json!({ "plugin": "acme-forms", "version": "1.2.0", "host": "new.example", "by": "the customer" }),
            ),
        ] {
            assert_eq!(event(what), (json!(kind), data));
        }
    }
}
