//! Webhooks of a server: checks the secrets before it starts, and opens the outboxes.

use crate::commands::Failure;
use crate::serve::Server;
use crate::serve::webhooks::endpoint::Endpoint;
use countersign_settings::config::Config;
use countersign_settings::keys::webhook_secrets;

/// Checks that every endpoint has a secret.
///
/// # Errors
/// A secret cannot be read.
pub(super) fn check(config: &Config) -> Result<(), Failure> {
    for endpoint in &config.webhooks {
        webhook_secrets::read(&endpoint.name, &endpoint.secret_file)?;
    }
    Ok(())
}

/// Has a server tell the endpoints, if there are any.
///
/// # Errors
/// An outbox cannot be opened, or a thread cannot be started.
pub(super) fn begin(server: Server, config: &Config) -> Result<Server, Failure> {
    if config.webhooks.is_empty() {
        return Ok(server);
    }
    let mut endpoints = Vec::new();
    for endpoint in &config.webhooks {
        endpoints.push(Endpoint::open(endpoint.clone(), &config.paths.store)?);
    }
    server.with_webhooks(endpoints).map_err(Failure::environment)
}
