//! Configuration: `countersign.toml`, then environment, then flags, merged once into a [`Config`].
//!
//! [`PathSettings`], [`KeySettings`] and [`ServeSettings`] are each declared once, for the file, the flags and the
//! environment variables. The rest of the program sees only `Config`.

mod account;
mod address;
mod build;
mod desk;
mod environment;
mod error;
mod keys;
mod mail;
mod paths;
mod public_url;
mod serve;
mod serve_settings;
mod shops;
mod store;
mod tables;
mod urls;
mod value;
mod webhooks;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::de::DeTable;

use countersign_files::regular_file;
use countersign_model::reminder::ReminderRule;
use countersign_model::slug::Slug;
use countersign_model::text::{did_you_mean, short_message, toml_error};

use account::AccountSettings;
use desk::DeskSettings;
use mail::MailSettings;
use shops::ShopTable;
use tables::{SettingsTable as _, Variables};
use webhooks::WebhookTable;

pub use account::AccountConfig;
pub use address::{AdminHost, AdminListen, Listen, Network};
pub use build::{BuildConfig, BuildSettings};
pub use desk::{DeskConfig, DeskUrl};
pub use environment::{unknown_variables, variables};
pub use error::ConfigError;
pub use keys::{KeySettings, KeysConfig};
pub use mail::{MailConfig, MailTls};
pub use paths::{FILE, PathSettings, Paths};
pub use public_url::{PublicUrl, PublicUrlSetting};
pub use serve::{SeatRules, ServeConfig, TlsFiles};
pub use serve_settings::{CompatProtocol, CustomerRule, FirstCopyRule, LocalHosts, LogFormat, ServeSettings};
pub use shops::{ApiSettings, KeyIssuer, ShopConfig};
pub use store::{StoreConfig, StoreSettings, Synchronous};
pub use urls::ServiceUrl;
pub use value::parse;
pub use webhooks::WebhookConfig;

/// The tables of a configuration file.
const TABLES: [&str; 10] = [
    "paths", "keys", "store", "build", "serve", "shops", "mail", "webhooks", "desk", "account",
];

/// The name of the socket on which the server answers commands.
const ADMIN_SOCKET: &str = "admin.sock";

/// Size limit of a configuration file in bytes.
const MAX_CONFIG: u64 = 1 << 20;

/// Every setting, resolved.
#[derive(Clone, Debug)]
pub struct Config {
    /// Paths of the instance's parts.
    pub paths: Paths,
    /// What happens to retired keys.
    pub keys: KeysConfig,
    /// The database of a shared ledger.
    pub store: StoreConfig,
    /// Settings of builds.
    pub build: BuildConfig,
    /// Settings of the server.
    pub serve: ServeConfig,
    /// Shops whose deliveries the server takes.
    pub shops: Vec<ShopConfig>,
    /// The mail server, if there is one.
    pub mail: Option<MailConfig>,
    /// When customers are reminded of the end of their licenses; never, if it has no days.
    pub reminders: ReminderRule,
    /// Endpoints that receive events.
    pub webhooks: Vec<WebhookConfig>,
    /// The vendor's page, if there is one.
    pub desk: Option<DeskConfig>,
    /// The customer's page, if there is one.
    pub account: Option<AccountConfig>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ConfigFile {
    paths: PathSettings,
    keys: KeySettings,
    store: StoreSettings,
    build: BuildSettings,
    serve: ServeSettings,
    shops: BTreeMap<Slug, ShopTable>,
    mail: MailSettings,
    webhooks: BTreeMap<Slug, WebhookTable>,
    desk: DeskSettings,
    account: AccountSettings,
}

impl Config {
    /// Merges `countersign.toml` in `instance`, if there is one, with flags and environment.
    pub fn load(instance: &Path, paths: &PathSettings, serve: &ServeSettings) -> Result<Self, ConfigError> {
        Self::merge(instance, paths, serve, &tables::of_process())
    }

