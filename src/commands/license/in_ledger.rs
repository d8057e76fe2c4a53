//! Verbs on licenses of the ledger, those that programs issued, and on bindings of any license. The running server changes them, or
//! the command itself.

use chrono::{DateTime, Utc};

use crate::commands::license_defaults::license_defaults;
use crate::commands::{Exit, Failure, output};
use crate::serve::ops::license_answers::{LicenseAction, LicenseReply};
use countersign_model::license::{License, SiteLimit};
use countersign_model::license_key::LicenseId;
use countersign_model::license_step::{LicenseStep, LicenseTerms};
use countersign_model::text::printable::PrintableLines;
use countersign_registry::Registry;
use countersign_settings::config::Config;

use crate::commands::license::arguments::OwnLimit;
use crate::commands::license::change_options::ChangeOptions;
use crate::commands::license::issued::licenses;
use crate::commands::license::ledger_key;
use crate::commands::license::selector::{LicenseArg, UnknownLicense};
use crate::commands::license::verb::Verb;
use crate::commands::license::view::View;

/// Carries out a verb on a license that no file has; `None` if the ledger has none either.
pub(super) fn change(verb: &Verb, config: &Config, now: DateTime<Utc>) -> Result<Option<Exit>, Failure> {
    let Some(wanted) = verb.license() else { return Ok(None) };
    let issued = licenses(config)?;
    let Some(issued) = wanted.find_issued(&issued)? else {
        return Ok(None);
    };
    let id = issued.license.id;
    if let Verb::Rekey(args) = verb {
        return ledger_key::rekey(id, args.told.json, config).map(Some);
    }
    let Some((step, told, outcome)) = planned(verb, &issued.license, config, now)? else {
        return Ok(None);
    };
    carry_out(wanted, id, (step, told, outcome), config, now).map(Some)
}

/// Carries out `release` or `move`, whether a file has the license or the ledger.
pub(super) fn change_bindings(verb: &Verb, config: &Config, now: DateTime<Utc>) -> Result<Exit, Failure> {
    let nothing = || Failure::usage("nothing to do");
    let wanted = verb.license().ok_or_else(nothing)?;
    let registry = Registry::load_licenses(&config.paths.registry)?;
    let issued = licenses(config)?;
    let license = match wanted.find(&registry) {
        Err(failure) if failure.error.is::<UnknownLicense>() => &wanted.find_issued(&issued)?.ok_or(failure)?.license,
        found => found?,
    };
    let planned = planned(verb, license, config, now)?.ok_or_else(nothing)?;
    carry_out(wanted, license.id, planned, config, now)
}

/// Has the step taken, and tells the result.
fn carry_out(
    wanted: &LicenseArg,
    id: LicenseId,
    (step, told, outcome): PlannedStep<'_>,
    config: &Config,
    now: DateTime<Utc>,
) -> Result<Exit, Failure> {
    let reply = ledger_key::carry_out(config, id, LicenseAction::Step(step))?;
    let changed = matches!(reply, LicenseReply::Done { changed: true });
    let word = if changed { "now" } else { "already" };
    let message = format!("License {} is {word} {outcome}.", id.log_tag());
    tell(wanted, told, config, changed, &message, now)
}

/// A step, the options of its verb, and the end of the sentence about it.
type PlannedStep<'v> = (LicenseStep, &'v ChangeOptions, String);

/// The step of a verb; `None` if it is none.
fn planned<'v>(
    verb: &'v Verb,
    license: &License,
    config: &Config,
    now: DateTime<Utc>,
) -> Result<Option<PlannedStep<'v>>, Failure> {
    let today = now.date_naive();
    Ok(Some(match verb {
        Verb::Renew(args) => {
            let expires = args.expires.from(license.expires.max(today));
            (
                LicenseStep::Renew(expires),
                &args.told,
                format!("set to expire on {expires}"),
            )
        }
        Verb::Suspend(args) => (LicenseStep::Suspend, &args.told, "suspended".to_owned()),
        Verb::Resume(args) => (LicenseStep::Resume, &args.told, "active".to_owned()),
        Verb::Revoke(args) => (LicenseStep::Revoke, &args.told, "revoked".to_owned()),
        Verb::Release(args) => match (&args.host, args.all) {
            (Some(host), _) => {
                let outcome = format!("released from {host}");
                (LicenseStep::ReleaseHost(host.clone()), &args.told, outcome)
            }
            (None, true) => (
                LicenseStep::ReleaseAll,
                &args.told,
                "released from every site".to_owned(),
            ),
            (None, false) if license.sites != SiteLimit::DEFAULT => {
                let hint = "name the site with --host, or release all of them with --all";
                return Err(Failure::usage("this license is for more than one site").hint(hint));
            }
            (None, false) => (LicenseStep::ReleaseOne, &args.told, "released from its site".to_owned()),
        },
        Verb::Sites(args) => {
            let limit = |sites| match sites {
                SiteLimit::Limited(limit) => Some(limit),
                SiteLimit::Unlimited => None,
            };
            let terms = LicenseTerms {
                sites: args.sites.map(limit),
                staging_sites: args.staging_sites.map(|OwnLimit(limit)| limit),
                site_moves: args.site_moves.map(|OwnLimit(limit)| limit),
                ..LicenseTerms::default()
            };
            (LicenseStep::Edit(terms), &args.told, args.outcome())
        }
        Verb::Move(args) => {
            let from = &args.from;
            let to = &args.to;
            if from == to {
                return Err(Failure::usage(format!("--from and --to are both {to}")));
            }
            let step = LicenseStep::Move {
                from: from.clone(),
                to: to.clone(),
                staging_sites: license_defaults(config).staging_sites,
            };
            (step, &args.told, format!("moved from {from} to {to}"))
        }
        Verb::Issue(_)
        | Verb::List(_)
        | Verb::Show(_)
        | Verb::Rekey(_)
        | Verb::Resend(_)
        | Verb::Forget(_)
        | Verb::Import(_) => return Ok(None),
    }))
}

fn tell(
    wanted: &LicenseArg,
    told: &ChangeOptions,
    config: &Config,
    changed: bool,
    message: &str,
    now: DateTime<Utc>,
) -> Result<Exit, Failure> {
    let print = if changed { output::print_change } else { output::print };
    if !told.json {
        return print(&PrintableLines(format!("{message}\n")).to_string());
    }
    let today = now.date_naive();
    let registry = Registry::load_licenses(&config.paths.registry)?;
    let issued = licenses(config)?;
    let view = match wanted.find(&registry) {
        Ok(license) => View::new(license, &registry, today),
        Err(failure) => View::of_ledger(wanted.find_issued(&issued)?.ok_or(failure)?, today),
    };
    let mut document = serde_json::json!({
        "changed": changed,
        "message": message,
        "notes": [],
        "license": view,
    });
    if told.is_waiting() {
        // The server answers once a change is in force.
        document["in_force"] = true.into();
    }
    print(&output::json(&document)?)
}
