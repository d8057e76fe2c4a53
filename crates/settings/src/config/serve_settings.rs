//! Table `[serve]`: settings of the server as given, each with its flag, its environment variable and its default.
//!
//! [`serve`](crate::config::serve) resolves them.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::str::FromStr;

use clap::ValueEnum;
use serde::Deserialize;

use crate::config::address::{self, AdminHost, AdminListen, Listen, Network};
use crate::config::public_url::PublicUrlSetting;
use crate::config::urls::ShopPage;
use crate::config::value::{self, PackageVendor, Setting};
use countersign_model::staging_hosts::StagingEntry;

pub(super) const LISTEN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8080));
pub(super) const ADMIN_LISTEN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8081));
pub(super) const GRACE_PERIOD_HOURS: u32 = 72;
pub(super) const SITE_MOVES: u32 = 5;
pub(super) const FOREIGN_KEYS: bool = false;
pub(super) const STAGING_SITES: u32 = 1;
pub(super) const LOCAL_HOSTS: LocalHosts = LocalHosts::Bind;
pub(super) const CUSTOMERS: CustomerRule = CustomerRule::Keep;
pub(super) const FIRST_COPIES: FirstCopyRule = FirstCopyRule::On;
pub(super) const REQUESTS_PER_MINUTE: NonZeroU32 = positive(6_000);
pub(super) const REQUESTS_PER_LICENSE: NonZeroU32 = positive(600);
pub(super) const FAILURES_PER_MINUTE: NonZeroU32 = positive(60);
pub(super) const DOWNLOADS_PER_LINK: NonZeroU32 = positive(20);
pub(super) const REQUESTS_PER_TOKEN: NonZeroU32 = positive(6_000);
pub(super) const PROXY_HOPS: NonZeroUsize = size(1);
pub(super) const MAX_CONNECTIONS: NonZeroUsize = size(4_096);
pub(super) const CONNECTIONS_PER_ADDRESS: NonZeroUsize = size(256);
pub(super) const SIGNING_QUEUE: NonZeroUsize = size(128);
pub(super) const TLS_HANDSHAKE_TIMEOUT_SECONDS: NonZeroU32 = positive(10);
pub(super) const HEADER_TIMEOUT_SECONDS: NonZeroU32 = positive(10);
pub(super) const IDLE_TIMEOUT_SECONDS: NonZeroU32 = positive(75);
pub(super) const REQUEST_TIMEOUT_SECONDS: NonZeroU32 = positive(10);
pub(super) const WRITE_TIMEOUT_SECONDS: NonZeroU32 = positive(10);
pub(super) const DRAIN_SECONDS: u32 = 10;
pub(super) const POLL_SECONDS: NonZeroU32 = positive(30);
pub(super) const LOG_FORMAT: LogFormat = LogFormat::Text;

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
    #[arg(long, env = "COUNTERSIGN_ADMIN_HOSTS", value_name = "NAME,...", value_delimiter = ',',
        help = value::with_default("Names by which health checks and metrics may be asked for, beside localhost and IP addresses", "none"))]
    #[serde(deserialize_with = "address::many")]
    pub admin_hosts: Option<Vec<AdminHost>>,
    #[arg(long, env = "COUNTERSIGN_ADMIN_SOCKET", value_name = "FILE",
        help = value::with_default("Unix socket on which the server answers commands, if not admin.sock in the store's folder", "none"))]
    #[serde(deserialize_with = "value::one")]
    pub admin_socket: Option<PathBuf>,
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
    #[arg(long, env = "COUNTERSIGN_SITE_MOVES", value_name = "N", value_parser = value::parse::<u32>,
        help = value::with_default("How often a license may move to another site in 30 days without the vendor", SITE_MOVES))]
    #[serde(deserialize_with = "value::one")]
    pub site_moves: Option<u32>,
    #[arg(long, env = "COUNTERSIGN_FOREIGN_KEYS", value_name = "BOOL", value_parser = value::parse::<bool>,
        help = value::with_default("Whether keys of another system work, if a license has their SHA-256 as its id", FOREIGN_KEYS))]
    #[serde(deserialize_with = "value::one")]
    pub foreign_keys: Option<bool>,
    #[arg(long, env = "COUNTERSIGN_STAGING_SITES", value_name = "N", value_parser = value::parse::<u32>,
        help = value::with_default("How many staging copies a license may bind without a seat: subdomains of its other sites, and sites on staging hosts", STAGING_SITES))]
    #[serde(deserialize_with = "value::one")]
    pub staging_sites: Option<u32>,
    #[arg(long, env = "COUNTERSIGN_STAGING_HOSTS", value_name = "PATTERN,...", value_delimiter = ',',
        help = value::with_default("Where a site is a staging copy, if its license has a site elsewhere: hosts, *.NAME for all under a name, or \"default\" for the list of web hosts", "default"))]
    #[serde(deserialize_with = "address::many")]
    pub staging_hosts: Option<Vec<StagingEntry>>,
    #[arg(long, env = "COUNTERSIGN_FIRST_COPIES", value_name = "RULE",
        help = value::with_default("Whether a buyer gets packages before a site is bound: by a link in the license mail, or by the key", value::name(FIRST_COPIES)))]
    #[serde(deserialize_with = "value::one")]
    pub first_copies: Option<FirstCopyRule>,
    #[arg(long, env = "COUNTERSIGN_COMPOSER", value_name = "VENDOR", value_parser = value::parse::<PackageVendor>,
        help = value::with_default("The vendor in the names of packages for Composer, under /composer", "none"))]
    #[serde(deserialize_with = "value::one")]
    pub composer: Option<PackageVendor>,
    #[arg(long, env = "COUNTERSIGN_CUSTOMERS", value_name = "RULE",
        help = value::with_default("Whether addresses and names of customers are kept, or only an HMAC of the address", value::name(CUSTOMERS)))]
    #[serde(deserialize_with = "value::one")]
    pub customers: Option<CustomerRule>,
    #[arg(long, env = "COUNTERSIGN_RENEW_URL", value_name = "URL", value_parser = value::parse::<ShopPage>,
        help = value::with_default("Where customers renew licenses whose offer does not say it; {token} is the license's renewal token", "none"))]
    #[serde(deserialize_with = "value::one")]
    pub renew_url: Option<ShopPage>,
    #[arg(long, env = "COUNTERSIGN_UPGRADE_URL", value_name = "URL", value_parser = value::parse::<ShopPage>,
        help = value::with_default("Where customers upgrade licenses whose offer does not say it; {token} is the license's renewal token", "none"))]
    #[serde(deserialize_with = "value::one")]
    pub upgrade_url: Option<ShopPage>,
    #[arg(long, env = "COUNTERSIGN_COMPAT", value_name = "SYSTEM,...", value_delimiter = ',',
        help = value::with_default("Other systems whose clients are answered: edd", "none"))]
    #[serde(deserialize_with = "address::many")]
    pub compat: Option<Vec<CompatProtocol>>,
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
    #[arg(long, env = "COUNTERSIGN_REQUESTS_PER_TOKEN", value_name = "N", value_parser = value::parse::<NonZeroU32>,
        help = value::with_default("Requests per minute with one token of the management API", REQUESTS_PER_TOKEN))]
    #[serde(deserialize_with = "value::one")]
    pub requests_per_token: Option<NonZeroU32>,
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

