//! Events that are in no line of the ledger: licenses that end soon, licenses that too many sites ask for or that
//! gave too many first copies, and odd copies ([`copy_events`]).
//!
//! An event's id names the license and the day, so that an endpoint recognizes an event that it gets twice.

use std::collections::BTreeMap;
use std::io;

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use serde_json::json;

use crate::serve::found_license;
use crate::serve::state::Service;
use crate::serve::vouches;
use crate::serve::webhooks::copy_events;
use crate::serve::webhooks::ledger_events::terms;
use crate::webhook::event::{EventId, WebhookEvent};
use crate::webhook::outbox::EndpointProgress;
use countersign_model::event_kind::EventKind;
use countersign_model::first_copies::FirstCopies;
use countersign_model::license::{License, LicenseStatus};
use countersign_model::license_key::LicenseId;
use countersign_model::refused_hosts::{MANY_HOSTS, RefusedHosts};

/// How many days before its end a license is announced.
const DAYS_BEFORE: [i64; 2] = [30, 7];

/// Licenses of the ledger that are looked at at once.
const PAGE: usize = 1_000;

/// Refusals are written some seconds after they happened.
const SETTLED: TimeDelta = TimeDelta::minutes(5);

/// At most `room` events that are due, and the progress once they are kept. Blocks.
///
/// # Errors
/// What sites reported cannot be read.
pub(super) fn due(
    service: &Service,
    progress: &EndpointProgress,
    now: DateTime<Utc>,
    room: usize,
) -> io::Result<(Vec<WebhookEvent>, EndpointProgress)> {
    let mut after = progress.clone();
    let mut events = Vec::new();
    while after.day < now.date_naive() && events.len() < room {
        let day = after.day + TimeDelta::days(1);
        let ending = ending_on(service, day, after.after);
        let is_last = ending.len() <= room - events.len();
        let taken: Vec<_> = ending.into_iter().take(room - events.len()).collect();
        after.after = taken.last().map(|(id, _)| *id);
        events.extend(taken.into_iter().map(|(_, event)| event));
        if is_last {
            (after.day, after.after) = (day, None);
        }
    }
    let settled = now - SETTLED;
    // At most three of each license, so the room is counted before the look.
    if settled > after.refused_until && events.len() < room {
        let mut refused = refused_between(service, after.refused_until, settled)?;
        refused.extend(copies_refused_between(service, after.refused_until, settled)?);
        if events.len() + refused.len() <= room {
            events.extend(refused);
            after.refused_until = settled;
        }
    }
    let copies = copy_events::due(service, &mut after, now, room.saturating_sub(events.len()))?;
    events.extend(copies);
    Ok((events, after))
}

/// The events of this day for the licenses after this one, in their order.
fn ending_on(service: &Service, day: NaiveDate, after: Option<LicenseId>) -> BTreeMap<LicenseId, WebhookEvent> {
    let snapshot = service.gate.snapshot();
    let mut events = BTreeMap::new();
    let mut look = |license: &License| {
        let is_next = after.is_none_or(|after| license.id > after);
        // One that renews does not end.
        if is_next && license.status == LicenseStatus::Active && !license.renews() {
            let days = DAYS_BEFORE
                .into_iter()
                .find(|days| license.expires.checked_sub_signed(TimeDelta::days(*days)) == Some(day));
            events.extend(days.map(|days| (license.id, expiring(license, day, days))));
        }
    };
    let bindings = service.gate.bindings();
    found_license::declared_alone(&snapshot.registry, bindings).for_each(&mut look);
    let mut last = after;
    loop {
        let page = bindings.issued_after(last.as_ref(), PAGE, &|_| true);
        page.iter().for_each(|issued| look(&issued.license));
        match page.last() {
            Some(issued) if page.len() == PAGE => last = Some(issued.license.id),
            _ => return events,
        }
    }
}

fn expiring(license: &License, day: NaiveDate, days: i64) -> WebhookEvent {
    let id = EventId::of(format_args!("expiring {} {} {days}", license.id, license.expires));
    let mut data = terms(license);
    data["days"] = json!(days);
    let time = day.and_time(chrono::NaiveTime::MIN).and_utc();
    WebhookEvent::new(id, EventKind::Expiring, license.id, time, data)
}

/// The licenses that hosts were refused in this time.
fn refused_between(service: &Service, from: DateTime<Utc>, to: DateTime<Utc>) -> io::Result<Vec<WebhookEvent>> {
    let Some(stored) = service.gate.bindings().stored_reports() else {
        return Err(io::Error::other("the store cannot tell what sites reported"));
    };
    let fine = vouches::fine_licenses(service.gate.bindings(), to.date_naive());
    let mut events = Vec::new();
    let mut after = None;
    loop {
        let page = stored.refused(after.as_ref(), PAGE)?;
        for (license, refused) in &page {
            if refused.last > from && refused.last <= to {
                events.extend(refused_events(*license, refused, fine.contains(license)));
            }
        }
        match page.last() {
            Some((license, _)) if page.len() == PAGE => after = Some(*license),
            _ => return Ok(events),
        }
    }
}

