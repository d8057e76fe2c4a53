//! Deliveries of a shop reach any node, also while the database is away: one sale is one license, on every node.

use std::fs;

use chrono::Utc;
use countersign_model::download_key::DownloadKey;
use countersign_model::renewal_token::RenewalToken;
use hmac::{Hmac, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use super::database::prepared_cluster;
use super::node::{code, instance, start};
use crate::support::http::request;
use crate::support::instance::{Instance, License};
use crate::support::server::{Server, countersign};
use crate::support::shop::{BUYER, SECRET, add_shop, deliver, invoice};
use crate::support::{eventually, random::Random};
use crate::tools::postgres::Cluster;

/// Two nodes with the same keys, licenses and offers.
fn two_instances() -> [Instance; 2] {
    let license = License::new();
    let both = [instance(&[&license]), instance(&[&license])];
    let [first, second] = &both;
    add_shop(first);
    add_shop(second);
    for secret in ["keys/issuing.key", "keys/references.key"] {
        fs::copy(first.file(secret), second.file(secret)).unwrap();
    }
    both
}

fn waiting(node: &Server) -> f64 {
    node.metric("countersign_shop_deliveries{state=\"waiting\"}").unwrap()
}

/// The lines about licenses, by license: the last status of each.
fn statuses(cluster: &Cluster) -> Vec<String> {
    let sql = "SELECT DISTINCT ON (line::jsonb->>'license') line::jsonb->>'status' FROM countersign.ledger \
               WHERE line::jsonb->>'event' = 'license' ORDER BY line::jsonb->>'license', sequence DESC";
    cluster.psql(sql).lines().map(str::to_owned).collect()
}

#[test]
fn one_sale_that_several_nodes_hear_of_is_one_license_and_a_database_that_is_away_loses_none() {
    let mut cluster = prepared_cluster();
    let instances = two_instances();
    let nodes = instances
        .each_ref()
        .map(|instance| start(instance, &cluster.url("node")));
    let sale = |number: i64| {
        let mut sale = invoice(&format!("in_{number}"), "subscription_create", "price_small", 1, 30);
        sale["parent"]["subscription_details"]["subscription"] = json!(format!("sub_{number}"));
        sale["payment_intent"] = json!(format!("pi_{number}"));
        sale
    };
    let refund = |number: i64| {
        json!({ "id": format!("ch_{number}"), "payment_intent": format!("pi_{number}"),
        "amount": 1_900, "amount_refunded": 1_900, "refunded": true })
    };

    // Each delivery to both nodes at once, and its refund to one of them.
    let mut random = Random::new(7);
    for number in 0..10 {
        std::thread::scope(|scope| {
            for node in &nodes {
                scope.spawn(|| assert_eq!(deliver(node, "invoice.paid", number, &sale(number)), 200));
            }
            let node = &nodes[random.below(2)];
            scope.spawn(|| assert_eq!(deliver(node, "charge.refunded", 100 + number, &refund(number)), 200));
        });
    }
    eventually("all are applied", || nodes.iter().all(|node| waiting(node) == 0.0));
    // One whose refund came first is never issued.
    let refunded = statuses(&cluster);
    assert!(
        refunded.len() <= 10 && refunded.iter().all(|status| status == "suspended"),
        "{refunded:?} {}",
        nodes[0].log()
    );

    // 200 also while the database is away.
    cluster.kill();
    for number in 10..15 {
        for node in &nodes {
            assert_eq!(deliver(node, "invoice.paid", number, &sale(number)), 200);
        }
    }
    // A look at the folder may have begun before the last one came.
    eventually("five wait at each node", || {
        nodes.iter().all(|node| waiting(node) == 5.0)
    });
    cluster.restart();
    eventually("all are applied", || nodes.iter().all(|node| waiting(node) == 0.0));
    let all = statuses(&cluster);
    assert_eq!(
        (all.len(), all.iter().filter(|status| *status == "active").count()),
        (refunded.len() + 5, 5)
    );
    let license = License::new();
    assert_eq!(code(&nodes[1].validate(&license, "a.com")), "unknown_license");
    assert!(nodes.iter().all(|node| !node.log().contains("CANARY")));
}

#[test]
fn a_buyer_whom_two_nodes_hear_of_at_once_is_one_customer_and_erased_on_both() {
    let cluster = prepared_cluster();
    let instances = two_instances();
    let nodes = instances
        .each_ref()
        .map(|instance| start(instance, &cluster.url("node")));
    let sale = |number: i64, buyer: &str| {
        let mut sale = invoice(&format!("in_{number}"), "subscription_create", "price_small", 1, 30);
        sale["parent"]["subscription_details"]["subscription"] = json!(format!("sub_{number}"));
        sale["customer_email"] = json!(buyer);
        sale
    };
    // Each buyer buys twice at the same moment, at one node each.
    for pair in 0..20 {
        std::thread::scope(|scope| {
            for (node, spelled) in nodes.iter().zip(["anna", "ANNA"]) {
                let number = 2 * pair + i64::from(spelled == "ANNA");
                let buyer = format!("CANARY-{spelled}-{pair}@buyer.example");
                scope.spawn(move || assert_eq!(deliver(node, "invoice.paid", number, &sale(number, &buyer)), 200));
            }
        });
    }
    eventually("all are applied", || nodes.iter().all(|node| waiting(node) == 0.0));
    let lines = last_lines(&cluster);
    let mut customers: Vec<_> = lines.iter().map(|line| line["holder"].as_str().unwrap()).collect();
    assert_eq!(customers.len(), 40);
    customers.sort_unstable();
    customers.dedup();
    assert_eq!(customers.len(), 20, "{customers:?}");
    let rows = "SELECT count(*), count(DISTINCT customer) FROM countersign.texts WHERE customer IS NOT NULL";
    assert_eq!(cluster.psql(rows), "20|20");
    let searched = "SELECT count(*) FROM countersign.customer_search";
    assert_eq!(cluster.psql(searched), "20");
    let found = |part: &str| {
        let mut command = countersign(&instances[0]);
        command.env("COUNTERSIGN_STORE", cluster.url("node"));
        let listed = command
            .args(["license", "list", "--json", "--find", part])
            .output()
            .unwrap();
        let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
        listed.as_array().unwrap().len()
    };
    assert_eq!([found("nna-7@"), found("NNA-7@Buyer"), found("nna_7")], [2, 2, 0]);
    assert!(nodes.iter().all(|node| !node.log().contains("CANARY")));

    // Erased through one node, gone for both, and a dump that has the row brings nobody back.
    let erased = customers[0];
    let kept = format!("SELECT name, text, customer FROM countersign.texts WHERE customer = '{erased}'");
    cluster.psql(&format!("CREATE TABLE public.dump AS {kept}"));
    let mut command = countersign(&instances[1]);
    command.env("COUNTERSIGN_STORE", cluster.url("node"));
    let forgotten = command
        .args(["customer", "forget", "--yes", "--json", erased])
        .output()
        .unwrap();
    assert!(forgotten.status.success(), "{forgotten:?}");
    let told: Value = serde_json::from_slice(&forgotten.stdout).unwrap();
    assert_eq!((&told["addresses"], &told["licenses"]), (&json!(1), &json!(2)));
    assert_eq!(cluster.psql(&kept), "");
    assert_eq!(cluster.psql(searched), "19");
    cluster.psql("INSERT INTO countersign.texts (name, text, customer) SELECT * FROM public.dump");
    assert_ne!(cluster.psql(&kept), "");
    let [first, second] = nodes;
    first.stop();
    let first = start(&instances[0], &cluster.url("node"));
    assert_eq!(cluster.psql(&kept), "", "{}", first.log());
    drop(second);
}

/// The last line of each license, in the order of their first lines.
fn last_lines(cluster: &Cluster) -> Vec<Value> {
    let sql = "SELECT (array_agg(line ORDER BY sequence DESC))[1] FROM countersign.ledger \
               WHERE line::jsonb->>'event' = 'license' GROUP BY line::jsonb->>'license' ORDER BY min(sequence)";
    let lines = cluster.psql(sql);
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn of_two_changes_of_a_sale_that_two_nodes_hear_of_at_once_the_later_one_counts() {
    const SALES: i64 = 60;
    let cluster = prepared_cluster();
    let instances = two_instances();
    let nodes = instances
        .each_ref()
        .map(|instance| start(instance, &cluster.url("node")));
    let settle = || {
        eventually("all are applied", || nodes.iter().all(|node| waiting(node) == 0.0));
    };
    let subscription = |number: i64, price: &str, quantity: u32| {
        json!({ "id": format!("sub_{number}"), "status": "active",
            "items": { "data": [{ "id": "si_1", "price": { "id": price }, "quantity": quantity }] } })
    };
    for number in 0..SALES {
        let mut sale = invoice(&format!("in_{number}"), "subscription_create", "price_small", 2, 30);
        sale["parent"]["subscription_details"]["subscription"] = json!(format!("sub_{number}"));
        assert_eq!(deliver(&nodes[0], "invoice.paid", number, &sale), 200);
    }
    settle();
    // The earlier change suspends the second copy, the later one gives both more.
    for number in 0..SALES {
        let earlier = subscription(number, "price_small", 1);
        let later = subscription(number, "price_large", 2);
        std::thread::scope(|scope| {
            let [first, second] = &nodes;
            let told = "customer.subscription.updated";
            scope.spawn(move || assert_eq!(deliver(first, told, 1_000 + 2 * number, &earlier), 200));
            scope.spawn(move || assert_eq!(deliver(second, told, 1_001 + 2 * number, &later), 200));
        });
    }
    settle();
    let all = last_lines(&cluster);
    assert_eq!(all.len(), 2 * SALES as usize);
    let wrong: Vec<_> = all
        .iter()
        .filter(|line| (&line["status"], &line["sites"]) != (&json!("active"), &json!(5)))
        .collect();
    assert!(wrong.is_empty(), "{} of {}: {wrong:?}", wrong.len(), all.len());
}

#[test]
fn what_is_bought_for_a_license_at_two_nodes_at_once_counts_once_each() {
    const RENEWALS: i64 = 8;
    const DOWNLOADS: &[u8; 32] = b"32 bytes of a secret in a test.\n";
    let cluster = prepared_cluster();
    let instances = two_instances();
    for instance in &instances {
        instance.write_secret("keys/downloads.key", std::str::from_utf8(DOWNLOADS).unwrap());
    }
    let nodes = instances
        .each_ref()
        .map(|instance| start(instance, &cluster.url("node")));
    let settle = || {
        eventually("all are applied", || nodes.iter().all(|node| waiting(node) == 0.0));
    };
    let year = |number: i64, token: Option<&str>| {
        json!({ "id": format!("cs_{number}"), "mode": "payment", "payment_status": "paid", "payment_intent": format!("pi_{number}"),
            "customer_details": { "email": BUYER }, "amount_total": 2_990, "client_reference_id": token,
            "line_items": { "data": [{ "price": { "id": "price_small" }, "quantity": 1 }] } })
    };
    let paid = "checkout.session.completed";
    assert_eq!(deliver(&nodes[0], paid, 1, &year(1, None)), 200);
    settle();
    let sold = last_lines(&cluster).remove(0);
    let id = sold["license"].as_str().unwrap().parse().unwrap();
    let token = RenewalToken::new(&DownloadKey::new(DOWNLOADS), &id).reveal();
    let token = token.as_str();
    // Each renewal is heard of at both nodes, and all at once.
    std::thread::scope(|scope| {
        for number in 2..2 + RENEWALS {
            for node in &nodes {
                let sale = year(number, Some(token));
                scope.spawn(move || assert_eq!(deliver(node, paid, number, &sale), 200));
            }
        }
    });
    settle();
    let years = |line: &Value| {
        let [first, last] =
            [&sold["expires"], &line["expires"]].map(|day| day.as_str().unwrap()[..4].parse::<i64>().unwrap());
        last - first
    };
    let lines = last_lines(&cluster);
    assert_eq!(lines.len(), 1, "{lines:?} {}", nodes[1].log());
    assert_eq!(years(&lines[0]), RENEWALS, "{}", lines[0]);
    let refund =
        json!({ "id": "ch_3", "payment_intent": "pi_3", "amount": 2_990, "amount_refunded": 2_990, "refunded": true });
    for node in &nodes {
        assert_eq!(deliver(node, "charge.refunded", 100, &refund), 200);
    }
    settle();
    let lines = last_lines(&cluster);
    assert_eq!((lines.len(), years(&lines[0])), (1, RENEWALS - 1), "{}", lines[0]);
}

#[test]
fn a_key_that_the_shop_made_is_the_license_though_another_node_heard_of_the_sale() {
    let cluster = prepared_cluster();
    let instances = two_instances();
    for instance in &instances {
        instance.write(
            "countersign.toml",
            "[serve]\nforeign_keys = true\n[shops.lemonsqueezy]\nkeys = 'shop'\n",
        );
        instance.write_secret("keys/shops/lemonsqueezy.secret", SECRET);
        instance.write(
            "registry/offers/small.toml",
            "shop = 'lemonsqueezy'\nprices = ['11']\nperiod = '1y'\nsites = 1\nmodules.forms = []\n",
        );
        fs::remove_file(instance.file("registry/offers/large.toml")).unwrap();
    }
    let nodes = instances
        .each_ref()
        .map(|instance| start(instance, &cluster.url("node")));
    let deliver = |node: &Server, event: &str, kind: &str, id: u32, attributes: Value| {
        let body = json!({ "meta": { "event_name": event, "test_mode": false },
            "data": { "type": kind, "id": id.to_string(), "attributes": attributes } });
        let body = body.to_string();
        let mac = <Hmac<Sha256> as hmac::Mac>::new_from_slice(SECRET.as_bytes()).unwrap();
        let signature = const_hex::encode(mac.chain_update(&body).finalize().into_bytes());
        let headers = [
            ("Content-Type", "application/json"),
            ("X-Signature", signature.as_str()),
        ];
        let answer = request(node.address, "POST", "/hooks/lemonsqueezy", &headers, body.as_bytes());
        assert_eq!(answer.status, 200, "{}", node.log());
    };
    let key = |number: u32| format!("38B1460A-5104-4067-A91D-CANARY{number:06}");
    let now = Utc::now().to_rfc3339();
    for number in 1..=6 {
        let sale = json!({ "status": "paid", "user_email": "CANARY@example.com", "updated_at": now,
            "first_order_item": { "id": 1, "product_id": 1, "variant_id": 11, "price_id": 11, "quantity": 1 } });
        let made = json!({ "order_id": number, "key": key(number), "updated_at": now });
        let [sold, keyed] = match number % 2 {
            0 => [&nodes[0], &nodes[1]],
            _ => [&nodes[1], &nodes[0]],
        };
        std::thread::scope(|scope| {
            scope.spawn(|| deliver(sold, "order_created", "orders", number, sale));
            scope.spawn(|| deliver(keyed, "license_key_created", "license-keys", 900 + number, made));
        });
    }
    eventually("all are applied", || nodes.iter().all(|node| waiting(node) == 0.0));
    assert_eq!(statuses(&cluster), ["active"; 6], "{}", nodes[0].log());
    for number in 1..=6 {
        let answer = nodes[number as usize % 2]
            .ask(&json!({ "license_key": key(number), "site_url": format!("https://{number}.example") }));
        assert_eq!(answer.code(), "ok");
    }
    assert!(nodes.iter().all(|node| !node.log().contains("CANARY")));
}
