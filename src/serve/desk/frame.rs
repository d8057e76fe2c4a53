//! What is around every page: the bar on top, the list of pages, and the style sheet.

use chrono::{DateTime, Utc};

use crate::serve::desk::visitor::DeskVisitor;
use crate::serve::pages::answer::{ICON_PATH, STYLE_PATH};
use crate::serve::pages::shown::ShownTime;
use countersign_model::desk_person::DeskRole;
use countersign_model::text::outside_text::OutsideText;

/// The entries of the list of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NavEntry {
    Today,
    Licenses,
    Sales,
    Plugins,
    Releases,
    Sharing,
    Changes,
    Health,
    People,
}

impl NavEntry {
    const ALL: [Self; 9] = [
        Self::Today,
        Self::Licenses,
        Self::Sales,
        Self::Plugins,
        Self::Releases,
        Self::Sharing,
        Self::Changes,
        Self::Health,
        Self::People,
    ];

    fn path(self) -> &'static str {
        match self {
            Self::Today => "/",
            Self::Licenses => "/licenses",
            Self::Sales => "/sales",
            Self::Plugins => "/plugins",
            Self::Releases => "/releases",
            Self::Sharing => "/sharing",
            Self::Changes => "/changes",
            Self::Health => "/health",
            Self::People => "/people",
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Today => "Today",
            Self::Licenses => "Licenses",
            Self::Sales => "Sales",
            Self::Plugins => "Plugins",
            Self::Releases => "Releases",
            Self::Sharing => "Sharing",
            Self::Changes => "Changes",
            Self::Health => "Health",
            Self::People => "People",
        }
    }
}

/// A link of the list of pages.
#[derive(Debug)]
pub(super) struct NavLink {
    pub(super) path: &'static str,
    pub(super) word: &'static str,
    pub(super) is_here: bool,
    /// Whether a group begins with it.
    pub(super) begins_group: bool,
}

/// Who is signed in, as the bar shows it.
#[derive(Debug)]
pub(super) struct ShownVisitor {
    pub(super) name: OutsideText,
    pub(super) role: DeskRole,
}

/// What is around a page.
#[derive(Debug)]
pub(super) struct PageFrame {
    pub(super) title: OutsideText,
    /// `None` for a stranger.
    pub(super) visitor: Option<ShownVisitor>,
    pub(super) nav: Vec<NavLink>,
    /// Whether the bar has a field to find a license with.
    pub(super) has_find: bool,
    pub(super) made: ShownTime,
    pub(super) style: &'static str,
    pub(super) icon: &'static str,
}

impl PageFrame {
    /// Around a page for somebody who is signed in.
    pub(super) fn new(title: &str, here: NavEntry, visitor: &DeskVisitor, now: DateTime<Utc>) -> Self {
        let nav = NavEntry::ALL.map(|entry| NavLink {
            path: entry.path(),
            word: entry.word(),
            is_here: entry == here,
            begins_group: entry == NavEntry::Health,
        });
        Self {
            title: OutsideText::of(title),
            visitor: Some(ShownVisitor {
                name: OutsideText::of(&visitor.name),
                role: visitor.role,
            }),
            nav: nav.into(),
            has_find: here != NavEntry::Licenses,
            made: ShownTime::of(now, now),
            style: &STYLE_PATH,
            icon: &ICON_PATH,
        }
    }

    /// The same with a field to find a license with.
    pub(super) fn with_find(self) -> Self {
        Self { has_find: true, ..self }
    }

    /// The same around a page that is in no list.
    pub(super) fn elsewhere(mut self) -> Self {
        self.nav.iter_mut().for_each(|link| link.is_here = false);
        self
    }

    /// Around a page for a stranger.
    pub(super) fn of_stranger(title: &str, now: DateTime<Utc>) -> Self {
        Self {
            title: OutsideText::of(title),
            visitor: None,
            nav: Vec::new(),
            has_find: false,
            made: ShownTime::of(now, now),
            style: &STYLE_PATH,
            icon: &ICON_PATH,
        }
    }
}
