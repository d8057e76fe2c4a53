//! Any file as a readme, down to the HTML of its sections.
#![no_main]

use countersign::build::source::{html, readme};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| {
    let readme = readme::parse(file);
    assert!(readme.short_description.chars().count() <= 150);
    for section in readme.sections.values() {
        let html = html::from_markdown(section);
        assert!(!html.to_lowercase().contains("<script"));
        html::to_plain_text(section);
    }
});
