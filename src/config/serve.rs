//! Table `[serve]`: settings of the server, as given and as resolved.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use ipnet::IpNet;
use serde::Deserialize;
use toml::Value;

use crate::config::address::{self, AdminListen, Listen, Network};
use crate::config::error::ConfigError;
use crate::config::public_url::{PublicUrl, PublicUrlSetting};
use crate::config::value::{self, Setting};

const LISTEN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8080));
const ADMIN_LISTEN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8081));
const GRACE_PERIOD_HOURS: u32 = 72;
const LOCAL_HOSTS: LocalHosts = LocalHosts::Bind;
const REQUESTS_PER_MINUTE: NonZeroU32 = positive(6_000);
const REQUESTS_PER_LICENSE: NonZeroU32 = positive(600);
const FAILURES_PER_MINUTE: NonZeroU32 = positive(60);
const DOWNLOADS_PER_LINK: NonZeroU32 = positive(20);
const PROXY_HOPS: NonZeroUsize = size(1);
const MAX_CONNECTIONS: NonZeroUsize = size(4_096);
const CONNECTIONS_PER_ADDRESS: NonZeroUsize = size(256);
const SIGNING_QUEUE: NonZeroUsize = size(128);
const TLS_HANDSHAKE_TIMEOUT_SECONDS: NonZeroU32 = positive(10);
const HEADER_TIMEOUT_SECONDS: NonZeroU32 = positive(10);
const IDLE_TIMEOUT_SECONDS: NonZeroU32 = positive(75);
const REQUEST_TIMEOUT_SECONDS: NonZeroU32 = positive(10);
const WRITE_TIMEOUT_SECONDS: NonZeroU32 = positive(10);
const DRAIN_SECONDS: u32 = 10;
const POLL_SECONDS: NonZeroU32 = positive(30);
const LOG_FORMAT: LogFormat = LogFormat::Text;

/// A default of 0 does not compile.
const fn positive(number: u32) -> NonZeroU32 {
    match NonZeroU32::new(number) {
        Some(number) => number,
        None => panic!("a default is 0"),
    }
}

/// The same for other numbers.
const fn size(number: usize) -> NonZeroUsize {
    match NonZeroUsize::new(number) {
        Some(number) => number,
        None => panic!("a default is 0"),
    }
}

