//! Sessions of the customer's page, as another node signs them.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use chrono::Utc;
use countersign_model::issuing_key::ReferenceKey;

/// The key that `write_issuing_secrets` makes.
pub fn key() -> ReferenceKey {
    ReferenceKey::new("references".repeat(5).as_bytes()[..32].try_into().unwrap())
}

/// What a cookie has, signed for these pages.
pub fn cookie(pages: &str, hours_ago: i64, address: &str) -> String {
    let issued = Utc::now().timestamp() - hours_ago * 3_600;
    let owner = key().customer(&address.parse().unwrap());
    let mut bytes = [&[7; 16][..], &issued.to_be_bytes(), b"p", &owner.0].concat();
    let mac = key().desk_mac(&[format!("{pages} session 1\0").as_bytes(), &bytes]);
    bytes.extend(mac);
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// The session of a customer.
pub fn session(address: &str) -> String {
    cookie("account", 0, address)
}
