//! Made-up licenses to show a mail with.

use std::sync::Arc;

use chrono::{Days, NaiveDate, Utc};

use crate::MailedLicense;
use countersign_model::license::{Details, License, LicenseStatus, Modules, SiteLimit};
use countersign_model::license_key::LicenseKey;
use countersign_model::name::Name;
use countersign_model::plugin::Plugin;
use countersign_model::shop_link::LicenseLinks;

/// Made-up licenses of a plugin, `count` of them; of "Acme Forms" where there is no plugin. `published` is the plugin's name in its
/// latest release. The keys are always the same and belong to nobody.
pub fn licenses(plugin: Option<&Plugin>, published: Option<&str>, count: u8) -> Vec<MailedLicense> {
    let name = plugin.map_or("Acme Forms", |plugin| plugin.shown_name(published));
    let module = plugin.map(|plugin| plugin.module.clone());
    let modules: Modules = module
        .or_else(|| "acme-forms".parse::<Name>().ok())
        .into_iter()
        .map(|module| (module, Vec::new()))
        .collect();
    let modules = Arc::new(modules);
    let has_page = plugin.is_none_or(Plugin::hosts_packages);
    let next_year = Utc::now().date_naive().checked_add_days(Days::new(365));
    let license = |number: u8| {
        let key = LicenseKey::from_random([number; 20]);
        MailedLicense {
            license: License {
                id: key.id(),
                status: LicenseStatus::Active,
                expires: next_year.unwrap_or(NaiveDate::MAX),
                modules: Arc::clone(&modules),
                sites: SiteLimit::DEFAULT,
                grace_period_hours: None,
                details: Details::default(),
                is_declared: false,
            },
            key,
            plugins: vec![name.to_owned()],
            download_page: has_page.then(|| "https://licenses.example.com/first-copy/made-up".to_owned()),
            links: LicenseLinks {
                token: "r1-aaaaaaaaaaaaaaaaaaaaaaaaaa".parse().ok().filter(|_| has_page),
                renew: has_page
                    .then(|| "https://shop.example.com/renew?license=r1-aaaaaaaaaaaaaaaaaaaaaaaaaa".to_owned()),
                upgrade: has_page
                    .then(|| "https://shop.example.com/upgrade?license=r1-aaaaaaaaaaaaaaaaaaaaaaaaaa".to_owned()),
            },
        }
    };
    (1..=count).map(license).collect()
}
