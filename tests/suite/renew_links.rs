//! Where a license is renewed and upgraded: addresses of the vendor's shop, with the license's token.

use serde_json::{Value, json};

use crate::deliveries::{Shop, day};
use crate::hosted::put_secret;
use crate::management::token;
use crate::support::server::{Server, countersign};
use crate::support::shop::{add_shop, invoice};
use crate::support::{Instance, request};

const RENEW: &str = "https://buy.example/x?client_reference_id=";
const UPGRADE: &str = "https://shop.example/up/";

fn instance() -> Instance {
    let instance = Instance::new();
    add_shop(&instance);
    instance.write(
        "registry/offers/small.toml",
        &format!(
            "shop = 'stripe'\nprices = ['price_small']\nperiod = '9y'\nsites = 2\nmodules.forms = []\nrenew_url = '{RENEW}{{token}}'\n"
        ),
    );
    let settings = format!("[serve]\nupgrade_url = '{UPGRADE}{{token}}/now'\n[shops.stripe]\n");
    instance.write("countersign.toml", &settings);
    put_secret(&instance, "keys/downloads.key", &[7; 32]);
    instance
}

/// A session that is paid once.
fn session(id: &str) -> Value {
    json!({ "id": id, "mode": "payment", "payment_status": "paid", "amount_total": 1_900, "created": 1_700_000_000,
        "customer_details": { "email": "buyer@shop.example" }, "metadata": { "offer": "small" } })
}

