//! A store of format 1, as the program before wrote it: its ledger, and the texts of its orders.

/// The lines. A token issues three licenses: one is renewed, suspended, resumed and released from a site, one gets a new key, and one
/// is revoked. Another license is imported.
pub const LEDGER: &str = include_str!("../data/format-1/ledger.jsonl");

/// Three orders, one of which is erased.
pub const REFERENCES: &str = include_str!("../data/format-1/references.jsonl");

/// The license for "order 1", with two sites.
pub const RENEWED: &str = "45cd36beb2ff399fa28f1a596daa9d9d50d54aabc8307af97bbd28ee9f2c109d";

/// The license in its place.
pub const SUCCESSOR: &str = "9e45e6d88e08aadb404b93acb106bf6b3a62426ee669f8506eaa1a0b568e00da";
