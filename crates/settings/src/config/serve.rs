//! Settings of the server, as resolved. [`serve_settings`] has them as given, and their defaults.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;

use crate::config::address::{AdminHost, AdminListen, Listen, Network};
use crate::config::error::ConfigError;
use crate::config::public_url::{PublicUrl, PublicUrlSetting};
use crate::config::serve_settings::{
    self, CompatProtocol, CustomerRule, FirstCopyRule, LocalHosts, LogFormat, ServeSettings,
};
use crate::config::urls::ShopPage;
use crate::config::value::PackageVendor;
use countersign_model::shop_link::ShopLinks;
use countersign_model::slug::Slug;
use countersign_model::staging_hosts::{StagingHosts, StagingRule};

/// The files of the server's TLS certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain, PEM.
    pub certificate: PathBuf,
    /// The private key, PEM.
    pub key: PathBuf,
}

/// The server's settings about seats.
#[derive(Clone, Debug)]
pub struct SeatRules {
    /// How hosts on private networks are treated.
    pub local_hosts: LocalHosts,
    /// How often a license may move in 30 days by itself.
    pub site_moves: u32,
    /// Which sites of a license are staging copies, and how many of them need no seat.
    pub staging: StagingRule,
}

/// The resolved settings of `[serve]`.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "each is the setting of the same name in ServeSettings")]
pub struct ServeConfig {
    pub listen: Listen,
    pub admin_listen: AdminListen,
    pub admin_hosts: Vec<AdminHost>,
    pub admin_socket: Option<PathBuf>,
    pub public_url: Option<PublicUrl>,
    pub tls_certificate: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    pub grace_period_hours: u32,
    pub local_hosts: LocalHosts,
    pub site_moves: u32,
    pub foreign_keys: bool,
    /// `staging_sites` and `staging_hosts`.
    pub staging: StagingRule,
    pub first_copies: FirstCopyRule,
    pub composer: Option<Slug>,
    /// Where licenses are renewed and upgraded whose offer does not say it.
    pub shop_links: ShopLinks,
    pub customers: CustomerRule,
    pub compat: Vec<CompatProtocol>,
    pub requests_per_minute: NonZeroU32,
    pub requests_per_license: NonZeroU32,
    pub failures_per_minute: NonZeroU32,
    pub downloads_per_link: NonZeroU32,
    pub requests_per_token: NonZeroU32,
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

    /// The settings about seats.
    pub fn seat_rules(&self) -> SeatRules {
        SeatRules {
            local_hosts: self.local_hosts,
            site_moves: self.site_moves,
            staging: self.staging.clone(),
        }
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
            listen: given
                .listen
                .clone()
                .or(file.listen)
                .unwrap_or_else(|| serve_settings::LISTEN.into()),
            admin_listen: given
                .admin_listen
                .or(file.admin_listen)
                .unwrap_or(AdminListen::At(serve_settings::ADMIN_LISTEN)),
            admin_hosts: given.admin_hosts.clone().or(file.admin_hosts).unwrap_or_default(),
            admin_socket: path(&given.admin_socket, file.admin_socket),
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
                .unwrap_or(serve_settings::GRACE_PERIOD_HOURS),
            local_hosts: given
                .local_hosts
                .or(file.local_hosts)
                .unwrap_or(serve_settings::LOCAL_HOSTS),
            site_moves: given
                .site_moves
                .or(file.site_moves)
                .unwrap_or(serve_settings::SITE_MOVES),
            foreign_keys: given
                .foreign_keys
                .or(file.foreign_keys)
                .unwrap_or(serve_settings::FOREIGN_KEYS),
            staging: StagingRule {
                sites: given
                    .staging_sites
                    .or(file.staging_sites)
                    .unwrap_or(serve_settings::STAGING_SITES),
                hosts: StagingHosts::of_setting(given.staging_hosts.as_deref().or(file.staging_hosts.as_deref())),
            },
            customers: given.customers.or(file.customers).unwrap_or(serve_settings::CUSTOMERS),
            first_copies: given
                .first_copies
                .or(file.first_copies)
                .unwrap_or(serve_settings::FIRST_COPIES),
            composer: given.composer.clone().or(file.composer).and_then(PackageVendor::named),
            shop_links: ShopLinks {
                renew: given.renew_url.clone().or(file.renew_url).and_then(ShopPage::link),
                upgrade: given.upgrade_url.clone().or(file.upgrade_url).and_then(ShopPage::link),
            },
            compat: given.compat.clone().or(file.compat).unwrap_or_default(),
            requests_per_minute: given
                .requests_per_minute
                .or(file.requests_per_minute)
                .unwrap_or(serve_settings::REQUESTS_PER_MINUTE),
            requests_per_license: given
                .requests_per_license
                .or(file.requests_per_license)
                .unwrap_or(serve_settings::REQUESTS_PER_LICENSE),
            failures_per_minute: given
                .failures_per_minute
                .or(file.failures_per_minute)
                .unwrap_or(serve_settings::FAILURES_PER_MINUTE),
            downloads_per_link: given
                .downloads_per_link
                .or(file.downloads_per_link)
                .unwrap_or(serve_settings::DOWNLOADS_PER_LINK),
            requests_per_token: given
                .requests_per_token
                .or(file.requests_per_token)
                .unwrap_or(serve_settings::REQUESTS_PER_TOKEN),
            proxies: proxies.into_iter().map(|Network(network)| network).collect(),
            proxy_hops: given
                .proxy_hops
                .or(file.proxy_hops)
                .unwrap_or(serve_settings::PROXY_HOPS),
            max_connections: given
                .max_connections
                .or(file.max_connections)
                .unwrap_or(serve_settings::MAX_CONNECTIONS),
            connections_per_address: given
                .connections_per_address
                .or(file.connections_per_address)
                .unwrap_or(serve_settings::CONNECTIONS_PER_ADDRESS),
            signing_queue: given
                .signing_queue
                .or(file.signing_queue)
                .unwrap_or(serve_settings::SIGNING_QUEUE),
            tls_handshake_timeout: seconds(
                given.tls_handshake_timeout_seconds,
                file.tls_handshake_timeout_seconds,
                serve_settings::TLS_HANDSHAKE_TIMEOUT_SECONDS,
            ),
            header_timeout: seconds(
                given.header_timeout_seconds,
                file.header_timeout_seconds,
                serve_settings::HEADER_TIMEOUT_SECONDS,
            ),
            idle_timeout: seconds(
                given.idle_timeout_seconds,
                file.idle_timeout_seconds,
                serve_settings::IDLE_TIMEOUT_SECONDS,
            ),
            request_timeout: seconds(
                given.request_timeout_seconds,
                file.request_timeout_seconds,
                serve_settings::REQUEST_TIMEOUT_SECONDS,
            ),
            write_timeout: seconds(
                given.write_timeout_seconds,
                file.write_timeout_seconds,
                serve_settings::WRITE_TIMEOUT_SECONDS,
            ),
            drain: Duration::from_secs(
                given
                    .drain_seconds
                    .or(file.drain_seconds)
                    .unwrap_or(serve_settings::DRAIN_SECONDS)
                    .into(),
            ),
            poll: seconds(given.poll_seconds, file.poll_seconds, serve_settings::POLL_SECONDS),
            log_format: given
                .log_format
                .or(file.log_format)
                .unwrap_or(serve_settings::LOG_FORMAT),
        }
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
