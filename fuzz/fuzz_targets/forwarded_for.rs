//! Any `X-Forwarded-For`: the first byte is the number of proxies, each line a header. The entries of our own proxies
//! are trusted whatever is before them, text or not; otherwise the client is the peer or an address in the entry that
//! counts.
#![no_main]

use std::net::IpAddr;

use countersign::serve::net::client_ip::Proxies;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use libfuzzer_sys::fuzz_target;

const NAME: HeaderName = HeaderName::from_static("x-forwarded-for");

fn headers<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> HeaderMap {
    values
        .into_iter()
        .filter_map(|value| Some((NAME, HeaderValue::from_bytes(value).ok()?)))
        .collect()
}

/// What a request says after `hops` proxies that each append whom it came from to the last line.
fn passed_on(sent: &HeaderMap, client: IpAddr, hops: usize) -> HeaderMap {
    let mut lines: Vec<Vec<u8>> = sent.values().map(|value| value.as_bytes().to_vec()).collect();
    let proxies = (2..=hops).map(|number| format!("10.0.0.{number}"));
    for address in [client.to_string()].into_iter().chain(proxies) {
        match lines.last_mut() {
            Some(last) => last.extend(format!(", {address}").bytes()),
            None => lines.push(address.into_bytes()),
        }
    }
    headers(lines.iter().map(Vec::as_slice))
}

fuzz_target!(|input: &[u8]| {
    let Some((&first, rest)) = input.split_first() else {
        return;
    };
    let hops = usize::from(first % 4) + 1;
    let proxies = Proxies {
        networks: vec!["10.0.0.0/8".parse().unwrap()],
        hops,
    };
    let stranger = IpAddr::from([192, 0, 2, 1]);
    let proxy = IpAddr::from([10, 0, 0, 1]);
    let lines = || rest.split(|&byte| byte == b'\n');
    let sent = headers(lines());
    assert_eq!(proxies.client(stranger, &sent), stranger, "nobody else is believed");
    assert_eq!(
        proxies.client(proxy, &passed_on(&sent, stranger, hops)),
        stranger,
        "our own proxies are"
    );

    let client = proxies.client(proxy, &sent);
    let values: Vec<&[u8]> = sent.values().map(HeaderValue::as_bytes).collect();
    let joined = values.join(&b',');
    let counts = joined
        .rsplit(|&byte| byte == b',')
        .nth(hops - 1)
        .filter(|_| !values.is_empty());
    if client != proxy {
        let entry = std::str::from_utf8(counts.expect("as many entries as proxies"))
            .expect("an address is text")
            .trim();
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
