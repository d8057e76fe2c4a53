//! `POST /desk/links` of the admin socket: makes a link that signs the user of the command in at the desk, once.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::serve::ops::command_user::GivenOrder;
use crate::serve::state::Service;

/// Asks for a link.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct DeskLinkOrder {}

/// The result of an order.
// SECURITY: the links stay out of logs, so there is no `Debug`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeskLinkReply {
    /// The link was made.
    Made(DeskLink),
    /// It was not. Why.
    Refused(String),
}

/// A link, in the forms that browsers need.
#[derive(Serialize, Deserialize)]
pub struct DeskLink {
    /// For every browser that reaches the desk: over its `url`, or else on this machine.
    pub link: String,
    /// On this machine, by a name that no other server has.
    pub local_link: String,
    /// On this machine by its address, for browsers that do not know the name; absent where the desk has a `url`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address_link: Option<String>,
    /// On which port of this machine the desk listens.
    pub port: u16,
    /// Until when the link can be used.
    pub expires: DateTime<Utc>,
}

/// Why there is no desk.
const NO_DESK: &str = "this server has no desk: set \"listen\" in [desk] and restart it";

/// Why the desk signs nobody in.
const NO_SECRETS: &str = "the server has no keys for references and issuing";

/// Makes the link.
#[allow(clippy::unused_async, reason = "every order of the socket is a future")]
pub(super) async fn make_link(
    service: Arc<Service>,
    given: GivenOrder<DeskLinkOrder>,
) -> Result<DeskLinkReply, getrandom::Error> {
    let refused = |reason: &str| Ok(DeskLinkReply::Refused(reason.to_owned()));
    let Some(door) = service.desk.get() else {
        return refused(NO_DESK);
    };
    let snapshot = service.gate.snapshot();
    let Some(secrets) = &snapshot.secrets.licensing else {
        return refused(NO_SECRETS);
    };
    let key = secrets.references().current();
    let made = door.make_link(key, given.user.as_str(), Utc::now())?;
    tracing::info!("made a link that signs in at the desk once");
    let path = format!("/link/{}", made.token);
    let port = door.port();
    let local_link = format!("http://{}:{port}{path}", made.name);
    let by_url = door.url().map(|url| format!("{}{path}", url.origin()));
    Ok(DeskLinkReply::Made(DeskLink {
        address_link: by_url.is_none().then(|| format!("http://127.0.0.1:{port}{path}")),
        link: by_url.unwrap_or_else(|| local_link.clone()),
        local_link,
        port,
        expires: made.expires,
    }))
}
