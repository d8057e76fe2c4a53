//! Any `X-Forwarded-For`: the first byte says behind how many proxies, each line is a header. The client is the peer or
//! an address in the entry that counts, and what a client puts in front changes nothing.
#![no_main]

use std::net::IpAddr;

use countersign::serve::client::Proxies;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use libfuzzer_sys::fuzz_target;

const NAME: HeaderName = HeaderName::from_static("x-forwarded-for");

fn headers<'a>(values: impl Iterator<Item = &'a [u8]>) -> HeaderMap {
    values.filter_map(|value| Some((NAME, HeaderValue::from_bytes(value).ok()?))).collect()
}

fuzz_target!(|input: &[u8]| {
    let Some((&first, rest)) = input.split_first() else { return };
    let hops = usize::from(first % 4) + 1;
    let proxies = Proxies { networks: vec!["10.0.0.0/8".parse().unwrap()], hops };
    let (stranger, proxy) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([10, 0, 0, 1]));
    let lines = || rest.split(|&byte| byte == b'\n');
    let sent = headers(lines());
    assert_eq!(proxies.client(stranger, &sent), stranger, "nobody else is believed");

    let client = proxies.client(proxy, &sent);
    let readable: Vec<&str> = sent.values().filter_map(|value| value.to_str().ok()).collect();
    let joined = readable.join(",");
    let counts = joined.rsplit(',').nth(hops - 1).filter(|_| !readable.is_empty());
    if client != proxy {
        let entry = counts.expect("as many entries as proxies").trim();
        let port = |end: &str| end.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
        let bare = entry.trim_start_matches('[');
        let ends = bare.rmatch_indices([']', ':']).map(|(at, _)| bare.split_at(at));
        let written = [(bare, "")].into_iter().chain(ends).any(|(address, end)| {
            let end = end.trim_start_matches(']');
            address.parse::<IpAddr>() == Ok(client) && (end.is_empty() || port(end))
        });
        assert!(written, "{client} is not what {entry:?} says");
    }
    if counts.is_some() {
        let invented = headers([&b"6.6.6.6, 10.0.0.1"[..]].into_iter().chain(lines()));
        assert_eq!(proxies.client(proxy, &invented), client, "what a client puts in front");
    }
});
