//! `license show`: one license, and the sites that use it.

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::commands::Failure;
use crate::commands::output::{self, Table};
use crate::commands::server_questions::license_defaults;
use crate::serve::links::license_links;
use crate::serve::ops::reports::LicenseDefaults;
use countersign_ledger::StoreError;
use countersign_model::binding::{Binding, SiteReport};
use countersign_model::license::{License, module_list};
use countersign_model::license_key::LicenseId;
use countersign_model::seat::SeatUse;
use countersign_model::shop_link::LicenseLinks;
use countersign_model::site_host::SiteHost;
use countersign_model::text::printable::Printable;
use countersign_registry::Registry;
use countersign_settings::config::Config;
use countersign_settings::keys::secret_keys::DownloadKeys;

use crate::commands::license::selector::{LicenseArg, SelectedLicense};
use crate::commands::license::view::{self, View, shown_time};
use crate::commands::store::{self, KeptTexts};

/// Reads the stored bindings of a license in the order of binding, with their sites' reports.
pub(super) type ReadBindings<'a> = &'a dyn Fn(&LicenseId) -> Result<Vec<(Binding, SiteReport)>, StoreError>;

/// Arguments of `show`.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    license: LicenseArg,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    license: View<'a>,
    /// How many seats its sites use. Absent if the store cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    used_seats: Option<usize>,
    /// Absent if the store cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    bindings: Option<Vec<BoundHost<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bindings_error: Option<String>,
    /// Release times and bindings that are in the future.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    future: Vec<String>,
}

#[derive(Serialize)]
struct BoundHost<'a> {
    host: &'a str,
    bound_at: String,
    /// Whether the vendor or the site itself released it.
    released: bool,
    /// Whether it is a staging copy that needs no seat.
    staging_copy: bool,
    /// Whether it is bound and has no seat, because a license file lists others.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    no_seat: bool,
    #[serde(flatten)]
    report: &'a SiteReport,
}

/// The license and its bindings. A store that cannot be read gives a note, not a failure.
pub(super) fn show(
    args: &Args,
    config: &Config,
    bindings: ReadBindings<'_>,
    now: DateTime<Utc>,
) -> Result<String, Failure> {
    let registry = Registry::load_licenses(&config.paths.registry)?;
    let issued = store::licenses_or_warning(config);
    let selected = args.license.select(&issued, &registry)?;
    let license = selected.license();
    let orders;
    let view = match selected {
        SelectedLicense::Ledger(found) => {
            orders = KeptTexts::of_orders(std::iter::once(found), config);
            View::of_ledger(found, now.date_naive())
                .with_order(orders.order(found))
                .with_links(links(&found.license, config))
        }
        SelectedLicense::Declared(license) => View::new(license, &registry, now.date_naive()),
    };
    let all = issued.iter().map(|issued| &issued.license).chain(registry.licenses());
    let view = view.with_successor(all);
    let stored = bindings(&license.id).map_err(|error| format!("Its bindings cannot be read: {error}"));
    let bindings: Vec<Binding> = stored.iter().flatten().map(|(binding, _)| binding.clone()).collect();
    let defaults = license_defaults(config);
    let used = license.seat_use(&bindings[..], &defaults.staging);
    let future = times_in_the_future(license, stored.as_deref().unwrap_or_default(), now);
    if args.json {
        let bindings = stored.as_deref().ok().map(|stored| {
            let hosts = stored.iter();
            hosts
                .map(|(binding, report)| bound(license, &used, binding, report))
                .collect()
        });
        return output::json(&Shown {
            license: view,
            used_seats: stored.is_ok().then_some(used.seats),
            bindings,
            bindings_error: stored.as_ref().err().cloned(),
            future,
        });
    }
    let notes = future
        .iter()
        .map(|note| format!("note: {note}, which is in the future\n"))
        .collect::<String>();
    Ok(format!(
        "{}\n{}{notes}",
        fields(license, &view, stored.is_ok().then_some(&used), &defaults, now),
        bindings_text(license, &used, &stored)
    ))
}

