//! Who may ask the running server for commands, and the routes that they ask.
//!
//! Only who has the admin token is answered. Without a token, nobody is.

use std::fmt::Display;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use warp::{Filter, Rejection};

use crate::serve::ops::admin_replies;
use crate::serve::ops::admin_token::AdminToken;
use crate::serve::reply::response::Response;
use crate::serve::state::Service;

/// The server, and the token that opens it to commands.
#[derive(Clone)]
pub(super) struct CommandAccess {
    pub(super) service: Arc<Service>,
    token: Option<Arc<AdminToken>>,
}

impl CommandAccess {
    pub(super) fn new(service: Arc<Service>, token: Option<AdminToken>) -> Self {
        let token = token.map(Arc::new);
        Self { service, token }
    }

    /// Whether the header has the token.
    pub(super) fn is_given(&self, authorization: Option<&str>) -> bool {
        self.token.as_ref().is_some_and(|token| token.is_given(authorization))
    }

    /// The route `GET /NAME`, which tells something.
    pub(super) fn told<T: Serialize>(
        &self,
        name: &'static str,
        tell: fn(&Service) -> T,
    ) -> impl Filter<Extract = (Response,), Error = Rejection> + Clone + use<T> {
        let access = self.clone();
        warp::path(name)
            .and(warp::path::end())
            .and(warp::get())
            .and(warp::header::optional("authorization"))
            .map(
                move |authorization: Option<String>| match access.is_given(authorization.as_deref()) {
                    true => admin_replies::json(&tell(&access.service)),
                    false => admin_replies::unauthorized(),
                },
            )
    }

    /// The route `POST /NAME`, whose body is an order of at most `limit` bytes, which `carry_out` carries out.
    pub(super) fn ordered<O, R, E, F>(
        &self,
        name: &'static str,
        limit: u64,
        carry_out: fn(Arc<Service>, O) -> F,
    ) -> impl Filter<Extract = (Response,), Error = Rejection> + Clone + use<O, R, E, F>
    where
        O: DeserializeOwned + Send,
        R: Serialize,
        E: Display,
        F: Future<Output = Result<R, E>> + Send,
    {
        let access = self.clone();
        warp::path(name)
            .and(warp::path::end())
            .and(warp::post())
            .and(warp::header::optional("authorization"))
            .and(warp::body::content_length_limit(limit))
            .and(warp::body::stream())
            .then(move |authorization: Option<String>, body| {
                let access = access.clone();
                async move {
                    // SECURITY: nothing of the body is read before the token is checked. Otherwise strangers could hold every
                    // connection of the listener, and memory.
                    if !access.is_given(authorization.as_deref()) {
                        return admin_replies::unauthorized();
                    }
                    let order = match admin_replies::order(body).await {
                        Ok(order) => order,
                        Err(refused) => return refused,
                    };
                    match carry_out(access.service, order).await {
                        Ok(reply) => admin_replies::json(&reply),
                        Err(error) => admin_replies::unavailable(&error),
                    }
                }
            })
    }
}
