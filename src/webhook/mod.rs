//! Messages to the vendor's own services about what happened to licenses and sites, as Standard Webhooks.
//!
//! [`event`] is a message, and [`post`] signs it and sends it to an endpoint. [`outbox`] has the progress of an endpoint,
//! and the messages that it did not take. `serve::webhooks` reads the events from the ledger.

pub mod event;
pub mod kept_event;
pub mod outbox;
pub mod post;
