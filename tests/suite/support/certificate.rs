//! TLS certificates for tests, made by openssl.

use std::fs;
use std::process::Command;

use super::instance::Instance;

/// Where an instance of these tests has them.
pub const CERTIFICATE: &str = "tls/fullchain.pem";
pub const KEY: &str = "tls/privkey.pem";

/// A self-signed certificate for 127.0.0.1 and its key, PEM.
pub struct Certificate {
    pub chain: String,
    pub key: String,
}

impl Certificate {
    /// `name` tells it from others; it ends in `days`.
    pub fn new(name: &str, days: u32) -> Self {
        let folder = tempfile::TempDir::new().unwrap();
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
            .args(["-days", &days.to_string(), "-subj", &format!("/CN={name}")])
            .args(["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key", "-out", "chain"])
            .current_dir(folder.path())
            .output()
            .expect("openssl is installed: make tools");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let read = |name| fs::read_to_string(folder.path().join(name)).unwrap();
        Self { chain: read("chain"), key: read("key") }
    }

    /// Puts it where the server looks, as a tool that renews certificates does: one file after the other.
    pub fn install(&self, instance: &Instance) {
        instance.write_secret(KEY, &self.key);
        instance.write(CERTIFICATE, &self.chain);
    }
}

/// The flags that make a server of the instance speak TLS.
pub fn flags(instance: &Instance) -> [String; 4] {
    let path = |file| instance.file(file).display().to_string();
    ["--tls-certificate".to_owned(), path(CERTIFICATE), "--tls-key".to_owned(), path(KEY)]
}
