//! Any bytes as a signature and as a file of them. What is accepted is written as the same bytes.
#![no_main]

use countersign_package::release::signatures::Signatures;
use countersign_package::release::sshsig::Sshsig;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Ok(signature) = Sshsig::from_blob(input) {
        assert_eq!(Sshsig::from_armored(signature.armored()), Ok(signature.clone()));
        signature.verify(input);
    }
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(signatures) = Signatures::read(text) {
        assert_eq!(signatures.to_text(), text);
    }
});
