//! The files of an empty instance. They are copies of those at the root of this repository, which is an instance
//! itself.

use std::path::Path;

use countersign_files::durable_file::{self, Access};

use crate::commands::init::files::{InitError, create};
use countersign_model::text::shell_quoted::shell_quoted;

/// A plugin entry that explains every setting.
pub(super) const PLUGIN: &str = include_str!("../../../registry/plugins/acme-forms.toml");

/// A license file that explains every field and has no license.
const LICENSES: &str = include_str!("../../../registry/licenses/example.toml");

/// Every setting with its default, as a comment.
const CONFIG: &str = include_str!("../../../countersign.toml");

/// The line of [`CONFIG`] that a new instance does not follow, and what stands there instead.
const LOCAL_HOSTS: &str = "#serve.local_hosts = \"bind\"\n";
const ALLOW_LOCAL_HOSTS: &str =
    "# The default is \"bind\". Here a trial on localhost does not take the seat of the customer's real site.
serve.local_hosts = \"allow\"\n";

const LANDING_PAGE: &str = include_str!("../../../public/index.html");
const INTERFACE: &str = include_str!("../../../public/openapi.json");

const IGNORED: &str = "\
# The private keys, and what only this machine knows.
/keys/
/store/
/.store.lock
/cache/
*.pem
!/public/keys/*.pem
";

/// The files of an empty instance; the key command creates the keys and their folders.
pub(super) const NAMES: &[&str] = &[
    "countersign.toml",
    ".gitignore",
    "registry/plugins/README.md",
    "registry/licenses/licenses.toml",
    "releases",
    "public/index.html",
    "public/openapi.json",
    "public/keys",
    "public/.well-known/jwks.json",
    "keys/signing.pem",
    "keys/downloads.key",
    "keys/issuing.key",
    "keys/references.key",
];

/// Creates an empty instance, without its keys.
pub(super) fn write(folder: &Path) -> Result<(), InitError> {
    let plugins = format!(
        "# Plugins\n\nOne file a plugin, `<slug>.toml`, as `countersign build` reads it:\n\n```toml\n{PLUGIN}```\n"
    );
    let files = [
        ("countersign.toml", &*CONFIG.replace(LOCAL_HOSTS, ALLOW_LOCAL_HOSTS)),
        (".gitignore", IGNORED),
        ("registry/plugins/README.md", &plugins),
        ("registry/licenses/licenses.toml", LICENSES),
        ("public/index.html", LANDING_PAGE),
        ("public/openapi.json", INTERFACE),
    ];
    for (name, text) in files {
        create(&folder.join(name), text)?;
    }
    let releases = folder.join("releases");
    durable_file::create_folders(&releases, Access::LikeFolder)
        .map_err(|source| InitError::Write { path: releases, source })
}

/// The next steps for the person.
pub(super) fn next_steps(folder: &Path) -> String {
    format!(
        "Next, in {}:
  describe a plugin in registry/plugins/<slug>.toml
  countersign license issue --module <slug> --expires 2027-12-31
  countersign build
  countersign serve
",
        shell_quoted(folder)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_registry::Registry;
    use countersign_settings::config::{Config, KeySettings, LocalHosts, PathSettings, ServeSettings, StoreSettings};

    /// A text with every setting uncommented: `#table.name = …`.
    fn uncommented(text: &str) -> String {
        let setting = |line: &str| line.starts_with(|c: char| c.is_ascii_alphanumeric() || "[\"".contains(c));
        let lines = text
            .lines()
            .map(|line| line.strip_prefix('#').filter(|rest| setting(rest)).unwrap_or(line));
        lines.map(|line| format!("{line}\n")).collect()
    }

    #[test]
    fn the_configuration_shows_every_setting_with_its_default() {
        #[derive(serde::Deserialize)]
        struct File {
            paths: PathSettings,
            keys: KeySettings,
            store: StoreSettings,
            serve: ServeSettings,
        }
        let File {
            paths,
            keys,
            store,
            serve,
        } = toml::from_str(&uncommented(CONFIG)).unwrap();
        let given = format!("{paths:?} {keys:?} {store:?} {serve:?}");
        assert!(!given.contains("None"), "a setting is missing: {given}");

        let folder = tempfile::tempdir().unwrap();
        let no_paths = PathSettings::default();
        let no_serve = ServeSettings::default();
        let load = || format!("{:?}", Config::load(folder.path(), &no_paths, &no_serve).unwrap());
        let built_in = load();
        for text in [CONFIG.to_owned(), uncommented(CONFIG)] {
            std::fs::write(folder.path().join("countersign.toml"), text).unwrap();
            assert_eq!(load(), built_in);
        }
    }

    #[test]
    fn a_new_instance_gives_no_seat_to_localhost_and_has_the_default_of_every_other_setting() {
        assert!(CONFIG.contains(LOCAL_HOSTS));
        let folder = tempfile::tempdir().unwrap();
        let load = || Config::load(folder.path(), &PathSettings::default(), &ServeSettings::default()).unwrap();
        let mut built_in = load();
        write(folder.path()).unwrap();
        let new = load();
        assert_eq!(new.serve.local_hosts, LocalHosts::Allow);
        built_in.serve.local_hosts = LocalHosts::Allow;
        assert_eq!(format!("{new:?}"), format!("{built_in:?}"));
    }

    #[test]
    fn the_examples_are_read_as_they_are_and_with_every_setting_put_in_force() {
        let load = |text: fn(&str) -> String| {
            let registry = tempfile::tempdir().unwrap();
            create(&registry.path().join("plugins/acme-forms.toml"), &text(PLUGIN)).unwrap();
            create(&registry.path().join("licenses/licenses.toml"), &text(LICENSES)).unwrap();
            Registry::load(registry.path()).unwrap()
        };
        assert_eq!(load(str::to_owned).license_count(), 0);
        assert_eq!(load(uncommented).license_count(), 1);
    }
}