/// Table `[serve]`: settings of the server.
#[derive(clap::Args, Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(missing_docs, reason = "each has its help")]
pub struct ServeSettings {
    #[arg(long, env = "COUNTERSIGN_LISTEN", value_name = "ADDRESS",
        help = value::with_default("Address or name, and port, to listen on; :8080 listens on every address", LISTEN))]
    #[serde(deserialize_with = "address::one")]
    pub listen: Option<Listen>,
    #[arg(long, env = "COUNTERSIGN_ADMIN_LISTEN", value_name = "ADDRESS",
        help = value::with_default("Address for health checks and metrics, or \"off\"", ADMIN_LISTEN))]
    #[serde(deserialize_with = "address::one")]
    pub admin_listen: Option<AdminListen>,
    #[arg(long, env = "COUNTERSIGN_PUBLIC_URL", value_name = "URL", value_parser = value::parse::<PublicUrlSetting>,
        help = value::with_default("Where sites reach this server: what links to packages begin with", "none"))]
    #[serde(deserialize_with = "value::one")]
    pub public_url: Option<PublicUrlSetting>,
    #[arg(long, env = "COUNTERSIGN_TLS_CERTIFICATE", value_name = "FILE",
        help = value::with_default("Certificate chain in PEM, the server's own certificate first; turns TLS on", "none"))]
    #[serde(deserialize_with = "value::one")]
    pub tls_certificate: Option<PathBuf>,
    #[arg(long, env = "COUNTERSIGN_TLS_KEY", value_name = "FILE",
        help = value::with_default("The certificate's private key: PEM, mode 0600", "none"))]
    #[serde(deserialize_with = "value::one")]
    pub tls_key: Option<PathBuf>,
    #[arg(long, env = "COUNTERSIGN_GRACE_PERIOD_HOURS", value_name = "HOURS", value_parser = value::parse::<u32>,
        help = value::with_default("Hours that a site may go on without an answer, unless its license has its own value", GRACE_PERIOD_HOURS))]
    #[serde(deserialize_with = "value::one")]
    pub grace_period_hours: Option<u32>,
    #[arg(long, env = "COUNTERSIGN_LOCAL_HOSTS", value_name = "RULE",
        help = value::with_default("How to treat sites on localhost and private networks", value::name(LOCAL_HOSTS)))]
    #[serde(deserialize_with = "value::one")]
    pub local_hosts: Option<LocalHosts>,
    #[arg(long, env = "COUNTERSIGN_REQUESTS_PER_MINUTE", value_name = "N", value_parser = value::parse::<NonZeroU32>,
        help = value::with_default("Requests per minute from one address; a malformed one counts as ten", REQUESTS_PER_MINUTE))]
    #[serde(deserialize_with = "value::one")]
    pub requests_per_minute: Option<NonZeroU32>,
    #[arg(long, env = "COUNTERSIGN_REQUESTS_PER_LICENSE", value_name = "N", value_parser = value::parse::<NonZeroU32>,
        help = value::with_default("Requests per minute about one license, from all addresses together", REQUESTS_PER_LICENSE))]
    #[serde(deserialize_with = "value::one")]
    pub requests_per_license: Option<NonZeroU32>,
    #[arg(long, env = "COUNTERSIGN_FAILURES_PER_MINUTE", value_name = "N", value_parser = value::parse::<NonZeroU32>,
        help = value::with_default("Wrong license keys per minute from one address; after that it is refused for a while", FAILURES_PER_MINUTE))]
    #[serde(deserialize_with = "value::one")]
    pub failures_per_minute: Option<NonZeroU32>,
    #[arg(long, env = "COUNTERSIGN_DOWNLOADS_PER_LINK", value_name = "N", value_parser = value::parse::<NonZeroU32>,
        help = value::with_default("How often one link gives its package in an hour, in bytes: parts of it count as parts", DOWNLOADS_PER_LINK))]
    #[serde(deserialize_with = "value::one")]
    pub downloads_per_link: Option<NonZeroU32>,
    #[arg(long, env = "COUNTERSIGN_PROXIES", value_name = "NETWORK,...", value_delimiter = ',',
        help = value::with_default("Addresses or networks of your proxies, whose X-Forwarded-For the server trusts", "none"))]
    #[serde(deserialize_with = "address::many")]
    pub proxies: Option<Vec<Network>>,
    #[arg(long, env = "COUNTERSIGN_PROXY_HOPS", value_name = "N", value_parser = value::parse::<NonZeroUsize>,
        help = value::with_default("Number of proxies that a request passes; the client is that many entries from the right", PROXY_HOPS))]
    #[serde(deserialize_with = "value::one")]
    pub proxy_hops: Option<NonZeroUsize>,
    #[arg(long, env = "COUNTERSIGN_MAX_CONNECTIONS", value_name = "N", value_parser = value::parse::<NonZeroUsize>,
        help = value::with_default("Open connections; for one more, the server closes the one that has been idle longest", MAX_CONNECTIONS))]
    #[serde(deserialize_with = "value::one")]
    pub max_connections: Option<NonZeroUsize>,
    #[arg(long, env = "COUNTERSIGN_CONNECTIONS_PER_ADDRESS", value_name = "N", value_parser = value::parse::<NonZeroUsize>,
        help = value::with_default("Open connections from one address; proxies are exempt", CONNECTIONS_PER_ADDRESS))]
    #[serde(deserialize_with = "value::one")]
    pub connections_per_address: Option<NonZeroUsize>,
    #[arg(long, env = "COUNTERSIGN_SIGNING_QUEUE", value_name = "N", value_parser = value::parse::<NonZeroUsize>,
        help = value::with_default("Statements that may wait for a signature; further validations get 503", SIGNING_QUEUE))]
    #[serde(deserialize_with = "value::one")]
    pub signing_queue: Option<NonZeroUsize>,
    #[arg(long, env = "COUNTERSIGN_TLS_HANDSHAKE_TIMEOUT_SECONDS", value_name = "SECONDS", value_parser = value::parse::<NonZeroU32>,
        help = value::with_default("Seconds for a TLS handshake", TLS_HANDSHAKE_TIMEOUT_SECONDS))]
    #[serde(deserialize_with = "value::one")]
    pub tls_handshake_timeout_seconds: Option<NonZeroU32>,
    #[arg(long, env = "COUNTERSIGN_HEADER_TIMEOUT_SECONDS", value_name = "SECONDS", value_parser = value::parse::<NonZeroU32>,
        help = value::with_default("Seconds for the head of a request to arrive", HEADER_TIMEOUT_SECONDS))]
    #[serde(deserialize_with = "value::one")]
    pub header_timeout_seconds: Option<NonZeroU32>,
    #[arg(long, env = "COUNTERSIGN_IDLE_TIMEOUT_SECONDS", value_name = "SECONDS", value_parser = value::parse::<NonZeroU32>,
        help = value::with_default("Seconds that a connection may wait for its next request", IDLE_TIMEOUT_SECONDS))]
    #[serde(deserialize_with = "value::one")]
    pub idle_timeout_seconds: Option<NonZeroU32>,
    #[arg(long, env = "COUNTERSIGN_REQUEST_TIMEOUT_SECONDS", value_name = "SECONDS", value_parser = value::parse::<NonZeroU32>,
        help = value::with_default("Seconds from the head of a request to its answer, including body and signature", REQUEST_TIMEOUT_SECONDS))]
    #[serde(deserialize_with = "value::one")]
    pub request_timeout_seconds: Option<NonZeroU32>,
    #[arg(long, env = "COUNTERSIGN_WRITE_TIMEOUT_SECONDS", value_name = "SECONDS", value_parser = value::parse::<NonZeroU32>,
        help = value::with_default("Seconds that a client may read nothing of its answer", WRITE_TIMEOUT_SECONDS))]
    #[serde(deserialize_with = "value::one")]
    pub write_timeout_seconds: Option<NonZeroU32>,
    #[arg(long, env = "COUNTERSIGN_DRAIN_SECONDS", value_name = "SECONDS", value_parser = value::parse::<u32>,
        help = value::with_default("Seconds for open requests to finish after SIGTERM", DRAIN_SECONDS))]
    #[serde(deserialize_with = "value::one")]
    pub drain_seconds: Option<u32>,
    #[arg(long, env = "COUNTERSIGN_POLL_SECONDS", value_name = "SECONDS", value_parser = value::parse::<NonZeroU32>,
        help = value::with_default("Seconds between checks of the files, for changes that the system does not report", POLL_SECONDS))]
    #[serde(deserialize_with = "value::one")]
    pub poll_seconds: Option<NonZeroU32>,
    #[arg(long, env = "COUNTERSIGN_LOG_FORMAT", value_name = "FORMAT",
        help = value::with_default("Format of the log lines on stderr", value::name(LOG_FORMAT)))]
    #[serde(deserialize_with = "value::one")]
    pub log_format: Option<LogFormat>,
}

