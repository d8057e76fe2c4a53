//! The demo: two plugins with repositories, two licenses in its ledger, whose keys are shown and not stored, and made-up
//! customers with a history.
//!
//! [`try_it`] has commands to paste, which show validation, updates and the signature.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use chrono::{Months, Utc};
use serde::Serialize;

use countersign_files::durable_file;
use countersign_model::license_key::LicenseId;
use countersign_model::name::NotAName;
use countersign_model::rights::Rights;
use countersign_model::text::shell_quoted;
use countersign_settings::config::{Config, Listen};

use crate::commands::Failure;
use crate::commands::init::demo_repository::{self, ACME_FORMS, ACME_PDF, DemoPlugin};
use crate::commands::init::files::{InitError, create};
use crate::commands::init::instance;
use crate::commands::init::{demo_customers, demo_history};
use crate::commands::license::order;
use crate::serve::license_mails::MailsOrder;
use crate::serve::ops::issue_answers::{IssueOrder, IssueReply, LicenseGrant};
use crate::serve::ops::license_answers::NewKey;

/// The result of [`write()`].
pub(super) const NAMES: &[&str] = &[
    "registry/plugins/acme-forms.toml",
    "registry/plugins/acme-pdf.toml",
    "plugins/acme-forms",
    "plugins/acme-pdf",
];

/// The site in the commands.
const SITE: &str = "https://shop.example.com";

/// A license, whose key is shown once and not stored.
#[derive(Serialize)]
pub(super) struct DemoLicense {
    id: LicenseId,
    key: String,
    grants: &'static str,
}

/// The demo's licenses, and the next steps.
pub(super) struct Demo {
    pub licenses: Vec<DemoLicense>,
    pub next: String,
}

/// Adds the demo to an empty instance.
pub(super) fn write(folder: &Path, config: &Config, key_id: &str) -> Result<Demo, Failure> {
    for plugin in [ACME_FORMS, ACME_PDF] {
        let path = folder.join("plugins").join(plugin.slug);
        demo_repository::write(&path, &plugin).map_err(|source| InitError::Repository { path, source })?;
        create(
            &folder.join(format!("registry/plugins/{}.toml", plugin.slug)),
            &entry(&plugin),
        )?;
    }
    // This user makes the store; where root does, it becomes that of the folder's owner.
    let store = &config.paths.store;
    let opened = countersign_ledger::open(store).map_err(Failure::of_store)?;
    let made = demo_customers::write(&opened, config, Utc::now());
    opened.close().map_err(Failure::of_store)?;
    drop(opened);
    made?;
    let forms = ACME_FORMS.slug;
    let small = issue(config, "one site", 1, &[(forms, &["translations"])])?;
    let both: [(_, &[_]); 2] = [(forms, &["translations", "thanks"]), (ACME_PDF.slug, &[])];
    let large = issue(config, "three sites", 3, &both)?;
    countersign_ledger::append_history(store, &demo_history::lines(Utc::now().date_naive()))
        .map_err(Failure::of_store)?;
    durable_file::give_to_owner_above(store).map_err(Failure::environment)?;
    let shown = |new: &NewKey, grants| DemoLicense {
        id: new.id,
        key: new.license_key.clone(),
        grants,
    };
    let licenses = vec![
        shown(&small, "Acme Forms, one site"),
        shown(&large, "Acme Forms and Acme PDF, three sites"),
    ];
    let keys: String = licenses
        .iter()
        .map(|license| format!("  {}  {}\n", license.key, license.grants))
        .collect();
    let called = program();
    // The paths in the commands are relative to the current folder.
    let go = match std::env::current_dir() {
        Ok(current) => format!("cd {}\n", shell_quoted(&current)),
        Err(_) => String::new(),
    };
    let next = format!(
        "License keys, shown this once and stored nowhere:
{keys}
What builds the manifests and starts the server (`make run` does it by itself):
  {program} -C {folder} build && {program} -C {folder} serve

Then paste this into another terminal.
{go}
{}",
        try_it(
            &called,
            folder,
            &config.serve.listen,
            &small.license_key,
            ACME_FORMS.slug,
            key_id,
            &config.paths.public
        ),
        program = shell_quoted(&called),
        folder = shell_quoted(folder),
    );
    Ok(Demo { licenses, next })
}

