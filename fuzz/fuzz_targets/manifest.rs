//! Any bytes as a manifest. An accepted manifest survives being written and read.
#![no_main]

use countersign_model::manifest::Manifest;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(manifest) = serde_json::from_slice::<Manifest>(bytes) else {
        return;
    };
    let written = manifest.to_bytes();
    assert!(written.ends_with(b"}\n") && written.iter().filter(|&&byte| byte == b'\n').count() == 1);
    let again: Manifest = serde_json::from_slice(&written).unwrap();
    assert_eq!(again, manifest);
    assert_eq!(again.to_bytes(), written);
});
