//! Made-up values to show a mail with.

use std::sync::Arc;

use chrono::{Days, NaiveDate, Utc};

use crate::values::MailKind;
use crate::{MailContent, MailedLicense, MailedReminder, MailedSite};
use countersign_model::language::Language;
use countersign_model::license::{Details, License, LicenseStatus, Modules, SiteLimit};
use countersign_model::license_key::LicenseKey;
use countersign_model::name::Name;
use countersign_model::plugin::Plugin;
use countersign_model::reminder::ReminderKind;
use countersign_model::shop_link::LicenseLinks;
use countersign_model::site_claim::CLAIM_PERIOD;

/// A mail of a made-up customer, with `count` licenses of a plugin; of "Acme Forms" where there is no plugin. `published` is the
/// plugin's name in its latest release. The keys are always the same and belong to nobody.
pub fn content(
    kind: MailKind,
    language: Option<Language>,
    plugin: Option<&Plugin>,
    published: Option<&str>,
    count: u8,
) -> MailContent {
    let name = plugin.map_or("Acme Forms", |plugin| plugin.shown_name(published));
    let module = plugin.map(|plugin| plugin.module.clone());
    let modules: Modules = module
        .or_else(|| "acme-forms".parse::<Name>().ok())
        .into_iter()
        .map(|module| (module, Vec::new()))
        .collect();
    let modules = Arc::new(modules);
    let reminder = match kind {
        MailKind::License | MailKind::Download | MailKind::SiteClaimed => None,
        MailKind::ReminderBefore => Some(ReminderKind::Before(7)),
        MailKind::ReminderAfter => Some(ReminderKind::After(3)),
    };
    let has_page = plugin.is_none_or(Plugin::hosts_packages);
    let today = Utc::now().date_naive();
    let end = match reminder {
        None => today.checked_add_days(Days::new(365)),
        Some(kind) => match kind.is_before() {
            true => today.checked_add_days(Days::new(kind.days().into())),
            false => today.checked_sub_days(Days::new(kind.days().into())),
        },
    };
    let site = "www.example.com".parse().ok().map(|host| MailedSite {
        host,
        day: (Utc::now() + CLAIM_PERIOD).date_naive(),
        confirm: "https://licenses.example.com/site-claim/made-up".to_owned(),
    });
    let license = |number: u8| {
        let key = LicenseKey::from_random([number; 20]);
        MailedLicense {
            license: License {
                id: key.id(),
                status: LicenseStatus::Active,
                expires: end.unwrap_or(NaiveDate::MAX),
                modules: Arc::clone(&modules),
                sites: SiteLimit::DEFAULT,
                grace_period_hours: None,
                details: Details::default(),
                is_declared: false,
            },
            key: (kind == MailKind::License).then_some(key),
            order: Some("order:1001".into()),
            product: Some(format!("{name}, 1 year").into()),
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
    MailContent {
        kind,
        name: Some("Anna Example".into()),
        language,
        licenses: (1..=count).map(license).collect(),
        reminder: reminder.map(|kind| MailedReminder {
            kind,
            unsubscribe: "https://licenses.example.com/unsubscribe/made-up".to_owned(),
        }),
        site: site.filter(|_| kind == MailKind::SiteClaimed),
    }
}

/// The content without what may be unknown of an order and its licenses.
#[must_use]
pub fn bare(mut content: MailContent) -> MailContent {
    content.name = None;
    for license in &mut content.licenses {
        license.order = None;
        license.product = None;
        license.download_page = None;
        license.links = LicenseLinks::default();
    }
    content
}
