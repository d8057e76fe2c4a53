//! A hosted package without a mark, for tests that need no real archive.

use serde_json::json;

use crate::support::instance::{Instance, LATEST, sha256};

/// What a server takes for a package: it reads no archive.
pub const PACKAGE: &str = "the bytes of a package without a mark";

/// Has the instance host it as the package of `acme-forms`.
pub fn host(instance: &Instance) {
    instance.write_secret("keys/downloads.key", "what makes links, and build ids.");
    let entry = "module = \"forms\"\nrepository = \"../../src\"\n";
    instance.write("registry/plugins/acme-forms.toml", entry);
    let manifest = "{\"download_link\":\"\",\"download_url\":\"\",\"name\":\"Acme Forms\",\"package\":\"\"}\n";
    instance.write(&format!("releases/acme-forms/{LATEST}.json"), manifest);
    instance.write(&format!("releases/acme-forms/{LATEST}.zip"), PACKAGE);
    let package = json!({
        "form": 1, "size": PACKAGE.len(), "sha256": sha256(PACKAGE), "mark": null, "tree": "0".repeat(40),
    });
    let release = json!({
        "version": LATEST, "tag": "v1.2.0", "commit": "0".repeat(40), "sha256": sha256(manifest), "package": package,
    });
    let plugins = json!({ "acme-forms": { "latest": LATEST, "releases": [release] } });
    instance.write_index("releases", &plugins);
}
