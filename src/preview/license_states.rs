//! What sites get by the state of their license, their channel and a rollout, once everything that the preview shows is published.
//!
//! The rules are those of the server. [`view`](crate::preview::view) asks, and the page, the text and the JSON show it.

use std::collections::BTreeSet;

use crate::build::draft::DraftRelease;
use crate::preview::site::Site;
use crate::preview::snapshot::Previewed;
use countersign_model::channel::Channel;
use countersign_model::plugin::Plugin;
use countersign_model::release_rules::RuledRelease;
use countersign_model::rollout::{HoldRule, OtherClients, RolloutSettings};
use countersign_model::version::Version;
use countersign_model::way_back::{self, WayBack};

/// A state of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SiteState {
    /// Its license is active.
    Active,
    /// It asks for a channel of pre-releases.
    Channel,
    /// Its turn in a rollout has not come.
    Held,
    /// The answer to a client that does not know what "held" means.
    HeldOtherClient,
    /// Its license has expired.
    Expired,
    /// Its license is suspended or revoked, or does not cover the plugin.
    Refused,
    /// It went back from the release.
    WentBack,
}

/// What a site in a state gets.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct StateAnswer {
    /// The state.
    pub state: SiteState,
    /// The state in words.
    pub who: String,
    /// The release; `None` for nothing.
    pub version: Option<Version>,
    /// The reason, in a sentence.
    pub why: String,
}

/// What sites get that run what `site` runs; `shown` is the release that the preview shows, and `is_next`
/// whether it has no tag yet. Nothing of a broken entry.
pub(super) fn of(plugin: &Previewed, (shown, is_next): (&DraftRelease, bool), site: &Site) -> Vec<StateAnswer> {
    let Ok(entry) = &plugin.entry.plugin else {
        return Vec::new();
    };
    let ruled = |release: &'_ DraftRelease| release.manifest.security || entry.security.names(&release.version);
    let mut releases: Vec<_> = plugin.draft.tagged.releases.iter().collect();
    let is_shown = |release: &&DraftRelease| release.version.cmp_php(&shown.version).is_eq();
    if is_next {
        releases.retain(|release| !is_shown(release));
        releases.push(shown);
        releases.sort_by(|a, b| b.version.cmp_php(&a.version));
    }
    let releases = releases.into_iter().map(|release| RuledRelease {
        version: &release.version,
        security: ruled(release),
    });
    let known = SiteReleases {
        entry,
        releases: releases.collect(),
        current: site.current.parse().ok(),
    };
    let mut answers = vec![known.active(Channel::Stable)];
    answers.extend(entry.channels.open().map(|channel| known.active(channel)));
    if let Some(settings) = &entry.rollout {
        answers.extend(known.held(settings));
    }
    answers.push(known.expired());
    answers.push(StateAnswer {
        state: SiteState::Refused,
        who: "suspended, revoked, or without the plugin".to_owned(),
        version: None,
        why: "Every request is refused.".to_owned(),
    });
    answers.push(known.went_back(&shown.version));
    answers
}

/// The releases as sites find them.
struct SiteReleases<'a> {
    entry: &'a Plugin,
    /// Newest first.
    releases: Vec<RuledRelease<'a>>,
    /// What the site runs.
    current: Option<Version>,
}

