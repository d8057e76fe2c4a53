//! The log of a server, on standard error.

use std::io::IsTerminal as _;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{fmt, registry};

use countersign_settings::config::LogFormat;

/// Has all events of this program written from now on.
// SECURITY: only our own events are logged. hyper's debug events can have a request's query with a license key.
pub(super) fn start(format: LogFormat) {
    let level = std::env::var("COUNTERSIGN_LOG")
        .ok()
        .and_then(|level| level.parse().ok());
    let ours = Targets::new().with_target("countersign", level.unwrap_or(LevelFilter::INFO));
    // A line that cannot be written is lost. Reporting that on stderr would panic.
    let log = fmt::layer()
        .with_target(false)
        .log_internal_errors(false)
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => registry()
            .with(ours)
            .with(log.with_ansi(std::io::stderr().is_terminal()))
            .init(),
        LogFormat::Json => registry().with(ours).with(log.json().flatten_event(true)).init(),
    }
}
