//! `countersign verify`: verifies a saved statement with a public key, offline, and says what it grants and until when.

mod release;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, NaiveDate, SecondsFormat, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use zeroize::Zeroizing;

use countersign_files::regular_file;
use countersign_model::public_key::{PublicKey, PublicKeyError};
use countersign_model::statement::split_signature;
use countersign_model::text::printable::Printable;
use countersign_settings::config::Config;

use crate::commands::verify::release::ReleaseArgs;
use crate::commands::{Exit, Failure, output};

/// Size limit of a statement or key in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Verify a saved statement offline
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  countersign verify answer.json
  countersign verify answer.json --key key.pem --at 2027-01-31T12:00:00Z
  countersign verify --release acme-forms.zip --signatures 1.2.0.sig --signers keys

Exit codes: 0 the signature is valid, 3 the file is not a statement or a package, or a signature is \
not valid.")]
pub struct Args {
    /// The server's response body, unchanged
    #[arg(value_name = "FILE", required_unless_present = "release")]
    file: Option<PathBuf>,
    /// The public key that the server publishes [default: the instance's key that the statement names, in public/keys/]
    #[arg(long, value_name = "PEM")]
    key: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Check validity at this time [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    at: Option<DateTime<Utc>>,
    /// A package and its signatures.
    #[command(flatten)]
    signed: ReleaseArgs,
}

/// Why a statement is not valid.
#[derive(Debug, thiserror::Error)]
enum VerifyError {
    #[error("{}: cannot be read", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}: cannot be used", path.display())]
    Key {
        path: PathBuf,
        is_private: bool,
        source: PublicKeyError,
    },
    #[error("{}: not a statement", path.display())]
    NotAStatement {
        path: PathBuf,
        is_html: bool,
        source: serde_json::Error,
    },
    #[error("{}: not a statement: it has no signature", path.display())]
    NoSignature { path: PathBuf },
    #[error("{}: it names key {}, which is not in {}", path.display(), Printable(named), folder.display())]
    UnknownKey {
        path: PathBuf,
        named: String,
        folder: PathBuf,
    },
    #[error("{}: the signature does not verify with key {key_id}", path.display())]
    Signature {
        path: PathBuf,
        key_id: String,
        names_other: Option<String>,
    },
}

/// A statement as a client reads it.
#[derive(Debug, Deserialize, Serialize)]
struct ReceivedStatement {
    status: String,
    code: String,
    message: String,
    modules: Vec<String>,
    features: BTreeMap<String, Vec<String>>,
    expires: Option<NaiveDate>,
    /// Whether a renewal is to come. Absent where none is, or an older server signed it.
    #[serde(default)]
    renews: bool,
    issued_at: DateTime<Utc>,
    grace_period_hours: u32,
    domain: String,
    site_url: String,
    key_id: String,
    /// Absent where an older server signed it.
    license_id: Option<String>,
    nonce: Option<String>,
    bound_domain: Option<String>,
}

fn parse_time(text: &str) -> Result<DateTime<Utc>, &'static str> {
    text.parse().map_err(|_| "expected a time such as 2027-01-31T12:00:00Z")
}

/// Verifies, and prints the result.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    if let Some(package) = &args.signed.release {
        return release::run(package, &args.signed, args.json);
    }
    let Some(file) = &args.file else {
        return Err(Failure::usage("name a saved answer, or --release"));
    };
    let at = args.at.unwrap_or_else(Utc::now);
    let statement = verified(file, args.key.as_deref(), &config.paths.public)?;
    output::print(&if args.json {
        json(&statement, at)?
    } else {
        text(&statement, at)
    })
}

