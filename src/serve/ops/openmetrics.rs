//! The metrics' page: every number the server keeps of itself, named once, as Prometheus reads it.
//!
//! The text is OpenMetrics 1.0. docs/metrics.md lists the same names, and a test holds the two together.
// SECURITY: no label holds what a client sends: not a license, a host, an address or a path.

use std::fmt::{self, Debug, Formatter};
use std::path::Path;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::histogram::Durations;
use crate::regular_file;
use crate::serve::health::Part;
use crate::serve::metrics::Operation;
use crate::serve::metrics::label::{Counters, Label};
use crate::serve::rate_limit::Limit;
use crate::serve::reply::outcome::Code;
use crate::serve::reply::problem::Problem;
use crate::serve::reply::response::{ContentType, Response};
use crate::serve::signing::queue::Lane;
use crate::serve::state::Service;

const OPEN_METRICS: ContentType = ContentType("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// More than the kernel says of a process, in bytes.
const MAX_STATUS: u64 = 64 << 10;

/// The answer of `/metrics`. Counts what is held, so it blocks for some milliseconds where that is much.
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

impl Debug for ServiceCollector {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Page")
    }
}

impl Collector for ServiceCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let service = &*self.0;
        let mut write = MetricWriter(encoder);
        requests(&mut write, service)?;
        connections(&mut write, service)?;
        limits(&mut write, service)?;
        signing(&mut write, service)?;
        store(&mut write, service)?;
        files(&mut write, service)?;
        process(&mut write, service)
    }
}

fn requests(write: &mut MetricWriter<'_>, service: &Service) -> fmt::Result {
    let requests = &service.metrics.requests;
    let outcomes = Operation::ALL.iter().flat_map(|operation| {
        // An alert on the first internal error needs the series that it is the first of.
        let shown = |(code, count): &(Code, u64)| *count > 0 || *code == Code::Internal;
        let outcomes = requests.of(*operation).outcomes.all().filter(shown);
        outcomes.map(|(code, count)| ([("operation", operation.name()), ("code", code.name())], count))
    });
    write.counters("countersign_requests", "Requests by how they ended", outcomes)?;
    let help = "Validations whose clients hung up before there was an answer";
    write.counters("countersign_requests_abandoned", help, [([], requests.abandoned())])?;
    let latency = [Operation::Validate, Operation::Updates]
        .map(|operation| ([("operation", operation.name())], requests.of(operation).latency.read()));
    write.histograms(
        "countersign_request_duration_seconds",
        "From the head of a request to its answer",
        latency,
    )
}

fn connections(write: &mut MetricWriter<'_>, service: &Service) -> fmt::Result {
    let counts = &service.metrics.connections;
    write.gauge(
        "countersign_connections",
        "Connections that are open",
        counts.open_now(),
    )?;
    let help = "Connections held at once, as far as the limit on open files allows";
    write.gauge(
        "countersign_connections_limit",
        help,
        service.descriptors.connections as u64,
    )?;
    let help = "Connections that waited for a request and were closed for new clients";
    write.counters("countersign_connections_evicted", help, [([], counts.evicted())])?;
    write.counters(
        "countersign_connections_accepted",
        "Connections taken",
        [([], counts.accepted())],
    )?;
    let help = "Connections closed before a request";
    write.counters(
        "countersign_connections_refused",
        help,
        labelled("reason", &counts.refused),
    )?;
    let help = "Connections closed because the client was too slow";
    write.counters(
        "countersign_connections_timed_out",
        help,
        labelled("reason", &counts.timed_out),
    )
}

fn limits(write: &mut MetricWriter<'_>, service: &Service) -> fmt::Result {
    let each = |limit: &Limit| ([("limit", limit.name())], *limit);
    let refused = Limit::ALL
        .iter()
        .map(each)
        .map(|(label, limit)| (label, service.limits.refused(limit)));
    write.counters(
        "countersign_rate_limited",
        "Requests that were told to come back",
        refused,
    )
}

fn signing(write: &mut MetricWriter<'_>, service: &Service) -> fmt::Result {
    let signer = &service.signer;
    let waiting = Lane::ALL
        .iter()
        .map(|lane| ([("lane", lane.name())], signer.waiting(*lane) as u64));
    write.gauges(
        "countersign_signing_queue_statements",
        "Statements that wait for a signature",
        waiting,
    )?;
    let waits = [([], signer.waits().read())];
    write.histograms(
        "countersign_signing_wait_seconds",
        "How long statements waited for a signing thread",
        waits,
    )?;
    let help = "Statements that found the queue full";
    write.counters("countersign_signing_refused", help, labelled("lane", signer.refused()))
}

fn store(write: &mut MetricWriter<'_>, service: &Service) -> fmt::Result {
    let figures = service.gate.bindings().figures();
    write.gauge(
        "countersign_bindings",
        "Bindings held, void ones included",
        figures.bindings as u64,
    )?;
    let help = "How long it took to make bindings durable, each time for all who waited";
    write.histograms("countersign_ledger_sync_seconds", help, [([], figures.syncs)])?;
    let help = "Bindings that did not become durable";
    write.counters("countersign_ledger_failures", help, [([], figures.failures)])?;
    let help = "Times the index and reports of sites could not be written";
    write.counters("countersign_index_failures", help, [([], figures.index_failures)])?;
    let help = "Reports of sites that were dropped";
    write.counters("countersign_reports_dropped", help, [([], figures.reports_dropped)])
}

