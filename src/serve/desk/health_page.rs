//! Health: whether every part works, and what waits to be sent. As `/readyz` and the metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use askama::Template;
use chrono::{DateTime, Utc};
use tokio::task::spawn_blocking;

use crate::serve::desk::asked::Asked;
use crate::serve::desk::frame::{NavEntry, PageFrame};
use crate::serve::desk::parked_mails::ParkedMails;
use crate::serve::desk::request_ring::RequestTotals;
use crate::serve::health::{Part, PartReport, State};
use crate::serve::pages::answer::PageAnswer;
use crate::serve::pages::page_problem::PageProblem;
use crate::serve::pages::shown::{ShownTime, grouped};
use crate::serve::reply::problem::Problem;
use crate::serve::state::Service;
use countersign_files::queue::QueueState;
use countersign_model::desk_person::DeskRole;
use countersign_model::text::outside_text::OutsideText;

#[derive(Template)]
#[template(path = "desk/health.html")]
struct HealthPage {
    frame: PageFrame,
    said: &'static str,
    figures: Vec<HealthFigure>,
    parts: Vec<ShownPart>,
    /// Requests of the last day by the hour and the quarter, the newest first.
    quarters: Vec<ShownQuarter>,
    quarters_said: String,
    /// What was done just now.
    notice: Option<&'static str>,
    parked: ParkedMails,
    /// Whether the visitor may decide about them.
    may_decide: bool,
}

/// A figure.
struct HealthFigure {
    name: &'static str,
    value: String,
    more: String,
}

/// A quarter of an hour.
struct ShownQuarter {
    from: ShownTime,
    all: String,
    failed: String,
}

/// A part of the server.
pub(super) struct ShownPart {
    pub(super) name: OutsideText,
    pub(super) detail: OutsideText,
    pub(super) word: &'static str,
    pub(super) class: &'static str,
    since: Option<ShownTime>,
}

impl ShownPart {
    /// Whether somebody has to look.
    pub(super) fn is_well(&self) -> bool {
        self.class == "good"
    }

    fn new(name: &str, detail: String, (word, class): (&'static str, &'static str)) -> Self {
        Self {
            name: OutsideText::of(name),
            detail: OutsideText::of_sentence(&detail),
            word,
            class,
            since: None,
        }
    }
}

/// The name of the part that shops' deliveries are.
pub(super) const SHOPS: &str = "Shops";

const WORKS: (&str, &str) = ("works", "good");

/// The parts of the server, and what it sends. Blocks: the store may be asked.
pub(super) async fn parts(asked: &Asked<'_>) -> Result<Vec<ShownPart>, PageProblem> {
    let service = std::sync::Arc::clone(&asked.state.service);
    let now = asked.now;
    let work = move || {
        let reports = service.readiness().reports();
        let mut parts: Vec<_> = reports.iter().map(|part| of_server(part, now)).collect();
        parts.extend(of_queues(&service, now));
        parts
    };
    let parts = spawn_blocking(work).await;
    Ok(parts.map_err(|error| Problem::internal(&error))?)
}

fn of_server(report: &PartReport, now: DateTime<Utc>) -> ShownPart {
    let name = match report.part {
        Part::Registry => "Plugins, offers and people",
        Part::Catalog => "Releases",
        Part::Key => "Keys",
        Part::Packages => "Packages",
        Part::Store => "Licenses and sites",
        Part::Tls => "Certificate",
    };
    let state = match report.state {
        State::Ok => WORKS,
        State::Stale => ("old files in use", "warn"),
        State::Failing => ("does not work", "bad"),
    };
    ShownPart {
        since: Some(ShownTime::of(report.since, now)),
        ..ShownPart::new(name, report.detail.clone().unwrap_or_default(), state)
    }
}