impl<'a> SiteReleases<'a> {
    /// The releases for a channel that are newer than what the site runs, newest first.
    fn newer(&self, channel: Channel) -> impl Iterator<Item = RuledRelease<'a>> {
        let is_newer = move |release: &RuledRelease<'_>| {
            let current = self.current.as_ref();
            let is_offered = release.version.channel().is_some_and(|own| own <= channel);
            is_offered && current.is_none_or(|current| release.version.cmp_php(current).is_gt())
        };
        self.releases.iter().copied().filter(is_newer)
    }

    fn active(&self, channel: Channel) -> StateAnswer {
        let version = self.newer(channel).next().map(|release| release.version.clone());
        let mut why = match &version {
            Some(_) => "The newest release that it may have.",
            None => "Nothing newer than what it runs.",
        }
        .to_owned();
        if channel == Channel::Stable {
            return StateAnswer {
                state: SiteState::Active,
                who: "active".to_owned(),
                version,
                why,
            };
        }
        let is_for_all = self.entry.channels.granted(channel, &BTreeSet::new()) == channel;
        why += match is_for_all {
            true => " Every license has the channel.",
            false => " Its license must list the channel.",
        };
        StateAnswer {
            state: SiteState::Channel,
            who: format!("active, on the channel {}", channel.as_str()),
            version,
            why,
        }
    }

    /// Nothing where no newer release is there.
    fn held(&self, settings: &RolloutSettings) -> Vec<StateAnswer> {
        let Some(newest) = self.newer(Channel::Stable).next() else {
            return Vec::new();
        };
        let answer = |state, version: Option<&Version>, why: &str| StateAnswer {
            state,
            who: match state {
                SiteState::HeldOtherClient => "active, its turn has not come, with another client".to_owned(),
                _ => "active, its turn has not come".to_owned(),
            },
            version: version.cloned(),
            why: why.to_owned(),
        };
        let lacks_security = match self.current {
            None => newest.security,
            Some(_) => self.newer(Channel::Stable).any(|release| release.security),
        };
        if lacks_security {
            let why = "Not held: the release, or one that it lacks, closes a hole.";
            return vec![answer(SiteState::Held, Some(newest.version), why)];
        }
        let newest = Some(newest.version);
        let before = self.newer(Channel::Stable).nth(1).map(|release| release.version);
        let waits = match before {
            Some(_) => "Until then the release before, once that has reached everybody.",
            None => "Until then nothing.",
        };
        let shown = "Held: its page shows the update, and nothing installs it by itself.";
        let offered = "Offered at once: its automatic updates do not wait.";
        let (own, other) = match (settings.hold, settings.others) {
            (HoldRule::All, _) => ((before, waits), (before, waits)),
            (HoldRule::Automatic, OtherClients::Hide) => ((newest, shown), (before, waits)),
            (HoldRule::Automatic, OtherClients::Offer) => ((newest, shown), (newest, offered)),
        };
        vec![
            answer(SiteState::Held, own.0, own.1),
            answer(SiteState::HeldOtherClient, other.0, other.1),
        ]
    }

    fn expired(&self) -> StateAnswer {
        let rules = &self.entry.security;
        let current = self.current.as_ref();
        let update = current.and_then(|current| way_back::security_update(self.entry, self.releases.clone(), current));
        let newest = self.newer(Channel::Stable).next();
        let (version, why) = match (rules.delivers, update, newest) {
            (true, Some(version), _) => {
                let lasts = rules.lasts;
                (
                    Some(version.clone()),
                    format!("The newest security release of its line, for {lasts} after the end."),
                )
            }
            (true, None, _) => (None, "No newer security release of its line.".to_owned()),
            (false, _, None) => (None, "No update. Nothing newer is there.".to_owned()),
            (false, _, Some(newest)) => {
                let lacks = self.newer(Channel::Stable).any(|release| release.security);
                let and = match lacks {
                    true => ", and that it lacks a security release",
                    false => "",
                };
                (
                    None,
                    format!("No update. It learns that {} is there{and}.", newest.version),
                )
            }
        };
        StateAnswer {
            state: SiteState::Expired,
            who: "expired".to_owned(),
            version,
            why,
        }
    }

    fn went_back(&self, shown: &Version) -> StateAnswer {
        let way = WayBack::new(self.entry, self.releases.iter().copied(), shown);
        let is_open = |release: &&RuledRelease<'_>| way.refusal(release.version, &BTreeSet::new()).is_none();
        let hosted = self.releases.iter().filter(|_| self.entry.hosts_packages());
        let open: Vec<_> = hosted.filter(is_open).take(way_back::MOST).collect();
        let why = match &open[..] {
            [] => "There is no release to which it may go back.".to_owned(),
            open => {
                let names: Vec<_> = open.iter().map(|release| release.version.as_str()).collect();
                let names = names.join(", ");
                format!("It may go back to {names}, and updates itself again to something newer than {shown}.")
            }
        };
        StateAnswer {
            state: SiteState::WentBack,
            who: format!("went back from {shown}"),
            version: open.first().map(|release| release.version.clone()),
            why,
        }
    }
}
