//! A signature covers every byte of the statement. `tests/external/signature.rs` verifies it with other programs.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use countersign_model::public_key::PublicKey;
use countersign_model::statement::split_signature;

use crate::support::instance::shared_keys;
use crate::support::{Instance, License, Server};

#[test]
fn our_own_second_implementation_refuses_a_flipped_bit_anywhere_in_body_and_signature() {
    let key = PublicKey::from_pem(&shared_keys().public).unwrap();
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    let body = Server::start(&instance)
        .validate(&license, "https://bücher.example/pfad")
        .body;
    let verifies = |body: &[u8]| {
        let Some((signed, signature)) = split_signature(body) else {
            return false;
        };
        BASE64_STANDARD
            .decode(signature)
            .is_ok_and(|signature| key.verify(&signed, &signature))
    };
    assert!(verifies(&body));
    for index in 0..body.len() {
        for bit in 0..8 {
            let mut flipped = body.clone();
            flipped[index] ^= 1 << bit;
            assert!(!verifies(&flipped), "byte {index}, bit {bit}");
        }
    }
}
