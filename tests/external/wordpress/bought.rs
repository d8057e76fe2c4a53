//! From a shop's webhook to a buyer whose site has the plugin active: the mail, the page with downloads, the package, the key.

use serde_json::{Value, json};

use super::site::{Core, Site};
use super::vendor::Vendor;
use super::{ACTIVE, HOST};
use crate::support::server::countersign;
use crate::support::shop::{add_shop, deliver, invoice};
use crate::support::{Server, eventually, get, request};
use crate::tools::smtp::MailServer;

#[test]
fn who_buys_at_the_shop_has_the_plugin_active_by_the_mail_alone() {
    let mail = MailServer::start("none");
    let (front, instance) = Vendor::hosting(&["# none\n".to_owned()]).leave();
    add_shop(&instance);
    let settings = format!(
        "[serve]\nrenew_url = \"https://shop.example/renew?license={{token}}&now=1\"\nupgrade_url = \"https://shop.example/up/{{token}}\"\n\
         [shops.stripe]\n[mail]\nserver = \"localhost\"\nport = {}\ntls = \"none\"\nfrom = \"licenses@acme.example\"\n",
        mail.port
    );
    instance.write("countersign.toml", &settings);
    let server = Server::start_in(instance.path(), &["--public-url", &front.url()]);
    front.forward_to(server.address);

    let mut sold = invoice("in_1", "subscription_create", "price_small", 1, 30);
    sold["payment_intent"] = json!("pi_1");
    assert_eq!(deliver(&server, "invoice.paid", 1, &sold), 200);
    eventually("the mail is there", || mail.mails().len() == 1);
    let mails = mail.mails();
    let text = mails[0]["text"].as_str().unwrap();
    let word = |is: &dyn Fn(&&str) -> bool| text.split_whitespace().find(is).unwrap_or_else(|| panic!("{text}"));
    let key = word(&|word| word.len() == 29 && word.matches('-').count() == 4);
    let link = word(&|word| word.contains("/first-copy/"));
    let path = link.strip_prefix(&front.url()).unwrap_or_else(|| panic!("{link}"));

    let page = get(front.address, path);
    assert_eq!(page.status, 200, "{}", page.text());
    let page = page.text();
    let action = page
        .split("<form method=\"post\" action=\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    let button = format!("{}/{action}", path.rsplit_once('/').unwrap().0);
    let package = request(front.address, "POST", &button, &[], b"");
    assert_eq!(package.status, 200, "{}", package.text());

    let mut site = Site::new(Core::Newest, HOST, &front);
    site.install("acme-forms", &package.body);
    assert_eq!(site.press("acme-forms", "activate", key).notices(), [ACTIVE]);
    assert_eq!(site.vendor_sees("acme-forms")["condition"], "active");
    assert_eq!(site.complaints(), [""; 0]);

    // The site links to the vendor's shop, for this license.
    let shown = site.admin.get(&site.license_page("acme-forms"));
    assert!(
        shown.html.contains("<a href=\"https://shop.example/up/r1-"),
        "{}",
        shown.html
    );
    assert!(shown.text().contains("Upgrade the license"));
    let notice = site.admin.get("/wp-admin/tools.php");
    assert!(
        notice.html.contains("<a href=\"https://shop.example/renew?license=r1-"),
        "{}",
        notice.html
    );
    assert!(
        notice.html.contains("&amp;now=1\">Renew the license</a>"),
        "{}",
        notice.html
    );

    // The package says whose it is.
    let leaked = instance.file("leaked.zip");
    std::fs::write(&leaked, &package.body).unwrap();
    let traced = countersign(&instance)
        .arg("trace")
        .arg(&leaked)
        .arg("--json")
        .output()
        .unwrap();
    let traced: Value = serde_json::from_slice(&traced.stdout).unwrap();
    assert_eq!(traced[0]["first_copy"], true, "{traced}");
    let listed = countersign(&instance)
        .args(["license", "list", "--json"])
        .output()
        .unwrap();
    let listed: Vec<Value> = serde_json::from_slice(&listed.stdout).unwrap();
    let traced = &traced[0]["licenses"][0]["id"];
    assert!(
        listed
            .iter()
            .any(|license| license["id"] == *traced && license["status"] == "active")
    );

    // The money goes back: the site learns it, and the page has no download any more.
    let refund =
        json!({ "id": "ch_1", "payment_intent": "pi_1", "amount": 1_900, "amount_refunded": 1_900, "refunded": true });
    assert_eq!(deliver(&server, "charge.refunded", 2, &refund), 200);
    eventually("the button refuses", || {
        request(front.address, "POST", &button, &[], b"").status == 403
    });
    site.pass(25 * 3_600);
    site.cron();
    assert_eq!(site.vendor_sees("acme-forms")["condition"], "suspended");
    for secret in [key, path.rsplit('/').next().unwrap()] {
        assert!(!server.log().contains(secret));
    }
}