    fn merge(
        instance: &Path,
        paths: &PathSettings,
        serve: &ServeSettings,
        variables: &Variables,
    ) -> Result<Self, ConfigError> {
        // So that messages say `registry/…`, not `./registry/…`.
        let instance = if instance == Path::new(".") {
            Path::new("")
        } else {
            instance
        };
        let path = instance.join(FILE);
        let mut file = ConfigFile::read(&path)?;
        tables::set(&["mail"], &mut file.mail, variables)?;
        tables::set(&["desk"], &mut file.desk, variables)?;
        tables::set(&["account"], &mut file.account, variables)?;
        tables::set_named("shops", &mut file.shops, variables)?;
        tables::set_named("webhooks", &mut file.webhooks, variables)?;
        let mut serve = serve.clone();
        // Every command reaches the server through it; only `serve` takes the rest of its table from the environment.
        serve.admin_socket = serve
            .admin_socket
            .or_else(|| variables.get("COUNTERSIGN_ADMIN_SOCKET").map(PathBuf::from));
        let serve = ServeConfig::merge(instance, &serve, file.serve);
        let keys = KeysConfig::of_file(&file.keys);
        let store = StoreConfig::of_file(&file.store);
        let build = BuildConfig::of_file(file.build);
        let incomplete = |message| ConfigError::Table {
            path: path.clone(),
            message,
        };
        let shops = file.shops.into_iter();
        let shops = shops.map(|(name, table)| ShopConfig::of_table(instance, name, table));
        let shops = shops.collect::<Result<_, _>>().map_err(incomplete)?;
        let webhooks = file.webhooks.into_iter();
        let webhooks = webhooks.map(|(name, table)| WebhookConfig::of_table(instance, name, table));
        let webhooks = webhooks.collect::<Result<_, _>>().map_err(incomplete)?;
        let desk = DeskConfig::of_file(file.desk).map_err(incomplete)?;
        let reminders = file.mail.reminders();
        let mail = MailConfig::of_file(instance, file.mail);
        Ok(Self {
            paths: Paths::merge(instance, paths, file.paths),
            keys,
            store,
            build,
            serve,
            shops,
            mail,
            reminders,
            webhooks,
            desk,
            account: AccountConfig::of_file(file.account),
        })
    }

    /// As [`Config::load`], but fails without an instance: its file, a part of it, or paths given by flags.
    pub fn of_instance(instance: &Path, paths: &PathSettings, serve: &ServeSettings) -> Result<Self, ConfigError> {
        let config = Self::load(instance, paths, serve)?;
        let is_one = instance.join(FILE).exists() || *paths != PathSettings::default() || config.paths.some_exist();
        if is_one {
            Ok(config)
        } else {
            Err(ConfigError::NoInstance(instance.to_owned()))
        }
    }

    /// Where the server answers commands.
    pub fn admin_socket(&self) -> PathBuf {
        self.serve
            .admin_socket
            .clone()
            .unwrap_or_else(|| self.paths.store.join(ADMIN_SOCKET))
    }
}

impl ConfigFile {
    fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = match regular_file::read_to_string(path, MAX_CONFIG) {
            Ok(text) => text,
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(source) => {
                return Err(ConfigError::Read {
                    path: path.to_owned(),
                    source,
                });
            }
        };
        let content = |at: usize, message: String| {
            let before = &text[..at];
            ConfigError::Content {
                path: path.to_owned(),
                line: before.matches('\n').count() + 1,
                column: before.len() - before.rfind('\n').map_or(0, |newline| newline + 1) + 1,
                message: short_message(&message),
            }
        };
        if let Some((at, message)) = unknown_setting(&text) {
            return Err(content(at, message));
        }
        toml::from_str(&text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            content(at, toml_error::message(&text, &error))
        })
    }
}

