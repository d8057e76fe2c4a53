//! Tokens of the links with which a customer says no to reminders. A token names a customer's number, and is for that alone.
//!
//! base64url without padding: the number, and the first 16 bytes of HMAC-SHA256 over `countersign unsubscribe 1`, a NUL and the number.
//! It does not expire: who says no may say so years later.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use crate::digest::Hex128;
use crate::download_key::DownloadKey;

/// The path of the pages, before the token.
pub const PATH: &str = "/unsubscribe/";

/// The token of a customer.
pub fn of_customer(key: &DownloadKey, number: Hex128) -> String {
    let mac = key.unsubscribe_mac(&number.0);
    BASE64_URL_SAFE_NO_PAD.encode([number.0, mac].concat())
}

/// The customer of a token; `None` if it was not made with this key.
pub fn read(key: &DownloadKey, token: &str) -> Option<Hex128> {
    let bytes: [u8; 32] = BASE64_URL_SAFE_NO_PAD.decode(token).ok()?.try_into().ok()?;
    let number: [u8; 16] = std::array::from_fn(|at| bytes[at]);
    let claimed: [u8; 16] = std::array::from_fn(|at| bytes[16 + at]);
    key.is_unsubscribe_mac(&number, &claimed).then_some(Hex128(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_its_customer_and_no_changed_one_names_another() {
        let key = DownloadKey::new(&[7; 32]);
        let number = Hex128([3; 16]);
        let token = of_customer(&key, number);
        assert_eq!(read(&key, &token), Some(number));
        assert_eq!(read(&DownloadKey::new(&[8; 32]), &token), None);
        for at in 0..token.len() {
            for other in ('0'..='z').filter(|other| !token[at..].starts_with(*other)) {
                let mut changed = token.clone();
                changed.replace_range(at..=at, &other.to_string());
                assert_eq!(read(&key, &changed), None, "{at} {other:?}");
            }
        }
        for other in ["", &token[1..], &format!("{token}A"), &format!("{token}=")] {
            assert_eq!(read(&key, other), None, "{other}");
        }
    }
}
