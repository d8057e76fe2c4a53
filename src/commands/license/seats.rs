//! `license sites`: how many sites may use a license, and how often it may move.

use std::path::Path;

use crate::build::counted;
use crate::commands::Failure;
use countersign_ledger::StoreError;
use countersign_model::binding::Binding;
use countersign_model::license::SiteLimit;
use countersign_model::license_change::LicenseChange;
use countersign_model::license_key::LicenseId;

use crate::commands::license::arguments::{OwnLimit, parse_sites};
use crate::commands::license::change::{PlannedChange, change, refuse_revoked};
use crate::commands::license::change_options::ChangeOptions;
use crate::commands::license::done::Done;
use crate::commands::license::selector::LicenseArg;

/// Arguments of `sites`.
#[derive(clap::Args, Debug)]
pub(super) struct SitesArgs {
    #[command(flatten)]
    pub(super) license: LicenseArg,
    /// Number of sites that may use it at once, or 'unlimited'
    #[arg(value_name = "N", value_parser = parse_sites, required_unless_present_any = ["staging_sites", "site_moves"])]
    pub(super) sites: Option<SiteLimit>,
    /// Number of staging copies that need no seat, or 'default' for the server's setting
    #[arg(long, value_name = "N|default")]
    pub(super) staging_sites: Option<OwnLimit>,
    /// How often it may move to another site in 30 days without you, or 'default' for the server's setting
    #[arg(long, value_name = "N|default")]
    pub(super) site_moves: Option<OwnLimit>,
    #[command(flatten)]
    pub told: ChangeOptions,
}

impl SitesArgs {
    /// The new limits, as the end of a sentence about the license.
    pub(super) fn outcome(&self) -> String {
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

    /// The limits as changes of a file.
    fn changes(&self) -> impl Iterator<Item = LicenseChange> {
        let sites = self.sites.map(LicenseChange::Sites);
        let copies = self
            .staging_sites
            .map(|OwnLimit(limit)| LicenseChange::StagingSites(limit));
        let moves = self.site_moves.map(|OwnLimit(limit)| LicenseChange::SiteMoves(limit));
        [sites, copies, moves].into_iter().flatten()
    }
}

/// Reads the bindings of a license, void ones included.
pub(super) type BindingLookup<'a> = &'a dyn Fn(&LicenseId) -> Result<Vec<Binding>, StoreError>;

/// Sets the limits of a license. Bound sites stay bound. `staging_sites` is the server's setting.
pub(super) fn sites(
    args: &SitesArgs,
    registry: &Path,
    staging_sites: u32,
    bindings: BindingLookup<'_>,
) -> Result<Done, Failure> {
    let mut notes = Vec::new();
    let done = change(&args.license, registry, |license| {
        refuse_revoked(license)?;
        let news = |change: &LicenseChange| change.applied_to(license) != *license;
        let changes: Vec<_> = args.changes().filter(news).collect();
        let after = LicenseChange::all_applied_to(&changes, license);
        if let SiteLimit::Limited(limit) = after.sites {
            let ahead = after.details.hosts.len();
            if ahead > limit.get() as usize {
                let refusal = format!(
                    "license files list {} of license {}",
                    counted(ahead, "site"),
                    license.id.log_tag()
                );
                return Err(Failure::input(refusal).hint("release some of them first: `countersign license release`"));
            }
            let used = bindings(&license.id)
                .map(|stored| after.seat_use(&stored[..], staging_sites).seats)
                .unwrap_or_default();
            if used > limit.get() as usize {
                notes.push(format!(
                    "its sites use {used} seats; they stay bound until they are released"
                ));
            }
        }
        let word = if changes.is_empty() { "already" } else { "now" };
        Ok(PlannedChange {
            changes,
            outcome: format!(" is {word} {}", args.outcome()),
        })
    })?;
    Ok(done.with_notes(notes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::license::testing::{Instance, outcome, parse};

    fn bound(hosts: &[&str]) -> Vec<Binding> {
        let at = "2026-11-20T10:00:00Z".parse().unwrap();
        hosts
            .iter()
            .map(|host| Binding::new(host.parse().unwrap(), at))
            .collect()
    }

    #[test]
    fn the_number_of_sites_is_set_and_who_is_bound_stays() {
        let instance = Instance::new();
        let set = |number: u8, sites: &str, hosts: &[&str]| {
            let line = format!("{} {sites}", Instance::key(number).id());
            outcome(sites_of(&line, &instance, hosts))
        };
        fn sites_of(line: &str, instance: &Instance, hosts: &[&str]) -> Result<Done, Failure> {
            sites(&parse(line), instance.path(), 1, &|_| Ok(bound(hosts)))
        }
        assert_eq!(set(1, "3", &[]), "License first is now for 3 sites.\n");
        assert_eq!(set(1, "3", &[]), "License first is already for 3 sites.\n");
        assert_eq!(
            set(1, "1", &["a.com", "b.com"]),
            "License first is now for 1 site.\nnote: its sites use 2 seats; they stay bound until they are released\n"
        );
        assert_eq!(
            set(1, "unlimited", &[]),
            "License first is now for any number of sites.\n"
        );
        assert_eq!(set(2, "2", &[]), "License second is now for 2 sites.\n");
        let hosts = ["a.com", "b.a.com", "c.a.com"];
        assert_eq!(
            set(2, "1 --staging-sites 2 --site-moves 0", &hosts),
            "License second is now for 1 site, 2 staging copies, 0 moves in 30 days.\n"
        );
        assert_eq!(
            set(2, "--staging-sites 2", &hosts),
            "License second is already for 2 staging copies.\n"
        );
        assert_eq!(
            set(2, "--staging-sites default", &hosts),
            "License second is now for the server's number of staging copies.\n\
             note: its sites use 2 seats; they stay bound until they are released\n",
            "two copies, of which one needs no seat"
        );
        assert_eq!(
            set(2, "2 --site-moves default", &hosts),
            "License second is now for 2 sites, the server's number of moves.\n"
        );
        let registry = instance.registry();
        let sites = |number| registry.license(&Instance::key(number).id()).unwrap().sites.to_string();
        assert_eq!((sites(1), sites(2)), ("unlimited".into(), "2".into()));
    }
}
