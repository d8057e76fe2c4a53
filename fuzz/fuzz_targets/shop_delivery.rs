//! Any bytes as a delivery of each shop, and as the header with its signature. What is read is bounded.
#![no_main]

use chrono::DateTime;
use countersign_shops::SHOPS;
use countersign_shops::event::{Sale, ShopAction};
use countersign_shops::signature::{self, ShopSecret};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let secrets = [ShopSecret::new("secret-of-the-target").expect("it is long enough")];
    let now = DateTime::from_timestamp(1_700_000_000, 0).unwrap();
    for shop in SHOPS {
        if let Ok(header) = std::str::from_utf8(bytes) {
            // Nobody guesses 256 bits.
            assert!(signature::verify(shop, &secrets, Some(header), b"body", now).is_err());
        }
        let Ok(delivery) = countersign_shops::read(shop, bytes) else {
            continue;
        };
        for name in delivery.action.names() {
            assert!(name.len() <= 300 && name.bytes().all(|byte| byte.is_ascii_graphic()));
        }
        if let ShopAction::Issue(sale) | ShopAction::Renew(sale) | ShopAction::Change(sale) = &delivery.action {
            check(sale);
        }
        // What `shop check` prints.
        serde_json::to_string(&delivery).unwrap();
    }
});

fn check(sale: &Sale) {
    assert!((1..=100).contains(&sale.lines.len()));
    assert!(sale.lines.iter().all(|line| line.quantity > 0));
}
