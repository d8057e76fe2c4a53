//! How many sites a license has: what [`seat`](crate::seat) counts once for each change.

/// The sites of a license in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeatCounts {
    /// How many hosts are listed or bound.
    pub hosts: usize,
    /// How many of them stand under another one, whether or not they need a seat.
    pub copies: usize,
    /// How many seats are used.
    pub seats: usize,
    /// Bindings from this position on have given way to hosts that a license file lists.
    pub holding: usize,
}
