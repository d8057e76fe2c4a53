//! Checks offers: whether their shops and modules exist.

use crate::commands::doctor::finding::{Finding, warning};
use crate::commands::offer_warnings::offer_warnings;
use countersign_registry::Registry;
use countersign_settings::config::Config;

/// One finding for each probable mistake.
pub(super) fn findings(registry: &Registry, config: &Config) -> Vec<Finding> {
    let warnings = offer_warnings(registry.offers(), &registry.sold_modules(), &config.shops);
    let findings = warnings.into_iter();
    findings.map(|found| warning("offer", found.text, found.hint)).collect()
}
