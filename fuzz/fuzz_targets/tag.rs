//! Any tag name under any pattern. The result is a version that is safe in a path.
#![no_main]

use countersign_model::tag_pattern::TagPattern;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &str)| {
    let (pattern, tag) = input;
    let given = pattern.parse::<TagPattern>().into_iter();
    for version in given
        .chain(TagPattern::defaults())
        .filter_map(|pattern| pattern.version_of(tag))
    {
        assert!(!version.as_str().contains(['/', '\\', ' ']) && !version.as_str().contains(".."));
    }
});
