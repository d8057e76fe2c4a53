//! `license rekey` and `license resend` of a license of the ledger: by the running server, or by the command itself.

use std::sync::Arc;

use chrono::Utc;
use serde::Serialize;

use crate::commands::{Exit, Failure, ledger_access, output, server_questions};
use crate::serve::ops::license_answers::{LedgerTools, LicenseAction, LicenseOrder, LicenseReply, NewKey};
use countersign_mail::address::MailAddress;
use countersign_mail::queue::MailQueue;
use countersign_mail::{NO_MAIL_SERVER, NO_MAIL_SERVER_HINT};
use countersign_model::license_key::LicenseId;
use countersign_model::text::stderr;
use countersign_registry::Registry;
use countersign_settings::config::Config;
use countersign_settings::keys::license_secrets::LicenseSecrets;
use countersign_settings::keys::secret_keys::{IssuingKeys, ReferenceKeys, SecretKeyError};

use crate::commands::license::issue::show_key;
use crate::commands::license::issued::licenses;
use crate::commands::license::selector::LicenseArg;

/// Why an order was not carried out.
#[derive(Debug, thiserror::Error)]
#[error("license {tag}: {reason}")]
pub(super) struct NotChanged {
    pub tag: String,
    pub reason: String,
}

/// Arguments of `resend`.
#[derive(clap::Args, Debug)]
pub(super) struct ResendArgs {
    #[command(flatten)]
    license: LicenseArg,
    /// The buyer's mail address. The server keeps none
    #[arg(long, value_name = "ADDRESS")]
    to: MailAddress,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Resent {
    id: LicenseId,
    queued: bool,
}

#[derive(Serialize)]
struct Rekeyed<'a> {
    license_key: &'a str,
    id: LicenseId,
    replaces: LicenseId,
}

/// Mails the key of a license of the ledger.
pub(super) fn resend(args: &ResendArgs, config: &Config) -> Result<Exit, Failure> {
    let registry = Registry::load_licenses(&config.paths.registry)?;
    let issued = licenses(config)?;
    let Some(issued) = args.license.find_issued(&issued)? else {
        let id = args.license.find(&registry)?.id;
        let tag = id.log_tag();
        let reason = "it stands in a file, and its key is stored nowhere".to_owned();
        return Err(Failure::input(NotChanged { tag, reason })
            .hint(format!("`countersign license rekey {}` makes a new key", id.log_tag())));
    };
    let id = issued.license.id;
    carry_out(config, id, LicenseAction::Resend(args.to.clone()))?;
    let text = match args.json {
        true => output::json(&Resent { id, queued: true })?,
        false => format!("The key of license {} waits to be mailed.\n", id.log_tag()),
    };
    output::print_change(&text)
}

/// Gives a license of the ledger a new key, and prints it.
pub(super) fn rekey(old: LicenseId, json: bool, config: &Config) -> Result<Exit, Failure> {
    output::refuse_unseen()?;
    let LicenseReply::Rekeyed(NewKey { id, license_key }) = carry_out(config, old, LicenseAction::Rekey)? else {
        return Err(Failure::environment(
            "the server is another version, which does not do this",
        ));
    };
    let tag = id.log_tag();
    let text = match json {
        true => output::json(&Rekeyed {
            license_key: &license_key,
            id,
            replaces: old,
        })?,
        false => format!("{license_key}\n"),
    };
    show_key(&text, &tag)?;
    if !json {
        stderr::line(format_args!(
            "License {tag} replaces {}, which is now revoked; both are in the ledger. Its sites bind again with the new key. \
             The key is not stored.",
            old.log_tag()
        ));
    }
    Ok(Exit::Done)
}

/// Has the running server carry out an order; without one, this command does.
pub(super) fn carry_out(config: &Config, license: LicenseId, action: LicenseAction) -> Result<LicenseReply, Failure> {
    let registry = Registry::load_licenses(&config.paths.registry)?;
    let order = LicenseOrder { license, action };
    let reply = ledger_access::through(
        config,
        || server_questions::change_license(config, &order),
        async |bindings| {
            let mail = match &config.mail {
                Some(_) => MailQueue::open(&config.paths.store, Utc::now()).map(Some),
                None => Ok(None),
            };
            let mail = match mail {
                Ok(mail) => mail.map(Arc::new),
                Err(error) => return Ok(LicenseReply::Refused(error.to_string())),
            };
            let secrets = match license_secrets(config) {
                Ok(secrets) => secrets.map(Arc::new),
                Err(error) => return Ok(LicenseReply::Refused(error.to_string())),
            };
            let tools = LedgerTools {
                registry: &registry,
                bindings,
                secrets,
                mail,
            };
            tools.carry_out(order.clone()).await
        },
    )?;
    match reply {
        LicenseReply::Refused(reason) => {
            let hint = match reason == NO_MAIL_SERVER {
                true => NO_MAIL_SERVER_HINT,
                false => "`countersign license show` shows it",
            };
            let tag = license.log_tag();
            Err(Failure::input(NotChanged { tag, reason }).hint(hint))
        }
        reply => Ok(reply),
    }
}

/// The secrets that licenses are issued with; `None` if there are none.
fn license_secrets(config: &Config) -> Result<Option<LicenseSecrets>, SecretKeyError> {
    let paths = &config.paths;
    let issuing = match IssuingKeys::load(&paths.issuing_key, &paths.retired_keys) {
        Err(SecretKeyError::Missing { .. }) => return Ok(None),
        loaded => loaded?.0,
    };
    let (references, _) = ReferenceKeys::load(&paths.references_key, &paths.retired_keys)?;
    Ok(Some(LicenseSecrets::new(issuing, references)))
}
