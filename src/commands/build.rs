//! `countersign build`: passes the options to [`build::run`], prints the report to stdout and progress to stderr.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::IsTerminal as _;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap_complete::engine::ArgValueCompleter;
use indicatif::{ProgressBar, ProgressStyle};

use crate::build::package_folder::PackageFolder;
use crate::build::{
    self, BuildError, BuildReport, Credentials, Mirrors, NoProgress, Options, PackingOptions, PluginReport,
    PluginState, Progress, SignedChains, counted,
};
use crate::commands::installed::InstalledSites;
use crate::commands::{Exit, Failure, candidates, output};
use countersign_files::time_limit;
use countersign_model::slug::Slug;
use countersign_model::text::{shell_quoted, stderr};
use countersign_model::version::Version;
use countersign_registry::plugins::PluginEntry;
use countersign_registry::{RegistryError, RegistryFiles, RevisionError, plugins, release_chain};
use countersign_settings::config::{self, BuildSettings, Config};

const EXAMPLES: &str = "\
Examples:
  countersign build                       build every plugin
  countersign build --plugin acme-forms   build one plugin and leave the others alone
  countersign build --check               for CI: write nothing; exit 1 if a build would change something
  countersign build --check --all         check, and read every tag again
  countersign build --check --deny-warnings
                                          for CI: exit 3 if a plugin's newest release has warnings
  countersign build --replace acme-forms/1.2.0
                                          publish this release although it differs from the published one
  countersign build --plugin acme-forms --accept-removed
                                          remove this plugin's releases whose tags are gone
  countersign build --installed installed.json
                                          say how many sites a release would leave behind: docs/signing.md
  countersign build --rev origin/main     use the registry of that commit
  countersign build --offline             use the remote repositories as last fetched

`build` fetches remote repositories with git, so git's credential helpers and the ssh agent work. \
Without them, set COUNTERSIGN_GIT_HOST and COUNTERSIGN_GIT_TOKEN. Some hosts also need a user name: \
COUNTERSIGN_GIT_USER.

Exit codes: 0 done, 1 --check found a difference, 2 usage, 3 an entry, repository or tag is wrong, \
4 the system failed.
An error in one plugin does not stop the others. What was published of it stays.";

