//! Sites that keep the client of Easy Digital Downloads, in a real WordPress, and the old shop that passes their questions on.
//!
//! The client here is not EDD's own updater: no package was found that has it. It sends what that updater sends and reads what
//! it reads. [`super::edd_updaters`] drives EDD's own, where there is a copy.

use std::fs;

use serde_json::{Value, json};

use super::HOST;
use super::front::{Answer, Front};
use super::site::{Core, Site};
use super::vendor::Vendor;
use crate::support::instance::sha256;
use crate::support::{Instance, License, Server};

/// Its key, as EDD makes them.
pub const KEY: &str = "cc22c1ec86304b36883440e2e84cddff";

/// A server that answers EDD's clients, and what is before it.
pub struct Edd {
    pub front: Front,
    pub server: Server,
    pub instance: Instance,
}

/// The license of the old shop.
pub fn license() -> License {
    License {
        key: KEY.to_owned(),
        id: sha256(KEY),
    }
}

/// A server that answers EDD's clients about a license for one site, and hosts version 1.0.0, whose client has these
/// settings, too.
pub fn edd(settings: &str) -> Edd {
    answering(Vendor::hosting_with(&[license().toml("")], set(settings)))
}

/// Gives the client of the example these settings, too.
pub fn set(settings: &str) -> impl Fn(String) -> String {
    let domain = "'text_domain' => 'acme-forms'";
    let settings = format!("{settings} {domain}");
    move |text| text.replace(domain, &settings)
}

/// Has a vendor's server answer EDD's clients.
pub fn answering(vendor: Vendor) -> Edd {
    let (front, instance) = vendor.leave();
    let file = instance.file("registry/plugins/acme-forms.toml");
    let entry = fs::read_to_string(&file).unwrap();
    fs::write(
        &file,
        format!("edd_item_id = 12\nedd_item_name = 'Acme Forms'\n{entry}"),
    )
    .unwrap();
    let url = front.url();
    let flags = [
        "--public-url",
        &url,
        "--foreign-keys",
        "true",
        "--compat",
        "edd",
        "--proxies",
        "127.0.0.1",
    ];
    let server = Server::start_in(instance.path(), &flags);
    front.forward_to(server.address);
    Edd {
        front,
        server,
        instance,
    }
}

/// The old shop, which passes questions on to the server.
pub fn old_shop(edd: &Edd) -> Site {
    let shop = Site::new(Core::Debian, "shop.example", &edd.front);
    let plugin = include_str!("../../../clients/edd-forwarder/countersign-edd-forwarder.php");
    fs::write(shop.file("wp-content/mu-plugins/countersign-edd-forwarder.php"), plugin).unwrap();
    shop
}

/// Says in the shop's wp-config.php where the server is.
pub fn forward(shop: &Site, edd: &Edd) {
    forward_to(shop, &json!(edd.front.url()));
}

/// Sets the constant that the page for shops names.
fn forward_to(shop: &Site, server: &Value) {
    let page = include_str!("../../../docs/coming-from-edd.md");
    let line = page.lines().find(|line| line.starts_with("define( "));
    let line = line.expect("a line for wp-config.php");
    let parts: Vec<_> = line.split('\'').collect();
    let [_, name, _, "https://licenses.example.com", " );"] = parts[..] else {
        panic!("{line}")
    };
    let constants = json!({ name: server });
    fs::write(shop.file("constants.json"), constants.to_string()).unwrap();
}

/// A plugin with a client of EDD's shapes.
fn client(shop: &str) -> String {
    let client = include_str!("../../tools/wordpress/edd-client.php");
    client.replace("https://shop.example", shop).replace("THE_KEY", KEY)
}

