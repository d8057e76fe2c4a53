//! Channels: how finished the releases are that a site wants, and who may have those that are not stable.
//!
//! A version names its channel by its suffix ([`Stage`](crate::stage::Stage)). A site of a channel gets that channel's releases and
//! those of all calmer ones.

use std::collections::BTreeSet;

/// A channel, the calmest first.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    enum_map::Enum,
    serde::Serialize,
    serde::Deserialize,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantNames,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Channel {
    /// Finished releases, for everybody.
    #[default]
    Stable,
    /// Release candidates.
    Rc,
    /// Betas.
    Beta,
    /// Alphas.
    Alpha,
}

impl Channel {
    /// Those of pre-releases.
    pub const PRERELEASES: [Self; 3] = [Self::Rc, Self::Beta, Self::Alpha];

    /// All of them.
    pub const ALL: [Self; 4] = [Self::Stable, Self::Rc, Self::Beta, Self::Alpha];

    /// The name: `beta`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The channel that a site asks for. An unknown name means stable releases.
    pub fn asked(name: &str) -> Self {
        name.parse().unwrap_or_default()
    }
}

/// Which licenses may have the pre-releases of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelRight {
    /// None.
    Off,
    /// Every license that covers the plugin.
    Licensed,
    /// Those that list the channel, or a less finished one.
    Listed,
}

/// Table `[channels]` of a plugin: who may have which channel. A channel that it does not name is as the next less finished one, and off
/// where that has no setting either.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelRights {
    /// Release candidates.
    pub rc: Option<ChannelRight>,
    /// Betas.
    pub beta: Option<ChannelRight>,
    /// Alphas.
    pub alpha: Option<ChannelRight>,
}

impl ChannelRights {
    /// The channel that a site gets that asks for `asked`, with a license that lists these channels: the one it asks for, or stable
    /// releases.
    pub fn granted(&self, asked: Channel, listed: &BTreeSet<Channel>) -> Channel {
        let right = match asked {
            Channel::Stable => None,
            Channel::Rc => self.rc.or(self.beta).or(self.alpha),
            Channel::Beta => self.beta.or(self.alpha),
            Channel::Alpha => self.alpha,
        };
        let may_have = match right {
            None | Some(ChannelRight::Off) => false,
            Some(ChannelRight::Licensed) => true,
            Some(ChannelRight::Listed) => listed.last().is_some_and(|riskiest| *riskiest >= asked),
        };
        if may_have { asked } else { Channel::Stable }
    }

    /// The channels that some license may have besides stable releases.
    pub fn open(&self) -> impl Iterator<Item = Channel> {
        let everything = BTreeSet::from([Channel::Alpha]);
        let is_open = move |channel: &Channel| self.granted(*channel, &everything) == *channel;
        Channel::PRERELEASES.into_iter().filter(is_open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ChannelRight::{Licensed, Listed, Off};

    #[test]
    fn a_site_gets_the_channel_it_may_have_or_stable_releases() {
        let nothing = BTreeSet::new();
        let beta = BTreeSet::from([Channel::Beta]);
        let rights = |rc, beta, alpha| ChannelRights { rc, beta, alpha };
        for (given, asked, listed, expected) in [
            (rights(None, None, None), Channel::Beta, &beta, Channel::Stable),
            (rights(None, Some(Off), None), Channel::Beta, &beta, Channel::Stable),
            (
                rights(None, Some(Licensed), None),
                Channel::Beta,
                &nothing,
                Channel::Beta,
            ),
            (
                rights(None, Some(Licensed), None),
                Channel::Stable,
                &nothing,
                Channel::Stable,
            ),
            (
                rights(None, Some(Listed), None),
                Channel::Beta,
                &nothing,
                Channel::Stable,
            ),
            (rights(None, Some(Listed), None), Channel::Beta, &beta, Channel::Beta),
            // Who may have betas may have what is more finished, and nothing less finished.
            (rights(None, Some(Listed), None), Channel::Rc, &beta, Channel::Rc),
            (
                rights(None, Some(Licensed), None),
                Channel::Alpha,
                &beta,
                Channel::Stable,
            ),
            (
                rights(Some(Off), Some(Licensed), None),
                Channel::Rc,
                &beta,
                Channel::Stable,
            ),
            (rights(None, None, Some(Listed)), Channel::Alpha, &beta, Channel::Stable),
            (rights(None, None, Some(Listed)), Channel::Beta, &beta, Channel::Beta),
        ] {
            assert_eq!(given.granted(asked, listed), expected, "{given:?} {asked:?} {listed:?}");
        }
        let open: Vec<_> = rights(None, Some(Listed), None).open().collect();
        assert_eq!(open, [Channel::Rc, Channel::Beta]);
    }

    #[test]
    fn an_unknown_channel_is_the_stable_one() {
        for (name, expected) in [
            ("beta", Channel::Beta),
            ("rc", Channel::Rc),
            ("Beta", Channel::Stable),
            ("nightly", Channel::Stable),
            ("", Channel::Stable),
        ] {
            assert_eq!(Channel::asked(name), expected, "{name}");
        }
    }
}
