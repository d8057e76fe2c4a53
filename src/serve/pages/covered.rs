//! What licenses cover, as pages show it.

use crate::serve::gate::Snapshot;
use countersign_model::license::License;
use countersign_model::text::outside_text::OutsideText;

/// What a license covers: `Acme Forms + export`.
pub(in crate::serve) fn covers(license: &License, snapshot: &Snapshot) -> OutsideText {
    let parts = license.modules.iter().map(|(module, features)| {
        let plugins = snapshot.registry.plugins().filter(|plugin| plugin.module == *module);
        let mut names: Vec<_> = plugins
            .map(|plugin| plugin.shown_name(snapshot.catalog.plugin_name(&plugin.slug)).to_owned())
            .collect();
        names.sort();
        let mut part = match names.is_empty() {
            true => module.to_string(),
            false => names.join(", "),
        };
        for feature in features {
            part += &format!(" + {feature}");
        }
        part
    });
    OutsideText::of(&parts.collect::<Vec<_>>().join(", "))
}
