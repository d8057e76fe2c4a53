//! `countersign serve`: opens the store, starts the server, and passes signals on to it.

mod inherited;
pub(super) mod parts;

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write};
use std::pin::pin;
use std::sync::Arc;

use sd_notify::NotifyState;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::spawn_blocking;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{fmt, registry};

use crate::commands::keys::{lost, secrets};
use crate::commands::serve::inherited::InheritedSockets;
use crate::commands::store::store_failure;
use crate::commands::{Exit, Failure};
use crate::serve::net::tls::TlsError;
use crate::serve::ops::commands::CommandAccess;
use crate::serve::public_files::folder::{self, Searched};
use crate::serve::reload::startup::StartupState;
use crate::serve::{self, AcceptedDrops, LoadError, Server};
use countersign_ledger::{Ledger, NodeLock};
use countersign_settings::config::{
    AdminListen, Config, Listen, LogFormat, Paths, ServeConfig, ServeSettings, StoreSettings,
};

/// Run the server
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  countersign serve                             serve the instance in this folder
  countersign -C /srv/acme serve --listen 0.0.0.0:8080
  kill -HUP PID                                 check the files for changes now
  kill -TERM PID                                finish open requests and stop")]
pub struct Args {
    /// Table `[serve]` of the configuration.
    #[command(flatten)]
    pub settings: ServeSettings,
    /// Table `[store]` of the configuration.
    #[command(flatten)]
    store: StoreSettings,
    /// Start even if the registry has lost more than a fifth of the licenses last in force. For one start, not for a
    /// unit file
    #[arg(long)]
    pub accept_dropped_licenses: bool,
    /// Start even if releases last in force are missing that nobody withheld and no build removed. For one start, not for a
    /// unit file
    #[arg(long)]
    pub accept_dropped_releases: bool,
}

/// The open store, and the lock of the node's folder if several nodes share a ledger.
struct OpenStore {
    bindings: Arc<Ledger>,
    _node: Option<NodeLock>,
}

/// Serves until SIGTERM or SIGINT.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    start_log(config.serve.log_format);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Failure::environment)?;
    let served = runtime.block_on(serve(args, config));
    if let Ok(Some(opened)) = &served {
        opened.bindings.close().map_err(store_failure)?;
    }
    // A file that cannot be read must not delay the end.
    runtime.shutdown_background();
    served?;
    tracing::info!("stopped");
    Ok(Exit::Done)
}

/// Loads, listens, opens the store and serves. Returns the store, which is still open, or `None` if the server was
/// stopped before it listened.
async fn serve(args: &Args, config: &Config) -> Result<Option<OpenStore>, Failure> {
    // First, so that no signal arrives before its handler.
    let mut terminate = on(SignalKind::terminate())?;
    let mut interrupt = on(SignalKind::interrupt())?;
    let mut hang_up = on(SignalKind::hangup())?;
    // A limit on the size of files (`ulimit -f`, `LimitFSIZE=`) is then a write error, like a full disk.
    let _too_large = on(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?;

    let shutdown = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping: finishing open requests");
    };
    let mut shutdown = pin!(shutdown);

    let sender = parts::mail_account(config)?;
    parts::check_webhooks(config)?;
    parts::check_shops(config)?;
    let accepted = AcceptedDrops {
        licenses: args.accept_dropped_licenses,
        releases: args.accept_dropped_releases,
    };
    let own = config.clone();
    let Some(loaded) = unless(&mut shutdown, move || load(&own, accepted)).await? else {
        return Ok(None);
    };
    let scheme = if loaded.tls.is_some() { "https" } else { "http" };
    let mut inherited = InheritedSockets::take()?;
    let hint = "choose another address with --listen";
    let listener = listen(&config.serve.listen, &mut inherited, hint).await?;
    let address = listener.local_addr().map_err(Failure::environment)?;
    let admin = match config.serve.admin_listen {
        AdminListen::Off => None,
        AdminListen::At(address) => Some(
            listen(
                &address.into(),
                &mut inherited,
                "choose another address with --admin-listen, or switch it off: --admin-listen off",
            )
            .await?,
        ),
    };
    parts::check_account(config, loaded.snapshot.secrets.licensing.is_some())?;
    let desk = match parts::desk_address(config, loaded.snapshot.secrets.licensing.is_some())? {
        Some(address) => Some(listen(address, &mut inherited, parts::DESK_LISTEN_HINT).await?),
        None => None,
    };
    inherited.require_all_taken()?;
    // Last, because it creates files: a server that does not start must not leave any.
    let paths = config.paths.clone();
    let assumed = config.store.with(&args.store).is_synchronous_assumed();
    let open = move || match &paths.database {
        Some(address) => {
            let node = NodeLock::take(&paths.store).map_err(store_failure)?;
            let bindings = countersign_ledger::open_shared(address, &paths.store, assumed).map_err(store_failure)?;
            Ok(OpenStore {
                bindings,
                _node: Some(node),
            })
        }
        None => {
            let bindings = countersign_ledger::open(&paths.store).map_err(store_failure)?;
            Ok(OpenStore { bindings, _node: None })
        }
    };
    let Some(opened) = unless(&mut shutdown, open).await? else {
        return Ok(None);
    };
    let bindings = &opened.bindings;
    // Once the store is open, because a license that the ledger has is not missing.
    if let Err(error) = loaded.require_licenses(bindings) {
        bindings.close().map_err(store_failure)?;
        return Err(load_failure(error, &config.paths));
    }
    // Links of a server that only this machine can reach begin with its address, whose port the system may have chosen.
    let hooks = parts::open_shops(config)?;
    let serve = ServeConfig {
        listen: address.into(),
        ..config.serve.clone()
    };
    let mut server = Server::start(&serve, &config.paths.public, loaded, Arc::clone(bindings), hooks)
        .map_err(Failure::environment)?;

    server = parts::begin_mail(server, sender.clone(), config)?;
    server = parts::begin_webhooks(server, config)?;
    server = parts::begin_account(server, sender.clone(), config)?;
    server = server.with_history().map_err(Failure::environment)?;

    let reloader = server.reloader();
    tokio::spawn(async move {
        while hang_up.recv().await.is_some() {
            reloader.force();
        }
    });
    // Scripts that start the server with port 0 read the ports here.
    let _ = writeln!(std::io::stdout(), "listening on {scheme}://{address}");
    tracing::info!(%address, scheme, "listening");
    if let Some(commands) = command_access(config) {
        server = server.with_commands(commands);
    }
    if let Some(listener) = admin {
        let address = listener.local_addr().map_err(Failure::environment)?;
        let _ = writeln!(std::io::stdout(), "health and metrics on http://{address}");
        if !address.ip().is_loopback() {
            tracing::warn!(%address, "other machines can reach health and metrics, which name files: protect the port with a firewall");
        }
        server = server.with_admin(listener, config.serve.admin_hosts.clone());
    }
    server = parts::begin_desk(server, desk, sender, config)?;
    // For `Type=notify` of systemd: `systemctl start` returns when the server serves.
    if let Err(error) = sd_notify::notify(&[NotifyState::Ready]) {
        tracing::warn!(%error, "cannot tell the service manager that the server is ready");
    }
    server.run(listener, shutdown).await;
    Ok(Some(opened))
}

