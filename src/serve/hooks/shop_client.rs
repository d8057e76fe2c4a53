//! Asks a shop for what its deliveries lack, such as a buyer's address. [`ShopApi`] declares what.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use http_body_util::Full;
use hyper::header::{AUTHORIZATION, HOST, HeaderValue, USER_AGENT};
use hyper::{Request, StatusCode};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use url::Url;

use countersign_model::offer::SalesMode;
use countersign_settings::config::{ApiSettings, ShopConfig};
use countersign_settings::http_client::{self, Trust};
use countersign_settings::keys::service_secrets::{self, ServiceSecretError};
use countersign_shops::event::MAX_DELIVERY;
use countersign_shops::shop::ShopApi;
use serde_json::Value;

/// How long one question may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a question has no answer. Says nothing of the customer.
#[derive(Debug, thiserror::Error)]
pub enum ShopError {
    /// The API key cannot be read.
    #[error(transparent)]
    Key(#[from] ServiceSecretError),
    /// The shop cannot be asked.
    #[error("{origin} cannot be asked: {reason}")]
    Connection {
        /// Scheme, host and port.
        origin: String,
        /// Why. Part of the message, so it is not a source.
        reason: io::Error,
    },
    /// The shop refuses the key.
    #[error("{origin} answered {status}: the API key in {} may not read {reads}", path.display())]
    Forbidden {
        /// Scheme, host and port.
        origin: String,
        /// 401 or 403.
        status: StatusCode,
        /// The file with the key.
        path: PathBuf,
        /// What it must be allowed to read.
        reads: &'static str,
    },
    /// The answer is not what was asked for.
    #[error("{origin} answered {status}, and not what it was asked for")]
    Answer {
        /// Scheme, host and port.
        origin: String,
        /// The status.
        status: StatusCode,
    },
    /// The question failed in a way that this program does not expect.
    #[error("a question to the shop failed; the log says why")]
    Panic,
    /// The shop was asked and did not answer yet, or is asked soon.
    #[error("the shop did not answer yet")]
    Later,
}

/// A shop that is asked.
#[derive(Debug)]
pub struct ShopClient {
    settings: ApiSettings,
    pub(super) api: &'static ShopApi,
    is_test: bool,
}

impl ShopClient {
    /// A shop with an API key. Checks the file, which is read again for each question.
    ///
    /// # Errors
    /// The key is unusable.
    pub(super) fn open(shop: &ShopConfig) -> Result<Option<Self>, ServiceSecretError> {
        let (Some(settings), Some(api)) = (&shop.api, &shop.kind.api) else {
            return Ok(None);
        };
        service_secrets::read_shop_api_key(&settings.key_file)?;
        Ok(Some(Self {
            settings: settings.clone(),
            api,
            is_test: shop.mode == Some(SalesMode::Test),
        }))
    }

    /// The answer to a question, a JSON object; `None` if the shop has no such object.
    ///
    /// # Errors
    /// It is to be asked again.
    pub(super) async fn ask(&self, path: &str) -> Result<Option<Value>, ShopError> {
        let base = match &self.settings.url {
            Some(url) => url.as_url().as_str(),
            None if self.is_test => self.api.test,
            None => self.api.live,
        };
        let url = Url::parse(&format!("{}/{path}", base.trim_end_matches('/')));
        let url = url.map_err(|error| connection(base, io::Error::other(error)))?;
        let origin = url.origin().ascii_serialization();
        let file = self.settings.key_file.clone();
        let key = spawn_blocking(move || service_secrets::read_shop_api_key(&file)).await;
        let key = key.map_err(|error| connection(&origin, io::Error::other(error)))??;
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", key.as_str()))
            .map_err(|error| connection(&origin, io::Error::other(error)))?;
        bearer.set_sensitive(true);
        let mut request = Request::get(http_client::path(&url))
            .header(HOST, http_client::host(&url))
            .header(USER_AGENT, http_client::USER_AGENT)
            .header(AUTHORIZATION, bearer);
        if let Some((header, version)) = self.api.version {
            request = request.header(header, version);
        }
        let request = request.body(Full::default());
        let request = request.map_err(|error| connection(&origin, io::Error::other(error)))?;
        let trust = Trust {
            file: None,
            setting: "the package ca-certificates",
        };
        let sent = timeout(PATIENCE, http_client::send(&url, trust, request, MAX_DELIVERY)).await;
        let (status, body) = sent
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map_err(|reason| connection(&origin, reason))?;
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return Err(ShopError::Forbidden {
                origin,
                status,
                path: self.settings.key_file.clone(),
                reads: self.api.reads,
            });
        }
        let answer = serde_json::from_slice(&body).ok().filter(Value::is_object);
        let code = |answer: &Value| {
            let code = answer.pointer("/error/code").and_then(Value::as_str);
            code.is_some_and(|code| self.api.not_found.contains(&code))
        };
        match answer {
            Some(answer) if status == StatusCode::OK => Ok(Some(answer)),
            Some(answer) if status == StatusCode::NOT_FOUND && code(&answer) => Ok(None),
            _ => Err(ShopError::Answer { origin, status }),
        }
    }

    /// The answers to questions in their order, asked one after the other.
    ///
    /// # Errors
    /// One has none.
    pub(super) async fn ask_all(&self, paths: &[String]) -> Result<Vec<Option<Value>>, ShopError> {
        let mut answers = Vec::new();
        for path in paths {
            answers.push(self.ask(path).await?);
        }
        Ok(answers)
    }

    /// The error of an answer that is about something else.
    pub(super) fn other_answer(&self) -> ShopError {
        let origin = self
            .settings
            .url
            .as_ref()
            .map(|url| url.as_url().origin().ascii_serialization());
        ShopError::Answer {
            origin: origin.unwrap_or_else(|| self.api.live.trim_end_matches('/').to_owned()),
            status: StatusCode::OK,
        }
    }
}

fn connection(origin: &str, reason: io::Error) -> ShopError {
    ShopError::Connection {
        origin: origin.to_owned(),
        reason,
    }
}
