//! Checks the signing key, its published half, and retired private keys.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use crate::build::counted;
use crate::commands::doctor::finding::{Finding, broken, ok, warning};
use crate::commands::keys::lost;
use crate::commands::keys::retired::{self, Retired};
use countersign_files::regular_file;
use countersign_model::download_key::DownloadKey;
use countersign_model::issuing_key::{IssuingKey, ReferenceKey};
use countersign_model::text::ErrorChain;
use countersign_settings::config::Paths;
use countersign_settings::keys::secret_keys::{SecretKey, SecretKeyError, SecretKeys};
use countersign_settings::keys::signing_key::{KeyError, SigningKey};

/// Size limit of a published key in bytes.
const MAX_PUBLISHED: u64 = 1 << 20;

/// Every key; retired private keys should be kept for `days`.
pub(super) fn findings(paths: &Paths, days: u32, now: SystemTime, hosts_packages: bool) -> Vec<Finding> {
    let mut findings = signing_key(paths);
    let makes = "makes links and build ids";
    findings.extend(secrets::<DownloadKey>(
        &paths.downloads_key,
        &paths.retired_keys,
        makes,
        hosts_packages,
    ));
    findings.extend(licensing(paths));
    findings.extend(retired_keys(paths, days, now));
    findings.extend(interrupted(paths));
    findings
}

fn signing_key(paths: &Paths) -> Vec<Finding> {
    let key = match SigningKey::load(&paths.signing_key) {
        Ok(key) => key,
        Err(error) => {
            let hint = lost::hint(&error, paths);
            return vec![broken("key", error.to_string(), Some(hint))];
        }
    };
    let public = key.public();
    let id = key.public().key_id();
    let published = regular_file::read_to_string(&paths.public.join("keys").join(format!("{id}.pem")), MAX_PUBLISHED);
    let listed = regular_file::read_to_string(&paths.public.join(".well-known/jwks.json"), MAX_PUBLISHED);
    let is_published = published.is_ok_and(|pem| pem == public.to_pem()) && listed.is_ok_and(|jwks| jwks.contains(id));
    vec![
        ok("key", format!("{id}, {} bits", public.bits())),
        if is_published {
            ok("key", "its public half is published")
        } else {
            warning(
                "key",
                "its public half is not published",
                "run `countersign keys publish`",
            )
        },
    ]
}

/// The secret of a use, and the retired ones. Without any, it is broken only if it `must_be`.
fn secrets<K: SecretKey>(path: &Path, retired: &Path, makes: &str, must_be: bool) -> Vec<Finding> {
    let describe = |error: SecretKeyError| {
        let hint = error.hint();
        broken("key", error.to_string(), Some(hint))
    };
    match SecretKeys::<K>::load(path, retired) {
        Err(SecretKeyError::Missing { .. }) if !must_be => Vec::new(),
        Err(error) => vec![describe(error)],
        Ok((keys, unusable)) => {
            let finding = ok("key", format!("{} {makes}", keys.current().name()));
            std::iter::once(finding)
                .chain(unusable.into_iter().map(describe))
                .collect()
        }
    }
}

/// The secrets of issuing and of references: neither is of use without the other.
fn licensing(paths: &Paths) -> Vec<Finding> {
    let [issuing, references] = [&paths.issuing_key, &paths.references_key];
    let must_be = [issuing, references].iter().any(|path| path.exists());
    let mut findings = secrets::<IssuingKey>(
        issuing,
        &paths.retired_keys,
        "makes the keys of licenses that machines issue",
        must_be,
    );
    let makes = "hides the orders of shops";
    findings.extend(secrets::<ReferenceKey>(references, &paths.retired_keys, makes, must_be));
    findings
}

/// Retired private keys. A thief of one can sign statements for plugins that pin it.
fn retired_keys(paths: &Paths, days: u32, now: SystemTime) -> Vec<Finding> {
    let retired = match retired::all(paths) {
        Ok(retired) => retired,
        Err(error) => {
            return vec![warning(
                "key",
                ErrorChain(&error).first_line(),
                "let this user read the folder",
            )];
        }
    };
    let describe = |retired: &Retired| {
        let age = counted(retired.days(now), "day");
        let file = retired.file.display();
        if retired.days(now) > u64::from(days) {
            let finding = format!("{file}: retired {age} ago, more than {days}");
            warning(
                "key",
                finding,
                "if no plugin needs it to sign again: countersign keys remove --overdue",
            )
        } else {
            ok(
                "key",
                format!("{file}: retired {age} ago; `keys rotate --back` signs with it again"),
            )
        }
    };
    let mut findings: Vec<_> = retired.iter().map(describe).collect();
    for Retired { file, .. } in &retired {
        if let Err(error @ KeyError::Exposed { .. }) = SigningKey::load(file) {
            let hint = error.hint_for("");
            findings.push(broken("key", error.to_string(), Some(hint)));
        }
    }
    findings
}

/// Files left by commands that were killed while they wrote a key.
fn interrupted(paths: &Paths) -> Vec<Finding> {
    let folders = [paths.signing_key.parent(), Some(paths.retired_keys.as_path())];
    let entries = folders
        .into_iter()
        .flatten()
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flatten()
        .flatten();
    let is_left = |name: &str| name.starts_with('.') && name.ends_with(".tmp");
    let left = entries.filter(|entry| is_left(&entry.file_name().to_string_lossy()));
    left.map(|entry| {
        let finding = format!(
            "{}: left by a command that was killed; it may hold a private key",
            entry.path().display()
        );
        warning("key", finding, "remove it when no `countersign keys` command runs")
    })
    .collect()
}
