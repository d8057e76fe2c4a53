//! Any two strings: PHP's `version_compare` answers one pair and its reverse alike.
#![no_main]

use countersign::model::version::php_version_compare;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &str)| {
    let (a, b) = input;
    assert!(php_version_compare(a, a).is_eq());
    assert_eq!(php_version_compare(a, b), php_version_compare(b, a).reverse());
});
