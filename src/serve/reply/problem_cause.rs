//! Failures of the server's parts, as problems.

use crate::serve::rate_limit::buckets::RetryAfter;
use crate::serve::reply::problem::Problem;
use crate::serve::signing::pool::SignError;
use countersign_ledger::StoreError;

impl From<RetryAfter> for Problem {
    fn from(RetryAfter(seconds): RetryAfter) -> Self {
        Self::TooManyRequests(seconds)
    }
}

impl From<StoreError> for Problem {
    /// The store has logged the failure.
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Busy => Self::Overloaded,
            _ => Self::StoreUnavailable,
        }
    }
}

impl From<SignError> for Problem {
    fn from(error: SignError) -> Self {
        match error {
            SignError::QueueFull => Self::Overloaded,
            SignError::Failed => Self::internal(&error),
        }
    }
}
