//! The desk: who gets in, which pages there are, what forms change, and what a page shows of hostile texts.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use chrono::{Datelike as _, Days, Months, NaiveDate, Utc};
use countersign_model::day_counts::{DayCounts, DayLine};
use countersign_model::issuing_key::ReferenceKey;
use countersign_model::license_key::LicenseKey;
use serde_json::{Value, json};

use crate::management::{run, stdout_json, token};
use crate::sellers::seller::{SMALL, Seller, ShopEvent, ShopSale, with_sellers};
use crate::support::http::{Client, request};
use crate::support::issued::license_of;
use crate::support::server::countersign;
use crate::support::shop::{add_shop, deliver, deliver_text, invoice};
use crate::support::stored::files_with;
use crate::support::{Instance, License, Response, Server, eventually};

const PEOPLE: &str = "[[person]]\nname = 'Anna Keller'\naddress = 'anna@vendor.example'\nrole = 'admin'\n\
    [[person]]\nname = 'Jonas Berg'\naddress = 'jonas@vendor.example'\nrole = 'support'\n\
    [[person]]\nname = 'Mira Olsen'\naddress = 'mira@vendor.example'\nrole = 'read'\n";

const ANNA: &str = "anna@vendor.example";
const JONAS: &str = "jonas@vendor.example";
const MIRA: &str = "mira@vendor.example";

/// Each page with the role that it needs, as the documentation has them; `None` for everybody. `ID` is a license.
const PAGES: [(&str, &str, Option<&str>); 61] = [
    ("GET", "/sign-in", None),
    ("POST", "/sign-in", None),
    ("GET", "/sign-in/none", None),
    ("POST", "/sign-in/none", None),
    ("GET", "/mail-link/none", None),
    ("POST", "/mail-link/none", None),
    ("POST", "/licenses/ID/mail-key", Some("support")),
    ("POST", "/licenses/ID/mail-page", Some("support")),
    ("GET", "/link/none", None),
    ("POST", "/link/none", None),
    ("GET", "/", Some("read")),
    ("GET", "/licenses", Some("read")),
    ("GET", "/licenses/ID", Some("read")),
    ("POST", "/licenses/ID/extend", Some("support")),
    ("POST", "/licenses/ID/sites", Some("support")),
    ("POST", "/licenses/ID/free", Some("support")),
    ("POST", "/licenses/ID/move", Some("support")),
    ("POST", "/licenses/ID/note", Some("support")),
    ("POST", "/licenses/ID/modules", Some("admin")),
    ("POST", "/licenses/ID/assign", Some("admin")),
    ("POST", "/licenses/ID/address", Some("admin")),
    ("GET", "/licenses/ID/erase-customer", Some("admin")),
    ("POST", "/licenses/ID/erase-customer", Some("admin")),
    ("GET", "/licenses.csv", Some("admin")),
    ("GET", "/new-license", Some("admin")),
    ("POST", "/new-license", Some("admin")),
    ("GET", "/licenses/ID/suspend", Some("support")),
    ("POST", "/licenses/ID/suspend", Some("support")),
    ("POST", "/licenses/ID/lift", Some("support")),
    ("GET", "/licenses/ID/new-key", Some("support")),
    ("POST", "/licenses/ID/new-key", Some("support")),
    ("POST", "/licenses/ID/vouch", Some("support")),
    ("POST", "/licenses/ID/unvouch", Some("support")),
    ("GET", "/licenses/ID/revoke", Some("admin")),
    ("POST", "/licenses/ID/revoke", Some("admin")),
    ("GET", "/sales", Some("read")),
    ("GET", "/sales/none", Some("support")),
    ("POST", "/sales/none/match", Some("support")),
    ("POST", "/sales/none/take-back", Some("support")),
    ("GET", "/deliveries/none", Some("support")),
    ("POST", "/deliveries/none/address", Some("support")),
    ("POST", "/deliveries/none/key", Some("support")),
    ("POST", "/deliveries/none/attach", Some("support")),
    ("POST", "/deliveries/none/retry", Some("support")),
    ("POST", "/deliveries/none/drop", Some("support")),
    ("POST", "/mails/retry", Some("support")),
    ("POST", "/mails/none/retry", Some("support")),
    ("POST", "/mails/none/drop", Some("support")),
    ("GET", "/plugins", Some("read")),
    ("GET", "/plugins/acme-forms", Some("read")),
    ("GET", "/plugins/acme-forms/withhold", Some("read")),
    ("POST", "/plugins/acme-forms/pause", Some("support")),
    ("POST", "/plugins/acme-forms/resume", Some("support")),
    ("POST", "/plugins/acme-forms/finish", Some("admin")),
    ("GET", "/releases", Some("read")),
    ("GET", "/sharing", Some("read")),
    ("GET", "/changes", Some("read")),
    ("GET", "/health", Some("read")),
    ("GET", "/people", Some("read")),
    ("POST", "/people/ID/sign-out", Some("admin")),
    ("POST", "/sign-out", Some("read")),
];

/// A server with a desk.
struct Desk {
    instance: Instance,
    server: Server,
    address: SocketAddr,
}

/// The key that `write_issuing_secrets` makes.
fn key() -> ReferenceKey {
    ReferenceKey::new("references".repeat(5).as_bytes()[..32].try_into().unwrap())
}

/// What a cookie has, signed: an id, when it was issued, and for whom.
fn cookie(key: &ReferenceKey, id: u8, hours_ago: i64, owner: &[u8]) -> String {
    let issued = Utc::now().timestamp() - hours_ago * 3_600;
    let mut bytes = [&[id; 16][..], &issued.to_be_bytes(), owner].concat();
    let mac = key.desk_mac(&[b"desk session 1\0", &bytes]);
    bytes.extend(mac);
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// The session of a person, signed on another node.
fn session(address: &str) -> String {
    let mac = key().desk_mac(&[b"desk person 1\0", address.as_bytes()]);
    cookie(&key(), 1, 0, &[b"p", &mac[..16]].concat())
}

impl Desk {
    fn open(more: &str) -> Self {
        Self::with(Instance::issuing(&[]), more)
    }

    fn with(instance: Instance, more: &str) -> Self {
        instance.write("countersign.toml", &format!("[desk]\nlisten = \"127.0.0.1:0\"\n{more}"));
        instance.write("registry/desk.toml", PEOPLE);
        Self::start(instance)
    }

    fn start(instance: Instance) -> Self {
        let server = Server::start(&instance);
        let port = stdout_json(&instance, &["desk"])["port"].as_u64().unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], u16::try_from(port).unwrap()));
        Self {
            instance,
            server,
            address,
        }
    }

    /// Restarts the server. The desk gets another port, because another program may have taken the old one.
    fn restart(self) -> Self {
        let Self { instance, server, .. } = self;
        assert!(server.stop().success());
        Self::start(instance)
    }

    /// With a shop, which sold to this customer; the id of the license.
    fn with_sale(address: &str, name: &str) -> (Self, String) {
        let instance = Instance::new();
        add_shop(&instance);
        instance.write_issuing_secrets();
        let desk = Self::with(instance, "[shops.stripe]\n");
        let mut sale = invoice("in_1", "subscription_create", "price_small", 1, 30);
        sale["customer_email"] = json!(address);
        sale["customer_name"] = json!(name);
        assert_eq!(deliver(&desk.server, "invoice.paid", 1, &sale), 200);
        let sold = || stdout_json(&desk.instance, &["license", "list", "--customer", address]);
        eventually("it is sold", || !sold().as_array().unwrap().is_empty());
        let id = sold()[0]["id"].as_str().unwrap().to_owned();
        (desk, id)
    }

    /// What the management API issues for an order.
    fn issue_for(&self, order: &str) -> License {
        let bearer = token(&self.instance, "shop", &["licenses:write"]);
        let body = json!({ "modules": { "forms": [] }, "expires": "never", "reference": order }).to_string();
        let headers = [
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/json"),
            ("Idempotency-Key", "1"),
        ];
        let issued = request(
            self.server.address,
            "POST",
            "/api/v1/licenses",
            &headers,
            body.as_bytes(),
        );
        assert_eq!(issued.status, 201, "{}", issued.text());
        license_of(&issued)
    }

    /// Sends exactly these headers.
    fn send(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> Response {
        let mut head = format!("{method} {target} HTTP/1.1\r\nContent-Length: {}\r\n", body.len());
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        let mut client = Client::connect(self.address);
        client.send(format!("{head}\r\n{body}").as_bytes()).unwrap();
        match method {
            "HEAD" => client.receive_head().unwrap(),
            _ => client.receive().unwrap(),
        }
    }

    fn get(&self, target: &str, session: &str) -> Response {
        let cookie = format!("desk={session}");
        self.send("GET", target, &[("Host", "localhost"), ("Cookie", &cookie)], "")
    }

    fn post(&self, target: &str, session: &str, form: &[(&str, &str)]) -> Response {
        let mut body = url::form_urlencoded::Serializer::new(String::new());
        body.extend_pairs(form);
        let cookie = format!("desk={session}");
        let headers = [
            ("Host", "localhost"),
            ("Cookie", cookie.as_str()),
            ("Sec-Fetch-Site", "same-origin"),
            ("Content-Type", "application/x-www-form-urlencoded"),
        ];
        self.send("POST", target, &headers, &body.finish())
    }

    /// Issues a license for so many sites and a year; its id.
    fn issue(&self, more: &[&str]) -> String {
        let arguments = [
            "license",
            "issue",
            "--module",
            "forms",
            "--sites",
            "3",
            "--expires",
            "2030-06-30",
        ];
        let issued = stdout_json(&self.instance, &[&arguments[..], more].concat());
        issued["id"].as_str().unwrap().to_owned()
    }

    fn license(&self, id: &str) -> Value {
        stdout_json(&self.instance, &["license", "show", id])
    }

    fn revision(&self, id: &str) -> String {
        self.license(id)["revision"].to_string()
    }

    fn ledger(&self) -> Vec<u8> {
        fs::read(self.instance.file("store/ledger.jsonl")).unwrap()
    }
}

fn location(answer: &Response) -> &str {
    answer.header("location").unwrap_or_default()
}

#[test]
fn the_link_of_the_command_signs_in_once_and_looking_at_it_uses_nothing() {
    let desk = Desk::open("");
    let links = stdout_json(&desk.instance, &["desk"]);
    let link = url::Url::parse(links["link"].as_str().unwrap()).unwrap();
    let host = format!("{}:{}", link.host_str().unwrap(), link.port().unwrap());
    assert!(host.starts_with("desk-") && host.contains(".localhost:"), "{host}");
    assert_eq!(links["local_link"], links["link"]);
    assert_eq!(
        links["address_link"],
        format!("http://127.0.0.1:{}{}", desk.address.port(), link.path())
    );
    assert!(
        links["ssh"]
            .as_str()
            .unwrap()
            .starts_with(&format!("ssh -L {0}:127.0.0.1:{0} ", desk.address.port()))
    );
    for method in ["HEAD", "GET", "GET"] {
        let shown = desk.send(method, link.path(), &[("Host", &host)], "");
        assert_eq!((shown.status, shown.header("set-cookie")), (200, None), "{method}");
    }
    let origin = format!("http://{host}");
    let used = desk.send("POST", link.path(), &[("Host", &host), ("Origin", &origin)], "");
    assert_eq!((used.status, location(&used)), (303, "/"));
    let cookie = used.header("set-cookie").unwrap();
    assert!(
        cookie.ends_with("; Path=/; Max-Age=43200; HttpOnly; SameSite=Lax"),
        "{cookie}"
    );
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let today = desk.send("GET", "/", &[("Host", &host), ("Cookie", &cookie)], "");
    assert_eq!(today.status, 200);
    assert!(today.text().contains("· admin"), "{}", today.text());
    let again = desk.send("POST", link.path(), &[("Host", &host), ("Origin", &origin)], "");
    assert_eq!((again.status, again.header("set-cookie")), (410, None));
    assert_eq!(desk.send("GET", link.path(), &[("Host", &host)], "").status, 410);
    let token = link.path().rsplit('/').next().unwrap();
    assert!(!desk.server.log().contains(token) && !desk.server.log().contains(&cookie[5..]));
    // The session holds after a restart.
    let desk = desk.restart();
    let host = format!("{}:{}", link.host_str().unwrap(), desk.address.port());
    let origin = format!("http://{host}");
    assert_eq!(
        desk.send("GET", "/", &[("Host", &host), ("Cookie", &cookie)], "")
            .status,
        200
    );
    // Signed out, the cookie is worth nothing, even if it is kept.
    let headers = [
        ("Host", host.as_str()),
        ("Cookie", cookie.as_str()),
        ("Origin", origin.as_str()),
    ];
    let out = desk.send("POST", "/sign-out", &headers, "");
    assert_eq!((out.status, location(&out)), (303, "/sign-in"));
    assert_eq!(out.header("clear-site-data"), Some("\"cookies\", \"storage\""));
    assert!(
        out.header("set-cookie")
            .unwrap()
            .starts_with("desk=; Path=/; Max-Age=0;")
    );
    let kept = desk.send("GET", "/", &headers[..2], "");
    assert_eq!((kept.status, location(&kept)), (303, "/sign-in"));
}

