//! What a delivery says of a sale's licenses: their end, whether a copy is sold, and whose key they have.

use countersign_model::license_key::LicenseId;

/// What a payment says of the end.
#[derive(Clone, Copy, Debug)]
pub(super) enum PaidEnd {
    /// Nothing: the offer's period counts, and a change may say more.
    Unknown,
    /// The end of the first period.
    Exact,
    /// The end of a further period. It shortens nothing.
    AtLeast,
}

/// Whose key a license gets.
#[derive(Clone, Copy, Debug)]
pub(super) enum SaleKey {
    /// Ours.
    Own,
    /// The one that the shop made, of which this is the license; `None` if it did not come yet.
    OfShop(Option<LicenseId>),
}

/// What a delivery says of one copy. Suspensions of a copy that is not sold anymore end when it is sold again, and with
/// nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CopyState {
    /// Nothing.
    Unsaid,
    /// It is sold.
    Sold,
    /// It is not sold anymore.
    Surplus,
}
