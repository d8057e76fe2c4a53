//! `countersign license`: the vendor's decisions about licenses, from issuing to revoking.
//!
//! Every verb with a change edits one file of the registry; the running server notices. Bindings are only shown.

mod arguments;
mod change;
mod change_options;
mod checkout;
mod done;
mod expires;
mod git;
mod git_status;
mod issue;
mod list;
mod rekey;
mod release;
mod seats;
mod selector;
mod show;
mod view;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use chrono::Utc;
use clap::builder::BoolishValueParser;

use crate::config::Config;
use crate::model::binding::{Binding, SiteReport};
use crate::model::license_key::LicenseId;
use crate::registry::Registry;
use crate::store::{self, StoreError};
use crate::text::error_chain::ErrorChain;
use crate::text::printable::Printable;
use crate::text::stderr;

use crate::commands::store_source::store_source;
use crate::commands::{Exit, Failure, output, server_questions};
use checkout::Checkout;

/// Issue, list and change licenses
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  countersign license issue --module forms=pdf,api --module base --expires 2027-12-31
  countersign license list --status active --expires-before 2027-01-31
  countersign license show 3f9a0c21d4e5
  echo \"$KEY\" | countersign license renew - --expires 2028-12-31
  countersign license release 3f9a0c21d4e5 --host old.example.com

Name a license by its key, its id, or the first 8 or more digits of its id.
'-' reads the key from stdin, so it stays out of the shell's history.")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
    /// Commit the change in the registry's git checkout, which must be clean and up to date
    #[arg(long, env = "COUNTERSIGN_COMMIT", global = true, value_parser = BoolishValueParser::new())]
    commit: bool,
}

#[derive(clap::Subcommand, Debug)]
enum Verb {
    /// Issue a license and print its key
    #[command(after_help = "Examples:
  countersign license issue --module forms=pdf,api --module base --expires 2027-12-31
  countersign license issue --module base --expires +1y --sites unlimited --note 'Order 1234'

The key goes to stdout and is not stored: the registry has only its id.")]
    Issue(issue::Args),
    /// List licenses
    #[command(after_help = "Examples:
  countersign license list --status active --module forms
  countersign license list --plugin acme-forms --expires-within 30d --json
  countersign license list --host shop.example.com")]
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
    Release(release::Args),
    /// Move a license from one site to another
    #[command(after_help = "Example:
  countersign license move 3f9a0c21d4e5 --from old.example.com --to new.example.com

The new site counts as bound before its first validation. It counts towards the number of sites.")]
    Move(seats::MoveArgs),
    /// Set how many sites may use a license at once
    #[command(after_help = "Examples:
  countersign license sites 3f9a0c21d4e5 5
  countersign license sites 3f9a0c21d4e5 unlimited

Sites that are bound stay bound, even if they are more than N.")]
    Sites(seats::SitesArgs),
    /// Give a license a new key, and revoke the old one
    #[command(after_help = "Example:
  countersign license rekey 3f9a0c21d4e5

The new license grants the same and names the one it replaces. Its sites bind again with the new
key. The key goes to stdout and is not stored.")]
    Rekey(rekey::Args),
}

impl Verb {
    /// Its name, if it changes the registry.
    fn change(&self) -> Option<&'static str> {
        Some(match self {
            Self::List(_) | Self::Show(_) => return None,
            Self::Issue(_) => "issue",
            Self::Renew(_) => "renew",
            Self::Suspend(_) => "suspend",
            Self::Resume(_) => "resume",
            Self::Revoke(_) => "revoke",
            Self::Release(_) => "release",
            Self::Move(_) => "move",
            Self::Sites(_) => "sites",
            Self::Rekey(_) => "rekey",
        })
    }

    /// The license file that it will change. For a new file with its own name, a file beside it.
    fn file(&self, folder: &Path, registry: &Registry) -> Result<Option<PathBuf>, Failure> {
        let license = match self {
            Self::Issue(args) => return args.file_in(folder).map(Some),
            Self::List(_) | Self::Show(_) => return Ok(None),
            Self::Renew(args) => &args.license,
            Self::Suspend(args) | Self::Resume(args) | Self::Revoke(args) => &args.license,
            Self::Release(args) => &args.license,
            Self::Move(args) => &args.license,
            Self::Sites(args) => &args.license,
            Self::Rekey(args) => &args.license,
        };
        let place = registry.place(&license.find(registry)?.id);
        Ok(place.map(|(file, _)| file.to_owned()))
    }
}

/// Runs the verb.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let registry = &config.paths.registry;
    let Some(verb) = args.verb.change() else {
        return decide(args, config);
    };
    if !args.commit {
        let notes = match Checkout::look(registry) {
            Ok(checkout) => checkout.iter().flat_map(Checkout::notes).collect(),
            Err(reason) => vec![reason],
        };
        notes.iter().for_each(|note| stderr::line(format_args!("note: {note}")));
        return decide(args, config);
    }
    let committing = Checkout::committing(registry)?;
    if let Some(file) = args.verb.file(registry, committing.registry())? {
        committing.refuse_unseen(&file)?;
    }
    // Also if a command fails after its change, as when no server uses it in time.
    let ended = decide(args, config);
    let committed = committing.commit(verb);
    match (&committed, &ended) {
        (Ok(Some(told)), _) => stderr::line(told),
        // The command ends with one error.
        (Err(failure), Err(_)) => stderr::line(format_args!("warning: {}", Printable(&failure.error))),
        _ => {}
    }
    let exit = ended?;
    committed.map(|_| exit)
}

fn decide(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let now = Utc::now();
    let registry = &config.paths.registry;
    let today = now.date_naive();
    let bindings = |license: &LicenseId| store::bindings_of(store_source(&config.paths), license);
    let (done, told) = match &args.verb {
        Verb::Issue(issue) => return issue::run(issue, config, args.commit, now),
        Verb::Rekey(args) => return rekey::run(args, config, today),
        Verb::List(args) => return list::run(args, config, today),
        Verb::Show(args) => {
            return output::print(&show::show(args, config, &|id| stored(config, id), now)?);
        }
        Verb::Renew(args) => (change::renew(args, registry, today), &args.told),
        Verb::Suspend(args) => (change::suspend(args, registry), &args.told),
        Verb::Resume(args) => (change::resume(args, registry), &args.told),
        Verb::Revoke(args) => (change::revoke(args, registry), &args.told),
        Verb::Release(args) => (release::release(args, registry, bindings, now), &args.told),
        Verb::Move(args) => (seats::move_site(args, registry, &bindings, now), &args.told),
        Verb::Sites(args) => (seats::sites(args, registry, &bindings), &args.told),
    };
    told.tell(&done?, config)
}

/// A license's bindings with what its sites reported.
fn stored(config: &Config, id: &LicenseId) -> Result<Vec<(Binding, SiteReport)>, StoreError> {
    let path = &config.paths.store;
    let store = store::read_only(store_source(&config.paths))?;
    let mut stored = store.of(id)?;
    if store.is_in_use() {
        match server_questions::reports(path, Some(id)) {
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
