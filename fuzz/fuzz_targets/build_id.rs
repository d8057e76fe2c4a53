//! Any 16 bytes as a build id, and any bytes as a mark's file. What is read was encrypted, and encrypts to the same again.
#![no_main]

use countersign_model::build_id::BuildId;
use countersign_model::download_key::DownloadKey;
use countersign_model::license_key::LicenseId;
use countersign_package::mark;
use libfuzzer_sys::fuzz_target;
use uuid::Uuid;

fuzz_target!(|bytes: &[u8]| {
    if let Some(id) = mark::search::id(bytes) {
        assert_eq!(mark::search::id(mark::content(id).as_bytes()), Some(id));
    }
    let key = DownloadKey::new(&[7; 32]);
    let Some(first) = bytes.first_chunk::<16>() else { return };
    let uuid = Uuid::from_bytes(*first);
    if let Some(id) = BuildId::decrypt(&key, uuid) {
        assert_eq!(id.encrypt(&key), uuid);
    }
    let license = LicenseId::from_bytes(std::array::from_fn(|at| bytes[at % bytes.len()]));
    let day = BuildId::new(
        &key,
        &license,
        &"example.com".parse().unwrap(),
        chrono::NaiveDate::from_ymd_opt(2026, 1, 1).unwrap()
            + chrono::Days::new(u64::from(first[0]) * u64::from(first[1])),
        "acme",
        "1.0",
    );
    if let Some(id) = day {
        let uuid = id.encrypt(&key);
        assert_eq!(uuid.get_version_num(), 8);
        assert_eq!(BuildId::decrypt(&key, uuid), Some(id));
        assert_ne!(BuildId::decrypt(&DownloadKey::new(&[8; 32]), uuid), Some(id));
    }
});