/// Write the manifests and the packages from the plugins' repositories
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Build only this plugin; repeatable
    #[arg(long = "plugin", value_name = "SLUG", add = ArgValueCompleter::new(candidates::slugs))]
    pub plugins: Vec<Slug>,
    /// Publish nothing; exit 1 if a build would change something. Also checks the licenses
    #[arg(long)]
    pub check: bool,
    /// Read every tag again, even if it has not changed since it was published
    #[arg(long)]
    pub all: bool,
    /// Remove published releases that no entry withholds, such as those whose tag is gone, and plugins that are no longer in
    /// the registry. Without this, they stay and the exit code is 3. A security release goes only if its entry withholds it
    #[arg(long)]
    pub accept_removed: bool,
    /// Exit 3 if there are warnings. Publishes all the same
    #[arg(long)]
    pub deny_warnings: bool,
    /// Do not fetch; use the mirrors of remote repositories as they are
    #[arg(long)]
    pub offline: bool,
    /// Seconds to fetch one remote repository
    #[arg(long, env = "COUNTERSIGN_FETCH_TIMEOUT", value_name = "SECONDS", default_value = "300",
        value_parser = config::parse::<NonZeroU32>)]
    pub fetch_timeout: NonZeroU32,
    /// Seconds to read one plugin's repository
    #[arg(long, env = "COUNTERSIGN_READ_TIMEOUT", value_name = "SECONDS", default_value = "300",
        value_parser = config::parse::<NonZeroU32>)]
    pub read_timeout: NonZeroU32,
    /// Size limit of one remote repository's mirror, in MiB
    #[arg(long, env = "COUNTERSIGN_FETCH_LIMIT", value_name = "MIB", default_value = "4096",
        value_parser = config::parse::<NonZeroU32>)]
    pub fetch_limit: NonZeroU32,
    /// Publish this release even if it differs from the published one; repeatable
    #[arg(long, value_name = "SLUG/VERSION", value_parser = release_name)]
    pub replace: Vec<(Slug, Version)>,
    /// What sites run, as `bindings installed --json` printed it [default: what they reported to this instance's server]
    #[arg(long, value_name = "FILE")]
    pub installed: Option<PathBuf>,
    /// Table `[build]` of the configuration.
    #[command(flatten)]
    pub settings: BuildSettings,
    /// Read the registry from this commit of its own git repository
    #[arg(long, value_name = "REV")]
    pub rev: Option<String>,
    /// Print the report as one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Builds and reports.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let registry = &config.paths.registry;
    let read_timeout = Duration::from_secs(args.read_timeout.get().into());
    let folder = registry.clone();
    let rev = args.rev.clone();
    // Reading the registry's own git repository may hang, too.
    let (files, mut entries) = time_limit::within(read_timeout, move || {
        let files = match &rev {
            Some(rev) => RegistryFiles::revision(&folder, rev)?,
            None => RegistryFiles::folder(&folder),
        };
        let entries = plugins::load(&files)?;
        Ok((files, entries))
    })
    .map_err(|error| Failure::environment(format!("{}: {error}", registry.display())))?
    .map_err(no_revision)?;
    let signed = signed_chains(&files, &mut entries)?;
    let mut installed = InstalledSites::new(args.installed.as_deref())?;
    installed.look_for(&entries, &signed, config);
    let options = Options {
        releases: config.paths.releases.clone(),
        check: args.check,
        all: args.all,
        accepts_removed: args.accept_removed,
        parse_php: args.deny_warnings,
        only: args.plugins.iter().cloned().collect(),
        mirrors: Mirrors {
            cache: config.paths.cache.clone(),
            offline: args.offline,
            timeout: Duration::from_secs(args.fetch_timeout.get().into()),
            limit: u64::from(args.fetch_limit.get()) << 20,
            allowed: config.build.with(&args.settings).allowed_git_hosts,
            credentials: Credentials::from_environment().map_err(Failure::usage)?,
        },
        packing: PackingOptions {
            folder: PackageFolder::new(&config.paths.packages),
            replace: args.replace.iter().cloned().collect(),
            signed: Some(signed),
            installed: installed.known(),
            cache: Some(config.paths.cache.clone()),
        },
        read_timeout,
    };
    let report = build::run(&entries, &options, progress()).map_err(failure)?;
    print(&report, args.json)?;
    installed.note(&report);
    if args.check {
        countersign_registry::check_licenses(&files)?;
    }
    let is_wrong = report.failed() || args.deny_warnings && report.warnings() > 0;
    Ok(match (is_wrong, report.check && report.differs()) {
        (true, _) => Exit::Input,
        (false, true) => Exit::Differs,
        (false, false) => Exit::Done,
    })
}

/// What a build of these plugins would say, without fetching or writing anything.
pub(super) fn dry_run(config: &Config, slugs: BTreeSet<Slug>, read_timeout: Duration) -> Result<BuildReport, Failure> {
    let files = RegistryFiles::folder(&config.paths.registry);
    let mut entries = plugins::load(&files)?;
    entries.retain(|entry| entry.slug.as_ref().is_some_and(|slug| slugs.contains(slug)));
    let signed = signed_chains(&files, &mut entries)?;
    let options = Options {
        releases: config.paths.releases.clone(),
        check: true,
        all: false,
        accepts_removed: false,
        parse_php: false,
        only: slugs,
        mirrors: Mirrors {
            cache: config.paths.cache.clone(),
            offline: true,
            timeout: read_timeout,
            limit: 0,
            allowed: config.build.allowed_git_hosts.clone(),
            credentials: None,
        },
        packing: PackingOptions {
            folder: PackageFolder::new(&config.paths.packages),
            replace: HashSet::new(),
            signed: Some(signed),
            installed: None,
            cache: None,
        },
        read_timeout,
    };
    build::run(&entries, &options, Arc::new(NoProgress)).map_err(failure)
}

/// Parses `acme-forms/1.2.0`.
pub(super) fn release_name(text: &str) -> Result<(Slug, Version), String> {
    let (slug, version) = text.split_once('/').ok_or("expected SLUG/VERSION")?;
    let slug = slug.parse().map_err(|error| format!("{error}"))?;
    let version = version.parse().map_err(|error| format!("{error}"))?;
    Ok((slug, version))
}

