//! Arguments that several license verbs share.

use std::num::NonZeroU32;
use std::str::FromStr;

use chrono::NaiveDate;

use countersign_model::channel::Channel;
use countersign_model::license::SiteLimit;
use countersign_model::name::Name;
use countersign_model::site_host::{SiteHost, SiteHostError};

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
