//! `license sites | move`: how many sites may use a license, and which.

use std::path::Path;

use chrono::{DateTime, Utc};

use crate::commands::Failure;
use crate::model::binding::Binding;
use crate::model::license::{License, Seat, SiteLimit};
use crate::model::license_key::LicenseId;
use crate::model::site_host::SiteHost;
use crate::registry::LicenseChange;
use crate::store::StoreError;

use crate::commands::license::arguments::{parse_host, parse_sites};
use crate::commands::license::change::{PlannedChange, change, decided, refuse_revoked};
use crate::commands::license::change_options::ChangeOptions;
use crate::commands::license::done::Done;
use crate::commands::license::release::ReleaseTime;
use crate::commands::license::selector::LicenseArg;

/// Arguments of `sites`.
#[derive(clap::Args, Debug)]
pub(super) struct SitesArgs {
    #[command(flatten)]
    pub(super) license: LicenseArg,
    /// Number of sites that may use it at once, or 'unlimited'
    #[arg(value_name = "N", value_parser = parse_sites)]
    sites: SiteLimit,
    #[command(flatten)]
    pub told: ChangeOptions,
}

/// Arguments of `move`.
#[derive(clap::Args, Debug)]
pub(super) struct MoveArgs {
    #[command(flatten)]
    pub(super) license: LicenseArg,
    /// The site to release
    #[arg(long, value_name = "HOST", value_parser = parse_host)]
    from: SiteHost,
    /// The site to bind instead
    #[arg(long, value_name = "HOST", value_parser = parse_host)]
    to: SiteHost,
    #[command(flatten)]
    pub told: ChangeOptions,
}

/// Reads the bindings of a license, void ones included.
pub(super) type BindingLookup<'a> = &'a dyn Fn(&LicenseId) -> Result<Vec<Binding>, StoreError>;

/// Sets how many sites may use a license. Bound sites stay bound.
pub(super) fn sites(args: &SitesArgs, registry: &Path, bindings: BindingLookup<'_>) -> Result<Done, Failure> {
    let mut notes = Vec::new();
    let done = change(&args.license, registry, |license| {
        refuse_revoked(license)?;
        let SiteLimit::Limited(limit) = args.sites else {
            return Ok(decided(
                license.sites != args.sites,
                LicenseChange::Sites(args.sites),
                "for any number of sites".into(),
            ));
        };
        let ahead = license.details.hosts.len();
        if ahead > limit.get() as usize {
            let refusal = format!(
                "license files list {} of license {}",
                crate::build::counted(ahead, "site"),
                license.id.log_tag()
            );
            return Err(Failure::input(refusal).hint("release some of them first: `countersign license release`"));
        }
        let used = bindings(&license.id)
            .map(|stored| used(license, &stored))
            .unwrap_or_default();
        if used > limit.get() as usize {
            notes.push(format!(
                "{used} sites are bound to it; they stay bound until they are released"
            ));
        }
        let state = format!("for {}", crate::build::counted(limit.get() as usize, "site"));
        Ok(decided(
            license.sites != args.sites,
            LicenseChange::Sites(args.sites),
            state,
        ))
    })?;
    Ok(done.with_notes(notes))
}

/// Releases one site and binds another one before its first validation.
pub(super) fn move_site(
    args: &MoveArgs,
    registry: &Path,
    bindings: BindingLookup<'_>,
    now: DateTime<Utc>,
) -> Result<Done, Failure> {
    let mut notes = Vec::new();
    let done = change(&args.license, registry, |license| {
        refuse_revoked(license)?;
        if args.from == args.to {
            return Err(Failure::usage(format!("--from and --to are both {}", args.to)));
        }
        let stored = bindings(&license.id);
        let release = ReleaseTime::new(license, Some(&args.from), stored.as_deref().ok(), now);
        notes = release.notes(license, stored.as_ref().err());
        let known = license.details.hosts.contains(&args.from) || stored.is_err() || release.bound > 0;
        if !known {
            let refusal = format!("{} is not bound to license {}", args.from, license.id.log_tag());
            return Err(Failure::input(refusal).hint("`countersign license show` lists its sites"));
        }
        let change = LicenseChange::Move {
            from: args.from.clone(),
            to: args.to.clone(),
            time: release.time,
        };
        let moved = change.applied_to(license);
        let stored = stored.unwrap_or_default();
        // If the vendor has lowered the number, a move between bound sites must still be possible.
        let has_seat = matches!(license.seat(&stored[..], &args.to), Seat::Held);
        if !has_seat && !fits(&moved, &stored) {
            let all = match license.sites {
                SiteLimit::DEFAULT => "1 site, and it is taken".to_owned(),
                sites => format!("{sites} sites, and all of them are taken"),
            };
            let refusal = format!("license {} is for {all}", license.id.log_tag());
            return Err(Failure::input(refusal).hint("release a site, or allow more with `countersign license sites`"));
        }
        Ok(PlannedChange {
            change: Some(change),
            outcome: format!(": {} is released, and {} is bound", args.from, args.to),
        })
    })?;
    Ok(done.with_notes(notes))
}

