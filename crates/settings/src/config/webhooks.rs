//! Tables `[webhooks.NAME]`: addresses of the vendor's own services that receive events.

use std::path::{Path, PathBuf};

use toml::Value;

use crate::config::tables::settings_table;
use crate::config::urls::ServiceUrl;
use crate::config::value::Setting;
use countersign_model::event_kind::EventKind;
use countersign_model::slug::Slug;

/// The folder of the secrets, in the instance.
const SECRETS: &str = "keys/webhooks";

settings_table! {
    /// A table `[webhooks.NAME]`.
    WebhookTable {
        url: ServiceUrl,
        secret_file: PathBuf,
        certificates: PathBuf,
        events: Events,
    }
}

/// Names of events: a list in the file, with commas between them in a variable.
#[derive(Debug)]
struct Events(Vec<EventKind>);

/// An endpoint that receives events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookConfig {
    /// Its name, in commands, metrics and the log.
    pub name: Slug,
    /// Where messages are posted to.
    pub url: ServiceUrl,
    /// The file with the secret that signs, or two while one is replaced: one in a line.
    pub secret_file: PathBuf,
    /// The certificates to trust, instead of those of the system.
    pub certificates: Option<PathBuf>,
    /// The events to send; empty for all.
    pub events: Vec<EventKind>,
}

impl Setting for Events {
    const EXPECTED: &'static str =
        "expected a list of events, such as [\"license.issued\", \"site.bound\"]: docs/webhooks.md has their names";

    fn from_text(text: &str) -> Option<Self> {
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        names.map(EventKind::from_name).collect::<Option<_>>().map(Self)
    }

    fn from_value(value: &Value) -> Option<Self> {
        let names = value.as_array()?.iter();
        names
            .map(|name| EventKind::from_name(name.as_str()?))
            .collect::<Option<_>>()
            .map(Self)
    }
}

impl WebhookConfig {
    /// Resolves a table: its paths are relative to `instance`, and a missing setting has its default.
    ///
    /// # Errors
    ///
    /// A required setting is missing.
    pub(super) fn of_table(instance: &Path, name: Slug, table: WebhookTable) -> Result<Self, String> {
        let default = || Path::new(SECRETS).join(format!("{name}.secret"));
        Ok(Self {
            url: table.url.ok_or_else(|| format!("[webhooks.{name}] needs \"url\""))?,
            secret_file: instance.join(table.secret_file.unwrap_or_else(default)),
            certificates: table.certificates.map(|path| instance.join(path)),
            events: table.events.map_or(Vec::new(), |events| events.0),
            name,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn read(text: &str) -> Result<Vec<WebhookConfig>, String> {
        let tables = toml::from_str::<BTreeMap<String, BTreeMap<Slug, WebhookTable>>>(text);
        let mut tables = tables.map_err(|error| error.message().to_owned())?;
        let endpoints = tables.remove("webhooks").unwrap_or_default().into_iter();
        endpoints
            .map(|(name, table)| WebhookConfig::of_table(Path::new("here"), name, table))
            .collect()
    }

    #[test]
    fn an_endpoint_needs_a_url_that_nobody_listens_to_on_the_way() {
        let text = "[webhooks.crm]\nurl = 'https://crm.example/in?k=1'\nevents = ['site.bound']\n";
        let [crm] = &read(text).unwrap()[..] else {
            panic!("one endpoint")
        };
        assert_eq!(
            (crm.url.origin().as_str(), &crm.events[..]),
            ("https://crm.example", &[EventKind::Bound][..])
        );
        assert_eq!(crm.secret_file, Path::new("here/keys/webhooks/crm.secret"));
        for good in ["http://127.0.0.1:8000/", "http://localhost/x", "http://[::1]:1/"] {
            assert!(read(&format!("[webhooks.a]\nurl = '{good}'\n")).is_ok(), "{good}");
        }
        for bad in [
            "http://crm.example/",
            "https://a:b@crm.example/",
            "https://crm.example/#x",
            "crm.example",
            "file:///x",
        ] {
            let error = read(&format!("[webhooks.a]\nurl = '{bad}'\n")).unwrap_err();
            assert_eq!(error, ServiceUrl::EXPECTED, "{bad}");
        }
        assert_eq!(read("[webhooks.a]\n").unwrap_err(), "[webhooks.a] needs \"url\"");
        let error = read("[webhooks.a]\nurl = 'https://a.example/'\nevents = ['sold']\n").unwrap_err();
        assert_eq!(error, Events::EXPECTED);
    }
}
