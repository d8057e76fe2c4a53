//! Reads and erases texts of orders for a node, and copies those of another store.
//!
//! Who changes the table locks the head as a commit does: a text that was erased on one node is not kept by another.

use tokio::time::timeout;

use crate::backend_error::BackendError;
use crate::postgres::failure::TransactionFailure;
use crate::postgres::node_state::{DEADLINE, NodeState};
use crate::postgres::session::Session;
use crate::postgres::settings::DatabaseSettings;
use crate::postgres::text_rows::{ROWS, find, storable, texts_of};
use crate::postgres::transaction;
use crate::texts::erasure::{ErasedText, FoundTexts, TextErasure};
use countersign_model::issued_license::Hex128;
use countersign_model::stored_text::StoredText;

const ERASE: &str = "INSERT INTO countersign.texts AS known (name, erased) \
     SELECT name, $2 FROM unnest($1::text[]) AS erased(name) ORDER BY name \
     ON CONFLICT (name) DO UPDATE SET text = NULL, erased = coalesce(known.erased, excluded.erased)";

/// Copies what another store keeps. An erased text stays erased, wherever it was erased.
const PUT: &str = "INSERT INTO countersign.texts AS known (name, text, erased) \
     SELECT * FROM unnest($1::text[], $2::text[], $3::timestamptz[]) AS new(name, text, erased) ORDER BY name \
     ON CONFLICT (name) DO UPDATE SET text = NULL, erased = coalesce(known.erased, excluded.erased) \
     WHERE excluded.erased IS NOT NULL";

/// Copies what another store keeps, and returns when it is durable.
pub(super) async fn put(session: &Session, all: &[(Hex128, StoredText)]) -> Result<(), TransactionFailure> {
    for part in all.chunks(ROWS) {
        let names: Vec<_> = part.iter().map(|(name, _)| name.to_string()).collect();
        let texts: Vec<_> = part.iter().map(|(_, stored)| stored.text().map(storable)).collect();
        let erased: Vec<_> = part.iter().map(|(_, stored)| stored.erased_at()).collect();
        transaction::lock_head(session).await?;
        session.client.execute(PUT, &[&names, &texts, &erased]).await?;
        transaction::commit(session).await?;
    }
    Ok(())
}

async fn erase(session: &Session, erasure: &TextErasure) -> Result<Option<ErasedText>, TransactionFailure> {
    let head = transaction::lock_head(session).await?;
    let before = find(&session.client, &erasure.names).await?;
    let erased = ErasedText::after(&before, erasure, head.now());
    if let Some(erased) = &erased {
        let names = texts_of(&erasure.names);
        session.client.execute(ERASE, &[&names, &erased.time]).await?;
    }
    transaction::commit(session).await?;
    Ok(erased)
}

impl NodeState {
    /// What is kept of these orders.
    pub(super) async fn find_texts(
        &mut self,
        settings: &DatabaseSettings,
        names: &[Hex128],
    ) -> Result<FoundTexts, BackendError> {
        let question = async |session: &Session| find(&session.client, names).await.map_err(TransactionFailure::from);
        self.with_session(settings, question).await
    }

    /// Erases the text of an order.
    pub(super) async fn erase_texts(
        &mut self,
        settings: &DatabaseSettings,
        erasure: &TextErasure,
    ) -> Result<Option<ErasedText>, BackendError> {
        self.with_session(settings, async |session: &Session| erase(session, erasure).await)
            .await
    }

    /// Does work that may be done twice. A connection may have ended while nobody used it.
    async fn with_session<T>(
        &mut self,
        settings: &DatabaseSettings,
        work: impl AsyncFn(&Session) -> Result<T, TransactionFailure>,
    ) -> Result<T, BackendError> {
        let mut has_reconnected = false;
        loop {
            let session = match self.session.take() {
                Some(session) => session,
                None => self.open(settings).await?,
            };
            match timeout(DEADLINE, work(&session)).await {
                Ok(Ok(done)) => {
                    self.session = Some(session);
                    return Ok(done);
                }
                Ok(Err(TransactionFailure::Gone(_) | TransactionFailure::Again(_))) if !has_reconnected => {
                    has_reconnected = true;
                }
                Ok(Err(failed)) => return Err(failed.error()),
                Err(_) => return Err(self.silence(&session)),
            }
        }
    }
}
