//! Why a delivery is not applied: it waits, or a person has to decide.

use chrono::{DateTime, TimeDelta, Utc};

use crate::serve::deliveries::delivered::SHOPS_TRY_FOR;
use crate::serve::found_license::ChangeError;
use crate::serve::hooks::shop_client::ShopError;
use countersign_files::spool::{AwaitedThing, SpoolError};
use countersign_ledger::{ChangeRefusal, StoreError};
use countersign_mail::queued_mail::MailQueueError;
use countersign_model::foreign_key::ForeignKeyError;
use countersign_model::offer::NoOffer;
use countersign_shops::event::DeliveryError;

/// Why a delivery is not applied.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApplyError {
    /// The ledger cannot be written now.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The spool cannot be read or written now.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// The mail cannot be put into the queue now.
    #[error(transparent)]
    Mail(#[from] MailQueueError),
    /// There is no secret to issue licenses with.
    #[error(
        "the keys to issue licenses with are missing: `countersign keys generate --issuing` and `--references` make them"
    )]
    NoSecrets,
    /// The system has no random numbers.
    #[error("the system has no random numbers: {0}")]
    Random(std::io::Error),
    /// The shop does not answer now.
    #[error(transparent)]
    Shop(#[from] ShopError),
    /// The shop's key for the sale is not known yet.
    #[error("the shop's license key for a sale did not come yet: does its webhook send license_key_created?")]
    NoKeyYet {
        /// Whether it should be there.
        is_late: bool,
    },
    /// It renews a subscription whose first payment did not come yet.
    #[error("the first payment of its subscription did not come yet")]
    Early,
    /// A person has to decide.
    #[error(transparent)]
    Parked(#[from] ParkReason),
}

/// Why a person has to decide.
#[derive(Debug, thiserror::Error)]
pub(super) enum ParkReason {
    #[error(transparent)]
    Delivery(#[from] DeliveryError),
    #[error("line {line} of the sale: {reason}")]
    NoOffer { line: usize, reason: NoOffer },
    #[error("it has more lines than the ledger can keep at once")]
    TooLong,
    #[error(
        "it renews a subscription that nobody here knows: `countersign shop attach` says which license it renews, `shop parked retry --issue` \
         issues a new one"
    )]
    UnknownSubscription,
    #[error("it names no sale")]
    NoName,
    #[error("{0}")]
    Shop(&'static str),
    #[error(
        "the shop's license key did not come within three days: does its webhook send license_key_created? `shop parked retry --key` says \
         which it is"
    )]
    NoKey,
    #[error("the shop's license key: {0}")]
    Key(ForeignKeyError),
    #[error("the shop made a second license key for this sale, and a license has one")]
    SecondKey,
    #[error(transparent)]
    NotOneLicense(#[from] NotOneLicense),
    #[error("the shop is not in countersign.toml")]
    UnknownShop,
    #[error("{0}")]
    Declared(ChangeError),
    #[error("the license cannot be issued or changed: {0:?}")]
    Refused(ChangeRefusal),
}

/// A sale for which the shop makes one key grants another number of licenses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the shop makes one license key for a sale, and the offers of this one grant {0} licenses")]
pub(super) struct NotOneLicense(pub(super) usize);

impl ApplyError {
    /// The error of a delivery that was received at this time. A key of the shop is late after an hour; after three days it is
    /// not expected any more.
    pub(super) fn of_delivery(self, received: DateTime<Utc>) -> Self {
        let age = Utc::now() - received;
        match self {
            Self::NoKeyYet { .. } if age > SHOPS_TRY_FOR => Self::Parked(ParkReason::NoKey),
            Self::NoKeyYet { .. } => Self::NoKeyYet {
                is_late: age > TimeDelta::hours(1),
            },
            other => other,
        }
    }

    /// What a sale waits for; `None` if nothing that can be named ends the wait.
    pub(super) fn waits_for(&self) -> Option<AwaitedThing> {
        match self {
            Self::Shop(_) => Some(AwaitedThing::Address),
            Self::NoKeyYet { .. } | Self::Parked(ParkReason::NoKey) => Some(AwaitedThing::Key),
            Self::Early | Self::Parked(ParkReason::UnknownSubscription) => Some(AwaitedThing::RenewedLicense),
            Self::Parked(ParkReason::NoOffer { .. }) => Some(AwaitedThing::Offer),
            _ => None,
        }
    }

    /// Whether another delivery or another attempt ends the wait, and there is nothing to say.
    pub(super) fn is_expected(&self) -> bool {
        matches!(
            self,
            Self::Early | Self::NoKeyYet { is_late: false } | Self::Shop(ShopError::Later)
        )
    }
}

impl From<ChangeError> for ApplyError {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::Store(error) => Self::Store(error),
            declared @ ChangeError::Declared { .. } => Self::Parked(ParkReason::Declared(declared)),
        }
    }
}

impl From<DeliveryError> for ApplyError {
    fn from(error: DeliveryError) -> Self {
        Self::Parked(error.into())
    }
}
