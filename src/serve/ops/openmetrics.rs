//! The metrics page: every number of the server, as Prometheus reads it.
//!
//! The text is OpenMetrics 1.0 from `prometheus-client`. docs/metrics.md lists the same names, which a test checks.
//! The crate's `Family`, a hash map behind a lock, is for unknown labels. Ours are enums, so an `EnumMap` of its
//! counters does.
// SECURITY: no label has anything that a client sends: no license, host, address or path.

mod parts;
mod writer;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use strum::IntoEnumIterator as _;

use crate::serve::health::{Part, State};
use crate::serve::metrics::{Counter, Operation};
use crate::serve::reply::outcome::Code;
use crate::serve::reply::problem::Problem;
use crate::serve::reply::response::{ContentType, Response};
use crate::serve::signing::Lane;
use crate::serve::state::Service;
use countersign_files::regular_file;
use countersign_ledger::LedgerState;

use writer::{DurationMetric, MetricWriter, Series, by};

const OPEN_METRICS: ContentType = ContentType("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// More than what the kernel says about a process, in bytes.
const MAX_STATUS: u64 = 64 << 10;

/// The response of `/metrics`. Counts bindings and licenses, so it may block for some milliseconds.
pub fn page(service: Arc<Service>) -> Response {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(ServiceCollector(service)));
    let mut text = String::new();
    if let Err(error) = encode(&mut text, &registry) {
        return Problem::internal(&error).into_response();
    }
    OPEN_METRICS.answer(text)
}

struct ServiceCollector(Arc<Service>);

impl fmt::Debug for ServiceCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServiceCollector")
    }
}

impl Collector for ServiceCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let service = &*self.0;
        let mut page = MetricWriter(encoder);
        requests(&mut page, service)?;
        connections(&mut page, service)?;
        limits(&mut page, service)?;
        signing(&mut page, service)?;
        store(&mut page, service)?;
        parts::write_deliveries(&mut page, service)?;
        files(&mut page, service)?;
        parts::write_mails(&mut page, service.mail.get().map(|queue| &queue.counts))?;
        parts::write_webhooks(&mut page, service.webhooks.get().map_or(&[], Vec::as_slice))?;
        parts::write_rollouts(&mut page, service)?;
        process(&mut page, service)
    }
}

fn requests(page: &mut MetricWriter<'_>, service: &Service) -> fmt::Result {
    let requests = &service.metrics.requests;
    let outcomes = Operation::iter().flat_map(|operation| {
        // An alert on the first internal error needs the series before that error.
        let shown = |(code, count): &(Code, &Counter)| count.get() > 0 || *code == Code::Internal;
        let outcomes = requests.of(operation).outcomes.iter().filter(shown);
        outcomes.map(move |(code, count)| ([("operation", operation.into()), ("code", code.into())], count.clone()))
    });
    let help = "Requests by outcome";
    page.add("countersign_requests", help, &outcomes.collect::<Series<_, _>>())?;
    let help = "Validations whose client disconnected before the answer";
    page.add("countersign_requests_abandoned", help, requests.abandoned())?;
    let help = "Bytes of packages that were read to be sent";
    page.add("countersign_downloaded_bytes", help, &service.metrics.downloaded)?;
    let help = "Build ids in validations, by whose copy they name";
    let copies = by("copy", &service.metrics.reported_copies);
    page.add("countersign_reported_copies", help, &copies)?;
    let latency = [
        Operation::Validate,
        Operation::Release,
        Operation::Updates,
        Operation::Downloads,
        Operation::Hooks,
    ]
    .map(|operation| {
        (
            [("operation", operation.into())],
            DurationMetric(requests.of(operation).latency.read()),
        )
    });
    let help = "Time from the head of a request to its answer";
    page.add("countersign_request_duration_seconds", help, &Series(latency.into()))
}

fn connections(page: &mut MetricWriter<'_>, service: &Service) -> fmt::Result {
    let counts = &service.metrics.connections;
    let help = "Open connections";
    page.add("countersign_connections", help, &ConstGauge::new(counts.open_now()))?;
    let help = "Limit of open connections, lowered to what the limit on open files allows";
    let limit = service.descriptors.connections as u64;
    page.add("countersign_connections_limit", help, &ConstGauge::new(limit))?;
    let help = "Idle connections that were closed for new clients";
    page.add("countersign_connections_evicted", help, counts.evicted())?;
    let help = "Accepted connections";
    page.add("countersign_connections_accepted", help, counts.accepted())?;
    let help = "Connections closed before a request";
    page.add("countersign_connections_refused", help, &by("reason", &counts.refused))?;
    let help = "Connections closed because the client was too slow";
    page.add(
        "countersign_connections_timed_out",
        help,
        &by("reason", &counts.timed_out),
    )
}

fn limits(page: &mut MetricWriter<'_>, service: &Service) -> fmt::Result {
    let help = "Requests refused by a rate limit";
    page.add("countersign_rate_limited", help, &by("limit", service.limits.refused()))
}

fn signing(page: &mut MetricWriter<'_>, service: &Service) -> fmt::Result {
    let signer = &service.signer;
    let waiting: Series<_, _> = Lane::iter()
        .map(|lane| ([("lane", lane.into())], ConstGauge::new(signer.waiting(lane) as u64)))
        .collect();
    let help = "Statements that wait for a signature";
    page.add("countersign_signing_queue_statements", help, &waiting)?;
    let help = "Time that statements waited for a signing thread";
    page.add(
        "countersign_signing_wait_seconds",
        help,
        &DurationMetric(signer.waits().read()),
    )?;
    let help = "Statements refused because the queue was full";
    page.add("countersign_signing_refused", help, &by("lane", signer.refused()))
}

