//! `license rekey` and `license resend`: a new key for a license of the ledger, and its key by mail.

use serde::Serialize;

use crate::commands::{Exit, Failure, output};
use crate::serve::ops::license_answers::{LicenseAction, LicenseOrder, LicenseReply, NewKey};
use countersign_mail::address::MailAddress;
use countersign_model::license_key::LicenseId;
use countersign_model::text::stderr;
use countersign_registry::Registry;
use countersign_settings::config::Config;

use crate::commands::license::change::{LicenseFields, TermOptions};
use crate::commands::license::issue::{show_key, tell_download_page};
use crate::commands::license::issued::licenses;
use crate::commands::license::order::{NotChanged, carry_out};
use crate::commands::license::selector::{LicenseArg, SelectedLicense};

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
    let order = LicenseOrder {
        note: None,
        license: id,
        action: LicenseAction::Resend(args.to.clone()),
        adopt: None,
        reason: None,
    };
    carry_out(config, &registry, &order)?;
    let text = match args.json {
        true => output::json(&Resent { id, queued: true })?,
        false => format!("The key of license {} waits to be mailed.\n", id.log_tag()),
    };
    output::print_change(&text)
}
