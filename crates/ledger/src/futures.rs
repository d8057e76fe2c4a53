//! The future results of [`Bindings`](crate::Bindings), which is used as a trait object.

use std::future::Future;
use std::pin::Pin;

use crate::error::StoreError;
use crate::ledger_change::ChangeOutcome;
use crate::license_imports::ImportOutcome;
use crate::sales::SaleOutcome;
use crate::seats::BindOutcome;
use crate::site_moves::SiteReleaseOutcome;
use crate::texts::erasure::{ErasedText, FoundTexts};
use crate::token_changes::TokenOutcome;

/// Whether a site is bound.
pub type BindFuture<'a> = Pin<Box<dyn Future<Output = Result<BindOutcome, StoreError>> + Send + 'a>>;

/// The end of a look at the log.
pub type RefreshFuture<'a> = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send + 'a>>;

/// Whether a license was issued or changed.
pub type ChangeFuture<'a> = Pin<Box<dyn Future<Output = Result<ChangeOutcome, StoreError>> + Send + 'a>>;

/// What became of each license of an import.
pub type ImportFuture<'a> = Pin<Box<dyn Future<Output = Result<Vec<ImportOutcome>, StoreError>> + Send + 'a>>;

/// What is kept of some orders.
pub type FindTextsFuture<'a> = Pin<Box<dyn Future<Output = Result<FoundTexts, StoreError>> + Send + 'a>>;

/// What became of an order whose text shall be erased.
pub type EraseTextsFuture<'a> = Pin<Box<dyn Future<Output = Result<Option<ErasedText>, StoreError>> + Send + 'a>>;

/// Whether a token was made or changed.
pub type TokenFuture<'a> = Pin<Box<dyn Future<Output = Result<TokenOutcome, StoreError>> + Send + 'a>>;

/// Whether a site was released.
pub type ReleaseFuture<'a> = Pin<Box<dyn Future<Output = Result<SiteReleaseOutcome, StoreError>> + Send + 'a>>;

/// What became of what a shop told.
pub type SaleFuture<'a> = Pin<Box<dyn Future<Output = Result<SaleOutcome, StoreError>> + Send + 'a>>;
