//! Paddle's deliveries name only the customer: the server asks Paddle for the address.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::json;

use super::seller::{SMALL, Seller, ShopEvent, ShopSale, with_sellers};
use crate::deliveries::{Issued, Shop, day, mails};
use crate::support::server::countersign;
use crate::support::shop::BUYER;
use crate::support::stored::files_in;
use crate::support::{eventually, eventually_within};

const KEY: &str = "pdl_live_apikey_CANARY";
const KEY_FILE: &str = "keys/shops/paddle.api-key";
/// What a shop's interface answers now, and what it was asked.
#[derive(Default)]
struct Dialog {
    /// Answers to questions whose line has such a text, before the one for all.
    at: Vec<(String, u16, String)>,
    status: u16,
    body: String,
    asked: Vec<String>,
    /// Whether it does not answer yet.
    is_silent: bool,
}

/// A shop's interface. It ends with the process of the tests.
pub(super) struct ShopInterface {
    pub(super) address: SocketAddr,
    dialog: Arc<Mutex<Dialog>>,
}

impl ShopInterface {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let customers = Self {
            address: listener.local_addr().unwrap(),
            dialog: Arc::default(),
        };
        let dialog = Arc::clone(&customers.dialog);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let dialog = Arc::clone(&dialog);
                thread::spawn(move || {
                    let _ = answer(&stream, &dialog);
                });
            }
        });
        customers
    }

    pub(super) fn answer_at(&self, question: &str, status: u16, body: &str) {
        let answer = (question.to_owned(), status, body.to_owned());
        self.dialog.lock().unwrap().at.insert(0, answer);
    }

    pub(super) fn answer(&self, status: u16, body: &str) {
        let mut dialog = self.dialog.lock().unwrap();
        dialog.status = status;
        dialog.body = body.to_owned();
    }

    fn be_silent(&self, is_silent: bool) {
        self.dialog.lock().unwrap().is_silent = is_silent;
    }

    pub(super) fn asked(&self) -> Vec<String> {
        self.dialog.lock().unwrap().asked.clone()
    }
}

fn is_shown(header: &str) -> bool {
    header.starts_with("authorization:") || header.starts_with("stripe-version:")
}

/// Reads one request, and answers as the dialog says.
fn answer(mut stream: &TcpStream, dialog: &Mutex<Dialog>) -> std::io::Result<()> {
    let mut asked = Vec::new();
    for line in BufReader::new(stream).lines() {
        let line = line?;
        if line.is_empty() {
            break;
        }
        if line.starts_with("GET ") || is_shown(&line.to_ascii_lowercase()) {
            asked.push(line);
        }
    }
    let question = asked.first().cloned().unwrap_or_default();
    dialog.lock().unwrap().asked.push(asked.join(" | "));
    while dialog.lock().unwrap().is_silent {
        thread::sleep(Duration::from_millis(10));
    }
    let dialog = dialog.lock().unwrap();
    let mut at = dialog.at.iter();
    let (status, body) = at
        .find(|(part, ..)| question.contains(part.as_str()))
        .map_or((dialog.status, &dialog.body), |(_, status, body)| (*status, body));
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status} Said\r\nContent-Length: {length}\r\nLocation: http://127.0.0.1:1/\r\n\r\n{body}"
    )
}

/// A shop at Paddle, and mails that wait because nobody takes them.
fn open(customers: &ShopInterface) -> Shop {
    let instance = with_sellers("");
    let settings = format!(
        "[shops.stripe]\n[shops.paddle]\napi_key_file = '{KEY_FILE}'\napi_url = 'http://{}/'\n\
         [mail]\nserver = '127.0.0.1'\nport = 1\ntls = 'none'\nfrom = 'licenses@acme.example'\n",
        customers.address
    );
    instance.write("countersign.toml", &settings);
    instance.write_secret(KEY_FILE, &format!("{KEY}\n"));
    Shop::of(instance)
}

