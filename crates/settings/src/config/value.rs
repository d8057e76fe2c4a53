//! Numbers, paths and choices as settings, with plain errors on the command line and in the file;
//! [`address`](crate::config::address) does the same for addresses.

use countersign_model::slug::Slug;
use std::fmt::Display;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

use clap::ValueEnum;
use serde::de::{Deserialize as _, Deserializer, Error as _};
use toml::Value;

/// A type of setting.
pub trait Setting: Sized {
    /// What is expected, for the error message.
    const EXPECTED: &'static str;

    /// Reads it from the command line or the environment.
    fn from_text(text: &str) -> Option<Self>;

    /// Reads it from an environment variable that has no flag. A path differs from other settings here.
    fn from_variable(text: &str) -> Option<Self> {
        Self::from_text(text)
    }

    /// Reads it from the file, where it is a text unless it says otherwise.
    fn from_value(value: &Value) -> Option<Self> {
        Self::from_text(value.as_str()?)
    }
}

/// A setting's help, with its default.
pub(super) fn with_default(help: &str, default: impl Display) -> String {
    format!("{help} [default: {default}]")
}

/// The name of a choice.
pub(super) fn name(choice: impl ValueEnum) -> String {
    choice
        .to_possible_value()
        .map_or(String::new(), |value| value.get_name().to_owned())
}

/// Parses a setting from the command line or the environment.
pub fn parse<T: Setting>(text: &str) -> Result<T, &'static str> {
    T::from_text(text).ok_or(T::EXPECTED)
}

/// Parses a setting of a table that no flags set, from the environment.
pub(super) fn of_variable<T: Setting>(text: &str) -> Result<T, &'static str> {
    T::from_variable(text).ok_or(T::EXPECTED)
}

/// Parses a setting from the file.
pub(super) fn one<'de, T: Setting, D: Deserializer<'de>>(file: D) -> Result<Option<T>, D::Error> {
    T::from_value(&Value::deserialize(file)?)
        .map(Some)
        .ok_or_else(|| D::Error::custom(T::EXPECTED))
}

macro_rules! numbers {
    ($($number:ty: $expected:literal,)*) => {$(
        impl Setting for $number {
            const EXPECTED: &'static str = $expected;

            fn from_text(text: &str) -> Option<Self> {
                text.parse().ok()
            }

            fn from_value(value: &Value) -> Option<Self> {
                Self::from_text(&value.as_integer()?.to_string())
            }
        }
    )*};
}

numbers! {
    u16: "expected a whole number from 0 to 65535",
    u32: "expected a whole number from 0 to 4294967295",
    NonZeroU32: "expected a whole number from 1 to 4294967295",
    NonZeroUsize: "expected a whole number of at least 1",
}

impl Setting for bool {
    const EXPECTED: &'static str = "expected true or false";

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn from_value(value: &Value) -> Option<Self> {
        value.as_bool()
    }
}

impl Setting for String {
    const EXPECTED: &'static str = "expected a text in quotes";

    fn from_text(text: &str) -> Option<Self> {
        Some(text.into())
    }
}

/// The vendor in names of packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PackageVendor {
    /// An empty text: there are no such names.
    Unset,
    /// Its name.
    Named(Slug),
}

impl PackageVendor {
    /// The name, if there is one.
    pub(super) fn named(self) -> Option<Slug> {
        match self {
            Self::Unset => None,
            Self::Named(vendor) => Some(vendor),
        }
    }
}

impl Setting for PackageVendor {
    const EXPECTED: &'static str = "expected 1 to 64 of a-z, 0-9 and '-' in quotes, beginning with a letter or a digit";

    fn from_text(text: &str) -> Option<Self> {
        match text {
            "" => Some(Self::Unset),
            text => text.parse().ok().map(Self::Named),
        }
    }
}

impl Setting for PathBuf {
    const EXPECTED: &'static str = "expected a path in quotes";

    fn from_text(text: &str) -> Option<Self> {
        Some(text.into())
    }

    /// Resolves a path from the current folder; a path in the file is relative to the file. An empty path is none.
    fn from_variable(text: &str) -> Option<Self> {
        match text {
            "" => Some(Self::new()),
            text => std::path::absolute(text).ok(),
        }
    }
}
