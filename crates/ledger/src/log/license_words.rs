//! What a line changes of a license, in words.

use countersign_model::issued_license::IssuedLicense;
use countersign_model::license::{Details, LicenseStatus, SiteLimit, module_list};
use countersign_model::period::NEVER;
use countersign_model::rights::RightsEdit;
use countersign_model::site_host::SiteHost;

/// What a line changes of a license.
pub(super) fn changes(before: &IssuedLicense, after: &IssuedLicense) -> Vec<String> {
    let license = &after.license;
    let mut changes = Vec::new();
    let mut note = |is_new: bool, words: String| changes.extend(is_new.then_some(words));
    let old = &before.license;
    let status = match license.status {
        LicenseStatus::Active => "resumed",
        LicenseStatus::Suspended => "suspended",
        LicenseStatus::Revoked => "revoked",
    };
    note(license.status != old.status, status.to_owned());
    let until = match license.expires > old.expires {
        _ if license.expires == NEVER => "set to never end".to_owned(),
        true if after.scope.is_shop() => format!("renewed to {}", license.expires),
        true => format!("extended to {}", license.expires),
        false => format!("shortened to {}", license.expires),
    };
    note(license.expires != old.expires, until);
    let renewal = |details: &Details| details.renewal_days.is_some();
    let renews = match renewal(&license.details) {
        true => "renews by itself",
        false => "no longer renews by itself",
    };
    note(renewal(&license.details) != renewal(&old.details), renews.to_owned());
    note(license.sites != old.sites, for_sites(license.sites));
    note(
        license.modules != old.modules,
        format!("covers {}", module_list(&license.modules)),
    );
    let grace = own_or_servers(license.grace_period_hours.map(|hours| format!("{hours} hours")));
    note(
        license.grace_period_hours != old.grace_period_hours,
        format!("grace: {grace}"),
    );
    let details = &license.details;
    let old_details = &old.details;
    let staging = own_or_servers(details.staging_sites);
    note(
        details.staging_sites != old_details.staging_sites,
        format!("staging sites: {staging}"),
    );
    let moves = own_or_servers(details.site_moves);
    note(
        details.site_moves != old_details.site_moves,
        format!("moves in 30 days: {moves}"),
    );
    for outcome in RightsEdit::between(&old_details.rights, &details.rights).outcomes() {
        note(true, outcome);
    }
    let composer = match details.rights.composer.valid {
        true => "a Composer token was made",
        false => "the Composer token was revoked",
    };
    note(
        details.rights.composer != old_details.rights.composer,
        composer.to_owned(),
    );
    note(
        details.released.all != old_details.released.all,
        "all seats freed".to_owned(),
    );
    for (host, time) in &details.released.hosts {
        note(
            old_details.released.hosts.get(host) != Some(time),
            format!("seat of {host} freed"),
        );
    }
    for host in &details.hosts {
        note(!old_details.hosts.contains(host), format!("seat reserved for {host}"));
    }
    let is_gone = |host: &&SiteHost| !details.hosts.contains(host) && !details.released.hosts.contains_key(*host);
    for host in old_details.hosts.iter().filter(is_gone) {
        note(
            details.released.all == old_details.released.all,
            format!("seat no longer reserved for {host}"),
        );
    }
    let remarks = details.remarks();
    let old_remarks = old_details.remarks();
    note(remarks.metadata != old_remarks.metadata, "other metadata".to_owned());
    note(remarks.note != old_remarks.note, "another note".to_owned());
    note(remarks.holder != old_remarks.holder, "another customer".to_owned());
    note(after.reference != before.reference, "another order".to_owned());
    if changes.is_empty() && remarks.sold != old_remarks.sold {
        changes.push("the shop’s word of the sale changed, and what the license grants did not".to_owned());
    }
    if changes.is_empty() {
        let by = after
            .status_by
            .as_ref()
            .map_or(String::new(), |by| format!(" by {}", by.words()));
        let word: &str = after.kind.into();
        return vec![match after.status_by == before.status_by {
            true => word.to_owned(),
            false => format!("{word}, also{by}"),
        }];
    }
    changes
}

/// A license without a line before: it is new, or its past is gone.
pub(super) fn first(issued: &IssuedLicense) -> Vec<String> {
    let license = &issued.license;
    let word: &str = issued.kind.into();
    let mut words = vec![match &license.details.replaces {
        Some(replaced) if issued.revision == 1 => format!("{word} in place of {}", replaced.log_tag()),
        _ => word.to_owned(),
    }];
    words.push(module_list(&license.modules));
    words.push(for_sites(license.sites));
    words.push(match license.expires {
        NEVER => "never ends".to_owned(),
        expires => format!("until {expires}"),
    });
    words
}

fn for_sites(sites: SiteLimit) -> String {
    match sites {
        SiteLimit::Unlimited => "for any number of sites".to_owned(),
        SiteLimit::DEFAULT => "for 1 site".to_owned(),
        SiteLimit::Limited(limit) => format!("for {limit} sites"),
    }
}

fn own_or_servers(own: Option<impl ToString>) -> String {
    own.map_or("the server's setting".to_owned(), |own| own.to_string())
}