fn store(page: &mut MetricWriter<'_>, service: &Service) -> fmt::Result {
    let figures = service.gate.bindings().figures();
    let help = "Bindings in memory, including void ones";
    page.add("countersign_bindings", help, &ConstGauge::new(figures.bindings as u64))?;
    let help = "Time to write a group of bindings to disk";
    page.add(
        "countersign_ledger_sync_seconds",
        help,
        &DurationMetric(figures.syncs.clone()),
    )?;
    let help = "Requests to bind that failed, because the ledger could not be written";
    page.add(
        "countersign_ledger_failures",
        help,
        &ConstCounter::new(figures.failures),
    )?;
    let help = "Times the index and reports of sites could not be written";
    page.add(
        "countersign_index_failures",
        help,
        &ConstCounter::new(figures.index_failures),
    )?;
    let help = "Reports of sites that were dropped";
    page.add(
        "countersign_reports_dropped",
        help,
        &ConstCounter::new(figures.reports_dropped),
    )
}

fn files(page: &mut MetricWriter<'_>, service: &Service) -> fmt::Result {
    let snapshot = service.gate.snapshot();
    let plugins = snapshot.registry.plugin_count() as u64;
    let help = "Plugins in the registry";
    page.add("countersign_plugins", help, &ConstGauge::new(plugins))?;
    parts::write_licenses(page, service)?;
    let packages = snapshot.catalog.packages() as u64;
    let help = "Packages that the index names";
    page.add("countersign_packages", help, &ConstGauge::new(packages))?;
    let releases = snapshot.catalog.releases().count() as u64;
    page.add(
        "countersign_releases",
        "Releases in the index",
        &ConstGauge::new(releases),
    )?;

    service.note_store();
    let store = service.gate.bindings().health();
    let states: Series<_, _> = LedgerState::iter()
        .map(|state| {
            (
                [("state", <&str>::from(state))],
                ConstGauge::new(u64::from(state == store.ledger)),
            )
        })
        .collect();
    page.add(
        "countersign_ledger_state",
        "1 for the current state of the ledger",
        &states,
    )?;
    let help = "Seconds since this node read the ledger that it shares; 0 where it shares none";
    let age = store.age.unwrap_or_default();
    page.add(
        "countersign_ledger_age_seconds",
        help,
        &ConstGauge::new(age.as_secs_f64()),
    )?;
    let help =
        "Seconds that this machine's clock is ahead of that of the ledger that it shares; 0 where it shares none";
    let lead = store.clock_lead.unwrap_or_default();
    page.add(
        "countersign_clock_offset_seconds",
        help,
        &ConstGauge::new(lead.as_seconds_f64()),
    )?;
    let states = service.health.states();
    let states: Series<_, _> = states
        .iter()
        .flat_map(|(part, is)| State::iter().map(move |state| (*part, state, u64::from(state == *is))))
        .map(|(part, state, is)| ([("part", part.into()), ("state", state.into())], ConstGauge::new(is)))
        .collect();
    page.add("countersign_part_state", "1 for the current state of a part", &states)?;
    let reloads = &service.reloads;
    let counted: Series<_, _> = [("done", &reloads.done), ("failed", &reloads.failed)]
        .into_iter()
        .flat_map(|(result, counts)| counts.iter().map(move |(part, count)| (part, result, count)))
        .filter(|(part, ..)| part.has_files())
        .map(|(part, result, count)| ([("part", part.into()), ("result", result)], count.clone()))
        .collect();
    page.add("countersign_reloads", "Reloads of a part", &counted)?;
    let last: Series<_, _> = Part::iter()
        .filter(|part| part.has_files())
        .map(|part| ([("part", part.into())], ConstGauge::new(reloads.last(part))))
        .collect();
    let help = "Time of a part's last reload, 0 for none since the start";
    page.add("countersign_last_reload_timestamp_seconds", help, &last)?;
    let looks = service.health.looks();
    let looked: Series<_, _> = looks
        .iter()
        .map(|(part, time)| ([("part", part.into())], ConstGauge::new(*time)))
        .collect();
    let help = "Time when a part's files were last checked";
    page.add("countersign_last_look_timestamp_seconds", help, &looked)?;
    if let Some(tls) = &service.tls {
        let help = "Time when the TLS certificate expires";
        let ends = ConstGauge::new(tls.expires().timestamp());
        page.add("countersign_tls_certificate_expiry_timestamp_seconds", help, &ends)?;
    }
    Ok(())
}

fn process(page: &mut MetricWriter<'_>, service: &Service) -> fmt::Result {
    let build = Series(vec![([("version", env!("CARGO_PKG_VERSION"))], ConstGauge::new(1_u64))]);
    page.add("countersign_build_info", "Version of the server", &build)?;
    let started = ConstGauge::new(service.started.timestamp());
    page.add("process_start_time_seconds", "Time when the process started", &started)?;
    if let Some(bytes) = resident_bytes() {
        page.add(
            "process_resident_memory_bytes",
            "Memory in use",
            &ConstGauge::new(bytes),
        )?;
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        let open = open.count() as u64;
        page.add("process_open_fds", "File descriptors in use", &ConstGauge::new(open))?;
    }
    let limit = service.descriptors.limit.map_or(f64::INFINITY, |limit| limit as f64);
    let help = "File descriptors the process may use";
    page.add("process_max_fds", help, &ConstGauge::new(limit))
}

/// `VmRSS` of proc_pid_status(5), which is in kB.
fn resident_bytes() -> Option<u64> {
    let status = regular_file::read_to_string(Path::new("/proc/self/status"), MAX_STATUS).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim()
        .trim_end_matches(" kB")
        .parse::<u64>()
        .ok()
        .map(|kilobytes| kilobytes * 1024)
}
