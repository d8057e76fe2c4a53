//! Signs a message: HMAC-SHA256 over id, time and body (Standard Webhooks, "Signature scheme").

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use countersign_settings::keys::webhook_secrets::WebhookSecret;

/// The header `webhook-signature`: a signature by each secret. `seconds` is the header `webhook-timestamp`.
pub fn signature(secrets: &[WebhookSecret], id: &str, seconds: i64, body: &str) -> String {
    let signed: Vec<_> = secrets
        .iter()
        .filter_map(|secret| {
            let mut mac = Hmac::<Sha256>::new_from_slice(secret.bytes()).ok()?;
            mac.update(format!("{id}.{seconds}.{body}").as_bytes());
            Some(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
        })
        .collect();
    signed.join(" ")
}
