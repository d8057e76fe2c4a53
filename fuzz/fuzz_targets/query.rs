//! Any query and any `Authorization` (after a line feed) as an update request. Each parameter is what a form decoder
//! finds, and a repeated one is refused.
#![no_main]

use countersign::serve::api::updates;
use countersign::serve::reply::problem::Problem;
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut lines = input.splitn(3, |&byte| byte == b'\n');
    let Ok(query) = std::str::from_utf8(lines.next().unwrap_or_default()) else {
        return;
    };
    let headers: HeaderMap = lines
        .filter_map(|value| Some((AUTHORIZATION, HeaderValue::from_bytes(value).ok()?)))
        .collect();
    let in_header: Vec<&str> = headers
        .values()
        .filter_map(|value| value.to_str().ok()?.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("license"))
        .map(|(_, key)| key.trim())
        .collect();
    let sent = |name: &str| -> Vec<String> {
        let in_header = if name == "license_key" { &in_header[..] } else { &[] };
        let pairs = url::form_urlencoded::parse(query.as_bytes()).filter(|(found, _)| found == name);
        pairs
            .map(|(_, value)| value.into_owned())
            .chain(in_header.iter().map(|key| key.to_string()))
            .collect()
    };
    const NAMES: [&str; 8] = [
        "license_key",
        "site_url",
        "domain",
        "current_version",
        "build_id",
        "channel",
        "holds",
        "wave",
    ];
    match updates::parse(&headers, query) {
        Ok(question) => {
            let updates::UpdateQuestion {
                license_key,
                site_url,
                domain,
                current_version,
                build_id,
                channel,
                holds,
                wave,
            } = question;
            let values = [
                license_key,
                site_url,
                domain,
                current_version,
                build_id,
                channel,
                holds,
                wave,
            ];
            for (name, value) in NAMES.into_iter().zip(values) {
                assert_eq!(sent(name), value.as_deref().into_iter().collect::<Vec<_>>(), "{name}");
            }
        }
        Err(problem) => {
            let Problem::Malformed(detail) = &problem else {
                panic!("{problem:?}")
            };
            let twice = NAMES
                .into_iter()
                .find(|name| *detail == format!("'{name}' is given more than once."));
            assert!(sent(twice.expect("a parameter of ours")).len() > 1);
            assert_eq!(problem.into_response().status, 400);
        }
    }
});
