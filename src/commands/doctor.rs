//! `countersign doctor`: checks an instance as the server and its clients will see it, and reports what is wrong.
//!
//! Each check returns findings and changes nothing. `server` asks the running server; `registry`, `keys` and
//! `space` check what their names say. The findings go to stdout.

mod account;
mod database;
mod finding;
mod keys;
mod ledger;
mod licenses;
mod mail;
mod nodes;
mod registry;
mod releases;
mod server;
mod shops;
mod space;
mod webhooks;

use std::path::Path;
use std::time::SystemTime;

use chrono::Utc;

use crate::commands::output::{self, Table};
use crate::commands::{Exit, Failure};
use crate::serve::net::descriptors::Descriptors;
use crate::serve::net::tls::Certificate;
use crate::serve::public_files::folder::{self, Searched};
use countersign_registry::Registry;
use countersign_settings::config::{Config, KeySettings, Paths, ServeConfig, StoreSettings};

use finding::{Finding, Severity, broken, ok, warning};

/// Tools have renewed a certificate this many days before its end.
const RENEWED_BY_NOW: i64 = 14;

/// Check an instance and report what is wrong
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  countersign doctor                            check the instance in this folder
  countersign -C /srv/acme doctor --json

`doctor` checks the files, and asks a running server how it is. A server that is not ready counts \
as broken. If files are broken, a running server keeps their last good version, but a restart fails.
Exit codes: 0 nothing is broken, 3 something is broken.")]
pub struct Args {
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    settings: KeySettings,
    #[command(flatten)]
    store: StoreSettings,
}

/// Makes every check and prints the findings.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let paths = &config.paths;
    let registry = Registry::load(&paths.registry);
    let (of_ledger, issued) = ledger::finding(paths);
    let mut findings = registry::findings(&registry, &issued, paths);
    findings.extend(releases::findings(config, registry.as_ref().ok()));
    let days = config.keys.with(&args.settings).keep_retired_days;
    let hosts_packages = registry.as_ref().is_ok_and(Registry::hosts_packages);
    findings.extend(keys::findings(paths, days, SystemTime::now(), hosts_packages));
    findings.extend(hosts_packages.then(|| releases::links(&config.serve)));
    findings.extend(certificate(&config.serve));
    findings.push(descriptors(&config.serve));
    findings.push(public(paths, config.serve.tls_key.as_deref()));
    let assumed = config.store.with(&args.store).is_synchronous_assumed();
    let mut last_line = None;
    if let Some(address) = &paths.database {
        let of_database = database::findings(address, assumed);
        findings.extend(of_database.findings);
        findings.extend(database::kept(&paths.store));
        last_line = of_database.last_line;
    }
    findings.push(of_ledger);
    if let Ok(registry) = &registry {
        findings.extend(licenses::findings(registry, &issued, config.serve.foreign_keys));
        findings.extend(registry::offer_findings(registry, config));
    }
    findings.extend(account::findings(config));
    findings.extend(mail::findings(config));
    findings.extend(shops::findings(registry.as_ref().ok().map(Registry::offers), config));
    findings.extend(webhooks::findings(config));
    findings.extend(registry.iter().flat_map(registry::repository_findings));
    findings.extend(space::findings(paths));
    findings.extend(server::findings(config, last_line));

    output::print(&if args.json {
        output::json(&findings)?
    } else {
        table(&findings)
    })?;
    let healthy = findings.iter().all(|finding| finding.verdict != Severity::Broken);
    Ok(if healthy { Exit::Done } else { Exit::Input })
}

fn table(findings: &[Finding]) -> String {
    let mut table = Table::new(["", "PART", "FINDING"]);
    for Finding {
        verdict,
        part,
        finding,
        hint,
    } in findings
    {
        let verdict = match verdict {
            Severity::Ok => "ok",
            Severity::Warning => "warning",
            Severity::Broken => "BROKEN",
        };
        table.row([&verdict, part, finding]);
        if let Some(hint) = hint {
            table.row([&"", &"", &format!("hint: {hint}")]);
        }
    }
    table.to_string()
}

/// The certificate in the configuration file; `doctor` does not see the server's flags.
fn certificate(serve: &ServeConfig) -> Option<Finding> {
    let files = match serve.tls() {
        Ok(files) => files?,
        Err(error) => return Some(broken("tls", error.to_string(), None)),
    };
    Some(match Certificate::load(&files) {
        Ok(certificate) => {
            let days = (certificate.expires() - Utc::now()).num_days();
            let finding = format!("the certificate ends on {}", certificate.expires().date_naive());
            if days < RENEWED_BY_NOW {
                warning("tls", finding, "renew it; the running server notices")
            } else {
                ok("tls", finding)
            }
        }
        Err(error) => {
            let hint = error.hint();
            broken("tls", error.to_string(), Some(hint))
        }
    })
}

/// How many connections a server started here could hold.
fn descriptors(serve: &ServeConfig) -> Finding {
    let found = Descriptors::expected(serve.max_connections.get());
    let limit = found.limit.map_or("any number of".to_owned(), number);
    let finding = format!(
        "{limit} open files: {} connections at once",
        number(found.connections as u64)
    );
    if found.are_short() {
        let finding = format!("{finding}, and max_connections is {}", number(found.wanted as u64));
        warning("descriptors", finding, Descriptors::HINT)
    } else {
        ok("descriptors", finding)
    }
}

/// A number with separators: 1,024.
fn number(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .filter_map(|group| str::from_utf8(group).ok())
        .collect();
    groups.join(",")
}

// SECURITY: anyone can read the files in this folder.
fn public(paths: &Paths, tls_key: Option<&Path>) -> Finding {
    match folder::check(paths, tls_key) {
        Ok(Searched::All) => ok("public", "no private key and no part of the instance in it"),
        Ok(Searched::Some) => warning(
            "public",
            "it holds so much that not all of it was searched for private keys",
            "keep it small; the server looks at each file before it serves it",
        ),
        Err(error) => broken("public", error.to_string(), Some(error.hint().to_owned())),
    }
}