/// How the person called this program, so that pasted commands call the same one.
fn program() -> PathBuf {
    std::env::args_os()
        .next()
        .map_or_else(|| PathBuf::from("countersign"), PathBuf::from)
}

/// Commands for another terminal, to be pasted into bash: validate `key` from a site, ask for updates of the plugin `slug`,
/// download and trace its package, and verify the answer's signature with the public key `key_id` under `public`.
fn try_it(
    program: &Path,
    folder: &Path,
    listen: &Listen,
    key: &str,
    slug: &str,
    key_id: &str,
    public: &Path,
) -> String {
    let server = format!("http://{}", listen.reachable());
    let answer = public.with_file_name("answer");
    let body = answer.with_extension("json");
    let signed = answer.with_extension("signed");
    let signature = answer.with_extension("signature");
    let package = public.with_file_name(format!("{slug}.zip"));
    let unpacked = public.with_file_name("unpacked");
    let copy = shell_quoted(&unpacked.join(slug));
    let [body, signed, signature, package, unpacked, program, folder] =
        [&*body, &signed, &signature, &package, &unpacked, program, folder].map(shell_quoted);
    let public_key = shell_quoted(&public.join("keys").join(format!("{key_id}.pem")));
    format!(
        r#"# Validate the license from a site; the first time binds it.
curl -sS {server}/api/v1/validate-license -H 'Content-Type: application/json' \
  -d '{{"license_key":"{key}","site_url":"{SITE}"}}' -o {body}
cat {body}; echo

# Ask for an update from 1.0.0, with the key in a header, so that it stays out of logs.
curl -sS -G {server}/api/v1/updates/{slug} -H 'Authorization: License {key}' \
  -d site_url={SITE} -d current_version=1.0.0

# The same with the key in the address, and without a version: the latest manifest.
curl -sS -G {server}/api/v1/updates/{slug} -d license_key={key} -d site_url={SITE}

# Download the package with the link in that answer, unpack it, and ask who got this copy.
curl -sS -G {server}/api/v1/updates/{slug} -H 'Authorization: License {key}' -d site_url={SITE} \
  | sed 's/.*"package":"\([^"]*\)".*/\1/' | xargs curl -sS -o {package}
python3 -m zipfile -e {package} {unpacked}
{program} -C {folder} trace {copy}

# Verify the signature: cut it out of the answer; what is left is what was signed.
printf %s "$(sed 's/"signature":"[^"]*",//' {body})" >{signed}
sed 's/.*"signature":"\([^"]*\)",.*/\1/' {body} | openssl base64 -d -A >{signature}
openssl dgst -sha256 -verify {public_key} -signature {signature} {signed}
"#
    )
}

/// The example entry, changed for `plugin`, with its repository uncommented.
fn entry(plugin: &DemoPlugin) -> String {
    let own = instance::PLUGIN
        .replace(ACME_FORMS.slug, plugin.slug)
        .replace(ACME_FORMS.name, plugin.name);
    own.replace("#repository = ", "repository = ")
}

/// Issues a license for a year into the ledger of the new instance.
fn issue(config: &Config, note: &str, sites: u32, modules: &[(&str, &[&str])]) -> Result<NewKey, Failure> {
    let named = |(module, features): &(&str, &[&str])| {
        let features = features
            .iter()
            .map(|feature| feature.parse())
            .collect::<Result<_, _>>()?;
        Ok((module.parse()?, features))
    };
    let modules: Result<_, NotAName> = modules.iter().map(named).collect();
    let grant = LicenseGrant {
        modules: modules.map_err(Failure::input)?,
        expires: Utc::now().date_naive() + Months::new(12),
        sites: NonZeroU32::new(sites),
        grace_period_hours: None,
        staging_sites: None,
        site_moves: None,
        rights: Rights::NONE,
        hosts: Vec::new(),
        note: note.to_owned(),
    };
    let request = format!("demo: {note}");
    let typed = request.clone();
    match order::issue(
        config,
        &IssueOrder {
            request,
            typed,
            grant,
            customer: None,
            mails: MailsOrder::default(),
        },
    )? {
        IssueReply::Issued { new, .. } => Ok(new),
        IssueReply::Refused(reason) => Err(Failure::environment(reason)),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use rsa::pkcs8::{EncodePublicKey as _, LineEnding};
    use rsa::{Pkcs1v15Sign, RsaPrivateKey};
    use sha2::{Digest as _, Sha256};

    use super::*;
    use countersign_model::license_key::LicenseKey;

    fn key() -> String {
        LicenseKey::from_random([7; 20]).reveal().to_owned()
    }

    #[test]
    fn a_server_on_all_addresses_is_asked_on_this_machine() {
        let commands = |listen: &str| {
            try_it(
                Path::new("countersign"),
                Path::new("demo"),
                &listen.parse().unwrap(),
                &key(),
                "acme-forms",
                "kid",
                Path::new("public"),
            )
        };
        assert!(commands("0.0.0.0:80").contains(" http://127.0.0.1:80/api/v1/updates/acme-forms "));
        assert!(commands("[::]:80").contains(" http://[::1]:80/api/v1/"));
        assert!(commands("192.0.2.1:80").contains(" http://192.0.2.1:80/api/v1/"));
        assert!(
            commands("[::1]:80").contains(" -verify public/keys/kid.pem -signature answer.signature answer.signed\n")
        );
    }

    #[test]
    fn the_commands_verify_a_signed_answer_and_refuse_a_changed_one() {
        let folder = tempfile::tempdir().unwrap();
        let public = folder.path().join("it's public");
        let private_key = RsaPrivateKey::new(&mut rsa::rand_core::OsRng, 2048).unwrap();
        std::fs::create_dir_all(public.join("keys")).unwrap();
        let pem = private_key.to_public_key().to_public_key_pem(LineEnding::LF).unwrap();
        std::fs::write(public.join("keys/kid.pem"), pem).unwrap();
        let listen = "127.0.0.1:80".parse().unwrap();
        let program = Path::new("countersign");
        let commands = try_it(program, folder.path(), &listen, &key(), "acme-forms", "kid", &public);
        let (_, verify) = commands.split_once("# Verify").unwrap();
        let verifies = |body: &str| {
            std::fs::write(folder.path().join("answer.json"), body).unwrap();
            let output = Command::new("bash")
                .args(["-euo", "pipefail", "-c", &format!("#{verify}")])
                .output()
                .unwrap();
            (output.status.success(), String::from_utf8(output.stdout).unwrap())
        };

        // A nonce that looks like a signature must not be taken for one.
        let before = r#"{"code":"ok","nonce":"\",\"signature\":\"AAAA\",","#;
        let after = r#""site_url":"https://é.example","status":"active"}"#;
        let signed = format!("{before}{after}");
        let signature = private_key
            .sign(Pkcs1v15Sign::new::<Sha256>(), &Sha256::digest(&signed))
            .unwrap();
        let body = format!(r#"{before}"signature":"{}",{after}"#, STANDARD.encode(signature));
        assert_eq!(verifies(&body), (true, "Verified OK\n".to_owned()));
        assert!(!verifies(&body.replace("active", "actiVe")).0);
    }

    #[test]
    fn each_entry_names_its_own_repository() {
        for plugin in [ACME_FORMS, ACME_PDF] {
            let entry: toml::Table = toml::from_str(&entry(&plugin)).unwrap();
            assert_eq!(
                entry["repository"].as_str().unwrap(),
                format!("../../plugins/{}", plugin.slug)
            );
            assert_eq!(entry["name"].as_str(), Some(plugin.name));
        }
    }
}
