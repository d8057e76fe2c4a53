//! From the shop's webhook to the buyer's key: a sale gives one license and one mail, and its key binds a site.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

use crate::support::eventually;
use crate::support::instance::Instance;
use crate::support::server::Server;
use crate::support::shop::{add_shop, deliver, invoice};
use crate::tools::smtp::{MailServer, header};

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
    eventually("each buyer has a mail", || by_buyer(&mail).len() == 20);
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

    // The log knows each mail, whatever the kills, and no address.
    let logs = fs::read_dir(instance.file("store/mail-log")).unwrap();
    let logged: String = logs
        .map(|log| fs::read_to_string(log.unwrap().path()).unwrap())
        .collect();
    assert!(logged.lines().count() >= 20 && !logged.contains("example"), "{logged}");

    // What is delivered once more, a refund and a renewal send no mail.
    let before = mail.mails().len();
    assert_eq!(deliver(&server, "invoice.paid", 3, &sale(3)), 200);
    let mut renewal = sale(4);
    renewal["id"] = json!("in_4_2");
    renewal["billing_reason"] = json!("subscription_cycle");
    assert_eq!(deliver(&server, "invoice.paid", 50, &renewal), 200);
    eventually("all are applied", || {
        server.metric("countersign_shop_deliveries{state=\"waiting\"}") == Some(0.0)
    });
    assert_eq!(mail.mails().len(), before);
}

#[test]
fn a_mail_is_in_the_buyers_language_and_names_the_sale_and_a_later_offer_mails_its_key_too() {
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
    instance.write(
        "registry/mail/license.de.txt",
        "Subject: {{ license.product or 'Nachtrag' }}\n\nHallo {{ customer.name }} ({{ language }}), {{ license.order }}: {{ license.key }}\n",
    );
    let server = Server::start(&instance);
    let session = json!({ "id": "cs_1", "mode": "payment", "payment_status": "paid", "payment_intent": "pi_1", "locale": "de",
        "amount_total": 4_900, "customer_details": { "email": "anna@example.com", "name": "Anna Quirk" },
        "line_items": { "data": [
            { "price": { "id": "price_small", "product": "prod_1" }, "quantity": 1, "amount_total": 1_900, "description": "Acme Forms, 1 Jahr" },
            { "price": { "id": "price_later", "product": "prod_2" }, "quantity": 1, "amount_total": 3_000, "description": "Acme Maps" }
        ] } });
    assert_eq!(deliver(&server, "checkout.session.completed", 1, &session), 200);
    eventually("a mail", || mail.mails().len() == 1);
    let first = &mail.mails()[0];
    assert_eq!(header(first, "Subject"), "Acme Forms, 1 Jahr");
    let text = first["text"].as_str().unwrap();
    assert!(text.starts_with("Hallo Anna Quirk (de), pi_1: "), "{text}");
    let ledger = std::fs::read_to_string(instance.file("store/ledger.jsonl")).unwrap();
    assert!(
        !ledger.contains("Acme Forms, 1") && !ledger.contains("Quirk"),
        "{ledger}"
    );
    instance.write(
        "registry/offers/later.toml",
        "shop = 'stripe'\nprices = ['price_later']\nperiod = '1y'\nsites = 2\nmodules.maps = []\n",
    );
    eventually("the mail of the later license", || mail.mails().len() == 2);
    let second = &mail.mails()[1];
    assert_eq!(second["recipients"], json!(["anna@example.com"]));
    assert_ne!(key(first), key(second));
    assert!(server.stop().success());
}
