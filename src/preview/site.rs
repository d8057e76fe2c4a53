//! An imaginary site: its versions, and what its CMS would show of a release.
//!
//! The rules are those of WordPress; the sentences are our own. [`view`](crate::preview::view) uses it.

use std::cmp::Ordering;

use countersign_model::manifest::Manifest;
use countersign_model::plugin::PluginKind;
use countersign_model::version::{Version, php_version_compare};

/// A site with the plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// The CMS's version.
    pub cms: String,
    /// PHP's version.
    pub php: String,
    /// The plugin's installed version, as the site reports it; may be empty or anything.
    pub current: String,
}

/// How serious a note is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// All is well.
    Good,
    /// The administrator is warned.
    Caution,
    /// The CMS does not install it.
    Stop,
}

/// A note about compatibility.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Note {
    /// How serious it is.
    pub level: Level,
    /// The text, in our words.
    pub text: String,
}

/// The plugin's row on the plugins screen, or what the themes screen says of a theme.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PluginRow {
    /// An update.
    Update,
    /// An update for which PHP is too old.
    PhpTooOld,
    /// An update of a theme for which the CMS is too old.
    CmsTooOld,
    /// An update of a theme for which both are.
    BothTooOld,
    /// Nothing: the site's version is not older.
    UpToDate,
}

/// The server's answer to an update request, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct UpdateAnswer {
    /// The version of the manifest in the answer; `None` for `{}`.
    pub version: Option<Version>,
    /// The reason, in a sentence.
    pub why: String,
}

impl Site {
    /// A site that meets all requirements of a release and has `current` installed.
    pub fn at_ease_with(manifest: &Manifest, current: Option<&Version>) -> Self {
        // A header may have anything, but a site runs a version.
        let is_version = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
        let or = |text: &str, default: &str| {
            if is_version(text) {
                text.to_owned()
            } else {
                default.to_owned()
            }
        };
        let php = or(&manifest.requires_php, "8.3");
        Self {
            cms: or(&manifest.tested, "6.8"),
            php: if php_version_compare(&php, "8.3").is_lt() {
                "8.3".to_owned()
            } else {
                php
            },
            current: current.map(ToString::to_string).unwrap_or_default(),
        }
    }

    /// The plugin's row if the release is the answer: WordPress' `wp_plugin_update_row` and `wp_prepare_themes_for_js`. Only
    /// of a theme does the CMS look at its own version there.
    pub fn row(&self, manifest: &Manifest) -> PluginRow {
        if !self.current.is_empty() && php_version_compare(&self.current, &manifest.version).is_ge() {
            return PluginRow::UpToDate;
        }
        let cms_is_enough = manifest.kind == PluginKind::Plugin || self.cms_is_enough(manifest);
        match (cms_is_enough, self.php_is_enough(manifest)) {
            (true, true) => PluginRow::Update,
            (true, false) => PluginRow::PhpTooOld,
            (false, true) => PluginRow::CmsTooOld,
            (false, false) => PluginRow::BothTooOld,
        }
    }

