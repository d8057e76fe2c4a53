//! PHP with and without cURL: responses are limited in size and in time.

use std::io::Write as _;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::front::{Answer, Front, response};
use super::site::{Core, Site};
use super::vendor::Vendor;
use super::{ACTIVE, HOST, licensed};
use crate::support::eventually;

/// A page that asks waits five seconds, and a slow machine takes its time; what drips goes on for thirty.
const BOUND: Duration = Duration::from_secs(14);

fn endure(mut site: Site, vendor: &Vendor, key: &str) {
    site.install("acme-forms", &vendor.archive("1.0.0"));
    assert_eq!(site.press("acme-forms", "activate", key).notices(), [ACTIVE]);
    let no_answer = "The license server gave no answer that can be trusted. Nothing was lost; please try again later.";

    let bomb = site.file("bomb.gz");
    site.run(&format!(
        "$zeros = gzencode(str_repeat('0', 1000000), 9); $bomb = fopen('{path}', 'w'); $deflate = deflate_init(ZLIB_ENCODING_GZIP); \
         for ($i = 0; $i < 300; $i++) fwrite($bomb, deflate_add($deflate, str_repeat('0', 1000000), ZLIB_NO_FLUSH)); \
         fwrite($bomb, deflate_add($deflate, '', ZLIB_FINISH)); fclose($bomb); \
         file_put_contents('{path}2', gzencode(file_get_contents('{path}')));",
        path = bomb.display()
    ));
    for name in ["bomb.gz", "bomb.gz2"] {
        let body = std::fs::read(site.file(name)).unwrap();
        vendor
            .front
            .answer_with(Answer::Fixed(response(200, &[("Content-Encoding", "gzip")], body)));
        let page = site.press("acme-forms", "check", "");
        assert_eq!(
            (page.status, page.notices()),
            (200, vec![no_answer.to_owned()]),
            "{name}"
        );
    }
    for first in [
        "",
        "HTTP/1.1 200 OK\r\nX-Long: ",
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{",
    ] {
        vendor.front.answer_with(Answer::Drip(first));
        let page = site.press("acme-forms", "check", "");
        assert_eq!(page.notices(), [no_answer], "{first}");
        assert!(page.took < BOUND, "{first}: {:?}", page.took);
    }
    let endless = response(200, &[], "x".repeat(40_000_000));
    vendor.front.answer_with(Answer::Fixed(endless));
    let page = site.press("acme-forms", "check", "");
    assert_eq!(page.notices(), [no_answer]);
    assert!(
        page.text().contains("Last attempt the answer is too large"),
        "{}",
        page.text()
    );

    vendor.front.answer_with(Answer::Forward);
    assert_eq!(site.press("acme-forms", "check", "").notices(), [ACTIVE]);
    vendor.release("1.1.0", |text| text);
    site.check_again();
    let answer = site.update_now();
    assert_eq!(answer["success"], true, "{answer}");
    assert!(site.row().0.contains("Version 1.1.0"));
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn without_curl_neither_a_bomb_nor_a_drip_harms_a_page() {
    let (license, table) = licensed();
    let vendor = Vendor::new(&[table]);
    endure(
        Site::without_curl(Core::Debian, HOST, &vendor.front),
        &vendor,
        &license.key,
    );
    let (license, table) = licensed();
    let vendor = Vendor::new(&[table]);
    endure(
        Site::without_curl(Core::Newest, HOST, &vendor.front),
        &vendor,
        &license.key,
    );
}

#[test]
fn with_curl_neither_a_bomb_nor_a_drip_harms_a_page() {
    let (license, table) = licensed();
    let vendor = Vendor::new(&[table]);
    endure(Site::new(Core::Npm, HOST, &vendor.front), &vendor, &license.key);
}

/// How long a site takes an answer to its validation after the largest one that it takes, at 400 KB a second: the shortest of
/// three times, because a busy machine makes some of them long.
fn taken(mut site: Site, vendor: &Vendor, key: &str) -> Duration {
    site.install("acme-forms", &vendor.archive("1.0.0"));
    assert_eq!(site.press("acme-forms", "activate", key).notices(), [ACTIVE]);
    let took = Arc::new(Mutex::new(None));
    let told = Arc::clone(&took);
    vendor.front.stream("/api/v1/validate-license", move |stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
        stream.write_all(&vec![b'x'; 1 << 20])?;
        let began = Instant::now();
        while stream.write_all(&[b'x'; 4_096]).is_ok() && began.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(10));
        }
        *told.lock().unwrap() = Some(began.elapsed());
        Ok(())
    });
    let mut shortest = Duration::MAX;
    for _ in 0..3 {
        let page = site.press("acme-forms", "check", "");
        assert!(
            page.text().contains("Last attempt the answer is too large"),
            "{}",
            page.text()
        );
        eventually("the site is gone", || took.lock().unwrap().is_some());
        let one = took.lock().unwrap().take().unwrap();
        shortest = shortest.min(one);
    }
    shortest
}

#[test]
fn the_transfer_of_an_answer_ends_where_it_is_too_large() {
    let sites: [fn(&Front) -> Site; 3] = [
        |front| Site::new(Core::Debian, HOST, front),
        |front| Site::new(Core::Newest, HOST, front),
        |front| Site::without_curl(Core::Newest, HOST, front),
    ];
    for (number, site) in sites.into_iter().enumerate() {
        let (license, table) = licensed();
        let vendor = Vendor::new(&[table]);
        let took = taken(site(&vendor.front), &vendor, &license.key);
        // The client waits for an answer for five seconds.
        assert!(took < Duration::from_millis(3_500), "{number}: {took:?}");
    }
}

#[test]
fn without_curl_a_body_that_comes_after_its_headers_is_read() {
    for core in [Core::Debian, Core::Newest] {
        let (license, table) = licensed();
        let vendor = Vendor::new(&[table]);
        let mut site = Site::without_curl(core, HOST, &vendor.front);
        site.install("acme-forms", &vendor.archive("1.0.0"));
        vendor.front.answer_in_pieces();
        assert_eq!(site.press("acme-forms", "activate", &license.key).notices(), [ACTIVE]);
        vendor.release("1.1.0", |text| text);
        site.check_again();
        let answer = site.update_now();
        assert_eq!(answer["success"], true, "{answer}");
        assert!(site.row().0.contains("Version 1.1.0"));
        assert_eq!(site.complaints(), [""; 0]);
    }
}