/// What waits to be sent or applied on this node.
fn of_queues(service: &Service, now: DateTime<Utc>) -> Vec<ShownPart> {
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let state = |parked: u64, is_slow: bool| match (parked, is_slow) {
        (1.., _) => ("needs you", "bad"),
        (0, true) => ("slow", "warn"),
        (0, false) => WORKS,
    };
    let mut parts = Vec::new();
    if let Some(spool) = service.hooks.spool() {
        let (waiting, _) = spool.count(QueueState::Waiting);
        let (parked, _) = spool.count(QueueState::Parked);
        let detail = format!("{waiting} wait, {parked} parked");
        parts.push(ShownPart::new(SHOPS, detail, state(parked as u64, false)));
    }
    if let Some(queue) = service.mail.get() {
        let counts = &queue.counts;
        let oldest = i64::try_from(read(&counts.oldest)).unwrap_or_default();
        let is_slow = oldest > 0 && now.timestamp() - oldest > 900;
        let detail = format!(
            "{} wait, {} parked, {} sent since the start",
            read(&counts.waiting),
            read(&counts.parked),
            read(&counts.sent)
        );
        parts.push(ShownPart::new("Mail", detail, state(read(&counts.parked), is_slow)));
    }
    for endpoint in service.webhooks.get().into_iter().flatten() {
        let detail = format!("{} wait, {} parked", read(&endpoint.waiting), read(&endpoint.parked));
        let is_slow = read(&endpoint.failing_since) > 0;
        parts.push(ShownPart::new(
            &format!("Webhook {}", endpoint.name),
            detail,
            state(read(&endpoint.parked), is_slow),
        ));
    }
    parts
}

/// The page.
pub(super) async fn page(asked: &Asked<'_>) -> Result<PageAnswer, PageProblem> {
    let parts = parts(asked).await?;
    let service = &asked.state.service;
    let bindings = service.gate.bindings();
    asked.state.count_requests(asked.now);
    let quarters = asked.state.requests.quarters();
    let usize_of = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    let sum = |of: fn(&RequestTotals) -> u64| usize_of(quarters.iter().map(|(_, totals)| of(totals)).sum());
    let figure = |name, value, more| HealthFigure { name, value, more };
    let node = bindings
        .node()
        .map_or_else(|| "on this machine".to_owned(), |node| format!("node {node}"));
    Ok(PageAnswer::ok(&HealthPage {
        frame: asked.frame("Health", NavEntry::Health),
        said: match parts.iter().all(ShownPart::is_well) {
            true => "Everything works.",
            false => "Some parts need a look.",
        },
        figures: vec![
            figure("Licenses", grouped(bindings.issued_count()), "in the ledger".to_owned()),
            figure(
                "In files",
                grouped(asked.snapshot.registry.license_count()),
                "declared".to_owned(),
            ),
            figure(
                "Ledger",
                bindings
                    .ledger_end()
                    .map_or_else(String::new, |end| end.sequence.to_string()),
                format!("lines, {node}"),
            ),
            figure(
                "Running",
                ShownTime::of(service.started, asked.now).relative.replace(" ago", ""),
                format!("version {}", env!("CARGO_PKG_VERSION")),
            ),
        ],
        parts,
        quarters_said: format!(
            "{} in 24 hours or since the start, {} failed",
            grouped(sum(|totals| totals.all)),
            grouped(sum(|totals| totals.failed))
        ),
        quarters: quarters
            .iter()
            .map(|(from, totals)| ShownQuarter {
                from: ShownTime::of(*from, asked.now),
                all: grouped(usize_of(totals.all)),
                failed: grouped(usize_of(totals.failed)),
            })
            .collect(),
        notice: match asked.fields.get("done") {
            "mails" => Some("Parked mails are tried again within seconds."),
            "mail" => Some("The mail is tried again within seconds, to the same address."),
            "dropped" => Some("The mail is dropped: nobody gets it."),
            "same" => Some("Nothing changed: the mail is parked no more."),
            _ => None,
        },
        parked: ParkedMails::of(asked).await?,
        may_decide: asked.visitor.may(DeskRole::Support),
    }))
}
