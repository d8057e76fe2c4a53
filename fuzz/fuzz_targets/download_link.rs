//! Any path as a link's, and any text as its token. What is read is what was made, for this plugin, version and key alone.
#![no_main]

use countersign::serve::api::downloads::LinkPath;
use countersign_model::download_key::DownloadKey;
use countersign_model::download_link::{DownloadLink, TOKEN_LENGTH};
use countersign_model::first_copy_link::{self, FirstCopyLink};
use countersign_model::license_key::LicenseId;
use countersign_model::release_rules::VersionLine;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let key = DownloadKey::new(&[7; 32]);
    if let Some(path) = LinkPath::parse(text) {
        let slug = path.slug.as_str();
        let version = path.version.as_str();
        assert_eq!(text, format!("{slug}/{version}/{}/{slug}-{version}.zip", path.token));
        assert_eq!(
            DownloadLink::read(&key, slug, version, path.token),
            None,
            "nobody guesses a MAC"
        );
    }
    assert_eq!(FirstCopyLink::read(&key, text), None, "nobody guesses a MAC");
    assert!(first_copy_link::redact(text).len() <= text.len());
    // Any text is also a license, a day, and how a token is spoilt.
    let sum = |from: usize| text.bytes().skip(from).step_by(32).fold(0, u8::wrapping_add);
    let license = LicenseId::from_bytes(std::array::from_fn(sum));
    let day = chrono::NaiveDate::from_num_days_from_ce_opt(739_000 + text.len() as i32 * i32::from(sum(0)));
    let Some(day) = day else { return };
    let host = "example.com".parse().unwrap();
    let lines = [
        None,
        Some(VersionLine::Minor),
        Some(VersionLine::Major),
        Some(VersionLine::All),
    ];
    let line = lines[text.len() % lines.len()];
    let link = DownloadLink::new(&key, &license, &host, day).of_line(line);
    let Some(token) = link.token(&key, "acme", "1.0") else {
        return;
    };
    assert_eq!(token.len(), TOKEN_LENGTH);
    assert_eq!(DownloadLink::read(&key, "acme", "1.0", &token), Some(link));
    assert_eq!(FirstCopyLink::read(&key, &token), None);
    let first = FirstCopyLink::new(&license, day);
    if let Some(token) = first.token(&key) {
        assert_eq!(FirstCopyLink::read(&key, &token), Some(first));
        assert_eq!(DownloadLink::read(&key, "acme", "1.0", &token), None);
        assert!(!first_copy_link::redact(&format!("{text}{token}{text}")).contains(&token));
    }
    for (at, letter) in text.char_indices().take(TOKEN_LENGTH) {
        let mut spoilt = token.clone();
        let at = at % TOKEN_LENGTH;
        spoilt.replace_range(at..=at, &letter.to_string());
        if spoilt != token {
            assert_eq!(DownloadLink::read(&key, "acme", "1.0", &spoilt), None);
        }
    }
});
