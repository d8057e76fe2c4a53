//! Finds environment variables that look like a setting but are none, mostly because they are mistyped.

use crate::config::account::AccountSettings;
use crate::config::desk::DeskSettings;
use crate::config::mail::MailSettings;
use crate::config::shops::ShopTable;
use crate::config::tables::{self, SettingsTable as _};
use crate::config::webhooks::WebhookTable;
use countersign_model::text::nearest;

/// The prefix of all variables.
const PREFIX: &str = "COUNTERSIGN_";

/// Variables that are not arguments.
const OTHERS: [&str; 4] = [
    "COUNTERSIGN_LOG",
    "COUNTERSIGN_GIT_HOST",
    "COUNTERSIGN_GIT_TOKEN",
    "COUNTERSIGN_GIT_USER",
];

/// A warning for each of the variables `given` that is unknown.
// SECURITY: names only; the value of a mistyped variable may be a token.
pub fn unknown_variables(command: &clap::Command, given: impl IntoIterator<Item = String>) -> Vec<String> {
    let known = variables(command);
    let is_table = |name: &str| {
        tables::table_of::<ShopTable>("shops", name).is_some()
            || tables::table_of::<WebhookTable>("webhooks", name).is_some()
    };
    let is_unknown = |name: &String| name.starts_with(PREFIX) && !known.contains(name) && !is_table(name);
    let mut unknown: Vec<String> = given.into_iter().filter(is_unknown).collect();
    unknown.sort();
    let bare = || known.iter().filter_map(|name| name.strip_prefix(PREFIX));
    let warning = |name: String| {
        let meant = nearest(name.strip_prefix(PREFIX).unwrap_or_default(), bare());
        let meant = meant
            .map(|meant| format!(" (did you mean {PREFIX}{meant}?)"))
            .unwrap_or_default();
        format!("the environment variable {name} is not a setting{meant}")
    };
    unknown.into_iter().map(warning).collect()
}

/// Every variable that `command` or one of its verbs accepts.
pub fn variables(command: &clap::Command) -> Vec<String> {
    let own = command
        .get_arguments()
        .filter_map(|argument| argument.get_env()?.to_str().map(str::to_owned));
    let mut all: Vec<String> = own.chain(command.get_subcommands().flat_map(variables)).collect();
    all.extend(OTHERS.map(str::to_owned));
    all.extend(MailSettings::NAMES.iter().map(|name| tables::variable(&["mail", name])));
    all.extend(DeskSettings::NAMES.iter().map(|name| tables::variable(&["desk", name])));
    all.extend(
        AccountSettings::NAMES
            .iter()
            .map(|name| tables::variable(&["account", name])),
    );
    all
}
