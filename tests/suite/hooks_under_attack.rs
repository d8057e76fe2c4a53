//! Strangers at the shops' door: who sends slowly or unsigned stops no shop, and is limited.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use crate::support::http::Client;
use crate::support::{Instance, Server, request};

const SECRET: &str = "whsec_CANARY_of_the_hook";

fn with_shops() -> Instance {
    let instance = Instance::new();
    let shops = "[shops.lemonsqueezy]\n[shops.own-store]\nkind = \"woocommerce\"\n";
    instance.write("countersign.toml", shops);
    instance.write_secret("keys/shops/lemonsqueezy.secret", SECRET);
    instance.write_secret("keys/shops/own-store.secret", SECRET);
    instance
}

/// The hex HMAC that Lemon Squeezy sends.
fn sign(body: &[u8]) -> String {
    let mac = <Hmac<Sha256> as hmac::Mac>::new_from_slice(SECRET.as_bytes()).unwrap();
    const_hex::encode(mac.chain_update(body).finalize().into_bytes())
}

/// A slow body has three seconds, and those of the strangers are half a second old. A shop that waited for one of them would be answered later
/// than this each time; on a busy machine one of [`TRIES`] is sooner.
const AT_ONCE: Duration = Duration::from_secs(2);
const TRIES: usize = 5;

/// A connection from another address of this machine.
fn connect_from(source: [u8; 4], server: &Server) -> Client {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddr::from((source, 0))).unwrap();
    connect(&socket, &server.address).unwrap();
    Client::over(TcpStream::from(socket)).unwrap()
}

#[test]
fn a_shop_is_answered_though_a_stranger_sends_many_slow_bodies() {
    let instance = with_shops();
    let wrong = "0".repeat(64);
    let head = format!(
        "POST /hooks/lemonsqueezy HTTP/1.1\r\nHost: t\r\nX-Signature: {wrong}\r\nContent-Length: 1000\r\n\r\n{{\"meta\""
    );
    let is_at_once = (0..TRIES).any(|_| {
        // The time of a request is far away, so that it is not what ends a body.
        let server = Server::start_with(&instance, &["--request-timeout-seconds", "60"]);
        let stranger = || {
            let mut client = Client::connect(server.address);
            client.send(head.as_bytes()).unwrap();
            client
        };
        let mut first = stranger();
        // So that it is among those whose body is received: the others wait for their turn, in any order.
        std::thread::sleep(Duration::from_millis(500));
        let _others: Vec<_> = (1..150).map(|_| stranger()).collect();
        let started = Instant::now();
        let body = b"{\"meta\":{}}";
        let mut shop = connect_from([127, 0, 0, 2], &server);
        let signature = sign(body);
        let answer = shop.request(
            "POST",
            "/hooks/lemonsqueezy",
            &[("X-Signature", signature.as_str())],
            body,
        );
        let took = started.elapsed();
        assert_eq!(answer.status, 200, "{}", server.log());
        assert_eq!(first.receive().unwrap().status, 408, "a body has its time");
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "took {:?}",
            started.elapsed()
        );
        took < AT_ONCE
    });
    assert!(is_at_once, "the shop waits for the stranger");
}

#[test]
fn a_shop_is_answered_though_a_stranger_of_its_own_address_sends_slow_bodies() {
    let instance = with_shops();
    let server = Server::start(&instance);
    let wrong = "0".repeat(64);
    for announced in [
        "Content-Length: 1000",
        "Content-Length: 1000000",
        "Transfer-Encoding: chunked",
    ] {
        let head =
            format!("POST /hooks/lemonsqueezy HTTP/1.1\r\nHost: t\r\nX-Signature: {wrong}\r\n{announced}\r\n\r\n");
        let stranger = |_| {
            let mut client = Client::connect(server.address);
            client.send(head.as_bytes()).unwrap();
            client
        };
        let body = format!("{{\"meta\":\"{announced}\"}}");
        let signature = sign(body.as_bytes());
        let headers = [("X-Signature", signature.as_str())];
        let is_at_once = (0..TRIES).any(|_| {
            let _strangers: Vec<_> = (0..32).map(stranger).collect();
            // So that the server has read their heads.
            std::thread::sleep(Duration::from_millis(500));
            let started = Instant::now();
            let answer = request(server.address, "POST", "/hooks/lemonsqueezy", &headers, body.as_bytes());
            let took = started.elapsed();
            assert_eq!(answer.status, 200, "{}", server.log());
            took < AT_ONCE
        });
        assert!(is_at_once, "{announced}: the shop waits for the stranger");
    }
}

#[test]
fn who_has_no_usable_signature_is_refused_before_the_body() {
    let instance = with_shops();
    let server = Server::start(&instance);
    for (shop, header) in [
        ("lemonsqueezy", ""),
        ("lemonsqueezy", "X-Signature: sha256=none\r\n"),
        ("own-store", "X-WC-Webhook-Signature: ?\r\n"),
        ("own-store", ""),
    ] {
        let mut client = Client::connect(server.address);
        let head = format!("POST /hooks/{shop} HTTP/1.1\r\nHost: t\r\n{header}Content-Length: 1000\r\n\r\n");
        client.send(head.as_bytes()).unwrap();
        // A server that waited for the body would give up with 408.
        assert_eq!(client.receive().unwrap().status, 401, "{shop} {header:?}");
    }
}

#[test]
fn unsigned_pings_have_the_limit_of_their_address_and_what_a_shop_signed_has_none() {
    let instance = with_shops();
    let server = Server::start_with(&instance, &["--requests-per-minute", "30"]);
    let deliver = |number: usize| {
        let body = format!("{{\"meta\":{number}}}");
        let signature = sign(body.as_bytes());
        let headers = [("X-Signature", signature.as_str())];
        request(server.address, "POST", "/hooks/lemonsqueezy", &headers, body.as_bytes()).status
    };
    assert!((0..60).all(|number| deliver(number) == 200), "signed");
    let ping = || request(server.address, "POST", "/hooks/own-store", &[], b"webhook_id=1").status;
    assert_eq!(ping(), 200);
    let statuses: Vec<_> = (0..60).map(|_| ping()).collect();
    assert!(statuses.contains(&429), "{statuses:?}");
}
