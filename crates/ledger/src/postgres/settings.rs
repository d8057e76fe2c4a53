//! The address of the shared log: `postgres://user@host1,host2/database?sslmode=verify-full`.
//!
//! The password is never part of it, because the address is in a configuration file: `password` finds it. `session`
//! connects to one server after the other.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use url::form_urlencoded;

use countersign_model::text::ErrorChain;

/// How long connecting to one server may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Why an address cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// It has a password.
    #[error("the address of the database has a password")]
    Password,
    /// A parameter that this program does not use, or a value of one.
    #[error("the address of the database has {name}={value}")]
    Parameter {
        /// The parameter.
        name: String,
        /// Its value.
        value: String,
    },
    /// It cannot be parsed.
    #[error("the address of the database cannot be read: {0}")]
    Address(String),
}

impl SettingsError {
    /// What to do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Password => "remove it from the address; set PGPASSWORD, or name a passfile: ?passfile=PATH",
            Self::Parameter { name, .. } if name == "sslmode" => {
                "use sslmode=verify-full, or sslmode=disable on a network that you trust"
            }
            Self::Parameter { name, .. } if name == "target_session_attrs" => {
                "only a server that takes changes is used: remove the parameter, or set it to read-write"
            }
            Self::Parameter { .. } | Self::Address(_) => {
                "an address looks like postgres://countersign@db1,db2/countersign?sslmode=verify-full"
            }
        }
    }
}

/// The servers of a database, and how to reach them.
#[derive(Clone, Debug)]
pub(crate) struct DatabaseSettings {
    /// In the order of the address.
    pub servers: Vec<DatabaseServer>,
    /// The file of the password, if the address names it.
    pub passfile: Option<PathBuf>,
    /// The certificates that TLS trusts; `None` for those of the system.
    pub root_certificate: Option<PathBuf>,
}

/// One server.
#[derive(Clone, Debug)]
pub(crate) struct DatabaseServer {
    /// `host:port`, for messages.
    pub name: String,
    /// The host as the passfile and the certificate have it.
    pub host: String,
    /// How to connect, without the password.
    pub config: Config,
    /// Whether to connect with TLS, and verify the server's name.
    pub verify: bool,
}

impl DatabaseSettings {
    /// Parses an address.
    pub(crate) fn parse(address: &str) -> Result<Self, SettingsError> {
        let (base, query) = address.split_once('?').unwrap_or((address, ""));
        let mut parameters: BTreeMap<String, String> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let sslmode = parameters.remove("sslmode");
        let root_certificate = parameters.remove("sslrootcert").map(PathBuf::from);
        let passfile = parameters.remove("passfile").map(PathBuf::from);
        if parameters.contains_key("password") {
            return Err(SettingsError::Password);
        }
        if let Some(value) = parameters.remove("target_session_attrs")
            && value != "read-write"
        {
            let name = "target_session_attrs".into();
            return Err(SettingsError::Parameter { name, value });
        }
        let rest = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(&parameters)
            .finish();
        let given: Config = format!("{base}?{rest}")
            .parse()
            .map_err(|error: tokio_postgres::Error| SettingsError::Address(ErrorChain(&error).to_string()))?;
        if given.get_password().is_some() {
            return Err(SettingsError::Password);
        }
        let verify = match sslmode.as_deref() {
            None => None,
            Some("verify-full") => Some(true),
            Some("disable") => Some(false),
            Some(value) => {
                return Err(SettingsError::Parameter {
                    name: "sslmode".into(),
                    value: value.into(),
                });
            }
        };
        let hosts = given.get_hosts();
        if hosts.is_empty() {
            return Err(SettingsError::Address("it names no host".into()));
        }
        let port_of = |at: usize| given.get_ports().get(at).or(given.get_ports().first()).copied();
        let servers = hosts
            .iter()
            .enumerate()
            .map(|(at, host)| server(&given, host, port_of(at).unwrap_or(5432), verify))
            .collect();
        Ok(Self {
            servers,
            passfile,
            root_certificate,
        })
    }
}

/// One of the servers that `given` names.
fn server(given: &Config, host: &Host, port: u16, verify: Option<bool>) -> DatabaseServer {
    let mut config = Config::new();
    config.port(port);
    let (host, is_local) = match host {
        Host::Tcp(name) => {
            config.host(name);
            let is_local = name == "localhost" || name.parse().is_ok_and(|address: IpAddr| address.is_loopback());
            (name.clone(), is_local)
        }
        Host::Unix(path) => {
            config.host_path(path);
            ("localhost".to_owned(), true)
        }
    };
    // A connection that leaves the machine is verified unless the address says otherwise.
    let verify = verify.unwrap_or(!is_local);
    config.ssl_mode(if verify { SslMode::Require } else { SslMode::Disable });
    if let Some(user) = given.get_user() {
        config.user(user);
    }
    if let Some(database) = given.get_dbname() {
        config.dbname(database);
    }
    if let Some(options) = given.get_options() {
        config.options(options);
    }
    config
        .application_name("countersign")
        .connect_timeout(CONNECT_TIMEOUT)
        .keepalives(true)
        .keepalives_idle(Duration::from_secs(5))
        .keepalives_interval(Duration::from_secs(2))
        .keepalives_retries(3)
        .tcp_user_timeout(Duration::from_secs(5));
    DatabaseServer {
        name: format!("{host}:{port}"),
        host,
        config,
        verify,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_has_its_port_and_only_what_leaves_the_machine_is_verified() {
        let parsed =
            DatabaseSettings::parse("postgres://node@db1.example:5433,127.0.0.1/licenses?passfile=/etc/pw").unwrap();
        let servers: Vec<_> = parsed
            .servers
            .iter()
            .map(|server| (server.name.as_str(), server.verify))
            .collect();
        assert_eq!(servers, [("db1.example:5433", true), ("127.0.0.1:5432", false)]);
        assert_eq!(parsed.servers[1].config.get_dbname(), Some("licenses"));
        assert_eq!(parsed.passfile, Some(PathBuf::from("/etc/pw")));
    }

    #[test]
    fn an_address_with_a_password_or_without_protection_is_refused() {
        let refused = |address: &str| DatabaseSettings::parse(address).unwrap_err().to_string();
        for address in ["postgres://u:secret@h/d", "postgres://u@h/d?password=secret"] {
            assert_eq!(refused(address), "the address of the database has a password");
        }
        for parameter in ["sslmode=require", "sslmode=prefer", "target_session_attrs=any"] {
            let message = refused(&format!("postgres://u@h/d?{parameter}"));
            assert_eq!(message, format!("the address of the database has {parameter}"));
        }
        assert!(refused("postgres://u@h/d?colour=red").contains("cannot be read"));
    }
}
