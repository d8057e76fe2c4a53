//! The endpoint that a verb names.

use crate::commands::Failure;
use countersign_model::slug::Slug;
use countersign_model::text::did_you_mean::did_you_mean;
use countersign_settings::config::{Config, WebhookConfig};

/// The endpoint with this name.
pub(super) fn endpoint<'c>(config: &'c Config, name: &Slug) -> Result<&'c WebhookConfig, Failure> {
    let found = config.webhooks.iter().find(|endpoint| endpoint.name == *name);
    found.ok_or_else(|| {
        let known = config.webhooks.iter().map(|endpoint| endpoint.name.as_str());
        let meant = did_you_mean(name.as_str(), known);
        Failure::input(format!("there is no webhook {name}{meant}")).hint(format!(
            "add the table [webhooks.{name}] with a \"url\" to countersign.toml"
        ))
    })
}
