//! `POST /imports` of the admin socket: imports licenses of another system, for commands beside a running server.

use std::sync::Arc;

use crate::serve::imports::{self, ImportOrder, ImportOrderError, ImportReply};
use crate::serve::ops::command_user::GivenOrder;
use crate::serve::state::Service;

/// The result of an order.
pub(super) async fn import(
    service: Arc<Service>,
    given: GivenOrder<ImportOrder>,
) -> Result<Vec<ImportReply>, ImportOrderError> {
    let snapshot = service.gate.snapshot();
    let secrets = snapshot.secrets.licensing.clone();
    let keys = secrets.as_ref().map(|secrets| secrets.references());
    imports::carry_out(
        &snapshot.registry,
        service.gate.bindings(),
        keys,
        service.customers,
        given.order,
    )
    .await
}
