//! Checks webhooks: the secret of each endpoint, and what it did not take.

use crate::build::counted;
use crate::commands::doctor::finding::{Finding, broken, ok, warning};
use crate::webhook::outbox::{EndpointProgress, Outbox};
use countersign_files::queue::QueueState;
use countersign_ledger::{SharedEndpoint, shared_endpoints};
use countersign_settings::config::{Config, WebhookConfig};
use countersign_settings::keys::webhook_secrets;

/// The findings; none without endpoints.
pub(super) fn findings(config: &Config) -> Vec<Finding> {
    // Another check tells whether the database answers.
    let shared = match &config.paths.database {
        Some(address) if !config.webhooks.is_empty() => shared_endpoints(address).unwrap_or_default(),
        _ => Vec::new(),
    };
    config
        .webhooks
        .iter()
        .flat_map(|endpoint| of_endpoint(endpoint, config, &shared))
        .collect()
}

fn of_endpoint(endpoint: &WebhookConfig, config: &Config, shared: &[SharedEndpoint]) -> Vec<Finding> {
    let name = &endpoint.name;
    let secret = match webhook_secrets::read(name, &endpoint.secret_file) {
        Ok(_) => ok("webhook", format!("{name} at {}", endpoint.url.origin())),
        Err(error) => {
            let hint = error.hint();
            broken("webhook", error.to_string(), Some(hint))
        }
    };
    [secret].into_iter().chain(outbox(endpoint, config, shared)).collect()
}

/// What waits, and why.
fn outbox(endpoint: &WebhookConfig, config: &Config, shared: &[SharedEndpoint]) -> Vec<Finding> {
    let name = &endpoint.name;
    let Some(outbox) = Outbox::existing(&config.paths.store, name) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    let progress = outbox
        .progress()
        .and_then(|progress| Ok((progress, outbox.kept.list()?)));
    let (progress, kept) = match progress {
        Ok(read) => read,
        Err(error) => return vec![broken("webhook", error.to_string(), None)],
    };
    let of_shared = shared.iter().find(|found| found.endpoint == name.as_str());
    let progress = of_shared.map_or(progress, EndpointProgress::of_shared);
    if let Some(trouble) = progress.and_then(|progress| progress.trouble) {
        let since = trouble.since.format("%Y-%m-%d %H:%M");
        let hint = format!("`countersign webhook test {name}` tries it");
        let said = format!("{name} takes nothing since {since}: {}", trouble.reason);
        findings.push(warning("webhook", said, &hint));
    }
    let read = kept.into_iter().map(|(kept, _)| outbox.kept.read(kept));
    let mut parked = 0;
    for kept in read {
        match kept {
            Ok(Some(kept)) if kept.state == QueueState::Parked => parked += 1,
            Ok(_) => {}
            Err(error) => findings.push(broken("webhook", error.to_string(), None)),
        }
    }
    if parked > 0 {
        let hint = "`countersign webhook parked list` says why; then `parked retry` or `parked drop`";
        findings.push(warning(
            "webhook",
            format!("{name}: {} parked", counted(parked, "message")),
            hint,
        ));
    }
    findings
}
