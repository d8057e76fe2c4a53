//! `countersign bindings export`: prints every binding, one JSON object per line.

use std::collections::HashMap;
use std::io::{self, BufWriter, Write};

use chrono::{DateTime, Utc};
use serde::Serialize;
use uuid::Uuid;

use crate::commands::bindings::messages::failure;
use crate::commands::known_licenses::KnownLicenses;
use crate::commands::store::store_source;
use crate::commands::{Exit, Failure, output, stored_sites};
use countersign_ledger::StoreReader;
use countersign_model::binding::Binding;
use countersign_model::license_key::LicenseId;
use countersign_model::site_host::SiteHost;
use countersign_model::text::printable::Printable;
use countersign_model::text::{ErrorChain, stderr};
use countersign_registry::Registry;
use countersign_settings::config::Config;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Print every event that counts, not bindings alone
    #[arg(long)]
    all: bool,
}

#[derive(Serialize)]
struct Exported {
    bound_at: DateTime<Utc>,
    host: SiteHost,
    license: LicenseId,
    /// Whether the vendor or the site released it; absent if the licenses cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    released: Option<bool>,
    /// What the site reported last; absent if it reported none.
    #[serde(skip_serializing_if = "Option::is_none")]
    build_id: Option<Uuid>,
}

/// Checks the ledger, then prints the bindings.
pub(super) fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let store = countersign_ledger::read_only(store_source(&config.paths)).map_err(failure)?;
    if args.all {
        return every_event(store);
    }
    let mut out = BufWriter::new(io::stdout().lock());
    let mut written = Ok(());
    let mut room = Vec::new();
    let known = known_licenses(config);
    if let Err(error) = &known {
        stderr::line(format_args!(
            "warning: released bindings are not marked: {}",
            Printable(ErrorChain(&*error.error).first_line())
        ));
    }
    let reports = stored_sites::reports_in(&store, config);
    if let Err(error) = &reports {
        stderr::line(format_args!(
            "warning: build ids are not exported: {}",
            Printable(error.line())
        ));
    }
    let reported = reports.unwrap_or_default().into_iter();
    let mut build_ids: HashMap<(LicenseId, SiteHost), Uuid> = reported
        .filter_map(|(license, host, report)| Some(((license, host), report.build_id?)))
        .collect();
    let exported = store.export(|license, binding| {
        if written.is_ok() {
            let released = match &known {
                Ok(known) => Some(known.is_void(&license, &binding)),
                // What the site itself released is in the ledger.
                Err(_) => binding.is_released().then_some(true),
            };
            let Binding { host, bound_at, .. } = binding;
            let site = (license, host);
            let build_id = build_ids.remove(&site);
            let (license, host) = site;
            let line = output::json_line(
                &Exported {
                    bound_at,
                    host,
                    license,
                    released,
                    build_id,
                },
                &mut room,
            );
            written = line.and_then(|line| writeln!(out, "{line}"));
        }
    });
    exported.map_err(failure)?;
    ended(written, out)
}

fn known_licenses(config: &Config) -> Result<KnownLicenses, Failure> {
    let registry = Registry::load_licenses(&config.paths.registry)?;
    Ok(KnownLicenses::new(registry, stored_sites::issued_licenses(config)?))
}

/// Checks the ledger, then prints each event that counts.
fn every_event(store: StoreReader) -> Result<Exit, Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut written = Ok(());
    let exported = store.event_lines(|line| {
        if written.is_ok() {
            written = out.write_all(line.as_bytes());
        }
    });
    exported.map_err(failure)?;
    ended(written, out)
}

/// A reader that stops early is no failure.
fn ended(written: io::Result<()>, mut out: impl Write) -> Result<Exit, Failure> {
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::environment(error)),
        _ => Ok(Exit::Done),
    }
}
