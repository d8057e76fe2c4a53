//! `POST /imports` of the admin listener: imports licenses of another system, for commands beside a running server.

use std::sync::Arc;

use bytes::Buf;
use futures_util::Stream;

use crate::serve::imports::{self, NameReference};
use crate::serve::ops::admin_replies;
use crate::serve::ops::admin_token::AdminToken;
use crate::serve::reply::response::Response;
use crate::serve::state::Service;

/// Size limit of an order in bytes: 500 licenses with all that a ledger's line holds.
pub(super) const MAX_IMPORT: u64 = 4 << 20;

/// Answers for who has the admin token.
pub(crate) struct ImportAnswers {
    service: Arc<Service>,
    token: Option<Arc<AdminToken>>,
}

impl ImportAnswers {
    /// Without an admin token, nobody is answered.
    pub(crate) fn new(service: Arc<Service>, token: Option<Arc<AdminToken>>) -> Self {
        Self { service, token }
    }

    /// The result of an order.
    pub(crate) async fn import(
        &self,
        authorization: Option<&str>,
        body: impl Stream<Item = Result<impl Buf, warp::Error>>,
    ) -> Response {
        let order = match admin_replies::order(self.token.as_deref(), authorization, body).await {
            Ok(order) => order,
            Err(refused) => return refused,
        };
        let snapshot = self.service.gate.snapshot();
        let bindings = self.service.gate.bindings();
        let secrets = snapshot.secrets.licensing.clone();
        let name = secrets
            .as_ref()
            .map(|secrets| |reference: &str| secrets.reference(reference));
        let name = name.as_ref().map(|name| name as &NameReference<'_>);
        match imports::carry_out(&snapshot.registry, bindings, name, order).await {
            Ok(replies) => admin_replies::json(&replies),
            Err(error) => admin_replies::unavailable(&error),
        }
    }
}
