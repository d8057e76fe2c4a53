//! Any text as a changelog, and as a tag's message.
#![no_main]

use countersign::build::source::changelog;
use countersign_model::version::Version;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &str)| {
    let (version, text) = input;
    let Ok(version) = version.parse::<Version>() else {
        return;
    };
    for entry in [
        changelog::of_version(text, &version),
        changelog::from_tag_message(text, &version),
    ]
    .into_iter()
    .flatten()
    {
        let entry = entry.closed_text("https://example.com/");
        assert!(!entry.is_empty() && entry.len() <= changelog::ENTRY_LIMIT);
    }
    assert!(changelog::to_html(text, 4096).closed_html("https://example.com/").len() <= 4096);
});
