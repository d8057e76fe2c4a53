//! Stored reports, refused hosts and first copies, page by page: how a running server tells commands what sites reported.
//!
//! The index implements it. A page is small, because the store's thread waits while one is read.

use std::io;

use crate::index::SiteReports;
use countersign_model::first_copies::FirstCopies;
use countersign_model::license_key::LicenseId;
use countersign_model::refused_hosts::RefusedHosts;
use countersign_model::site_host::SiteHost;

/// Which reports to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportRange {
    /// Of this license only.
    pub license: Option<LicenseId>,
    /// Those that follow this site, in the order of license and host.
    pub after: Option<(LicenseId, SiteHost)>,
}

/// Reads what is stored. What a site reported in the last seconds may be missing. Blocks.
pub trait StoredReports: Send + Sync {
    /// The first reports in the range, at most `limit`, in the order of license and host.
    ///
    /// # Errors
    /// The index cannot be read.
    fn reports(&self, range: &ReportRange, limit: usize) -> io::Result<SiteReports>;

    /// The hosts that the licenses after this one were refused to, of at most `limit` licenses in their order.
    ///
    /// # Errors
    /// As above.
    fn refused(&self, after: Option<&LicenseId>, limit: usize) -> io::Result<Vec<(LicenseId, RefusedHosts)>>;

    /// The hosts that one license was refused to; `None` if there are none.
    ///
    /// # Errors
    /// As above.
    fn refused_of(&self, license: &LicenseId) -> io::Result<Option<RefusedHosts>>;

    /// The first copies of the licenses after this one, of at most `limit` licenses in their order.
    ///
    /// # Errors
    /// As above.
    fn first_copies(&self, after: Option<&LicenseId>, limit: usize) -> io::Result<Vec<(LicenseId, FirstCopies)>>;

    /// The first copies of one license; `None` if it gave none.
    ///
    /// # Errors
    /// As above.
    fn first_copies_of(&self, license: &LicenseId) -> io::Result<Option<FirstCopies>>;
}
