//! `countersign webhook test`: sends one message, as the server would.

use std::time::Instant;

use chrono::Utc;

use crate::commands::webhook::endpoints::endpoint;
use crate::commands::{Exit, Failure, output};
use crate::webhook::event::WebhookEvent;
use crate::webhook::post::{PostError, post};
use countersign_model::slug::Slug;
use countersign_settings::config::Config;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The endpoint
    name: Slug,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let endpoint = endpoint(config, &args.name)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(Failure::environment)?;
    let event = WebhookEvent::test(Utc::now());
    let started = Instant::now();
    let posted = runtime.block_on(post(endpoint, &event));
    // A question for an address that nobody answers must not delay the end.
    runtime.shutdown_background();
    let status = posted.map_err(failure)?;
    let milliseconds = started.elapsed().as_millis();
    output::print(&if args.json {
        let result = serde_json::json!({
            "webhook": args.name,
            "message": format!("msg_{}", event.id),
            "status": status.as_u16(),
            "milliseconds": milliseconds,
        });
        output::json(&result)?
    } else {
        format!("{} took the message: {status}, {milliseconds} ms\n", args.name)
    })
}

fn failure(error: PostError) -> Failure {
    match error {
        PostError::Secret(error) => error.into(),
        PostError::Refused { .. } => {
            Failure::input(error).hint("look into the receiver's log; it may not have the secret")
        }
        error => Failure::environment(error).hint("check the URL, the name and the certificate of the receiver"),
    }
}
