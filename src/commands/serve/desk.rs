//! The desk of a server that starts: its listener, and what it needs.

use std::io::Write as _;

use tokio::net::TcpListener;

use crate::commands::Failure;
use crate::serve::Server;
use countersign_mail::account::MailAccount;
use countersign_settings::config::{Config, DeskUrl, Listen};

/// Why there is no desk.
#[derive(Debug, thiserror::Error)]
enum NoDesk {
    /// Nothing signs its sessions.
    #[error("[desk] needs the keys for issuing and references, with which sessions are signed")]
    Secrets,
}

/// What to do if nothing can listen there.
pub(super) const LISTEN_HINT: &str = "choose another address with \"listen\" in [desk]";

/// Where the desk listens, if there is one.
///
/// # Errors
/// There are no keys.
pub(super) fn address(config: &Config, has_secrets: bool) -> Result<Option<&Listen>, Failure> {
    match &config.desk {
        Some(_) if !has_secrets => Err(Failure::input(NoDesk::Secrets)
            .hint("make them: countersign keys generate --issuing, and the same with --references")),
        desk => Ok(desk.as_ref().map(|desk| &desk.listen)),
    }
}

/// Has the server serve the desk.
///
/// # Errors
/// The address of the listener is unknown.
pub(super) fn begin(
    server: Server,
    listener: Option<TcpListener>,
    mail: Option<MailAccount>,
    config: &Config,
) -> Result<Server, Failure> {
    let Some(listener) = listener else { return Ok(server) };
    let address = listener.local_addr().map_err(Failure::environment)?;
    let url = config.desk.as_ref().and_then(|desk| desk.url.clone());
    let shown = url
        .as_ref()
        .map_or_else(|| format!("http://{address}"), |url: &DeskUrl| url.origin().to_owned());
    let _ = writeln!(std::io::stdout(), "desk on {shown}: `countersign desk` signs you in");
    tracing::info!(%address, "the desk listens");
    server
        .with_desk(listener, url, mail, config.paths.store.clone())
        .map_err(Failure::environment)
}
