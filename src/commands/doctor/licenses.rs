//! Checks licenses of files and of the ledger: whether plugins have their modules, whether the server accepts their keys, and whether
//! declarations differ from what the ledger adopted.

use std::collections::BTreeMap;

use crate::build::counted;
use crate::commands::doctor::finding::{Finding, warning};
use crate::serve::differing_declarations::DifferingDeclarations;
use countersign_model::issued_license::IssuedLicense;
use countersign_model::license::{License, LicenseStatus};
use countersign_model::name::Name;
use countersign_registry::Registry;

/// The findings about the licenses of the registry, and about those that the ledger `issued`.
pub(super) fn findings(registry: &Registry, issued: &[IssuedLicense], accepts_foreign_keys: bool) -> Vec<Finding> {
    // What is revoked for good needs no correction. The ledger never forgets it.
    let is_in_use = |license: &License| license.status != LicenseStatus::Revoked;
    let of_ledger = |license: &License| {
        let place = issued.binary_search_by_key(&license.id, |issued| issued.license.id);
        Some(&issued[place.ok()?])
    };
    let in_use: Vec<_> = issued.iter().filter(|issued| is_in_use(&issued.license)).collect();
    let declared = registry.licenses();
    let declared = declared.filter(|license| is_in_use(license) && of_ledger(license).is_none());
    let all = declared.chain(in_use.iter().map(|issued| &issued.license));
    let mut findings = modules_nobody_sells(registry, all);
    let differs = |license: &License| of_ledger(license).is_some_and(|issued| issued.differs_from(license));
    let differing = DifferingDeclarations::find(registry, differs);
    if differing.count > 0 {
        let hint = "change these licenses with `countersign license`, and remove their declarations or restore what was adopted";
        findings.push(warning("license", differing.to_string(), hint));
    }
    if !accepts_foreign_keys {
        findings.extend(foreign_keys(&in_use));
    }
    findings
}

/// Modules that licenses have and no plugin has, which are usually mistyped.
fn modules_nobody_sells<'l>(registry: &Registry, licenses: impl Iterator<Item = &'l License>) -> Vec<Finding> {
    let sold = registry.sold_modules();
    let mut unsold: BTreeMap<&Name, usize> = BTreeMap::new();
    for license in licenses {
        for module in sold.unsold(&license.modules) {
            *unsold.entry(module).or_default() += 1;
        }
    }
    let finding = |(module, count): (&Name, usize)| {
        let grant = if count == 1 { "grants" } else { "grant" };
        let finding = format!(
            "{} {grant} the module \"{module}\", but no plugin belongs to it{}",
            counted(count, "license"),
            sold.did_you_mean(module)
        );
        warning(
            "license",
            finding,
            "if the module is meant to have no plugin, ignore this; otherwise correct its name",
        )
    };
    unsold.into_iter().map(finding).collect()
}

/// Licenses with keys that were made elsewhere, which the server does not accept in another form than its own.
fn foreign_keys(issued: &[&IssuedLicense]) -> Option<Finding> {
    // The person who declared a license knows whether its key is one of ours.
    let is_foreign = |issued: &&&IssuedLicense| issued.origin.has_foreign_key() && issued.adopted_grant().is_none();
    let foreign = issued.iter().filter(is_foreign).count();
    let finding = format!(
        "{} with keys that were made elsewhere, and the server refuses keys of another form than its own",
        counted(foreign, "license")
    );
    (foreign > 0).then(|| {
        let hint =
            "set foreign_keys = true in [serve], unless another countersign made them all: docs/coming-from-edd.md";
        warning("license", finding, hint)
    })
}
