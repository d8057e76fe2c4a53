//! Any two strings have an order, and the order of two versions agrees with its reverse. (PHP's order of arbitrary
//! strings does not: `version_compare('a.', 'a.')` is -1, and ours must give the same.)
#![no_main]

use countersign_model::version::{Version, php_version_compare};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &str)| {
    let (a, b) = input;
    let _ = php_version_compare(a, b);
    if let (Ok(a), Ok(b)) = (a.parse::<Version>(), b.parse::<Version>()) {
        assert!(a.cmp_php(&a).is_eq());
        assert_eq!(a.cmp_php(&b), b.cmp_php(&a).reverse());
    }
});
