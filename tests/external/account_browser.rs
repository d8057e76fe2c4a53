//! The pages of customers in a browser: from the address to a site that moved, with a real mail server; and the first copy.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::instance::Instance;
use crate::support::server::{Server, countersign, countersign_in};
use crate::support::{License, eventually};
use crate::tools::browser::Browser;
use crate::tools::smtp::{MailServer, header};

const ANNA: &str = "anna@buyer.example";

/// How many pixels a page is wider than the window.
const TOO_WIDE: &str = "Math.max(0, document.documentElement.scrollWidth - innerWidth)";

fn json_of(instance: &Instance, arguments: &[&str]) -> Value {
    let output = countersign(instance).args(arguments).arg("--json").output().unwrap();
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The code in a mail.
fn code(mail: &Value) -> String {
    let text = mail["text"].as_str().unwrap();
    let code = text.split("ode: ").nth(1).unwrap_or_else(|| panic!("{text}"));
    code.split_whitespace().next().unwrap().to_owned()
}

/// Looks at a page on a small phone and on a desk, in the light and in the dark, and walks through it by the keyboard.
fn look(browser: &mut Browser, address: &str) {
    for (width, scheme) in [(320, "light"), (320, "dark"), (1440, "light"), (1440, "dark")] {
        browser.screen(width, 900, scheme);
        browser.does("open", &[address]);
        assert_eq!(browser.evaluate(TOO_WIDE), 0, "{address} {width} {scheme}");
        if (width == 1440) == (scheme == "light") {
            assert_eq!(
                browser.asks("faults", json!([])),
                json!([]),
                "{address} {width} {scheme}"
            );
        }
    }
    browser.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true })");
    let reached = browser.asks("walk", json!([]));
    assert_eq!(reached, json!({ "unreached": [], "plain": [] }), "{address}");
    assert_eq!(browser.evaluate("document.scripts.length"), 0, "{address}");
}

/// A vendor with a customer who has signed in by the code of a mail, on a phone.
struct Customer {
    server: Server,
    license: License,
    browser: Browser,
    origin: String,
    _instance: Instance,
    _mail: MailServer,
}

impl Customer {
    fn signed_in() -> Self {
        let mail = MailServer::start("none");
        let instance = Instance::issuing(&[]);
        let settings = format!(
            "[account]\nname = 'Acme'\ncolor = '#17615a'\nsupport = 'help@acme.example'\n[mail]\nserver = 'localhost'\n\
             port = {}\ntls = 'none'\nfrom = 'licenses@acme.example'\n",
            mail.port
        );
        instance.write("countersign.toml", &settings);
        let server = Server::start(&instance);
        let issued = json_of(
            &instance,
            &[
                "license",
                "issue",
                "--module",
                "forms",
                "--sites",
                "2",
                "--customer",
                ANNA,
                "--expires",
                "2099-06-30",
            ],
        );
        let license = License {
            id: issued["id"].as_str().unwrap().to_owned(),
            key: issued["license_key"].as_str().unwrap().to_owned(),
        };
        for host in ["old.buyer.example", "xn--mnchen-3ya.example"] {
            assert_eq!(server.validate(&license, host).code(), "ok");
        }

        let mut browser = Browser::start();
        browser.screen(320, 640, "light");
        let origin = format!("http://127.0.0.1:{}", server.address.port());
        browser.does("open", &[&format!("{origin}/account")]);
        browser.does("fill", &["input[name=address]", ANNA]);
        browser.does("press", &["Enter"]);
        browser.does("shows", &["h1", "Look in your mail"]);
        eventually("the mail is there", || !mail.mails().is_empty());
        let mails = mail.mails();
        assert_eq!(header(&mails[0], "To"), ANNA);
        browser.does("fill", &["input[name=code]", &code(&mails[0])]);
        browser.does("press", &["Enter"]);
        browser.does("shows", &["h1", "Your licenses"]);
        Self {
            server,
            license,
            browser,
            origin,
            _instance: instance,
            _mail: mail,
        }
    }
}

