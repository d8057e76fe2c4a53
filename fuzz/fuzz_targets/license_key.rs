//! Any text as a license key, and with license keys in it.
#![no_main]

use countersign::model::license_key::LicenseKey;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(key) = text.parse::<LicenseKey>() {
        assert_eq!(key.reveal().parse(), Ok(key));
        assert!(LicenseKey::is_in(text));
    }
    assert!(!LicenseKey::is_in(&LicenseKey::redact(text)));
});
