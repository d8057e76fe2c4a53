//! `license release`: makes a license's bindings void, so that another site can use the seat.
//!
//! A binding is void if it is older than the release. The two times come from two clocks: the server's and this
//! command's. So the release gets a time later than every binding it is for, whatever this clock says.

use std::path::Path;

use chrono::{DateTime, SecondsFormat, Utc};

use crate::commands::Failure;
use crate::model::binding::Binding;
use crate::model::license::{License, SiteLimit};
use crate::model::license_change::LicenseChange;
use crate::model::license_key::LicenseId;
use crate::model::release_time::ReleaseTime;
use crate::model::site_host::SiteHost;
use crate::store::StoreError;
use crate::text::error_chain::ErrorChain;

use crate::commands::license::arguments::parse_host;
use crate::commands::license::change::{PlannedChange, change};
use crate::commands::license::change_options::ChangeOptions;
use crate::commands::license::done::Done;
use crate::commands::license::selector::LicenseArg;

/// Arguments of `release`.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) license: LicenseArg,
    /// The site to release
    #[arg(long, value_name = "HOST", value_parser = parse_host)]
    pub(super) host: Option<SiteHost>,
    /// Release all sites; a license for one site needs neither --host nor --all
    #[arg(long, conflicts_with = "host")]
    pub(super) all: bool,
    #[command(flatten)]
    pub told: ChangeOptions,
}

/// Makes the bindings of one host, or of all, void. `bindings` reads those of a license from the ledger.
pub(super) fn release(
    args: &Args,
    registry: &Path,
    bindings: impl Fn(&LicenseId) -> Result<Vec<Binding>, StoreError>,
    now: DateTime<Utc>,
) -> Result<Done, Failure> {
    let mut notes = Vec::new();
    let done = change(&args.license, registry, |license| {
        if args.host.is_none() && !args.all && license.sites != SiteLimit::DEFAULT {
            let hint = "name the site with --host, or release all of them with --all";
            return Err(Failure::usage("this license is for more than one site").hint(hint));
        }
        let host = args.host.as_ref();
        let stored = bindings(&license.id);
        let release = ReleaseTime::new(license, host, stored.as_deref().ok(), now);
        notes = self::notes(&release, license, stored.as_ref().err());
        if let (Some(host), Ok(stored)) = (host, &stored)
            && !license.knows_site(host, stored)
        {
            return Err(not_bound(host, license));
        }
        let whom = host.map_or("every site".to_owned(), SiteHost::to_string);
        let change = LicenseChange::Release(args.host.clone(), release.time);
        Ok(PlannedChange {
            changes: vec![change],
            outcome: format!(": {whom} is released"),
        })
    })?;
    Ok(done.with_notes(notes))
}

/// The refusal to release or move a site that does not use the license: probably a typing error.
pub(super) fn not_bound(host: &SiteHost, license: &License) -> Failure {
    let refusal = format!("{host} is not bound to license {}", license.id.log_tag());
    Failure::input(refusal).hint("`countersign license show` lists its sites")
}