/// Whether there are first copies: packages for a buyer who has no bound site yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FirstCopyRule {
    /// The license mail has a link to a page with them, and whoever has the key gets some
    On,
    /// Only bound sites get packages
    Off,
}

/// What is kept of customers beside the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CustomerRule {
    /// Address and name
    Keep,
    /// Only an HMAC of the address: a customer is found by the whole address alone
    Hash,
}

/// A system whose clients are answered, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompatProtocol {
    /// Easy Digital Downloads' Software Licensing
    Edd,
}

impl FromStr for CompatProtocol {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        match text {
            "edd" => Ok(Self::Edd),
            _ => Err("expected \"edd\""),
        }
    }
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people
    Text,
    /// One JSON object per line
    Json,
}

impl Setting for LocalHosts {
    const EXPECTED: &'static str = "expected \"bind\", \"allow\" or \"refuse\"";

    fn from_text(text: &str) -> Option<Self> {
        clap::ValueEnum::from_str(text, false).ok()
    }
}

impl Setting for CustomerRule {
    const EXPECTED: &'static str = "expected \"keep\" or \"hash\"";

    fn from_text(text: &str) -> Option<Self> {
        clap::ValueEnum::from_str(text, false).ok()
    }
}

impl Setting for FirstCopyRule {
    const EXPECTED: &'static str = "expected \"on\" or \"off\"";

    fn from_text(text: &str) -> Option<Self> {
        clap::ValueEnum::from_str(text, false).ok()
    }
}

impl Setting for LogFormat {
    const EXPECTED: &'static str = "expected \"text\" or \"json\"";

    fn from_text(text: &str) -> Option<Self> {
        clap::ValueEnum::from_str(text, false).ok()
    }
}