/// Whether no more sites are bound, by the registry or the store, than the license allows.
fn fits(license: &License, stored: &[Binding]) -> bool {
    match license.sites {
        SiteLimit::Unlimited => true,
        SiteLimit::Limited(limit) => used(license, stored) <= limit.get() as usize,
    }
}

/// How many sites are bound, by the registry or the store.
fn used(license: &License, stored: &[Binding]) -> usize {
    let ahead = &license.details.hosts;
    let valid = stored.iter().filter(|binding| !license.details.released.voids(binding));
    ahead.len() + valid.filter(|binding| !ahead.contains(&binding.host)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::license::testing::{Instance, now, parse};

    fn bound(hosts: &[&str]) -> Vec<Binding> {
        let at = "2026-11-20T10:00:00Z".parse().unwrap();
        hosts
            .iter()
            .map(|host| Binding {
                host: host.parse().unwrap(),
                bound_at: at,
            })
            .collect()
    }

    fn said(result: Result<Done, Failure>) -> String {
        let tags = [1, 2].map(|number| Instance::key(number).id().log_tag());
        let text = result.map_or_else(
            |failure| format!("{:?}: {}", failure.exit, failure.error),
            |done| done.text(),
        );
        text.replace(&tags[0], "first").replace(&tags[1], "second")
    }

    #[test]
    fn the_number_of_sites_is_set_and_who_is_bound_stays() {
        let instance = Instance::new();
        let set = |number: u8, sites: &str, hosts: &[&str]| {
            let line = format!("{} {sites}", Instance::key(number).id());
            said(sites_of(&line, &instance, hosts))
        };
        fn sites_of(line: &str, instance: &Instance, hosts: &[&str]) -> Result<Done, Failure> {
            sites(&parse(line), instance.path(), &|_| Ok(bound(hosts)))
        }
        assert_eq!(set(1, "3", &[]), "License first is now for 3 sites.\n");
        assert_eq!(set(1, "3", &[]), "License first is already for 3 sites.\n");
        assert_eq!(
            set(1, "1", &["a.com", "b.com"]),
            "License first is now for 1 site.\nnote: 2 sites are bound to it; they stay bound until they are released\n"
        );
        assert_eq!(
            set(1, "unlimited", &[]),
            "License first is now for any number of sites.\n"
        );
        assert_eq!(set(2, "2", &[]), "License second is now for 2 sites.\n");
        let registry = instance.registry();
        let sites = |number| registry.license(&Instance::key(number).id()).unwrap().sites.to_string();
        assert_eq!((sites(1), sites(2)), ("unlimited".into(), "2".into()));
    }

    #[test]
    fn a_move_frees_one_site_and_binds_the_other_within_the_number_of_sites() {
        let instance = Instance::new();
        let moved = |line: &str, hosts: &[&str]| {
            let line = format!("{} {line}", Instance::key(1).id());
            said(move_site(&parse(&line), instance.path(), &|_| Ok(bound(hosts)), now()))
        };
        assert_eq!(
            moved("--from a.com --to a.com", &["a.com"]),
            "Usage: --from and --to are both a.com"
        );
        assert_eq!(
            moved("--from c.com --to b.com", &["a.com"]),
            "Input: c.com is not bound to license first"
        );
        let full = "Input: license first is for 1 site, and it is taken";
        let done = "License first: a.com is released, and b.com is bound.\n";
        assert_eq!(moved("--from a.com --to b.com", &["a.com", "x.com"]), full);
        assert_eq!(moved("--from a.com --to https://www.B.com/", &["a.com"]), done);
        let registry = instance.registry();
        let license = registry.license(&Instance::key(1).id()).unwrap();
        assert_eq!(license.details.hosts, ["b.com".parse().unwrap()]);
        assert!(
            bound(&["a.com"])
                .iter()
                .all(|binding| license.details.released.voids(binding))
        );
        assert_eq!(
            moved("--from b.com --to a.com", &["a.com"]),
            done.replace("a.com", "?")
                .replace("b.com", "a.com")
                .replace('?', "b.com")
        );
        assert_eq!(
            instance
                .registry()
                .license(&Instance::key(1).id())
                .unwrap()
                .details
                .hosts,
            ["a.com".parse().unwrap()]
        );
    }
}
