//! `countersign bindings export`: prints every binding, one JSON object per line.

use std::collections::HashMap;
use std::io::{self, BufWriter, Write};

use chrono::{DateTime, Utc};
use serde::Serialize;
use uuid::Uuid;

use crate::commands::bindings::messages::failure;
use crate::commands::store_source::store_source;
use crate::commands::{Exit, Failure, output, stored_sites};
use crate::config::Config;
use crate::model::binding::Binding;
use crate::model::license_key::LicenseId;
use crate::model::site_host::SiteHost;
use crate::registry::Registry;
use crate::store;
use crate::text::error_chain::ErrorChain;
use crate::text::printable::Printable;
use crate::text::stderr;

#[derive(Serialize)]
struct Exported {
    bound_at: DateTime<Utc>,
    host: SiteHost,
    license: LicenseId,
    /// Whether the vendor made it void; absent if the license files cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    released: Option<bool>,
    /// What the site reported last; absent if it reported none.
    #[serde(skip_serializing_if = "Option::is_none")]
    build_id: Option<Uuid>,
}

/// Checks the ledger, then prints the bindings.
pub(super) fn run(config: &Config) -> Result<Exit, Failure> {
    let store = store::read_only(store_source(&config.paths)).map_err(failure)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut written = Ok(());
    let mut room = Vec::new();
    let registry = Registry::load_licenses(&config.paths.registry);
    if let Err(error) = &registry {
        stderr::line(format_args!(
            "warning: released bindings are not marked: {}",
            ErrorChain(error).first_line()
        ));
    }
    let reports = stored_sites::reports_in(&store, &config.paths.store);
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
            let voids = |registry: &Registry| {
                registry
                    .license(&license)
                    .is_some_and(|license| license.details.released.voids(&binding))
            };
            let released = registry.as_ref().ok().map(voids);
            let Binding { host, bound_at } = binding;
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
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::environment(error)),
        _ => Ok(Exit::Done),
    }
}