/// How to treat a site that only its own network can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LocalHosts {
    /// Treat it like any site
    Bind,
    /// Send a valid statement, but bind nothing and offer no updates
    Allow,
    /// Refuse its address as malformed, with the reason `local_host`
    Refuse,
}

/// The files of the server's TLS certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain, PEM.
    pub certificate: PathBuf,
    /// The private key, PEM.
    pub key: PathBuf,
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people
    Text,
    /// One JSON object per line
    Json,
}

/// The resolved settings of `[serve]`.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "each is the setting of the same name in ServeSettings")]
pub struct ServeConfig {
    pub listen: Listen,
    pub admin_listen: AdminListen,
    pub public_url: Option<PublicUrl>,
    pub tls_certificate: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    pub grace_period_hours: u32,
    pub local_hosts: LocalHosts,
    pub requests_per_minute: NonZeroU32,
    pub requests_per_license: NonZeroU32,
    pub failures_per_minute: NonZeroU32,
    pub downloads_per_link: NonZeroU32,
    pub proxies: Vec<IpNet>,
    pub proxy_hops: NonZeroUsize,
    pub max_connections: NonZeroUsize,
    pub connections_per_address: NonZeroUsize,
    pub signing_queue: NonZeroUsize,
    pub tls_handshake_timeout: Duration,
    pub header_timeout: Duration,
    pub idle_timeout: Duration,
    pub request_timeout: Duration,
    pub write_timeout: Duration,
    pub drain: Duration,
    pub poll: Duration,
    pub log_format: LogFormat,
}