fn deliver(shop: &Shop, number: u32, event: ShopEvent, second: u32) {
    let sale = ShopSale::new(Seller::Paddle, number);
    for body in sale.bodies(event, second) {
        assert_eq!(sale.seller.deliver(&shop.server, &body), 200);
    }
}

fn customer(number: u32) -> String {
    json!({ "data": { "id": format!("ctm_{number}"), "email": BUYER, "name": "CANARY Jane" } }).to_string()
}

#[test]
fn the_key_is_mailed_to_the_address_that_paddle_tells() {
    let customers = ShopInterface::start();
    let shop = open(&customers);
    customers.answer(200, &customer(1));
    deliver(&shop, 1, ShopEvent::Sold(SMALL, 2, 30), 1);
    shop.settle();
    let expected = format!("GET /customers/ctm_1 HTTP/1.1 | authorization: Bearer {KEY}");
    assert_eq!(customers.asked(), [expected]);
    let licenses = shop.licenses();
    let ids: Vec<_> = licenses
        .iter()
        .map(|license| license.line["license"].as_str().unwrap())
        .collect();
    assert_eq!(
        mails(&shop),
        [(
            BUYER.to_owned(),
            ids.iter().map(ToString::to_string).collect::<Vec<_>>()
        )]
    );

    // What is paid, changed or repeated asks nobody.
    customers.answer(500, "");
    deliver(&shop, 1, ShopEvent::Sold(SMALL, 2, 30), 1);
    deliver(&shop, 1, ShopEvent::Paid(SMALL, 30, 60), 2);
    deliver(&shop, 1, ShopEvent::Changed(SMALL, 1, 60), 3);
    shop.settle();
    assert_eq!((customers.asked().len(), mails(&shop).len()), (1, 1));

    // A customer who is not there, or whose address is none: the license is issued, and the log names it.
    for (number, status, body) in [
        (2, 404, json!({ "error": { "code": "entity_not_found" } }).to_string()),
        (
            3,
            200,
            json!({ "data": { "id": "ctm_3", "email": "CANARY" } }).to_string(),
        ),
    ] {
        customers.answer(status, &body);
        deliver(&shop, number, ShopEvent::Sold(SMALL, 1, 30), 1);
        shop.settle();
    }
    assert_eq!((shop.licenses().len(), mails(&shop).len()), (4, 1));
    let log = shop.server.log();
    assert_eq!(log.matches("nobody was sent the keys").count(), 2, "{log}");
    assert!(!log.contains("CANARY"), "{log}");
    for (file, content) in files_in(shop.instance.path()) {
        let text = String::from_utf8_lossy(&content);
        let path = file.strip_prefix(shop.instance.path()).unwrap();
        assert_eq!(text.contains(KEY), path == Path::new(KEY_FILE), "{}", path.display());
        assert!(
            !text.contains(BUYER) || path.starts_with("store/mail") || path == Path::new("store/texts.jsonl"),
            "{}",
            path.display()
        );
    }
}

#[test]
fn a_sale_waits_until_paddle_tells_the_address() {
    let customers = ShopInterface::start();
    let shop = open(&customers);
    for (number, (status, body)) in (1..).zip([
        (403, String::new()),
        // A proxy says so, and not Paddle.
        (404, "<h1>404 Not Found</h1>".to_owned()),
        (302, String::new()),
        // Another customer, and more than is read.
        (200, customer(9)),
        (200, "x".repeat(70_000)),
    ]) {
        let asked = customers.asked().len();
        customers.answer(status, &body);
        deliver(&shop, number, ShopEvent::Sold(SMALL, 1, 30), 1);
        eventually("it was asked", || customers.asked().len() > asked);
        // The log says one reason a minute.
        eventually("the log says why", || shop.server.log().contains(KEY_FILE));
        assert_eq!(
            (shop.licenses().len(), shop.deliveries("waiting").len()),
            (number as usize - 1, 1)
        );
        customers.answer(200, &customer(number));
        shop.settle();
        assert_eq!(
            (shop.licenses().len(), mails(&shop).len()),
            (number as usize, number as usize)
        );
    }
    assert_eq!(shop.deliveries("parked"), [""; 0]);
    assert!(!shop.server.log().contains("CANARY"));
}

