//! `countersign sign`: a person looks at a release, makes it again, and signs it with an SSH key that is on no server.
//!
//! [`build::rebuild`](crate::build::rebuild) makes the package from the tag, `changes` shows what is new in it,
//! `ssh_keygen` signs, and `statement_files` adds the signature to the registry. `build` publishes what enough people signed.

mod changes;
mod child;
mod document;
mod package_file;
mod reach;
mod ssh_keygen;
mod statement;
mod statement_files;

use std::fs::File;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap_complete::engine::ArgValueCompleter;

use crate::build::rebuild::RebuildError;
use crate::build::{Credentials, Mirrors};
use crate::commands::sign::changes::{LastSigned, SignedChanges};
use crate::commands::sign::document::{Document, done, shown};
use crate::commands::sign::package_file::Remade;
use crate::commands::sign::reach::Reach;
use crate::commands::sign::ssh_keygen::{SigningError, SigningKeyFile, WorkFolder};
use crate::commands::sign::statement::{Decided, decide};
use crate::commands::sign::statement_files::StatementFiles;
use crate::commands::{Exit, Failure, candidates, output};
use countersign_model::plugin::{Plugin, SigningSettings};
use countersign_model::release_key::ReleaseKey;
use countersign_model::slug::Slug;
use countersign_model::version::Version;
use countersign_package::archive::Archive;
use countersign_package::release::contents;
use countersign_package::release::signatures::Signatures;
use countersign_package::release::sshsig::Sshsig;
use countersign_registry::left_behind::LeftBehind;
use countersign_registry::plugins::{self, PluginEntry};
use countersign_registry::release_chain;
use countersign_registry::{RegistryError, RegistryFiles};
use countersign_settings::config::{self, Config};

/// How long one repository may be fetched, and how large its mirror may be: as `build` has it.
const FETCH: Duration = Duration::from_secs(300);
const MIRROR: u64 = 4096 << 20;

/// Sign a release with an SSH key
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  countersign sign acme-forms 1.2.0 --dry-run --diff
  countersign sign acme-forms 1.2.0
  countersign sign acme-forms 1.2.0 --key ~/.ssh/id_ed25519_sk

Makes the package again from its tag, shows what it changes since the last signed release, and calls \
ssh-keygen, which asks for the passphrase or the touch. Commit what it writes under \
registry/signatures/. After a merge conflict there, run it again.
Exit codes: 0 signed, 2 usage, 3 an entry, a tag, a package or a key is wrong, 4 the system or \
ssh-keygen failed.")]
pub struct Args {
    /// The plugin
    #[arg(value_name = "SLUG", add = ArgValueCompleter::new(candidates::slugs))]
    slug: Slug,
    /// The release
    #[arg(value_name = "VERSION")]
    release: Version,
    /// Sign with this private key, or with the key of this .pub file in the agent [default: a key of the entry that is there]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// The package that is to be published: refused if the tag gives another one
    #[arg(long, value_name = "FILE")]
    package: Option<PathBuf>,
    /// Show the changed files line by line
    #[arg(long)]
    diff: bool,
    /// What sites run, as `bindings installed --json` printed it [default: what they reported to this instance's server]
    #[arg(long, value_name = "FILE")]
    installed: Option<PathBuf>,
    /// Write a new statement where the signed one is about another package
    #[arg(long)]
    replace: bool,
    /// Seconds that ssh-keygen may wait for the passphrase or the touch
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = config::parse::<NonZeroU32>)]
    timeout: NonZeroU32,
    /// Do not fetch; use the mirrors of remote repositories as they are
    #[arg(long)]
    offline: bool,
    /// Show all of it, and sign nothing
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Remakes, shows, signs and writes.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let Args { slug, release, .. } = args;
    let registry = &config.paths.registry;
    let files = RegistryFiles::folder(registry);
    let entry = entry(&files, slug)?;
    let (plugin, signing) = signing(&entry, slug)?;
    let place = StatementFiles::of(registry, slug, release);
    let (chain, mut diagnostics) = release_chain::load(&files, slug, &signing.keys)?;
    // Signing the release again repairs its own files.
    let is_own = |file: &std::path::Path| file == place.statement() || file == place.signatures();
    let is_misfit = diagnostics
        .iter()
        .any(|diagnostic| diagnostic.file == place.statement());
    diagnostics.retain(|diagnostic| !is_own(&diagnostic.file));
    if !diagnostics.is_empty() {
        return Err(RegistryError::Diagnostics(diagnostics).into());
    }

    let mirrors = Mirrors {
        cache: config.paths.cache.clone(),
        offline: args.offline,
        timeout: FETCH,
        limit: MIRROR,
        allowed: config.build.allowed_git_hosts.clone(),
        credentials: Credentials::from_environment().map_err(Failure::usage)?,
    };
    let work = WorkFolder::new(&config.paths.cache)?;
    let remade = Remade::of(
        &entry,
        plugin,
        release,
        args.package.as_deref(),
        &mirrors,
        config,
        &work,
    )?;
    let existing = chain.release(release).filter(|_| !is_misfit);
    let head = chain.head_without(release);
    let decided = decide(&remade, slug, release, signing, existing, head, args.replace)?;
    let last = LastSigned::find(&chain, release, &config.paths.releases, slug);
    let archive = archive(&remade)?;
    let diff = match args.diff {
        true => Some(changes::diff(last.as_ref(), &archive).map_err(Failure::input)?),
        false => None,
    };
    let reach = Reach {
        chain: &chain,
        settings: signing,
        decided: &decided,
        good: place.good(&decided.bytes),
    };
    let may_sign = reach.may_sign();
    let key = match args.dry_run {
        true => None,
        false => Some(ssh_keygen::find_key(
            args.key.as_deref(),
            &signing.keys,
            &may_sign,
            &work,
        )?),
    };
    let own = key.as_ref().and_then(|key| key.key.as_ref());
    let left_behind = reach.left_behind(own, args.installed.as_deref(), config)?;
    let absent = contents::absent_keys(&archive, &decided.statement.pins.keys).map_err(Failure::input)?;
    let absent_keys: Vec<_> = absent.iter().map(|key| known_as(key, signing)).collect();
    let mut document = Document {
        statement: &decided.statement,
        file: output::path_text(place.statement()),
        is_new: decided.is_new,
        changes: SignedChanges::between(last.as_ref(), &archive),
        diff,
        left_behind: left_behind.iter().map(LeftBehind::to_json).collect(),
        warnings: reach::text(&left_behind, &absent_keys),
        absent_keys,
        signed_by: Vec::new(),
        threshold: signing.threshold,
        dry_run: args.dry_run,
    };
    if !args.json {
        output::print(&shown(&document))?;
    }
    let signatures = match &key {
        None => reach.good,
        Some(key) => {
            let limit = Duration::from_secs(args.timeout.get().into());
            let new = || ssh_keygen::sign(&decided.bytes, key, &may_sign, &work, limit);
            sign(key, &place, &decided, new)?
        }
    };
    let signers = signatures.signers(&decided.bytes, &signing.keys);
    let signers = signing.keys.iter().filter(|key| signers.contains(key));
    document.signed_by = signers.map(ReleaseKey::known_as).collect();
    output::print(&if args.json {
        output::json(&document)?
    } else {
        done(&document, &place)
    })
}

