//! The desk in browsers: what a person sees, does with mouse and keys, and what of a hostile customer's name comes through.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::mail::reminders::in_days;
use crate::support::http::{get, post_json};
use crate::support::server::countersign_in;
use crate::support::shop::{SECRET, deliver_text, invoice};
use crate::support::{Server, eventually};
use crate::tools::browser::Browser;

const PEOPLE: &str = "[[person]]\nname = 'Anna Keller'\naddress = 'anna@acme.example'\nrole = 'admin'\n\
    [[person]]\nname = 'Jonas Berg'\naddress = 'jonas@acme.example'\nrole = 'support'\n\
    [[person]]\nname = 'Mira Olsen'\naddress = 'mira@acme.example'\nrole = 'read'\n";

/// Days to the end, none for a lifetime; state, sites, name, address, hosts.
type Customer = (Option<i64>, &'static str, u32, &'static str, &'static str, &'static str);

/// Customers as any vendor has them.
const CUSTOMERS: [Customer; 9] = [
    (
        Some(397),
        "active",
        5,
        "Riverbank Studio",
        "studio@riverbank.example.net",
        "riverbank.example.net@2025-12-31 shop.riverbank.example.net@2026-02-04 xn--mnchen-3ya.example.net@2026-03-19",
    ),
    (
        Some(105),
        "active",
        1,
        "Jürgen Weiß",
        "weiss@example.com",
        "weiss.example.com",
    ),
    (
        Some(3),
        "active",
        3,
        "متجر الياسمين",
        "orders@yasmin.example.net",
        "a.yasmin.example.net b.yasmin.example.org",
    ),
    (
        None,
        "active",
        25,
        "North Pier Hotels Group & Conference Centres Ltd.",
        "it-procurement@north-pier-hotels.example.com",
        "hotel1.north-pier.example hotel2.north-pier.example hotel3.north-pier.example hotel4.north-pier.example",
    ),
    (
        Some(1),
        "active",
        1,
        "Marta Lindqvist",
        "marta@lindqvist.example.net",
        "lindqvist.example.net",
    ),
    (
        Some(220),
        "suspended",
        1,
        "Sable & Finch",
        "hello@sablefinch.example.com",
        "",
    ),
    (
        Some(-60),
        "active",
        1,
        "Café Ørsted",
        "hej@orsted.example.net",
        "orsted.example.net",
    ),
    (
        Some(263),
        "active",
        10,
        "Εργαστήρι Ήλιος",
        "info@ilios.example.com",
        "ilios1.example.com ilios2.example.com",
    ),
    (
        Some(43),
        "active",
        3,
        "Harbor & Sons",
        "office@harborsons.example.net",
        "harborsons.example.net",
    ),
];

/// The licenses of a large vendor.
const MILLION: usize = 1_000_000;

/// A vendor whose desk has something on each page.
struct Vendor {
    folder: TempDir,
    server: Server,
}

/// A key of another system.
fn key(number: usize) -> String {
    format!("7f3c2a10-5b6d-4e8f-9a1b-{number:012x}")
}

/// Rows of an import; each name in quotes.
fn rows() -> String {
    let mut rows = String::from("key,expires,status,sites,modules,hosts,customer,name,reference\n");
    for (number, (expires, status, sites, name, address, hosts)) in CUSTOMERS.into_iter().enumerate() {
        let key = key(number);
        let order = 10_481 - number * 7;
        let expires = expires.map_or("lifetime".to_owned(), |days| in_days(days).to_string());
        rows += &format!("{key},{expires},{status},{sites},acme-forms=thanks,{hosts},{address},\"{name}\",{order}\n");
    }
    for number in 0..60 {
        let key = key(100 + number);
        rows += &format!(
            "{key},2027-05-05,active,2,acme-pdf,site{number}.example,buyer{number}@example.com,Buyer {number},{}\n",
            9_000 + number
        );
    }
    rows
}

/// Rows of as many licenses as a desk has to show, each with a customer, an order and a site.
fn million_rows() -> String {
    let mut rows = String::from("key,expires,status,sites,modules,hosts,customer,name,reference\n");
    for number in 0..MILLION {
        let key = key(1_000_000 + number);
        let month = 1 + number % 12;
        let day = 1 + number % 28;
        let module = ["acme-forms", "acme-pdf"][number % 2];
        let sites = 1 + number % 5;
        rows += &format!(
            "{key},2027-{month:02}-{day:02},active,{sites},{module},of{number}.example,mail{number}@example.com,\
             Owner {number},{}\n",
            2_000_000 + number
        );
    }
    rows
}

