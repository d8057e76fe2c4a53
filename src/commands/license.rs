//! `countersign license`: the vendor's decisions about licenses, from issuing to revoking.
//!
//! A license is in the ledger, and so is every change. `order` sends changes to the running server; without one, the command
//! makes them itself. Only a person changes a license that a file of the registry declares.

mod arguments;
mod assign;
mod change;
mod expires;
mod forget;
pub(super) mod history;
mod import;
mod issue;
pub(in crate::commands) mod issued;
mod list;
mod list_table;
pub(super) mod order;
mod rekey;
mod rights_flags;
pub(in crate::commands) mod selector;
mod show;
pub(super) mod texts;
mod verb;
pub(super) mod view;
mod vouch;

use std::collections::HashMap;

use chrono::{NaiveDate, Utc};
use serde::Serialize;

use countersign_ledger::StoreError;
use countersign_model::binding::{Binding, SiteReport};
use countersign_model::issued_license::Hex128;
use countersign_model::license::{License, Modules};
use countersign_model::license_key::LicenseId;
use countersign_model::text::error_chain::ErrorChain;
use countersign_model::text::printable::Printable;
use countersign_model::text::stderr;
use countersign_settings::config::Config;

use crate::commands::store_source::store_source;
use crate::commands::{Exit, Failure, output, server_questions};
use change::ChangeVerb;
use verb::Verb;

/// Issue, list and change licenses
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  countersign license issue --module forms=pdf,api --module base --expires 2027-12-31
  countersign license list --status active --expires-before 2027-01-31
  countersign license show 3f9a0c21d4e5
  echo \"$KEY\" | countersign license renew - --expires 2028-12-31
  countersign license release 3f9a0c21d4e5 --host old.example.com

A license is in the ledger. The running server changes it there, or this command if no server runs. \
A license may also be declared in a file of the registry, for vendors who keep licenses in git: only \
people write those files, and the verbs print what to write. `license show` says where a license is. \
Which sites use it is in the ledger in any case.

Name a license by its key, its id, or the first 8 or more digits of its id. '-' reads the key from \
stdin, so that it stays out of the shell's history.")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

/// Runs the verb.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let now = Utc::now();
    let today = now.date_naive();
    let change = |verb| change::run(verb, config, now);
    match &args.verb {
        Verb::Issue(args) => issue::run(args, config, now),
        Verb::Import(args) => import::run(args, config, now),
        Verb::Assign(args) => assign::run(args, config, today),
        Verb::Rekey(args) => rekey::rekey(args, config),
        Verb::ComposerToken(args) => rekey::composer_token(args, config),
        Verb::Resend(args) => rekey::resend(args, config),
        Verb::Forget(args) => forget::run(args, config),
        Verb::History(args) => history::run(args, config),
        Verb::List(args) => list::run(args, config, today),
        Verb::Show(args) => output::print(&show::show(args, config, &|id| stored(config, id), now)?),
        Verb::Vouch(args) => vouch::vouch(args, config, today),
        Verb::Unvouch(args) => vouch::unvouch(args, config),
        Verb::Renew(args) => change(ChangeVerb::Renew(args)),
        Verb::Suspend(args) => change(ChangeVerb::Suspend(args)),
        Verb::Resume(args) => change(ChangeVerb::Resume(args)),
        Verb::Revoke(args) => change(ChangeVerb::Revoke(args)),
        Verb::Release(args) => change(ChangeVerb::Release(args)),
        Verb::Move(args) => change(ChangeVerb::Move(args)),
        Verb::Sites(args) => change(ChangeVerb::Sites(args)),
        Verb::Rights(args) => change(ChangeVerb::Rights(args)),
    }
}

/// A license of a customer.
#[derive(Debug, Serialize)]
pub(super) struct LicenseOf {
    pub id: LicenseId,
    pub standing: &'static str,
    pub expires: NaiveDate,
    pub modules: Modules,
    #[serde(skip)]
    words: String,
}

impl LicenseOf {
    /// Modules with their features, for people.
    pub(super) fn modules_text(&self) -> &str {
        &self.words
    }
}

/// The licenses of the customer with this number, sorted by id.
pub(super) fn of_customer(number: Hex128, config: &Config, today: NaiveDate) -> Result<Vec<LicenseOf>, Failure> {
    let licenses = issued::licenses(config)?.into_iter().map(|issued| issued.license);
    let of_customer = licenses.filter(|license| license.details.remarks().holder == Some(number));
    let shown = |license: License| LicenseOf {
        id: license.id,
        standing: view::state(&license, today),
        expires: license.expires,
        words: license.module_list(),
        modules: Modules::clone(&license.modules),
    };
    Ok(of_customer.map(shown).collect())
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
