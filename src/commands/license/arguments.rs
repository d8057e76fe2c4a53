//! Arguments that several license verbs share.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use chrono::NaiveDate;
use clap::builder::BoolishValueParser;

use countersign_model::channel::Channel;
use countersign_model::license::SiteLimit;
use countersign_model::name::Name;
use countersign_model::rights::RightsEdit;
use countersign_model::site_host::{SiteHost, SiteHostError};

use countersign_model::period::{self, NEVER, Period};

/// A module with its features: `forms=pdf,api`.
#[derive(Clone, Debug)]
pub(super) struct ModuleArg {
    /// The module.
    pub module: Name,
    /// Some of its features, or none.
    pub features: Vec<Name>,
}

impl FromStr for ModuleArg {
    type Err = <Name as FromStr>::Err;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (module, features) = text.split_once('=').unwrap_or((text, ""));
        let features = features
            .split(',')
            .filter(|_| text.contains('='))
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        Ok(Self {
            module: module.parse()?,
            features,
        })
    }
}

/// A limit that a license may have of its own; `None` for the server's setting.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnLimit(pub Option<u16>);

impl FromStr for OwnLimit {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "default" => Ok(Self(None)),
            number => number
                .parse()
                .map(|limit| Self(Some(limit)))
                .map_err(|_| "expected a number from 0 to 65535, or 'default'"),
        }
    }
}

/// Parses a number of sites.
pub(super) fn parse_sites(text: &str) -> Result<SiteLimit, &'static str> {
    match text {
        "unlimited" => Ok(SiteLimit::Unlimited),
        number => number
            .parse::<NonZeroU32>()
            .map(SiteLimit::Limited)
            .map_err(|_| "expected a number of at least 1, or 'unlimited'"),
    }
}

/// Parses a channel of pre-releases.
pub(super) fn parse_channel(text: &str) -> Result<Channel, &'static str> {
    let mut channels = Channel::PRERELEASES.into_iter();
    let expected = "expected rc, beta or alpha: every license has stable releases";
    channels.find(|channel| channel.as_str() == text).ok_or(expected)
}

/// Parses a host, or the address of a site.
pub(super) fn parse_host(text: &str) -> Result<SiteHost, SiteHostError> {
    text.parse()
}

/// Parses a day.
pub(super) fn parse_day(text: &str) -> Result<NaiveDate, &'static str> {
    text.parse().map_err(|_| "expected a date such as 2027-12-31")
}

/// Rights of a license.
#[derive(clap::Args, Debug)]
pub(super) struct RightsFlags {
    /// A channel whose pre-releases its sites may have, where the plugin's entry asks for a list; repeatable
    #[arg(long = "channel", value_name = "rc|beta|alpha", value_parser = parse_channel)]
    channels: Vec<Channel>,
    /// No channel but the stable one
    #[arg(long, conflicts_with = "channels")]
    no_channels: bool,
    /// Whether its sites show nothing of you: they get no link to the customer's page or to your shop
    #[arg(long, value_name = "yes|no", num_args = 0..=1, default_missing_value = "yes", value_parser = BoolishValueParser::new())]
    white_label: Option<bool>,
}

impl RightsFlags {
    /// The edit that they ask for.
    pub(super) fn edit(&self) -> RightsEdit {
        let has_channels = self.no_channels || !self.channels.is_empty();
        RightsEdit {
            channels: has_channels.then(|| self.channels.iter().copied().collect()),
            white_label: self.white_label,
            ..RightsEdit::default()
        }
    }
}

/// When a license ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expires {
    /// On this day.
    On(NaiveDate),
    /// After this period.
    After(Period),
}

impl Expires {
    /// The day, with a period counted from `start`.
    pub(super) fn from(self, start: NaiveDate) -> NaiveDate {
        match self {
            Self::On(day) => day,
            Self::After(period) => period.after(start),
        }
    }
}

/// As it was typed, but for spelling.
impl fmt::Display for Expires {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::On(day) => day.fmt(f),
            Self::After(period) => write!(f, "+{period}"),
        }
    }
}

impl FromStr for Expires {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let expected = "expected a date such as 2027-12-31, a period such as +1y, +6m, +2w or +30d, or never";
        match text.strip_prefix('+') {
            Some(period) => period.parse().map(Self::After).map_err(|_| expected),
            None if text == "never" => Ok(Self::On(NEVER)),
            None => {
                let day = text.parse().ok().and_then(period::last_day);
                day.map(Self::On).ok_or(expected)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(text: &str) -> NaiveDate {
        text.parse().unwrap()
    }

    #[test]
    fn a_last_day_is_a_date_a_period_or_never() {
        let from = |text: &str| {
            text.parse::<Expires>()
                .map(|expires| expires.from(day("2028-02-29")).to_string())
        };
        for (text, expected) in [
            ("2027-12-31", "2027-12-31"),
            ("+1y", "2029-02-28"),
            ("+6m", "2028-08-29"),
            ("+2w", "2028-03-14"),
            ("+30d", "2028-03-30"),
            ("never", "9999-12-31"),
            ("+9000y", "9999-12-31"),
            ("+4294967295y", "9999-12-31"),
        ] {
            assert_eq!(from(text).as_deref(), Ok(expected), "{text}");
        }
        for text in [
            "",
            "+",
            "+y",
            "1y",
            "+1",
            "+-1d",
            "++1d",
            "+1h",
            "Never",
            "2027-02-29",
            "0000-12-31",
            "-0001-12-31",
            "+1é",
        ] {
            assert!(from(text).is_err(), "{text}");
        }
    }
}
