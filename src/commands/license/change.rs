//! `license renew | suspend | resume | revoke`: one change to one license. [`release`](super::release) makes another.

use std::path::Path;

use chrono::NaiveDate;

use crate::commands::Failure;
use crate::model::license::{License, Status};
use crate::registry::edit::{Change, Editor};

use super::selector::LicenseArg;
use super::{not_edited, parse_day};

/// What `renew` takes.
#[derive(clap::Args, Debug)]
pub struct RenewArgs {
    #[command(flatten)]
    license: LicenseArg,
    /// Its new last day, in UTC
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = parse_day)]
    expires: NaiveDate,
}

/// Sets another last day; a revoked license stays what it is.
pub fn renew(args: &RenewArgs, registry: &Path, today: NaiveDate) -> Result<String, Failure> {
    if args.expires < today {
        return Err(
            Failure::usage(format!("{} is past", args.expires)).hint("use suspend or revoke to withdraw a license")
        );
    }
    change(&args.license, registry, |license| {
        refuse_revoked(license)?;
        let change = Change::Expires(args.expires);
        let still = if license.status == Status::Suspended { ", and still suspended" } else { "" };
        Ok(decided(license.expires != args.expires, change, format!("set to expire on {}{still}", args.expires)))
    })
}

/// Withdraws a license until it is resumed.
pub fn suspend(license: &LicenseArg, registry: &Path) -> Result<String, Failure> {
    change(license, registry, |license| {
        refuse_revoked(license)?;
        let news = license.status != Status::Suspended;
        Ok(decided(news, Change::Status(Status::Suspended), "suspended".into()))
    })
}

/// Puts a suspended license back in use.
pub fn resume(license: &LicenseArg, registry: &Path) -> Result<String, Failure> {
    change(license, registry, |license| {
        refuse_revoked(license)?;
        Ok(decided(license.status != Status::Active, Change::Status(Status::Active), "active".into()))
    })
}

/// Withdraws a license for good.
pub fn revoke(license: &LicenseArg, registry: &Path) -> Result<String, Failure> {
    change(license, registry, |license| {
        let news = license.status != Status::Revoked;
        Ok(decided(news, Change::Status(Status::Revoked), "revoked".into()))
    })
}

/// What to write, if anything, and how to go on after the license's name to say what is true afterwards.
pub(super) struct Decision {
    pub change: Option<Change>,
    pub outcome: String,
}

fn decided(news: bool, change: Change, state: String) -> Decision {
    let word = if news { "now" } else { "already" };
    Decision { change: news.then_some(change), outcome: format!(" is {word} {state}") }
}

/// Finds the license, decides, and writes the change.
pub(super) fn change(
    wanted: &LicenseArg,
    registry: &Path,
    decide: impl FnOnce(&License) -> Result<Decision, Failure>,
) -> Result<String, Failure> {
    let editor = Editor::open(registry).map_err(not_edited)?;
    let license = wanted.find(editor.registry())?.clone();
    let tag = license.id.log_tag();
    let Decision { change, outcome } = decide(&license)?;
    if let Some(change) = change {
        editor.change(&license, &change).map_err(not_edited)?;
    }
    Ok(format!("License {tag}{outcome}.\n"))
}

fn refuse_revoked(license: &License) -> Result<(), Failure> {
    if license.status != Status::Revoked {
        return Ok(());
    }
    let refusal = format!("license {} is revoked, which is for good", license.id.log_tag());
    Err(Failure::input(refusal)
        .hint("issue a new license; if it was a mistake, change its status in the registry by hand"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Instance, parse, today};
    use super::*;

    fn outcome(result: Result<String, Failure>) -> String {
        let tags = [1, 2].map(|number| Instance::key(number).id().log_tag());
        let text = result.unwrap_or_else(|failure| format!("{:?}: {}", failure.exit, failure.error));
        text.replace(&tags[0], "first").replace(&tags[1], "second")
    }

    #[test]
    fn a_license_goes_from_one_state_to_the_next_and_says_so() {
        let instance = Instance::new();
        let key = Instance::key(1);
        let (path, key) = (instance.path(), key.reveal());
        let suspend = || outcome(suspend(&parse(key), path));
        let resume = || outcome(resume(&parse(key), path));
        let revoke = || outcome(revoke(&parse(key), path));
        let renew = |day: &str| outcome(renew(&parse(&format!("{key} --expires {day}")), path, today()));
        assert_eq!(resume(), "License first is already active.\n");
        assert_eq!(suspend(), "License first is now suspended.\n");
        assert_eq!(suspend(), "License first is already suspended.\n");
        assert_eq!(renew("2028-12-31"), "License first is now set to expire on 2028-12-31, and still suspended.\n");
        assert_eq!(resume(), "License first is now active.\n");
        assert_eq!(renew("2028-12-31"), "License first is already set to expire on 2028-12-31.\n");
        assert_eq!(renew("2026-11-19"), "Usage: 2026-11-19 is past");
        assert_eq!(revoke(), "License first is now revoked.\n");
        assert_eq!(revoke(), "License first is already revoked.\n");
        let refused = "Input: license first is revoked, which is for good";
        assert_eq!([suspend(), resume(), renew("2029-12-31")], [refused; 3]);
        let expected = Instance::toml().replacen("2027-12-31\n", "2028-12-31\n", 1);
        assert_eq!(instance.text(), expected.replacen("'\n", "'\nstatus = \"revoked\"\n", 1));
    }
}