/// The statement in `file`, verified with the public key in the file `key`. Without `key`, the statement names the key, which must be in
/// the instance's folder `public`.
fn verified(file: &Path, key: Option<&Path>, public: &Path) -> Result<ReceivedStatement, VerifyError> {
    let body = read(file)?;
    let is_html = body.trim_ascii_start().starts_with(b"<");
    let not_a_statement = |source| VerifyError::NotAStatement {
        path: file.to_owned(),
        is_html,
        source,
    };
    let whole: Value = serde_json::from_slice(&body).map_err(not_a_statement)?;
    if !whole["signature"].is_string() {
        return Err(VerifyError::NoSignature { path: file.to_owned() });
    }
    let key = match key {
        Some(key) => read_key(key)?,
        None => own_key(file, whole["key_id"].as_str().unwrap_or_default(), public)?,
    };
    // SECURITY: from here on, only the bytes with the verified signature are used; the body may differ.
    let signed = [received(&body), reformatted(whole.clone())]
        .into_iter()
        .flatten()
        .find(|(bytes, signature)| key.verify(bytes, signature))
        .map(|(bytes, _)| bytes)
        .ok_or_else(|| VerifyError::Signature {
            path: file.to_owned(),
            key_id: key.key_id().to_owned(),
            names_other: whole["key_id"]
                .as_str()
                .filter(|named| *named != key.key_id())
                .map(str::to_owned),
        })?;
    serde_json::from_slice(&signed).map_err(not_a_statement)
}

fn read_key(path: &Path) -> Result<PublicKey, VerifyError> {
    let pem = Zeroizing::new(read(path)?);
    PublicKey::from_pem(&String::from_utf8_lossy(&pem)).map_err(|source| VerifyError::Key {
        path: path.to_owned(),
        is_private: pem.windows(12).any(|window| window == b"PRIVATE KEY-"),
        source,
    })
}

