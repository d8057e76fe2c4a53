//! Any text as a site's address. An accepted host is the one that a browser finds, and is the same for every address
//! of the site; a refusal has its code.
#![no_main]

use countersign_model::site_host::SiteHost;
use libfuzzer_sys::fuzz_target;

const REFUSALS: [&str; 10] = [
    "empty",
    "too_long",
    "bad_character",
    "bad_scheme",
    "no_host",
    "bad_userinfo",
    "bad_port",
    "bad_host",
    "odd_ip",
    "bad_label",
];

fuzz_target!(|text: &str| {
    let host = match text.parse::<SiteHost>() {
        Ok(host) => host,
        Err(refusal) => return assert!(REFUSALS.contains(&refusal.code())),
    };
    for same in [
        format!("{host}"),
        format!("https://{host}/wp?a#b"),
        format!("http://user@{host}:8080"),
        format!("//{host}"),
    ] {
        assert_eq!(same.parse::<SiteHost>().as_ref(), Ok(&host), "{same}");
    }
    let url = url::Url::parse(&format!("https://{host}")).unwrap();
    assert_eq!(url.host_str(), Some(host.as_str()));
});
