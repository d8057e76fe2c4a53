//! `license rekey` and `license resend`: a new key for a license of the ledger, and its key by mail.

use serde::Serialize;

use crate::commands::{Exit, Failure, output};
use crate::serve::license_mails::MailedAgain;
use crate::serve::ops::license_answers::{LicenseAction, LicenseOrder, LicenseReply, NewKey, NewToken};
use countersign_mail::address::MailAddress;
use countersign_model::license_key::LicenseId;
use countersign_model::text::stderr;
use countersign_registry::Registry;
use countersign_settings::config::Config;

use crate::commands::license::change::{LicenseFields, TermOptions};
use crate::commands::license::issue::{show_key, tell_download_page};
use crate::commands::license::order::{NotChanged, carry_out};
use crate::commands::license::selector::{LicenseArg, SelectedLicense};
use crate::commands::store::licenses;

/// Arguments of `rekey`.
#[derive(clap::Args, Debug)]
pub(super) struct RekeyArgs {
    #[command(flatten)]
    license: LicenseArg,
    #[command(flatten)]
    options: TermOptions,
}

/// Arguments of `resend`.
#[derive(clap::Args, Debug)]
pub(super) struct ResendArgs {
    #[command(flatten)]
    license: LicenseArg,
    /// The buyer's mail address
    #[arg(long, value_name = "ADDRESS")]
    to: MailAddress,
    /// Mail the page from which the plugins are downloaded, without the key
    #[arg(long)]
    download: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Arguments of `composer-token`.
#[derive(clap::Args, Debug)]
pub(super) struct ComposerArgs {
    #[command(flatten)]
    license: LicenseArg,
    /// Make no token, and let the one that there is no longer work
    #[arg(long)]
    revoke: bool,
    #[command(flatten)]
    options: TermOptions,
}

#[derive(Serialize)]
struct ComposerDocument<'a> {
    id: LicenseId,
    /// `None` after a revocation.
    token: Option<&'a str>,
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
    /// The page from which the buyer downloads the plugins.
    #[serde(skip_serializing_if = "Option::is_none")]
    download_page: Option<&'a str>,
}

/// Gives a license of the ledger a new key, and prints it.
pub(super) fn rekey(args: &RekeyArgs, config: &Config) -> Result<Exit, Failure> {
    let registry = Registry::load_licenses(&config.paths.registry)?;
    let issued = licenses(config)?;
    let selected = args.license.select(&issued, &registry)?;
    let old = selected.license().id;
    let revoked = [("status", Some("\"revoked\"".to_owned()))];
    let order = args
        .options
        .order(selected, &registry, LicenseAction::Rekey, &LicenseFields(&revoked))?;
    output::refuse_unseen()?;
    let LicenseReply::Rekeyed(NewKey {
        id,
        license_key,
        download_page,
    }) = carry_out(config, &registry, &order)?
    else {
        return Err(Failure::environment(
            "the server is another version, which does not do this",
        ));
    };
    let tag = id.log_tag();
    let text = match args.options.change.json {
        true => output::json(&Rekeyed {
            license_key: &license_key,
            id,
            replaces: old,
            download_page: download_page.as_deref(),
        })?,
        false => format!("{license_key}\n"),
    };
    show_key(&text, || {
        format!("nobody has seen the key of license {tag}: give it another one")
    })?;
    if !args.options.change.json {
        stderr::line(format_args!(
            "License {tag} replaces {}, which is now revoked. Its sites bind again with the new key. The key is not stored.",
            old.log_tag()
        ));
        tell_download_page(download_page.as_deref());
    }
    Ok(Exit::Done)
}

/// Gives a license a Composer token and prints it, or revokes the one that it has.
pub(super) fn composer_token(args: &ComposerArgs, config: &Config) -> Result<Exit, Failure> {
    let registry = Registry::load_licenses(&config.paths.registry)?;
    let issued = licenses(config)?;
    let selected = args.license.select(&issued, &registry)?;
    let id = selected.license().id;
    let action = LicenseAction::Composer { revoke: args.revoke };
    let order = args.options.order(selected, &registry, action, &LicenseFields(&[]))?;
    output::refuse_unseen()?;
    let token = match carry_out(config, &registry, &order)? {
        LicenseReply::Composer(NewToken(token)) => Some(token),
        LicenseReply::Done { .. } => None,
        _ => {
            return Err(Failure::environment(
                "the server is another version, which does not do this",
            ));
        }
    };
    let tag = id.log_tag();
    let text = match (args.options.change.json, &token) {
        (true, token) => output::json(&ComposerDocument {
            id,
            token: token.as_deref(),
        })?,
        (false, Some(token)) => format!("{token}\n"),
        (false, None) => {
            let text = format!("License {tag} has no Composer token that works.\n");
            return output::print_change(&text);
        }
    };
    show_key(&text, || {
        format!("nobody has seen the Composer token of license {tag}: make another one")
    })?;
    if !args.options.change.json && token.is_some() {
        stderr::line(format_args!(
            "The Composer token of license {tag}. It is the user name in auth.json, with a site of the license as the password. It is not \
             shown again, and the one before no longer works."
        ));
    }
    Ok(Exit::Done)
}

/// Mails the key of a license of the ledger.
pub(super) fn resend(args: &ResendArgs, config: &Config) -> Result<Exit, Failure> {
    let registry = Registry::load_licenses(&config.paths.registry)?;
    let issued = licenses(config)?;
    let id = match args.license.select(&issued, &registry)? {
        SelectedLicense::Ledger(issued) => issued.license.id,
        SelectedLicense::Declared(license) => {
            let tag = license.id.log_tag();
            let reason = "a file declares it, and its key is stored nowhere".to_owned();
            return Err(Failure::input(NotChanged { tag, reason }).hint(format!(
                "`countersign license rekey {}` makes a new key",
                license.id.log_tag()
            )));
        }
    };
    let (what, named) = match args.download {
        true => (MailedAgain::Download, "download"),
        false => (MailedAgain::Key, "key"),
    };
    let order = LicenseOrder {
        note: None,
        license: id,
        action: LicenseAction::Resend(args.to.clone(), what),
        adopt: None,
        reason: None,
    };
    carry_out(config, &registry, &order)?;
    let text = match args.json {
        true => output::json(&Resent { id, queued: true })?,
        false => format!("The {named} of license {} waits to be mailed.\n", id.log_tag()),
    };
    output::print_change(&text)
}