/// The place of an unknown setting, with the one that may be meant. serde would only list all settings.
fn unknown_setting(text: &str) -> Option<(usize, String)> {
    let file = DeTable::parse(text).ok()?.into_inner();
    let no_table = |name: &&str| {
        file.get(*name)
            .is_some_and(|value| value.get_ref().as_table().is_none())
    };
    if let Some(name) = TABLES.into_iter().find(no_table) {
        let at = file.get(name).map_or(0, |value| value.span().start);
        return Some((at, format!("expected a table: [{name}]")));
    }
    let table = |name| file.get(name).and_then(|value| value.get_ref().as_table());
    let levels = [
        (Some(&file), TABLES.map(str::to_owned).to_vec()),
        (table("paths"), settings::<PathSettings>()),
        (table("keys"), settings::<KeySettings>()),
        (table("store"), settings::<StoreSettings>()),
        (table("build"), settings::<BuildSettings>()),
        (table("serve"), settings::<ServeSettings>()),
        (table("mail"), names(MailSettings::NAMES)),
        (table("desk"), names(DeskSettings::NAMES)),
        (table("account"), names(AccountSettings::NAMES)),
    ];
    let named = [
        ("shops", names(ShopTable::NAMES)),
        ("webhooks", names(WebhookTable::NAMES)),
    ];
    let named = named.into_iter().flat_map(|(kind, settings)| {
        let tables = table(kind).into_iter().flat_map(|tables| tables.values());
        tables.map(move |table| (table.get_ref().as_table(), settings.clone()))
    });
    levels.into_iter().chain(named).find_map(|(table, known)| {
        let name = table?
            .keys()
            .find(|name| !known.iter().any(|known| known == name.get_ref()))?;
        let meant = did_you_mean(name.get_ref(), known.iter().map(String::as_str));
        Some((
            name.span().start,
            format!("unknown setting {:?}{meant}", name.get_ref()),
        ))
    })
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// The settings of a table, which have the same names as its arguments.
fn settings<T: clap::Args>() -> Vec<String> {
    T::augment_args(clap::Command::default())
        .get_arguments()
        .map(|argument| argument.get_id().to_string())
        .collect()
}

#[cfg(test)]
mod tests {
    use clap::Args as _;

    use super::*;

    fn read(text: &str) -> Result<Config, String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), text).unwrap();
        let loaded = Config::load(folder.path(), &PathSettings::default(), &ServeSettings::default());
        loaded.map_err(|error| error.to_string().replace(&format!("{}/", folder.path().display()), ""))
    }

    #[test]
    fn an_instance_has_a_file_or_a_part_or_is_described_by_flags_and_environment() {
        let folder = tempfile::tempdir().unwrap();
        let is_one = |paths: &PathSettings| Config::of_instance(folder.path(), paths, &ServeSettings::default());
        let nothing = PathSettings::default();
        assert!(matches!(is_one(&nothing), Err(ConfigError::NoInstance(named)) if named == folder.path()));
        assert!(
            is_one(&PathSettings {
                store: Some("/elsewhere".into()),
                ..nothing.clone()
            })
            .is_ok()
        );
        for part in ["registry", "releases", "public", "store", "keys/signing.pem", FILE] {
            std::fs::create_dir_all(folder.path().join(part).parent().unwrap()).unwrap();
            std::fs::write(folder.path().join(part), "").unwrap();
            assert!(is_one(&nothing).is_ok(), "{part}");
            std::fs::remove_file(folder.path().join(part)).unwrap();
        }
    }

    #[test]
    fn a_name_as_long_as_its_file_is_not_shown_whole() {
        let long = "x".repeat(65_536);
        for text in [
            format!("{long} = 1\n"),
            format!("[serve]\n{long} = 1\n"),
            format!("[shops.stripe]\n{long} = 1\n"),
            format!("[shops.{long}]\nmode = 1\n"),
            format!("serve.listen = \"{long}\"\n"),
            format!("[{long}]\n[{long}]\n"),
            format!("a = {{ {long} = 1, {long} = 2 }}\n"),
        ] {
            let error = read(&text).map(drop).unwrap_err();
            assert!(error.len() < 700, "{text:.30}: {} bytes: {error:.900}", error.len());
        }
    }

    #[test]
    fn variables_win_over_the_file_and_add_tables_that_are_complete() {
        let folder = tempfile::tempdir().unwrap();
        let file = "[mail]\nserver = \"old.example\"\nport = 26\n[shops.own-store]\nkind = \"woocommerce\"\n";
        std::fs::write(folder.path().join(FILE), file).unwrap();
        let merged = |given: &[(&str, &str)]| {
            let given = given
                .iter()
                .map(|(name, value)| (format!("COUNTERSIGN_{name}"), value.into()));
            let paths = PathSettings::default();
            let merged = Config::merge(folder.path(), &paths, &ServeSettings::default(), &given.collect());
            merged.map_err(|error| error.to_string().replace(&format!("{}/", folder.path().display()), ""))
        };
        let config = merged(&[
            ("MAIL_SERVER", "new.example"),
            ("SHOPS_OWN_STORE_MODE", "test"),
            ("SHOPS_OWN_STORE_SECRET_FILE", "/run/own"),
            ("SHOPS_EU_SHOP_KIND", "paddle"),
            ("WEBHOOKS_CRM_URL", "https://crm.example/"),
            ("WEBHOOKS_CRM_EVENTS", "site.bound, license.issued"),
            ("WEBHOOKS_CRM_CERTIFICATES", "ca.pem"),
        ]);
        let config = config.unwrap();
        let mail = config.mail.unwrap();
        assert_eq!((mail.server.as_str(), mail.port), ("new.example", 26));
        let shops: Vec<_> = config
            .shops
            .iter()
            .map(|shop| (shop.name.as_str(), shop.kind.name))
            .collect();
        assert_eq!(shops, [("eu-shop", "paddle"), ("own-store", "woocommerce")]);
        assert_eq!(config.shops[1].secret_file, Path::new("/run/own"));
        assert!(config.shops[1].mode.is_some());
        let crm = &config.webhooks[0];
        assert_eq!((crm.name.as_str(), crm.events.len()), ("crm", 2));
        assert_eq!(
            crm.certificates,
            std::path::absolute("ca.pem").ok(),
            "relative to the current folder"
        );
        for (given, expected) in [
            (
                ("SHOPS_US_MODE", "test"),
                &*format!(
                    "countersign.toml: [shops.us] needs \"kind\": {}",
                    countersign_shops::EXPECTED
                ),
            ),
            (
                ("MAIL_PORT", "x"),
                "the environment variable COUNTERSIGN_MAIL_PORT: expected a whole number from 0 to 65535",
            ),
        ] {
            assert_eq!(merged(&[given]).unwrap_err(), expected);
        }
        let error = merged(&[("WEBHOOKS_CRM_URL", "http://a:canary@b")]).unwrap_err();
        assert!(
            error.starts_with("the environment variable COUNTERSIGN_WEBHOOKS_CRM_URL: expected ")
                && !error.contains("canary")
        );
    }

    #[test]
    fn what_is_no_address_or_network_in_the_file_is_reported_with_an_example() {
        let listen = "expected an address or a name with a port, such as 127.0.0.1:8080, localhost:8080 or :8080";
        for (text, expected) in [
            ("listen = 8080", format!("2:10: {listen}")),
            ("listen = \"localhost\"", format!("2:10: {listen}")),
            (
                "admin_listen = \"on\"",
                "2:16: expected \"off\" or an address with a port, such as 127.0.0.1:8081".to_owned(),
            ),
            (
                "proxies = [\"::1\", \"x\"]",
                "2:11: expected an address such as 127.0.0.1 or a network such as 10.0.0.0/8".to_owned(),
            ),
        ] {
            assert_eq!(
                read(&format!("[serve]\n{text}\n")).unwrap_err(),
                format!("countersign.toml:{expected}")
            );
        }
        let config = read("[serve]\nproxies = [\"127.0.0.1\", \"10.0.0.0/8\"]\n").unwrap();
        assert_eq!(
            config.serve.proxies,
            ["127.0.0.1/32".parse().unwrap(), "10.0.0.0/8".parse().unwrap()]
        );
        let config = read("[serve]\nproxies = \"127.0.0.1\"\n").unwrap();
        assert_eq!(
            config.serve.proxies,
            ["127.0.0.1/32".parse().unwrap()],
            "one alone needs no brackets"
        );
    }

    #[test]
    fn every_setting_of_the_wrong_kind_is_reported_with_what_is_expected_and_where() {
        let of = |table, names: Vec<String>| names.into_iter().map(move |name| (table, name));
        let all: Vec<_> = of("paths", settings::<PathSettings>())
            .chain(of("keys", settings::<KeySettings>()))
            .chain(of("store", settings::<StoreSettings>()))
            .chain(of("serve", settings::<ServeSettings>()))
            .chain(of("mail", names(MailSettings::NAMES)))
            .collect();
        assert!(all.len() > 20);
        for (table, name) in all {
            for wrong in ["{}", "-1.5", "1979-05-27"] {
                let error = read(&format!("[{table}]\n{name} = {wrong}\n")).unwrap_err();
                let place = format!("countersign.toml:2:{}: expected ", name.len() + 4);
                assert!(
                    error.starts_with(&place) && !error.contains(['`', '\n']),
                    "{name} = {wrong}: {error}"
                );
            }
        }
        let number = "expected a whole number from 1 to 4294967295";
        for (text, expected) in [
            ("[serve]\npoll_seconds = 0\n", format!("2:16: {number}")),
            ("[serve]\npoll_seconds = \"30\"\n", format!("2:16: {number}")),
            (
                "[serve]\nlocal_hosts = \"bnid\"\n",
                "2:15: expected \"bind\", \"allow\" or \"refuse\"".to_owned(),
            ),
            ("[paths]\nstore = 5\n", "2:9: expected a path in quotes".to_owned()),
            ("serve = 5\n", "1:9: expected a table: [serve]".to_owned()),
        ] {
            assert_eq!(read(text).unwrap_err(), format!("countersign.toml:{expected}"));
        }
        let config = read("[serve]\npoll_seconds = 5\nlocal_hosts = \"allow\"\n").unwrap();
        assert_eq!(
            (config.serve.poll.as_secs(), config.serve.local_hosts),
            (5, LocalHosts::Allow)
        );
    }

    #[test]
    fn every_wrong_number_on_the_command_line_is_reported_with_what_is_expected() {
        for argument in ServeSettings::augment_args(clap::Command::new("serve")).get_arguments() {
            let Some(flag) = argument.get_long() else { continue };
            let command = ServeSettings::augment_args(clap::Command::new("serve"));
            let Err(error) = command.try_get_matches_from(["serve", &format!("--{flag}"), "?!"]) else {
                continue;
            };
            let error = error.to_string();
            assert!(
                error.contains("expected ") || error.contains("[possible values: "),
                "{error}"
            );
        }
    }

    /// The defaults of a table's settings as its help states them, except those whose default is none.
    fn of_help<T: clap::Args>() -> T {
        let command = T::augment_args(clap::Command::new("serve"));
        let defaults = command.get_arguments().filter_map(|argument| {
            let help = argument.get_help().unwrap().to_string();
            let default = help
                .rsplit_once(" [default: ")
                .expect("each has a default")
                .1
                .strip_suffix(']')
                .unwrap();
            (default != "none").then(|| format!("--{}={default}", argument.get_long().unwrap()))
        });
        let given: Vec<String> = [String::from("serve")].into_iter().chain(defaults).collect();
        T::from_arg_matches(&command.get_matches_from(given)).unwrap()
    }

    #[test]
    fn the_defaults_of_the_help_are_those_in_force() {
        let here = Path::new("");
        let paths = |given| Paths::merge(here, &given, PathSettings::default());
        assert_eq!(paths(of_help()), paths(PathSettings::default()));
        let keys = KeysConfig::of_file(&KeySettings::default());
        assert_eq!(keys.with(&of_help()), keys);
        let store = StoreConfig::of_file(&StoreSettings::default());
        assert_eq!(store.with(&of_help()), store);
        let build = BuildConfig::of_file(BuildSettings::default());
        assert_eq!(build.with(&of_help()), build);
        let serve = |given| ServeConfig::merge(here, &given, ServeSettings::default());
        let default = serve(ServeSettings::default());
        assert_eq!(format!("{:?}", serve(of_help())), format!("{default:?}"));
        assert_eq!((default.tls().unwrap(), default.proxies), (None, Vec::new()));
    }

    #[test]
    fn a_mistyped_setting_is_reported_with_its_place_and_the_one_that_may_be_meant() {
        for (text, expected) in [
            (
                "[serve]\nlisten = \"127.0.0.1:1\"\n  proxeis = []\n",
                "3:3: unknown setting \"proxeis\" (did you mean \"proxies\"?)",
            ),
            (
                "[paths]\nstroe = \"x\"\n",
                "2:1: unknown setting \"stroe\" (did you mean \"store\"?)",
            ),
            (
                "[server]\n",
                "1:2: unknown setting \"server\" (did you mean \"serve\"?)",
            ),
            ("zzz = 1\n", "1:1: unknown setting \"zzz\""),
            (
                "[serve]\nlisten = \":1\"\n[mail]\n[serve]\n",
                "4:2: the table [serve] is there twice: move these lines below the first one, in line 1",
            ),
        ] {
            assert_eq!(read(text).unwrap_err(), format!("countersign.toml:{expected}"));
        }
    }
}