/// The licenses that were refused first copies in this time.
fn copies_refused_between(service: &Service, from: DateTime<Utc>, to: DateTime<Utc>) -> io::Result<Vec<WebhookEvent>> {
    let Some(stored) = service.gate.bindings().stored_reports() else {
        return Err(io::Error::other("the store cannot tell what sites reported"));
    };
    let mut events = Vec::new();
    let mut after = None;
    loop {
        let page = stored.first_copies(after.as_ref(), PAGE)?;
        let refused = page.iter().filter_map(|(license, copies)| {
            let time = copies.refused.filter(|time| *time > from && *time <= to)?;
            Some(too_many_copies(*license, copies, time))
        });
        events.extend(refused);
        match page.last() {
            Some((license, _)) if page.len() == PAGE => after = Some(*license),
            _ => return Ok(events),
        }
    }
}

fn too_many_copies(license: LicenseId, copies: &FirstCopies, time: DateTime<Utc>) -> WebhookEvent {
    let kind = EventKind::TooManyFirstCopies;
    let id = EventId::of(format_args!("{} {license} {}", kind.as_str(), time.date_naive()));
    let data = json!({ "packages": copies.packages(time), "networks": copies.networks(time) });
    WebhookEvent::new(id, kind, license, time, data)
}

/// Events about refusals: the limit of the license is reached and, unless somebody vouched for it, its key may be shared.
fn refused_events(license: LicenseId, refused: &RefusedHosts, is_fine: bool) -> impl Iterator<Item = WebhookEvent> {
    let hosts = refused.hosts();
    let last = refused.last;
    let day = last.date_naive();
    let event = |kind: EventKind, data| {
        let id = EventId::of(format_args!("{} {license} {day}", kind.as_str()));
        WebhookEvent::new(id, kind, license, last, data)
    };
    let limit = event(
        EventKind::LimitReached,
        json!({ "host": hosts.last(), "hosts": hosts.len() }),
    );
    let is_leak = hosts.len() >= MANY_HOSTS && !is_fine;
    let leak = is_leak.then(|| {
        event(
            EventKind::LeakSuspected,
            json!({ "hosts": hosts, "since": refused.since }),
        )
    });
    std::iter::once(limit).chain(leak)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_has_one_event_of_refused_first_copies() {
        let license = LicenseId::from_bytes([7; 32]);
        let time = |seconds: i64| DateTime::from_timestamp(1_000_000 + seconds, 0).unwrap();
        let mut copies = FirstCopies::given(time(0), 64, 1);
        copies.merge(FirstCopies::refused(time(1)));
        let event = too_many_copies(license, &copies, time(1));
        let body: serde_json::Value = serde_json::from_str(&event.body).unwrap();
        assert_eq!(body["type"], "license.too_many_first_copies");
        assert_eq!(
            body["data"],
            json!({ "license": license, "packages": 1, "networks": 1 })
        );
        assert_eq!(too_many_copies(license, &copies, time(60)).id, event.id);
        assert_ne!(too_many_copies(license, &copies, time(86_400)).id, event.id);
    }

    #[test]
    fn five_refused_hosts_look_like_a_leak_and_a_day_has_one_event() {
        let license = LicenseId::from_bytes([7; 32]);
        let time = |seconds: i64| DateTime::from_timestamp(1_000_000 + seconds, 0).unwrap();
        let mut refused = RefusedHosts::new("1.example".parse().unwrap(), time(0));
        let first: Vec<_> = refused_events(license, &refused, false).collect();
        assert_eq!(first.len(), 1);
        for number in 2..=5 {
            refused.merge(RefusedHosts::new(
                format!("{number}.example").parse().unwrap(),
                time(number),
            ));
        }
        let later: Vec<_> = refused_events(license, &refused, false).collect();
        assert_eq!(
            refused_events(license, &refused, true).count(),
            1,
            "somebody vouched for it"
        );
        let kinds: Vec<_> = later.iter().map(|event| event.kind).collect();
        assert_eq!(kinds, [EventKind::LimitReached, EventKind::LeakSuspected]);
        assert_eq!(first[0].id, later[0].id, "on one day");
        refused.merge(RefusedHosts::new("6.example".parse().unwrap(), time(86_400)));
        assert_ne!(refused_events(license, &refused, false).next().unwrap().id, first[0].id);
    }
}
