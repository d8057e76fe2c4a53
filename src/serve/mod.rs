//! The server: binds licenses, signs statements, and sends manifests to entitled sites.
//!
//! A request passes [`net`] (from socket to request), [`routes`], [`api`] (parse, limit, look up), [`gate`] (decide),
//! [`signing`] for statements, and [`reply`]. [`reload`] loads the files at the start and when they change. [`ops`]
//! answers the operator.

pub mod account;
pub mod api;
mod background;
mod coarse_clock;
mod compat;
mod composer;
mod customer_numbers;
mod day_history;
mod day_tally;
mod deliveries;
pub mod desk;
pub mod differing_declarations;
mod first_copies;
mod first_copy_page;
pub mod found_license;
pub mod gate;
pub mod health;
pub mod history_report;
pub mod hooks;
pub mod imports;
pub mod ledger_licenses;
pub(crate) mod license_mails;
mod license_texts;
mod link_page;
pub mod links;
mod mailed_licenses;
pub mod metrics;
pub mod net;
pub mod ops;
pub(crate) mod package_answer;
mod package_check;
mod package_faults;
mod pages;
pub mod plugin_usage;
pub mod public_files;
pub mod rate_limit;
pub mod reload;
pub(crate) mod reminders;
pub mod reply;
mod reported_copies;
mod rollout_alarm;
pub mod rollouts;
pub mod routes;
pub mod signing;
mod site_claims;
pub mod state;
mod taken_releases;
pub mod vouches;
pub mod waiting_sales;
pub mod webhooks;

use countersign_package::catalog::CopyDigests;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use chrono::Utc;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::serve::account::setup::AccountSetup;
use crate::serve::account::words::AccountTexts;
use crate::serve::day_history::HistoryKeeper;
use crate::serve::day_tally::DayTally;
use crate::serve::desk::door::DeskDoor;
use crate::serve::desk::state::DeskState;
use crate::serve::differing_declarations::DeclarationsLook;
use crate::serve::first_copies::FirstCopyCounts;
use crate::serve::gate::Gate;
use crate::serve::health::{Health, Part, State};
use crate::serve::history_report::KeptHistory;
use crate::serve::hooks::Hooks;
use crate::serve::links::{ComposerRepository, PackageLinks};
use crate::serve::mailed_licenses::MailedLicenses;
use crate::serve::metrics::Reloads;
use crate::serve::net::client_ip::Proxies;
use crate::serve::net::descriptors::Descriptors;
use crate::serve::net::listener::ListenerConfig;
use crate::serve::net::timeouts::Timeouts;
use crate::serve::net::tls::{Tls, TlsAcceptor};
use crate::serve::ops::commands::CommandAccess;
use crate::serve::package_faults::PackageFaults;
use crate::serve::rate_limit::Limits;
use crate::serve::reload::startup::StartupState;
use crate::serve::reload::{Reloader, stands_still_after};
use crate::serve::reminders::Reminders;
use crate::serve::signing::Signer;
use crate::serve::taken_releases::{RolloutWatch, TakenPackages};
use crate::serve::webhooks::Webhooks;
use crate::serve::webhooks::endpoint::Endpoint;
use countersign_ledger::Ledger;
use countersign_mail::account::MailAccount;
use countersign_mail::queue::MailQueue;
use countersign_mail::sending::MailSender;
use countersign_model::reminder::ReminderRule;
use countersign_settings::config::{AccountConfig, AdminHost, CompatProtocol, DeskUrl, ServeConfig};

pub use crate::serve::reload::drop_guard::AcceptedDrops;
pub use crate::serve::reload::error::LoadError;
pub use crate::serve::reload::fingerprint::FilesSeen;
pub use crate::serve::reload::startup::load;
pub use crate::serve::state::Service;

/// A server that is loaded and ready to listen.
pub struct Server {
    service: Arc<Service>,
    reloader: Reloader,
    listener_config: ListenerConfig,
    acceptor: Option<TlsAcceptor>,
    admin: Option<(TcpListener, Vec<AdminHost>)>,
    commands: Option<CommandAccess>,
    mail: Option<MailSender>,
    reminders: Option<Reminders>,
    webhooks: Option<Webhooks>,
    history: Option<HistoryKeeper>,
    desk: Option<(TcpListener, DeskState)>,
}

