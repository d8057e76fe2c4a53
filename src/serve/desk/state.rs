//! What the pages of the desk share.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, TimeDelta, Utc};

use crate::serve::api::licenses::reports::ReviewReport;
use crate::serve::desk::door::DeskDoor;
use crate::serve::desk::figures::LicenseFigures;
use crate::serve::desk::request_ring::{RequestRing, RequestTotals};
use crate::serve::pages::mail_sign_in::SignInCounts;
use crate::serve::pages::scan_turn::ScanTurn;
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
    pub(super) licenses: KeptFigures<LicenseFigures>,
    pub(super) sharing: KeptFigures<ReviewReport>,
    pub(super) requests: RequestRing,
    /// When the log said last how a proxy has to send `Host`.
    pub(super) told_of_host: Mutex<Option<DateTime<Utc>>>,
}

/// A result that is used again for a while.
pub(super) struct KeptFigures<T>(Mutex<Option<(DateTime<Utc>, Arc<T>)>>);

impl<T> Default for KeptFigures<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> KeptFigures<T> {
    /// The last result, if it is not older than this.
    pub(super) fn within(&self, age: TimeDelta, now: DateTime<Utc>) -> Option<Arc<T>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (made, result) = kept.as_ref()?;
        (now - *made < age).then(|| Arc::clone(result))
    }

    /// Keeps a result.
    pub(super) fn keep(&self, result: T, now: DateTime<Utc>) -> Arc<T> {
        let result = Arc::new(result);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, Arc::clone(&result)));
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
            licenses: KeptFigures::default(),
            sharing: KeptFigures::default(),
            requests: RequestRing::default(),
            told_of_host: Mutex::default(),
        }
    }
}