/// More for the person to know.
pub(super) fn notes(release: &ReleaseTime, license: &License, unreadable: Option<&StoreError>) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(reason) = release.ahead {
        let time = release.time.to_rfc3339_opts(SecondsFormat::Millis, true);
        notes.push(format!(
            "the release has the time {time}, which is in the future: {reason}; compare the clocks"
        ));
    }
    if let Some(error) = unreadable {
        notes.push(format!(
            "the bindings cannot be read here: {}\n      If the server's clock is ahead of this one, a site that it bound \
             a moment ago stays bound.\n      On the server, `countersign license show {}` tells.",
            ErrorChain(error).first_line(),
            license.id.log_tag()
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::license::testing::{Instance, parse};
    use crate::model::license::ReleaseTimes;

    /// The command's output, with the licenses' tags replaced.
    fn said(result: Result<Done, Failure>) -> String {
        let tags = [1, 2].map(|number| Instance::key(number).id().log_tag());
        let text = result.map_or_else(
            |failure| format!("{:?}: {}", failure.exit, failure.error),
            |done| done.text(),
        );
        text.replace(&tags[0], "first").replace(&tags[1], "second")
    }

    fn time(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    fn bound(host: &str, at: &str) -> Binding {
        Binding::new(host.parse().unwrap(), time(at))
    }

    /// A registry, bindings, and the time by this machine's clock.
    struct Case {
        instance: Instance,
        bound: Option<Vec<Binding>>,
        now: DateTime<Utc>,
    }

    impl Case {
        fn new(bound: Option<&[(&str, &str)]>) -> Self {
            let bound = bound.map(|all| all.iter().map(|(host, at)| self::bound(host, at)).collect());
            Self {
                instance: Instance::new(),
                bound,
                now: time("2026-11-20T10:17:03.123456Z"),
            }
        }

        fn release(&self, number: u8, more: &str) -> String {
            let id = Instance::key(number).id().to_string();
            let bindings = |_: &LicenseId| self.bound.clone().ok_or_else(|| StoreError::Missing("store".into()));
            said(release(
                &parse(&format!("{id} {more}")),
                self.instance.path(),
                bindings,
                self.now,
            ))
        }

        fn released(&self, number: u8) -> ReleaseTimes {
            let registry = self.instance.registry();
            registry
                .license(&Instance::key(number).id())
                .unwrap()
                .details
                .released
                .clone()
        }

        /// Whether all bindings are void.
        fn is_void(&self, number: u8) -> bool {
            self.bound
                .iter()
                .flatten()
                .all(|binding| self.released(number).voids(binding))
        }
    }

    #[test]
    fn a_site_is_released_by_name_or_all_at_once() {
        let case = Case::new(Some(&[("new.com", "2026-11-20T10:00:00Z")]));
        assert_eq!(case.release(1, ""), "License first: every site is released.\n");
        assert_eq!(case.release(2, ""), "Usage: this license is for more than one site");
        assert_eq!(
            case.release(2, "--host https://New.com/x"),
            "License second: new.com is released.\n"
        );
        let unbound = "Input: ncw.com is not bound to license second";
        assert_eq!(case.release(2, "--host ncw.com"), unbound);
        assert_eq!(
            case.release(2, "--host new.com"),
            "License second: new.com is released.\n",
            "again"
        );
        assert_eq!(case.release(2, "--all"), "License second: every site is released.\n");
        let written = time("2026-11-20T10:17:03.123Z");
        assert_eq!((case.released(1).all, case.released(1).hosts.len()), (Some(written), 0));
        assert_eq!(
            (case.released(2).all, case.released(2).hosts["new.com"]),
            (Some(written), written)
        );
    }

    #[test]
    fn a_release_voids_what_a_server_bound_by_a_clock_that_is_ahead() {
        // One binding at another nanosecond, the other in this very millisecond.
        for at in ["2026-11-20T10:22:03.999999999Z", "2026-11-20T10:17:03.123Z"] {
            for more in ["--host a.com", "--all"] {
                let case = Case::new(Some(&[("a.com", at)]));
                let said = case.release(2, more);
                assert!(case.is_void(2), "{at} {more}: {said}");
                assert!(
                    said.contains("which is in the future: the clock of the server that bound"),
                    "{said}"
                );
            }
        }
        let case = Case::new(Some(&[
            ("a.com", "2026-11-20T10:22:03Z"),
            ("b.com", "2026-11-20T11:00:00Z"),
        ]));
        case.release(2, "--host a.com");
        assert_eq!(
            case.released(2).hosts["a.com"],
            time("2026-11-20T10:22:03.001Z"),
            "the other's time is not taken"
        );
        assert!(!case.is_void(2));
    }

    #[test]
    fn an_earlier_release_that_lies_in_the_future_is_never_taken_back() {
        for (more, name) in [("--host a.com", "a.com"), ("--all", "*")] {
            let case = Case::new(Some(&[]));
            let text = case
                .instance
                .text()
                .replace("'old.com' = 2026-01-01", &format!("'{name}' = 2027-01-01"));
            std::fs::write(case.instance.path().join("licenses/licenses.toml"), text).unwrap();
            let said = case.release(2, more);
            let released = case.released(2);
            let written = if name == "*" {
                released.all
            } else {
                released.hosts.get(name).copied()
            };
            assert_eq!(written, Some(time("2027-01-01T00:00:00Z")), "{said}");
            assert!(
                said.contains("2027-01-01T00:00:00.000Z, which is in the future: an earlier release"),
                "{said}"
            );

            // The server binds the next site at that very time, so a second release has to be later.
            let case = Case {
                bound: Some(vec![bound("a.com", "2027-01-01T00:00:00Z")]),
                ..case
            };
            case.release(2, more);
            assert!(case.is_void(2), "{more}");
        }
    }

    #[test]
    fn where_the_bindings_cannot_be_read_it_says_what_it_does_not_know_and_goes_beyond_every_release() {
        for more in ["--host a.com", "--all"] {
            let mut case = Case::new(None);
            let text = case
                .instance
                .text()
                .replace("'old.com' = 2026-01-01", "'a.com' = 2027-01-01");
            std::fs::write(case.instance.path().join("licenses/licenses.toml"), text).unwrap();
            let said = case.release(2, more);
            assert!(
                said.contains("\nnote: the bindings cannot be read here: store: there is no store\n"),
                "{said}"
            );
            assert!(said.contains("`countersign license show second`"), "{said}");
            // What the server may have bound since the earlier release.
            case.bound = Some(vec![bound("a.com", "2027-01-01T00:00:00Z")]);
            assert!(case.is_void(2), "{more}");
        }
    }
}