#[test]
fn each_page_is_for_its_role_and_has_every_header() {
    let desk = Desk::open("");
    let id = desk.issue(&[]);
    let ranks = ["read", "support", "admin"];
    let visitors = [
        (None, String::new()),
        (Some(0), session(MIRA)),
        (Some(1), session(JONAS)),
        (Some(2), session(ANNA)),
    ];
    let before = desk.ledger();
    for (method, path, needed) in PAGES {
        let path = path.replace("ID", &id);
        let needed = needed.map(|role| ranks.iter().position(|rank| *rank == role).unwrap());
        for (rank, session) in &visitors {
            let answer = match method {
                "GET" => desk.get(&path, session),
                // The form is empty, so nothing is done.
                _ => desk.post(&path, session, &[]),
            };
            let what = format!("{method} {path} {rank:?}: {}", answer.status);
            match (needed, rank) {
                (None, _) => assert!([200, 410, 422].contains(&answer.status), "{what}"),
                (Some(_), None) => assert_eq!((answer.status, location(&answer)), (303, "/sign-in"), "{what}"),
                (Some(needed), Some(rank)) if *rank < needed => assert_eq!(answer.status, 403, "{what}"),
                _ if ["/sign-out", "/mails/retry"].contains(&path.as_str()) => assert_eq!(answer.status, 303, "{what}"),
                _ if ["/sales/none", "/deliveries/none"].contains(&path.as_str()) => {
                    assert_eq!(answer.status, 404, "{what}");
                }
                _ if method == "GET" => assert_eq!(answer.status, 200, "{what}"),
                _ => assert_eq!(answer.status, 422, "{what}"),
            }
            for (name, value) in [
                (
                    "content-security-policy",
                    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; \
                     base-uri 'none'",
                ),
                ("referrer-policy", "same-origin"),
                ("cross-origin-opener-policy", "same-origin"),
                ("cache-control", "no-store"),
                ("x-content-type-options", "nosniff"),
                (
                    "content-type",
                    match answer.header("content-disposition") {
                        None => "text/html; charset=utf-8",
                        Some(_) => "text/csv; charset=utf-8",
                    },
                ),
            ] {
                assert_eq!(answer.header(name), Some(value), "{what}");
            }
            let text = answer.text();
            assert!(
                !text.contains("<script") && !text.contains("style=\"") && !text.contains("onclick"),
                "{what}"
            );
            if path == "/sign-out" {
                // Only the visitors behind it are left.
                break;
            }
        }
    }
    assert_eq!(desk.ledger(), before);
    let health = desk.get("/health", &session(MIRA)).text();
    assert!(health.contains("since the start, 0 failed"), "{health}");
    let page = desk.get("/sign-in", "").text();
    let style = page
        .split("rel=\"stylesheet\" href=\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    let style = desk.get(style, "");
    assert_eq!(
        (style.status, style.header("content-type")),
        (200, Some("text/css; charset=utf-8"))
    );
    assert!(style.header("cache-control").unwrap().contains("immutable"));
}

#[test]
fn what_is_not_in_the_table_does_not_exist_and_get_and_head_change_nothing() {
    let desk = Desk::open("");
    let id = desk.issue(&[]);
    let before = desk.ledger();
    for (method, path) in [
        ("GET", "/api/v1/licenses"),
        ("GET", "/metrics"),
        ("GET", "/index.html"),
        ("GET", "/desk.css"),
        ("PUT", "/licenses"),
        ("OPTIONS", "/"),
        ("GET", "/licenses/x/suspend/"),
        ("POST", "/"),
    ] {
        let headers = [("Host", "localhost"), ("Sec-Fetch-Site", "same-origin")];
        assert_eq!(desk.send(method, path, &headers, "").status, 404, "{method} {path}");
    }
    for (_, path, _) in PAGES {
        let path = path.replace("ID", &id);
        for query in [
            "",
            "?revision=1&until=2031-01-01&sites=9&host=a.example&reason=r&sure=0000",
        ] {
            for method in ["GET", "HEAD"] {
                let cookie = format!("desk={}", session(ANNA));
                let headers = [("Host", "localhost"), ("Cookie", cookie.as_str())];
                desk.send(method, &format!("{path}{query}"), &headers, "");
            }
        }
    }
    assert_eq!(desk.ledger(), before);
    assert_eq!(desk.get("/", &session(ANNA)).status, 200, "nobody was signed out");
}

#[test]
fn a_cookie_that_is_forged_or_old_or_of_nobody_is_a_strangers() {
    let desk = Desk::open("");
    let anna = key().desk_mac(&[b"desk person 1\0", ANNA.as_bytes()]);
    let anna = [b"p", &anna[..16]].concat();
    assert_eq!(desk.get("/", &cookie(&key(), 1, 11, &anna)).status, 200);
    let good = session(ANNA);
    for cookie in [
        cookie(&key(), 1, 12, &anna),
        cookie(&key(), 1, -2, &anna),
        cookie(&ReferenceKey::new(&[7; 32]), 1, 0, &anna),
        cookie(&key(), 1, 0, b"x"),
        session("nobody@vendor.example"),
        good[..good.len() - 1].to_owned(),
        good[1..].to_owned(),
        "A".repeat(2_000),
        String::new(),
    ] {
        let answer = desk.get("/", &cookie);
        assert_eq!((answer.status, location(&answer)), (303, "/sign-in"), "{cookie}");
    }
    // The role is that of the file in force.
    assert!(desk.get("/", &good).text().contains("· admin"));
    desk.instance
        .write("registry/desk.toml", &PEOPLE.replace("role = 'admin'", "role = 'read'"));
    desk.server.signal("HUP");
    eventually("the role changes", || desk.get("/", &good).text().contains("· read"));
    desk.instance.write("registry/desk.toml", "# nobody\n");
    desk.server.signal("HUP");
    eventually("she is a stranger", || desk.get("/", &good).status == 303);
}

#[test]
fn only_our_own_names_are_answered_and_the_log_says_what_a_proxy_has_to_do() {
    let desk = Desk::open("url = \"https://desk.example.com\"\n");
    let links = stdout_json(&desk.instance, &["desk"]);
    let link = links["link"].as_str().unwrap();
    assert!(link.starts_with("https://desk.example.com/link/"), "{link}");
    assert_eq!(links.get("address_link"), None);
    let minted = url::Url::parse(links["local_link"].as_str().unwrap()).unwrap();
    let minted = format!("{}:{}", minted.host_str().unwrap(), desk.address.port());
    let status = |target: &str, headers: &[(&str, &str)]| desk.send("GET", target, headers, "").status;
    for host in ["desk.example.com", "DESK.example.com", "desk.example.com:443", &minted] {
        assert_eq!(status("/sign-in", &[("Host", host)]), 200, "{host}");
    }
    let other = minted.replacen("desk-", "desk-0", 1);
    for host in [
        "localhost",
        "127.0.0.1",
        "evil.example",
        "desk.example.com.evil.example",
        "desk.example.com:8082",
        "x.desk.example.com",
        "desk.example.com.",
        &other,
    ] {
        let headers = [
            ("Host", host),
            ("X-Forwarded-Host", "desk.example.com"),
            ("Forwarded", "host=desk.example.com"),
        ];
        assert_eq!(status("/sign-in", &headers), 421, "{host}");
        assert_eq!(status("/", &headers), 421, "{host}");
    }
    assert_eq!(
        status("http://evil.example/sign-in", &[("Host", "desk.example.com")]),
        421
    );
    assert_eq!(
        status("/sign-in", &[("Host", "desk.example.com"), ("Host", "evil.example")]),
        400
    );
    let log = desk.server.log();
    assert_eq!(
        log.matches("proxy_set_header Host $host").count(),
        1,
        "once for a while"
    );
    assert!(log.contains("reverse_proxy 127.0.0.1:"));
    // The cookie of https is another one.
    let token = link.rsplit('/').next().unwrap();
    let headers = [("Host", "desk.example.com"), ("Origin", "https://desk.example.com")];
    let used = desk.send("POST", &format!("/link/{token}"), &headers, "");
    let cookie = used.header("set-cookie").unwrap();
    assert!(
        cookie.starts_with("__Host-desk=") && cookie.ends_with("; Secure"),
        "{cookie}"
    );
    let value = cookie.split([';', '=']).nth(1).unwrap();
    for (name, expected) in [("__Host-desk", 200), ("desk", 303)] {
        let cookie = format!("{name}={value}");
        assert_eq!(
            status("/", &[("Host", "desk.example.com"), ("Cookie", &cookie)]),
            expected,
            "{name}"
        );
    }
}

#[test]
fn a_form_of_another_page_changes_nothing() {
    let desk = Desk::open("");
    let id = desk.issue(&[]);
    let cookie = format!("desk={}", session(ANNA));
    let before = desk.ledger();
    let post = |headers: &[(&str, &str)]| {
        let all = [&[("Host", "localhost"), ("Cookie", cookie.as_str())][..], headers].concat();
        desk.send("POST", &format!("/licenses/{id}/suspend"), &all, "revision=1&reason=r")
            .status
    };
    for headers in [
        &[][..],
        &[("Sec-Fetch-Site", "cross-site")],
        &[("Sec-Fetch-Site", "same-site")],
        &[("Sec-Fetch-Site", "none")],
        &[("Sec-Fetch-Site", "cross-site"), ("Origin", "http://localhost")],
        &[("Origin", "null")],
        &[("Origin", "https://localhost")],
        &[("Origin", "http://localhost:8082")],
        &[("Origin", "http://evil.example")],
        &[("Referer", "http://localhost/")],
    ] {
        assert_eq!(post(headers), 403, "{headers:?}");
    }
    assert_eq!(desk.ledger(), before);
    assert_eq!(
        post(&[("Origin", "http://localhost"), ("Content-Type", "text/plain")]),
        415
    );
    assert_eq!(desk.ledger(), before);
    assert_eq!(post(&[("Origin", "http://localhost")]), 303);
}

#[test]
fn forms_change_a_license_once_and_say_who_and_why() {
    let desk = Desk::open("");
    let id = desk.issue(&[]);
    let jonas = session(JONAS);
    let path = format!("/licenses/{id}");
    let change = |step: &str, form: &[(&str, &str)]| {
        let revision = desk.revision(&id);
        desk.post(
            &format!("{path}/{step}"),
            &jonas,
            &[&[("revision", revision.as_str())][..], form].concat(),
        )
    };
    let done = |answer: &Response, word: &str| {
        assert_eq!(
            (answer.status, location(answer)),
            (303, format!("{path}?done={word}").as_str()),
            "{}",
            answer.text()
        );
    };
    done(
        &change("extend", &[("until", "2031-06-30"), ("reason", "a goodwill year")]),
        "extended",
    );
    assert_eq!(desk.license(&id)["expires"], "2031-06-30");
    // The same form once more, of the page before.
    let before = desk.ledger();
    let again = desk.post(
        &format!("{path}/extend"),
        &jonas,
        &[("revision", "1"), ("until", "2031-06-30")],
    );
    done(&again, "same");
    assert_eq!(desk.ledger(), before);
    done(&change("sites", &[("sites", "5")]), "sites");
    assert_eq!(desk.license(&id)["sites"], 5);
    done(&change("suspend", &[("reason", "card dispute")]), "suspended");
    assert_eq!(desk.license(&id)["status"], "suspended");
    let page = desk.get(&path, &jonas).text();
    assert!(
        page.contains("Suspended") && page.contains("card dispute") && page.contains("Lift the suspension"),
        "{page}"
    );
    done(&change("lift", &[]), "lifted");
    let history = stdout_json(&desk.instance, &["license", "history", &id]);
    let events: Vec<_> = history["events"].as_array().unwrap().iter().rev().collect();
    let event = |at: usize| {
        (
            &events[at]["event"],
            &events[at]["who"],
            &events[at]["reason"],
            &events[at]["by"],
        )
    };
    let by = json!("operator:desk");
    assert_eq!(
        event(1),
        (&json!("renewed"), &json!("Jonas Berg"), &json!("a goodwill year"), &by)
    );
    assert_eq!(
        event(3),
        (&json!("suspended"), &json!("Jonas Berg"), &json!("card dispute"), &by)
    );
    // The page has them, too; reasons are not for everybody.
    let shown = desk.get(&path, &jonas).text();
    for words in [
        "Extended to 30 Jun 2031",
        "For 5 sites",
        "a goodwill year",
        "Suspended",
        "card dispute",
        "Resumed",
        "Jonas Berg",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let shown = desk.get(&path, &session(MIRA)).text();
    assert!(shown.contains("Jonas Berg") && !shown.contains("goodwill"), "{shown}");
    for sites in (6..18).chain([5]) {
        done(&change("sites", &[("sites", &sites.to_string())]), "sites");
    }
    let count = |page: &str| desk.get(page, &jonas).text().matches("For ").count();
    assert_eq!(count(&path), 10);
    assert!(desk.get(&path, &jonas).text().contains("?history=all"));
    assert!(count(&format!("{path}?history=all")) > 12);
    // What the role does not allow.
    let far = Utc::now()
        .date_naive()
        .checked_add_months(Months::new(12 * 9))
        .unwrap()
        .to_string();
    for (step, form) in [
        ("extend", &[("until", far.as_str())][..]),
        ("extend", &[("until", "2030-01-01")]),
        ("extend", &[("until", "soon")]),
        ("sites", &[("sites", "101")]),
        ("sites", &[("sites", "0")]),
        ("suspend", &[("reason", " ")]),
        ("suspend", &[("reason", &"x".repeat(501))]),
        ("free", &[("host", "not a host")]),
        ("free", &[("host", "never-bound.example")]),
    ] {
        let answer = change(step, form);
        assert_eq!(answer.status, 422, "{step} {form:?}: {}", answer.text());
    }
    assert_eq!(desk.license(&id)["revision"], 18);
    assert_eq!(change("revoke", &[("reason", "r"), ("sure", &id[..4])]).status, 403);
    let anna = session(ANNA);
    let revoke = |sure: &str| {
        desk.post(
            &format!("{path}/revoke"),
            &anna,
            &[("revision", "18"), ("reason", "fraud"), ("sure", sure)],
        )
    };
    assert_eq!(revoke("0").status, 422);
    assert_eq!(desk.license(&id)["status"], "active");
    done(&revoke(&id[..4].to_uppercase()), "revoked");
    assert_eq!(desk.license(&id)["status"], "revoked");
    assert_eq!(change("lift", &[]).status, 422);
}

#[test]
fn a_seat_is_freed_and_a_license_of_a_file_is_only_shown() {
    let in_file = License::new();
    let instance = Instance::issuing(&[in_file.toml("")]);
    let desk = Desk::with(instance, "");
    let id = desk.issue(&[]);
    run(&desk.instance, &["license", "list"]);
    let issued = stdout_json(
        &desk.instance,
        &["license", "issue", "--module", "forms", "--expires", "never"],
    );
    let license = License {
        key: issued["license_key"].as_str().unwrap().to_owned(),
        id: issued["id"].as_str().unwrap().to_owned(),
    };
    assert_eq!(desk.server.validate(&license, "https://a.example").code(), "ok");
    let jonas = session(JONAS);
    let page = desk.get(&format!("/licenses/{}", license.id), &jonas).text();
    assert!(page.contains("Free the seat of a.example"), "{page}");
    let form = [("revision", "1"), ("host", "a.example")];
    let freed = desk.post(&format!("/licenses/{}/free", license.id), &jonas, &form);
    assert_eq!(
        (freed.status, location(&freed).ends_with("?done=freed&site=a.example")),
        (303, true),
        "{}",
        freed.text()
    );
    let shown = desk.get(location(&freed), &jonas).text();
    assert!(
        shown.contains("The seat of a.example is free.") && shown.contains("Seat of a.example freed"),
        "{shown}"
    );
    let again = desk.post(&format!("/licenses/{}/free", license.id), &jonas, &form);
    assert!(location(&again).ends_with("?done=same"), "{}", again.text());
    let page = desk.get(&format!("/licenses/{}", in_file.id), &session(ANNA)).text();
    assert!(
        page.contains("registry/licenses/licenses.toml:1 declares this license"),
        "{page}"
    );
    assert!(!page.contains("action=\"/licenses/"), "it has no forms");
    let refused = desk.post(
        &format!("/licenses/{}/suspend", in_file.id),
        &jonas,
        &[("revision", "1"), ("reason", "r")],
    );
    assert_eq!(refused.status, 422);
    let list = desk.get("/licenses", &jonas).text();
    assert!(
        list.contains(&in_file.id) && list.contains(&id) && list.contains("3 licenses"),
        "{list}"
    );
}

#[test]
fn a_license_that_somebody_says_is_fine_is_listed_nowhere_until_that_day() {
    let in_file = License::new();
    let desk = Desk::with(Instance::issuing(&[in_file.toml("")]), "");
    let issued = stdout_json(
        &desk.instance,
        &["license", "issue", "--module", "forms", "--expires", "never"],
    );
    let license = License {
        key: issued["license_key"].as_str().unwrap().to_owned(),
        id: issued["id"].as_str().unwrap().to_owned(),
    };
    for license in [&license, &in_file] {
        assert_eq!(desk.server.validate(license, "https://own.example").code(), "ok");
        for number in 0..6 {
            let host = format!("https://host{number}.example");
            assert_eq!(desk.server.validate(license, &host).code(), "bound_elsewhere");
        }
    }
    let reviewed = || stdout_json(&desk.instance, &["review"]);
    let listed = || reviewed()["many_hosts"].as_array().unwrap().len();
    eventually("both are listed", || listed() == 2);
    let jonas = session(JONAS);
    let mira = session(MIRA);
    let sharing = |session: &str| desk.get("/sharing", session).text();
    // Before and after the list of what is fine.
    let parts = |page: &str| {
        let (found, fine) = page.split_once("id=\"fine\"").unwrap();
        (found.to_owned(), fine.to_owned())
    };
    let (found, fine) = parts(&sharing(&jonas));
    assert!(found.contains(&license.id) && found.contains(&in_file.id), "{found}");
    assert!(found.contains(&format!("/licenses/{}/vouch", license.id)) && fine.contains("None."));
    assert!(!sharing(&mira).contains("<form method=\"post\" action=\"/licenses/"));
    let today = || desk.get("/", &jonas).text();
    assert!(today().contains("2 licenses may be shared"), "{}", today());
    let on_its_page = |said: &str| {
        let page = desk.get(&format!("/licenses/{}", license.id), &jonas).text();
        assert!(page.contains(said), "{page}");
    };
    on_its_page("6 sites without a seat asked with this key.");
    on_its_page("the only seat is taken");
    on_its_page("<bdi>host5.example</bdi>");

    let day = |years: u32, days: u64| {
        let now = Utc::now().date_naive();
        let day = now.checked_add_months(Months::new(12 * years)).unwrap();
        day.checked_add_days(Days::new(days)).unwrap().to_string()
    };
    let reason = "an agency of Erika Muster";
    let half = day(0, 180);
    let form = [("until", half.as_str()), ("reason", reason)];
    let vouch = |form: &[(&str, &str)]| desk.post(&format!("/licenses/{}/vouch", license.id), &jonas, form);
    for until in ["", "soon", &day(5, 2), "2026-01-01"] {
        assert_eq!(vouch(&[("until", until)]).status, 422, "{until}");
    }
    assert_eq!(location(&vouch(&form)), "/sharing?done=vouched");
    on_its_page("Marked as fine until ");
    let before = desk.ledger();
    assert_eq!(location(&vouch(&form)), "/sharing?done=same");
    assert_eq!(desk.ledger(), before);
    assert!(!String::from_utf8(before).unwrap().contains("Erika"));
    // At once, though what a look found is kept for ten minutes.
    let (found, fine) = parts(&sharing(&jonas));
    assert!(!found.contains(&license.id) && found.contains(&in_file.id), "{found}");
    for said in [
        license.id.as_str(),
        "Jonas Berg",
        reason,
        &format!("datetime=\"{half}\""),
    ] {
        assert!(fine.contains(said), "{said}: {fine}");
    }
    let (_, fine) = parts(&sharing(&mira));
    assert!(fine.contains("Jonas Berg") && !fine.contains("Erika") && !fine.contains("/unvouch"));
    assert!(today().contains("1 license may be shared"), "{}", today());
    let page = desk.get(&format!("/licenses/{}", license.id), &jonas).text();
    assert!(
        page.contains(&format!("Vouched for until {}", shown_day(&half))) && page.contains(reason),
        "{page}"
    );
    let found = reviewed();
    let fine = &found["vouched"][0];
    assert_eq!(found["many_hosts"][0]["license"], in_file.id.as_str());
    assert_eq!(
        (
            &fine["license"],
            &fine["until"],
            &fine["by"],
            &fine["who"],
            &fine["reason"]
        ),
        (
            &json!(license.id),
            &json!(half),
            &json!("operator:desk"),
            &json!("Jonas Berg"),
            &json!(reason)
        )
    );
    let text = String::from_utf8(run(&desk.instance, &["review"]).stdout).unwrap();
    assert!(text.contains("FINE") && text.contains(reason), "{text}");

    // A program: it names no person and no reason, and a file may declare the license.
    let bearer = token(&desk.instance, "shop", &["licenses:write", "reports:read"]);
    let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
    let call = |method: &str, target: &str, body: &str| {
        request(desk.server.address, method, target, &headers, body.as_bytes())
    };
    let review = call("GET", "/api/v1/reports/review", "").json();
    assert_eq!(review["many_hosts"].as_array().unwrap().len(), 1);
    let mut expected = fine.clone();
    for name in ["who", "reason"] {
        expected.as_object_mut().unwrap().remove(name);
    }
    assert_eq!(review["vouched"], json!([expected]));
    let path = format!("/api/v1/licenses/{}/vouch", in_file.id);
    for (body, status) in [
        (json!({ "until": day(5, 2) }), 400),
        (json!({ "until": "never" }), 400),
        (json!({ "until": "2026-01-01" }), 400),
        (json!({ "until": null }), 400),
        (json!({ "days": 3 }), 400),
        (json!({ "reason": license.key }), 400),
    ] {
        assert_eq!(call("POST", &path, &body.to_string()).status, status, "{body}");
    }
    let none = format!("/api/v1/licenses/{}/vouch", "0".repeat(64));
    assert_eq!(call("POST", &none, "{}").status, 404);
    let answer = call("POST", &path, "{}");
    assert_eq!(
        (answer.status, answer.json()),
        (200, json!({ "id": in_file.id, "changed": true, "until": day(1, 0) }))
    );
    assert_eq!(call("POST", &path, "{}").json()["changed"], false);
    assert!(!today().contains("may be shared"), "{}", today());
    let back = call("POST", &format!("/api/v1/licenses/{}/unvouch", in_file.id), "{}");
    assert_eq!(back.json(), json!({ "id": in_file.id, "changed": true }));
    assert_eq!(listed(), 1);

    // The page takes back what it shows.
    let unvouch = |form: &[(&str, &str)]| desk.post(&format!("/licenses/{}/unvouch", license.id), &jonas, form);
    assert_eq!(unvouch(&[]).status, 422);
    assert_eq!(location(&unvouch(&[("until", &half)])), "/sharing?done=unvouched");
    assert_eq!(location(&unvouch(&[("until", &half)])), "/sharing?done=same");
    assert!(today().contains("2 licenses may be shared"), "{}", today());
    let history = stdout_json(&desk.instance, &["license", "history", &license.id]);
    let events: Vec<_> = history["events"].as_array().unwrap()[..2]
        .iter()
        .map(|event| (&event["event"], &event["who"]))
        .collect();
    let who = json!("Jonas Berg");
    assert_eq!(events, [(&json!("unvouched"), &who), (&json!("vouched"), &who)]);

    // Without a server, through a compaction; the reason is erased.
    let Desk { instance, server, .. } = desk;
    server.stop();
    let said = ["license", "vouch", &license.id, "--until", "+6m", "--reason", reason];
    assert_eq!(stdout_json(&instance, &said)["changed"], true);
    run(&instance, &["bindings", "compact"]);
    let found = stdout_json(&instance, &["review"]);
    assert_eq!(found["many_hosts"][0]["license"], in_file.id.as_str());
    assert_eq!(found["vouched"][0]["reason"], reason);
    run(&instance, &["license", "forget", &license.id]);
    let fine = &stdout_json(&instance, &["review"])["vouched"][0];
    assert_eq!((&fine["license"], fine.get("reason")), (&json!(license.id), None));
    assert_eq!(files_with(&instance.file("store"), &["Erika"]), Vec::<PathBuf>::new());
    let server = Server::start(&instance);
    assert_eq!(
        stdout_json(&instance, &["review"])["vouched"][0]["license"],
        license.id.as_str()
    );
    server.stop();
}

#[test]
fn who_comes_second_sees_what_differs_and_overwrites_nothing() {
    let desk = Desk::open("");
    let id = desk.issue(&[]);
    let extend = |session: &str, revision: &str, until: &str| {
        let form = [
            ("revision", revision),
            ("then", "2030-06-30"),
            ("until", until),
            ("reason", "<b>why</b>"),
        ];
        desk.post(&format!("/licenses/{id}/extend"), session, &form)
    };
    assert_eq!(extend(&session(JONAS), "1", "2030-09-30").status, 303);
    let second = extend(&session(ANNA), "1", "2031-03-31");
    assert_eq!(second.status, 409);
    let page = second.text();
    for expected in [
        "Somebody was faster",
        "Jonas Berg",
        "30 Jun 2030",
        "30 Sep 2030",
        "31 Mar 2031",
        "name=\"revision\" value=\"2\"",
    ] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    assert!(!page.contains("<b>why"));
    assert_eq!(desk.license(&id)["expires"], "2030-09-30");
    assert_eq!(extend(&session(ANNA), "2", "2031-03-31").status, 303);
    assert_eq!(desk.license(&id)["expires"], "2031-03-31");
    let none = desk.post(
        &format!("/licenses/{id}/extend"),
        &session(ANNA),
        &[("until", "2032-01-01")],
    );
    assert_eq!(none.status, 422, "a form without a revision");
}

#[test]
fn a_new_key_is_made_and_mailed_once_however_often_the_form_is_sent() {
    let mail = "[mail]\nserver = '127.0.0.1'\nport = 1\ntls = 'none'\nfrom = 'licenses@acme.example'\n";
    let desk = Desk::open(mail);
    let id = desk.issue(&["--customer", "buyer@shop.example"]);
    let alone = desk.issue(&[]);
    let jonas = session(JONAS);
    let question = desk.get(&format!("/licenses/{id}/new-key"), &jonas).text();
    let once = question
        .split("name=\"once\" value=\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    let form = [("revision", "1"), ("once", once), ("reason", "the key leaked")];
    let first = desk.post(&format!("/licenses/{id}/new-key"), &jonas, &form);
    assert_eq!(first.status, 303, "{}", first.text());
    let again = desk.post(&format!("/licenses/{id}/new-key"), &jonas, &form);
    assert_eq!((again.status, location(&again)), (303, location(&first)));
    let new = location(&first)
        .strip_prefix("/licenses/")
        .unwrap()
        .split('?')
        .next()
        .unwrap();
    assert_eq!(desk.license(new)["replaces"], json!(id));
    assert_eq!(desk.license(&id)["status"], "revoked");
    assert_eq!(mails(&desk.instance), 1);
    let page = desk.get(location(&first), &jonas).text();
    assert!(page.contains("has a new key") && !LicenseKey::is_in(&page), "{page}");
    let form = [("revision", "1"), ("once", once), ("reason", "r")];
    let none = desk.post(&format!("/licenses/{alone}/new-key"), &jonas, &form);
    assert!(
        none.status == 422 && none.text().contains("No address"),
        "{}",
        none.text()
    );
    assert_eq!(desk.license(&alone)["status"], "active");
}

#[test]
fn the_key_of_a_license_is_mailed_again_to_the_kept_address_once() {
    let mail = "[mail]\nserver = '127.0.0.1'\nport = 1\ntls = 'none'\nfrom = 'licenses@acme.example'\n";
    let desk = Desk::open(mail);
    let id = desk.issue(&["--customer", "buyer@shop.example"]);
    let jonas = session(JONAS);
    let page = desk.get(&format!("/licenses/{id}"), &jonas).text();
    let once = page
        .split("name=\"once\" value=\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    let lines = || desk.ledger().split(|byte| *byte == b'\n').count();
    let before = lines();
    for _ in 0..2 {
        let sent = desk.post(&format!("/licenses/{id}/mail-key"), &jonas, &[("once", once)]);
        assert_eq!(
            (sent.status, location(&sent)),
            (303, format!("/licenses/{id}?done=mailed").as_str())
        );
    }
    assert_eq!(mails(&desk.instance), 1);
    assert_eq!(lines(), before + 1, "who did it is in the history once");
    let line = newest_line(&desk);
    assert_eq!(
        (&line["who"], &line["what"]),
        (&json!("Jonas Berg"), &json!(["the key was mailed again"])),
        "{line}"
    );
    let page = desk.get(&format!("/licenses/{id}"), &jonas).text();
    assert!(
        page.contains("Mail waits: the key") && page.contains("The key was mailed again"),
        "{page}"
    );
    // Nothing of this server can be downloaded.
    let none = desk.post(&format!("/licenses/{id}/mail-page"), &jonas, &[("once", once)]);
    assert_eq!(none.status, 422);
    assert!(
        none.text()
            .contains("The server has no first copies of what the license covers.")
    );
    assert_eq!(mails(&desk.instance), 1);
    let alone = desk.issue(&[]);
    assert!(
        !desk
            .get(&format!("/licenses/{alone}"), &jonas)
            .text()
            .contains("Mail the key again")
    );
    assert_eq!(
        desk.post(&format!("/licenses/{alone}/mail-key"), &jonas, &[("once", once)])
            .status,
        422
    );
}

/// A day as pages show it.
fn shown_day(day: &str) -> String {
    day.parse::<NaiveDate>().unwrap().format("%-d %b %Y").to_string()
}

#[test]
fn what_a_shop_suspended_is_lifted_by_the_shop_alone() {
    let instance = with_sellers("");
    instance.write_issuing_secrets();
    let desk = Desk::with(instance, "[shops.stripe]\n");
    let sale = ShopSale::new(Seller::Stripe, 1);
    let deliver = |event, second| {
        for body in sale.bodies(event, second) {
            assert_eq!(Seller::Stripe.deliver(&desk.server, &body), 200);
        }
    };
    let listed = || stdout_json(&desk.instance, &["license", "list"]);
    deliver(ShopEvent::Sold(SMALL, 1, 30), 1);
    eventually("it is sold", || listed().as_array().unwrap().len() == 1);
    let id = listed()[0]["id"].as_str().unwrap().to_owned();
    let jonas = session(JONAS);
    let path = format!("/licenses/{id}");
    let change = |step: &str| {
        let revision = desk.revision(&id);
        let form = [("revision", revision.as_str()), ("reason", "a dispute")];
        desk.post(&format!("{path}/{step}"), &jonas, &form)
    };
    // What a person suspended, too, is lifted, and the page says that the license stays suspended.
    assert_eq!(change("suspend").status, 303);
    deliver(ShopEvent::Refunded(1), 2);
    let because =
        "The shop suspended this license because the payment was refunded: it works again when the shop says so.";
    let page = || desk.get(&path, &jonas).text();
    eventually("the refund is applied", || {
        let lifted = change("lift");
        lifted.status == 303
            && location(&lifted).ends_with("?done=lifted")
            && desk.get(location(&lifted), &jonas).text().contains(because)
            || change("suspend").status != 303
    });
    assert_eq!(desk.license(&id)["status"], "suspended");
    assert!(
        page().contains(because) && !page().contains("Lift the suspension"),
        "{}",
        page()
    );
    assert!(page().contains("Suspended by"), "{}", page());
    let revision = desk.revision(&id);
    let refused = change("lift");
    assert!(
        refused.status == 422 && refused.text().contains(because),
        "{}",
        refused.text()
    );
    let bearer = token(&desk.instance, "office", &["licenses:write"]);
    let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
    let target = format!("/api/v1/licenses/{id}/resume");
    let refused = request(desk.server.address, "POST", &target, &headers, b"{}");
    assert_eq!(refused.status, 409, "{}", refused.text());
    assert!(
        refused.text().contains("because the payment was refunded"),
        "{}",
        refused.text()
    );
    let refused = countersign(&desk.instance)
        .args(["license", "resume", &id])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && said.contains("because the payment was refunded"),
        "{said}"
    );
    assert_eq!(desk.revision(&id), revision, "nothing was written");
}

#[test]
fn a_reserved_seat_is_freed_and_moved_before_its_site_asked() {
    let desk = Desk::open("");
    let issued = stdout_json(
        &desk.instance,
        &["license", "issue", "--module", "forms", "--expires", "never"],
    );
    let license = License {
        key: issued["license_key"].as_str().unwrap().to_owned(),
        id: issued["id"].as_str().unwrap().to_owned(),
    };
    let path = format!("/licenses/{}", license.id);
    let jonas = session(JONAS);
    let change = |step: &str, form: &[(&str, &str)]| {
        let revision = desk.revision(&license.id);
        let form = [&[("revision", revision.as_str())][..], form].concat();
        let answer = desk.post(&format!("{path}/{step}"), &jonas, &form);
        assert_eq!(answer.status, 303, "{}", answer.text());
        desk.get(location(&answer), &jonas).text()
    };
    let code = |host: &str| desk.server.validate(&license, host).code();
    assert_eq!(code("https://shop.example.com"), "ok");
    // A typo.
    let page = change("move", &[("host", "shop.example.com"), ("to", "shopp.example.com")]);
    for said in [
        "The seat is reserved for shopp.example.com.",
        "reserved: it gets the seat when it asks",
        "Free the seat of shopp.example.com",
        "Seat of shop.example.com freed, seat reserved for shopp.example.com",
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
    assert_eq!(code("https://shop.example.com"), "bound_elsewhere");
    change("move", &[("host", "shopp.example.com"), ("to", "shop.example.com")]);
    assert_eq!(code("https://shop.example.com"), "ok");
    change("move", &[("host", "shop.example.com"), ("to", "shopp.example.com")]);
    change("free", &[("host", "shopp.example.com")]);
    assert_eq!(code("https://shop.example.com"), "ok");
}

#[test]
fn what_takes_something_away_is_asked_first_and_says_what_happens() {
    let desk = Desk::open("");
    let id = desk.issue(&["--host", "one.example", "--host", "two.example"]);
    let anna = session(ANNA);
    let path = format!("/licenses/{id}");
    let change = |step: &str, form: &[(&str, &str)]| {
        let revision = desk.revision(&id);
        let form = [&[("revision", revision.as_str()), ("reason", "a return")][..], form].concat();
        desk.post(&format!("{path}/{step}"), &anna, &form)
    };
    let before = desk.ledger();
    let asked = change("extend", &[("until", "2029-01-31")]);
    let page = asked.text();
    for said in [
        "Shorten this license?",
        "31 Jan 2029",
        "30 Jun 2030",
        "2 seats are used",
        ">Shorten</button>",
        "name=\"until\" value=\"2029-01-31\"",
        "name=\"reason\" value=\"a return\"",
    ] {
        assert!(asked.status == 200 && page.contains(said), "{said}: {page}");
    }
    let asked = change("sites", &[("sites", "1")]);
    assert!(
        asked.status == 200 && asked.text().contains("all 2 sites go on and keep their updates"),
        "{}",
        asked.text()
    );
    assert_eq!(desk.ledger(), before);
    assert_eq!(
        change("extend", &[("until", "2029-01-31"), ("sure", "yes")]).status,
        303
    );
    assert_eq!(change("sites", &[("sites", "1"), ("sure", "yes")]).status, 303);
    assert_eq!(desk.license(&id)["expires"], "2029-01-31");
    assert_eq!(desk.license(&id)["sites"], 1);
    // A month and a year more are a click away.
    let page = desk.get(&path, &anna).text();
    for day in ["2029-02-28", "2030-01-31"] {
        assert!(page.contains(&format!("?until={day}#ex\"")), "{day}: {page}");
    }
    let chosen = desk.get(&format!("{path}?until=2030-01-31"), &anna).text();
    assert!(chosen.contains("name=\"until\" value=\"2030-01-31\""), "{chosen}");
    assert!(
        chosen.contains("to <b>31 Jan 2030</b>. It is not saved yet."),
        "{chosen}"
    );
    assert!(!page.contains("name=\"until\" value"), "{page}");
    let extended = change("extend", &[("until", "2030-01-31")]);
    let page = desk.get(location(&extended), &anna).text();
    assert!(page.contains("It ends 31 Jan 2030 now."), "{page}");
}

#[test]
fn a_customer_gets_a_new_address_and_keeps_name_and_licenses() {
    let (desk, id) = Desk::with_sale("old@buyer.example", "Harbor & Sons");
    let other = desk.issue(&["--customer", "old@buyer.example"]);
    let stranger = desk.issue(&["--customer", "taken@other.example"]);
    let anna = session(ANNA);
    let path = format!("/licenses/{id}");
    let change = |address: &str| {
        let revision = desk.revision(&id);
        let form = [("revision", revision.as_str()), ("address", address)];
        desk.post(&format!("{path}/address"), &anna, &form)
    };
    let said = change("new@buyer.example");
    assert_eq!(location(&said), format!("{path}?done=address"), "{}", said.text());
    assert_eq!(location(&change("New@buyer.example")), format!("{path}?done=same"));
    let listed = |address: &str| {
        let found = stdout_json(&desk.instance, &["license", "list", "--customer", address]);
        found.as_array().unwrap().len()
    };
    assert_eq!((listed("new@buyer.example"), listed("old@buyer.example")), (2, 2));
    let history = || stdout_json(&desk.instance, &["license", "history", &id])["events"].clone();
    let line = &history()[0];
    assert_eq!(
        (&line["who"], &line["what"]),
        (&json!("Anna Keller"), &json!(["the customer has a new mail address"])),
        "{line}"
    );
    for license in [&id, &other] {
        let page = desk.get(&format!("/licenses/{license}"), &anna).text();
        let new = page.find("<dt>Address</dt><dd><a href=\"/licenses?q=new%40buyer.example\">");
        let old = page.find("<dt>Another address</dt><dd><a href=\"/licenses?q=old%40buyer.example\">");
        assert!(
            new.is_some() && old > new && page.contains("Harbor &#38; Sons"),
            "{page}"
        );
    }
    // And back: the newest one counts.
    assert_eq!(change("old@buyer.example").status, 303);
    let page = desk.get(&path, &anna).text();
    assert!(
        page.contains("<dt>Address</dt><dd><a href=\"/licenses?q=old%40"),
        "{page}"
    );
    let taken = change("taken@other.example");
    assert!(
        taken.status == 422 && taken.text().contains("Another customer has this address"),
        "{}",
        taken.text()
    );
    assert_eq!(change("nobody").status, 422);
    // By a command.
    let assign = |address: &str| {
        stdout_json(
            &desk.instance,
            &["license", "assign", &id, "--customer", address, "--same-customer"],
        )
    };
    assert_eq!(assign("third@buyer.example")["changed"], true);
    assert_eq!(assign("third@buyer.example")["changed"], false);
    assert_eq!((listed("third@buyer.example"), listed("old@buyer.example")), (2, 2));
    let events = history();
    let addresses = events
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["event"] == "address");
    assert_eq!(addresses.count(), 3, "{events}");
    assert_eq!(listed("taken@other.example"), 1);
    assert_eq!(desk.license(&stranger)["status"], "active");
    assert!(!String::from_utf8_lossy(&desk.ledger()).contains("buyer.example"));
}

#[test]
fn parked_mails_are_listed_with_their_license_address_and_reason() {
    let mail = "[mail]\nserver = '127.0.0.1'\nport = 1\ntls = 'none'\nfrom = 'licenses@acme.example'\n";
    let desk = Desk::open(mail);
    let id = desk.issue(&["--customer", "buyer@shop.example"]);
    let jonas = session(JONAS);
    let page = desk.get(&format!("/licenses/{id}"), &jonas).text();
    let once = page
        .split("name=\"once\" value=\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    let sent = desk.post(&format!("/licenses/{id}/mail-key"), &jonas, &[("once", once)]);
    assert_eq!(sent.status, 303);
    let file = || {
        let mut queued = fs::read_dir(desk.instance.file("store/mail"))
            .unwrap()
            .map(|file| file.unwrap().path());
        queued.find(|file| file.extension().is_some_and(|end| end == "json"))
    };
    let path = file().unwrap();
    // As the queue writes one that it gave up. A mail server that cannot be reached changes no file.
    let mut mail: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    mail["state"] = json!("parked");
    mail["reason"] = json!("550 no such user <b>");
    desk.instance.write(
        path.strip_prefix(desk.instance.file("")).unwrap().to_str().unwrap(),
        &format!("{mail}\n"),
    );
    let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
    let health = |session: &str| desk.get("/health", session).text();
    let license = desk.get(&format!("/licenses/{id}"), &jonas).text();
    assert!(
        license.contains("The mail with the key did not arrive") && license.contains("Mail not delivered: the key"),
        "{license}"
    );
    let shown = health(&jonas);
    for said in [
        "Parked mails",
        "buyer@shop.example",
        "550 no such user &#60;b&#62;",
        &format!("href=\"/licenses/{id}\""),
        &format!("action=\"/mails/{name}/drop\""),
    ] {
        assert!(shown.contains(said), "{said}: {shown}");
    }
    let mira = health(&session(MIRA));
    assert!(
        mira.contains("Parked mails") && !mira.contains("buyer@") && !mira.contains("550") && !mira.contains("/drop"),
        "{mira}"
    );
    let decide = |verb: &str| location(&desk.post(&format!("/mails/{name}/{verb}"), &jonas, &[])).to_owned();
    assert_eq!(decide("drop"), "/health?done=dropped");
    assert_eq!(file(), None);
    assert_eq!(decide("retry"), "/health?done=same");
}

/// How many mails are in the queue.
fn mails(instance: &Instance) -> usize {
    let queued = fs::read_dir(instance.file("store/mail")).unwrap();
    let names = queued.map(|file| file.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().ends_with(".json")).count()
}

#[test]
fn an_order_without_an_offer_gets_one_or_is_left_aside_and_what_is_parked_is_tried_again() {
    let instance = Instance::new();
    add_shop(&instance);
    instance.write_issuing_secrets();
    let desk = Desk::with(instance, "[shops.stripe]\n");
    let sale = |number: i64, price: &str| {
        let mut sale = invoice(&format!("in_{number}"), "subscription_create", price, 1, 30);
        sale["parent"]["subscription_details"]["subscription"] = json!(format!("sub_{number}"));
        sale["currency"] = json!("eur");
        assert_eq!(deliver(&desk.server, "invoice.paid", number, &sale), 200);
    };
    sale(1, "price_new");
    let waiting = || stdout_json(&desk.instance, &["shop", "sales", "list", "--waiting"]);
    let ids = || -> Vec<String> {
        let waiting = waiting();
        let ids = waiting
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|wait| wait["sale"].as_str());
        ids.map(str::to_owned).collect()
    };
    let parked = || stdout_json(&desk.instance, &["shop", "parked", "list"]);
    let count = || parked().as_array().unwrap().len();
    eventually("it waits for an offer", || ids().len() == 1 && count() == 1);
    let id = ids().remove(0);
    let page = desk.get("/sales", &session(JONAS)).text();
    assert!(
        page.contains(&format!("href=\"/sales/{id}\"")) && page.contains("no offer here is for what the shop sold"),
        "{page}"
    );
    let seen = desk.get("/sales", &session(MIRA)).text();
    assert!(
        !seen.contains("Choose an offer") && !seen.contains("Try again"),
        "{seen}"
    );
    // The form repeats what the row says.
    let form = desk.get(&format!("/sales/{id}"), &session(JONAS)).text();
    for said in ["CANARY-jane@example.com", "19.00 EUR", "<bdi>price_new</bdi>"] {
        assert!(form.contains(said), "{said}: {form}");
    }
    // Nothing is counted twice.
    let today = desk.get("/", &session(JONAS)).text();
    assert!(today.contains("1 sale waits") && !today.contains("parked"), "{today}");
    // Who looks for the license finds the order.
    for wanted in ["jane@example", "Order%20sub_1", "%23sub_1"] {
        let found = desk.get(&format!("/licenses?q={wanted}"), &session(JONAS)).text();
        assert!(found.contains("1 waiting order is like this"), "{wanted}: {found}");
    }
    let none = desk.get("/licenses?q=jane%40example", &session(MIRA)).text();
    assert!(!none.contains("waiting order"), "{none}");
    // One row says what was ordered, and by whom, to those who see customers.
    assert_eq!(page.matches("<bdi>price_new</bdi>").count(), 1, "{page}");
    assert!(!page.contains("Parked deliveries"), "{page}");
    assert_eq!(page.matches("CANARY-jane@example.com").count(), 1, "{page}");
    assert_eq!(seen.matches("<bdi>19.00 EUR</bdi>").count(), 1, "{seen}");
    assert!(
        !seen.contains("CANARY-jane@example.com") && seen.contains("<bdi>price_new</bdi>"),
        "{seen}"
    );
    // It is found by what the order says, and by its buyer where customers may be seen.
    let finds = |text: &str, who| {
        let page = desk.get(&format!("/sales?find={text}"), &session(who)).text();
        assert!(page.contains(&format!("href=\"/licenses?q={text}\"")), "{page}");
        page.contains("19.00 EUR")
    };
    assert!(finds("PRICE_new", MIRA) && finds("canary-jane", JONAS));
    assert!(!finds("canary-jane", MIRA) && !finds("price_old", JONAS));
    let nothing = desk.get("/licenses?q=price_new", &session(MIRA)).text();
    assert!(nothing.contains("href=\"/sales?find=price_new\""), "{nothing}");
    let form = desk.get(&format!("/sales/{id}"), &session(JONAS)).text();
    assert!(form.contains("price_new") && form.contains("value=\"small\""), "{form}");

    // What was parked is tried again, and parked again: nothing changed.
    let delivery = parked()[0]["id"].as_str().unwrap().to_owned();
    let retry = format!("/deliveries/{delivery}/retry");
    assert_eq!(
        location(&desk.post(&retry, &session(JONAS), &[])),
        "/sales?done=retried"
    );
    assert_eq!(desk.post(&retry, &session(JONAS), &[]).status, 303);
    eventually("it is parked again", || count() == 1);

    let target = format!("/sales/{id}/match");
    let small = [("price", "price_new"), ("offer", "small")];
    for (form, said) in [
        ([("price", "price_new"), ("offer", "none")], "no such offer"),
        ([("price", "price_other"), ("offer", "small")], "no such price"),
    ] {
        let refused = desk.post(&target, &session(JONAS), &form);
        assert!(
            refused.status == 422 && refused.text().contains(said),
            "{}",
            refused.text()
        );
    }
    let matched = desk.post(&target, &session(JONAS), &small);
    assert_eq!((matched.status, location(&matched)), (303, "/sales?done=matched"));
    let sold = || stdout_json(&desk.instance, &["license", "list"]);
    eventually("it is issued", || sold().as_array().unwrap().len() == 1 && count() == 0);
    assert_eq!(waiting(), json!([]));
    let ledger = desk.ledger();
    assert_eq!(
        location(&desk.post(&target, &session(JONAS), &small)),
        "/sales?done=same"
    );
    let other = desk.post(&target, &session(JONAS), &[("price", "price_new"), ("offer", "large")]);
    assert!(other.status == 409 && other.text().contains("Somebody was faster"));
    assert_eq!(desk.ledger(), ledger);

    // A gift card.
    sale(2, "price_card");
    eventually("it waits, too", || ids().len() == 1 && count() == 1);
    let nothing = [("price", "price_card"), ("offer", "_nothing")];
    let aside = desk.post(&format!("/sales/{}/match", ids()[0]), &session(JONAS), &nothing);
    assert_eq!(location(&aside), "/sales?done=aside");
    eventually("it waits no more", || waiting() == json!([]) && count() == 0);
    assert_eq!(sold().as_array().unwrap().len(), 1);

    // It is something of ours after all. Its delivery is gone, so that the address is typed.
    let page = desk.get("/sales", &session(JONAS)).text();
    let at = page.split("href=\"/sales/").last().unwrap();
    let aside = at.split('"').next().unwrap();
    assert!(at.contains("Take back") && !desk.get("/sales", &session(MIRA)).text().contains("Take back"));
    let form = desk.get(&format!("/sales/{aside}"), &session(JONAS)).text();
    assert!(form.contains("<option value=\"price_card\">"), "{form}");
    let target = format!("/sales/{aside}/take-back");
    let back = [
        ("price", "price_card"),
        ("offer", "small"),
        ("address", "kim@shop.example"),
        ("reason", "it was no gift card"),
    ];
    let ledger = desk.ledger();
    assert_eq!(
        desk.post(&target, &session(JONAS), &back[..3]).status,
        422,
        "without a reason"
    );
    for (at, field) in [
        (0, ("price", "price_new")),
        (1, ("offer", "none")),
        (2, ("address", "kim")),
    ] {
        let mut wrong = back;
        wrong[at] = field;
        let answer = desk.post(&target, &session(JONAS), &wrong);
        assert!(
            answer.status == 422 || location(&answer).ends_with("same"),
            "{field:?}: {}",
            answer.status
        );
    }
    assert_eq!(desk.ledger(), ledger);
    assert_eq!(
        location(&desk.post(&target, &session(JONAS), &back)),
        "/sales?done=taken-back"
    );
    assert_eq!(
        location(&desk.post(&target, &session(JONAS), &back)),
        "/sales?done=same"
    );
    let of_kim = stdout_json(&desk.instance, &["license", "list", "--customer", "kim@shop.example"]);
    assert_eq!(
        (of_kim.as_array().unwrap().len(), sold().as_array().unwrap().len()),
        (1, 2)
    );
    let history = stdout_json(
        &desk.instance,
        &["license", "history", of_kim[0]["id"].as_str().unwrap()],
    );
    assert_eq!(
        (&history["events"][0]["who"], &history["events"][0]["reason"]),
        (&json!("Jonas Berg"), &json!("it was no gift card")),
        "{history}"
    );
    assert!(!desk.get("/sales", &session(JONAS)).text().contains("Take back"));

    // What nobody can read.
    assert_eq!(deliver_text(&desk.server, "{\"no\":\"event\"}"), 200);
    eventually("it is parked", || count() == 1);
    let delivery = parked()[0]["id"].as_str().unwrap().to_owned();
    let drop = format!("/deliveries/{delivery}/drop");
    assert_eq!(desk.post(&drop, &session(JONAS), &[("sure", "none")]).status, 422);
    let sure = [("sure", &delivery[..4])];
    assert_eq!(
        location(&desk.post(&drop, &session(JONAS), &sure)),
        "/sales?done=dropped"
    );
    assert_eq!(location(&desk.post(&drop, &session(JONAS), &sure)), "/sales?done=same");
    assert_eq!(parked(), json!([]));
}

/// What waits for this on the desk's node: the id of the delivery.
fn waiting_for(desk: &Desk, thing: &str) -> Option<String> {
    let waiting = stdout_json(&desk.instance, &["shop", "sales", "list", "--waiting"]);
    let found = waiting
        .as_array()
        .unwrap()
        .iter()
        .find(|wait| wait["waits_for"] == thing)?;
    found["delivery"].as_str().map(str::to_owned)
}

/// Waits until something waits for this. The id of its delivery.
fn delivery_waiting_for(desk: &Desk, thing: &str) -> String {
    eventually("it waits", || waiting_for(desk, thing).is_some());
    waiting_for(desk, thing).unwrap()
}

/// The newest line of the history of the only license.
fn newest_line(desk: &Desk) -> Value {
    let licenses = stdout_json(&desk.instance, &["license", "list"]);
    assert_eq!(licenses.as_array().unwrap().len(), 1, "{licenses}");
    stdout_json(
        &desk.instance,
        &["license", "history", licenses[0]["id"].as_str().unwrap()],
    )["events"][0]
        .clone()
}

#[test]
fn a_person_says_the_address_that_the_shop_does_not_tell() {
    let instance = with_sellers("");
    instance.write_issuing_secrets();
    instance.write_secret("keys/shops/paddle.api-key", "pdl_live_apikey_CANARY\n");
    let desk = Desk::with(
        instance,
        "[shops.paddle]\napi_key_file = 'keys/shops/paddle.api-key'\napi_url = 'http://127.0.0.1:1/'\n\
         [mail]\nserver = '127.0.0.1'\nport = 1\ntls = 'none'\nfrom = 'licenses@acme.example'\n",
    );
    let sell = |number| {
        for body in ShopSale::new(Seller::Paddle, number).bodies(ShopEvent::Sold(SMALL, 1, 30), 1) {
            assert_eq!(Seller::Paddle.deliver(&desk.server, &body), 200);
        }
    };
    sell(1);
    let id = delivery_waiting_for(&desk, "address");
    let jonas = session(JONAS);
    let page = desk.get("/sales", &jonas).text();
    assert!(
        page.contains(&format!("href=\"/deliveries/{id}\">Enter an address")),
        "{page}"
    );
    assert!(!desk.get("/sales", &session(MIRA)).text().contains("Enter an address"));
    // What the delivery says of the order, by the shop's word for it.
    assert!(
        page.contains("Order <bdi>sub_1</bdi>") && page.contains("<td role=\"cell\"><bdi>11</bdi>"),
        "{page}"
    );
    assert!(
        desk.get(&format!("/deliveries/{id}"), &jonas)
            .text()
            .contains("name=\"address\"")
    );
    let at = |what: &str| format!("/deliveries/{id}/{what}");
    let said = [("address", "kim@shop.example"), ("reason", "she called")];
    for (target, form) in [
        (at("address"), &said[..1]),
        (at("address"), &[("address", "kim"), ("reason", "x")][..]),
        (at("key"), &[("key", "imported-key-number-0001"), ("reason", "x")][..]),
        (at("attach"), &[("license", "0123456789"), ("reason", "x")][..]),
    ] {
        assert_eq!(desk.post(&target, &jonas, form).status, 422, "{target} {form:?}");
    }
    assert_eq!(stdout_json(&desk.instance, &["license", "list"]), json!([]));
    assert_eq!(location(&desk.post(&at("address"), &jonas, &said)), "/sales?done=said");
    eventually("it is issued", || {
        waiting_for(&desk, "address").is_none() && mails(&desk.instance) == 1
    });
    let line = newest_line(&desk);
    assert_eq!(
        (&line["who"], &line["reason"]),
        (&json!("Jonas Berg"), &json!("she called")),
        "{line}"
    );
    let of_kim = stdout_json(&desk.instance, &["license", "list", "--customer", "kim@shop.example"]);
    assert_eq!(of_kim.as_array().unwrap().len(), 1);
    assert_eq!(desk.post(&at("address"), &jonas, &said).status, 404, "it is done");
    assert!(!desk.server.log().contains("kim@") && !desk.server.log().contains("she called"));

    // The command says the same.
    sell(2);
    let id = delivery_waiting_for(&desk, "address");
    run(
        &desk.instance,
        &[
            "shop",
            "parked",
            "retry",
            &id,
            "--address",
            "lee@shop.example",
            "--reason",
            "by phone",
        ],
    );
    eventually("the other one is issued", || mails(&desk.instance) == 2);
    let of_lee = stdout_json(&desk.instance, &["license", "list", "--customer", "lee@shop.example"]);
    assert_eq!(of_lee.as_array().unwrap().len(), 1);
}

#[test]
fn a_person_says_the_key_that_the_shop_made_and_it_is_stored_nowhere() {
    const KEY: &str = "38B1460A-5104-4067-A91D-CANARY000001";
    let instance = with_sellers("");
    instance.write_issuing_secrets();
    let desk = Desk::with(
        instance,
        "[serve]\nforeign_keys = true\n[shops.lemonsqueezy]\nkeys = 'shop'\n",
    );
    for body in ShopSale::new(Seller::LemonSqueezy, 1).bodies(ShopEvent::Sold(SMALL, 1, 30), 1) {
        assert_eq!(Seller::LemonSqueezy.deliver(&desk.server, &body), 200);
    }
    let id = delivery_waiting_for(&desk, "key");
    let jonas = session(JONAS);
    assert!(
        desk.get("/sales", &jonas)
            .text()
            .contains(&format!("href=\"/deliveries/{id}\">Enter the key"))
    );
    assert!(
        desk.get(&format!("/deliveries/{id}"), &jonas)
            .text()
            .contains("name=\"key\"")
    );
    let at = format!("/deliveries/{id}/key");
    let short = desk.post(&at, &jonas, &[("key", "CANARY"), ("reason", "x")]);
    assert!(
        short.status == 422 && !short.text().contains("CANARY"),
        "{}",
        short.text()
    );
    let said = [("key", KEY), ("reason", "from the shop's list")];
    assert_eq!(location(&desk.post(&at, &jonas, &said)), "/sales?done=said");
    eventually("it is issued", || waiting_for(&desk, "key").is_none());
    let line = newest_line(&desk);
    assert_eq!(
        (&line["who"], &line["reason"]),
        (&json!("Jonas Berg"), &json!("from the shop's list")),
        "{line}"
    );
    let answer = desk
        .server
        .ask(&json!({ "license_key": KEY, "site_url": "https://a.example" }));
    assert_eq!(answer.code(), "ok");
    assert!(!desk.server.log().contains("CANARY"));
    let store = desk.instance.file("store");
    assert_eq!(files_with(&store, &["CANARY000001"]), Vec::<PathBuf>::new());
}

#[test]
fn a_person_says_which_license_a_subscription_renews() {
    let instance = Instance::new();
    add_shop(&instance);
    instance.write_issuing_secrets();
    let desk = Desk::with(instance, "[shops.stripe]\n");
    let license = desk.issue(&[]);
    let mut renewal = invoice("in_9", "subscription_cycle", "price_small", 1, 400);
    renewal["parent"]["subscription_details"]["subscription"] = json!("sub_9");
    assert_eq!(deliver(&desk.server, "invoice.paid", 1, &renewal), 200);
    let id = delivery_waiting_for(&desk, "renewed_license");
    let jonas = session(JONAS);
    assert!(
        desk.get("/sales", &jonas)
            .text()
            .contains(&format!("href=\"/deliveries/{id}\">Choose the license"))
    );
    assert!(desk.get(&format!("/deliveries/{id}"), &jonas).text().contains("sub_9"));
    let at = format!("/deliveries/{id}/attach");
    let before = desk.ledger();
    for (name, said) in [
        ("abc", "8 or more"),
        ("0000000000", "No license of the ledger has this id"),
        (&"0".repeat(64), "no such license in the ledger"),
    ] {
        let answer = desk.post(&at, &jonas, &[("license", name), ("reason", "x")]);
        assert!(
            answer.status == 422 && answer.text().contains(said),
            "{}",
            answer.text()
        );
    }
    assert_eq!(desk.ledger(), before);
    let page = desk.get(&format!("/deliveries/{id}"), &jonas).text();
    assert!(page.contains("No license of this buyer is here."), "{page}");
    desk.issue(&["--customer", "CANARY-jane@example.com"]);
    let page = desk.get(&format!("/deliveries/{id}"), &jonas).text();
    assert!(
        page.contains(">It renews ") && !page.contains("No license of this buyer"),
        "{page}"
    );
    let form = [
        ("license", "_other"),
        ("other", &license[..12]),
        ("reason", "imported without it"),
    ];
    assert_eq!(location(&desk.post(&at, &jonas, &form)), "/sales?done=attached");
    eventually("it is applied", || waiting_for(&desk, "renewed_license").is_none());
    let history = stdout_json(&desk.instance, &["license", "history", &license]);
    let lines = history["events"].as_array().unwrap();
    let attached = lines.iter().find(|line| line["reason"] == "imported without it");
    let attached = attached.unwrap_or_else(|| panic!("{history}"));
    assert_eq!(
        (&attached["who"], &attached["by"]),
        (&json!("Jonas Berg"), &json!("operator:desk")),
        "{attached}"
    );
    assert_eq!(
        stdout_json(&desk.instance, &["license", "list"])
            .as_array()
            .unwrap()
            .len(),
        2
    );
    let sub = ["shop", "attach", "sub_9", license.as_str()];
    assert_eq!(stdout_json(&desk.instance, &sub)["changed"], json!(false));

    // Another one is a first purchase, whatever the shop calls it.
    renewal["id"] = json!("in_10");
    renewal["parent"]["subscription_details"]["subscription"] = json!("sub_10");
    assert_eq!(deliver(&desk.server, "invoice.paid", 2, &renewal), 200);
    let id = delivery_waiting_for(&desk, "renewed_license");
    let form = [("license", "_new"), ("reason", "moved from the old shop")];
    let answer = desk.post(&format!("/deliveries/{id}/attach"), &jonas, &form);
    assert_eq!(location(&answer), "/sales?done=said");
    eventually("it is issued", || waiting_for(&desk, "renewed_license").is_none());
    let sales = stdout_json(&desk.instance, &["shop", "sales", "list"]);
    let issued = sales[0]["licenses"][0]["id"]
        .as_str()
        .unwrap_or_else(|| panic!("{sales}"));
    let history = stdout_json(&desk.instance, &["license", "history", issued]);
    let first = &history["events"][0];
    assert_eq!(
        (&first["who"], &first["reason"]),
        (&json!("Jonas Berg"), &json!("moved from the old shop")),
        "{history}"
    );
}

#[test]
fn notes_modules_customers_and_seats_change_once_and_each_with_its_role() {
    let desk = Desk::open("");
    let id = desk.issue(&["--host", "one.example", "--customer", "first@shop.example"]);
    let jonas = session(JONAS);
    let anna = session(ANNA);
    let path = format!("/licenses/{id}");
    let change = |session: &str, step: &str, form: &[(&str, &str)]| {
        let revision = desk.revision(&id);
        let form = [&[("revision", revision.as_str())][..], form].concat();
        desk.post(&format!("{path}/{step}"), session, &form)
    };
    let said = |answer: Response| {
        assert_eq!(answer.status, 303, "{}", answer.text());
        location(&answer).rsplit('=').next().unwrap().to_owned()
    };
    // A note.
    assert_eq!(said(change(&jonas, "note", &[("note", "a friend <b>")])), "note");
    let ledger = desk.ledger();
    assert_eq!(said(change(&jonas, "note", &[("note", "a friend <b>")])), "same");
    let stale = [("revision", "1"), ("note", "a friend <b>")];
    assert_eq!(said(desk.post(&format!("{path}/note"), &jonas, &stale)), "same");
    let stale = [("revision", "1"), ("note", "a foe")];
    assert_eq!(desk.post(&format!("{path}/note"), &jonas, &stale).status, 409);
    assert_eq!(desk.ledger(), ledger);
    assert!(desk.get(&path, &jonas).text().contains("a friend &#60;b&#62;"));
    assert!(!desk.get(&path, &session(MIRA)).text().contains("a friend"));
    assert_eq!(change(&jonas, "note", &[("note", &"x".repeat(1_001))]).status, 422);
    // What it covers.
    let modules = [("modules", "forms=export"), ("reason", "an upgrade")];
    assert_eq!(change(&jonas, "modules", &modules).status, 403);
    assert_eq!(said(change(&anna, "modules", &modules)), "modules");
    assert_eq!(desk.license(&id)["modules"], json!({ "forms": ["export"] }));
    assert_eq!(said(change(&anna, "modules", &modules)), "same");
    for modules in ["", "formz", "forms; forms", "forms=EX PORT"] {
        assert_eq!(
            change(&anna, "modules", &[("modules", modules)]).status,
            422,
            "{modules}"
        );
    }
    let stale = [("revision", "1"), ("modules", "forms")];
    let conflict = desk.post(&format!("{path}/modules"), &anna, &stale);
    assert!(
        conflict.status == 409 && conflict.text().contains("forms=export"),
        "{}",
        conflict.text()
    );
    // Whose it is.
    let other = [("address", "Second@shop.example")];
    assert_eq!(change(&jonas, "assign", &other).status, 403);
    let stale = [("revision", "1"), other[0]];
    assert_eq!(desk.post(&format!("{path}/assign"), &anna, &stale).status, 409);
    let listed = |address: &str| {
        let found = stdout_json(&desk.instance, &["license", "list", "--customer", address]);
        found.as_array().unwrap().len()
    };
    assert_eq!(said(change(&anna, "assign", &other)), "assigned");
    assert_eq!((listed("second@shop.example"), listed("first@shop.example")), (1, 0));
    assert_eq!(said(desk.post(&format!("{path}/assign"), &anna, &stale)), "same");
    assert_eq!(change(&anna, "assign", &[("address", "nobody")]).status, 422);
    let history = stdout_json(&desk.instance, &["license", "history", &id]);
    assert!(
        history["events"]
            .as_array()
            .unwrap()
            .iter()
            .any(|event| event["who"] == "Anna Keller"
                && event["reason"] == "an upgrade"
                && event["by"] == "operator:desk"),
        "{history}"
    );
    // A seat that nobody holds does not move.
    let nobody = [("host", "never.example"), ("to", "two.example")];
    assert_eq!(change(&jonas, "move", &nobody).status, 422);
    assert_eq!(
        change(&jonas, "move", &[("host", "a.example"), ("to", "a.example")]).status,
        422
    );
    // The customer is erased.
    let erase = |sure: &str| {
        desk.post(
            &format!("{path}/erase-customer"),
            &anna,
            &[("reason", "asked"), ("sure", sure)],
        )
    };
    assert!(
        desk.get(&format!("{path}/erase-customer"), &anna)
            .text()
            .contains("1 license")
    );
    assert_eq!(erase("none").status, 422);
    assert_eq!(said(erase(&id[..4])), "erased");
    assert_eq!(said(erase(&id[..4])), "same");
    assert!(
        !desk
            .get(&path, &anna)
            .text()
            .to_lowercase()
            .contains("second@shop.example")
    );
    assert_eq!(desk.license(&id)["status"], "active");
}

#[test]
fn a_license_is_issued_once_however_often_the_form_is_sent() {
    let mail = "[mail]\nserver = '127.0.0.1'\nport = 1\ntls = 'none'\nfrom = 'licenses@acme.example'\n";
    let desk = Desk::open(mail);
    let anna = session(ANNA);
    let count = || {
        stdout_json(&desk.instance, &["license", "list"])
            .as_array()
            .unwrap()
            .len()
    };
    let once = || {
        let form = desk.get("/new-license", &anna).text();
        let once = form.split("name=\"once\" value=\"").nth(1).unwrap();
        once.split('"').next().unwrap().to_owned()
    };
    let issue = |once: &str, more: &[(&str, &str)]| {
        let form = [
            &[("once", once), ("modules", "forms"), ("until", "2030-06-30")][..],
            more,
        ]
        .concat();
        desk.post("/new-license", &anna, &form)
    };
    let shown = once();
    let key = |answer: &Response| {
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        let text = answer.text();
        let key = text.split("<p><code>").nth(1).unwrap();
        key.split('<').next().unwrap().to_owned()
    };
    let first = key(&issue(&shown, &[("sites", "3"), ("note", "a gift")]));
    assert_eq!(key(&issue(&shown, &[("sites", "3"), ("note", "a gift")])), first);
    assert_eq!(count(), 1);
    let other = issue(&shown, &[("sites", "4")]);
    assert!(
        other.status == 422 && other.text().contains("Another license"),
        "{}",
        other.text()
    );
    let mailed = once();
    let address = [("address", "buyer@shop.example"), ("key", "mail")];
    let sent: Vec<_> = (0..2).map(|_| issue(&mailed, &address)).collect();
    assert_eq!((sent[0].status, location(&sent[0])), (303, location(&sent[1])));
    assert!(location(&sent[0]).ends_with("?done=issued"));
    assert_eq!((count(), mails(&desk.instance)), (2, 1));
    for form in [
        &[("key", "mail")][..],
        &[("address", "nobody")],
        &[("sites", "0")],
        &[("note", first.as_str())],
    ] {
        assert_eq!(issue(&once(), form).status, 422, "{form:?}");
    }
    // What was typed stays, and the field is named.
    let once_more = once();
    let again = issue(&once_more, &[("sites", "0"), ("note", "a <gift>")]).text();
    for said in [
        "Sites: The number of sites must be from 1",
        "name=\"note\" value=\"a &#60;gift&#62;\"",
        "name=\"until\" value=\"2030-06-30\"",
        &once_more,
    ] {
        assert!(again.contains(said), "{said}: {again}");
    }
    let again = issue(&once_more, &[("note", first.as_str())]).text();
    assert!(!again.contains(&first), "a key is on no page");
    for (until, modules) in [
        ("2020-01-01", "forms"),
        ("soon", "forms"),
        ("", "forms"),
        ("never", "formz"),
    ] {
        let form = [("once", mailed.as_str()), ("modules", modules), ("until", until)];
        assert_eq!(desk.post("/new-license", &anna, &form).status, 422, "{until} {modules}");
    }
    assert_eq!(count(), 2);
    assert!(!desk.server.log().contains(&first));
}

#[test]
fn the_list_is_a_file_without_formulas() {
    let (desk, id) = Desk::with_sale("buyer@shop.example", "=HYPERLINK(\"http://evil\")");
    let other = desk.issue(&[]);
    let file = desk.get("/licenses.csv?q=buyer%40shop.example", &session(ANNA));
    assert_eq!(file.status, 200);
    assert!(
        file.header("content-disposition")
            .unwrap()
            .starts_with("attachment; filename=\"licenses-")
    );
    let text = file.text();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(
        lines[1].starts_with(&id) && lines[1].contains("buyer@shop.example"),
        "{text}"
    );
    assert!(lines[1].contains("\"'=HYPERLINK(\"\"http://evil\"\")\""), "{text}");
    let all = desk.get("/licenses.csv", &session(ANNA)).text();
    assert!(all.lines().count() == 3 && all.contains(&other), "{all}");
    let ended = desk.get("/licenses.csv?state=expired", &session(ANNA)).text();
    assert_eq!(ended.lines().count(), 1);
}

#[test]
fn people_sign_in_by_a_code_or_a_link_in_a_mail_and_nobody_learns_who_may() {
    let (port, mailed) = crate::deep_inputs::mail_server_with_mails();
    let desk = Desk::open(&format!(
        "[mail]\nserver = '127.0.0.1'\nport = {port}\ntls = 'none'\nfrom = 'licenses@acme.example'\n"
    ));
    assert!(desk.get("/sign-in", "").text().contains("Send a code"));
    let ask = |address: &str| {
        let answer = desk.post("/sign-in", "", &[("address", address)]);
        assert_eq!(answer.status, 303, "{}", answer.text());
        location(&answer).to_owned()
    };
    let at = ask("Jonas@Vendor.example");
    let nobody = ask("nobody@vendor.example");
    assert_eq!((at.len(), desk.get(&nobody, "").status), (nobody.len(), 200));
    eventually("the mail is there", || !mailed.lock().unwrap().is_empty());
    let mail = mailed
        .lock()
        .unwrap()
        .remove(0)
        .replace("=\r\n", "")
        .replace("=3D", "=");
    let code = mail.split("Your code: ").nth(1).unwrap()[..9].to_owned();
    let link = mail
        .split("/mail-link/")
        .nth(1)
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap()
        .to_owned();
    for wrong in ["", "AAAA-AAAA"] {
        assert_eq!(desk.post(&at, "", &[("code", wrong)]).status, 422);
    }
    assert!([422, 410].contains(&desk.post(&nobody, "", &[("code", &code)]).status));
    assert_eq!(desk.get(&format!("/mail-link/{link}"), "").status, 200);
    let used = desk.post(&at, "", &[("code", &code.to_lowercase().replace('-', " "))]);
    assert_eq!((used.status, location(&used)), (303, "/"), "{}", used.text());
    let cookie = used.header("set-cookie").unwrap().split([';', '=']).nth(1).unwrap();
    assert!(desk.get("/", cookie).text().contains("Jonas Berg</bdi> · support"));
    // The code and the link are one.
    assert_eq!(desk.post(&at, "", &[("code", &code)]).status, 410);
    assert_eq!(desk.post(&format!("/mail-link/{link}"), "", &[]).status, 410);
    assert_eq!(desk.get(&format!("/mail-link/{link}"), "").status, 410);
    // More mails than are sent: the name of each attempt has the person, and its code signs nobody in.
    let person = |at: &str| {
        let decoded = BASE64_URL_SAFE_NO_PAD.decode(at.rsplit('/').next().unwrap()).unwrap();
        decoded[24..40].to_vec()
    };
    let [known, unknown] = [ANNA, "other@vendor.example"].map(|address| {
        let asked: Vec<_> = (0..22).map(|_| ask(address)).collect();
        assert!(
            asked
                .iter()
                .all(|at| person(at) == person(&asked[0]) && person(at) != [0; 16])
        );
        asked
    });
    for (known, unknown) in known.iter().zip(&unknown) {
        let [known, unknown] = [known, unknown].map(|at| {
            let wrong = desk.post(at, "", &[("code", "AAAA-AAAA")]);
            (
                wrong.status,
                wrong.text().replace(at.as_str(), "AT").len(),
                desk.get(at, "").status,
            )
        });
        assert_eq!(known, unknown);
    }
    // Five tries.
    let at = ask(MIRA);
    let statuses: Vec<_> = (0..7)
        .map(|_| desk.post(&at, "", &[("code", "AAAA-AAAA")]).status)
        .collect();
    assert_eq!(statuses, [422, 422, 422, 422, 422, 410, 410]);
    let log = desk.server.log();
    assert!(
        !log.contains(&code) && !log.contains(&link) && !log.to_lowercase().contains("jonas@"),
        "{log}"
    );
}

#[test]
fn hostile_texts_are_shown_as_texts_and_addresses_only_to_who_may_see_them() {
    let hostile = "<script>alert(1)</script>\u{202e}gnp.\u{200b}'\"><img src=x onerror=alert(1)>&amp;";
    let (desk, sold) = Desk::with_sale(
        "victim@buyer.example",
        &format!("{hostile}{}", "Z\u{30d}\u{30d}\u{30d}".repeat(3_000)),
    );
    let license = desk.issue_for(&format!("{hostile}{}", "r".repeat(60)));
    let noted = desk.issue(&["--note", "<script>a note"]);
    assert_eq!(
        desk.server.validate(&license, "https://xn--mnchen-3ya.example").code(),
        "ok"
    );
    let long = format!("/licenses?q={}", "a".repeat(3_000));
    let query: String = url::form_urlencoded::byte_serialize(hostile.as_bytes()).collect();
    let found = format!("/licenses?q={query}");
    let sessions = [session(MIRA), session(JONAS), session(ANNA)];
    for (rank, session) in sessions.iter().enumerate() {
        for (method, path, _) in PAGES {
            // The file has what was written, and no browser shows it.
            if method != "GET" || path == "/licenses.csv" {
                continue;
            }
            let all = [&license.id, &sold, &noted].map(|id| desk.get(&path.replace("ID", id), session).text());
            let page = all.concat();
            for bad in ["<script", "<img src=x", "\u{202e}", "\u{200b}", "onerror=alert(1)>"] {
                assert!(!page.contains(bad), "{path} has {bad:?}: {page}");
            }
            let shows = page.contains("victim@") || page.contains("victim&");
            assert!(!shows || rank > 0, "{path} shows an address to the role read");
            assert!(
                !page.contains("a note") || rank > 0,
                "{path} shows a note to the role read"
            );
            assert!(page.len() < 200_000, "{path}");
        }
        let list = desk.get("/licenses", session).text();
        assert_eq!(list.contains("victim@buyer.example"), rank > 0, "{list}");
        assert!(list.contains("&lt;script") || list.contains("&#60;script"), "{list}");
        let by_address = desk.get("/licenses?q=victim%40buyer", session).text();
        assert_eq!(
            by_address.contains(&sold),
            rank > 0,
            "nobody finds out by an address that is not shown"
        );
        assert_eq!(desk.get(&long, session).status, 422);
        let page = desk.get(&found, session).text();
        assert!(page.contains(&sold) && !page.contains("<script"), "{page}");
    }
    assert!(
        desk.get(&format!("/licenses/{noted}"), &sessions[1])
            .text()
            .contains("a note")
    );
    let page = desk.get(&format!("/licenses/{}", license.id), &sessions[1]).text();
    assert!(
        page.contains("xn--mnchen-3ya.example") && page.contains("münchen.example"),
        "{page}"
    );
}

#[test]
fn a_license_is_found_by_what_people_have_at_hand() {
    let (desk, sold) = Desk::with_sale("office1@buyer.example", "Harbor & Sons");
    let issued = [
        desk.issue_for("order 0"),
        License {
            key: String::new(),
            id: sold,
        },
    ];
    assert_eq!(
        desk.server
            .validate(&issued[0], "https://shop.riverbank.example")
            .code(),
        "ok"
    );
    let jonas = session(JONAS);
    let found = |query: &str| {
        let query: String = url::form_urlencoded::byte_serialize(query.as_bytes()).collect();
        let answer = desk.get(&format!("/licenses?q={query}"), &jonas);
        let text = format!("{} {}", location(&answer), answer.text());
        assert!(!LicenseKey::is_in(&text), "a key is shown nowhere");
        [text.contains(&issued[0].id), text.contains(&issued[1].id)]
    };
    assert_eq!(found("harbor & s"), [false, true]);
    assert_eq!(found("order 0"), [true, false]);
    assert_eq!(found("https://shop.riverbank.example/"), [true, false]);
    assert_eq!(found("OFFICE1@buyer"), [false, true]);
    assert_eq!(found("office1@buyer.example"), [false, true]);
    assert_eq!(found(&issued[0].key), [true, false]);
    assert_eq!(found(&issued[1].id[..12]), [false, true]);
    assert_eq!(found("nobody"), [false, false]);
    let list = desk.get("/licenses", &jonas).text();
    let at = |id: &str| list.find(id).unwrap();
    assert!(at(&issued[0].id) < at(&issued[1].id), "the newest first");
    for (query, expected) in [
        ("plugin=acme-forms", true),
        ("plugin=acme-maps", false),
        ("state=revoked", false),
        ("ends=never", true),
    ] {
        let page = desk.get(&format!("/licenses?{query}"), &jonas).text();
        assert_eq!(page.contains(&issued[0].id), expected, "{query}");
    }
    let unused = desk.get("/licenses?seats=none", &jonas).text();
    assert!(
        unused.contains(&issued[1].id) && !unused.contains(&issued[0].id),
        "{unused}"
    );
    let full = desk.get("/licenses?seats=full", &jonas).text();
    assert!(full.contains(&issued[0].id) && !full.contains(&issued[1].id), "{full}");
    // Its one seat is used, so another site is refused, and finds the license all the same.
    let refused = desk.server.validate(&issued[0], "https://copy.example");
    assert_eq!(refused.code(), "bound_elsewhere");
    eventually("the refusal is stored", || found("copy.example") == [true, false]);
}

#[test]
fn the_licenses_whose_sites_run_a_version_are_listed_with_these_sites() {
    let desk = Desk::open("");
    let by_command = || {
        let issue = ["license", "issue", "--module", "forms", "--expires", "2030-06-30"];
        let issued = stdout_json(&desk.instance, &issue);
        let text = |name: &str| issued[name].as_str().unwrap().to_owned();
        License {
            id: text("id"),
            key: text("license_key"),
        }
    };
    let issued = [by_command(), by_command()];
    let updates = |license: &License, host: &str, version: &str| {
        assert_eq!(desk.server.validate(license, host).code(), "ok");
        let asked = desk
            .server
            .updates(license, host, &format!("&current_version={version}"));
        assert_eq!(asked.status, 200, "{}", asked.text());
    };
    updates(&issued[0], "old.example", "1.0.0");
    updates(&issued[1], "new.example", "1.1.0-beta.1");
    let mira = session(MIRA);
    let plugin = || desk.get("/plugins/acme-forms", &mira).text();
    let link = "/licenses?plugin=acme-forms&#38;runs=1.1.0-beta.1";
    eventually("both versions are reported", || {
        plugin().contains(link) && plugin().contains("runs=1.0.0\"")
    });
    let list = |query: &str| desk.get(&format!("/licenses?plugin=acme-forms&{query}"), &mira).text();
    let old = list("runs=1.0.0");
    assert!(old.contains(&issued[0].id) && !old.contains(&issued[1].id), "{old}");
    assert!(old.contains("old.example") && !old.contains("new.example"), "{old}");
    assert!(old.contains("1 site of 1 license within 30 days"), "{old}");
    let new = list("runs=1.1.0-beta.1");
    assert!(new.contains(&issued[1].id) && !new.contains(&issued[0].id), "{new}");
    let none = list("runs=%3Cb%3E");
    assert!(
        none.contains("No license is like this.") && !none.contains("<b>\""),
        "{none}"
    );
    let file = desk
        .get("/licenses.csv?plugin=acme-forms&runs=1.0.0", &session(ANNA))
        .text();
    assert!(file.contains(&issued[0].id) && !file.contains(&issued[1].id), "{file}");
    assert!(file.contains("old.example") && !file.contains("new.example"), "{file}");
}

#[test]
fn what_people_changed_is_on_one_page_and_what_anyone_did_beside_it() {
    let (desk, sold) = Desk::with_sale("office1@buyer.example", "Harbor & Sons");
    let issued = desk.issue_for("order 1");
    assert_eq!(desk.server.validate(&issued, "shop.riverbank.example").code(), "ok");
    let jonas = session(JONAS);
    let form = [("revision", "1"), ("reason", "charged back <b>")];
    let suspended = desk.post(&format!("/licenses/{sold}/suspend"), &jonas, &form);
    assert_eq!(suspended.status, 303, "{}", suspended.text());
    run(
        &desk.instance,
        &["license", "renew", &issued.id, "--expires", "2031-01-31"],
    );
    let people = desk.get("/changes", &jonas).text();
    let at = |page: &str, text: &str| page.find(text).unwrap_or_else(|| panic!("{text}: {page}"));
    let renewed = at(&people, "Shortened to 31 Jan 2031");
    let suspended = at(&people, "Suspended");
    assert!(
        renewed < suspended && suspended < at(&people, ">Issued"),
        "the newest first: {people}"
    );
    for shown in [
        "Jonas Berg",
        "charged back &#60;b&#62;",
        "Harbor &#38; Sons",
        "token shop",
        "operator cli",
    ] {
        at(&people, shown);
    }
    assert!(
        !people.contains("riverbank") && !people.contains("shop stripe"),
        "{people}"
    );
    let anyone = desk.get("/changes?by=anyone", &jonas).text();
    for shown in ["shop.riverbank.example bound", "shop stripe", "Suspended"] {
        at(&anyone, shown);
    }
    let mira = desk.get("/changes?by=anyone", &session(MIRA)).text();
    assert!(!mira.contains("charged back") && mira.contains("Suspended"), "{mira}");
    assert!(!mira.contains("office1@"), "{mira}");

    let listed = stdout_json(&desk.instance, &["changes", "--limit", "1"]);
    let renewed = &listed["changes"][0];
    assert_eq!(renewed["license"], json!(issued.id), "{listed}");
    let older = listed["older"].to_string();
    let older = stdout_json(&desk.instance, &["changes", "--before", &older]);
    let suspended = &older["changes"][0];
    assert_eq!(
        (&suspended["event"], &suspended["who"], &suspended["license"]),
        (&json!("suspended"), &json!("Jonas Berg"), &json!(sold)),
        "{older}"
    );
    assert_eq!(older["older"], Value::Null);
    let day = &renewed["time"].as_str().unwrap()[..10];
    let of_day = |day: &str| stdout_json(&desk.instance, &["changes", "--day", day])["changes"].clone();
    assert!(of_day(day).as_array().unwrap().contains(renewed), "{listed}");
    assert_eq!(of_day("2020-01-31"), json!([]));
    let shown = desk.get(&format!("/changes?day={day}"), &jonas).text();
    at(&shown, "Shortened to 31 Jan 2031");
    at(&shown, &format!("href=\"/changes?by=anyone&#38;day={day}\""));
    let none = desk.get("/changes?by=anyone&day=2020-01-31", &jonas).text();
    at(&none, "Nothing was changed on that day (UTC).");
    let anyone = stdout_json(&desk.instance, &["changes", "--anyone"]);
    let events: Vec<_> = anyone["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| &change["event"])
        .collect();
    assert!(events.contains(&&json!("bound")), "{anyone}");
}

#[test]
fn a_plugin_shows_its_history_as_a_chart_with_its_table() {
    let desk = Desk::open("");
    let today = Utc::now().date_naive();
    let lines: Vec<DayLine> = (1..200)
        .rev()
        .map(|ago| DayLine {
            day: today - Days::new(ago),
            plugin: "acme-forms".parse().ok(),
            counts: DayCounts {
                sites: [("1.0.0".into(), 100 + ago), ("1.1.0<b>".into(), 7)].into(),
                downloads: 3,
                wordpress: [("6.9".into(), 3)].into(),
                ..DayCounts::default()
            },
        })
        .collect();
    countersign_ledger::append_history(&desk.instance.file("store"), &lines).unwrap();
    let page = desk.get("/plugins/acme-forms?days=30", &session(MIRA)).text();
    for shown in [
        "<b>30 days</b>",
        "href=\"/plugins/acme-forms?days=365\"",
        "aria-label=\"Sites by version over 29 days. 1.0 runs on 94 percent of 108.\"",
        "class=\"area s1\"",
        "<caption>Sites by version</caption>",
        "Yesterday: 0 updates offered, 3 packages sent",
        ">6.9</bdi>",
    ] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    assert!(
        !page.contains("style=") && !page.contains("<b>\"") && !page.contains("1.1.0<b>"),
        "{page}"
    );
    let year = desk.get("/plugins/acme-forms?days=365", &session(MIRA)).text();
    assert!(year.contains("Sites by version over 199 days"), "{year}");
    let today = desk.get("/", &session(MIRA)).text();
    assert!(
        today.contains("Yesterday: 0 updates offered, 3 packages sent"),
        "{today}"
    );
}

#[test]
fn today_shows_the_licenses_of_each_week_and_the_sites_of_the_plugin_with_the_most() {
    let desk = Desk::open("");
    let today = Utc::now().date_naive();
    let line = |ago, plugin: Option<&str>, counts| DayLine {
        day: today - Days::new(ago),
        plugin: plugin.map(|slug| slug.parse().unwrap()),
        counts,
    };
    let mut lines = Vec::new();
    for ago in (1..60).rev() {
        let counts = DayCounts {
            sold: 2,
            renewed: 3,
            ended: 1,
            ..DayCounts::default()
        };
        lines.push(line(ago, None, counts.clone()));
        let sites = [("1.1.0".into(), 90 + ago)].into();
        lines.push(line(ago, Some("acme-forms"), DayCounts { sites, ..counts }));
        let gone = [("9.0.0".into(), 5_000)].into();
        lines.push(line(
            ago,
            Some("left-the-registry"),
            DayCounts {
                sites: gone,
                ..DayCounts::default()
            },
        ));
    }
    countersign_ledger::append_history(&desk.instance.file("store"), &lines).unwrap();
    desk.issue(&[]);
    // What another system sold is none of the licenses sold today.
    let rows = format!(
        "key,expires,status,sites,modules\n7f3c2a10-5b6d-4e8f-9a1b-000000000001,{},active,1,forms\n",
        today + Months::new(12)
    );
    desk.instance.write("rows.csv", &rows);
    let rows = desk.instance.file("rows.csv");
    run(
        &desk.instance,
        &["license", "import", rows.to_str().unwrap(), "--from", "csv"],
    );
    let page = desk.get("/", &session(MIRA)).text();
    let of_week = |of_day| u64::from(today.weekday().num_days_from_monday()) * of_day;
    let monday = today - Days::new(of_week(1));
    let now = format!("This week {} sold and {} renewed so far.", of_week(2) + 1, of_week(3));
    let row = |day: chrono::NaiveDate, counts: [u64; 3]| {
        let cells = counts.map(|count| format!("<td role=\"cell\" class=\"num\">{count}</td>"));
        format!("{}</th>{}</tr>", day.format("%-d %b %Y"), cells.concat())
    };
    for shown in [
        &*now,
        "<span class=\"hint\">each week</span>",
        &row(monday, [of_week(2) + 1, of_week(3), of_week(1)]),
        &row(monday - Days::new(7), [14, 21, 7]),
        "<path class=\"s2\" d=\"M",
        ">Week of</th>",
        "<bdi>acme-forms</bdi>, sites by version</h2>",
        "acme-forms, sites by version over 59 days. 1.1 runs on 100 percent of 91.",
    ] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    assert!(!page.contains("style=") && !page.contains("5,000"), "{page}");
}

#[test]
fn the_desk_says_what_to_write_to_take_a_release_back_and_what_happens_then() {
    let desk = Desk::open("");
    let entry = |more: &str| {
        let entry = format!(
            "module = \"forms\"\nrepository = \"../../src\"\ndownload_url = \"https://dl.example/{{version}}.zip\"\n{more}"
        );
        desk.instance.write("registry/plugins/acme-forms.toml", &entry);
    };
    entry("");
    desk.instance
        .publish_all("releases", "1.3.0", &[("1.3.0", true), ("1.2.0", false)]);
    let shows = |path: &str, texts: &[&str]| {
        let mut page = String::new();
        for text in texts {
            eventually(text, || {
                page = desk.get(&format!("/plugins/acme-forms{path}"), &session(MIRA)).text();
                page.contains(text)
            });
        }
        page
    };
    let license = desk.issue_for("order 1");
    assert_eq!(desk.server.validate(&license, "a.example").code(), "ok");
    let query = format!("license_key={}&site_url=a.example&current_version=1.3.0", license.key);
    let asked = request(
        desk.server.address,
        "GET",
        &format!("/api/v1/updates/acme-forms?{query}"),
        &[],
        &[],
    );
    assert_eq!(asked.status, 200, "{}", asked.text());
    shows("", &["href=\"/plugins/acme-forms/withhold\""]);
    shows(
        "/withhold",
        &[
            "<h1><bdi>Take acme-forms 1.3.0 back?</bdi></h1>",
            "No site is offered 1.3.0 any more; 1.2.0 is the latest again.",
            "1 site said in 30 days that it runs 1.3.0. A site that has it keeps it.",
            "It is a security release: sites that lack it stay open",
            "<code>withhold = [&#34;1.3.0&#34;]</code>",
            "<code>countersign build --plugin acme-forms</code>",
        ],
    );
    let before = "1.2.0 any more; 1.3.0 stays the latest.";
    let older = shows(
        "/withhold?version=1.2.0",
        &[before, "No site said in 30 days that it runs 1.2.0."],
    );
    assert!(
        !older.contains("<form class=\"fields\"") && !older.contains("method=\"post\" action=\"/plugins"),
        "{older}"
    );
    let before = fs::read(desk.instance.file("registry/plugins/acme-forms.toml")).unwrap();
    assert_eq!(
        desk.post("/plugins/acme-forms/withhold", &session(ANNA), &[("version", "1.3.0")])
            .status,
        404
    );
    assert_eq!(
        fs::read(desk.instance.file("registry/plugins/acme-forms.toml")).unwrap(),
        before
    );
    for unknown in ["9.9.9", "%3Cb%3E"] {
        let path = format!("/plugins/acme-forms/withhold?version={unknown}");
        assert_eq!(desk.get(&path, &session(MIRA)).status, 404, "{unknown}");
    }
    entry("withhold = [\"1.3.0\"]\n");
    shows(
        "/withhold?version=1.3.0",
        &[
            "acme-forms 1.3.0 is withheld",
            "The entry withholds it, and no build took it away yet",
        ],
    );
    shows(
        "/withhold?version=1.2.0",
        &["withhold = [&#34;1.3.0&#34;, &#34;1.2.0&#34;]", "in place of the line"],
    );
    desk.instance.publish_all("releases", "1.2.0", &[("1.2.0", false)]);
    shows("/withhold?version=1.3.0", &["How to publish it after all"]);
}

#[test]
fn people_pause_a_rollout_on_the_page_of_its_plugin() {
    let desk = Desk::open("");
    let entry = "module = \"forms\"\nrepository = \"../../src\"\ndownload_url = \"https://dl.example/{version}.zip\"\n\
                 [rollout]\nsteps = [\"0h 2%\", \"72h 100%\"]\n";
    desk.instance.write("registry/plugins/acme-forms.toml", entry);
    let page = |who| desk.get("/plugins/acme-forms", &session(who)).text();
    let shows = |text: &str| {
        eventually("the page shows it", || page(ANNA).contains(text));
    };
    shows(">for everyone</span>");
    desk.instance
        .publish_all("releases", "1.3.0", &[("1.3.0", false), ("1.2.0", false)]);
    shows(">at 2 %</span>");
    assert!(page(ANNA).contains("For everyone now") && !page(JONAS).contains("For everyone now"));
    assert!(page(JONAS).contains(">Pause</button>") && !page(MIRA).contains("<form class=\"fields\""));
    let post = |step: &str, who, fields: &[(&str, &str)]| {
        let answer = desk.post(&format!("/plugins/acme-forms/{step}"), &session(who), fields);
        (answer.status, location(&answer).to_owned())
    };
    let version = ("version", "1.3.0");
    let back = (303, "/plugins/acme-forms".to_owned());
    assert_eq!(post("pause", JONAS, &[version]).0, 422, "without a reason");
    assert_eq!(post("pause", JONAS, &[version, ("reason", "<b>tickets</b>")]), back);
    let paused = page(MIRA);
    for shown in [">paused at 2 %</span>", "Jonas", "&#60;b&#62;tickets&#60;/b&#62;"] {
        assert!(paused.contains(shown), "{shown}: {paused}");
    }
    let list = || desk.get("/plugins", &session(MIRA)).text();
    assert!(list().contains(">1.3.0 paused at 2 %</span>"), "{}", list());
    assert_eq!(post("pause", JONAS, &[version, ("reason", "again")]).0, 422);
    assert_eq!(post("resume", JONAS, &[version]), back);
    assert_eq!(post("finish", JONAS, &[version, ("reason", "all is well")]).0, 403);
    assert_eq!(post("finish", ANNA, &[version, ("reason", "all is well")]), back);
    assert!(!page(ANNA).contains(">at 2 %</span>"));
    assert!(list().contains(">for everyone</span>"), "{}", list());
    // The server began it, and no site.
    let changes = desk.get("/changes?by=anyone", &session(ANNA)).text();
    let started = changes.split("acme-forms 1.3.0 started").nth(1).unwrap();
    let by = started.split("<bdi>").nth(1).unwrap();
    assert!(by.starts_with("the server</bdi>"), "{changes}");
}

#[test]
fn a_long_list_has_pages_of_fifty() {
    let tables: Vec<_> = (0..70).map(|_| License::new()).collect();
    let instance = Instance::issuing(&tables.iter().map(|license| license.toml("")).collect::<Vec<_>>());
    let desk = Desk::with(instance, "");
    let newest = desk.issue(&[]);
    let mira = session(MIRA);
    let ids = |page: &str| -> Vec<String> {
        let links = page.split("href=\"/licenses/").skip(1);
        links.map(|link| link.split('"').next().unwrap().to_owned()).collect()
    };
    let first = desk.get("/licenses", &mira).text();
    assert!(first.contains("71 licenses"), "{first}");
    let older = first
        .split("rel=\"next\" href=\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    let second = desk
        .get(&older.replace("&#38;", "&").replace("&amp;", "&"), &mira)
        .text();
    let first = ids(&first);
    let second = ids(&second);
    assert_eq!((first.len(), second.len(), &first[0]), (50, 21, &newest));
    let mut all = [first, second].concat();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 71);
}

#[test]
fn a_desk_that_others_could_reach_or_that_has_no_keys_does_not_start() {
    let instance = Instance::issuing(&[]);
    let started = |config: &str| {
        instance.write("countersign.toml", config);
        let output = countersign(&instance)
            .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "off"])
            .output()
            .unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let open = started("[desk]\nlisten = \"0.0.0.0:0\"\n");
    assert!(
        open.contains("[desk] listen = \"0.0.0.0:0\" lets other machines in without TLS"),
        "{open}"
    );
    let http = started("[desk]\nurl = \"http://desk.example.com\"\n");
    assert!(
        http.contains("countersign.toml:2:7: expected an https address"),
        "{http}"
    );
    let unknown = started("[desk]\nhost = \"x\"\n");
    assert!(unknown.contains("unknown setting \"host\""), "{unknown}");
    fs::remove_file(instance.file("keys/references.key")).unwrap();
    fs::remove_file(instance.file("keys/issuing.key")).unwrap();
    let keyless = started("[desk]\nlisten = \"127.0.0.1:0\"\n");
    assert!(
        keyless.contains("[desk] needs the keys for issuing and references"),
        "{keyless}"
    );
    // Without a desk, the command says so.
    instance.write("countersign.toml", "");
    let _server = Server::start(&instance);
    let none = countersign(&instance).arg("desk").output().unwrap();
    assert_eq!(none.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&none.stderr).contains("this server has no desk"));
}

#[test]
fn a_mistake_in_the_list_of_people_is_found_with_its_place() {
    let instance = Instance::issuing(&[]);
    instance.write(
        "registry/desk.toml",
        "[[person]]\nname = 'A'\naddress = 'anna'\nrole = 'boss'\n",
    );
    let output = countersign(&instance).arg("doctor").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("desk.toml:3:11: \"address\" is not a customer's address"),
        "{text}"
    );
    assert!(text.contains("desk.toml:4:8: \"role\" is not a role"), "{text}");
}

#[test]
fn a_person_who_is_signed_out_everywhere_is_so_after_a_restart_and_signs_in_again() {
    let desk = Desk::open("");
    let number = |address: &str| {
        let mac = key().desk_mac(&[b"desk person 1\0", address.as_bytes()]);
        mac[..16].iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let anna = session(ANNA);
    let of_jonas = key().desk_mac(&[b"desk person 1\0", JONAS.as_bytes()]);
    let of_jonas = [b"p", &of_jonas[..16]].concat();
    let old = [1, 2].map(|id| cookie(&key(), id, 1, &of_jonas));
    let page = desk.get("/people", &anna).text();
    for address in [ANNA, JONAS, MIRA] {
        assert!(
            page.contains(&format!("/people/{}/sign-out", number(address))),
            "{page}"
        );
    }
    assert!(
        !desk
            .get("/people", &old[0])
            .text()
            .contains("/sign-out\"><button class=\"btn small\">Sign out every")
    );
    let path = format!("/people/{}/sign-out", number(JONAS));
    assert_eq!(desk.post(&path, &old[0], &[]).status, 403);
    assert_eq!(desk.get("/", &old[0]).status, 200);
    let done = desk.post(&path, &anna, &[]);
    assert_eq!((done.status, location(&done)), (303, "/people"));
    for cookie in &old {
        assert_eq!(location(&desk.get("/", cookie)), "/sign-in");
    }
    assert_eq!(desk.get("/", &anna).status, 200, "others stay");
    let desk = desk.restart();
    assert_eq!(location(&desk.get("/", &old[1])), "/sign-in");
    // A session counts by the second in which it began.
    let new = || cookie(&key(), 3, 0, &of_jonas);
    eventually("Jonas signs in again", || desk.get("/", &new()).status == 200);
    // Links of the command are one row.
    let of_operator = cookie(&key(), 4, 1, b"oanna");
    assert_eq!(desk.get("/", &of_operator).status, 200);
    let page = desk.get("/people", &anna).text();
    let path = page.rsplit("action=\"").next().unwrap().split('"').next().unwrap();
    assert_eq!(desk.post(path, &anna, &[]).status, 303);
    assert_eq!(location(&desk.get("/", &of_operator)), "/sign-in");
    assert_eq!(desk.get("/", &new()).status, 200);
}