impl ServeConfig {
    /// What links to packages begin with: the setting, or the address itself where only this machine reaches it.
    pub fn links_begin_with(&self) -> Option<PublicUrl> {
        let tls = self.tls_certificate.is_some();
        self.public_url
            .clone()
            .or_else(|| PublicUrl::of_loopback(&self.listen, tls))
    }

    /// The certificate and key for TLS; `None` without TLS.
    ///
    /// # Errors
    /// [`ConfigError::HalfOfTls`].
    pub fn tls(&self) -> Result<Option<TlsFiles>, ConfigError> {
        match (self.tls_certificate.clone(), self.tls_key.clone()) {
            (Some(certificate), Some(key)) => Ok(Some(TlsFiles { certificate, key })),
            (None, None) => Ok(None),
            (Some(_), None) => Err(ConfigError::HalfOfTls {
                given: "tls_certificate",
                missing: "tls_key",
            }),
            (None, Some(_)) => Err(ConfigError::HalfOfTls {
                given: "tls_key",
                missing: "tls_certificate",
            }),
        }
    }

    /// Takes what the command line and the environment give, then what the file in `instance` has.
    pub(super) fn merge(instance: &Path, given: &ServeSettings, file: ServeSettings) -> Self {
        let seconds = |given: Option<NonZeroU32>, file: Option<NonZeroU32>, default: NonZeroU32| {
            Duration::from_secs(given.or(file).unwrap_or(default).get().into())
        };
        // An empty path means none, so that a flag or a variable can remove the one in the file.
        let path = |given: &Option<PathBuf>, file: Option<PathBuf>| {
            let is_set = |path: &PathBuf| !path.as_os_str().is_empty();
            let path = given
                .clone()
                .or_else(|| file.filter(is_set).map(|path| instance.join(path)));
            path.filter(is_set)
        };
        let proxies = given.proxies.clone().or(file.proxies).unwrap_or_default();
        Self {
            listen: given.listen.clone().or(file.listen).unwrap_or_else(|| LISTEN.into()),
            admin_listen: given
                .admin_listen
                .or(file.admin_listen)
                .unwrap_or(AdminListen::At(ADMIN_LISTEN)),
            public_url: given
                .public_url
                .clone()
                .or(file.public_url)
                .and_then(PublicUrlSetting::url),
            tls_certificate: path(&given.tls_certificate, file.tls_certificate),
            tls_key: path(&given.tls_key, file.tls_key),
            grace_period_hours: given
                .grace_period_hours
                .or(file.grace_period_hours)
                .unwrap_or(GRACE_PERIOD_HOURS),
            local_hosts: given.local_hosts.or(file.local_hosts).unwrap_or(LOCAL_HOSTS),
            requests_per_minute: given
                .requests_per_minute
                .or(file.requests_per_minute)
                .unwrap_or(REQUESTS_PER_MINUTE),
            requests_per_license: given
                .requests_per_license
                .or(file.requests_per_license)
                .unwrap_or(REQUESTS_PER_LICENSE),
            failures_per_minute: given
                .failures_per_minute
                .or(file.failures_per_minute)
                .unwrap_or(FAILURES_PER_MINUTE),
            downloads_per_link: given
                .downloads_per_link
                .or(file.downloads_per_link)
                .unwrap_or(DOWNLOADS_PER_LINK),
            proxies: proxies.into_iter().map(|Network(network)| network).collect(),
            proxy_hops: given.proxy_hops.or(file.proxy_hops).unwrap_or(PROXY_HOPS),
            max_connections: given
                .max_connections
                .or(file.max_connections)
                .unwrap_or(MAX_CONNECTIONS),
            connections_per_address: given
                .connections_per_address
                .or(file.connections_per_address)
                .unwrap_or(CONNECTIONS_PER_ADDRESS),
            signing_queue: given.signing_queue.or(file.signing_queue).unwrap_or(SIGNING_QUEUE),
            tls_handshake_timeout: seconds(
                given.tls_handshake_timeout_seconds,
                file.tls_handshake_timeout_seconds,
                TLS_HANDSHAKE_TIMEOUT_SECONDS,
            ),
            header_timeout: seconds(
                given.header_timeout_seconds,
                file.header_timeout_seconds,
                HEADER_TIMEOUT_SECONDS,
            ),
            idle_timeout: seconds(
                given.idle_timeout_seconds,
                file.idle_timeout_seconds,
                IDLE_TIMEOUT_SECONDS,
            ),
            request_timeout: seconds(
                given.request_timeout_seconds,
                file.request_timeout_seconds,
                REQUEST_TIMEOUT_SECONDS,
            ),
            write_timeout: seconds(
                given.write_timeout_seconds,
                file.write_timeout_seconds,
                WRITE_TIMEOUT_SECONDS,
            ),
            drain: Duration::from_secs(
                given
                    .drain_seconds
                    .or(file.drain_seconds)
                    .unwrap_or(DRAIN_SECONDS)
                    .into(),
            ),
            poll: seconds(given.poll_seconds, file.poll_seconds, POLL_SECONDS),
            log_format: given.log_format.or(file.log_format).unwrap_or(LOG_FORMAT),
        }
    }
}

