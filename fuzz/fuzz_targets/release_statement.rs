//! Any bytes as a release statement: what is taken is written again as the same bytes, and no member stands there twice.
#![no_main]

use countersign::release::statement::ReleaseStatement;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(statement) = ReleaseStatement::read(input) else { return };
    assert_eq!(statement.to_bytes().unwrap(), input);
    let value: serde_json::Value = serde_json::from_slice(input).unwrap();
    assert_eq!(serde_json::to_vec(&value).unwrap(), input);
});
