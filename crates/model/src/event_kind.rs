//! The events that a webhook tells of.

use strum::{EnumIter, IntoEnumIterator as _, IntoStaticStr};

/// An event. Its name is the `type` of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EnumIter, IntoStaticStr)]
pub enum EventKind {
    /// A machine issued a license.
    #[strum(serialize = "license.issued")]
    Issued,
    /// A license ends later.
    #[strum(serialize = "license.renewed")]
    Renewed,
    /// A license has other terms.
    #[strum(serialize = "license.changed")]
    Changed,
    /// A license is suspended.
    #[strum(serialize = "license.suspended")]
    Suspended,
    /// A suspended license is active again.
    #[strum(serialize = "license.resumed")]
    Resumed,
    /// A license is revoked.
    #[strum(serialize = "license.revoked")]
    Revoked,
    /// A license ends in 30 or in 7 days.
    #[strum(serialize = "license.expiring")]
    Expiring,
    /// A site was refused because the license has no free seat.
    #[strum(serialize = "license.limit_reached")]
    LimitReached,
    /// So many hosts were refused that the key looks shared.
    #[strum(serialize = "license.leak_suspected")]
    LeakSuspected,
    /// A license gave as many first copies as it may.
    #[strum(serialize = "license.too_many_first_copies")]
    TooManyFirstCopies,
    /// The license key was mailed again.
    #[strum(serialize = "license.key_mailed")]
    KeyMailed,
    /// A customer downloaded a package of the license.
    #[strum(serialize = "license.downloaded")]
    Downloaded,
    /// A site was bound.
    #[strum(serialize = "site.bound")]
    Bound,
    /// A site gave its seat back, or lost it.
    #[strum(serialize = "site.released")]
    Released,
    /// A site moved to another host, which has its seat now.
    #[strum(serialize = "site.moved")]
    Moved,
    /// A site that was installed again claimed its binding, or what became of that.
    #[strum(serialize = "site.claimed")]
    Claimed,
    /// The rollout of a release started, was paused, went on, ended, or began again.
    #[strum(serialize = "rollout.changed")]
    RolloutChanged,
    /// Many sites that took a release do not run it.
    #[strum(serialize = "rollout.alarm")]
    RolloutAlarm,
    /// Sent by `countersign webhook test` alone.
    #[strum(serialize = "webhook.test")]
    Test,
}

impl EventKind {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The kind with this name, unless it is the test.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::iter().find(|kind| kind.as_str() == name && *kind != Self::Test)
    }
}

impl serde::Serialize for EventKind {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_back_and_nobody_asks_for_tests() {
        for kind in EventKind::iter().filter(|kind| *kind != EventKind::Test) {
            assert_eq!(EventKind::from_name(kind.as_str()), Some(kind));
        }
        assert_eq!(EventKind::from_name("webhook.test"), None);
        assert_eq!(EventKind::from_name("license.Issued"), None);
    }
}