#[test]
fn a_paddle_that_does_not_answer_delays_no_other_shop() {
    let customers = ShopInterface::start();
    let shop = open(&customers);
    customers.be_silent(true);
    for number in 1..=4 {
        deliver(&shop, number, ShopEvent::Sold(SMALL, 1, 30), 1);
    }
    eventually("all are asked at once", || customers.asked().len() == 4);
    let sale = ShopSale::new(Seller::Stripe, 5);
    for body in sale.bodies(ShopEvent::Sold(SMALL, 1, 30), 1) {
        assert_eq!(sale.seller.deliver(&shop.server, &body), 200);
    }
    // Sooner than Paddle is given up, which is after ten seconds.
    eventually_within("Stripe's sale is issued", Duration::from_secs(8), || {
        shop.licenses().len() == 1
    });
    customers.be_silent(false);
    for number in 1..=4 {
        customers.answer(200, &customer(number));
        eventually("one more is issued", || shop.licenses().len() == number as usize + 1);
    }
    shop.settle();
    assert_eq!(mails(&shop).len(), 5);
    assert!(!shop.server.log().contains("CANARY"));
}

#[test]
fn copies_that_are_bought_later_are_mailed_once_though_paddle_did_not_answer() {
    let customers = ShopInterface::start();
    let shop = open(&customers);
    customers.answer(200, &customer(1));
    deliver(&shop, 1, ShopEvent::Sold(SMALL, 1, 30), 1);
    shop.settle();
    customers.answer(500, "");
    deliver(&shop, 1, ShopEvent::Changed(SMALL, 3, 30), 2);
    eventually("it was asked", || customers.asked().len() > 1);
    deliver(&shop, 1, ShopEvent::Changed(SMALL, 2, 30), 3);
    // What needs no address does not wait.
    let paid = ShopSale::new(Seller::Paddle, 1)
        .bodies(ShopEvent::Paid(SMALL, 30, 60), 4)
        .remove(0);
    assert_eq!(Seller::Paddle.deliver(&shop.server, &paid), 200);
    eventually("the renewal is applied", || {
        shop.licenses()[0].line["expires"] == json!(day(60))
    });
    assert_eq!((shop.licenses().len(), mails(&shop).len()), (1, 1));
    customers.answer(200, &customer(1));
    shop.settle();
    let licenses = shop.licenses();
    let id = |license: &Issued| license.line["license"].as_str().unwrap().to_owned();
    let mut issued: Vec<_> = licenses.iter().map(id).collect();
    let mut mailed: Vec<_> = mails(&shop).into_iter().flat_map(|(_, licenses)| licenses).collect();
    issued.sort_unstable();
    mailed.sort_unstable();
    // The newer change sells two.
    assert_eq!((issued.len(), mailed), (2, issued));
    assert!(licenses.iter().all(|license| license.line["status"] == "active"));
}

#[test]
fn a_server_does_not_start_with_an_api_key_that_others_can_read() {
    let customers = ShopInterface::start();
    let instance = with_sellers("");
    let settings = format!(
        "[shops.paddle]\napi_key_file = 'key'\napi_url = 'http://{}/'\n",
        customers.address
    );
    instance.write("countersign.toml", &settings);
    let refused = |expected: &str| {
        let output = countersign(&instance).arg("serve").output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains("hint: "), "{error}");
        assert!(error.contains(expected) && !error.contains("CANARY"), "{error}");
    };
    refused("there is no API key of this shop");
    instance.write_secret("key", "two words CANARY");
    refused("not the API key of this shop");
    instance.write_secret("key", KEY);
    std::fs::set_permissions(instance.file("key"), std::fs::Permissions::from_mode(0o644)).unwrap();
    refused("others can read");
}
