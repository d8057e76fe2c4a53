//! `countersign preview`: passes its target to [`preview::run`], or prints one version to stdout.

use std::io::Write as _;
use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use clap_complete::engine::ArgValueCompleter;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::commands::{Exit, Failure, candidates, output};
use crate::preview;
use crate::preview::snapshot::PreviewSnapshot;
use crate::preview::target::{Plugins, Target};
use crate::preview::view::Selection;
use crate::preview::{json, live, terminal};
use countersign_model::slug::Slug;
use countersign_model::text::stderr;
use countersign_registry::RegistryError;
use countersign_settings::config::{self, Config};

const EXAMPLES: &str = "\
Examples:
  countersign preview --open                     every plugin of the instance, in the browser
  countersign preview ~/work/acme-forms          one plugin's repository, without an instance
  countersign preview --print --plugin acme-forms --version 1.2.0
  countersign preview --print --json | jq '.plugins[].manifest.changelog'

The page shows the working tree and HEAD as if you tagged them now, then the releases. It follows \
every edit. `preview` writes and fetches nothing. Only this machine can open the page.";

/// Show releases as the CMS will, before you publish them
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES, disable_version_flag = true)]
pub struct Args {
    /// A plugin's repository, or a folder in it [default: all plugins of the instance]
    #[arg(value_name = "PATH")]
    pub repository: Option<PathBuf>,
    /// Preview only this plugin of the instance
    #[arg(long, value_name = "SLUG", conflicts_with = "repository", add = ArgValueCompleter::new(candidates::slugs))]
    pub plugin: Option<Slug>,
    /// The port on 127.0.0.1; 0 takes a free one
    #[arg(long, value_name = "N", default_value = "4180", value_parser = config::parse::<u16>)]
    pub port: u16,
    /// Open the page in the browser
    #[arg(long, conflicts_with = "print")]
    pub open: bool,
    /// Print one version instead of serving a page
    #[arg(long)]
    pub print: bool,
    /// The version to print: working-tree, head, next or a released version [default: next, else the latest]
    #[arg(long, value_name = "V", requires = "print")]
    pub version: Option<String>,
    /// Print one JSON document
    #[arg(long, requires = "print")]
    pub json: bool,
    /// CMS version of the site that asks for updates [default: the one the release was tested with]
    #[arg(long, value_name = "V", requires = "print", value_parser = parse_platform_version)]
    pub cms: Option<String>,
    /// PHP version of the site that asks for updates [default: the one the release requires]
    #[arg(long, value_name = "V", requires = "print", value_parser = parse_platform_version)]
    pub php: Option<String>,
    /// Plugin version of the site that asks for updates [default: the release before]
    #[arg(long, value_name = "V", requires = "print")]
    pub current: Option<String>,
    /// Seconds to read one plugin's repository
    #[arg(long, env = "COUNTERSIGN_READ_TIMEOUT", value_name = "SECONDS", default_value = "60",
        value_parser = config::parse::<NonZeroU32>)]
    pub read_timeout: NonZeroU32,
}

/// Parses a version of the CMS or of PHP, which begins with a number, whatever follows: `6.9-alpha-60093`,
/// `8.2.7-1ubuntu3`.
fn parse_platform_version(text: &str) -> Result<String, &'static str> {
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        Ok(text.to_owned())
    } else {
        Err("expected a version such as 6.8")
    }
}

/// Prints, or serves the page until SIGTERM or SIGINT.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let target = target(args, config)?;
    for assumption in target.assumptions().iter().filter(|_| !args.json) {
        stderr::line(format_args!("assumed: {assumption}"));
    }
    if args.print {
        return print(args, &target);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Failure::environment)?;
    let served = runtime.block_on(serve(args, target));
    // Nobody needs the result of a running read.
    runtime.shutdown_background();
    served
}

fn target(args: &Args, config: &Config) -> Result<Target, Failure> {
    let read_timeout = Duration::from_secs(args.read_timeout.get().into());
    let target = match &args.repository {
        Some(path) => Target::repository(path, read_timeout).map_err(|error| {
            Failure::input(error).hint("give the folder of a plugin's git repository, or a folder in it")
        })?,
        None => Target {
            plugins: Plugins::Registry(config.paths.registry.clone(), args.plugin.clone()),
            releases: Some(config.paths.releases.clone()),
            cache: config.paths.cache.clone(),
            read_timeout,
        },
    };
    match target.entries() {
        Err(error @ RegistryError::NoFolder { .. }) => Err(Failure::input(error)
            .hint("give an instance's folder with -C, or a plugin's repository: countersign preview PATH")),
        Err(error) => Err(Failure::input(error)),
        Ok(entries) => match &args.plugin {
            Some(slug) if entries.is_empty() => {
                Err(Failure::input(format!("there is no plugin {slug} in the registry"))
                    .hint("give the name of a file in registry/plugins/, without .toml"))
            }
            _ => Ok(target),
        },
    }
}

fn print(args: &Args, target: &Target) -> Result<Exit, Failure> {
    let selection = Selection {
        version: args.version.clone(),
        cms: args.cms.clone(),
        php: args.php.clone(),
        current: args.current.clone(),
    };
    let snapshot = PreviewSnapshot::read(target, None);
    let printed = if args.json {
        json::document(&snapshot, target, &selection)
    } else {
        terminal::text(&snapshot, target, &selection)
    };
    let text = if args.json {
        output::printable_json(&printed.text).into_owned()
    } else {
        printed.text
    };
    output::print(&text)?;
    Ok(if printed.is_whole { Exit::Done } else { Exit::Input })
}

async fn serve(args: &Args, target: Target) -> Result<Exit, Failure> {
    // First, so that no signal arrives before its handler.
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::environment)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::environment)?;
    // SECURITY: this machine only, because unpublished work is private.
    let address = (Ipv4Addr::LOCALHOST, args.port);
    let listener = TcpListener::bind(address).await.map_err(|error| {
        Failure::environment(format!("cannot listen on 127.0.0.1:{}: {error}", args.port))
            .hint("choose another port with --port; 0 takes a free one")
    })?;
    let address = listener.local_addr().map_err(Failure::environment)?;
    let target = Arc::new(target);
    let latest = live::start(Arc::clone(&target)).map_err(Failure::environment)?;

    // Scripts that start it with port 0 read the port here.
    let _ = writeln!(std::io::stdout(), "preview on http://{address}/");
    if args.open {
        open(&format!("http://{address}/"));
    }
    let shutdown = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    preview::run(listener, target, latest, shutdown).await;
    Ok(Exit::Done)
}

/// If no browser can be opened, the address is on the screen.
fn open(address: &str) {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(opener);
    command
        .arg(address)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if let Err(error) = command.spawn() {
        stderr::line(format_args!("cannot open a browser: {opener}: {error}"));
    }
}
