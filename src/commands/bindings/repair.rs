//! `countersign bindings repair`: appends to a database what it lost and the nodes still know.

use std::path::PathBuf;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::build::counted;
use crate::commands::bindings::messages::{counted_bindings, failure};
use crate::commands::output::{self, Table};
use crate::commands::server_questions::license_defaults;
use crate::commands::{Exit, Failure};
use countersign_ledger::{ChangeRefusal, RepairOutcome, StoreError};
use countersign_model::license_key::LicenseId;
use countersign_model::name::Name;
use countersign_model::site_host::SiteHost;
use countersign_model::text::stderr;
use countersign_registry::Registry;
use countersign_settings::config::Config;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Files of other nodes, beside those in this instance's folder node/
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Say what would be appended, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct RepairOutput<'a> {
    files: Vec<String>,
    /// Bindings that were appended.
    bindings: u64,
    /// Licenses that were appended.
    licenses: u64,
    /// Tokens that were made or revoked again.
    tokens: u64,
    /// Seats that sites had given back.
    freed: u64,
    /// Sales that shops had reported.
    sales: u64,
    /// Lost bindings that were released.
    released: u64,
    unfit: Vec<UnfitOutput<'a>>,
    unfit_licenses: Vec<UnfitLicenseOutput>,
    unfit_tokens: &'a [Name],
    /// Sales that are two sales with licenses by now.
    sequence: u64,
    /// Whether the nodes read the whole ledger again, and serve again.
    nodes_reload: bool,
    dry_run: bool,
}

#[derive(Serialize)]
struct UnfitOutput<'a> {
    license: LicenseId,
    host: &'a SiteHost,
    bound_at: DateTime<Utc>,
    reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    bound_to: Option<&'a SiteHost>,
}

#[derive(Serialize)]
struct UnfitLicenseOutput {
    license: LicenseId,
    reason: &'static str,
}

/// Repairs, and prints what was appended and what was not.
pub(super) fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let address = config.paths.database.as_ref().ok_or_else(|| {
        Failure::input("this store is a folder, and nothing but its own server knows what it has")
            .hint("restore a newer ledger.jsonl from the backup")
    })?;
    let node = &config.paths.store;
    let own = countersign_ledger::kept_files(node).map_err(|error| {
        let error = format!("{}: {error}", node.display());
        Failure::environment(error)
    })?;
    let files = [&own[..], &args.files[..]].concat();
    if files.is_empty() {
        let error = format!("{}: no node has kept a file here", node.display());
        return Err(
            Failure::input(error).hint("run this in the folder of a node that says lines_lost, or name its file")
        );
    }
    let registry = Registry::load_licenses(&config.paths.registry)?;
    let known = |id: &LicenseId| registry.license(id).cloned();
    let staging = license_defaults(config).staging;
    let repaired =
        countersign_ledger::repair_shared(address, &files, &known, &staging, args.dry_run).map_err(store_failure)?;
    if !args.dry_run {
        set_aside(&own);
    }
    let shown = shown(&files, &repaired, args.dry_run);
    let text = if args.json { output::json(&shown)? } else { text(&shown) };
    match args.dry_run {
        true => output::print(&text),
        false => output::print_change(&text),
    }
}

/// The nodes need them no more. One that stays is taken again at the next repair, which finds nothing new in it.
fn set_aside(own: &[PathBuf]) {
    for path in own {
        if let Err(error) = countersign_ledger::set_kept_file_aside(path) {
            stderr::line(format_args!(
                "note: {} is repaired, but cannot be renamed: {error}",
                path.display()
            ));
        }
    }
}

fn store_failure(error: StoreError) -> Failure {
    let hint = match &error {
        StoreError::Shared { message, .. } if message.contains("does not own") => {
            "give the address with the role that made the tables: --store postgres://owner@db1/countersign"
        }
        _ => return failure(error),
    };
    Failure::of_store(error).hint(hint)
}

