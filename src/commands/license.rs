//! `countersign license`: what the vendor decides about licenses, from issuing one to revoking it.
//!
//! Every verb that changes something edits one file of the registry; the running server notices. Bindings are shown, never
//! touched.

mod change;
mod issue;
mod list;
mod release;
mod selector;
mod show;
mod view;

use chrono::{DateTime, NaiveDate, Utc};

use crate::config::Config;
use crate::model::binding::{Binding, Report};
use crate::model::license_key::LicenseId;
use crate::registry::edit::EditError;
use crate::store::{self, StoreError, inspect};

use super::{Exit, Failure, output};
use selector::LicenseArg;

/// Reads the stored bindings of a license, in the order of binding, with what their sites reported.
pub type ReadBindings<'a> = &'a dyn Fn(&LicenseId) -> Result<Vec<(Binding, Report)>, StoreError>;

/// Issue licenses and change them
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  countersign license issue --module forms=pdf,api --module base --expires 2027-12-31
  countersign license list --status active --expires-before 2027-01-31
  countersign license show 3f9a0c21d4e5
  echo \"$KEY\" | countersign license renew - --expires 2028-12-31
  countersign license release 3f9a0c21d4e5 --host old.example.com

A license is named by its key, its id, or 8 or more of its id's first digits.
With '-' the key is read from stdin and stays out of the shell's history.")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand, Debug)]
enum Verb {
    /// Make a license and show its key, once
    #[command(after_help = "Examples:
  countersign license issue --module forms=pdf,api --module base --expires 2027-12-31
  countersign license issue --module base --expires 2027-12-31 --sites unlimited --note 'Acme, order 1234'

The key goes to stdout and is stored nowhere: the registry holds its id only.")]
    Issue(issue::Args),
    /// Show all licenses, or some
    #[command(after_help = "Examples:
  countersign license list --status active --module forms
  countersign license list --expires-before 2027-01-31 --json")]
    List(list::Args),
    /// Show one license and the sites that use it
    #[command(after_help = "Examples:
  countersign license show 3f9a0c21d4e5
  countersign license show - --json <key.txt")]
    Show(show::Args),
    /// Set another last day
    #[command(after_help = "Example:
  countersign license renew 3f9a0c21d4e5 --expires 2028-12-31")]
    Renew(change::RenewArgs),
    /// Withdraw a license until it is resumed
    #[command(after_help = "Example:
  countersign license suspend 3f9a0c21d4e5")]
    Suspend(LicenseArg),
    /// Put a suspended license back in use
    #[command(after_help = "Example:
  countersign license resume 3f9a0c21d4e5")]
    Resume(LicenseArg),
    /// Withdraw a license for good
    #[command(after_help = "Example:
  countersign license revoke 3f9a0c21d4e5")]
    Revoke(LicenseArg),
    /// Free a license's site, so that another one can use it
    #[command(after_help = "Examples:
  countersign license release 3f9a0c21d4e5
  countersign license release 3f9a0c21d4e5 --host old.example.com")]
    Release(release::Args),
}

/// Does what was asked for.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let now = Utc::now();
    let registry = &config.paths.registry;
    let text = match &args.verb {
        Verb::Issue(args) => return issue::run(args, registry, now),
        Verb::List(args) => list::list(args, registry, now.date_naive()),
        Verb::Show(args) => show::show(args, config, &|id| stored(config, id), now),
        Verb::Renew(args) => change::renew(args, registry, now.date_naive()),
        Verb::Suspend(license) => change::suspend(license, registry),
        Verb::Resume(license) => change::resume(license, registry),
        Verb::Revoke(license) => change::revoke(license, registry),
        Verb::Release(args) => {
            release::release(args, registry, |license| inspect::bindings_of(&config.paths.store, license), now)
        }
    }?;
    output::print(&text)
}

fn stored(config: &Config, id: &LicenseId) -> Result<Vec<(Binding, Report)>, StoreError> {
    let store = store::read_only(&config.paths.store)?;
    if store.is_in_use() {
        eprintln!("note: a server is running; what the sites reported is shown when it is stopped");
    }
    store.of(id)
}

fn not_edited(error: EditError) -> Failure {
    match error {
        EditError::Registry(error) => error.into(),
        EditError::WouldNotLoad(_) => Failure::input(error),
        EditError::Layout { .. } => Failure::input(error).hint("make the change by hand; the server notices"),
        EditError::Changed { .. } => Failure::environment(error).hint("run the command again"),
        EditError::Io { .. } => Failure::environment(error),
    }
}

/// Reads a day.
fn parse_day(text: &str) -> Result<NaiveDate, &'static str> {
    text.parse().map_err(|_| "expected a date such as 2027-12-31")
}

/// As times stand in the registry: RFC 3339, UTC, to the second.
fn shown_time(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(chrono::SecondsFormat::Secs, true)
}

#[cfg(test)]
mod testing;
