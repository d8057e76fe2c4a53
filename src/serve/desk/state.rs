//! What the pages of the desk share.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, TimeDelta, Utc};

use crate::serve::api::licenses::reports::ReviewReport;
use crate::serve::desk::door::DeskDoor;
use crate::serve::desk::figures::LicenseFigures;
use crate::serve::desk::license_list::{LicenseList, TermsFilter};
use crate::serve::desk::request_ring::{RequestRing, RequestTotals};
use crate::serve::pages::mail_sign_in::SignInCounts;
use crate::serve::pages::scan_turn::ScanTurn;
use crate::serve::plugin_usage::PluginUsage;
use crate::serve::state::Service;
use countersign_mail::account::MailAccount;

/// What all requests to the desk share.
pub struct DeskState {
    pub(super) service: Arc<Service>,
    pub(super) door: Arc<DeskDoor>,
    /// This node's own folder, which has what waits.
    pub(super) store: PathBuf,
    /// Who sends mails to people that sign in; `None` without a mail server.
    pub(super) mail: Option<Arc<MailAccount>>,
    pub(super) sign_ins: SignInCounts,
    pub(super) scans: ScanTurn,
    pub(super) licenses: KeptResults<(), LicenseFigures>,
    pub(super) sharing: KeptResults<(), ReviewReport>,
    /// What sites run of each plugin of the registry.
    pub(super) usage: KeptResults<(), Vec<PluginUsage>>,
    pub(super) lists: KeptResults<TermsFilter, LicenseList>,
    pub(super) requests: RequestRing,
    /// When the log said last how a proxy has to send `Host`.
    pub(super) host_logged: Mutex<Option<DateTime<Utc>>>,
}

/// How many results of one kind are kept.
const MOST_KEPT: usize = 16;

/// Results that are used again for a while, the newest first.
pub(super) struct KeptResults<K, T>(Mutex<VecDeque<KeptResult<K, T>>>);

/// A result, when it was made, and what was asked.
struct KeptResult<K, T> {
    made: DateTime<Utc>,
    asked: K,
    result: Arc<T>,
}

impl<K, T> Default for KeptResults<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: PartialEq, T> KeptResults<K, T> {
    /// The last result for this, if it is not older than so much.
    pub(super) fn within(&self, asked: &K, age: TimeDelta, now: DateTime<Utc>) -> Option<Arc<T>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().find(|kept| kept.asked == *asked)?;
        (now - found.made < age).then(|| Arc::clone(&found.result))
    }

    /// Keeps a result.
    pub(super) fn keep(&self, asked: K, result: T, now: DateTime<Utc>) -> Arc<T> {
        let result = Arc::new(result);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|kept| kept.asked != asked);
        kept.truncate(MOST_KEPT - 1);
        kept.push_front(KeptResult {
            made: now,
            asked,
            result: Arc::clone(&result),
        });
        result
    }
}

impl DeskState {
    /// Notes which requests the server answered until now.
    pub(super) fn count_requests(&self, now: DateTime<Utc>) {
        let totals = RequestTotals::from(&self.service.metrics.requests);
        self.requests.note(totals, now);
    }

    /// The state of a desk that was just opened.
    pub(in crate::serve) fn new(
        service: Arc<Service>,
        door: Arc<DeskDoor>,
        store: PathBuf,
        mail: Option<MailAccount>,
    ) -> Self {
        Self {
            service,
            door,
            store,
            mail: mail.map(Arc::new),
            sign_ins: SignInCounts::default(),
            scans: ScanTurn::default(),
            licenses: KeptResults::default(),
            sharing: KeptResults::default(),
            usage: KeptResults::default(),
            lists: KeptResults::default(),
            requests: RequestRing::default(),
            host_logged: Mutex::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_kept_for_what_was_asked_and_the_latest_ones_stay() {
        let kept = KeptResults::default();
        let now = DateTime::UNIX_EPOCH;
        let minute = TimeDelta::minutes(1);
        let found = |asked: usize, now| kept.within(&asked, minute, now).map(|result: Arc<usize>| *result);
        for asked in 0..20 {
            kept.keep(asked, 100 + asked, now);
        }
        assert_eq!(
            [found(3, now), found(4, now), found(19, now)],
            [None, Some(104), Some(119)]
        );
        assert_eq!(found(19, now + minute), None);
        kept.keep(4, 7, now + minute);
        assert_eq!([found(4, now + minute), found(5, now)], [Some(7), Some(105)]);
    }
}
