//! From the shop's webhook to the buyer's key: a sale gives one license and one mail, and its key binds a site.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::eventually;
use crate::support::instance::Instance;
use crate::support::server::Server;
use crate::support::shop::{add_shop, deliver, invoice};
use crate::tools::smtp::{MailServer, header};

const PATIENCE: Duration = Duration::from_secs(60);

fn sale(number: i64) -> Value {
    let mut sale = invoice(&format!("in_{number}"), "subscription_create", "price_small", 1, 30);
    sale["parent"]["subscription_details"]["subscription"] = json!(format!("sub_{number}"));
    sale["customer_email"] = json!(format!("buyer{number}@example.com"));
    sale
}

/// The mails by recipient.
fn by_buyer(mail: &MailServer) -> BTreeMap<String, Vec<Value>> {
    let mut found = BTreeMap::<String, Vec<Value>>::new();
    for mail in mail.mails() {
        found.entry(header(&mail, "To").to_owned()).or_default().push(mail);
    }
    found
}

/// The license key in a mail.
fn key(mail: &Value) -> String {
    let text = mail["text"].as_str().unwrap();
    let is_key = |word: &&str| word.len() == 29 && word.matches('-').count() == 4;
    text.split_whitespace()
        .find(is_key)
        .unwrap_or_else(|| panic!("{text}"))
        .to_owned()
}

#[test]
fn a_buyer_gets_one_mail_with_a_key_that_works_though_the_server_is_killed_again_and_again() {
    let mail = MailServer::start("none");
    let instance = Instance::new();
    add_shop(&instance);
    instance.write(
        "countersign.toml",
        &format!(
            "[shops.stripe]\n[mail]\nserver = \"localhost\"\nport = {}\nfrom = \"licenses@acme.example\"\ntls = \"none\"\n\
             retry_seconds = 1\n",
            mail.port
        ),
    );
    let mut server = Server::start(&instance);
    for round in 0..4 {
        for number in 0..5 {
            let number = round * 5 + number;
            // The shop sends each one twice.
            for _ in 0..2 {
                assert_eq!(deliver(&server, "invoice.paid", number, &sale(number)), 200);
            }
        }
        server.kill();
        server = Server::start(&instance);
    }
    eventually("each buyer has a mail", PATIENCE, || by_buyer(&mail).len() == 20);
    let all = by_buyer(&mail);
    // Each kill may come between the mail server's answer and our note of it: then that one mail is sent once more.
    for mails in all.values() {
        let ids: Vec<_> = mails.iter().map(|mail| header(mail, "Message-ID")).collect();
        assert!(ids.iter().all(|id| *id == ids[0]) && ids.len() <= 5, "{ids:?}");
    }
    assert!(all.values().map(Vec::len).sum::<usize>() <= 24);
    let keys: std::collections::BTreeSet<String> = all.values().map(|mails| key(&mails[0])).collect();
    assert_eq!(keys.len(), 20);
    for key in &keys {
        let answer = server.ask(&json!({ "license_key": key, "site_url": "shop.example.com" }));
        assert_eq!(answer.code(), "ok");
    }
    assert!(!server.log().contains("buyer") && !keys.iter().any(|key| server.log().contains(key)));

    // What is delivered once more, a refund and a renewal send no mail.
    let before = mail.mails().len();
    assert_eq!(deliver(&server, "invoice.paid", 3, &sale(3)), 200);
    let mut renewal = sale(4);
    renewal["id"] = json!("in_4_2");
    renewal["billing_reason"] = json!("subscription_cycle");
    assert_eq!(deliver(&server, "invoice.paid", 50, &renewal), 200);
    eventually("all are applied", PATIENCE, || {
        server.metric("countersign_shop_deliveries{state=\"waiting\"}") == Some(0.0)
    });
    assert_eq!(mail.mails().len(), before);
}
