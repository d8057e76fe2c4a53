//! Any text as a plugin entry, as a license file and as an export of licenses. What is accepted can be written and
//! read as the same, whatever is before it; what is refused has its position in the file.
#![no_main]

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use countersign_model::license::{License, SiteLimit};
use countersign_registry::{Registry, RegistryError, RegistryFiles};
use libfuzzer_sys::fuzz_target;
use serde_json::json;

/// A registry of this process alone, empty between two reads.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("countersign-fuzz-registry-{}", std::process::id()));
        for part in ["plugins", "licenses"] {
            std::fs::create_dir_all(folder.join(part)).unwrap();
        }
        folder
    })
}

fn read(file: &str, text: &str) -> Option<Registry> {
    let file = folder().join(file);
    std::fs::write(&file, text).unwrap();
    let read = Registry::read(&RegistryFiles::folder(folder()));
    std::fs::remove_file(&file).unwrap();
    match read {
        Ok(registry) => Some(registry),
        Err(RegistryError::Diagnostics(diagnostics)) => {
            assert!(!diagnostics.is_empty());
            let lines = text.split('\n').count();
            for diagnostic in diagnostics {
                assert_eq!(diagnostic.file, file);
                assert!(diagnostic.line <= lines, "{diagnostic}");
                assert!(!diagnostic.to_string().contains(char::is_control), "{diagnostic}");
            }
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Checks that a license is accepted or refused whatever lines are before it and after it.
fn order_does_not_matter(text: &str) {
    let Some(line) = text.lines().find(|line| !line.trim().is_empty()) else {
        return;
    };
    // The same modules as the line's own, where it has any: what was read of them earlier is used again.
    let fields: Option<serde_json::Value> = serde_json::from_str(line).ok();
    let modules = fields
        .as_ref()
        .and_then(|fields| fields.get("modules").or(fields.get(2)));
    for modules in [r#"{"forms":[]}"#.to_owned()]
        .into_iter()
        .chain(modules.map(ToString::to_string))
    {
        let good = format!(
            r#"{{"id":"{}","expires":"2027-12-31","modules":{modules}}}"#,
            "ab".repeat(32)
        );
        let last = read("licenses/a.jsonl", &format!("{good}\n{text}\n"));
        let first = read("licenses/a.jsonl", &format!("{text}\n{good}\n"));
        let licenses = |registry: Option<Registry>| registry.map(|registry| registry.licenses().cloned().collect());
        let last: Option<Vec<License>> = licenses(last);
        let first: Option<Vec<License>> = licenses(first);
        assert_eq!(last, first);
    }
}

/// A license as an export spells it.
fn line_of(license: &License) -> String {
    let mut released: serde_json::Map<_, _> = license
        .details
        .released
        .hosts
        .iter()
        .map(|(host, time)| (host.to_string(), json!(time)))
        .collect();
    released.extend(license.details.released.all.map(|time| ("*".to_owned(), json!(time))));
    let mut line = json!({
        "id": license.id.to_string(), "status": license.status, "expires": license.expires, "note": license.details.note,
        "modules": &*license.modules, "hosts": *license.details.hosts, "released": released,
        "sites": match license.sites { SiteLimit::Limited(limit) => json!(limit), SiteLimit::Unlimited => json!("unlimited") },
    });
    if let Some(hours) = license.grace_period_hours {
        line["grace_period_hours"] = hours.into();
    }
    format!("{line}\n")
}

fuzz_target!(|text: &str| {
    if let Some(registry) = read("plugins/acme.toml", text) {
        assert_eq!(
            registry.plugin("acme").expect("the plugin of that name").slug.as_str(),
            "acme"
        );
    }
    order_does_not_matter(text);
    for file in ["licenses/a.toml", "licenses/a.jsonl"] {
        let Some(registry) = read(file, text) else { continue };
        let lines: String = registry.licenses().map(|license| line_of(license)).collect();
        let again = read("licenses/b.jsonl", &(lines + "\n")).expect("what was taken can be written down");
        assert_eq!(again.license_count(), registry.license_count());
        for license in registry.licenses() {
            assert_eq!(again.license(&license.id), Some(license));
        }
    }
});
