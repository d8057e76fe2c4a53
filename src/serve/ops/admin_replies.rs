//! What every answer to commands shares: orders and answers are JSON.

use std::time::Duration;

use bytes::{Buf, BufMut as _};
use futures_util::{Stream, TryStreamExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use warp::http::StatusCode;

use crate::serve::reply::response::{ContentType, JSON, Response};

/// Time limit of an order's body. The connection table closes no connection whose request is being answered.
const PATIENCE: Duration = Duration::from_secs(10);

/// The order in a body, or the answer that refuses it. The filter in front limits the body's size.
pub(super) async fn order<T: DeserializeOwned>(
    body: impl Stream<Item = Result<impl Buf, warp::Error>>,
) -> Result<T, Response> {
    let collected = body.try_fold(Vec::new(), |mut collected, part| async {
        collected.put(part);
        Ok(collected)
    });
    match timeout(PATIENCE, collected).await {
        Ok(Ok(body)) => {
            serde_json::from_slice(&body).map_err(|_| text(StatusCode::BAD_REQUEST, "the order is malformed\n"))
        }
        Ok(Err(_)) => Err(text(
            StatusCode::BAD_REQUEST,
            "the connection ended before the whole order arrived\n",
        )),
        Err(_) => Err(text(StatusCode::REQUEST_TIMEOUT, "the order did not arrive in time\n")),
    }
}

/// The token is missing or wrong.
pub(super) fn unauthorized() -> Response {
    let told = "the token in the store's admin.json is needed\n";
    text(StatusCode::UNAUTHORIZED, told)
}

/// Nothing was changed, because of this error.
pub(super) fn unavailable(error: &impl std::fmt::Display) -> Response {
    text(StatusCode::SERVICE_UNAVAILABLE, &format!("{error}\n"))
}

/// An answer of texts, numbers and times, which always serialize.
pub(super) fn json(value: &impl Serialize) -> Response {
    JSON.answer(serde_json::to_vec(value).unwrap_or_default())
}

/// A line for a person.
pub(super) fn text(status: StatusCode, text: &str) -> Response {
    Response {
        status,
        ..ContentType("text/plain; charset=utf-8").answer(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::{StreamExt as _, stream};
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_body_is_read_only_for_some_time() {
        let ask = async |parts: &[&'static str]| {
            let parts: Vec<_> = parts
                .iter()
                .map(|part| Ok(Bytes::from_static(part.as_bytes())))
                .collect();
            let body = stream::iter(parts).chain(stream::pending());
            let asked = order::<bool>(body).await;
            asked.map_err(|refused| refused.status.as_u16())
        };
        let started = Instant::now();
        assert_eq!(ask(&["tr"]).await, Err(408));
        assert_eq!(started.elapsed(), PATIENCE);
        let whole = stream::iter([Ok(Bytes::from_static(b"tr")), Ok(Bytes::from_static(b"ue"))]);
        assert!(order::<bool>(whole).await.unwrap());
    }
}
