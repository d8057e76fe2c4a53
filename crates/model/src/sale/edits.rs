//! What people changed of a license that a shop sold. A person's value holds while the shop says what it said then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

use crate::digest::Hex128;
use crate::license_terms::{LicenseStatus, Modules, SiteLimit};
use crate::name::Name;
use crate::sale::terms::SoldGrant;
use crate::slug::Slug;

/// A person's value, and what the shop said at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit<T> {
    base: T,
    value: T,
}

/// A person's changes, by field. Each module and each feature is a field of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Edits {
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<Edit<NaiveDate>>,
    /// By `module` or `module/feature`: whether it is covered.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    modules: BTreeMap<String, Edit<bool>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    site_moves: Option<Edit<Option<u16>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sites: Option<Edit<SiteLimit>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    staging_sites: Option<Edit<Option<u16>>>,
    /// A person's status, beside the shop's.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<LicenseStatus>,
}

impl<T: PartialEq + Clone> Edit<T> {
    /// The value in force.
    fn over(edit: Option<&Self>, of_shop: &T) -> T {
        let holds = edit.filter(|edit| edit.base == *of_shop);
        holds.map_or(of_shop, |edit| &edit.value).clone()
    }

    /// The edit after a person wants `value` where `before` was in force.
    fn after(edit: Option<&Self>, of_shop: &T, before: &T, value: &T) -> Option<Self> {
        if before == value {
            return edit.cloned();
        }
        (value != of_shop).then(|| Self {
            base: of_shop.clone(),
            value: value.clone(),
        })
    }
}

impl Edits {
    /// Whether nobody changed anything.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What is in force while the shop grants this.
    pub fn over(&self, of_shop: &SoldGrant) -> SoldGrant {
        SoldGrant {
            status: of_shop.status.graver(self.status.unwrap_or(LicenseStatus::Active)),
            expires: match &self.expires {
                // A later end holds until the shop's is later still.
                Some(edit) if edit.value >= edit.base => edit.value.max(of_shop.expires),
                edit => Edit::over(edit.as_ref(), &of_shop.expires),
            },
            renewal_days: of_shop.renewal_days,
            modules: self.modules_over(&of_shop.modules),
            sites: Edit::over(self.sites.as_ref(), &of_shop.sites),
            staging_sites: Edit::over(self.staging_sites.as_ref(), &of_shop.staging_sites),
            site_moves: Edit::over(self.site_moves.as_ref(), &of_shop.site_moves),
        }
    }

    fn modules_over(&self, of_shop: &Arc<Modules>) -> Arc<Modules> {
        if self.modules.is_empty() {
            return Arc::clone(of_shop);
        }
        let mut covered = fields(of_shop);
        for (field, edit) in &self.modules {
            if covered.contains(field) != edit.base {
                continue;
            }
            match edit.value {
                true => covered.insert(field.clone()),
                false => covered.remove(field),
            };
        }
        let mut modules = Modules::new();
        for field in &covered {
            let (module, feature) = match field.split_once('/') {
                Some((module, feature)) => (module, Some(feature)),
                None => (field.as_str(), None),
            };
            let Ok(module) = module.parse::<Name>() else {
                continue;
            };
            // A feature of a module that is not covered is none.
            match feature.map(str::parse::<Name>) {
                None => {
                    modules.entry(module).or_default();
                }
                Some(Ok(feature)) => {
                    modules.entry(module).and_modify(|features| features.push(feature));
                }
                Some(Err(_)) => {}
            }
        }
        Arc::new(modules)
    }

