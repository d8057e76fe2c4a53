//! The verbs that change a license, from `renew` to `rights`: one step of a license of the ledger, or of its bindings.
//!
//! A license that only a file declares is changed in that file, by a person: the verb fails and prints what to write there.
//! Bindings are in the ledger in any case, so `release` and `move` also act on a declared license.

use std::path::Path;

use chrono::{DateTime, NaiveDate, Utc};
use serde::Serialize;

use crate::build::counted;
use crate::commands::server_questions::license_defaults;
use crate::commands::store::{licenses, store_source};
use crate::commands::{Exit, Failure, output};
use crate::serve::ops::license_answers::{LicenseAction, LicenseOrder, LicenseReply};
use countersign_model::license::{License, LicenseStatus, SiteLimit};
use countersign_model::license_key::LicenseId;
use countersign_model::license_step::{LicenseStep, LicenseTerms};
use countersign_model::site_host::SiteHost;
use countersign_model::text::printable::{Printable, PrintableLines};
use countersign_registry::Registry;
use countersign_settings::config::Config;

use crate::commands::license::arguments::{Expires, OwnLimit, RightsFlags, parse_host, parse_sites};
use crate::commands::license::order::carry_out;
use crate::commands::license::selector::{LicenseArg, SelectedLicense};
use crate::commands::license::view::View;

