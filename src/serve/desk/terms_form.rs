//! What forms say of a license's terms: modules, sites, the last day.

use std::num::NonZeroU32;

use chrono::NaiveDate;

use crate::serve::pages::page_problem::PageProblem;
use countersign_model::license::Modules;
use countersign_model::license_key::LicenseKey;
use countersign_model::name::Name;
use countersign_model::period::last_day;
use countersign_registry::Registry;

/// The most sites that anybody may give a license here.
pub(super) const MOST_SITES: u32 = 100_000;

/// Modules as a form has them: `forms=export,pro; maps`.
pub(super) fn modules_text(modules: &Modules) -> String {
    let parts = modules.iter().map(|(module, features)| {
        let features: Vec<_> = features.iter().map(Name::as_str).collect();
        match features.is_empty() {
            true => module.to_string(),
            false => format!("{module}={}", features.join(",")),
        }
    });
    parts.collect::<Vec<_>>().join("; ")
}

/// The modules of a form. Each is one of a plugin.
///
/// # Errors
/// The text names none, one twice, or one that no plugin has.
pub(super) fn modules(text: &str, registry: &Registry) -> Result<Modules, PageProblem> {
    let refused = |sentence: String| PageProblem::refused(sentence);
    let sold = registry.sold_modules();
    let mut modules = Modules::new();
    for part in text.split([';', '\n']).map(str::trim).filter(|part| !part.is_empty()) {
        // SECURITY: a key that is pasted into the wrong field must not get into the ledger or a page.
        if LicenseKey::is_in(part) {
            return Err(refused("The modules have a license key in them.".to_owned()));
        }
        let (module, features) = part.split_once('=').unwrap_or((part, ""));
        let module = module.trim().parse::<Name>();
        let module = module.map_err(|error| refused(format!("A module is not taken: {error}.")))?;
        if !sold.has(&module) {
            let meant = sold.did_you_mean(&module);
            return Err(refused(format!("No plugin has the module {module}{meant}.")));
        }
        let features = features.split(',').map(str::trim).filter(|feature| !feature.is_empty());
        let features: Result<Vec<Name>, _> = features.map(str::parse).collect();
        let features = features.map_err(|error| refused(format!("A feature of {module} is not taken: {error}.")))?;
        if modules.insert(module.clone(), features).is_some() {
            return Err(refused(format!("The module {module} is there twice.")));
        }
    }
    match modules.is_empty() {
        true => Err(refused("The form names no module.".to_owned())),
        false => Ok(modules),
    }
}

/// The number of sites of a form; `None` for any number, where the field is empty.
pub(super) fn sites(text: &str) -> Result<Option<NonZeroU32>, PageProblem> {
    if text.is_empty() {
        return Ok(None);
    }
    let sites: Option<NonZeroU32> = text.parse().ok();
    let sites = sites.filter(|sites| sites.get() <= MOST_SITES);
    sites
        .map(Some)
        .ok_or_else(|| PageProblem::refused(format!("The number of sites must be from 1 to {MOST_SITES}, or empty.")))
}

/// The last day of a form.
pub(super) fn day(text: &str) -> Result<NaiveDate, PageProblem> {
    let day = text.parse().ok().and_then(last_day);
    day.ok_or_else(|| PageProblem::refused("The day must be like 2027-12-31.".to_owned()))
}
