//! The page's URL: a plugin, a version, a site and a tab.

use strum::{EnumIter, EnumString, IntoStaticStr};

use crate::preview::view::Selection;

/// A parsed URL.
#[derive(Clone, Debug, Default)]
pub struct Address {
    /// The plugin's slug; without one, the first plugin.
    pub plugin: Option<String>,
    /// The version and the site.
    pub selection: Selection,
    /// The tab of the details window.
    pub tab: Tab,
}

impl Address {
    /// The query for the same site and another tab.
    pub(super) fn query(&self, tab: Tab) -> String {
        let Selection { cms, php, current, .. } = &self.selection;
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        for (name, value) in [("cms", cms), ("php", php), ("current", current)] {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        query.append_pair("tab", tab.name()).finish()
    }
}

/// A tab of the details window, in its order. It shows a section of the manifest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumIter, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Tab {
    #[default]
    Description,
    Installation,
    Faq,
    Changelog,
}

impl Tab {
    /// The section's name in the manifest and in the URL.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The tab's label in WordPress (`install_plugin_information`).
    pub fn title(self) -> &'static str {
        match self {
            Self::Description => "Description",
            Self::Installation => "Installation",
            Self::Faq => "FAQ",
            Self::Changelog => "Changelog",
        }
    }
}