/// Options of every verb that changes a license.
#[derive(clap::Args, Debug)]
pub(super) struct ChangeOptions {
    /// Why, for `license history`; people may read it, and it can be erased
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Options of a verb that changes the terms of a license.
#[derive(clap::Args, Debug)]
pub(super) struct TermOptions {
    /// Take a license that only a file declares into the ledger, with this change: from then on, the file does not count
    #[arg(long)]
    adopt: bool,
    #[command(flatten)]
    pub change: ChangeOptions,
}

impl TermOptions {
    /// The order for the selected license.
    ///
    /// # Errors
    /// Only a file declares the license, and it is not to be adopted. The failure says what to write there.
    pub(super) fn order(
        &self,
        selected: SelectedLicense<'_>,
        registry: &Registry,
        action: LicenseAction,
        fields: &LicenseFields<'_>,
    ) -> Result<LicenseOrder, Failure> {
        let adopt = match selected {
            SelectedLicense::Ledger(_) => None,
            SelectedLicense::Declared(license) if self.adopt => Some(license.grant_digest()),
            SelectedLicense::Declared(license) => return Err(declared(license, registry, fields)),
        };
        Ok(LicenseOrder {
            adopt,
            note: adopt.map(|_| selected.license().details.note.clone()),
            ..self.change.order(selected.license().id, action)
        })
    }
}

impl ChangeOptions {
    pub(super) fn order(&self, license: LicenseId, action: LicenseAction) -> LicenseOrder {
        LicenseOrder {
            license,
            action,
            adopt: None,
            note: None,
            reason: self.reason.clone(),
        }
    }
}

/// Arguments of `renew`.
#[derive(clap::Args, Debug)]
pub(super) struct RenewArgs {
    #[command(flatten)]
    license: LicenseArg,
    /// New last day, in UTC: a date, 'never', or a period that begins when the license ends, such as +1y
    #[arg(long, value_name = "DATE|+1y|+30d|never")]
    expires: Expires,
    #[command(flatten)]
    options: TermOptions,
}

/// Arguments of a verb that needs only a license.
#[derive(clap::Args, Debug)]
pub(super) struct OneArgs {
    #[command(flatten)]
    license: LicenseArg,
    #[command(flatten)]
    options: TermOptions,
}

/// Arguments of `release`.
#[derive(clap::Args, Debug)]
pub(super) struct SiteReleaseArgs {
    #[command(flatten)]
    license: LicenseArg,
    /// The site to release
    #[arg(long, value_name = "HOST", value_parser = parse_host)]
    host: Option<SiteHost>,
    /// Release all sites; a license for one site needs neither --host nor --all
    #[arg(long, conflicts_with = "host")]
    all: bool,
    #[command(flatten)]
    options: ChangeOptions,
}

/// Arguments of `move`.
#[derive(clap::Args, Debug)]
pub(super) struct MoveArgs {
    #[command(flatten)]
    license: LicenseArg,
    /// The site to release
    #[arg(long, value_name = "HOST", value_parser = parse_host)]
    from: SiteHost,
    /// The site to bind instead
    #[arg(long, value_name = "HOST", value_parser = parse_host)]
    to: SiteHost,
    #[command(flatten)]
    options: ChangeOptions,
}

/// Arguments of `sites`.
#[derive(clap::Args, Debug)]
pub(super) struct SitesArgs {
    #[command(flatten)]
    license: LicenseArg,
    /// Number of sites that may use it at once, or 'unlimited'
    #[arg(value_name = "N", value_parser = parse_sites, required_unless_present_any = ["staging_sites", "site_moves"])]
    sites: Option<SiteLimit>,
    /// Number of staging copies that need no seat, or 'default' for the server's setting
    #[arg(long, value_name = "N|default")]
    staging_sites: Option<OwnLimit>,
    /// How often it may move to another site in 30 days without you, or 'default' for the server's setting
    #[arg(long, value_name = "N|default")]
    site_moves: Option<OwnLimit>,
    #[command(flatten)]
    options: TermOptions,
}

/// Arguments of `rights`.
#[derive(clap::Args, Debug)]
pub(super) struct RightsArgs {
    #[command(flatten)]
    license: LicenseArg,
    #[command(flatten)]
    rights: RightsFlags,
    #[command(flatten)]
    options: TermOptions,
}

/// A verb that changes a license.
#[derive(Clone, Copy)]
pub(super) enum ChangeVerb<'a> {
    Renew(&'a RenewArgs),
    Suspend(&'a OneArgs),
    Resume(&'a OneArgs),
    Revoke(&'a OneArgs),
    Release(&'a SiteReleaseArgs),
    Move(&'a MoveArgs),
    Sites(&'a SitesArgs),
    Rights(&'a RightsArgs),
}

/// What a verb does to a license.
#[derive(Debug)]
struct PlannedStep {
    step: LicenseStep,
    /// The end of a sentence about the license: `suspended`.
    outcome: String,
}

#[derive(Serialize)]
struct ChangeDocument<'a> {
    changed: bool,
    message: &'a str,
    notes: &'a [String],
    license: View<'a>,
}

/// Changes the selected license.
pub(super) fn run(verb: ChangeVerb<'_>, config: &Config, now: DateTime<Utc>) -> Result<Exit, Failure> {
    let registry = Registry::load_licenses(&config.paths.registry)?;
    let wanted = verb.license();
    let issued = licenses(config)?;
    let selected = wanted.select(&issued, &registry)?;
    let license = selected.license();
    let id = license.id;
    let PlannedStep { step, outcome } = verb.plan(license, now.date_naive(), config)?;
    let fields = fields(&step);
    let action = LicenseAction::Step(step);
    let order = match verb.term_options() {
        Some(options) => options.order(selected, &registry, action, &LicenseFields(&fields))?,
        None => verb.options().order(id, action),
    };
    let reply = carry_out(config, &registry, &order)?;
    let changed = matches!(reply, LicenseReply::Done { changed: true });
    let word = if changed { "now" } else { "already" };
    let message = format!("License {} is {word} {outcome}.", id.log_tag());
    // As it is after the change.
    let issued = licenses(config)?;
    let after = wanted.select(&issued, &registry)?;
    let notes = match verb {
        ChangeVerb::Sites(_) => surplus_seats(after.license(), config).into_iter().collect(),
        _ => Vec::new(),
    };
    report(
        verb.options(),
        changed,
        &message,
        &notes,
        after,
        &registry,
        now.date_naive(),
    )
}

/// Prints what became of a license.
pub(super) fn report(
    options: &ChangeOptions,
    changed: bool,
    message: &str,
    notes: &[String],
    after: SelectedLicense<'_>,
    registry: &Registry,
    today: NaiveDate,
) -> Result<Exit, Failure> {
    let print = if changed { output::print_change } else { output::print };
    if !options.json {
        let notes: String = notes.iter().map(|note| format!("note: {note}\n")).collect();
        return print(&PrintableLines(format!("{message}\n{notes}")).to_string());
    }
    let license = match after {
        SelectedLicense::Ledger(issued) => View::of_ledger(issued, today),
        SelectedLicense::Declared(license) => View::new(license, registry, today),
    };
    print(&output::json(&ChangeDocument {
        changed,
        message,
        notes,
        license,
    })?)
}

/// A note if the sites of a license use more seats than it is for.
fn surplus_seats(license: &License, config: &Config) -> Option<String> {
    let SiteLimit::Limited(limit) = license.sites else {
        return None;
    };
    let bound = countersign_ledger::bindings_of(store_source(&config.paths), &license.id).ok()?;
    let used = license.seat_use(&bound[..], &license_defaults(config).staging).seats;
    (used > limit.get() as usize)
        .then(|| format!("its sites use {used} seats; they stay bound until they are released"))
}

impl ChangeVerb<'_> {
    fn license(&self) -> &LicenseArg {
        match self {
            Self::Renew(args) => &args.license,
            Self::Suspend(args) | Self::Resume(args) | Self::Revoke(args) => &args.license,
            Self::Release(args) => &args.license,
            Self::Move(args) => &args.license,
            Self::Sites(args) => &args.license,
            Self::Rights(args) => &args.license,
        }
    }

    /// Those of a verb that changes terms; `None` for one about bindings.
    fn term_options(&self) -> Option<&TermOptions> {
        match self {
            Self::Renew(args) => Some(&args.options),
            Self::Suspend(args) | Self::Resume(args) | Self::Revoke(args) => Some(&args.options),
            Self::Sites(args) => Some(&args.options),
            Self::Rights(args) => Some(&args.options),
            Self::Release(_) | Self::Move(_) => None,
        }
    }

    fn options(&self) -> &ChangeOptions {
        match self {
            Self::Renew(args) => &args.options.change,
            Self::Suspend(args) | Self::Resume(args) | Self::Revoke(args) => &args.options.change,
            Self::Sites(args) => &args.options.change,
            Self::Rights(args) => &args.options.change,
            Self::Release(args) => &args.options,
            Self::Move(args) => &args.options,
        }
    }

    /// The step that the verb means for this license. A period counts from the last day if that is in the future, so that nobody
    /// loses days by renewing early.
    fn plan(&self, license: &License, today: NaiveDate, config: &Config) -> Result<PlannedStep, Failure> {
        let planned = |step, outcome: &str| PlannedStep {
            step,
            outcome: outcome.to_owned(),
        };
        Ok(match self {
            Self::Renew(args) => {
                let expires = args.expires.from(license.expires.max(today));
                if expires < today {
                    return Err(Failure::usage(format!("{expires} is past"))
                        .hint("use suspend or revoke to withdraw a license"));
                }
                let still = match license.status {
                    LicenseStatus::Suspended => ", and still suspended",
                    LicenseStatus::Active | LicenseStatus::Revoked => "",
                };
                planned(
                    LicenseStep::Renew(expires),
                    &format!("set to expire on {expires}{still}"),
                )
            }
            Self::Suspend(_) => planned(LicenseStep::Suspend, "suspended"),
            Self::Resume(_) => planned(LicenseStep::Resume, "active"),
            Self::Revoke(_) => planned(LicenseStep::Revoke, "revoked"),
            Self::Release(args) => match (&args.host, args.all) {
                (Some(host), _) => planned(LicenseStep::ReleaseHost(host.clone()), &format!("released from {host}")),
                (None, true) => planned(LicenseStep::ReleaseAll, "released from every site"),
                (None, false) if license.sites != SiteLimit::DEFAULT => {
                    let hint = "name the site with --host, or release all of them with --all";
                    return Err(Failure::usage("this license is for more than one site").hint(hint));
                }
                (None, false) => planned(LicenseStep::ReleaseOne, "released from its site"),
            },
            Self::Move(MoveArgs { from, to, .. }) if from == to => {
                return Err(Failure::usage(format!("--from and --to are both {to}")));
            }
            Self::Move(MoveArgs { from, to, .. }) => {
                let step = LicenseStep::Move {
                    from: from.clone(),
                    to: to.clone(),
                    staging: license_defaults(config).staging,
                };
                planned(step, &format!("moved from {from} to {to}"))
            }
            Self::Sites(args) => planned(LicenseStep::Edit(args.terms()), &args.outcome()),
            Self::Rights(args) => {
                let rights = args.rights.edit();
                let outcomes = rights.outcomes();
                if outcomes.is_empty() {
                    let hint = "`countersign license rights --help` lists the rights";
                    return Err(Failure::usage("no right is given").hint(hint));
                }
                let terms = LicenseTerms {
                    rights,
                    ..LicenseTerms::default()
                };
                planned(LicenseStep::Edit(terms), &outcomes.join(", "))
            }
        })
    }
}

impl SitesArgs {
    fn terms(&self) -> LicenseTerms {
        let limit = |sites| match sites {
            SiteLimit::Limited(limit) => Some(limit),
            SiteLimit::Unlimited => None,
        };
        LicenseTerms {
            sites: self.sites.map(limit),
            staging_sites: self.staging_sites.map(|OwnLimit(limit)| limit),
            site_moves: self.site_moves.map(|OwnLimit(limit)| limit),
            ..LicenseTerms::default()
        }
    }

    /// The new limits, as the end of a sentence about the license.
    fn outcome(&self) -> String {
        let sites = self.sites.map(|sites| match sites {
            SiteLimit::Limited(limit) => counted(limit.get(), "site"),
            SiteLimit::Unlimited => "any number of sites".to_owned(),
        });
        let copies = self.staging_sites.map(|OwnLimit(limit)| match limit {
            Some(1) => "1 staging copy".to_owned(),
            Some(limit) => format!("{limit} staging copies"),
            None => "the server's number of staging copies".to_owned(),
        });
        let moves = self.site_moves.map(|OwnLimit(limit)| match limit {
            Some(limit) => format!("{} in 30 days", counted(limit, "move")),
            None => "the server's number of moves".to_owned(),
        });
        let limits: Vec<_> = [sites, copies, moves].into_iter().flatten().collect();
        format!("for {}", limits.join(", "))
    }
}

/// Only a file declares the license, and no command writes there.
#[derive(Debug, thiserror::Error)]
#[error("license {tag} is declared in {place}, where only people write")]
struct DeclaredLicense {
    tag: String,
    place: String,
}

/// The failure of a verb on a license that only a file declares, with the fields to write there.
fn declared(license: &License, registry: &Registry, fields: &LicenseFields<'_>) -> Failure {
    let (file, line) = registry
        .place(&license.id)
        .unwrap_or((Path::new("registry/licenses"), 1));
    let place = format!("{}:{line}", Printable(file.display()));
    let is_json = file.extension().is_some_and(|extension| extension == "jsonl");
    let lines = match is_json {
        true => fields.json(),
        false => fields.toml(),
    };
    Failure::input(DeclaredLicense {
        tag: license.id.log_tag(),
        place: place.clone(),
    })
    .hint(format!(
        "in {place} {lines}; or --adopt takes the license into the ledger with this change"
    ))
}

/// Fields of a declaration with their new values in TOML; `None` removes a field.
pub(super) struct LicenseFields<'a>(pub &'a [(&'static str, Option<String>)]);

impl LicenseFields<'_> {
    fn toml(&self) -> String {
        self.with(&|name, value| format!("write `{name} = {value}`"))
    }

    /// The fields for a line of a JSONL file, where a date is a string.
    fn json(&self) -> String {
        self.with(&|name, value| match value.parse::<NaiveDate>() {
            Ok(day) => format!("write `\"{name}\":\"{day}\"`"),
            Err(_) => format!("write `\"{name}\":{value}`"),
        })
    }

    fn with(&self, write: &dyn Fn(&str, &str) -> String) -> String {
        let field = |(name, value): &(&str, Option<String>)| match value {
            Some(value) => write(name, value),
            None => format!("remove `{name}`"),
        };
        let fields: Vec<_> = self.0.iter().map(field).collect();
        fields.join(" and ")
    }
}

/// The fields that a step changes.
fn fields(step: &LicenseStep) -> Vec<(&'static str, Option<String>)> {
    let quoted = |status: LicenseStatus| Some(format!("\"{}\"", status.as_str()));
    match step {
        LicenseStep::Renew(expires) => vec![("expires", Some(expires.to_string()))],
        LicenseStep::Suspend => vec![("status", quoted(LicenseStatus::Suspended))],
        LicenseStep::Resume => vec![("status", quoted(LicenseStatus::Active))],
        LicenseStep::Revoke => vec![("status", quoted(LicenseStatus::Revoked))],
        LicenseStep::Edit(terms) => {
            let sites = terms.sites.map(|sites| {
                let text = sites.map_or_else(|| "\"unlimited\"".to_owned(), |sites| sites.to_string());
                ("sites", Some(text))
            });
            let number =
                |name, limit: Option<Option<u16>>| limit.map(|limit| (name, limit.map(|limit| limit.to_string())));
            let limits = [
                number("staging_sites", terms.staging_sites),
                number("site_moves", terms.site_moves),
            ];
            // Lists and booleans are the same text in JSON and in TOML.
            let rights = terms.rights.fields().into_iter();
            let rights = rights.map(|(name, value)| (name, value.map(|value| value.to_string())));
            sites
                .into_iter()
                .chain(limits.into_iter().flatten())
                .chain(rights)
                .collect()
        }
        // They are about bindings.
        LicenseStep::ReleaseHost(_) | LicenseStep::ReleaseOne | LicenseStep::ReleaseAll | LicenseStep::Move { .. } => {
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::license::testing::{Instance, parse, today};

    fn license(status: LicenseStatus) -> License {
        let instance = Instance::new();
        let license = instance.registry().license(&Instance::key(1).id()).unwrap().clone();
        License { status, ..license }
    }

    #[test]
    fn a_renewal_counts_from_the_last_day_and_never_goes_back() {
        let plan = |expires: &str, status| {
            let args: RenewArgs = parse(&format!("x --expires {expires}"));
            let planned = ChangeVerb::Renew(&args).plan(&license(status), today(), &Instance::new().config());
            planned
                .map(|planned| planned.outcome)
                .map_err(|failure| failure.error.to_string())
        };
        let active = LicenseStatus::Active;
        assert_eq!(plan("+1y", active), Ok("set to expire on 2028-12-31".to_owned()));
        assert_eq!(plan("2026-11-19", active), Err("2026-11-19 is past".to_owned()));
        assert_eq!(
            plan("never", LicenseStatus::Suspended),
            Ok("set to expire on 9999-12-31, and still suspended".to_owned())
        );
    }

    #[test]
    fn a_declared_license_is_changed_in_its_file_and_the_hint_has_what_to_write() {
        let instance = Instance::new();
        let registry = instance.registry();
        let first = registry.license(&Instance::key(1).id()).unwrap();
        let hint = |step: LicenseStep| {
            let failure = declared(first, &registry, &LicenseFields(&fields(&step)));
            assert_eq!(failure.exit, Exit::Input);
            let place = format!("{}/licenses/licenses.toml:1", instance.path().display());
            let hint = failure.hint.unwrap().replace(&format!("in {place} "), "");
            hint.split("; or ").next().unwrap().to_owned()
        };
        assert_eq!(hint(LicenseStep::Suspend), "write `status = \"suspended\"`");
        assert_eq!(hint(LicenseStep::Renew(today())), "write `expires = 2026-11-20`");
        let sites: SitesArgs = parse("x unlimited --staging-sites 2 --site-moves default");
        assert_eq!(
            hint(LicenseStep::Edit(sites.terms())),
            "write `sites = \"unlimited\"` and write `staging_sites = 2` and remove `site_moves`"
        );
        let json = LicenseFields(&fields(&LicenseStep::Renew(today()))).json();
        assert_eq!(json, "write `\"expires\":\"2026-11-20\"`");
    }
}