#[test]
fn a_site_with_the_old_client_activates_is_updated_and_goes_on_with_its_key() {
    let edd = edd("'foreign_keys' => true, 'key_from' => 'acme_license_key',");
    let mut site = Site::new(Core::Debian, HOST, &edd.front);
    fs::create_dir(site.file("wp-content/plugins/acme-forms")).unwrap();
    fs::write(
        site.file("wp-content/plugins/acme-forms/acme-forms.php"),
        client(&edd.front.url()),
    )
    .unwrap();
    site.run("require_once ABSPATH . 'wp-admin/includes/plugin.php'; activate_plugin('acme-forms/acme-forms.php');");
    site.run(&format!("update_option('acme_license_key', '{KEY}');"));
    let ask = |action: &str| -> Value {
        let said = site.run(&format!("echo wp_json_encode(acme_edd('{action}'));"));
        serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"))
    };
    assert_eq!(ask("check_license")["license"], "inactive");
    assert_eq!(ask("activate_license")["license"], "valid");
    let version = ask("get_version");
    assert_eq!(version["new_version"], "1.0.0");
    let sections = site.run("echo wp_json_encode(maybe_unserialize(acme_edd('get_version')->sections));");
    let sections: Value = serde_json::from_str(&sections).unwrap();
    assert!(sections["changelog"].is_string(), "{sections}");
    site.pass(61);
    let text = site.admin.get("/wp-admin/update-core.php?force-check=1").text();
    assert!(
        text.contains("Acme Forms You have version 0.9 installed. Update to 1.0.0."),
        "{text}"
    );
    let answer = site.update_now();
    assert_eq!(answer["success"], true, "{answer}");
    let (row, _) = site.row();
    assert!(row.contains("Version 1.0.0"), "{row}");
    // The new version has our client, which goes on with the key of the old one.
    site.admin.get("/wp-admin/");
    assert_eq!(site.vendor_sees("acme-forms")["active"], true);
    assert!(!edd.server.log().contains(KEY));
}

/// EDD's way from a request to an action, and old licenses: what must never be reached.
const OLD_LICENSES: &str = r#"<?php
$run = function (string $name) {
    return function () use ($name) {
        foreach ([$_GET, $_POST] as $given) {
            $action = empty($given[$name]) || !is_scalar($given[$name]) ? '' : sanitize_key($given[$name]);
            if ('' !== $action) {
                do_action("edd_$action", $given);
            }
        }
    };
};
add_action('init', $run('edd_action'));
add_action('admin_init', $run('edd-action'));
foreach (['activate_license', 'check_license', 'deactivate_license', 'get_version'] as $action) {
    add_action("edd_$action", function () {
        exit('The old shop answers.');
    });
}
"#;

/// However a request is written that EDD would take for a question about a license, the server answers it, or nobody.
fn never_answers_of_licenses_itself(edd: &Edd, shop: &Site) {
    fs::write(shop.file("wp-content/mu-plugins/old-licenses.php"), OLD_LICENSES).unwrap();
    let mut visitor = shop.visitor();
    edd.front.take_asked();
    let question = format!("license={KEY}&item_id=12&url=customer.example");
    for (written, action) in [
        ("CHECK_LICENSE", "check_license"),
        ("check_license.", "check_license"),
        ("%20check_license", "check_license"),
        ("check%5C_license%27", "check_license"),
        ("%C3%A9check_license", "check_license"),
        ("GET_VERSION", "get_version"),
        ("%20activate_license", "activate_license"),
    ] {
        for path in [
            "/?edd_action=",
            "/?edd.action=",
            "/wp-admin/admin-ajax.php?edd-action=",
            "/wp-admin/admin-post.php?edd-action=",
        ] {
            let answer = visitor.get(&format!("{path}{written}&{question}"));
            assert!(
                answer.status == 200 && answer.html.starts_with('{'),
                "{path}{written}: {}",
                answer.html
            );
            let asked = edd.front.take_asked();
            assert_eq!(asked.len(), 1, "{path}{written}");
            let body = String::from_utf8_lossy(&asked[0].body);
            assert!(
                body.contains(&format!("edd_action={action}&")),
                "{path}{written}: {body}"
            );
        }
    }
    let posted = [("edd_action", "Get_Version"), ("license", KEY), ("item_id", "12")];
    assert!(visitor.post("/", &posted).html.starts_with('{'));
    // The query goes first, and has its own fields.
    let both = visitor.post(&format!("/?edd_action=get_version&{question}"), &posted);
    assert!(both.status == 200 && both.html.contains("new_version"), "{}", both.html);
    edd.front.take_asked();
    for (path, action) in [
        ("/?edd_action=get_version", "add_to_cart"),
        ("/?edd_action=add_to_cart", "get_version"),
        ("/?edd_action=check_license", "get_version"),
        ("/?edd-action=x", " get_version"),
    ] {
        let answer = visitor.post(path, &[("edd_action", action), ("license", KEY), ("item_id", "12")]);
        assert_eq!(
            (answer.status, answer.html.contains("old shop")),
            (400, false),
            "{path}: {}",
            answer.html
        );
    }
    assert_eq!(edd.front.take_asked().len(), 0);
}

