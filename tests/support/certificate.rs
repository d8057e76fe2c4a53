//! TLS certificates for tests, made without other programs, and a server that uses one.

use std::time::Duration;

use rsa::pkcs1v15::SigningKey;
use rsa::pkcs8::{DecodePrivateKey, EncodePublicKey, LineEnding};
use rsa::sha2::Sha256;
use x509_cert::builder::{Builder, CertificateBuilder, Profile};
use x509_cert::der::EncodePem;
use x509_cert::der::asn1::OctetString;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::name::Name;
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::SubjectPublicKeyInfoOwned;
use x509_cert::time::Validity;

use super::instance::{Instance, new_keys};
use super::server::Server;

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
        let key = new_keys(2048).private;
        let private = rsa::RsaPrivateKey::from_pkcs8_pem(&key).unwrap();
        let public = private.to_public_key().to_public_key_der().unwrap();
        let signer = SigningKey::<Sha256>::new(private);
        let subject: Name = format!("CN={name}").parse().unwrap();
        let profile = Profile::Leaf {
            issuer: subject.clone(),
            enable_key_agreement: false,
            enable_key_encipherment: true,
        };
        let mut builder = CertificateBuilder::new(
            profile,
            SerialNumber::from(1_u32),
            Validity::from_now(Duration::from_secs(86_400 * u64::from(days))).unwrap(),
            subject,
            SubjectPublicKeyInfoOwned::try_from(public.as_bytes()).unwrap(),
            &signer,
        )
        .unwrap();
        let address = GeneralName::IpAddress(OctetString::new([127, 0, 0, 1]).unwrap());
        builder.add_extension(&SubjectAltName(vec![address])).unwrap();
        let certificate = builder.build::<rsa::pkcs1v15::Signature>().unwrap();
        Self {
            chain: certificate.to_pem(LineEnding::LF).unwrap(),
            key,
        }
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
    [
        "--tls-certificate".to_owned(),
        path(CERTIFICATE),
        "--tls-key".to_owned(),
        path(KEY),
    ]
}

/// The server of an instance whose certificate and key are installed.
pub fn serve(instance: &Instance, more: &[&str]) -> Server {
    let tls = flags(instance);
    let all: Vec<&str> = tls.iter().map(String::as_str).chain(more.iter().copied()).collect();
    Server::start_with(instance, &all)
}
