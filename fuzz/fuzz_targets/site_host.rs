//! Any text as a site's address. Whatever comes out is what a browser takes for the host, and reads back as itself.
#![no_main]

use countersign::model::site_host::SiteHost;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(host) = text.parse::<SiteHost>() else { return };
    assert_eq!(host.as_str().parse::<SiteHost>().as_ref(), Ok(&host));
    let url = url::Url::parse(&format!("https://{host}")).unwrap();
    assert_eq!(url.host_str(), Some(host.as_str()));
});
