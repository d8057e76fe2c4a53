//! `countersign license`: the vendor's decisions about licenses, from issuing to revoking.
//!
//! Every verb with a change edits one file of the registry; the running server notices. If no file has the license, `in_ledger`
//! changes that of the ledger. Bindings are in the ledger, whatever declares the license: `release` and `move` change them there.

mod arguments;
mod change;
mod change_options;
mod done;
mod expires;
mod forget;
mod import;
mod in_ledger;
mod issue;
mod issued;
mod ledger_key;
mod list;
mod list_table;
pub(super) mod orders;
mod rekey;
mod release;
mod seats;
mod selector;
mod show;
mod verb;
mod view;

use std::collections::HashMap;

use chrono::Utc;

use countersign_ledger::StoreError;
use countersign_model::binding::{Binding, SiteReport};
use countersign_model::license_key::LicenseId;
use countersign_model::text::error_chain::ErrorChain;
use countersign_model::text::printable::Printable;
use countersign_model::text::stderr;
use countersign_settings::config::Config;

use crate::commands::license_defaults::license_defaults;
use crate::commands::store_source::store_source;
use crate::commands::{Exit, Failure, output, server_questions};
use selector::UnknownLicense;
use verb::Verb;

/// Issue, list and change licenses
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  countersign license issue --module forms=pdf,api --module base --expires 2027-12-31
  countersign license list --status active --expires-before 2027-01-31
  countersign license show 3f9a0c21d4e5
  echo \"$KEY\" | countersign license renew - --expires 2028-12-31
  countersign license release 3f9a0c21d4e5 --host old.example.com

A license that you issue stands in a file of the registry, and the verbs edit that file. A license \
that a program issued, such as a shop, stands in the ledger: the running server changes it there, or \
this command if no server runs. `license show` says which it is. Which sites use a license stands in \
the ledger in any case: `release` and `move` work beside the server only.

Name a license by its key, its id, or the first 8 or more digits of its id. '-' reads the key from \
stdin, so that it stays out of the shell's history.")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

/// Runs the verb: on a license of a file, or if no file has it, on that of the ledger.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    match decide(args, config) {
        Err(failure) if failure.error.is::<UnknownLicense>() => {
            in_ledger::change(&args.verb, config, Utc::now())?.ok_or(failure)
        }
        decided => decided,
    }
}

fn decide(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let now = Utc::now();
    let registry = &config.paths.registry;
    let today = now.date_naive();
    let staging_sites = || license_defaults(config).staging_sites;
    let bindings = |license: &LicenseId| countersign_ledger::bindings_of(store_source(&config.paths), license);
    let (done, told) = match &args.verb {
        Verb::Issue(issue) => return issue::run(issue, config, now),
        Verb::Import(args) => return import::run(args, config, now),
        Verb::Rekey(args) => return rekey::run(args, config, today),
        Verb::Resend(args) => return ledger_key::resend(args, config),
        Verb::Forget(args) => return forget::run(args, config),
        Verb::List(args) => return list::run(args, config, today),
        Verb::Show(args) => {
            return output::print(&show::show(args, config, &|id| stored(config, id), now)?);
        }
        Verb::Renew(args) => (change::renew(args, registry, today), &args.told),
        Verb::Suspend(args) => (change::suspend(args, registry), &args.told),
        Verb::Resume(args) => (change::resume(args, registry), &args.told),
        Verb::Revoke(args) => (change::revoke(args, registry), &args.told),
        Verb::Release(_) | Verb::Move(_) => return in_ledger::change_bindings(&args.verb, config, now),
        Verb::Sites(args) => (seats::sites(args, registry, staging_sites(), &bindings), &args.told),
    };
    told.tell(&done?, config)
}

/// A license's bindings with what its sites reported.
fn stored(config: &Config, id: &LicenseId) -> Result<Vec<(Binding, SiteReport)>, StoreError> {
    let store = countersign_ledger::read_only(store_source(&config.paths))?;
    let mut stored = store.of(id)?;
    if store.is_in_use() {
        match server_questions::reports(config, Some(id)) {
            Ok(reports) => {
                let mut by_host: HashMap<_, _> = reports.into_iter().map(|(_, host, report)| (host, report)).collect();
                for (binding, report) in &mut stored {
                    *report = by_host.remove(&binding.host).unwrap_or_default();
                }
            }
            Err(error) => stderr::line(format_args!(
                "note: what its sites reported is not shown: {}",
                Printable(ErrorChain(&error).first_line())
            )),
        }
    }
    Ok(stored)
}

#[cfg(test)]
mod testing;
