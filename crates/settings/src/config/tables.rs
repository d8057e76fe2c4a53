//! Tables without command-line flags: `[mail]`, `[shops.NAME]` and `[webhooks.NAME]`. One declaration gives a setting its name
//! in the file and its environment variable: `COUNTERSIGN_SHOPS_OWN_STORE_MODE` is `mode` of `[shops.own-store]`.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;

use crate::config::error::ConfigError;
use countersign_model::slug::Slug;

/// A table with a variable for each setting.
pub(super) trait SettingsTable: Default {
    /// The names of all settings.
    const NAMES: &'static [&'static str];

    /// Sets one of `NAMES` to the value of a variable. The error says what is expected.
    fn set(&mut self, name: &str, text: &str) -> Result<(), &'static str>;
}

/// Declares the settings of a [`SettingsTable`] with their types. All are optional.
macro_rules! settings_table {
    ($(#[$about:meta])* $table:ident { $($name:ident: $kind:ty,)* }) => {
        $(#[$about])*
        #[derive(Debug, Default, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub(super) struct $table {
            $(#[serde(deserialize_with = "crate::config::value::one")] $name: Option<$kind>,)*
        }

        impl $crate::config::tables::SettingsTable for $table {
            const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            fn set(&mut self, name: &str, text: &str) -> Result<(), &'static str> {
                match name {
                    $(stringify!($name) => self.$name = Some($crate::config::value::of_variable(text)?),)*
                    _ => {}
                }
                Ok(())
            }
        }
    };
}
pub(super) use settings_table;

/// Environment variables, by name.
pub(super) type Variables = BTreeMap<String, OsString>;

/// The variables of this process that can be settings.
pub(super) fn of_process() -> Variables {
    let named = env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    named.filter(|(name, _)| name.starts_with("COUNTERSIGN_")).collect()
}

/// The variable of a setting, or the beginning of one.
pub(super) fn variable(names: &[&str]) -> String {
    let name = names.join("_").to_ascii_uppercase().replace('-', "_");
    format!("COUNTERSIGN_{name}")
}

/// Overrides the settings of the table `[path]` by their variables.
///
/// # Errors
///
/// A variable whose value its setting does not take.
pub(super) fn set<T: SettingsTable>(path: &[&str], table: &mut T, variables: &Variables) -> Result<(), ConfigError> {
    for setting in T::NAMES {
        let name = variable(path) + "_" + &setting.to_ascii_uppercase();
        let Some(value) = variables.get(&name) else {
            continue;
        };
        // SECURITY: the error does not show the value, because the address of a webhook may contain a token.
        let text = value.to_str().ok_or("expected a text in UTF-8");
        let set = text.and_then(|text| table.set(setting, text));
        set.map_err(|message| ConfigError::Variable { name, message })?;
    }
    Ok(())
}

/// Overrides the settings of the tables `[kind.NAME]` as [`set`] does. A variable of a table that the file does not have adds
/// the table.
pub(super) fn set_named<T: SettingsTable>(
    kind: &str,
    tables: &mut BTreeMap<Slug, T>,
    variables: &Variables,
) -> Result<(), ConfigError> {
    for name in variables.keys() {
        if let Some(table) = table_of::<T>(kind, name) {
            tables.entry(table).or_default();
        }
    }
    for (name, table) in tables {
        set(&[kind, name.as_str()], table, variables)?;
    }
    Ok(())
}

/// The table `[kind.NAME]` that a variable belongs to. A name has no `_`, so `-` and `_` cannot be confused.
pub(super) fn table_of<T: SettingsTable>(kind: &str, name: &str) -> Option<Slug> {
    let rest = name.strip_prefix(&(variable(&[kind]) + "_"))?;
    // Only one setting can match: none ends with `_` and the name of another.
    let table = T::NAMES
        .iter()
        .find_map(|setting| rest.strip_suffix(&format!("_{}", setting.to_ascii_uppercase())))?;
    let table = table.to_ascii_lowercase().replace('_', "-");
    table.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::account::AccountSettings;
    use crate::config::desk::DeskSettings;
    use crate::config::mail::MailSettings;
    use crate::config::shops::ShopTable;
    use crate::config::webhooks::WebhookTable;

    /// A value that each setting takes, by its name.
    const VALUES: [(&str, &str); 23] = [
        ("listen", "127.0.0.1:8082"),
        ("server", "mail.example"),
        ("port", "25"),
        ("tls", "none"),
        ("certificates", "ca.pem"),
        ("user", "u"),
        ("password_file", "p"),
        ("from", "a@b.example"),
        ("reply_to", "a@b.example"),
        ("timeout_seconds", "5"),
        ("retry_seconds", "5"),
        ("reminders_before", "30, 7"),
        ("reminders_after", "3"),
        ("kind", "paddle"),
        ("secret_file", "s"),
        ("mode", "test"),
        ("keys", "own"),
        ("api_key_file", "k"),
        ("events", "site.bound,license.issued"),
        ("name", "Acme"),
        ("color", "#17615a"),
        ("logo", "logo.svg"),
        ("support", "help@a.example"),
    ];

    fn value(name: &str) -> &'static str {
        let value = VALUES.iter().find(|(of, _)| *of == name);
        value.map_or("https://a.example/", |(_, value)| value)
    }

    /// Checks that each setting changes its own field only, and that the docs name it.
    fn check<T: SettingsTable + std::fmt::Debug>(kind: &str, docs: &str) {
        let without = format!("{:?}", T::default());
        for name in T::NAMES {
            let mut table = T::default();
            table
                .set(name, value(name))
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            let set = format!("{table:?}");
            assert!(
                set != without && set.contains(&format!(" {name}: Some(")),
                "{name}: {set}"
            );
            let mut others = T::NAMES.iter().filter(|other| *other != name);
            assert!(others.all(|other| set.contains(&format!("{other}: None"))), "{set}");
            assert!(docs.contains(&format!("`{name}`")), "{kind}.{name} is not in the docs");
        }
    }

    #[test]
    fn every_setting_has_a_variable_and_is_in_the_docs() {
        check::<MailSettings>("mail", include_str!("../../../../docs/mail.md"));
        check::<DeskSettings>("desk", include_str!("../../../../docs/desk.md"));
        check::<AccountSettings>("account", include_str!("../../../../docs/account.md"));
        check::<ShopTable>("shops", include_str!("../../../../docs/configuration.md"));
        check::<WebhookTable>("webhooks", include_str!("../../../../docs/configuration.md"));
    }

    #[test]
    fn no_name_of_a_setting_is_the_end_of_another_one() {
        for names in [ShopTable::NAMES, WebhookTable::NAMES] {
            for (one, other) in names.iter().flat_map(|one| names.iter().map(move |other| (one, other))) {
                assert!(!one.ends_with(&format!("_{other}")), "{one}, {other}");
            }
        }
    }

    #[test]
    fn the_name_of_a_table_is_found_in_its_variables() {
        let of = |name: &str| table_of::<ShopTable>("shops", name).map(|table| table.to_string());
        assert_eq!(of("COUNTERSIGN_SHOPS_OWN_STORE_MODE"), Some("own-store".to_owned()));
        assert_eq!(of("COUNTERSIGN_SHOPS_EU_API_KEY_FILE"), Some("eu".to_owned()));
        for other in [
            "COUNTERSIGN_SHOPS_MODE",
            "COUNTERSIGN_SHOPS_EU_X",
            "COUNTERSIGN_MAIL_MODE",
            "SHOPS_EU_MODE",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