/// Where the server answers commands; `None`, with a warning, if that socket cannot be made. Sites are served all the same.
fn command_access(config: &Config) -> Option<CommandAccess> {
    let socket = config.admin_socket();
    let access = CommandAccess::open(&socket, &config.paths.store);
    let warn = |error: &io::Error| {
        tracing::warn!(socket = %socket.display(), %error, "cannot make the admin socket: commands cannot reach this server");
    };
    access.inspect_err(warn).ok()
}

/// Checks and loads everything that the first request needs.
fn load(config: &Config, accepted: AcceptedDrops) -> Result<StartupState, Failure> {
    let tls = config.serve.tls()?;
    let searched = folder::check(&config.paths, config.serve.tls_key.as_deref()).map_err(|error| {
        let hint = error.hint();
        Failure::input(error).hint(hint)
    })?;
    if searched == Searched::Some {
        tracing::warn!(
            "the public folder is too large to search for private keys at the start; each file is checked before it is served"
        );
    }
    serve::load(&config.paths, accepted)
        .and_then(|loaded| loaded.with_tls(tls))
        .and_then(|loaded| loaded.with_links(config.serve.links_begin_with().as_ref()))
        .map_err(|error| load_failure(error, &config.paths))
}

/// Does `work` on its own thread, because reading files may hang. Abandons it if `shutdown` comes first.
async fn unless<T: Send + 'static>(
    shutdown: &mut (impl Future<Output = ()> + Unpin),
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<Option<T>, Failure> {
    tokio::select! {
        done = spawn_blocking(work) => done.map_err(Failure::environment)?.map(Some),
        () = shutdown => Ok(None),
    }
}

/// Listens on a socket from systemd, or else on the first address that works.
async fn listen(at: &Listen, inherited: &mut InheritedSockets, hint: &str) -> Result<TcpListener, Failure> {
    let failure = |error: &dyn Display| Failure::environment(format!("cannot listen on {at}: {error}")).hint(hint);
    let addresses = at.resolve().map_err(|error| failure(&error))?;
    if let Some(socket) = inherited.on(&addresses) {
        return TcpListener::from_std(socket).map_err(|error| failure(&error));
    }
    let mut errors = Vec::new();
    for address in addresses {
        match TcpListener::bind(address).await {
            Ok(listener) => return Ok(listener),
            Err(error) if at.host == address.ip().to_string() => errors.push(error.to_string()),
            Err(error) => errors.push(format!("{address}: {error}")),
        }
    }
    Err(failure(&errors.join("; ")))
}

fn on(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(Failure::environment)
}

fn load_failure(error: LoadError, paths: &Paths) -> Failure {
    match error {
        LoadError::Key(error) => {
            let hint = lost::hint(&error, paths);
            Failure::of_key(error).hint(hint)
        }
        LoadError::Tls(error) => {
            let hint = error.hint();
            let failure = match error {
                TlsError::Read { .. } | TlsError::ReadKey { .. } => Failure::environment(error),
                _ => Failure::input(error),
            };
            failure.hint(hint)
        }
        LoadError::SecretKey(error) => secrets::failure(error),
        LoadError::Registry(error) => error.into(),
        error => {
            let hint = error.hint();
            let failure = Failure::input(error);
            hint.into_iter().fold(failure, Failure::hint)
        }
    }
}

/// Has all events of this program written to standard error from now on.
// SECURITY: only our own events are logged. hyper's debug events can have a request's query with a license key.
fn start_log(format: LogFormat) {
    let level = std::env::var("COUNTERSIGN_LOG")
        .ok()
        .and_then(|level| level.parse().ok());
    let ours = Targets::new().with_target("countersign", level.unwrap_or(LevelFilter::INFO));
    // A line that cannot be written is lost. Reporting that on stderr would panic.
    let log = fmt::layer()
        .with_target(false)
        .log_internal_errors(false)
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => registry()
            .with(ours)
            .with(log.with_ansi(std::io::stderr().is_terminal()))
            .init(),
        LogFormat::Json => registry().with(ours).with(log.json().flatten_event(true)).init(),
    }
}