fn files(write: &mut MetricWriter<'_>, service: &Service) -> fmt::Result {
    let snapshot = service.gate.snapshot();
    let plugins = snapshot.registry.plugin_count();
    let licenses = snapshot.registry.license_count();
    write.gauge("countersign_plugins", "Plugins in the registry", plugins as u64)?;
    write.gauge("countersign_licenses", "Licenses in the registry", licenses as u64)?;
    write.gauge(
        "countersign_releases",
        "Releases that the index names",
        snapshot.catalog.releases() as u64,
    )?;

    service.note_store();
    let states = service.health.states();
    let health = states.iter().flat_map(|(part, state)| {
        let label = |any: &crate::serve::health::State| [("part", part.name()), ("state", any.name())];
        crate::serve::health::State::ALL
            .iter()
            .map(move |any| (label(any), u64::from(any == state)))
    });
    write.gauges("countersign_part_state", "1 for the state a part is in", health)?;
    let reloads = &service.reloads;
    let counted = |result, counts: &Counters<Part>| -> Vec<_> {
        let counts = counts.all().filter(|(part, _)| *part != Part::Store);
        counts
            .map(|(part, count)| ([("part", part.name()), ("result", result)], count))
            .collect()
    };
    let all = counted("done", &reloads.done)
        .into_iter()
        .chain(counted("failed", &reloads.failed));
    write.counters("countersign_reloads", "Times a part was loaded again", all)?;
    let reloaded = Part::ALL.iter().filter(|part| **part != Part::Store);
    let last = reloaded.map(|part| ([("part", part.name())], reloads.last(*part)));
    let help = "When a part was last loaded again, 0 for not since the start";
    write.gauges("countersign_last_reload_timestamp_seconds", help, last)?;
    let looks = service.health.looks();
    let looked = looks.iter().map(|(part, time)| ([("part", part.name())], *time));
    write.gauges(
        "countersign_last_look_timestamp_seconds",
        "When a part's files were last looked at",
        looked,
    )?;
    if let Some(tls) = &service.tls {
        let help = "When the TLS certificate in force ends";
        write.gauge(
            "countersign_tls_certificate_expiry_timestamp_seconds",
            help,
            tls.expires().timestamp(),
        )?;
    }
    Ok(())
}

fn process(write: &mut MetricWriter<'_>, service: &Service) -> fmt::Result {
    let build = [([("version", env!("CARGO_PKG_VERSION"))], 1_u64)];
    write.gauges("countersign_build_info", "The version that runs", build)?;
    write.gauge(
        "process_start_time_seconds",
        "When the process started",
        service.started.timestamp(),
    )?;
    if let Some(bytes) = resident_bytes() {
        write.gauge("process_resident_memory_bytes", "Memory in use", bytes)?;
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        write.gauge("process_open_fds", "File descriptors in use", open.count() as u64)?;
    }
    let limit = service.descriptors.limit.map_or(f64::INFINITY, |limit| limit as f64);
    write.gauge("process_max_fds", "File descriptors the process may use", limit)?;
    Ok(())
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

fn labelled<L: Label>(
    name: &'static str,
    counts: &Counters<L>,
) -> impl Iterator<Item = ([(&'static str, &'static str); 1], u64)> {
    counts.all().map(move |(label, count)| ([(name, label.name())], count))
}

/// Writes a metric with its name, its help and its series.
struct MetricWriter<'a>(DescriptorEncoder<'a>);

impl MetricWriter<'_> {
    fn counters<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = ([(&'static str, &'static str); N], u64)>,
    ) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, count) in series {
            with(&mut metric, &labels, |series| {
                series.encode_counter::<NoLabelSet, _, u64>(&count, None)
            })?;
        }
        Ok(())
    }

    fn gauges<const N: usize, V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = ([(&'static str, &'static str); N], V)>,
    ) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in series {
            with(&mut metric, &labels, |series| series.encode_gauge(&value))?;
        }
        Ok(())
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl EncodeGaugeValue) -> fmt::Result {
        self.gauges(name, help, [([], value)])
    }

    fn histograms<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = ([(&'static str, &'static str); N], Durations)>,
    ) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (labels, read) in series {
            with(&mut metric, &labels, |series| {
                series.encode_histogram::<NoLabelSet>(read.sum, read.count(), &read.buckets, None)
            })?;
        }
        Ok(())
    }
}

/// Writes a series with its labels; one that has none goes without braces.
fn with<const N: usize>(
    metric: &mut MetricEncoder<'_>,
    labels: &[(&'static str, &'static str); N],
    write: impl FnOnce(&mut MetricEncoder<'_>) -> fmt::Result,
) -> fmt::Result {
    if N == 0 {
        write(metric)
    } else {
        write(&mut metric.encode_family(labels)?)
    }
}