/// What people signed of each plugin with `[signing]`. An entry with a wrong statement or signature is a wrong entry.
fn signed_chains(files: &RegistryFiles, entries: &mut [PluginEntry]) -> Result<SignedChains, RegistryError> {
    let mut chains = HashMap::new();
    for entry in entries {
        let Ok(plugin) = &entry.plugin else { continue };
        let Some(signing) = &plugin.signing else { continue };
        let (chain, diagnostics) = release_chain::load(files, &plugin.slug, &signing.keys)?;
        chains.insert(plugin.slug.clone(), chain);
        if !diagnostics.is_empty() {
            entry.plugin = Err(diagnostics);
        }
    }
    Ok(Arc::new(chains))
}

fn no_revision(error: RegistryError) -> Failure {
    match error {
        RegistryError::Revision(RevisionError::NoRepository { .. }) => {
            Failure::input(error).hint("keep registry/ in a git repository: git init, git add registry, git commit")
        }
        RegistryError::Revision(RevisionError::NotOurs { ref path }) => {
            let folder = path.canonicalize().unwrap_or_else(|_| path.clone());
            let is_repository = |folder: &&Path| folder.join(".git").exists();
            let repository = folder.ancestors().find(is_repository).unwrap_or(&folder);
            let command = "git config --global --add safe.directory";
            let hint = format!("if you trust it: {command} {}", shell_quoted(repository));
            Failure::input(error).hint(hint)
        }
        RegistryError::Revision(RevisionError::NoCommit { .. }) => {
            Failure::input(error).hint("give an existing commit, branch or tag; in CI, fetch it first: git fetch")
        }
        RegistryError::Revision(RevisionError::NotThere { .. }) => {
            Failure::input(error).hint("commit the registry, and give that commit or a later one")
        }
        _ => error.into(),
    }
}

fn failure(error: BuildError) -> Failure {
    match error {
        BuildError::UnknownPlugin(_) => {
            Failure::input(error).hint("give the name of a file in registry/plugins/, without .toml")
        }
        BuildError::Index(_) => {
            Failure::input(error).hint("restore releases/index.json, or delete it and build everything")
        }
        BuildError::Busy { .. } => Failure::environment(error).hint("wait for it to end"),
        BuildError::Overtaken { .. } => Failure::environment(error).hint("build again"),
        BuildError::Write { .. } => Failure::environment(error),
    }
}

fn print(report: &BuildReport, json: bool) -> Result<Exit, Failure> {
    if json {
        return output::print(&output::printable_json(&format!("{:#}\n", report.to_json())));
    }
    let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    output::print(&build::summary(report, colour))
}

/// A bar on a terminal, otherwise a line per plugin.
fn progress() -> Arc<dyn Progress> {
    if std::io::stderr().is_terminal() {
        let style = ProgressStyle::with_template("{spinner} {pos}/{len} tags  {elapsed}  {wide_msg}");
        let bar = ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(100));
        Arc::new(Bar(bar))
    } else {
        Arc::new(ProgressLines)
    }
}

struct Bar(ProgressBar);

impl Progress for Bar {
    fn fetching(&self, address: &str) {
        self.0.set_message(format!("fetching {address}"));
    }

    fn tags_found(&self, plugin: &Slug, tags: usize) {
        self.0.inc_length(tags as u64);
        self.0.set_message(plugin.to_string());
    }

    fn tags_done(&self, tags: usize) {
        self.0.inc(tags as u64);
    }

    fn plugin_done(&self, _: &PluginReport) {}
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

struct ProgressLines;

impl Progress for ProgressLines {
    fn fetching(&self, address: &str) {
        stderr::line(format_args!("fetching {address}"));
    }

    fn tags_found(&self, plugin: &Slug, tags: usize) {
        stderr::line(format_args!("{plugin}: {}", counted(tags, "tag")));
    }

    fn tags_done(&self, _: usize) {}

    fn plugin_done(&self, report: &PluginReport) {
        if let (Some(slug), PluginState::Read) = (&report.slug, &report.state) {
            let counts = report.counts();
            stderr::line(format_args!(
                "{slug}: done, {}",
                counted(counts.built + counts.unchanged, "release")
            ));
        }
    }
}
