//! `license renew | suspend | resume | revoke`: one change to one license.
//! [`release`](crate::commands::license::release) makes another.

use std::path::Path;

use chrono::{NaiveDate, Utc};

use crate::commands::Failure;
use countersign_model::license::{License, LicenseStatus};
use countersign_model::license_change::LicenseChange;
use countersign_registry::edit::Editor;

use crate::commands::license::change_options::ChangeOptions;
use crate::commands::license::done::Done;
use crate::commands::license::expires::Expires;
use crate::commands::license::selector::LicenseArg;

/// Arguments of `renew`.
#[derive(clap::Args, Debug)]
pub(super) struct RenewArgs {
    #[command(flatten)]
    pub(super) license: LicenseArg,
    /// New last day, in UTC: a date, 'never', or a period that begins when the license ends, such as +1y
    #[arg(long, value_name = "DATE|+1y|+30d|never")]
    pub(super) expires: Expires,
    #[command(flatten)]
    pub told: ChangeOptions,
}

/// Arguments of a verb that needs only a license.
#[derive(clap::Args, Debug)]
pub(super) struct OneArgs {
    #[command(flatten)]
    pub(super) license: LicenseArg,
    #[command(flatten)]
    pub told: ChangeOptions,
}

/// Sets a new last day; a revoked license stays revoked. A period counts from the last day if that is in the future,
/// so that nobody loses days by renewing early.
pub(super) fn renew(args: &RenewArgs, registry: &Path, today: NaiveDate) -> Result<Done, Failure> {
    change(&args.license, registry, |license| {
        refuse_revoked(license)?;
        let expires = args.expires.from(license.expires.max(today));
        if expires < today {
            return Err(
                Failure::usage(format!("{expires} is past")).hint("use suspend or revoke to withdraw a license")
            );
        }
        let change = LicenseChange::Expires(expires);
        let still = if license.status == LicenseStatus::Suspended {
            ", and still suspended"
        } else {
            ""
        };
        Ok(decided(
            license.expires != expires,
            change,
            format!("set to expire on {expires}{still}"),
        ))
    })
}

/// Suspends a license.
pub(super) fn suspend(args: &OneArgs, registry: &Path) -> Result<Done, Failure> {
    change(&args.license, registry, |license| {
        refuse_revoked(license)?;
        let news = license.status != LicenseStatus::Suspended;
        Ok(decided(
            news,
            LicenseChange::Status(LicenseStatus::Suspended),
            "suspended".into(),
        ))
    })
}

/// Resumes a suspended license.
pub(super) fn resume(args: &OneArgs, registry: &Path) -> Result<Done, Failure> {
    change(&args.license, registry, |license| {
        refuse_revoked(license)?;
        Ok(decided(
            license.status != LicenseStatus::Active,
            LicenseChange::Status(LicenseStatus::Active),
            "active".into(),
        ))
    })
}

/// Revokes a license for good.
pub(super) fn revoke(args: &OneArgs, registry: &Path) -> Result<Done, Failure> {
    change(&args.license, registry, |license| {
        let news = license.status != LicenseStatus::Revoked;
        Ok(decided(
            news,
            LicenseChange::Status(LicenseStatus::Revoked),
            "revoked".into(),
        ))
    })
}

/// The changes to write, if any, and the end of the sentence about the license's new state.
pub(super) struct PlannedChange {
    pub changes: Vec<LicenseChange>,
    pub outcome: String,
}

pub(super) fn decided(news: bool, change: LicenseChange, state: String) -> PlannedChange {
    let word = if news { "now" } else { "already" };
    PlannedChange {
        changes: news.then_some(change).into_iter().collect(),
        outcome: format!(" is {word} {state}"),
    }
}

/// Finds the license, decides, and writes the changes.
pub(super) fn change(
    wanted: &LicenseArg,
    registry: &Path,
    decide: impl FnOnce(&License) -> Result<PlannedChange, Failure>,
) -> Result<Done, Failure> {
    let editor = Editor::open(registry)?;
    let before = wanted.find(editor.registry())?.clone();
    let PlannedChange { changes, outcome } = decide(&before)?;
    let changed = !changes.is_empty();
    let registry = match changed {
        true => editor.change(&before, &changes)?,
        false => editor.into_registry(),
    };
    let message = format!("License {}{outcome}.", before.id.log_tag());
    let license = LicenseChange::all_applied_to(&changes, &before);
    Ok(Done {
        changed,
        message,
        notes: Vec::new(),
        license,
        registry,
        today: Utc::now().date_naive(),
    })
}

pub(super) fn refuse_revoked(license: &License) -> Result<(), Failure> {
    if license.status != LicenseStatus::Revoked {
        return Ok(());
    }
    let refusal = format!("license {} is revoked, which cannot be undone", license.id.log_tag());
    Err(Failure::input(refusal)
        .hint("issue a new license; if it was a mistake, change its status in the registry by hand"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::license::testing::{Instance, outcome, parse, today};

    #[test]
    fn a_license_goes_from_one_state_to_the_next_and_says_so() {
        let instance = Instance::new();
        let key = Instance::key(1);
        let path = instance.path();
        let key = key.reveal();
        let suspend = || outcome(suspend(&parse(key), path));
        let resume = || outcome(resume(&parse(key), path));
        let revoke = || outcome(revoke(&parse(key), path));
        let renew = |day: &str| outcome(renew(&parse(&format!("{key} --expires {day}")), path, today()));
        assert_eq!(resume(), "License first is already active.\n");
        assert_eq!(suspend(), "License first is now suspended.\n");
        assert_eq!(suspend(), "License first is already suspended.\n");
        assert_eq!(
            renew("2028-12-31"),
            "License first is now set to expire on 2028-12-31, and still suspended.\n"
        );
        assert_eq!(resume(), "License first is now active.\n");
        assert_eq!(
            renew("2028-12-31"),
            "License first is already set to expire on 2028-12-31.\n"
        );
        assert_eq!(renew("2026-11-19"), "Usage: 2026-11-19 is past");
        assert_eq!(
            renew("+1y"),
            "License first is now set to expire on 2029-12-31.\n",
            "from its last day on"
        );
        assert_eq!(renew("never"), "License first is now set to expire on 9999-12-31.\n");
        assert_eq!(renew("+30d"), "License first is already set to expire on 9999-12-31.\n");
        assert_eq!(
            renew("2028-12-31"),
            "License first is now set to expire on 2028-12-31.\n"
        );
        assert_eq!(revoke(), "License first is now revoked.\n");
        assert_eq!(revoke(), "License first is already revoked.\n");
        let refused = "Input: license first is revoked, which cannot be undone";
        assert_eq!([suspend(), resume(), renew("2029-12-31")], [refused; 3]);
        let expected = Instance::toml().replacen("2027-12-31\n", "2028-12-31\n", 1);
        assert_eq!(
            instance.text(),
            expected.replacen("'\n", "'\nstatus = \"revoked\"\n", 1)
        );
    }
}