/// What customers and shops would write to break a page: no blank to break at, marks that pile up, that turn the text, and that nobody
/// sees, markup, and formulas.
fn hostile_rows() -> String {
    let names = [
        "W".repeat(200),
        format!("Zalgo{}", "\u{301}\u{302}\u{303}".repeat(30)),
        "\u{202e}desrever\u{202c} \u{200b}\u{2066}name".to_owned(),
        "<script>document.title='owned'</script><img src=x onerror=alert(1)>".to_owned(),
        "=HYPERLINK(\"\"http://evil.example\"\")".to_owned(),
    ];
    let mut rows = String::from("key,expires,status,sites,modules,hosts,customer,name,reference\n");
    for (number, name) in names.iter().enumerate() {
        let local = "w".repeat(60);
        let host = format!("{}.{}.example", "w".repeat(60), "m".repeat(60));
        let order = "9".repeat(60);
        rows += &format!(
            "{},lifetime,active,1,acme-forms,{host},{local}{number}@example.com,\"{name}\",{order}\n",
            key(500 + number)
        );
    }
    rows
}

impl Vendor {
    fn run(&self, arguments: &[&str]) -> String {
        run(&self.folder.path().join("demo"), arguments)
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.run(&[arguments, &["--json"]].concat())).unwrap()
    }

    /// The demo with people, customers, sites that ask, a license that is passed around, and a sale that waits.
    fn open(rows: &[String]) -> Self {
        let folder = TempDir::new().unwrap();
        let demo = folder.path().join("demo");
        let made = countersign_in(folder.path())
            .args(["init", "--demo"])
            .arg(&demo)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        run(&demo, &["build"]);
        let config = demo.join("countersign.toml");
        let settings = fs::read_to_string(&config).unwrap();
        fs::write(
            &config,
            format!("serve.foreign_keys = true\n{settings}\n[shops.stripe]\n"),
        )
        .unwrap();
        let secret = demo.join("keys/shops/stripe.secret");
        fs::write(&secret, SECRET).unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        fs::create_dir_all(demo.join("registry/offers")).unwrap();
        let offer = "shop = 'stripe'\nprices = ['price_small']\nperiod = '1y'\nsites = 1\nmodules.acme-forms = []\n";
        fs::write(demo.join("registry/offers/small.toml"), offer).unwrap();
        fs::write(demo.join("registry/desk.toml"), PEOPLE).unwrap();
        for rows in rows {
            fs::write(folder.path().join("rows.csv"), rows).unwrap();
            let rows = folder.path().join("rows.csv");
            run(&demo, &["license", "import", rows.to_str().unwrap(), "--from", "csv"]);
        }
        let server = Server::start_in(&demo, &[]);
        let vendor = Self { folder, server };
        vendor.sites_ask();
        vendor
    }

    fn sites_ask(&self) {
        let ask = |key: String, host: &str, version: &str| {
            let site = format!("https://{host}");
            let body = json!({ "license_key": key, "site_url": site });
            post_json(self.server.address, "/api/v1/validate-license", &body);
            let query = format!("license_key={key}&site_url={site}&current_version={version}");
            get(self.server.address, &format!("/api/v1/updates/acme-forms?{query}"));
        };
        for (number, (.., hosts)) in CUSTOMERS.iter().enumerate() {
            for (place, host) in hosts.split_whitespace().enumerate() {
                let host = host.split('@').next().unwrap();
                ask(
                    key(number),
                    host,
                    ["1.2.0", "1.1.0", "1.2.0", "1.0.0"][(number + place) % 4],
                );
            }
        }
        for number in 0..40 {
            ask(key(4), &format!("found-it-{number}.example"), "1.1.0");
        }
        let mut sale = invoice("in_1", "subscription_create", "price_unknown", 1, 30);
        sale["customer_name"] = json!("Lena Vogt");
        let event = json!({ "id": "evt_1", "type": "invoice.paid", "created": 1_700_000_001, "livemode": true,
            "data": { "object": sale } });
        assert_eq!(deliver_text(&self.server, &event.to_string()), 200);
        eventually("the sale waits, and is parked", || {
            self.json(&["shop", "sales", "list", "--waiting"]) != json!([])
                && self.json(&["shop", "parked", "list"]) != json!([])
        });
    }

    /// Where a link leads.
    fn link(&self) -> String {
        self.json(&["desk"])["link"].as_str().unwrap().to_owned()
    }

    /// Signs in by a link, with a click.
    fn sign_in(&self, browser: &mut Browser) -> String {
        browser.does("open", &[&self.link()]);
        browser.does("click", &["main button"]);
        browser.does("shows", &["h1", "Today"]);
        let address = browser.asks("address", json!([]));
        address.as_str().unwrap().trim_end_matches('/').to_owned()
    }

    /// The id of the license of this order.
    fn license_of(&self, name: &str) -> String {
        let found = self.json(&["license", "list", "--find", name]);
        found[0]["id"].as_str().unwrap().to_owned()
    }

    /// Every page that there is to look at.
    fn pages(&self, name: &str) -> Vec<String> {
        let license = format!("/licenses/{}", self.license_of(name));
        let below = ["", "/suspend", "/new-key", "/revoke", "/erase-customer"].map(|page| format!("{license}{page}"));
        let others = [
            "/",
            "/licenses",
            "/licenses?q=harbor",
            "/licenses?plugin=acme-forms&runs=1.1.0",
            "/licenses?q=nobody-has-this",
            "/new-license",
            "/sales",
            "/plugins",
            "/plugins/acme-forms",
            "/plugins/acme-forms/withhold",
            "/releases",
            "/sharing",
            "/changes",
            "/changes?by=anyone",
            "/health",
            "/people",
            "/nothing",
        ];
        let waiting = self.json(&["shop", "sales", "list", "--waiting"]);
        let sales = waiting.as_array().unwrap().iter();
        let sales = sales.map(|wait| format!("/sales/{}", wait["sale"].as_str().unwrap()));
        others
            .map(str::to_owned)
            .into_iter()
            .chain(below)
            .chain(sales)
            .collect()
    }
}