/// The plugin's entry.
fn entry(files: &RegistryFiles, slug: &Slug) -> Result<PluginEntry, Failure> {
    let mut entries = plugins::load(files)?.into_iter();
    entries.find(|entry| entry.slug.as_ref() == Some(slug)).ok_or_else(|| {
        Failure::input(format!("no plugin \"{slug}\" in the registry"))
            .hint("name a file of registry/plugins/ without .toml")
    })
}

/// The plugin, and who may sign its releases.
fn signing<'a>(entry: &'a PluginEntry, slug: &Slug) -> Result<(&'a Plugin, &'a SigningSettings), Failure> {
    let plugin = entry.plugin.as_ref();
    let plugin = plugin.map_err(|reasons| Failure::from(RegistryError::Diagnostics(reasons.clone())))?;
    let signing = plugin.signing.as_ref().ok_or_else(|| {
        Failure::input(format!("{slug}: its entry has no [signing]"))
            .hint("add [signing] with `keys = [\"ssh-ed25519 AAAA… you\"]`: docs/signing.md")
    })?;
    Ok((plugin, signing))
}

fn archive(remade: &Remade) -> Result<Archive<&File>, Failure> {
    Archive::check(&remade.file).map_err(Failure::input)
}

/// Has `ssh-keygen` sign, unless the key has signed already.
fn sign(
    key: &SigningKeyFile,
    place: &StatementFiles,
    decided: &Decided,
    new: impl FnOnce() -> Result<Sshsig, SigningError>,
) -> Result<Signatures, Failure> {
    let good = place.good(&decided.bytes);
    let is_signed = |key| good.by(key).is_some();
    let signature = match &key.key {
        // Written again all the same: that resolves a conflict.
        Some(key) if is_signed(key) => good.by(key).cloned(),
        _ => None,
    };
    let signature = match signature {
        Some(signature) => signature,
        None => new()?,
    };
    let added = place.add(
        &decided.bytes,
        signature,
        decided.replaced.as_ref(),
        decided.seen.as_deref(),
    );
    Ok(added?)
}

/// By what the entry knows a key.
fn known_as(key: &ReleaseKey, signing: &SigningSettings) -> String {
    let known = signing.keys.iter().find(|known| *known == key);
    known.unwrap_or(key).known_as()
}

impl From<RebuildError> for Failure {
    fn from(error: RebuildError) -> Self {
        match error {
            RebuildError::AwaitsPackage { .. } => {
                Self::input(error).hint("hand it over: countersign package add, or name it with --package")
            }
            RebuildError::Write(_) => Self::environment(error),
            RebuildError::NoTag(_) => {
                Self::input(error).hint("`countersign build --check` tells what becomes of each tag")
            }
            _ => Self::input(error),
        }
    }
}