#[test]
fn a_customer_moves_a_site_on_a_phone_and_every_page_fits_and_axe_finds_nothing() {
    let Customer {
        server,
        license,
        mut browser,
        origin,
        _instance,
        _mail,
    } = Customer::signed_in();
    // Signed in, and as a stranger.
    let own = format!("/account/licenses/{}", license.id);
    let pages = [
        "/account".to_owned(),
        own.clone(),
        format!("{own}/move?host=old.buyer.example"),
        format!("{own}/new-key"),
        format!("{own}/download"),
        "/account/key".to_owned(),
        "/account/sign-in".to_owned(),
        "/account/nothing".to_owned(),
    ];
    for page in &pages {
        look(&mut browser, &format!("{origin}{page}"));
    }

    browser.screen(320, 640, "dark");
    browser.does("open", &[&format!("{origin}{own}/move?host=old.buyer.example")]);
    browser.does("fill", &["input[name=to]", "https://new.buyer.example/shop"]);
    browser.does("click", &["main form button"]);
    browser.does("shows", &["[role=status]", "The new address has the seat."]);
    browser.does("shows", &["main", "new.buyer.example"]);
    assert_eq!(server.validate(&license, "new.buyer.example").code(), "ok");

    browser.does("click", &["form[action='/account/sign-out'] button"]);
    browser.does("shows", &["main:has([name=address])", ""]);
    browser.does("open", &[&format!("{origin}{own}")]);
    assert!(
        !browser.text("body").contains("buyer.example"),
        "{}",
        browser.text("body")
    );

    // By the key alone: no other site.
    browser.does("open", &[&format!("{origin}/account/key")]);
    browser.does("fill", &["input[name=license_key]", &license.key]);
    browser.does("press", &["Enter"]);
    browser.does("shows", &["main", "2 of 2"]);
    assert!(!browser.text("main").contains("new.buyer"), "{}", browser.text("main"));
    for address in browser.requests() {
        assert!(address.starts_with(&origin), "{address}");
    }
}

#[test]
fn the_page_of_the_first_copy_fits_and_its_button_gives_a_package() {
    let folder = tempfile::tempdir().unwrap();
    let demo = folder.path().join("demo");
    let run = |arguments: &[&str]| {
        let output = countersign_in(&demo).args(arguments).output().unwrap();
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        output.stdout
    };
    let made = countersign_in(folder.path())
        .args(["init", "--demo"])
        .arg(&demo)
        .output();
    assert!(made.unwrap().status.success());
    run(&["build"]);
    let issue = [
        "license",
        "issue",
        "--module",
        "acme-forms",
        "--expires",
        "2099-06-30",
        "--json",
    ];
    let issued: Value = serde_json::from_slice(&run(&issue)).unwrap();
    let link = issued["download_page"].as_str().unwrap();
    let path = &link[link.find("/first-copy/").unwrap()..];
    let server = Server::start_in(&demo, &[]);
    let mut browser = Browser::start();
    let page = format!("http://127.0.0.1:{}{path}", server.address.port());
    look(&mut browser, &page);
    browser.does("click", &["main form button"]);
    eventually("the package is sent", || server.log().contains("gave a first copy"));
    // Browsers ask for an icon that the vendor may put beside the landing page; the demo has none.
    let complaints = browser.complaints();
    assert!(
        complaints.iter().all(|complaint| complaint.contains("404")),
        "{complaints:?}"
    );
}

/// `make pictures` draws docs/account/ again.
#[test]
#[ignore = "draws pictures for the documentation: make pictures"]
fn pictures() {
    let mut customer = Customer::signed_in();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/account");
    fs::create_dir_all(&folder).unwrap();
    let license = format!("/account/licenses/{}", customer.license.id);
    for (name, path, (width, height, scheme)) in [
        ("licenses", "/account", (900, 420, "light")),
        ("license", license.as_str(), (390, 844, "light")),
        (
            "move",
            &format!("{license}/move?host=old.buyer.example"),
            (390, 844, "dark"),
        ),
    ] {
        customer.browser.screen(width, height, scheme);
        customer.browser.does("open", &[&format!("{}{path}", customer.origin)]);
        let file = folder.join(format!("{name}.png"));
        customer.browser.asks("picture", json!([file, false]));
    }
}
