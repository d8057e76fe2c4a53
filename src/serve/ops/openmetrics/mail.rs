//! The metrics of mails.
// SECURITY: no label has an address, a license or an event.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::serve::ops::openmetrics::writer::{MetricWriter, Series};
use countersign_mail::queue::MailCounts;

/// Writes them; all are 0 where there is no mail server.
pub(super) fn write(page: &mut MetricWriter<'_>, counts: Option<&MailCounts>) -> fmt::Result {
    let number = |of: fn(&MailCounts) -> &AtomicU64| counts.map_or(0, |counts| of(counts).load(Ordering::Relaxed));
    let states: Series<_, _> = [
        ("waiting", number(|counts| &counts.waiting)),
        ("parked", number(|counts| &counts.parked)),
    ]
    .into_iter()
    .map(|(state, count)| ([("state", state)], ConstGauge::new(count)))
    .collect();
    page.add("countersign_mails", "Mails to buyers that are not sent yet", &states)?;
    let help = "Time when the oldest mail that waits was ordered, 0 if none waits";
    let oldest = ConstGauge::new(number(|counts| &counts.oldest));
    page.add("countersign_mail_oldest_timestamp_seconds", help, &oldest)?;
    let sent = ConstCounter::new(number(|counts| &counts.sent));
    page.add("countersign_mails_sent", "Mails that the mail server took", &sent)?;
    let help = "Attempts to send that failed, those to reach the mail server included";
    let failures = ConstCounter::new(number(|counts| &counts.failures));
    page.add("countersign_mail_failures", help, &failures)
}
