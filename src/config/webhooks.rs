//! Tables `[webhooks.NAME]`: addresses of the vendor's own services that are told of events.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use toml::Value;

use crate::config::service_url::ServiceUrl;
use crate::config::value;
use crate::model::event_kind::EventKind;
use crate::model::slug::Slug;

/// The folder of the secrets, in the instance.
const SECRETS: &str = "keys/webhooks";

/// All tables `[webhooks.NAME]`.
#[derive(Default, Deserialize)]
#[serde(try_from = "BTreeMap<Slug, WebhookTable>")]
pub(super) struct WebhookSettings(BTreeMap<Slug, (ServiceUrl, WebhookTable)>);

/// One table.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct WebhookTable {
    #[serde(deserialize_with = "value::one")]
    url: Option<ServiceUrl>,
    #[serde(deserialize_with = "value::one")]
    secret_file: Option<PathBuf>,
    #[serde(deserialize_with = "value::one")]
    certificates: Option<PathBuf>,
    #[serde(deserialize_with = "events")]
    events: Vec<EventKind>,
}

/// An endpoint that is told of events.
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

fn events<'de, D: Deserializer<'de>>(file: D) -> Result<Vec<EventKind>, D::Error> {
    let expected = || D::Error::custom("expected a list of events, such as [\"license.issued\", \"site.bound\"]");
    let Value::Array(names) = Value::deserialize(file)? else {
        return Err(expected());
    };
    let kind = |name: &Value| {
        let name = name.as_str().ok_or_else(expected)?;
        EventKind::from_name(name)
            .ok_or_else(|| D::Error::custom(format!("there is no event {name:?}: docs/webhooks.md lists them")))
    };
    names.iter().map(kind).collect()
}

impl TryFrom<BTreeMap<Slug, WebhookTable>> for WebhookSettings {
    type Error = String;

    fn try_from(tables: BTreeMap<Slug, WebhookTable>) -> Result<Self, String> {
        let named = tables.into_iter().map(|(name, mut table)| {
            let url = table.url.take();
            let url = url.ok_or_else(|| format!("[webhooks.{name}] needs \"url\""))?;
            Ok((name, (url, table)))
        });
        named.collect::<Result<_, String>>().map(Self)
    }
}

impl WebhookSettings {
    /// The settings of one table.
    pub(super) const NAMES: [&str; 4] = ["url", "secret_file", "certificates", "events"];

    /// Completes paths, which are relative to the file, and takes the defaults.
    pub(super) fn resolve(self, instance: &Path) -> Vec<WebhookConfig> {
        let endpoints = self.0.into_iter().map(|(name, (url, table))| {
            let default = || Path::new(SECRETS).join(format!("{name}.secret"));
            WebhookConfig {
                secret_file: instance.join(table.secret_file.unwrap_or_else(default)),
                certificates: table.certificates.map(|path| instance.join(path)),
                events: table.events,
                url,
                name,
            }
        });
        endpoints.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::value::Setting as _;

    fn read(text: &str) -> Result<Vec<WebhookConfig>, String> {
        let settings = toml::from_str::<BTreeMap<String, WebhookSettings>>(text);
        let mut settings = settings.map_err(|error| error.message().to_owned())?;
        Ok(settings
            .remove("webhooks")
            .unwrap_or_default()
            .resolve(Path::new("here")))
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
        assert_eq!(error, "there is no event \"sold\": docs/webhooks.md lists them");
    }
}
