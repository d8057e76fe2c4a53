//! The releases that a site gets apart from the latest: older ones that it may go back to, and security releases after the end of its
//! license. The plugin's entry has the [rules](crate::release_rules); `serve` and `preview` ask here.

use std::collections::BTreeSet;

use crate::channel::Channel;
use crate::plugin::Plugin;
use crate::release_rules::{BackRefusal, RuledRelease};
use crate::version::Version;

/// The most releases that a site is shown to go back to.
pub const MOST: usize = 5;

/// From what a site goes back, and how far it may.
#[derive(Clone, Copy, Debug)]
pub struct WayBack<'a> {
    plugin: &'a Plugin,
    current: &'a Version,
    /// The greatest security release that is not newer than what the site runs.
    fixed: Option<&'a Version>,
}

impl<'a> WayBack<'a> {
    /// The way of a site with `current`. The releases are all published ones, newest first.
    pub fn new(plugin: &'a Plugin, releases: impl IntoIterator<Item = RuledRelease<'a>>, current: &'a Version) -> Self {
        let mut releases = releases.into_iter();
        let fixed = releases.find(|release| release.security && release.version.cmp_php(current).is_le());
        Self {
            plugin,
            current,
            fixed: fixed.map(|release| release.version),
        }
    }

    /// Why a site whose license lists these channels may not go back to a published version; `None` if it may.
    pub fn refusal(&self, version: &Version, listed: &BTreeSet<Channel>) -> Option<BackRefusal> {
        let Self { plugin, current, fixed } = self;
        let may_have = |channel| plugin.channels.granted(channel, listed) == channel;
        if !version.channel().is_some_and(may_have) {
            return Some(BackRefusal::OtherChannel);
        }
        if plugin.withholds(version) {
            return Some(BackRefusal::Withheld);
        }
        plugin.back.refusal(current, version).or_else(|| {
            let fixed = fixed.filter(|fixed| version.cmp_php(fixed).is_lt())?;
            Some(BackRefusal::BelowSecurity(fixed.clone()))
        })
    }
}

/// The greatest security release of the line of `current` that is newer, of all published ones, newest first; `None` if there is none.
pub fn security_update<'r>(
    plugin: &Plugin,
    releases: impl IntoIterator<Item = RuledRelease<'r>>,
    current: &Version,
) -> Option<&'r Version> {
    let found = releases.into_iter().find(|release| {
        let version = release.version;
        release.security
            && version.channel() == Some(Channel::Stable)
            && version.cmp_php(current).is_gt()
            && plugin.security.lines.has_both(current, version)
            && !plugin.withholds(version)
    });
    found.map(|release| release.version)
}