/// Where a license is renewed and upgraded; without the token where its secret cannot be read, and by the settings where offers cannot.
fn links(license: &License, config: &Config) -> LicenseLinks {
    let paths = &config.paths;
    let keys = DownloadKeys::load(&paths.downloads_key, &paths.retired_keys).ok();
    let offers = Registry::load_offers(&paths.registry).unwrap_or_default();
    let keys = keys.as_ref().map(|(keys, _)| keys);
    license_links(license, &offers, &config.serve.shop_links, keys)
}

/// Release times and bindings in the future: a clock was ahead, or a time was mistyped.
fn times_in_the_future(license: &License, stored: &[(Binding, SiteReport)], now: DateTime<Utc>) -> Vec<String> {
    let released = view::release_times(license).filter(|(_, time)| *time > now);
    let bound = stored.iter().filter(|(binding, _)| binding.bound_at > now);
    released
        .map(|(host, time)| format!("the release of {host} has the time {}", shown_time(time)))
        .chain(bound.map(|(b, _)| format!("{} was bound at {}", b.host, shown_time(b.bound_at))))
        .collect()
}

fn bound<'a>(license: &License, used: &SeatUse<'_>, binding: &'a Binding, report: &'a SiteReport) -> BoundHost<'a> {
    let released = license.is_void(binding);
    BoundHost {
        host: binding.host.as_str(),
        bound_at: shown_time(binding.bound_at),
        released,
        no_seat: used.gave_way.contains(&&binding.host),
        staging_copy: !released && used.copies.contains(&&binding.host),
        report,
    }
}

fn fields(
    license: &License,
    view: &View<'_>,
    used: Option<&SeatUse<'_>>,
    defaults: &LicenseDefaults,
    now: DateTime<Utc>,
) -> String {
    let seats = match used {
        Some(used) => format!("{} ({} used)", license.sites, used.seats),
        None => license.sites.to_string(),
    };
    let own_or_servers = |own: Option<u16>, servers: u32| match own {
        Some(own) => own.to_string(),
        None => format!("{servers} (the server's setting)"),
    };
    let staging = own_or_servers(license.details.staging_sites, defaults.staging.sites);
    let moves = own_or_servers(license.details.site_moves, defaults.site_moves);
    let hosts = license
        .details
        .hosts
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(" ");
    let released: Vec<_> = view::released(license)
        .iter()
        .map(|(host, time)| format!("{host} before {time}"))
        .collect();
    let grace = match license.grace_period_hours {
        Some(hours) => format!("{hours} hours"),
        None => format!("{} hours (the server's setting)", defaults.grace_period_hours),
    };
    let terms = [
        ("id", license.id.to_string()),
        ("status", license.state(now.date_naive()).word().to_owned()),
        ("expires", license.expires.to_string()),
        ("modules", module_list(&license.modules)),
        ("sites", seats),
        ("staging", staging),
        ("moves", format!("{moves} in 30 days")),
        ("grace", grace),
    ];
    let rest = [
        ("bound ahead", hosts),
        ("released", released.join(", ")),
        (
            "replaces",
            license.details.replaces.map_or(String::new(), |id| id.log_tag()),
        ),
        (
            "replaced by",
            view.replaced_by().map_or(String::new(), |id| id.log_tag()),
        ),
        ("note", license.details.note.clone()),
        ("file", view.place().to_owned()),
        ("issued", view.issued()),
        ("changed", view.changed()),
        ("order", view.order()),
        (
            "customer",
            view.customer().map_or(String::new(), |number| number.to_string()),
        ),
    ];
    let rights = license.details.rights.labelled();
    let lines = terms.into_iter().chain(rights).chain(rest).chain(view.links());
    let shown = lines.filter(|(_, value)| !value.is_empty());
    shown
        .map(|(name, value)| format!("{:<13}{}\n", name.to_lowercase(), Printable(value)))
        .collect()
}