/// The instance's public key that the statement in `file` names.
fn own_key(file: &Path, named: &str, public: &Path) -> Result<PublicKey, VerifyError> {
    let folder = public.join("keys");
    let path = folder.join(format!("{named}.pem"));
    // Nobody has verified the name yet: it must not lead to another folder.
    let is_a_name = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_');
    match !named.is_empty() && named.bytes().all(is_a_name) && path.exists() {
        true => read_key(&path),
        false => Err(VerifyError::UnknownKey {
            path: file.to_owned(),
            named: named.to_owned(),
            folder,
        }),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, VerifyError> {
    regular_file::read(path, MAX_FILE).map_err(|source| VerifyError::Read {
        path: path.to_owned(),
        source,
    })
}

/// The signed bytes and the signature of an unchanged body, apart from surrounding spaces.
fn received(body: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (bytes, signature) = split_signature(body.trim_ascii())?;
    Some((bytes, STANDARD.decode(signature).ok()?))
}

/// The signed bytes and the signature of a reformatted body: its canonical form is the same.
fn reformatted(mut body: Value) -> Option<(Vec<u8>, Vec<u8>)> {
    let signature = body.as_object_mut()?.remove("signature")?;
    Some((
        serde_json_canonicalizer::to_vec(&body).ok()?,
        STANDARD.decode(signature.as_str()?).ok()?,
    ))
}

impl ReceivedStatement {
    /// Until when a client may go on without another answer.
    fn grace_ends(&self) -> DateTime<Utc> {
        self.issued_at
            .checked_add_signed(TimeDelta::hours(self.grace_period_hours.into()))
            .unwrap_or(DateTime::<Utc>::MAX_UTC)
    }

    /// Why it grants nothing at that time, if so.
    fn objection(&self, at: DateTime<Utc>) -> Option<&'static str> {
        if self.status != "active" {
            Some("its status is not active")
        } else if at < self.issued_at {
            Some("it was issued later")
        } else if self.expires.is_none_or(|day| at.date_naive() > day) {
            Some("the license has expired")
        } else if at > self.grace_ends() {
            Some("its grace period is over")
        } else {
            None
        }
    }
}

fn shown(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

/// The time to check; fractions of a second are dropped.
fn shown_to_the_second(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}

fn json(statement: &ReceivedStatement, at: DateTime<Utc>) -> Result<String, Failure> {
    #[derive(Serialize)]
    struct VerifyOutput<'a> {
        statement: &'a ReceivedStatement,
        at: String,
        grants: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        objection: Option<&'static str>,
        grace_ends: String,
    }
    let objection = statement.objection(at);
    let grace_ends = shown(statement.grace_ends());
    output::json(&VerifyOutput {
        statement,
        at: shown_to_the_second(at),
        grants: objection.is_none(),
        objection,
        grace_ends,
    })
}

fn text(statement: &ReceivedStatement, at: DateTime<Utc>) -> String {
    let module = |module: &String| match statement.features.get(module).map_or(&[][..], Vec::as_slice) {
        [] => module.clone(),
        features => format!("{module}={}", features.join(",")),
    };
    let modules = statement.modules.iter().map(module).collect::<Vec<_>>().join(" ");
    let expires = statement
        .expires
        .map_or(String::new(), |day| format!("{day}, at the end of the day, UTC"));
    let renews = if statement.renews { "by itself" } else { "" };
    let hours = statement.grace_period_hours;
    let lines = [
        ("signature", format!("valid, by key {}", statement.key_id)),
        (
            "status",
            format!("{} ({}): {}", statement.status, statement.code, statement.message),
        ),
        ("license", statement.license_id.clone().unwrap_or_default()),
        ("site", format!("{} ({})", statement.domain, statement.site_url)),
        ("bound to", statement.bound_domain.clone().unwrap_or_default()),
        ("issued", shown(statement.issued_at)),
        ("expires", expires),
        ("renews", renews.to_owned()),
        (
            "grace",
            format!("{hours} hours, until {}", shown(statement.grace_ends())),
        ),
        ("modules", modules),
        ("nonce", statement.nonce.clone().unwrap_or_default()),
    ];
    let filled = lines.iter().filter(|(_, value)| !value.is_empty());
    let lines: String = filled
        .map(|(name, value)| format!("{name:<11}{}\n", Printable(value)))
        .collect();
    let at_time = shown_to_the_second(at);
    match statement.objection(at) {
        None => format!("{lines}\nAt {at_time} it grants these modules to that site.\n"),
        Some(objection) => format!("{lines}\nAt {at_time} it grants nothing: {objection}.\n"),
    }
}

impl From<VerifyError> for Failure {
    fn from(error: VerifyError) -> Self {
        let hint = match &error {
            VerifyError::Read { .. } => return Self::input(error),
            VerifyError::Key { is_private: true, .. } => {
                "this is a private key: use its public half from public/keys/".to_owned()
            }
            VerifyError::Key { .. } => "use a key from public/keys/, or from /keys/ on the server".to_owned(),
            VerifyError::NotAStatement { is_html: true, .. } => {
                "this is an HTML page, probably from a proxy or a login page".to_owned()
            }
            VerifyError::NotAStatement { .. } => "save the response body unchanged, and nothing else".to_owned(),
            VerifyError::NoSignature { .. } => {
                "only responses to validations with HTTP status 200 are signed".to_owned()
            }
            VerifyError::UnknownKey { .. } => {
                "run this in the instance of the server that signed it, or download its key from /keys/ on that server, and name the file with --key"
                    .to_owned()
            }
            VerifyError::Signature {
                names_other: Some(named),
                ..
            } => format!("it names key {}", Printable(named)),
            VerifyError::Signature { .. } => {
                "it names this key, so it was changed after it was signed: save the response again, byte for byte"
                    .to_owned()
            }
        };
        Self::input(error).hint(hint)
    }
}

#[cfg(test)]
mod tests {
    use rsa::rand_core::OsRng;
    use rsa::{Pkcs1v15Sign, RsaPrivateKey};
    use sha2::{Digest as _, Sha256};

    use super::*;

    struct Signed {
        folder: tempfile::TempDir,
        body: Vec<u8>,
    }

    impl Signed {
        fn new() -> Self {
            Self::with(concat!(
                r#"{"code":"ok","domain":"example.com","expires":"2026-11-22","features":{"base":[],"forms":["pdf","api"]},"#,
                r#""grace_period_hours":72,"issued_at":"2026-11-20T10:17:03.123Z","key_id":"kid","message":"ok","#,
                r#""modules":["base","forms"],"nonce":"n\u001b","#,
                r#"SIGNATURE"site_url":"https://Example.com","status":"active"}"#
            ))
        }

        fn with(template: &str) -> Self {
            let private = RsaPrivateKey::new(&mut OsRng, 2048).unwrap();
            let payload = Sha256::digest(template.replace("SIGNATURE", ""));
            let signature = STANDARD.encode(private.sign(Pkcs1v15Sign::new::<Sha256>(), &payload).unwrap());
            let folder = tempfile::tempdir().unwrap();
            let public = PublicKey::new(private.to_public_key()).unwrap();
            std::fs::write(folder.path().join("key.pem"), public.to_pem()).unwrap();
            let body = template.replace("SIGNATURE", &format!("\"signature\":\"{signature}\","));
            Self {
                folder,
                body: body.into_bytes(),
            }
        }

        fn verify(&self, body: &[u8]) -> Result<ReceivedStatement, String> {
            let file = self.folder.path().join("answer.json");
            std::fs::write(&file, body).unwrap();
            let shown = format!("{}/", self.folder.path().display());
            let key = self.folder.path().join("key.pem");
            verified(&file, Some(&key), self.folder.path()).map_err(|error| error.to_string().replace(&shown, ""))
        }
    }

    fn at(time: &str) -> DateTime<Utc> {
        time.parse().unwrap()
    }

    #[test]
    fn an_answer_verifies_as_received_with_a_newline_and_reformatted() {
        let signed = Signed::new();
        let pretty = serde_json::to_vec_pretty(&serde_json::from_slice::<Value>(&signed.body).unwrap()).unwrap();
        let newline = [signed.body.as_slice(), b"\r\n"].concat();
        for body in [&signed.body, &newline, &pretty] {
            assert_eq!(signed.verify(body).unwrap().domain, "example.com");
        }
    }

    #[test]
    fn a_changed_byte_anywhere_is_refused() {
        let signed = Signed::new();
        for index in 0..signed.body.len() {
            let mut body = signed.body.clone();
            body[index] ^= 1;
            assert!(signed.verify(&body).is_err(), "byte {index}");
        }
    }

    #[test]
    fn a_second_status_beside_the_signed_one_is_refused() {
        let signed = Signed::new();
        let text = String::from_utf8(signed.body.clone()).unwrap();
        for forged in [
            text.replacen('{', r#"{"status":"active","#, 1),
            text.replace(r#""status":"active"}"#, r#""status":"active","status":"expired"}"#),
            text.replacen('{', r#"{"signature":"AAAA","#, 1),
        ] {
            let outcome = signed.verify(forged.as_bytes()).map(|statement| statement.status);
            assert!(outcome.is_err() || outcome.as_deref() == Ok("active"), "{forged}");
        }
        let forged = text.replace(r#""status":"active"}"#, r#""status":"active","status":"expired"}"#);
        assert!(
            signed
                .verify(forged.as_bytes())
                .unwrap_err()
                .contains("does not verify")
        );
    }

    #[test]
    fn what_is_no_statement_is_distinguished_from_a_wrong_signature() {
        let signed = Signed::new();
        assert_eq!(signed.verify(b"<html>").unwrap_err(), "answer.json: not a statement");
        assert_eq!(
            signed.verify(b"{\"status\":404}").unwrap_err(),
            "answer.json: not a statement: it has no signature"
        );
        let other = Signed::with(r#"{SIGNATURE"status":"active"}"#);
        assert_eq!(other.verify(&other.body).unwrap_err(), "answer.json: not a statement");
        let reason = signed.verify(&other.body).unwrap_err();
        assert!(
            reason.starts_with("answer.json: the signature does not verify with key "),
            "{reason}"
        );
    }

    #[test]
    fn whatever_is_not_to_be_trusted_comes_with_what_to_do_about_it() {
        let signed = Signed::new();
        let file = signed.folder.path().join("answer.json");
        let key = signed.folder.path().join("key.pem");
        let hint = |body: &[u8]| {
            std::fs::write(&file, body).unwrap();
            Failure::from(verified(&file, Some(&key), signed.folder.path()).unwrap_err())
                .hint
                .unwrap()
        };
        let this_key = PublicKey::from_pem(&std::fs::read_to_string(&key).unwrap())
            .unwrap()
            .key_id()
            .to_owned();
        let changed = String::from_utf8(signed.body.clone())
            .unwrap()
            .replace("\"active\"", "\"expired\"");
        assert_eq!(hint(changed.as_bytes()), "it names key kid");
        assert!(hint(changed.replace("\"kid\"", &format!("\"{this_key}\"")).as_bytes()).contains("it was changed"));
        assert!(hint(b"\n<!DOCTYPE html>").starts_with("this is an HTML page"));
        assert!(hint(b"HTTP/1.1 200 OK\n\n{}").starts_with("save the response body"));
        assert!(hint(b"{}").starts_with("only responses to validations"));
        std::fs::write(&key, "-----BEGIN PRIVATE KEY-----\n").unwrap();
        assert!(hint(&signed.body).starts_with("this is a private key"));
        std::fs::write(&key, "-----BEGIN CERTIFICATE-----\n").unwrap();
        assert!(hint(&signed.body).starts_with("use a key from public/keys/"));
    }

    #[test]
    fn without_a_key_the_instances_own_one_that_the_statement_names_verifies_it() {
        let signed = Signed::new();
        let folder = signed.folder.path();
        let file = folder.join("answer.json");
        let keys = folder.join("keys");
        let verify = |body: &[u8]| {
            std::fs::write(&file, body).unwrap();
            verified(&file, None, folder).map_err(|error| error.to_string())
        };
        let unknown = |named: &str| {
            let keys = keys.display();
            format!("{}: it names key {named}, which is not in {keys}", file.display())
        };
        assert_eq!(verify(&signed.body).unwrap_err(), unknown("kid"));
        std::fs::create_dir(&keys).unwrap();
        std::fs::copy(folder.join("key.pem"), keys.join("kid.pem")).unwrap();
        assert_eq!(verify(&signed.body).unwrap().key_id, "kid");
        // A name that leads out of the folder is no name of a key, though a key is there.
        let outside = String::from_utf8(signed.body.clone())
            .unwrap()
            .replace("\"kid\"", "\"../key\"");
        assert_eq!(verify(outside.as_bytes()).unwrap_err(), unknown("../key"));
    }

    #[test]
    fn it_says_what_is_granted_to_whom_and_until_when() {
        let signed = Signed::new();
        assert_eq!(
            text(
                &signed.verify(&signed.body).unwrap(),
                at("2026-11-21T00:00:00.123456789Z")
            ),
            "signature  valid, by key kid\n\
             status     active (ok): ok\n\
             site       example.com (https://Example.com)\n\
             issued     2026-11-20T10:17:03.123Z\n\
             expires    2026-11-22, at the end of the day, UTC\n\
             grace      72 hours, until 2026-11-23T10:17:03.123Z\n\
             modules    base forms=pdf,api\n\
             nonce      n\\u{1b}\n\
             \n\
             At 2026-11-21T00:00:00Z it grants these modules to that site.\n"
        );
    }

    #[test]
    fn a_statement_grants_only_from_its_issue_to_the_end_of_its_day_and_of_its_grace() {
        let signed = Signed::new();
        let mut statement = signed.verify(&signed.body).unwrap();
        for (time, objection) in [
            ("2026-11-20T10:17:03.122Z", Some("it was issued later")),
            ("2026-11-20T10:17:03.123Z", None),
            ("2026-11-22T23:59:59Z", None),
            ("2026-11-23T00:00:00Z", Some("the license has expired")),
        ] {
            assert_eq!(statement.objection(at(time)), objection, "{time}");
        }
        statement.grace_period_hours = 1;
        assert_eq!(
            statement.objection(at("2026-11-20T11:17:03.124Z")),
            Some("its grace period is over")
        );
        statement.status = "suspended".into();
        assert_eq!(
            statement.objection(at("2026-11-20T10:17:04Z")),
            Some("its status is not active")
        );
        let document: Value = serde_json::from_str(&json(&statement, at("2026-11-20T10:17:04Z")).unwrap()).unwrap();
        assert_eq!(
            (&document["grants"], &document["statement"]["status"]),
            (&false.into(), &"suspended".into())
        );
    }
}