fn shown<'a>(files: &[PathBuf], repaired: &'a RepairOutcome, dry_run: bool) -> RepairOutput<'a> {
    let unfit = repaired.unfit.iter().map(|unfit| UnfitOutput {
        license: unfit.license,
        host: &unfit.host,
        bound_at: unfit.bound_at,
        reason: match unfit.taken_by {
            Some(_) => "no_seat",
            None => "unknown_license",
        },
        bound_to: unfit.taken_by.as_ref(),
    });
    let licenses = repaired.unfit_licenses.iter().map(|(license, why)| UnfitLicenseOutput {
        license: *license,
        reason: reason(*why),
    });
    RepairOutput {
        files: files.iter().map(|path| output::path_text(path)).collect(),
        bindings: repaired.bound,
        licenses: repaired.licenses,
        tokens: repaired.tokens,
        freed: repaired.freed,
        sales: repaired.sales,
        released: repaired.released,
        unfit: unfit.collect(),
        unfit_licenses: licenses.collect(),
        unfit_tokens: &repaired.unfit_tokens,
        sequence: repaired.sequence,
        nodes_reload: repaired.nodes_reload && !dry_run,
        dry_run,
    }
}

fn reason(why: ChangeRefusal) -> &'static str {
    match why {
        ChangeRefusal::Revised { .. } => "changed_since",
        ChangeRefusal::TooLong => "too_long",
        ChangeRefusal::OtherRequest
        | ChangeRefusal::Exists
        | ChangeRefusal::Unknown
        | ChangeRefusal::Step(_)
        | ChangeRefusal::Revoked => "other_license",
    }
}

fn text(shown: &RepairOutput<'_>) -> String {
    let mut text = String::new();
    if !shown.unfit.is_empty() {
        let mut table = Table::new(["LICENSE", "HOST", "BOUND", "WHY IT DOES NOT FIT"]);
        for unfit in &shown.unfit {
            let why = match unfit.bound_to {
                Some(host) => format!("no site is free; bound to {host}"),
                None => "no such license is in the registry or the ledger".to_owned(),
            };
            let bound = unfit.bound_at.format("%Y-%m-%dT%H:%M:%SZ");
            table.row([&unfit.license.log_tag(), unfit.host, &bound, &why]);
        }
        text += &table.to_string();
    }
    for unfit in &shown.unfit_licenses {
        let why = match unfit.reason {
            "changed_since" => "was changed since",
            "too_long" => "does not fit a line of the ledger",
            _ => "is another license now",
        };
        text += &format!("license {} {why}, and stays as it is\n", unfit.license.log_tag());
    }
    for name in shown.unfit_tokens {
        text += &format!("token {name} is another token now, and stays as it is\n");
    }
    let appended = match shown.licenses {
        0 => counted_bindings(shown.bindings),
        licenses => format!(
            "{} and {}",
            counted_bindings(shown.bindings),
            counted(usize::try_from(licenses).unwrap_or(usize::MAX), "license")
        ),
    };
    text += &match shown.dry_run {
        true => format!(
            "{appended} would be appended to the ledger, which ends with line {}\n",
            shown.sequence
        ),
        false => format!("{appended} appended; the ledger ends with line {}\n", shown.sequence),
    };
    if shown.tokens > 0 {
        let count = counted(usize::try_from(shown.tokens).unwrap_or(usize::MAX), "token");
        text += &format!("{count} of the management API made or revoked again\n");
    }
    if shown.freed > 0 {
        let count = counted(usize::try_from(shown.freed).unwrap_or(usize::MAX), "seat");
        text += &format!("{count} that sites had given back freed again\n");
    }
    if shown.sales > 0 {
        let count = counted(usize::try_from(shown.sales).unwrap_or(usize::MAX), "sale");
        text += &format!("{count} of shops known again\n");
    }
    if shown.released > 0 {
        text += &format!(
            "{} released since, and stay released\n",
            counted_bindings(shown.released)
        );
    }
    if shown.nodes_reload {
        text += "The nodes read the whole ledger again, and bind sites again.\n";
    }
    text
}
