//! What a mail is about, and what its texts can show of a license.

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

use countersign_model::language::Language;
use countersign_model::license::{License, SiteLimit};
use countersign_model::license_key::LicenseKey;
use countersign_model::reminder::ReminderKind;
use countersign_model::shop_link::LicenseLinks;
use countersign_model::site_host::SiteHost;

/// The last day of a license without an end.
const NO_END: NaiveDate = NaiveDate::from_ymd_opt(9999, 12, 31).unwrap();

/// What a mail says, for the moment in which it is made.
// SECURITY: personal, and it has keys. `Debug` shows neither.
#[derive(Clone)]
pub struct MailContent {
    /// What it is about.
    pub kind: MailKind,
    /// The customer's name, if somebody said it.
    pub name: Option<Box<str>>,
    /// The language of the text; `None` for the vendor's.
    pub language: Option<Language>,
    /// The licenses; at least one.
    pub licenses: Vec<MailedLicense>,
    /// What it reminds of.
    pub reminder: Option<MailedReminder>,
    /// The site that was installed again; only in a mail about that.
    pub site: Option<MailedSite>,
}

/// A site that was installed again.
#[derive(Clone, PartialEq, Eq)]
pub struct MailedSite {
    /// Its host.
    pub host: SiteHost,
    /// From this day on, the new installation counts.
    pub day: NaiveDate,
    /// Where the customer confirms it.
    pub confirm: String,
}

/// What a mail reminds of.
#[derive(Clone, PartialEq, Eq)]
pub struct MailedReminder {
    /// How long before or after the last day.
    pub kind: ReminderKind,
    /// Where the customer says no to further ones. It takes one-click POST, too (RFC 8058).
    pub unsubscribe: String,
}

/// A license, and its key where the mail has it.
#[derive(Clone, Debug)]
pub struct MailedLicense {
    /// Its key; only a mail with keys has it.
    pub key: Option<LicenseKey>,
    /// The order of the shop, unless its text was erased.
    pub order: Option<Box<str>>,
    /// What was sold, in the shop's own words, if they are known.
    pub product: Option<Box<str>>,
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
    customer: CustomerValues<'a>,
    language: Option<&'a str>,
    /// Days before or after the last day. Only a reminder has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    days: Option<u16>,
    /// Only a reminder has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    unsubscribe: Option<&'a str>,
    /// Only a mail about a site that was installed again has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    site: Option<SiteValues<'a>>,
    /// The licenses of the order; at least one.
    licenses: Vec<LicenseValues<'a>>,
    /// The first of them, for texts of vendors who never sell more at once.
    license: LicenseValues<'a>,
}

#[derive(Serialize)]
struct SiteValues<'a> {
    host: &'a str,
    /// `2027-11-24`.
    day: String,
    confirm_url: &'a str,
}

#[derive(Serialize)]
struct CustomerValues<'a> {
    name: Option<&'a str>,
}

#[derive(Clone, Serialize)]
struct LicenseValues<'a> {
    // SECURITY: the one place where a key becomes text for a mail.
    key: Option<&'a str>,
    id: String,
    order: Option<&'a str>,
    product: Option<&'a str>,
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

impl std::fmt::Debug for MailContent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MailContent(redacted)")
    }
}

impl std::fmt::Debug for MailedReminder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MailedReminder({}, redacted)", self.kind)
    }
}

impl std::fmt::Debug for MailedSite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MailedSite(redacted)")
    }
}

impl<'a> MailValues<'a> {
    /// The values of a mail; `None` if it has no licenses.
    pub(super) fn of(content: &'a MailContent) -> Option<Self> {
        let licenses: Vec<_> = content.licenses.iter().map(LicenseValues::of).collect();
        let license = licenses.first()?.clone();
        let reminder = content.reminder.as_ref();
        Some(Self {
            customer: CustomerValues {
                name: content.name.as_deref(),
            },
            language: content.language.as_ref().map(Language::as_str),
            days: reminder.map(|reminder| reminder.kind.days()),
            unsubscribe: reminder.map(|reminder| reminder.unsubscribe.as_str()),
            site: content.site.as_ref().map(|site| SiteValues {
                host: site.host.as_str(),
                day: site.day.to_string(),
                confirm_url: &site.confirm,
            }),
            licenses,
            license,
        })
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
            key: mailed.key.as_ref().map(LicenseKey::reveal),
            id: license.id.to_string(),
            order: mailed.order.as_deref(),
            product: mailed.product.as_deref(),
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

/// What a mail is about. Each kind has texts of its own, in as many languages as the vendor writes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::EnumString, strum::IntoStaticStr, Serialize, Deserialize,
)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub enum MailKind {
    /// License keys.
    License,
    /// The pages with first copies, without a key.
    Download,
    /// Licenses that end soon.
    ReminderBefore,
    /// Licenses that have ended.
    ReminderAfter,
    /// A site that was installed again.
    SiteClaimed,
}
