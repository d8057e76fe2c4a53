//! clients/vectors/statements.json, and a signer for statements that no server would sign.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rsa::pkcs8::DecodePrivateKey;
use rsa::sha2::Sha256;
use rsa::signature::{SignatureEncoding, Signer as _};
use serde_json::{Value, json};

use super::instance::Keys;

pub const PATH: &str = "clients/vectors/statements.json";

/// Signs what no server of ours would.
pub struct Signer(rsa::pkcs1v15::SigningKey<Sha256>);

impl Signer {
    pub fn new(keys: &Keys) -> Self {
        Self(rsa::pkcs1v15::SigningKey::new(
            rsa::RsaPrivateKey::from_pkcs8_pem(&keys.private).unwrap(),
        ))
    }

    /// The statement as a body with its signature. Members are sorted and their text is ASCII, so it is canonical JSON.
    pub fn sign(&self, mut statement: Value) -> String {
        statement.as_object_mut().unwrap().remove("signature");
        let signature = self.0.sign(statement.to_string().as_bytes()).to_vec();
        statement["signature"] = json!(BASE64_STANDARD.encode(signature));
        statement.to_string()
    }
}

pub fn statements() -> Value {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(PATH)).expect("the vectors are there");
    serde_json::from_str(&text).unwrap()
}
