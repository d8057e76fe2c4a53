//! The shops whose deliveries this server takes, and where they are kept until they are applied.

mod body_permits;
pub mod shop_client;
mod shop_questions;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use tokio::sync::{MutexGuard, Notify};

use crate::serve::hooks::body_permits::BodyPermits;
use crate::serve::hooks::shop_client::ShopClient;
use crate::serve::hooks::shop_questions::ShopQuestions;
use countersign_files::spool::{Spool, SpoolError};
use countersign_model::issued_license::Hex128;
use countersign_model::slug::Slug;
use countersign_model::text::ErrorChain;
use countersign_settings::config::ShopConfig;
use countersign_settings::keys::service_secrets::{self, ServiceSecretError};
use countersign_shops::signature::{self, ShopSecret, SignatureError};

/// How often a shop's failures are logged.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// The shops, and their deliveries.
#[derive(Debug)]
pub struct Hooks {
    shops: BTreeMap<Slug, Hook>,
    /// There is one if there are shops.
    spool: Option<Arc<Spool>>,
    /// Whether there is a new delivery.
    news: Notify,
    delayed: LogLimit,
    /// Permits to receive a body.
    pub(crate) permits: BodyPermits,
    /// One delivery of a sale is applied at a time.
    pub(crate) turns: SaleTurns,
}

/// A shop.
#[derive(Debug)]
pub struct Hook {
    /// Its settings.
    pub config: ShopConfig,
    /// Asked for what its deliveries lack.
    pub(crate) questions: Option<ShopQuestions>,
    refused: LogLimit,
}

/// Why a delivery is not taken.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// It is not from this shop.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// The shop's secret is unusable.
    #[error(transparent)]
    Secret(#[from] ServiceSecretError),
    /// It cannot be kept.
    #[error(transparent)]
    Spool(#[from] SpoolError),
}

impl Hooks {
    /// Every shop.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Hook> {
        self.shops.values()
    }

    /// No shop.
    pub fn none() -> Self {
        Self {
            shops: BTreeMap::new(),
            spool: None,
            news: Notify::new(),
            delayed: LogLimit::default(),
            permits: BodyPermits::new(),
            turns: SaleTurns::new(),
        }
    }

    /// Checks the files with each shop's secret and API key, which are read again each time.
    ///
    /// # Errors
    /// One is unusable.
    pub fn check(shops: &[ShopConfig]) -> Result<(), ServiceSecretError> {
        for shop in shops {
            secrets(shop)?;
            ShopClient::open(shop)?;
        }
        Ok(())
    }

    /// These shops.
    ///
    /// # Errors
    /// A secret or an API key is unusable, or the spool cannot be made.
    pub fn open(shops: &[ShopConfig], store: &std::path::Path) -> Result<Self, HookError> {
        Self::check(shops)?;
        let hook = |config: &ShopConfig| {
            let hook = Hook {
                config: config.clone(),
                questions: ShopClient::open(config)?.map(ShopQuestions::new),
                refused: LogLimit::default(),
            };
            Ok((config.name.clone(), hook))
        };
        Ok(Self {
            shops: shops.iter().map(hook).collect::<Result<_, HookError>>()?,
            spool: (!shops.is_empty())
                .then(|| Spool::open(store))
                .transpose()?
                .map(Arc::new),
            ..Self::none()
        })
    }

    /// The shop of this name, and the spool.
    pub(crate) fn find(&self, name: &str) -> Option<(&Hook, &Arc<Spool>)> {
        Some((self.shops.get(name)?, self.spool.as_ref()?))
    }

    /// The spool, if there are shops.
    pub(crate) fn spool(&self) -> Option<&Arc<Spool>> {
        self.spool.as_ref()
    }

    /// Tells that a delivery is in the spool.
    pub(crate) fn announce(&self) {
        self.news.notify_one();
    }

    /// Waits for a delivery that came since the last call.
    pub(crate) async fn arrived(&self) {
        self.news.notified().await;
    }

    /// Logs that deliveries cannot be applied now, once a minute.
    pub(crate) fn delay(&self, error: &(dyn std::error::Error + 'static)) {
        if self.delayed.is_due() {
            let error = ErrorChain(error).first_line();
            tracing::warn!(error, "deliveries of shops wait: they cannot be applied now");
        }
    }
}

impl Hook {
    /// Checks the header of a signature as far as is possible without the body.
    ///
    /// # Errors
    /// It is missing or malformed, or its time is not near.
    pub(crate) fn check_header(&self, header: Option<&str>, now: DateTime<Utc>) -> Result<(), SignatureError> {
        // A header in the right form is wrong for no secrets.
        match signature::verify(self.config.kind, &[], header, &[], now) {
            Ok(()) | Err(SignatureError::Wrong) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Keeps a delivery durably, if this shop signed it. Waits for the disk.
    ///
    /// # Errors
    /// It is not kept.
    pub(crate) fn take(
        &self,
        spool: &Spool,
        header: Option<&str>,
        body: &[u8],
        now: DateTime<Utc>,
    ) -> Result<(), HookError> {
        signature::verify(self.config.kind, &secrets(&self.config)?, header, body, now)?;
        Ok(spool.put(&self.config.name, now, body)?)
    }

    /// Whether a failure of this shop is to be logged: anybody can send what fails.
    pub(crate) fn is_log_due(&self) -> bool {
        self.refused.is_due()
    }
}

/// Lets one log line a minute through.
#[derive(Debug, Default)]
struct LogLimit(Mutex<Option<Instant>>);

impl LogLimit {
    fn is_due(&self) -> bool {
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = logged.is_none_or(|logged| logged.elapsed() >= LOG_EVERY);
        if is_due {
            *logged = Some(Instant::now());
        }
        is_due
    }
}

/// The secrets of a shop. Read each time, so that one that was replaced counts at once.
fn secrets(shop: &ShopConfig) -> Result<Vec<ShopSecret>, ServiceSecretError> {
    let lines = service_secrets::read_shop(&shop.secret_file)?;
    let secrets = lines.iter().map(|line| ShopSecret::new(line)).collect::<Result<_, _>>();
    secrets.map_err(|_| service_secrets::not_a_shop_secret(&shop.secret_file))
}

/// Many more than the deliveries that are applied at once, so that two sales seldom share a turn.
const TURNS: usize = 1_024;

/// The turns of all sales.
#[derive(Debug)]
pub(crate) struct SaleTurns(Vec<tokio::sync::Mutex<()>>);

impl SaleTurns {
    fn new() -> Self {
        Self(
            std::iter::repeat_with(tokio::sync::Mutex::default)
                .take(TURNS)
                .collect(),
        )
    }

    /// Waits until no other delivery of this sale is applied.
    pub(crate) async fn of(&self, sale: Hex128) -> MutexGuard<'_, ()> {
        // An HMAC: its first bytes are spread evenly.
        let place = usize::from(u16::from_le_bytes([sale.0[0], sale.0[1]])) % TURNS;
        self.0[place].lock().await
    }
}
