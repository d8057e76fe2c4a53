//! Warns in the log of a license with a module that no plugin of the registry has: probably a typing error of a program.
//!
//! The request is not refused: a plugin may get its entry later, and a module may be meant to have no plugin.

use crate::serve::api::licenses::caller::Caller;
use crate::serve::state::Service;
use countersign_model::license::Modules;
use countersign_model::license_key::LicenseId;

/// Warns once for a request that gave a license these modules.
pub(super) fn warn(service: &Service, caller: &Caller, id: &LicenseId, modules: &Modules) {
    let snapshot = service.gate.snapshot();
    let sold = snapshot.registry.sold_modules();
    let unsold: Vec<_> = sold
        .unsold(modules)
        .into_iter()
        .map(|module| format!("{module}{}", sold.did_you_mean(module)))
        .collect();
    if !unsold.is_empty() {
        tracing::warn!(
            license = id.log_tag(),
            by = %caller.scope,
            modules = unsold.join(", "),
            "no plugin of the registry has these modules of the license"
        );
    }
}
