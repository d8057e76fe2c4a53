//! How many sites a license has: what [`seat`](crate::seat) counts once for each change.

/// The sites of a license in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeatCounts {
    /// How many hosts are listed or bound.
    pub hosts: usize,
    /// How many of them are staging copies, whether or not they need a seat.
    pub copies: usize,
    /// How many become staging copies with the first site outside the staging hosts; none if there is one.
    pub waiting: usize,
    /// Whether there is a site outside the staging hosts.
    pub has_outside: bool,
    /// How many seats are used.
    pub seats: usize,
    /// Bindings from this position on have given way to hosts that a license file lists.
    pub holding: usize,
}
