//! `countersign sign`: a person looks at a release, makes it again, and signs it with an SSH key that is on no server.
//!
//! [`build::rebuild`](crate::build::rebuild) makes the package from the tag, `changes` shows what is new in it,
//! `ssh_keygen` signs, and `statement_files` adds the signature to the registry. `build` publishes what enough people signed.

mod changes;
mod package_file;
mod ssh_keygen;
mod statement;
mod statement_files;

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use clap_complete::engine::ArgValueCompleter;
use serde::Serialize;

use crate::build::rebuild::RebuildError;
use crate::build::{Credentials, Mirrors};
use crate::commands::sign::changes::{LastSigned, PackageChanges};
use crate::commands::sign::package_file::Remade;
use crate::commands::sign::ssh_keygen::WorkFolder;
use crate::commands::sign::statement::{Decided, decide};
use crate::commands::sign::statement_files::StatementFiles;
use crate::commands::{Exit, Failure, candidates, output};
use crate::config::Config;
use crate::model::plugin::{Plugin, SigningSettings};
use crate::model::slug::Slug;
use crate::model::version::Version;
use crate::package::archive::Archive;
use crate::registry::plugins::{self, PluginEntry};
use crate::registry::release_chain;
use crate::registry::{RegistryError, RegistryFiles};
use crate::release::signatures::Signatures;
use crate::release::statement::ReleaseStatement;
use crate::text::printable::Printable;

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

Makes the package again from its tag, shows what it changes since the last signed release, and calls
ssh-keygen, which asks for the passphrase or the touch. Commit what it writes under registry/signatures/.
After a merge conflict there, run it again.
Exit codes: 0 signed, 2 usage, 3 an entry, a tag, a package or a key is wrong, 4 the system or ssh-keygen failed.")]
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
    /// Write a new statement where the signed one is about another package
    #[arg(long)]
    replace: bool,
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

/// What was shown and done.
#[derive(Debug, Serialize)]
struct Document<'a> {
    statement: &'a ReleaseStatement,
    file: String,
    is_new: bool,
    changes: PackageChanges,
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
    /// The comment or the line of each key that signed.
    signed_by: Vec<String>,
    threshold: usize,
    dry_run: bool,
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
    // What is wrong with the release's own files, signing it again mends.
    let is_own = |file: &std::path::Path| file == place.statement() || file == place.signatures();
    let is_misfit = diagnostics.iter().any(|told| told.file == place.statement());
    diagnostics.retain(|told| !is_own(&told.file));
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
    let mut document = Document {
        statement: &decided.statement,
        file: output::path_text(place.statement()),
        is_new: decided.is_new,
        changes: PackageChanges::between(last.as_ref(), &archive),
        diff,
        signed_by: Vec::new(),
        threshold: signing.threshold,
        dry_run: args.dry_run,
    };
    if !args.json {
        output::print(&shown(&document))?;
    }
    let signatures = match args.dry_run {
        true => place.good(&decided.bytes),
        false => sign(args, &place, &decided, signing, &work)?,
    };
    let signers = signatures.signers(&decided.bytes, &signing.keys);
    let signers = signing.keys.iter().filter(|key| signers.contains(key));
    document.signed_by = signers
        .map(|key| match key.comment() {
            "" => key.to_string(),
            comment => comment.to_owned(),
        })
        .collect();
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
    args: &Args,
    place: &StatementFiles,
    decided: &Decided,
    signing: &SigningSettings,
    work: &WorkFolder,
) -> Result<Signatures, Failure> {
    let key = ssh_keygen::find_key(args.key.as_deref(), &signing.keys, work)?;
    let good = place.good(&decided.bytes);
    let is_signed = |key| good.by(key).is_some();
    let signature = match &key.key {
        // Written again all the same: that resolves a conflict.
        Some(key) if is_signed(key) => good.by(key).cloned(),
        _ => None,
    };
    let signature = match signature {
        Some(signature) => signature,
        None => ssh_keygen::sign(&decided.bytes, &key, &signing.keys, work)?,
    };
    let added = place.add(
        &decided.bytes,
        signature,
        decided.replaced.as_ref(),
        decided.seen.as_deref(),
    );
    Ok(added?)
}

/// What the signer looks at before the key is asked for.
fn shown(document: &Document) -> String {
    let ReleaseStatement {
        slug,
        version,
        number,
        tag,
        commit,
        contents,
        package,
        ..
    } = document.statement;
    let is_new = if document.is_new { ", a new statement" } else { "" };
    format!(
        "release    {slug} {version}, number {number}{is_new}\ntag        {}, commit {commit}\npackage    {} bytes, sha256 {}\ncontents   {contents}\n{}{}",
        Printable(tag),
        package.size,
        package.sha256,
        document.changes.text(),
        document.diff.as_deref().unwrap_or_default(),
    )
}

/// What was done, and what is missing.
fn done(document: &Document, place: &StatementFiles) -> String {
    let Document {
        signed_by,
        threshold,
        dry_run,
        ..
    } = document;
    let names = match &signed_by[..] {
        [] => "nobody".to_owned(),
        names => Printable(names.join(", ")).to_string(),
    };
    let count = signed_by.len();
    let state = format!("signed by  {names}: {count} of {threshold} signatures\n");
    match dry_run {
        true => format!("{state}nothing was written: --dry-run\n"),
        false => format!(
            "{state}{}: commit it with the statement beside it\n",
            Printable(place.signatures().display())
        ),
    }
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
