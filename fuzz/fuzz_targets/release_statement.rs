//! Any bytes as a release statement. An accepted one is written as the same bytes, and has no duplicate members.
#![no_main]

use countersign_package::release::statement::ReleaseStatement;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(statement) = ReleaseStatement::read(input) else {
        return;
    };
    assert_eq!(statement.to_bytes().unwrap(), input);
    let value: serde_json::Value = serde_json::from_slice(input).unwrap();
    assert_eq!(serde_json::to_vec(&value).unwrap(), input);
});