fn run(instance: &Path, arguments: &[&str]) -> String {
    let mut command: Command = countersign_in(instance);
    let output = command.args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "{arguments:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// How many pixels a page is wider than the window.
const TOO_WIDE: &str = "Math.max(0, document.documentElement.scrollWidth - innerWidth)";

/// Looks at a page on a phone, a tablet and a desk, in the light and in the dark, and on paper.
fn look(browser: &mut Browser, address: &str) {
    // What fits does not hang on the colours.
    for (width, scheme) in [(390, "dark"), (820, "light"), (1440, "light")] {
        browser.screen(width, 900, scheme);
        browser.does("open", &[address]);
        assert_eq!(browser.evaluate(TOO_WIDE), 0, "{address} {width} {scheme}");
        // One of the widths finds what does not hang on the width.
        if width != 820 {
            assert_eq!(
                browser.asks("faults", json!([])),
                json!([]),
                "{address} {width} {scheme}"
            );
        }
    }
    browser.does("print", &[]);
    assert_eq!(browser.evaluate(TOO_WIDE), 0, "{address} on paper");
    let shown = "[...document.querySelectorAll('form, button, .btn')].filter((part) => part.checkVisibility()).length";
    assert_eq!(
        browser.evaluate(shown),
        0,
        "{address}: nobody presses a button on paper"
    );
}

#[test]
fn every_page_fits_every_screen_and_axe_finds_nothing() {
    let vendor = Vendor::open(&[rows()]);
    let mut browser = Browser::start();
    browser.screen(1440, 900, "light");
    let origin = vendor.sign_in(&mut browser);
    for page in vendor.pages("Riverbank Studio") {
        look(&mut browser, &format!("{origin}{page}"));
    }
    assert_eq!(
        browser.complaints(),
        ["Failed to load resource: the server responded with a status of 404 (Not Found)"; 3]
    );
    for address in browser.requests() {
        let is_own = address.starts_with(&origin) || address.contains(".localhost:");
        assert!(is_own, "{address}");
    }
}

#[test]
fn an_empty_desk_and_hostile_names_fit_as_well_and_nothing_of_them_runs() {
    let vendor = Vendor::open(&[hostile_rows()]);
    let mut browser = Browser::start();
    browser.screen(1440, 900, "light");
    let origin = vendor.sign_in(&mut browser);
    // All addresses of these customers have it.
    let licenses = vendor.json(&["license", "list", "--find", &"w".repeat(60)]);
    assert_eq!(licenses.as_array().unwrap().len(), 5);
    let ids = licenses
        .as_array()
        .unwrap()
        .iter()
        .map(|license| license["id"].as_str().unwrap().to_owned());
    let pages = [
        "/",
        "/licenses",
        "/sharing",
        "/changes",
        "/plugins/acme-forms",
        "/plugins/acme-forms/withhold",
        "/sales",
        "/health",
        "/licenses?q=%3Cscript%3E",
    ];
    for page in pages
        .map(str::to_owned)
        .into_iter()
        .chain(ids.map(|id| format!("/licenses/{id}")))
    {
        look(&mut browser, &format!("{origin}{page}"));
        assert_ne!(browser.evaluate("document.title"), "owned");
        let foreign = "[...document.querySelectorAll('script, img')].filter((part) => !part.src.startsWith(location.origin)).length";
        assert_eq!(browser.evaluate(foreign), 0, "{page}");
    }
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn every_control_is_reached_by_the_keyboard_and_shows_that_it_is() {
    let vendor = Vendor::open(&[rows()]);
    let mut browser = Browser::start();
    let origin = vendor.sign_in(&mut browser);
    for width in [1440, 390] {
        browser.screen(width, 900, "light");
        for page in vendor.pages("Riverbank Studio") {
            browser.does("open", &[&format!("{origin}{page}")]);
            // What is folded up is reached once it is open.
            browser.evaluate(
                "document.querySelectorAll('details').forEach((part) => { part.name = ''; part.open = true })",
            );
            let reached = browser.asks("walk", json!([]));
            assert_eq!(reached, json!({ "unreached": [], "plain": [] }), "{page} {width}");
        }
    }
}

/// Signs in, finds a customer, extends, suspends with a reason, lifts, signs out, and goes back.
fn a_person_works(vendor: &Vendor, browser: &mut Browser) {
    let origin = vendor.sign_in(browser);
    browser.does("open", &[&format!("{origin}/licenses")]);
    browser.does("fill", &["input[name=q]", "weiss@example.com"]);
    browser.does("press", &["Enter"]);
    // The list that was there before has the name, too.
    browser.does(
        "shows",
        &["body:has([name=q][value='weiss@example.com'])", "Jürgen Weiß"],
    );
    browser.does("click", &["table a[href^='/licenses/']"]);
    browser.does("shows", &["h1", "Jürgen Weiß"]);
    browser.does("shows", &["main", "weiss.example.com"]);
    browser.does("click", &["details:has(form[action$='/extend']) summary"]);
    let until = in_days(336).to_string();
    browser.does("fill", &["input[name=until]", &until]);
    browser.does("click", &["form[action$='/extend'] button"]);
    browser.does("shows", &["[role=status]", "sites see it at their next check"]);
    let id = vendor.license_of("Jürgen Weiß");
    let shown = || vendor.json(&["license", "show", &id[..12]]);
    assert_eq!(shown()["expires"], until);

    browser.does("open", &[&format!("{origin}/licenses/{id}/suspend")]);
    browser.does("fill", &["[name=reason]", "card dispute"]);
    browser.does("click", &["main form button"]);
    browser.does("shows", &[".head .pill", "Suspended"]);
    assert_eq!(shown()["status"], "suspended");
    browser.does("click", &["form[action$='/lift'] button"]);
    browser.does("shows", &[".head .pill", "Active"]);
    let history = vendor.run(&["license", "history", &id[..12]]);
    assert!(history.contains("card dispute"), "{history}");

    browser.does("click", &["form[action='/sign-out'] button"]);
    browser.does("shows", &["h1", "Sign in"]);
    browser.does("back", &[]);
    browser.does("shows", &["h1", "Sign in"]);
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn a_person_finds_changes_and_leaves_in_chromium() {
    let vendor = Vendor::open(&[rows()]);
    a_person_works(&vendor, &mut Browser::start());
}

#[test]
fn a_person_finds_changes_and_leaves_in_firefox() {
    let vendor = Vendor::open(&[rows()]);
    let mut browser = Browser::firefox();
    a_person_works(&vendor, &mut browser);
    let origin = vendor.sign_in(&mut browser);
    for page in vendor.pages("Riverbank Studio") {
        for width in [390, 1440] {
            browser.asks("screen", json!([width, 900]));
            browser.does("open", &[&format!("{origin}{page}")]);
            assert_eq!(browser.evaluate(TOO_WIDE), 0, "{page} {width}");
        }
        assert_eq!(browser.asks("faults", json!([])), json!([]), "{page}");
    }
}

#[test]
fn a_page_of_somebody_else_frames_nothing_and_posts_nothing() {
    let vendor = Vendor::open(&[rows()]);
    let mut browser = Browser::start();
    let origin = vendor.sign_in(&mut browser);
    let id = vendor.license_of("Harbor & Sons");
    // Another port of the same name, as anything that runs on this machine may have: the public listener.
    let name = origin.rsplit_once(':').unwrap().0;
    let port = vendor.server.address.port();
    let page = format!(
        "<title>other</title><iframe src='{origin}/licenses/{id}'></iframe><form method='post' action='{origin}/licenses/{id}/suspend'>\
         <input name='reason' value='mine'><input name='revision' value='1'><button>press</button></form>"
    );
    fs::write(vendor.folder.path().join("demo/public/other.html"), page).unwrap();
    eventually("the page is served", || {
        get(vendor.server.address, "/other.html").status == 200
    });
    browser.does("open", &[&format!("{name}:{port}/other.html")]);
    browser.does("shows", &["button", "press"]);
    let framed = "(() => { try { return document.querySelector('iframe').contentDocument.body.innerText } catch { return 'refused' } })()";
    assert_eq!(browser.evaluate(framed), "refused");
    browser.does("click", &["button"]);
    browser.does("shows", &["h1", "Not from here"]);
    assert!(!browser.text("body").contains("Harbor"), "{}", browser.text("body"));
    assert_eq!(vendor.json(&["license", "show", &id[..12]])["status"], "active");
}

/// Opens pages of a desk with a million licenses on screens of three widths; how long the server took, by page. For `make soak`.
pub fn a_million_licenses() -> String {
    let opened = Instant::now();
    let vendor = Vendor::open(&[rows(), million_rows()]);
    let opened = opened.elapsed();
    let mut browser = Browser::start();
    let origin = vendor.sign_in(&mut browser);
    let license = format!("/licenses/{}", vendor.license_of("Riverbank Studio"));
    let pages = [
        ("Today", "/", 100.0),
        ("Licenses", "/licenses", 100.0),
        ("Licenses, filtered", "/licenses?plugin=acme-forms&seats=full", 100.0),
        ("one license", license.as_str(), 100.0),
        ("search by part of a name", "/licenses?q=wner+77777", 150.0),
        ("Sales", "/sales", 100.0),
        ("Plugins", "/plugins", 100.0),
        ("a plugin", "/plugins/acme-forms", 100.0),
        ("Sharing", "/sharing", 100.0),
        ("Health", "/health", 100.0),
    ];
    let mut figures = vec![format!("imported in {} s", opened.as_secs())];
    let mut missed = Vec::new();
    for (name, page, most) in pages {
        let mut took = Vec::new();
        for width in [390, 820, 1440, 1440, 1440] {
            browser.screen(width, 900, "light");
            browser.does("open", &[&format!("{origin}{page}")]);
            assert_eq!(browser.evaluate(TOO_WIDE), 0, "{page} {width}");
            let answered = browser.evaluate(
                "(({ requestStart, responseEnd }) => responseEnd - requestStart)(performance.getEntriesByType('navigation')[0])",
            );
            took.push(answered.as_f64().unwrap());
        }
        assert!(browser.text("main").len() > 100, "{page}");
        let first = took[0];
        took.sort_by(f64::total_cmp);
        let median = took[took.len() / 2];
        figures.push(format!("{name} {median:.0} ms (first {first:.0})"));
        if median > most {
            missed.push(name);
        }
    }
    let found = browser.asks("open", json!([format!("{origin}/licenses?q=wner+77777")]));
    assert_eq!(found, Value::Null);
    assert!(browser.text("main").contains("Owner 77777"));
    let figures = figures.join(", ");
    // A build for tests is ten times slower.
    assert!(
        cfg!(debug_assertions) || missed.is_empty(),
        "{figures}; too slow: {missed:?}"
    );
    figures
}

/// `make pictures` draws docs/desk/ again.
#[test]
#[ignore = "draws pictures for the documentation: make pictures"]
fn pictures() {
    let vendor = Vendor::open(&[rows()]);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/desk");
    fs::create_dir_all(&folder).unwrap();
    let mut browser = Browser::start();
    let origin = vendor.sign_in(&mut browser);
    let license = format!("/licenses/{}", vendor.license_of("Riverbank Studio"));
    let mut draw = |name: &str, path: &str, (width, height, scheme): (u32, u32, &str)| {
        browser.screen(width, height, scheme);
        browser.does("open", &[&format!("{origin}{path}")]);
        browser.asks("picture", json!([folder.join(format!("{name}.png")), false]));
    };
    draw("today", "/", (1360, 900, "light"));
    draw("licenses", "/licenses", (1360, 900, "light"));
    draw("license", &license, (1360, 900, "light"));
    draw("plugin", "/plugins/acme-forms", (1360, 900, "dark"));
    draw("phone", &license, (390, 844, "light"));
}