impl Setting for LocalHosts {
    const EXPECTED: &'static str = "expected \"bind\", \"allow\" or \"refuse\"";

    fn from_text(text: &str) -> Option<Self> {
        clap::ValueEnum::from_str(text, false).ok()
    }

    fn from_value(value: &Value) -> Option<Self> {
        Self::from_text(value.as_str()?)
    }
}

impl Setting for LogFormat {
    const EXPECTED: &'static str = "expected \"text\" or \"json\"";

    fn from_text(text: &str) -> Option<Self> {
        clap::ValueEnum::from_str(text, false).ok()
    }

    fn from_value(value: &Value) -> Option<Self> {
        Self::from_text(value.as_str()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_goes_before_the_file_and_a_path_in_the_file_is_relative_to_it() {
        let given = ServeSettings {
            tls_key: Some("key.pem".into()),
            ..ServeSettings::default()
        };
        let file = toml::from_str("admin_listen = \"off\"\ntls_certificate = \"a.pem\"\ntls_key = \"b.pem\"").unwrap();
        let config = ServeConfig::merge(Path::new("/srv"), &given, file);
        let files = TlsFiles {
            certificate: "/srv/a.pem".into(),
            key: "key.pem".into(),
        };
        assert_eq!(
            (config.admin_listen, config.tls().unwrap()),
            (AdminListen::Off, Some(files))
        );
    }

    #[test]
    fn an_empty_path_is_none() {
        let given = ServeSettings {
            tls_key: Some("".into()),
            ..ServeSettings::default()
        };
        let file = toml::from_str("tls_certificate = \"\"\ntls_key = \"b.pem\"").unwrap();
        assert_eq!(ServeConfig::merge(Path::new("/srv"), &given, file).tls().unwrap(), None);
    }

    #[test]
    fn half_of_tls_is_an_error_that_names_the_other_half() {
        let file = toml::from_str("tls_key = \"b.pem\"").unwrap();
        let config = ServeConfig::merge(Path::new(""), &ServeSettings::default(), file);
        assert_eq!(
            config.tls().unwrap_err().to_string(),
            "tls_key is set, but tls_certificate is not"
        );
    }
}
