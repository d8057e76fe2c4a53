//! The time of a refusal does not tell how much of a secret was right.
//!
//! Over a socket, a comparison that ends at the first wrong byte hides in the noise: it saves nanoseconds. So the
//! comparisons are timed in this process, too, and the sockets show that no secret takes another way through the server.

use std::hint::black_box;
use std::time::{Duration, Instant};

use chrono::Utc;
use countersign_model::download_key::DownloadKey;
use countersign_model::download_link::DownloadLink;
use countersign_model::license_key::LicenseId;
use countersign_model::site_release::ReleaseHash;
use countersign_shops::signature::{self, ShopSecret};
use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use crate::management::Shop;
use crate::support::http::Client;
use crate::support::instance::sha256;

const SECRET: &str = "whsec_of_a_shop_that_is_timed";

/// How often a busy machine may disturb a measurement. What really takes longer does so each time.
const TRIES: usize = 30;

/// Guesses of one secret: a wrong one, one that is wrong in the first digit only, and one that is in the last digit only.
struct Guesses([String; 3]);

impl Guesses {
    fn of(secret: &str, stranger: &str) -> Self {
        let other = |digit: &str| if digit == "0" { "1" } else { "0" };
        let first = [other(&secret[..1]), &secret[1..]].concat();
        let (rest, last) = secret.split_at(secret.len() - 1);
        let last = [rest, other(last)].concat();
        Self([stranger.to_owned(), first, last])
    }
}

/// Runs each work in turn, `rounds` times, and always in another order; the time of each run.
fn interleaved(rounds: usize, mut work: impl FnMut(usize)) -> [Vec<Duration>; 3] {
    let mut times = [const { Vec::new() }; 3];
    for round in 0..rounds {
        for place in 0..3 {
            let which = (round + place) % 3;
            let start = Instant::now();
            work(which);
            times[which].push(start.elapsed());
        }
    }
    times
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Fails if no measurement had times that are close to each other.
#[track_caller]
fn assert_alike(what: &str, bound: impl Fn(Duration) -> Duration, mut measure: impl FnMut() -> [Duration; 3]) {
    let mut seen = Vec::new();
    for _ in 0..TRIES {
        let times = measure();
        let [least, .., most] = {
            let mut sorted = times;
            sorted.sort_unstable();
            sorted
        };
        if most - least <= bound(least) {
            return;
        }
        seen.push(times);
    }
    panic!("{what}: the time tells how much is right: {seen:?}");
}

/// The medians of some thousands of refusals over one connection differ by less than 5 %, or by less than 5 µs.
#[track_caller]
fn assert_refusals_alike(what: &str, client: &mut Client, mut refuse: impl FnMut(&mut Client, usize) -> u16) {
    let status = refuse(client, 0);
    assert!(status >= 400, "{what}: {status}");
    let bound = |least: Duration| (least / 20).max(Duration::from_micros(5));
    assert_alike(what, bound, || {
        interleaved(1_500, |which| assert_eq!(refuse(client, which), status, "{what}")).map(median)
    });
}

fn hex_mac(body: &str) -> String {
    let mac = <Hmac<Sha256> as hmac::Mac>::new_from_slice(SECRET.as_bytes()).unwrap();
    const_hex::encode(mac.chain_update(body).finalize().into_bytes())
}

#[test]
fn a_refusal_takes_as_long_whichever_digit_of_a_token_or_a_signature_is_wrong() {
    let shop = Shop::open(&[]);
    let server = &shop.server;
    let mut client = Client::connect(server.address);

    let token = shop.bearer.trim_start_matches("Bearer cst_");
    let Guesses(tokens) = Guesses::of(token, &sha256("a stranger"));
    let tokens = tokens.map(|token| format!("Bearer cst_{token}"));
    assert_refusals_alike("a token of the API", &mut client, |client, which| {
        let headers = [("Authorization", tokens[which].as_str())];
        client.request("GET", "/api/v1/licenses", &headers, b"").status
    });
}

#[test]
fn a_delivery_is_refused_as_fast_whichever_digit_of_its_signature_is_wrong() {
    let instance = crate::support::Instance::new();
    instance.write("countersign.toml", "[shops.lemonsqueezy]\n");
    instance.write_secret("keys/shops/lemonsqueezy.secret", SECRET);
    let server = crate::support::Server::start(&instance);
    let mut client = Client::connect(server.address);
    let body = "{\"meta\":{}}";
    let Guesses(signatures) = Guesses::of(&hex_mac(body), &sha256("a stranger"));
    assert_refusals_alike("a shop's signature", &mut client, |client, which| {
        let headers = [
            ("Content-Type", "application/json"),
            ("X-Signature", signatures[which].as_str()),
        ];
        client
            .request("POST", "/hooks/lemonsqueezy", &headers, body.as_bytes())
            .status
    });
}

/// The fastest of many batches is the one that nothing disturbed.
#[track_caller]
fn assert_comparisons_alike(what: &str, mut refuse: impl FnMut(usize) -> bool) {
    const BATCH: usize = 200;
    let bound = |least: Duration| least / 50;
    assert_alike(what, bound, || {
        let times = interleaved(300, |which| {
            for _ in 0..BATCH {
                assert!(refuse(black_box(which)), "{what}");
            }
        });
        times.map(|times| times.into_iter().min().unwrap_or_default())
    });
}

#[test]
fn a_comparison_of_a_secret_does_not_end_at_the_first_wrong_byte() {
    let body = "{}";
    let Guesses(signatures) = Guesses::of(&hex_mac(body), &sha256("a stranger"));
    let secrets = [ShopSecret::new(SECRET).unwrap()];
    let now = Utc::now();
    let shop = "lemonsqueezy".parse().unwrap();
    assert_comparisons_alike("a shop's signature", |which| {
        let header = Some(signatures[which].as_str());
        signature::verify(shop, &secrets, header, body.as_bytes(), now).is_err()
    });

    let right = sha256("a secret of a site");
    let Guesses(hashes) = Guesses::of(&right, &sha256("a stranger"));
    let right: ReleaseHash = right.parse().unwrap();
    let hashes: [ReleaseHash; 3] = hashes.map(|hash| hash.parse().unwrap());
    assert_comparisons_alike("a release secret", |which| hashes[which] != black_box(right));

    let key = DownloadKey::new(&[7; 32]);
    let host = "example.com".parse().unwrap();
    let link = DownloadLink::new(&key, &LicenseId::from_bytes([1; 32]), &host, now.date_naive());
    let token = link.token(&key, "acme", "1.0").unwrap();
    // The MAC is the last 16 of 45 bytes; its first byte is that of two characters.
    let changed = |at: usize| {
        let mut changed = token.clone();
        let other = if &token[at..=at] == "A" { "B" } else { "A" };
        changed.replace_range(at..=at, other);
        changed
    };
    let mut stranger = token.clone();
    stranger.replace_range(40.., "AAAAAAAAAAAAAAAAAAAA");
    let tokens = [stranger, changed(39), changed(59)];
    assert_comparisons_alike("a download link", |which| {
        DownloadLink::read(&key, "acme", "1.0", &tokens[which]).is_none()
    });
}
