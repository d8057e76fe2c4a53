//! The table of presets: what each system's export looks like, and what its words mean. One reader serves them all.
//!
//! docs/import.md names the source of each.

use countersign_model::license::SiteLimit;

use crate::import::export_field::ExportField;

/// The form of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportForm {
    /// A header and rows.
    Csv,
    /// JSON: answers of an API one after the other, with the licenses in this member; or lists, or single objects.
    Json {
        /// The member with the licenses.
        list: &'static str,
    },
}

impl ExportForm {
    /// What a row is counted as: a line of its file, or a license.
    pub fn counts(self) -> &'static str {
        match self {
            Self::Csv => "line",
            Self::Json { .. } => "license",
        }
    }

    /// What has a field.
    pub fn parts(self) -> &'static str {
        match self {
            Self::Csv => "column",
            Self::Json { .. } => "member",
        }
    }
}

/// What a word of the column for the status means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusMeaning {
    /// In use.
    Active,
    /// Its last day is past.
    Expired,
    /// Suspended until somebody resumes it.
    Suspended,
    /// Revoked for good.
    Revoked,
    /// No license of anybody.
    Skip,
}

impl StatusMeaning {
    /// The meaning with this name, as `--status` takes it.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "active" => Self::Active,
            "expired" => Self::Expired,
            "suspended" => Self::Suspended,
            "revoked" => Self::Revoked,
            "skip" => Self::Skip,
            _ => return None,
        })
    }
}

/// What a row means that has no number of sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoNumber {
    /// The system means this by it.
    Means(SiteLimit),
    /// The system does not say: this is assumed, and reported.
    Assumed(SiteLimit),
    /// Nobody knows.
    Unknown,
}

/// When the value of a member is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportedWhen {
    /// The member has one of these values.
    Is(&'static [&'static str]),
    /// The member has any value but null.
    IsGiven,
}

/// A member that a license cannot have here. The import counts and reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportedMember {
    /// The column or member.
    pub header: &'static str,
    /// The values that count.
    pub when: ReportedWhen,
    /// The words of the report.
    pub what: &'static str,
}

/// One system and its export.
#[derive(Debug)]
pub struct Preset {
    /// As `--from` takes it.
    pub name: &'static str,
    /// For the help.
    pub about: &'static str,
    /// CSV or JSON.
    pub form: ExportForm,
    /// The columns, in lower case, or the members of each license; the first one that is there counts.
    pub fields: &'static [(ExportField, &'static [&'static str])],
    /// What must be there; of each group one.
    pub required: &'static [&'static [ExportField]],
    /// The words for the status, in lower case.
    pub statuses: &'static [(&'static str, StatusMeaning)],
    /// Whether an empty end means a lifetime.
    pub empty_end_is_lifetime: bool,
    /// What no number of sites means: no column, an empty cell, or null.
    pub no_sites: NoNumber,
    /// What 0 sites means.
    pub zero_sites: NoNumber,
    /// The members that a license cannot have here.
    pub reported: &'static [ReportedMember],
}

const UNLIMITED: NoNumber = NoNumber::Means(SiteLimit::Unlimited);

use ExportField as F;
use StatusMeaning as S;