#[test]
fn the_old_shop_passes_questions_on_and_stays_a_shop() {
    let edd = edd("");
    let shop = old_shop(&edd);
    let form = |action: &'static str| {
        [
            ("edd_action", action),
            ("license", KEY),
            ("item_id", "12"),
            ("url", "https://customer.example"),
            ("customer_email", "jane@buyer.example"),
        ]
    };
    let mut visitor = shop.visitor();
    // Without the line in wp-config.php, it does nothing.
    assert!(visitor.post("/", &form("check_license")).html.contains("A page."));
    forward(&shop, &edd);
    edd.front.take_asked();
    let activated = visitor.post("/", &form("activate_license"));
    let said: Value = serde_json::from_str(&activated.html).unwrap_or_else(|_| panic!("{}", activated.html));
    assert_eq!((activated.status, &said["license"]), (200, &json!("valid")));
    let checked = visitor.get(&format!(
        "/?edd_action=check_license&license={KEY}&item_id=12&url=customer.example"
    ));
    let said: Value = serde_json::from_str(&checked.html).unwrap();
    assert_eq!((&said["license"], &said["site_count"]), (&json!("valid"), &json!(1)));
    let asked = edd.front.take_asked();
    assert_eq!(asked.len(), 2);
    for asked in &asked {
        assert_eq!(asked.header("x-forwarded-for"), Some("127.0.0.1"));
        assert_eq!(asked.header("cookie"), None);
        assert!(!format!("{asked:?}").contains("buyer.example"));
    }
    never_answers_of_licenses_itself(&edd, &shop);
    // An address that keys must not be sent to: nobody answers.
    for wrong in [
        json!("http://licenses.example.com"),
        json!("licenses.example.com"),
        json!(""),
        json!(null),
        json!(["x"]),
    ] {
        forward_to(&shop, &wrong);
        let answer = visitor.post("/", &form("check_license"));
        let is_refused = answer.status == 503 && answer.html.contains("COUNTERSIGN_URL is no https address");
        assert!(is_refused, "{wrong}: {} {}", answer.status, answer.html);
        assert!(visitor.get("/").html.contains("A page."), "{wrong}");
    }
    assert_eq!(edd.front.take_asked().len(), 0);
    forward(&shop, &edd);
    // Everything else is the shop's.
    for path in ["/", "/?edd_action=add_to_cart", "/?edd_action[]=check_license"] {
        let page = visitor.get(path);
        assert!(page.status == 200 && page.html.contains("A page."), "{path}");
    }
    assert_eq!(edd.front.take_asked().len(), 0);
    // A server that does not answer: 503, and the shop goes on.
    edd.front.answer_with(Answer::Nothing);
    assert_eq!(visitor.post("/", &form("check_license")).status, 503);
    assert!(visitor.get("/").html.contains("A page."));
    edd.front.answer_with(Answer::Forward);
    assert_eq!(visitor.post("/", &form("deactivate_license")).status, 200);
    assert_eq!(shop.complaints(), [""; 0]);
}
