//! Asks a shop for the address of a customer. Paddle's deliveries name only the customer
//! (<https://developer.paddle.com/api-reference/customers/get-customer>).

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use http_body_util::Full;
use hyper::header::{AUTHORIZATION, HOST, HeaderValue, USER_AGENT};
use hyper::{Request, StatusCode};
use serde::Deserialize;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use url::Url;

use countersign_mail::address::MailAddress;
use countersign_model::offer::SalesMode;
use countersign_settings::config::{ShopApi, ShopConfig};
use countersign_settings::http_client::{self, Trust};
use countersign_settings::keys::service_secrets::ServiceSecretError;
use countersign_settings::keys::shop_secrets;

/// Where Paddle has it.
const LIVE: &str = "https://api.paddle.com/";
const SANDBOX: &str = "https://sandbox-api.paddle.com/";

/// How long one question may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Paddle's code of an answer 404 that says that there is no such customer (<https://developer.paddle.com/errors/shared>). A
/// proxy's 404 has none.
const NO_CUSTOMER: [&str; 2] = ["entity_not_found", "not_found"];

/// What of an answer is read, in bytes. A customer has some hundreds.
const MAX_ANSWER: usize = 64 << 10;

/// The longest id of a customer that is asked for: "ctm_" and 26 letters and digits, and room.
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
    api: ShopApi,
    is_sandbox: bool,
}

#[derive(Deserialize)]
struct ErrorDocument {
    error: ErrorCode,
}

#[derive(Deserialize)]
struct ErrorCode {
    code: String,
}

#[derive(Deserialize)]
struct CustomerDocument {
    data: Customer,
}

#[derive(Deserialize)]
struct Customer {
    id: String,
    email: String,
}

impl Customers {
    /// Those of a shop with an API key. Checks the file, which is read again for each question.
    ///
    /// # Errors
    /// The key is unusable.
    pub(super) fn open(shop: &ShopConfig) -> Result<Option<Self>, ServiceSecretError> {
        let Some(api) = &shop.api else { return Ok(None) };
        shop_secrets::read_api_key(&api.key_file)?;
        Ok(Some(Self {
            api: api.clone(),
            is_sandbox: shop.mode == Some(SalesMode::Test),
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
        let base = match &self.api.url {
            Some(url) => url.as_url().as_str(),
            None if self.is_sandbox => SANDBOX,
            None => LIVE,
        };
        let url = Url::parse(&format!("{}/customers/{id}", base.trim_end_matches('/')));
        let url = url.map_err(|error| connection(base, io::Error::other(error)))?;
        let origin = url.origin().ascii_serialization();
        let file = self.api.key_file.clone();
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
        match status {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND if is_of_no_customer(&body) => return Ok(None),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let path = self.api.key_file.clone();
                return Err(CustomerError::Forbidden { origin, status, path });
            }
            _ => return Err(CustomerError::Answer { origin, status }),
        }
        match serde_json::from_slice::<CustomerDocument>(&body) {
            Ok(CustomerDocument { data }) if data.id == id => Ok(data.email.parse().ok()),
            _ => Err(CustomerError::Answer { origin, status }),
        }
    }
}

fn is_of_no_customer(body: &[u8]) -> bool {
    let document = serde_json::from_slice::<ErrorDocument>(body);
    document.is_ok_and(|document| NO_CUSTOMER.contains(&document.error.code.as_str()))
}

fn connection(origin: &str, reason: io::Error) -> CustomerError {
    CustomerError::Connection {
        origin: origin.to_owned(),
        reason,
    }
}
