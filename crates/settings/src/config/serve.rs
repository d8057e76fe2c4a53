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
        // What the command line or the environment gives, then what the file has, then the default.
        macro_rules! setting {
            ($name:ident, $default:ident) => {
                given.$name.or(file.$name).unwrap_or(serve_settings::$default)
            };
        }
        macro_rules! seconds {
            ($name:ident, $default:ident) => {
                Duration::from_secs(setting!($name, $default).get().into())
            };
        }
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
            grace_period_hours: setting!(grace_period_hours, GRACE_PERIOD_HOURS),
            local_hosts: setting!(local_hosts, LOCAL_HOSTS),
            site_moves: setting!(site_moves, SITE_MOVES),
            foreign_keys: setting!(foreign_keys, FOREIGN_KEYS),
            staging: StagingRule {
                sites: setting!(staging_sites, STAGING_SITES),
                hosts: StagingHosts::of_setting(given.staging_hosts.as_deref().or(file.staging_hosts.as_deref())),
            },
            customers: setting!(customers, CUSTOMERS),
            first_copies: setting!(first_copies, FIRST_COPIES),
            composer: given.composer.clone().or(file.composer).and_then(PackageVendor::named),
            shop_links: ShopLinks {
                renew: given.renew_url.clone().or(file.renew_url).and_then(ShopPage::link),
                upgrade: given.upgrade_url.clone().or(file.upgrade_url).and_then(ShopPage::link),
            },
            compat: given.compat.clone().or(file.compat).unwrap_or_default(),
            requests_per_minute: setting!(requests_per_minute, REQUESTS_PER_MINUTE),
            requests_per_license: setting!(requests_per_license, REQUESTS_PER_LICENSE),
            failures_per_minute: setting!(failures_per_minute, FAILURES_PER_MINUTE),
            downloads_per_link: setting!(downloads_per_link, DOWNLOADS_PER_LINK),
            requests_per_token: setting!(requests_per_token, REQUESTS_PER_TOKEN),
            proxies: proxies.into_iter().map(|Network(network)| network).collect(),
            proxy_hops: setting!(proxy_hops, PROXY_HOPS),
            max_connections: setting!(max_connections, MAX_CONNECTIONS),
            connections_per_address: setting!(connections_per_address, CONNECTIONS_PER_ADDRESS),
            signing_queue: setting!(signing_queue, SIGNING_QUEUE),
            tls_handshake_timeout: seconds!(tls_handshake_timeout_seconds, TLS_HANDSHAKE_TIMEOUT_SECONDS),
            header_timeout: seconds!(header_timeout_seconds, HEADER_TIMEOUT_SECONDS),
            idle_timeout: seconds!(idle_timeout_seconds, IDLE_TIMEOUT_SECONDS),
            request_timeout: seconds!(request_timeout_seconds, REQUEST_TIMEOUT_SECONDS),
            write_timeout: seconds!(write_timeout_seconds, WRITE_TIMEOUT_SECONDS),
            drain: Duration::from_secs(setting!(drain_seconds, DRAIN_SECONDS).into()),
            poll: seconds!(poll_seconds, POLL_SECONDS),
            log_format: setting!(log_format, LOG_FORMAT),
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
