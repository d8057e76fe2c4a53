//! The licenses that commands know: those of files, and those of the ledger. A license that stands in both is the file's.

use countersign_model::binding::Binding;
use countersign_model::issued_license::IssuedLicense;
use countersign_model::license::License;
use countersign_model::license_key::LicenseId;
use countersign_registry::Registry;

/// The licenses of files and of the ledger.
pub(super) struct KnownLicenses {
    registry: Registry,
    /// Sorted by id, without those that stand in a file.
    issued: Vec<IssuedLicense>,
}

impl KnownLicenses {
    /// The licenses of the files, and these of the ledger, sorted by id.
    pub(super) fn new(registry: Registry, mut issued: Vec<IssuedLicense>) -> Self {
        issued.retain(|issued| registry.license(&issued.license.id).is_none());
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
        self.registry.licenses().chain(issued)
    }

    /// The license with this id.
    pub(super) fn with_id(&self, id: &LicenseId) -> Option<&License> {
        let of_ledger = || Some(&self.issued_with_id(id)?.license);
        self.registry.license(id).or_else(of_ledger)
    }

    /// The license of the ledger with this id, unless it stands in a file.
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
