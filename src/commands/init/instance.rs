//! The files of an empty instance. They are copies of those at the root of this repository, which is an instance
//! itself.

use std::path::Path;

use countersign_files::durable_file::{self, Access};

use crate::commands::init::files::{InitError, create};
use countersign_model::customer::CustomerAddress;
use countersign_model::desk_person::DeskPerson;
use countersign_model::text::shell_quoted;

/// A plugin entry that explains every setting.
pub(super) const PLUGIN: &str = include_str!("../../../registry/plugins/acme-forms.toml");

/// A license file that explains every field and has no license.
const LICENSES: &str = include_str!("../../../registry/licenses/example.toml");

/// Every setting with its default, as a comment.
const CONFIG: &str = include_str!("../../../countersign.toml");

/// The line of [`CONFIG`] that a new instance does not follow, and the line that replaces it.
const LOCAL_HOSTS: &str = "#serve.local_hosts = \"bind\"\n";
const ALLOW_LOCAL_HOSTS: &str =
    "# The default is \"bind\". Here a trial on localhost does not take the seat of the customer's real site.
serve.local_hosts = \"allow\"\n";

/// The line that opens the desk. It is off by default, because its port may be taken.
const NO_DESK: &str = "#desk.listen = \"off\"\n";
const DESK: &str = "desk.listen = \"127.0.0.1:8082\"\n";

/// Explains who may use the desk, and names nobody.
const PEOPLE: &str = include_str!("../../../registry/desk.toml");

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
    "registry/desk.toml",
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

/// Creates an empty instance, without its keys. The person with the address `admin` may use the desk.
pub(super) fn write(folder: &Path, admin: Option<&CustomerAddress>) -> Result<(), InitError> {
    let plugins = format!(
        "# Plugins\n\nOne file a plugin, `<slug>.toml`, as `countersign build` reads it:\n\n```toml\n{PLUGIN}```\n"
    );
    let config = CONFIG.replace(LOCAL_HOSTS, ALLOW_LOCAL_HOSTS).replace(NO_DESK, DESK);
    let people = PEOPLE.to_owned() + &admin.map(person).unwrap_or_default();
    let files = [
        ("countersign.toml", &*config),
        (".gitignore", IGNORED),
        ("registry/plugins/README.md", &plugins),
        ("registry/licenses/licenses.toml", LICENSES),
        ("registry/desk.toml", &people),
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

/// The entry of a person who may do everything at the desk, called as the mailbox is.
fn person(address: &CustomerAddress) -> String {
    let mailbox = address
        .written()
        .rsplit_once('@')
        .map_or("admin", |(mailbox, _)| mailbox);
    let name: String = mailbox.chars().take(DeskPerson::MAX_NAME).collect();
    // Without control characters, a string of JSON is one of TOML.
    let [name, address] = [&*name, address.written()].map(|text| serde_json::Value::from(text).to_string());
    format!("\n[[person]]\nname = {name}\naddress = {address}\nrole = \"admin\"\n")
}

/// The next steps for the person.
pub(super) fn next_steps(folder: &Path) -> String {
    format!(
        "Next, in {}:
  describe a plugin in registry/plugins/<slug>.toml
  countersign license issue --module <slug> --expires 2027-12-31
  countersign build
  countersign serve
  countersign desk           # beside the server: a link to the page on which you see and change licenses
",
        shell_quoted(folder)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_model::desk_person::DeskRole;
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
    fn a_new_instance_has_a_desk_gives_no_seat_to_localhost_and_has_the_default_of_every_other_setting() {
        assert!(CONFIG.contains(LOCAL_HOSTS) && CONFIG.contains(NO_DESK));
        let folder = tempfile::tempdir().unwrap();
        let load = || Config::load(folder.path(), &PathSettings::default(), &ServeSettings::default()).unwrap();
        let mut built_in = load();
        write(folder.path(), None).unwrap();
        let new = load();
        assert_eq!(new.serve.local_hosts, LocalHosts::Allow);
        built_in.serve.local_hosts = LocalHosts::Allow;
        let desk = new.desk.clone().unwrap();
        assert_eq!((desk.listen.to_string().as_str(), desk.url), ("127.0.0.1:8082", None));
        built_in.desk.clone_from(&new.desk);
        assert_eq!(format!("{new:?}"), format!("{built_in:?}"));
    }

    #[test]
    fn the_admin_may_use_the_desk_whatever_the_address_has_and_without_one_nobody_may() {
        let people = |admin: Option<&str>| {
            let folder = tempfile::tempdir().unwrap();
            let admin = admin.map(|address| address.parse().unwrap());
            write(folder.path(), admin.as_ref()).unwrap();
            let registry = Registry::load(&folder.path().join("registry")).unwrap();
            let named = |person: &DeskPerson| (person.name.to_string(), person.address.clone(), person.role);
            registry.people().iter().map(named).collect::<Vec<_>>()
        };
        assert_eq!(people(None), []);
        for (address, name) in [
            ("anna@example.com", "anna"),
            ("it's\"me\\@example.com", "it's\"me\\"),
            (&format!("{}@example.com", "a".repeat(64)), &"a".repeat(60)),
        ] {
            let admin = address.parse().unwrap();
            assert_eq!(people(Some(address)), [(name.to_owned(), admin, DeskRole::Admin)]);
        }
        assert_eq!(toml::from_str::<toml::Table>(&uncommented(PEOPLE)).unwrap().len(), 1);
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
