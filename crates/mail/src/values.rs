//! What the texts of a mail can show of a license.

use chrono::NaiveDate;
use serde::Serialize;

use countersign_model::license::{License, SiteLimit};
use countersign_model::license_key::LicenseKey;
use countersign_model::shop_link::LicenseLinks;

/// The last day of a license without an end.
const NO_END: NaiveDate = NaiveDate::from_ymd_opt(9999, 12, 31).unwrap();

/// A license with its key, for the moment in which its mail is made.
#[derive(Clone, Debug)]
pub struct MailedLicense {
    /// Its key.
    pub key: LicenseKey,
    /// The license.
    pub license: License,
    /// The names of the plugins that it covers, in the order to show.
    pub plugins: Vec<String>,
    /// The page from which the buyer downloads the plugins; `None` if there is none.
    pub download_page: Option<String>,
    /// What is bought for this license, and where.
    pub links: LicenseLinks,
}

/// All that a text can name.
#[derive(Serialize)]
pub(super) struct MailValues<'a> {
    /// The licenses of the order; at least one.
    licenses: Vec<LicenseValues<'a>>,
    /// The first of them, for texts of vendors who never sell more at once.
    license: LicenseValues<'a>,
}

#[derive(Clone, Serialize)]
struct LicenseValues<'a> {
    // SECURITY: the one place where a key becomes text for a mail.
    key: &'a str,
    id: String,
    plugins: &'a [String],
    modules: Vec<ModuleValues<'a>>,
    /// None for any number.
    sites: Option<u32>,
    /// `2027-11-24`; none for a license without an end.
    expires: Option<String>,
    /// None where this server gives no first copies.
    download_page: Option<&'a str>,
    /// None where this server makes none.
    renewal_token: Option<String>,
    /// None if the vendor names no page, or it renews by itself.
    renew_url: Option<&'a str>,
    /// None if the vendor names no page.
    upgrade_url: Option<&'a str>,
}

#[derive(Clone, Serialize)]
struct ModuleValues<'a> {
    name: &'a str,
    features: Vec<&'a str>,
}

impl<'a> MailValues<'a> {
    /// The values of these licenses; `None` if there are none.
    pub(super) fn of(licenses: &'a [MailedLicense]) -> Option<Self> {
        let licenses: Vec<_> = licenses.iter().map(LicenseValues::of).collect();
        let license = licenses.first()?.clone();
        Some(Self { licenses, license })
    }
}

impl<'a> LicenseValues<'a> {
    fn of(mailed: &'a MailedLicense) -> Self {
        let license = &mailed.license;
        let modules = license.modules.iter().map(|(name, features)| ModuleValues {
            name: name.as_str(),
            features: features.iter().map(|feature| feature.as_str()).collect(),
        });
        Self {
            key: mailed.key.reveal(),
            id: license.id.to_string(),
            plugins: &mailed.plugins,
            modules: modules.collect(),
            sites: match license.sites {
                SiteLimit::Limited(limit) => Some(limit.get()),
                SiteLimit::Unlimited => None,
            },
            expires: (license.expires != NO_END).then(|| license.expires.to_string()),
            download_page: mailed.download_page.as_deref(),
            renewal_token: mailed.links.token.map(|token| token.reveal()),
            renew_url: mailed.links.renew.as_deref(),
            upgrade_url: mailed.links.upgrade.as_deref(),
        }
    }
}