    /// The edits after a person changed what was in force into this.
    #[must_use]
    pub fn after(&self, of_shop: &SoldGrant, wanted: &SoldGrant) -> Self {
        let before = self.over(of_shop);
        let mut modules = self.modules.clone();
        let sold = fields(&of_shop.modules);
        let covered = fields(&before.modules);
        let named = fields(&wanted.modules);
        for field in covered.symmetric_difference(&named) {
            modules.insert(
                field.clone(),
                Edit {
                    base: sold.contains(field),
                    value: named.contains(field),
                },
            );
        }
        Self {
            expires: Edit::after(
                self.expires.as_ref(),
                &of_shop.expires,
                &before.expires,
                &wanted.expires,
            ),
            modules,
            site_moves: Edit::after(
                self.site_moves.as_ref(),
                &of_shop.site_moves,
                &before.site_moves,
                &wanted.site_moves,
            ),
            sites: Edit::after(self.sites.as_ref(), &of_shop.sites, &before.sites, &wanted.sites),
            staging_sites: Edit::after(
                self.staging_sites.as_ref(),
                &of_shop.staging_sites,
                &before.staging_sites,
                &wanted.staging_sites,
            ),
            status: match wanted.status {
                LicenseStatus::Active => None,
                status if status == before.status => self.status,
                status => Some(status),
            },
        }
    }
}

/// Where the terms of a license come from: a sale, and what people changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sold {
    /// What people changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    edited: Option<Edited>,
    /// The offer that it was sold under last, by its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offer: Option<Slug>,
    /// The sale.
    pub sale: Hex128,
}

/// What people changed, and what the shop granted when the license was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Edited {
    edits: Edits,
    granted: SoldGrant,
}

impl Sold {
    /// Nobody changed anything.
    pub fn of(sale: Hex128) -> Self {
        Self {
            edited: None,
            offer: None,
            sale,
        }
    }

    /// Somebody withdrew a license that was like this.
    pub fn withdrawn(sale: Hex128, license: &SoldGrant) -> Self {
        let edits = Edits {
            status: Some(license.status),
            ..Edits::default()
        };
        let granted = license.clone();
        Self {
            edited: Some(Edited { edits, granted }),
            offer: None,
            sale,
        }
    }

    /// What the shop granted when the license was written, which is like this.
    pub fn granted(&self, license: &SoldGrant) -> SoldGrant {
        match &self.edited {
            Some(edited) => edited.granted.clone(),
            None => license.clone(),
        }
    }

    /// Whether the shop suspends a license that is like this, and no person does: nothing that a person lifts is there.
    pub fn is_suspended_by_shop_alone(&self, license: &SoldGrant) -> bool {
        let is_persons = self.edited.as_ref().is_some_and(|edited| edited.edits.status.is_some());
        self.granted(license).status == LicenseStatus::Suspended && !is_persons
    }

    /// What is in force after a person changed the license from `before` into `wanted`, as far as the shop allows. `is_withdrawn`: the
    /// person withdraws it, also if the shop did so before.
    #[must_use]
    pub fn after_person(&self, before: &SoldGrant, wanted: &SoldGrant, is_withdrawn: bool) -> (Self, SoldGrant) {
        let none = Edits::default();
        let granted = self.granted(before);
        let edits = self.edited.as_ref().map_or(&none, |edited| &edited.edits);
        let mut edits = edits.after(&granted, wanted);
        if is_withdrawn && wanted.status != LicenseStatus::Active {
            edits.status = Some(wanted.status);
        }
        self.applied(edits, granted)
    }

    /// What is in force while the shop grants this, with what people changed.
    #[must_use]
    pub fn after_shop(&self, granted: SoldGrant) -> (Self, SoldGrant) {
        let edits = self.edited.as_ref().map(|edited| edited.edits.clone());
        self.applied(edits.unwrap_or_default(), granted)
    }

    fn applied(&self, edits: Edits, granted: SoldGrant) -> (Self, SoldGrant) {
        let in_force = edits.over(&granted);
        let edited = (!edits.is_empty()).then_some(Edited { edits, granted });
        let sold = Self {
            edited,
            offer: self.offer.clone(),
            sale: self.sale,
        };
        (sold, in_force)
    }
}

/// Each module as `module`, and each of its features as `module/feature`.
fn fields(modules: &Modules) -> BTreeSet<String> {
    let mut fields = BTreeSet::new();
    for (module, features) in modules {
        fields.insert(module.to_string());
        fields.extend(features.iter().map(|feature| format!("{module}/{feature}")));
    }
    fields
}