fn bindings_text(license: &License, used: &SeatUse<'_>, stored: &Result<Vec<(Binding, SiteReport)>, String>) -> String {
    let stored = match stored {
        Err(reason) => return format!("{}\n", Printable(reason)),
        Ok(stored) => stored,
    };
    // `move`, `--host` and `hosts` give a site its seat before it validates the license.
    let holds_seat = |host: &SiteHost| {
        let mut of_host = stored.iter().filter(|(binding, _)| binding.host == *host);
        of_host.any(|(binding, _)| !license.is_void(binding))
    };
    let bound_ahead: Vec<_> = license.details.hosts.iter().filter(|host| !holds_seat(host)).collect();
    if stored.is_empty() && bound_ahead.is_empty() {
        return "No site has validated it yet.\n".into();
    }
    let mut table = Table::new([
        "HOST",
        "BOUND AT",
        "STATE",
        "VERSION",
        "LAST SEEN",
        "BUILD ID",
        "PLUGINS",
    ]);
    for (binding, report) in stored {
        let state = match () {
            () if license.is_void(binding) => "released",
            () if used.gave_way.contains(&&binding.host) => "no seat",
            () if used.copies.contains(&&binding.host) => "staging copy",
            () => "bound",
        };
        let version = report.plugin_version.as_deref().unwrap_or("-");
        let seen = report.last_seen.map_or("-".into(), shown_time);
        let build = report.build_id.map_or("-".into(), |id| id.to_string());
        let plugins = report
            .current_versions
            .iter()
            .map(|(slug, version)| format!("{slug}={version}"));
        let plugins = if report.current_versions.is_empty() {
            "-".into()
        } else {
            plugins.collect::<Vec<_>>().join(" ")
        };
        table.row([
            &binding.host,
            &shown_time(binding.bound_at),
            &state,
            &version,
            &seen,
            &build,
            &plugins,
        ]);
    }
    for host in bound_ahead {
        table.row([host, &"-", &"bound ahead", &"-", &"-", &"-", &"-"]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::license::testing::{Instance, now, parse};
    use countersign_ledger::StoreError;

    fn binding(host: &str, seconds: i64) -> Binding {
        Binding::new(host.parse().unwrap(), DateTime::from_timestamp(seconds, 0).unwrap())
    }

    fn shown(line: &str, bindings: ReadBindings<'_>) -> String {
        let instance = Instance::new();
        let text = show(&parse(line), &instance.config(), bindings, now()).unwrap();
        text.replace(&instance.path().display().to_string(), "registry")
    }

    #[test]
    fn a_license_is_shown_with_its_place_and_the_sites_that_use_it() {
        let id = Instance::key(2).id();
        let current_versions = ["acme-forms", "acme-pdf"]
            .map(|slug| (slug.parse().unwrap(), "1.1".into()))
            .into();
        let report = SiteReport {
            plugin_version: Some("1.2\x1b".into()),
            current_versions,
            ..SiteReport::default()
        };
        let text = shown(&id.to_string(), &|asked| {
            assert_eq!(*asked, id);
            Ok(vec![
                (binding("old.com", 0), SiteReport::default()),
                (binding("new.com", 1_800_000_000), report.clone()),
            ])
        });
        assert_eq!(
            text,
            format!(
                "id           {id}\n\
                 status       suspended\n\
                 expires      2027-01-31\n\
                 modules      base\n\
                 sites        unlimited (1 used)\n\
                 staging      1 (the server's setting)\n\
                 moves        5 (the server's setting) in 30 days\n\
                 grace        72 hours (the server's setting)\n\
                 released     old.com before 2026-01-01T00:00:00Z\n\
                 note         se\\u{{1b}}cond\n\
                 file         registry/licenses/licenses.toml:9\n\
                 \n\
                 HOST     BOUND AT              STATE     VERSION    LAST SEEN  BUILD ID  PLUGINS\n\
                 old.com  1970-01-01T00:00:00Z  released  -          -          -         -\n\
                 new.com  2027-01-15T08:00:00Z  bound     1.2\\u{{1b}}  -          -         acme-forms=1.1 acme-pdf=1.1\n\
                 note: new.com was bound at 2027-01-15T08:00:00Z, which is in the future\n"
            )
        );
    }

    #[test]
    fn a_site_that_got_its_seat_ahead_of_its_first_validation_is_a_row() {
        let instance = Instance::new();
        let sites = "sites = 'unlimited'\n";
        let hosts = "hosts = ['ahead.com', 'old.com', 'new.com']\n";
        let text = instance.text().replace(sites, &format!("{sites}{hosts}"));
        std::fs::write(instance.path().join("licenses/licenses.toml"), text).unwrap();
        let id = Instance::key(2).id().to_string();
        let rows = |stored: Vec<(Binding, SiteReport)>| {
            let read = |_: &LicenseId| Ok(stored.clone());
            let text = show(&parse(&id), &instance.config(), &read, now()).unwrap();
            let table = text.split("\n\n").nth(1).unwrap().to_owned();
            let rows = table.lines().skip(1).map(|row| {
                let cells: Vec<_> = row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
                format!("{} {}", cells[0], cells[2])
            });
            rows.collect::<Vec<_>>()
        };
        assert_eq!(
            rows(vec![]),
            ["ahead.com bound ahead", "old.com bound ahead", "new.com bound ahead"]
        );
        let stored = vec![
            (binding("old.com", 0), SiteReport::default()),
            (binding("new.com", 1_790_000_000), SiteReport::default()),
        ];
        assert_eq!(
            rows(stored),
            [
                "old.com released",
                "new.com bound",
                "ahead.com bound ahead",
                "old.com bound ahead"
            ]
        );
    }

    #[test]
    fn a_store_that_cannot_be_read_does_not_hide_the_license() {
        let key = Instance::key(1);
        let text = shown(key.reveal(), &|_| Err(StoreError::Missing("store".into())));
        assert!(
            text.ends_with("\nIts bindings cannot be read: store: there is no store\n"),
            "{text}"
        );
        assert!(!text.contains(key.reveal()));
        assert!(shown(key.reveal(), &|_| Ok(vec![])).ends_with("\nNo site has validated it yet.\n"));
    }

    #[test]
    fn json_has_the_bindings_or_the_reason_why_not() {
        let id = Instance::key(2).id().to_string();
        let json = |bindings: ReadBindings<'_>| -> serde_json::Value {
            serde_json::from_str(&shown(&format!("--json {id}"), bindings)).unwrap()
        };
        let shown = json(&|_| Ok(vec![(binding("old.com", 0), SiteReport::default())]));
        let expected = serde_json::json!([{"host": "old.com", "bound_at": "1970-01-01T00:00:00Z", "released": true, "staging_copy": false}]);
        assert_eq!((&shown["id"], &shown["bindings"]), (&id.as_str().into(), &expected));
        let report = SiteReport {
            plugin_version: Some("1\u{9b}\u{202e}\u{7f}é".into()),
            ..SiteReport::default()
        };
        let text = self::shown(&format!("--json {id}"), &|_| {
            Ok(vec![(binding("old.com", 0), report.clone())])
        });
        assert!(
            text.contains(r#""1\u009b\u202e\u007fé""#),
            "what a site reported steers no terminal: {text:?}"
        );
        let shown = json(&|_| Err(StoreError::Closed));
        let reason = "Its bindings cannot be read: the store is closed";
        assert_eq!(
            (&shown["bindings_error"], shown.get("bindings")),
            (&reason.into(), None)
        );
    }
}