/// Every preset.
pub static PRESETS: [Preset; 7] = [
    Preset {
        name: "edd",
        about: "EDD Software Licensing: \"Export License Keys\", CSV",
        form: ExportForm::Csv,
        // The nine columns of 3.0 to 3.5, and the fourteen since 3.6.
        fields: &[
            (F::Key, &["license key"]),
            (F::Status, &["license status"]),
            (F::Expires, &["expiration date"]),
            (F::Sites, &["activation limit"]),
            (F::Hosts, &["activated urls"]),
            (F::Reference, &["license id"]),
            (F::Created, &["purchase date"]),
            (F::Product, &["product name"]),
            (F::ProductId, &["product id", "download id"]),
            (F::Price, &["price id"]),
            (F::Customer, &["customer email", "email"]),
            (F::Name, &["customer name"]),
        ],
        // Without the limit and the sites, a license would be another one than in the shop.
        required: &[
            &[F::Key],
            &[F::Status],
            &[F::Expires],
            &[F::Sites],
            &[F::Hosts],
            &[F::Product, F::ProductId],
        ],
        statuses: &[
            ("active", S::Active),
            ("inactive", S::Active),
            ("expired", S::Expired),
            ("disabled", S::Suspended),
        ],
        empty_end_is_lifetime: true,
        no_sites: NoNumber::Unknown,
        zero_sites: UNLIMITED,
        reported: &[],
    },
    Preset {
        name: "lmfwc",
        about: "License Manager for WooCommerce: the export of license keys, CSV",
        form: ExportForm::Csv,
        fields: &[
            (F::Key, &["license_key"]),
            (F::Status, &["status"]),
            (F::Expires, &["expires_at"]),
            (F::ValidFor, &["valid_for"]),
            (F::Sites, &["times_activated_max"]),
            (F::Created, &["created_at"]),
            (F::ProductId, &["product_id"]),
            (F::Order, &["order_id"]),
        ],
        required: &[
            &[F::Key],
            &[F::Status],
            &[F::Expires],
            &[F::ValidFor],
            &[F::ProductId, F::Product],
        ],
        statuses: &[
            ("sold", S::Active),
            ("delivered", S::Active),
            // Stock that nobody bought.
            ("active", S::Skip),
            ("inactive", S::Suspended),
        ],
        empty_end_is_lifetime: true,
        no_sites: NoNumber::Unknown,
        zero_sites: NoNumber::Unknown,
        reported: &[],
    },
    Preset {
        name: "freemius",
        about: "Freemius: licenses of its API, JSON",
        form: ExportForm::Json { list: "licenses" },
        fields: &[
            (F::Key, &["secret_key"]),
            (F::Status, &["is_cancelled"]),
            (F::Expires, &["expiration"]),
            (F::Sites, &["quota"]),
            (F::Reference, &["id"]),
            (F::Created, &["created"]),
            (F::ProductId, &["plugin_id", "product_id"]),
            (F::Price, &["plan_id"]),
            (F::Customer, &["email", "user.email"]),
            (F::Name, &["name", "user.name"]),
        ],
        required: &[
            &[F::Key],
            &[F::Status],
            &[F::Expires],
            &[F::Sites],
            &[F::ProductId, F::Product],
        ],
        statuses: &[
            ("false", S::Active),
            ("0", S::Active),
            ("true", S::Suspended),
            ("1", S::Suspended),
        ],
        empty_end_is_lifetime: false,
        no_sites: UNLIMITED,
        zero_sites: NoNumber::Unknown,
        reported: &[
            ReportedMember {
                header: "is_block_features",
                when: ReportedWhen::Is(&["false", "0"]),
                what: "that it runs on after its end (is_block_features)",
            },
            ReportedMember {
                header: "parent_license_id",
                when: ReportedWhen::IsGiven,
                what: "the license of the bundle that it belongs to (parent_license_id)",
            },
            ReportedMember {
                header: "products",
                when: ReportedWhen::IsGiven,
                what: "the products of the bundle (products)",
            },
        ],
    },
    Preset {
        name: "lemon-squeezy",
        about: "Lemon Squeezy: license-keys of its API, JSON",
        form: ExportForm::Json { list: "data" },
        fields: &[
            (F::Key, &["attributes.key"]),
            (F::Status, &["attributes.status"]),
            (F::Expires, &["attributes.expires_at"]),
            (F::Sites, &["attributes.activation_limit"]),
            (F::Created, &["attributes.created_at"]),
            (F::ProductId, &["attributes.product_id"]),
            (F::Order, &["attributes.order_id"]),
            (F::Customer, &["attributes.user_email"]),
            (F::Name, &["attributes.user_name"]),
        ],
        required: &[
            &[F::Key],
            &[F::Status],
            &[F::Expires],
            &[F::Sites],
            &[F::ProductId, F::Product],
        ],
        statuses: &[
            ("active", S::Active),
            ("inactive", S::Active),
            ("expired", S::Expired),
            ("disabled", S::Suspended),
        ],
        empty_end_is_lifetime: false,
        no_sites: UNLIMITED,
        zero_sites: NoNumber::Unknown,
        reported: &[],
    },
    Preset {
        name: "surecart",
        about: "SureCart: licenses of its API, JSON",
        form: ExportForm::Json { list: "data" },
        fields: &[
            (F::Key, &["key"]),
            (F::Status, &["status"]),
            (F::Expires, &["revokes_at"]),
            (F::Sites, &["activation_limit"]),
            (F::Created, &["created_at"]),
            (
                F::Product,
                &["purchase.product.name", "purchase.product", "product.name", "product"],
            ),
            (F::Price, &["purchase.price", "price"]),
            (F::Order, &["purchase.id", "purchase"]),
            (F::Customer, &["customer.email", "purchase.customer.email"]),
            (F::Name, &["customer.name", "purchase.customer.name"]),
        ],
        required: &[
            &[F::Key],
            &[F::Status],
            &[F::Expires],
            &[F::Sites],
            &[F::Product, F::ProductId, F::Modules],
        ],
        statuses: &[("active", S::Active), ("inactive", S::Active), ("revoked", S::Revoked)],
        empty_end_is_lifetime: false,
        no_sites: UNLIMITED,
        zero_sites: NoNumber::Unknown,
        reported: &[],
    },
    Preset {
        name: "keygen",
        about: "Keygen: licenses of its API, JSON",
        form: ExportForm::Json { list: "data" },
        fields: &[
            (F::Key, &["attributes.key"]),
            (F::Status, &["attributes.status"]),
            (F::Expires, &["attributes.expiry"]),
            (F::Sites, &["attributes.maxMachines"]),
            (F::Reference, &["id"]),
            (F::Created, &["attributes.created"]),
            (F::Product, &["relationships.product.data.id"]),
            (F::Price, &["relationships.policy.data.id"]),
        ],
        required: &[
            &[F::Key],
            &[F::Status],
            &[F::Expires],
            &[F::Sites],
            &[F::Product, F::ProductId],
        ],
        statuses: &[
            ("active", S::Active),
            ("inactive", S::Active),
            ("expiring", S::Active),
            ("expired", S::Expired),
            ("suspended", S::Suspended),
            ("banned", S::Revoked),
        ],
        empty_end_is_lifetime: false,
        no_sites: UNLIMITED,
        zero_sites: NoNumber::Unknown,
        reported: &[],
    },
    Preset {
        name: "csv",
        about: "Any other system: CSV with the columns key, expires and modules, and others if you like",
        form: ExportForm::Csv,
        fields: &[
            (F::Key, &["key"]),
            (F::Status, &["status"]),
            (F::Expires, &["expires"]),
            (F::ValidFor, &["valid_for"]),
            (F::Sites, &["sites"]),
            (F::Hosts, &["hosts"]),
            (F::Reference, &["reference"]),
            (F::Created, &["created"]),
            (F::Modules, &["modules", "module"]),
            (F::Product, &["product"]),
            (F::ProductId, &["product_id"]),
            (F::Price, &["price"]),
            (F::Customer, &["customer"]),
            (F::Name, &["name"]),
            (F::Subscription, &["subscription"]),
            (F::Order, &["order"]),
        ],
        required: &[&[F::Key], &[F::Expires], &[F::Modules, F::Product, F::ProductId]],
        statuses: &[
            ("", S::Active),
            ("active", S::Active),
            ("inactive", S::Active),
            ("expired", S::Expired),
            ("suspended", S::Suspended),
            ("disabled", S::Suspended),
            ("revoked", S::Revoked),
        ],
        empty_end_is_lifetime: false,
        no_sites: NoNumber::Assumed(SiteLimit::DEFAULT),
        zero_sites: NoNumber::Assumed(SiteLimit::DEFAULT),
        reported: &[],
    },
];