fn shown(instance: &Instance, id: &str) -> Value {
    let show = ["license", "show", id, "--json"];
    let output = countersign(instance).args(show).output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

fn validated(server: &Server, key: &str, site: &str) -> Value {
    server.ask(&json!({ "license_key": key, "site_url": site })).json()
}

#[test]
fn a_site_a_mail_and_a_program_learn_where_to_renew() {
    let shop = Shop::of(instance());
    shop.deliver("checkout.session.completed", 1, &session("cs_1"));
    shop.settle();
    let license = shop.licenses().remove(0);
    let id = license.line["license"].as_str().unwrap();
    let known = shown(&shop.instance, id);
    let token = known["renewal_token"].as_str().unwrap();
    assert!(token.starts_with("r1-"));
    let renew = json!(format!("{RENEW}{token}"));
    let upgrade = json!(format!("{UPGRADE}{token}/now"));
    assert_eq!(
        (&known["renew_url"], &known["upgrade_url"], &known["offer"]),
        (&renew, &upgrade, &json!("small"))
    );
    let text = countersign(&shop.instance)
        .args(["license", "show", id])
        .output()
        .unwrap();
    assert!(String::from_utf8(text.stdout).unwrap().contains("renew at"));

    let statement = validated(&shop.server, &license.key, "https://a.example");
    assert_eq!(statement["code"], "ok");
    assert_eq!((&statement["renew_url"], &statement["upgrade_url"]), (&renew, &upgrade));
    // A site whose visitors are not to see whose plugin it is has no link to the shop. The customer's mails do.
    let label_white = |white_label: &str| {
        let arguments = ["license", "rights", id, "--white-label", white_label];
        let output = countersign(&shop.instance).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let statement = validated(&shop.server, &license.key, "https://a.example");
        assert_eq!(statement["code"], "ok");
        [statement["renew_url"].clone(), statement["upgrade_url"].clone()]
    };
    assert_eq!(label_white("yes"), [Value::Null, Value::Null]);
    assert_eq!(shown(&shop.instance, id)["renew_url"], renew);
    assert_eq!(label_white("no"), [renew, upgrade]);

    // A site with the key and without a seat learns nothing.
    validated(&shop.server, &license.key, "https://b.example");
    let elsewhere = validated(&shop.server, &license.key, "https://c.example");
    assert_eq!(elsewhere["code"], "bound_elsewhere");
    assert_eq!(
        (&elsewhere["renew_url"], &elsewhere["upgrade_url"]),
        (&Value::Null, &Value::Null)
    );

    // What is bought at the address is bought for the license.
    let mut bought = session("cs_2");
    bought["client_reference_id"] = json!(token);
    shop.deliver("checkout.session.completed", 2, &bought);
    shop.settle();
    assert_eq!(shop.licenses().len(), 1);

    // One that its shop renews has nothing to renew by hand.
    let sold = invoice("in_1", "subscription_create", "price_small", 1, 30);
    shop.deliver("invoice.paid", 3, &sold);
    let going_on = json!({ "id": "sub_1", "status": "active", "items": { "data": [{ "id": "si_1", "price": { "id": "price_small" }, "quantity": 1,
        "current_period_start": 1_700_000_000, "current_period_end": 1_900_000_000 }] } });
    shop.deliver("customer.subscription.updated", 4, &going_on);
    shop.settle();
    let renewing = shop.licenses().remove(1);
    let statement = validated(&shop.server, &renewing.key, "https://d.example");
    assert_eq!(
        (&statement["renews"], &statement["renew_url"]),
        (&json!(true), &Value::Null),
        "{statement}"
    );
    assert!(statement["upgrade_url"].is_string());

    // Expired is when it is needed most; revoked has none.
    let run = |arguments: &[&str]| {
        let output = countersign(&shop.instance).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run(&["license", "renew", id, "--expires", &day(0)]);
    run(&["license", "revoke", id]);
    let revoked = validated(&shop.server, &license.key, "https://a.example");
    assert_eq!(
        (&revoked["code"], &revoked["renew_url"]),
        (&json!("revoked"), &Value::Null)
    );
    assert_eq!(shown(&shop.instance, id)["renewal_token"], Value::Null);
}

#[test]
fn a_token_with_the_scope_reads_whose_a_license_is_and_others_a_number() {
    let shop = Shop::of(instance());
    shop.deliver("checkout.session.completed", 1, &session("cs_1"));
    let mut other = session("cs_2");
    other["customer_details"]["email"] = json!("Other@shop.example");
    shop.deliver("checkout.session.completed", 2, &other);
    shop.settle();
    let reader = token(&shop.instance, "reader", &["licenses:read"]);
    let desk = token(&shop.instance, "desk", &["licenses:read", "customers:read"]);
    let list = |token: &str, query: &str| {
        let path = format!("/api/v1/licenses{query}");
        let answer = request(shop.server.address, "GET", &path, &[("Authorization", token)], b"");
        (answer.status, answer.json())
    };
    let (_, all) = list(&reader, "");
    assert_eq!(all["licenses"].as_array().unwrap().len(), 2);
    assert!(!all.to_string().contains("shop.example\""), "{all}");
    let number = |license: &Value| license["customer"]["number"].as_str().unwrap().to_owned();
    let (_, known) = list(&desk, "");
    let addresses: Vec<_> = known["licenses"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["customer"]["addresses"][0].as_str().unwrap())
        .collect();
    assert!(addresses.contains(&"Other@shop.example"), "{known}");
    let one = all["licenses"][0].clone();
    for (name, count) in [("cs_1", 1), ("cs_2", 1), ("cs_3", 0)] {
        let (_, of_order) = list(&reader, &format!("?reference={name}"));
        assert_eq!(of_order["licenses"].as_array().unwrap().len(), count, "{name}");
    }
    let (_, of_number) = list(&reader, &format!("?customer={}", number(&one)));
    assert_eq!(of_number["licenses"].as_array().unwrap().len(), 1);
    assert_eq!(of_number["licenses"][0]["id"], one["id"]);
    let (_, of_address) = list(&desk, "?customer=other%40SHOP.example");
    assert_eq!(
        of_address["licenses"][0]["customer"]["addresses"],
        json!(["Other@shop.example"])
    );
    assert_eq!(list(&desk, "?customer=nobody%40shop.example").1["licenses"], json!([]));
    let (status, refused) = list(&reader, "?customer=other%40shop.example");
    assert_eq!((status, &refused["code"]), (403, &json!("insufficient_scope")));
    assert_eq!(list(&desk, "?customer=anna").0, 400);
    assert!(!shop.server.log().contains("shop.example"), "{}", shop.server.log());
}

#[test]
fn an_address_that_no_customer_must_click_stops_nothing_but_itself() {
    let instance = instance();
    for (address, why) in [
        ("http://shop.example/{token}", "expected an address such as"),
        ("https://{token}.example/", "the one placeholder is {token}"),
        ("https://me:pw@shop.example/", "no user name and no password"),
    ] {
        instance.write(
            "registry/offers/bad.toml",
            &format!(
                "shop = 'stripe'\nprices = ['price_bad']\nperiod = '1y'\nmodules.forms = []\nrenew_url = '{address}'\n"
            ),
        );
        let output = countersign(&instance).args(["shop", "offers"]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.code() == Some(3) && said.contains("bad.toml:5:") && said.contains(why),
            "{said}"
        );
    }
}
