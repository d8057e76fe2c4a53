//! Any bytes as a delivery of each shop, and as the header with its signature. What is read is bounded.
#![no_main]

use chrono::DateTime;
use countersign_shops::SHOPS;
use countersign_shops::event::{Content, ReportedSale};
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
        match &delivery.content {
            Content::Record(record) => check(record),
            Content::Park { names, .. } => names.iter().for_each(check_id),
            Content::Ignore { .. } => {}
        }
        // What `shop check` prints.
        serde_json::to_string(&delivery).unwrap();
    }
});

fn check(record: &ReportedSale) {
    for fact in &record.facts {
        fact.ids().into_iter().for_each(check_id);
        assert!(fact.sold().len() <= 100);
    }
}

fn check_id(id: &String) {
    assert!(id.len() <= 300 && id.bytes().all(|byte| byte.is_ascii_graphic()));
}
