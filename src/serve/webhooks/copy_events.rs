//! Events of copies that are not their sites' own: a look at every report, once a day.
//!
//! `review` names the same sites. The look reads pages on the endpoint's thread, so that no request waits for it.

use std::io;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};

use crate::serve::reported_copies;
use crate::serve::state::Service;
use crate::webhook::event::{EventId, WebhookEvent};
use crate::webhook::outbox::EndpointProgress;
use countersign_ledger::stored_reports::ReportRange;
use countersign_model::event_kind::EventKind;
use countersign_model::license_key::LicenseId;

/// Reports that are read at once.
const PAGE: usize = 1_000;

/// The most sites that one message names.
const MOST_SITES: usize = 20;

/// The odd copies of one license.
struct OddCopies {
    license: LicenseId,
    /// The sites, at most [`MOST_SITES`].
    sites: Vec<Value>,
    /// When the last of them reported.
    last: DateTime<Utc>,
}

/// At most `room` licenses whose sites reported copies that are not their own since the last look, which `progress` then
/// knows. Blocks.
///
/// # Errors
/// What sites reported cannot be read.
pub(super) fn due(
    service: &Service,
    progress: &mut EndpointProgress,
    now: DateTime<Utc>,
    room: usize,
) -> io::Result<Vec<WebhookEvent>> {
    let snapshot = service.gate.snapshot();
    // Without a secret of links, no package has a mark, and nothing can be judged.
    if now - progress.copies_until < TimeDelta::days(1) || room == 0 || snapshot.secrets.downloads.is_none() {
        return Ok(Vec::new());
    }
    let Some(stored) = service.gate.bindings().stored_reports() else {
        return Err(io::Error::other("the store cannot tell what sites reported"));
    };
    let mut found: Vec<OddCopies> = Vec::new();
    let mut range = ReportRange::default();
    let last_sent = progress.copies_after;
    loop {
        let page = stored.reports(&range, PAGE)?;
        for (license, host, report) in &page {
            let is_next = last_sent.is_none_or(|last| *license > last);
            let Some(seen) = report.last_seen.filter(|seen| is_next && *seen > progress.copies_until) else {
                continue;
            };
            let Some(build_id) = report.build_id.filter(|id| !id.is_nil()) else {
                continue;
            };
            if reported_copies::is_own(&service.gate, &snapshot, license, host, build_id, now) {
                continue;
            }
            if found.last().is_none_or(|last| last.license != *license) {
                if found.len() == room {
                    progress.copies_after = found.last().map(|last| last.license);
                    return Ok(events(&found));
                }
                found.push(OddCopies {
                    license: *license,
                    sites: Vec::new(),
                    last: seen,
                });
            }
            if let Some(odd) = found.last_mut().filter(|odd| odd.sites.len() < MOST_SITES) {
                odd.sites.push(json!({ "host": host, "build_id": build_id }));
                odd.last = odd.last.max(seen);
            }
        }
        match page.last() {
            Some((license, host, _)) if page.len() == PAGE => range.after = Some((*license, host.clone())),
            _ => break,
        }
    }
    progress.copies_until = now;
    progress.copies_after = None;
    Ok(events(&found))
}

fn events(found: &[OddCopies]) -> Vec<WebhookEvent> {
    let event = |odd: &OddCopies| {
        let id = EventId::of(format_args!("copies {} {}", odd.license, odd.last.date_naive()));
        let data = json!({ "copies": odd.sites });
        WebhookEvent::new(id, EventKind::LeakSuspected, odd.license, odd.last, data)
    };
    found.iter().map(event).collect()
}
