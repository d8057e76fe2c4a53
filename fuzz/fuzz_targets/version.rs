//! Any two strings end in an order; any two versions in one that their reverse agrees with. (PHP's own order of wild
//! strings is no order: `version_compare('a.', 'a.')` is -1, and ours must say the same.)
#![no_main]

use countersign::model::version::{Version, php_version_compare};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &str)| {
    let (a, b) = input;
    let _ = php_version_compare(a, b);
    if let (Ok(a), Ok(b)) = (a.parse::<Version>(), b.parse::<Version>()) {
        assert!(a.cmp_php(&a).is_eq());
        assert_eq!(a.cmp_php(&b), b.cmp_php(&a).reverse());
    }
});