impl Server {
    /// Puts the loaded state in force, and starts the threads that sign and that watch the files.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(
        config: &ServeConfig,
        public: &Path,
        loaded: StartupState,
        bindings: Arc<Ledger>,
        hooks: Hooks,
    ) -> io::Result<Self> {
        let StartupState {
            snapshot,
            tls,
            files,
            fault,
            started,
            drop_guard,
            accepts_dropped_licenses: _,
            downloads_key: _,
            releases,
        } = loaded;
        drop_guard.accept(&snapshot.registry);
        if fault.is_none() {
            drop_guard.accept_releases(&snapshot.catalog, snapshot.catalog.folder());
        }
        tracing::info!(
            plugins = snapshot.registry.plugin_count(),
            licenses_in_files = snapshot.registry.license_count(),
            licenses_in_ledger = bindings.issued_count(),
            releases = snapshot.catalog.releases().count(),
            key_id = snapshot.key.public().key_id(),
            "loaded"
        );
        let health = Health::new(tls.is_some(), Utc::now(), stands_still_after(config.poll));
        files.iter().for_each(|file| file.tell(&health));
        let acceptor = tls.as_ref().map(Tls::acceptor).transpose().map_err(io::Error::other)?;
        if let Some(fault) = fault {
            health.note(Part::Catalog, State::Failing, Some(fault.in_one_line()), Utc::now());
        }
        let limits = Limits::new(
            config.requests_per_minute,
            config.requests_per_license,
            config.failures_per_minute,
            config.downloads_per_link,
            config.requests_per_token,
        );
        let descriptors = Descriptors::raised(config.max_connections.get());
        if descriptors.are_short() {
            tracing::warn!(
                open_files = descriptors.limit,
                max_connections = descriptors.wanted,
                held_at_once = descriptors.connections,
                "the limit on open files allows fewer connections than max_connections: {}",
                Descriptors::HINT
            );
        }
        let links = config.links_begin_with();
        let composer = match (config.composer.clone(), links.clone()) {
            (Some(vendor), Some(public_url)) => Some(ComposerRepository {
                vendor,
                public_url,
                digests: CopyDigests::default(),
            }),
            (Some(_), None) => {
                tracing::warn!(
                    "`composer` needs `public_url`, with which links to packages begin: there is no repository"
                );
                None
            }
            (None, _) => None,
        };
        let (packages, package_checks) = PackageFaults::new();
        let service = Arc::new(Service {
            limits,
            gate: Gate::new(snapshot, bindings, config.seat_rules()),
            signer: Signer::start(config.signing_queue.get())?,
            health,
            hooks,
            links: PackageLinks::new(links),
            mail: OnceLock::new(),
            webhooks: OnceLock::new(),
            desk: OnceLock::new(),
            account: OnceLock::new(),
            packages,
            rollouts: RolloutWatch::default(),
            taken: TakenPackages::default(),
            alarm_mail: OnceLock::new(),
            metrics: Arc::default(),
            tally: DayTally::new(Utc::now()),
            history: KeptHistory::default(),
            descriptors,
            has_no_proxy: config.proxies.is_empty(),
            reloads: Reloads::default(),
            drop_guard,
            declarations: DeclarationsLook::default(),
            tls,
            started,
            public: Arc::from(public),
            request_timeout: config.request_timeout,
            grace_period_hours: config.grace_period_hours,
            first_copies: FirstCopyCounts::new(config.first_copies),
            composer,
            shop_links: config.shop_links.clone(),
            customers: config.customers,
            local_hosts: config.local_hosts,
            foreign_keys: config.foreign_keys,
            answers_edd: config.compat.contains(&CompatProtocol::Edd),
        });
        service.note_declarations();
        package_check::start(&service, package_checks, releases)?;
        let reloader = Reloader::start(&service, files, config.poll)?;
        let listener_config = ListenerConfig {
            connections: descriptors.connections,
            connections_per_address: config.connections_per_address.get(),
            proxies: Proxies {
                networks: config.proxies.clone(),
                hops: config.proxy_hops.get(),
            },
            handshake_timeout: config.tls_handshake_timeout,
            timeouts: Timeouts {
                header: config.header_timeout,
                idle: config.idle_timeout,
                write: config.write_timeout,
            },
            drain: config.drain,
        };
        Ok(Self {
            service,
            reloader,
            listener_config,
            acceptor,
            admin: None,
            commands: None,
            mail: None,
            reminders: None,
            webhooks: None,
            history: None,
            desk: None,
        })
    }

    /// A handle that makes the server check its files at once.
    pub fn reloader(&self) -> Reloader {
        self.reloader.clone()
    }

    /// Serves health and metrics on `listener`. A request may name one of `hosts` in `Host`.
    pub fn with_admin(self, listener: TcpListener, hosts: Vec<AdminHost>) -> Self {
        Self {
            admin: Some((listener, hosts)),
            ..self
        }
    }

    /// Serves the vendor's page on `listener`; people reach it by `url`, and sign in by mails that `mail` sends. `store` is this node's
    /// own folder.
    ///
    /// # Errors
    /// The port of the listener is unknown.
    pub fn with_desk(
        self,
        listener: TcpListener,
        url: Option<DeskUrl>,
        mail: Option<MailAccount>,
        store: PathBuf,
    ) -> io::Result<Self> {
        if let Some(account) = &mail {
            self.service.alarm_mail.get_or_init(|| Arc::new(account.clone()));
        }
        let door = DeskDoor::new(url, listener.local_addr()?.port());
        let door = Arc::clone(self.service.desk.get_or_init(|| Arc::new(door)));
        let state = DeskState::new(Arc::clone(&self.service), door, store, mail);
        let desk = Some((listener, state));
        Ok(Self { desk, ..self })
    }

    /// Serves the pages for customers beside the public ones. They sign in by mails that `mail` sends.
    ///
    /// # Errors
    /// Nobody knows by which address the pages are reached.
    pub fn with_account(self, config: AccountConfig, texts: AccountTexts, mail: MailAccount) -> io::Result<Self> {
        let setup = AccountSetup::new(config, self.service.links.public_url(), texts, mail);
        let setup = setup.ok_or_else(|| io::Error::other("there is no public_url"))?;
        self.service.account.get_or_init(|| Arc::new(setup));
        Ok(self)
    }

    /// The address of the first page for customers.
    pub fn account_url(&self) -> Option<String> {
        Some(self.service.account.get()?.url())
    }

    /// Answers commands.
    pub fn with_commands(self, commands: CommandAccess) -> Self {
        Self {
            commands: Some(commands),
            ..self
        }
    }

    /// Sends the mails of `queue` by `account`, with the texts in the folder `registry`.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn with_mail(self, queue: MailQueue, account: MailAccount, registry: PathBuf) -> io::Result<Self> {
        let queue = Arc::clone(self.service.mail.get_or_init(|| Arc::new(queue)));
        self.service.alarm_mail.get_or_init(|| Arc::new(account.clone()));
        let source = Arc::new(MailedLicenses::new(Arc::clone(&self.service))?);
        let mail = Some(MailSender::start(queue, account, registry, source)?);
        Ok(Self { mail, ..self })
    }

    /// Reminds customers of the end of their licenses, by the mails of [`Self::with_mail`]. Without these, or without days, the
    /// ledger notes that nobody is reminded.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn with_reminders(self, rule: ReminderRule) -> io::Result<Self> {
        let reminders = Some(Reminders::start(Arc::clone(&self.service), rule)?);
        Ok(Self { reminders, ..self })
    }

    /// Tells these endpoints what happens in the ledger.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn with_webhooks(self, endpoints: Vec<Endpoint>) -> io::Result<Self> {
        let webhooks = Some(Webhooks::start(&self.service, endpoints)?);
        Ok(Self { webhooks, ..self })
    }

    /// Keeps the history of what is counted.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn with_history(self) -> io::Result<Self> {
        let history = Some(HistoryKeeper::start(Arc::clone(&self.service))?);
        Ok(Self { history, ..self })
    }

    /// Serves on `listener` until `shutdown` completes, then finishes open requests. The admin listener and the admin socket stop
    /// last.
    pub async fn run(self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        let Self {
            service,
            reloader: _reloader,
            listener_config,
            acceptor,
            admin,
            commands,
            mail,
            reminders,
            webhooks,
            history,
            desk,
        } = self;
        let patience = listener_config.drain;
        let (drained, draining) = watch::channel(());
        let drained_public = || {
            let mut draining = draining.clone();
            async move { draining.changed().await.unwrap_or_default() }
        };
        let desk = desk.map(|(listener, state)| (listener, state, desk::listener_config(&service, &listener_config)));
        let public = async {
            let metrics = Arc::clone(&service.metrics);
            net::listener::run(
                listener,
                routes::all(Arc::clone(&service)),
                acceptor,
                listener_config,
                metrics,
                shutdown,
            )
            .await;
            drop(drained);
        };
        // It ends with the server: what is not applied stays in the spool.
        let deliveries = tokio::spawn(deliveries::run(Arc::clone(&service)));
        let rollouts = tokio::spawn(rollouts::run(Arc::clone(&service)));
        let admin = async {
            let Some((listener, hosts)) = admin else { return };
            let routes = ops::routes(Arc::clone(&service), hosts);
            let listener_config = ops::listener_config(&service.descriptors);
            net::listener::run(
                listener,
                routes,
                None,
                listener_config,
                Arc::default(),
                drained_public(),
            )
            .await;
        };
        let desk = async {
            let Some((listener, state, listener_config)) = desk else {
                return;
            };
            let routes = desk::routes(state);
            let shutdown = drained_public();
            let run = |listener| net::listener::run(listener, routes, None, listener_config, Arc::default(), shutdown);
            // Sites are answered without it.
            if let Err(error) = background::serve("desk", listener, run).await {
                tracing::error!(%error, "the desk cannot be served");
            }
        };
        let commands = async {
            let Some(commands) = commands else { return };
            commands.run(Arc::clone(&service), drained_public()).await;
        };
        tokio::join!(public, admin, desk, commands);
        deliveries.abort();
        rollouts.abort();
        drop(reminders);
        if let Some(history) = history {
            // It stores the last counts.
            let _ = tokio::task::spawn_blocking(move || history.stop()).await;
        }
        if let Some(webhooks) = webhooks {
            // It waits for the messages that are under way.
            let _ = tokio::task::spawn_blocking(move || webhooks.stop(patience)).await;
        }
        if let Some(mail) = mail {
            // It waits for the mail that is under way.
            let _ = tokio::task::spawn_blocking(move || mail.stop(patience)).await;
        }
    }
}
