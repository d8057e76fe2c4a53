//! The licenses that commands know: those of the ledger, and those that files declare. An id that both have is the ledger's.

use countersign_model::binding::Binding;
use countersign_model::issued_license::IssuedLicense;
use countersign_model::license::License;
use countersign_model::license_key::LicenseId;
use countersign_registry::Registry;

/// The licenses of the ledger and of files.
pub(super) struct KnownLicenses {
    registry: Registry,
    /// Sorted by id.
    issued: Vec<IssuedLicense>,
}

impl KnownLicenses {
    /// The licenses of the files, and these of the ledger, sorted by id.
    pub(super) fn new(registry: Registry, issued: Vec<IssuedLicense>) -> Self {
        Self { registry, issued }
    }

    /// The files.
    pub(super) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Those of the ledger.
    pub(super) fn issued(&self) -> &[IssuedLicense] {
        &self.issued
    }

    /// Every license.
    pub(super) fn all(&self) -> impl Iterator<Item = &License> {
        let issued = self.issued.iter().map(|issued| &issued.license);
        self.declared().chain(issued)
    }

    /// The declarations in force, in file order: those that the ledger has no license for.
    pub(super) fn declared(&self) -> impl Iterator<Item = &License> {
        let declared = self.registry.licenses_in_order();
        declared.filter(|license| self.issued_with_id(&license.id).is_none())
    }

    /// The license with this id.
    pub(super) fn with_id(&self, id: &LicenseId) -> Option<&License> {
        let of_ledger = self.issued_with_id(id).map(|issued| &issued.license);
        of_ledger.or_else(|| self.registry.license(id))
    }

    /// The note of the license with this id; empty if the license is unknown or has no note.
    pub(super) fn note(&self, id: &LicenseId) -> String {
        self.with_id(id)
            .map_or(String::new(), |license| license.details.note.clone())
    }

    /// The license of the ledger with this id.
    pub(super) fn issued_with_id(&self, id: &LicenseId) -> Option<&IssuedLicense> {
        let place = self.issued.binary_search_by_key(id, |issued| issued.license.id).ok()?;
        Some(&self.issued[place])
    }

    /// Whether this binding of a license holds no seat: the vendor or the site itself released it.
    pub(super) fn is_void(&self, id: &LicenseId, binding: &Binding) -> bool {
        self.with_id(id)
            .map_or(binding.is_released(), |license| license.is_void(binding))
    }
}
