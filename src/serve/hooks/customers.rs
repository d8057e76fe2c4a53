//! Asks a shop for the address of a customer, if its deliveries have only the customer's id. [`CustomerApi`] declares how.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use http_body_util::Full;
use hyper::header::{AUTHORIZATION, HOST, HeaderValue, USER_AGENT};
use hyper::{Request, StatusCode};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use url::Url;

use countersign_mail::address::MailAddress;
use countersign_model::offer::SalesMode;
use countersign_settings::config::{ShopApi, ShopConfig};
use countersign_settings::http_client::{self, Trust};
use countersign_settings::keys::service_secrets::ServiceSecretError;
use countersign_settings::keys::shop_secrets;
use countersign_shops::shop::{CustomerApi, NotACustomer};

/// How long one question may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What of an answer is read, in bytes. A customer has some hundreds.
const MAX_ANSWER: usize = 64 << 10;

/// The longest id of a customer that is asked for. Paddle's are "ctm_" and 26 letters and digits.
const MAX_ID: usize = 64;

/// Why an address is not known. Says nothing of the customer.
#[derive(Debug, thiserror::Error)]
pub enum CustomerError {
    /// The API key cannot be read.
    #[error(transparent)]
    Key(#[from] ServiceSecretError),
    /// The shop cannot be asked.
    #[error("{origin} cannot be asked for the buyer's address: {reason}")]
    Connection {
        /// Scheme, host and port.
        origin: String,
        /// Why. Part of the message, so it is not a source.
        reason: io::Error,
    },
    /// The shop refuses the key.
    #[error("{origin} answered {status}: the API key in {} may not read customers", path.display())]
    Forbidden {
        /// Scheme, host and port.
        origin: String,
        /// 401 or 403.
        status: StatusCode,
        /// The file with the key.
        path: PathBuf,
    },
    /// The answer is not a customer.
    #[error("{origin} answered {status} and no address of the buyer")]
    Answer {
        /// Scheme, host and port.
        origin: String,
        /// The status.
        status: StatusCode,
    },
    /// The question failed in a way that this program does not expect.
    #[error("the question for the buyer's address failed; the log says why")]
    Panic,
    /// The shop was asked and did not answer yet, or is asked soon.
    #[error("the buyer's address is not known yet")]
    Later,
}

/// The customers of a shop that is asked for their addresses.
#[derive(Debug)]
pub struct Customers {
    settings: ShopApi,
    api: &'static CustomerApi,
    is_test: bool,
}

impl Customers {
    /// Those of a shop with an API key. Checks the file, which is read again for each question.
    ///
    /// # Errors
    /// The key is unusable.
    pub(super) fn open(shop: &ShopConfig) -> Result<Option<Self>, ServiceSecretError> {
        let (Some(settings), Some(api)) = (&shop.api, &shop.kind.customer_api) else {
            return Ok(None);
        };
        shop_secrets::read_api_key(&settings.key_file)?;
        Ok(Some(Self {
            settings: settings.clone(),
            api,
            is_test: shop.mode == Some(SalesMode::Test),
        }))
    }

    /// The address of a customer; `None` if there is no such customer, or none with an address.
    ///
    /// # Errors
    /// It is to be asked again.
    pub(super) async fn address(&self, id: &str) -> Result<Option<MailAddress>, CustomerError> {
        // SECURITY: it is a part of the path.
        if id.len() > MAX_ID || !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Ok(None);
        }
        let base = match &self.settings.url {
            Some(url) => url.as_url().as_str(),
            None if self.is_test => self.api.test,
            None => self.api.live,
        };
        let url = Url::parse(&format!("{}/{}/{id}", base.trim_end_matches('/'), self.api.path));
        let url = url.map_err(|error| connection(base, io::Error::other(error)))?;
        let origin = url.origin().ascii_serialization();
        let file = self.settings.key_file.clone();
        let key = spawn_blocking(move || shop_secrets::read_api_key(&file)).await;
        let key = key.map_err(|error| connection(&origin, io::Error::other(error)))??;
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", key.as_str()))
            .map_err(|error| connection(&origin, io::Error::other(error)))?;
        bearer.set_sensitive(true);
        let request = Request::get(http_client::path(&url))
            .header(HOST, http_client::host(&url))
            .header(USER_AGENT, http_client::USER_AGENT)
            .header(AUTHORIZATION, bearer)
            .body(Full::default());
        let request = request.map_err(|error| connection(&origin, io::Error::other(error)))?;
        let trust = Trust {
            file: None,
            setting: "the package ca-certificates",
        };
        let sent = timeout(PATIENCE, http_client::send(&url, trust, request, MAX_ANSWER)).await;
        let (status, body) = sent
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map_err(|reason| connection(&origin, reason))?;
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            let path = self.settings.key_file.clone();
            return Err(CustomerError::Forbidden { origin, status, path });
        }
        let address = (self.api.read)(id, status.as_u16(), &body);
        let address = address.map_err(|NotACustomer| CustomerError::Answer { origin, status })?;
        Ok(address.and_then(|address| address.parse().ok()))
    }
}

fn connection(origin: &str, reason: io::Error) -> CustomerError {
    CustomerError::Connection {
        origin: origin.to_owned(),
        reason,
    }
}
