//! `countersign license`: the vendor's decisions about licenses, from issuing to revoking.
//!
//! A license is in the ledger, and so is every change. `order` sends changes to the running server; without one, the command
//! makes them itself. Only a person changes a license that a file of the registry declares.

mod arguments;
mod assign;
mod change;
mod forget;
pub(super) mod history;
mod import;
mod issue;
mod list;
mod list_table;
pub(super) mod order;
mod rekey;
pub(in crate::commands) mod selector;
mod show;
pub(super) mod view;
mod vouch;

use std::collections::HashMap;

use chrono::{NaiveDate, Utc};
use serde::Serialize;

use countersign_ledger::StoreError;
use countersign_model::binding::{Binding, SiteReport};
use countersign_model::issued_license::Hex128;
use countersign_model::license::{License, Modules, module_list};
use countersign_model::license_key::LicenseId;
use countersign_model::text::printable::Printable;
use countersign_model::text::{ErrorChain, stderr};
use countersign_settings::config::Config;

use crate::commands::store::{self, store_source};
use crate::commands::{Exit, Failure, output, server_questions};
use change::ChangeVerb;

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

/// A verb and its arguments.
#[derive(clap::Subcommand, Debug)]
enum Verb {
    /// Issue a license and print its key
    #[command(after_help = "Examples:
  countersign license issue --module forms=pdf,api --module base --expires 2027-12-31
  countersign license issue --module base --expires +1y --sites unlimited --note 'Order 1234'
  countersign license issue --module base --expires +1y --request order-1234
  echo anna@example.com | countersign license issue --module base --expires +1y --customer -
  countersign license issue --module base --expires +1y --declare >>registry/licenses/licenses.toml

The license is in the ledger, and the key goes to stdout. The key is stored nowhere: the server derives \
it. The same command with the same --request prints the same key and issues nothing. With --declare \
nothing is issued: stdout gets a table to paste into a file of the registry, and stderr its key.")]
    Issue(issue::Args),
    /// Import licenses from another system, with their keys and sites
    #[command(after_help = "Examples:
  countersign license import edd-export-licenses.csv --from edd --dry-run
  countersign license import edd-export-licenses.csv --from edd --rejects rejects.csv
  countersign license import - --from csv --delimiter ';' --column expires=Until <licenses.csv
  countersign license import license-keys.json --from lemon-squeezy --map '12=forms=pdf' --dry-run
  countersign license import registry/licenses/licenses.toml --from registry
  countersign license import 3f9a0c21d4e5 --from registry

The old keys work if [serve] has foreign_keys = true. Only their SHA-256 is stored. \
A dry run shows the first ten licenses as they would be. Another import of the same file changes nothing. A row that cannot be taken is reported with its line; \
then the exit code is 3.")]
    Import(import::Args),
    /// List licenses
    #[command(after_help = "Examples:
  countersign license list --status active --module forms
  countersign license list --plugin acme-forms --expires-within 30d --json
  countersign license list --host shop.example.com
  countersign license list --customer anna@example.com
  countersign license list --find anna")]
    List(list::Args),
    /// Show one license and the sites that use it
    #[command(after_help = "Examples:
  countersign license show 3f9a0c21d4e5
  countersign license show - --json <key.txt")]
    Show(show::Args),
    /// Change the last day of a license
    #[command(after_help = "Examples:
  countersign license renew 3f9a0c21d4e5 --expires 2028-12-31
  countersign license renew 3f9a0c21d4e5 --expires +1y

A period such as +1y counts from the last day, or from today if that is past.")]
    Renew(change::RenewArgs),
    /// Suspend a license until you resume it
    #[command(after_help = "Example:
  countersign license suspend 3f9a0c21d4e5")]
    Suspend(change::OneArgs),
    /// Resume a suspended license
    #[command(after_help = "Example:
  countersign license resume 3f9a0c21d4e5")]
    Resume(change::OneArgs),
    /// Revoke a license for good
    #[command(after_help = "Example:
  countersign license revoke 3f9a0c21d4e5")]
    Revoke(change::OneArgs),
    /// Release a site from its license, so that another site can use it
    #[command(after_help = "Examples:
  countersign license release 3f9a0c21d4e5
  countersign license release 3f9a0c21d4e5 --host old.example.com")]
    Release(change::SiteReleaseArgs),
    /// Move a license from one site to another
    #[command(after_help = "Example:
  countersign license move 3f9a0c21d4e5 --from old.example.com --to new.example.com

The new site has the seat at once, before its first validation.")]
    Move(change::MoveArgs),
    /// Set how many sites may use a license at once, how many staging copies need no seat, and how often it may move
    #[command(after_help = "Examples:
  countersign license sites 3f9a0c21d4e5 5
  countersign license sites 3f9a0c21d4e5 unlimited
  countersign license sites 3f9a0c21d4e5 --staging-sites 2 --site-moves 10
  countersign license sites 3f9a0c21d4e5 --site-moves default

A limit that is not named stays. 'default' removes the license's own limit: then the server's \
setting counts. Bound sites stay bound, even if a new limit allows fewer.")]
    Sites(change::SitesArgs),
    /// Set which channels' pre-releases the sites of a license may have, and whether they show nothing of you
    #[command(after_help = "Examples:
  countersign license rights 3f9a0c21d4e5 --channel beta
  countersign license rights 3f9a0c21d4e5 --channel rc --channel beta
  countersign license rights 3f9a0c21d4e5 --no-channels
  countersign license rights 3f9a0c21d4e5 --white-label yes

A license needs a channel of its own only where the plugin's entry says so: `[channels] beta = \"listed\"`. Who may have betas \
may have release candidates, too.")]
    Rights(change::RightsArgs),
    /// Say whose a license is, and who gets the mails about it
    #[command(after_help = "Examples:
  countersign license assign 3f9a0c21d4e5 --customer anna@example.com
  countersign license assign 3f9a0c21d4e5 --reminders-to office@agency.example --language de
  countersign license assign 3f9a0c21d4e5 --reminders-to customer
  countersign license assign 3f9a0c21d4e5 --customer new@example.com --same-customer
  echo anna@example.com | countersign license assign 3f9a0c21d4e5 --customer -

The ledger gets a random number of the customer. The address is kept beside the ledger and can be erased: \
`countersign customer forget`. The same address is the same customer.")]
    Assign(assign::Args),
    /// Give a license a new key, and revoke the old one
    #[command(after_help = "Example:
  countersign license rekey 3f9a0c21d4e5

The new license grants the same and names the one it replaces. Its sites bind again with the new \
key. The key goes to stdout and is not stored.")]
    Rekey(rekey::RekeyArgs),
    /// Give a license a token for Composer, so that its key stays out of CI, or revoke the token
    #[command(after_help = "Examples:
  countersign license composer-token 3f9a0c21d4e5
  countersign license composer-token 3f9a0c21d4e5 --revoke

The token goes to stdout and is not shown again. A license has one that works: another token takes \
its place.")]
    ComposerToken(rekey::ComposerArgs),
    /// Mail the key of a license, or the page with its download
    #[command(after_help = "Examples:
  countersign license resend 3f9a0c21d4e5 --to anna@example.com
  countersign license resend 3f9a0c21d4e5 --to anna@example.com --download

The mail waits in the queue of this node until the mail server takes it. Only that queue has the \
address. The key of a license that a file declares is known to its customer only.")]
    Resend(rekey::ResendArgs),
    /// Say that a license which looks shared is fine until a day
    #[command(after_help = "Examples:
  countersign license vouch 3f9a0c21d4e5 --reason 'an agency with many staging sites'
  countersign license vouch 3f9a0c21d4e5 --until 2027-03-31
  countersign license vouch 3f9a0c21d4e5 --until +2y --json

Until then `countersign review`, the management API and the desk do not list it, and no webhook \
suspects that its key leaked. The license works as before. Its successor, after a new key, is looked at \
again.")]
    Vouch(vouch::VouchArgs),
    /// Take back that a license is fine
    #[command(after_help = "Example:
  countersign license unvouch 3f9a0c21d4e5")]
    Unvouch(vouch::UnvouchArgs),
    /// Erase a shop's order, the notes and reasons of a license, or a person's name. Licenses stay
    #[command(after_help = "Examples:
  countersign license forget --reference order-1234
  countersign license forget 3f9a0c21d4e5
  countersign license forget --person 'root, claimed anna'

The server keeps these texts beside the ledger, because they may name a person. No later \
delivery, retry or import brings an erased text back. Who knows the order still finds its licenses:
the ledger has an HMAC of it. Backups and deliveries that are parked keep what they have; \
docs/management-api.md says where else it may be.")]
    Forget(forget::Args),
    /// Show what happened to a license, who did it, and why
    #[command(after_help = "Examples:
  countersign license history 3f9a0c21d4e5
  countersign license history 3f9a0c21d4e5 --limit 5 --json

The newest event comes first. The licenses that it replaced are there, too. A compaction of the \
ledger keeps changes of licenses for 400 days, and the sites that are bound.")]
    History(history::Args),
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
    let licenses = store::licenses(config)?.into_iter().map(|issued| issued.license);
    let of_customer = licenses.filter(|license| license.details.remarks().holder == Some(number));
    let shown = |license: License| LicenseOf {
        id: license.id,
        standing: license.state(today).word(),
        expires: license.expires,
        words: module_list(&license.modules),
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