impl Preset {
    /// The preset with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// The columns or members of a field, the first choice first.
    pub fn headers(&self, field: ExportField) -> &'static [&'static str] {
        let found = self.fields.iter().find(|(of, _)| *of == field);
        found.map_or(&[], |(_, headers)| headers)
    }

    /// Whether every license must have this field.
    pub fn requires(&self, field: ExportField) -> bool {
        self.required.iter().any(|one_of| one_of.contains(&field))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_preset_names_what_it_requires_and_each_word_once() {
        for preset in &PRESETS {
            assert_eq!(Preset::named(preset.name).map(|found| found.about), Some(preset.about));
            for one_of in preset.required {
                let is_named = |field: &ExportField| !preset.headers(*field).is_empty();
                assert!(one_of.iter().any(is_named), "{}: {one_of:?}", preset.name);
            }
            let words: BTreeSet<_> = preset.statuses.iter().map(|(word, _)| *word).collect();
            assert_eq!(words.len(), preset.statuses.len(), "{}", preset.name);
            let fields: BTreeSet<_> = preset.fields.iter().map(|(field, _)| *field).collect();
            assert_eq!(fields.len(), preset.fields.len(), "{}", preset.name);
            let is_small = |text: &str| text == text.to_lowercase();
            assert!(words.iter().all(|word| is_small(word)), "{}", preset.name);
            if preset.form == ExportForm::Csv {
                let headers = preset.fields.iter().flat_map(|(_, headers)| *headers);
                assert!(headers.copied().all(is_small), "{}", preset.name);
            }
        }
    }
}