    /// The notes at the top of the details window, worst first: WordPress' `install_plugin_information`. A theme has no such
    /// window, so it has only the notes about what the CMS refuses.
    pub fn notes(&self, manifest: &Manifest) -> Vec<Note> {
        let note = |level, text: String| Note { level, text };
        let cms = &self.cms;
        let php = &self.php;
        let Manifest {
            tested,
            requires,
            requires_php,
            ..
        } = manifest;
        let mut notes = Vec::new();
        if !self.php_is_enough(manifest) {
            let text =
                format!("It needs PHP {requires_php} or newer, and this site runs PHP {php}: it cannot be installed.");
            notes.push(note(Level::Stop, text));
        }
        if !self.cms_is_enough(manifest) {
            let text = format!(
                "It needs version {requires} of the CMS or newer, and this site runs {cms}: it cannot be installed."
            );
            notes.push(note(Level::Stop, text));
        }
        if manifest.kind == PluginKind::Theme {
            return notes;
        }
        // `tested` is compared as text of a version: 6.8 is older than 6.8.1.
        if tested.is_empty() {
            notes.push(note(
                Level::Caution,
                format!("Its author does not say whether it works with version {cms} of the CMS."),
            ));
        } else if php_version_compare(cms, tested).is_gt() {
            let minor = cms
                .strip_prefix(tested.as_str())
                .is_some_and(|rest| rest.starts_with('.'));
            let hint = if minor {
                " To the CMS, 6.8 is older than 6.8.1."
            } else {
                ""
            };
            let hint = hint.replace("6.8.1", cms).replace("6.8 ", &format!("{tested} "));
            notes.push(note(
                Level::Caution,
                format!("Its author tested it up to {tested}, not with version {cms} of the CMS.{hint}"),
            ));
        } else if notes.is_empty() {
            notes.push(note(
                Level::Good,
                format!("Its author says that it works with version {cms} of the CMS."),
            ));
        }
        notes
    }

    /// The server's answer if `latest` is the latest release.
    pub fn answer(&self, latest: Option<&Version>) -> UpdateAnswer {
        let current = self.current.trim();
        let Some(latest) = latest else {
            return UpdateAnswer {
                version: None,
                why: "All releases are pre-releases, so nothing is offered.".into(),
            };
        };
        let full = |why: String| UpdateAnswer {
            version: Some(latest.clone()),
            why,
        };
        match current.parse::<Version>() {
            _ if current.is_empty() => full(format!(
                "The site sends no version: it gets the latest, {latest}, in full."
            )),
            Err(_) => full(format!(
                "{current:?} is not a version, so it is ignored: the site gets the latest, {latest}."
            )),
            Ok(version) => match version.cmp_php(latest) {
                Ordering::Less => full(format!("{version} is older than {latest}, the latest release.")),
                Ordering::Equal => UpdateAnswer {
                    version: None,
                    why: format!("{version} is the latest release: no update."),
                },
                Ordering::Greater => UpdateAnswer {
                    version: None,
                    why: format!("{version} is newer than {latest}, the latest release: no update."),
                },
            },
        }
    }

    /// WordPress' `is_php_version_compatible`.
    fn php_is_enough(&self, manifest: &Manifest) -> bool {
        manifest.requires_php.is_empty() || php_version_compare(&self.php, &manifest.requires_php).is_ge()
    }

    /// WordPress' `is_wp_version_compatible`: the site's version without its suffix; a `.0` after two numbers is
    /// ignored.
    fn cms_is_enough(&self, manifest: &Manifest) -> bool {
        let required = manifest.requires.trim();
        let required = if required.matches('.').count() > 1 {
            required.strip_suffix(".0").unwrap_or(required)
        } else {
            required
        };
        let running = self.cms.split('-').next().unwrap_or_default();
        required.is_empty() || php_version_compare(running, required).is_ge()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(current: &str) -> Site {
        Site {
            cms: "6.8".into(),
            php: "8.3".into(),
            current: current.into(),
        }
    }

    #[test]
    fn the_answer_is_the_servers_and_says_why() {
        let latest: Version = "1.2".parse().unwrap();
        for (current, offered, why) in [
            ("1.1", true, "1.1 is older than 1.2, the latest release."),
            ("1.2-rc1", true, "1.2-rc1 is older than 1.2, the latest release."),
            ("1.2", false, "1.2 is the latest release: no update."),
            (
                "1.2.0",
                false,
                "1.2.0 is newer than 1.2, the latest release: no update.",
            ),
            (
                " ",
                true,
                "The site sends no version: it gets the latest, 1.2, in full.",
            ),
            (
                "v1.1",
                true,
                "\"v1.1\" is not a version, so it is ignored: the site gets the latest, 1.2.",
            ),
        ] {
            let answer = site(current).answer(Some(&latest));
            assert_eq!((answer.version.is_some(), &*answer.why), (offered, why));
        }
        assert_eq!(site("1.1").answer(None).version, None);
    }
}
