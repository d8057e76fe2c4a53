//! Reads and erases texts of orders for a node, keeps and deletes its customers, and copies the texts of another store.
//!
//! Who changes the table locks the head as a commit does: a text that was erased on one node is not kept by another.

use std::collections::BTreeSet;

use tokio::time::timeout;
use tokio_postgres::types::ToSql;

use crate::error::BackendError;
use crate::postgres::failure::TransactionFailure;
use crate::postgres::node_state::{DEADLINE, NodeState, no_answer};
use crate::postgres::session::Session;
use crate::postgres::settings::DatabaseSettings;
use crate::postgres::text_rows::{ROWS, customers_of, find, keep_search, number_of, stored, text_of, texts_of};
use crate::postgres::transaction;
use crate::texts::{ErasedText, FoundTexts, TextErasure, customer_rows};
use countersign_model::customer::{CustomerRow, NewCustomer};
use countersign_model::issued_license::Hex128;
use countersign_model::stored_text::StoredText;

const ERASE: &str = "INSERT INTO countersign.texts AS known (name, erased) \
     SELECT name, $2 FROM unnest($1::text[]) AS erased(name) ORDER BY name \
     ON CONFLICT (name) DO UPDATE SET text = NULL, erased = coalesce(known.erased, excluded.erased)";

/// Copies what another store keeps. An erased text stays erased, wherever it was erased.
const PUT: &str = "INSERT INTO countersign.texts AS known (name, text, erased, customer) \
     SELECT * FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::text[]) AS new(name, text, erased, customer) ORDER BY name \
     ON CONFLICT (name) DO UPDATE SET text = NULL, erased = coalesce(known.erased, excluded.erased) \
     WHERE excluded.erased IS NOT NULL";

/// Copies what another store keeps, and returns when it is durable.
pub(super) async fn put(session: &Session, all: &[(Hex128, StoredText)]) -> Result<(), TransactionFailure> {
    for part in all.chunks(ROWS) {
        let names: Vec<_> = part.iter().map(|(name, _)| name.to_string()).collect();
        let texts: Vec<_> = part.iter().map(|(_, stored)| text_of(stored)).collect();
        let erased: Vec<_> = part.iter().map(|(_, stored)| stored.erased_at()).collect();
        let customers: Vec<_> = part.iter().map(|(_, stored)| number_of(stored)).collect();
        transaction::lock_head(session).await?;
        let rows: [&(dyn ToSql + Sync); 4] = [&names, &texts, &erased, &customers];
        session.client.execute(PUT, &rows).await?;
        keep_search(&session.client, part.iter().map(|(name, stored)| (name, stored))).await?;
        transaction::commit(session).await?;
    }
    Ok(())
}

/// Keeps rows of customers.
const KEEP_CUSTOMERS: &str = "INSERT INTO countersign.texts (name, text, customer) \
     SELECT * FROM unnest($1::text[], $2::text[], $3::text[]) AS new(name, text, customer) ORDER BY name \
     ON CONFLICT (name) DO UPDATE SET text = excluded.text, customer = excluded.customer, erased = NULL";

const FORGET_CUSTOMERS: &str =
    "DELETE FROM countersign.texts WHERE customer = ANY ($1) RETURNING name, text, erased, customer";

async fn keep_customers(session: &Session, new: &[NewCustomer]) -> Result<Vec<Hex128>, TransactionFailure> {
    transaction::lock_head(session).await?;
    let names: Vec<_> = new.iter().flat_map(|new| new.names.iter().copied()).collect();
    let (rows, numbers) = customer_rows(find(&session.client, &names).await?, new);
    if !rows.is_empty() {
        let names: Vec<_> = rows.keys().map(Hex128::to_string).collect();
        let texts: Vec<_> = rows.values().map(text_of).collect();
        let customers: Vec<_> = rows.values().map(number_of).collect();
        session
            .client
            .execute(KEEP_CUSTOMERS, &[&names, &texts, &customers])
            .await?;
        keep_search(&session.client, rows.iter()).await?;
    }
    transaction::commit(session).await?;
    Ok(numbers)
}

async fn forget_customers(session: &Session, numbers: &[Hex128]) -> Result<usize, TransactionFailure> {
    transaction::lock_head(session).await?;
    let gone = session.client.query(FORGET_CUSTOMERS, &[&texts_of(numbers)]).await?;
    transaction::commit(session).await?;
    let rows = gone.iter().filter_map(stored);
    let is_of_address = |(_, stored): &(_, StoredText)| stored.customer().is_some_and(CustomerRow::is_of_address);
    Ok(rows.filter(is_of_address).count())
}

/// Deletes the rows of customers with these numbers, where the node has no state yet.
pub(super) async fn forget_in_time(session: &Session, numbers: &[Hex128]) -> Result<usize, BackendError> {
    match timeout(DEADLINE, forget_customers(session, numbers)).await {
        Ok(done) => done.map_err(TransactionFailure::error),
        Err(_) => Err(no_answer(session)),
    }
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

    /// Keeps customers, and gives their numbers.
    pub(super) async fn keep_customers(
        &mut self,
        settings: &DatabaseSettings,
        new: &[NewCustomer],
    ) -> Result<Vec<Hex128>, BackendError> {
        self.with_session(settings, async |session: &Session| keep_customers(session, new).await)
            .await
    }

    /// The rows of these customers.
    pub(super) async fn find_customers(
        &mut self,
        settings: &DatabaseSettings,
        numbers: &BTreeSet<Hex128>,
    ) -> Result<Vec<CustomerRow>, BackendError> {
        let question = async |session: &Session| {
            customers_of(&session.client, numbers)
                .await
                .map_err(TransactionFailure::from)
        };
        self.with_session(settings, question).await
    }

    /// Deletes the rows of customers with these numbers.
    pub(super) async fn forget_customers(
        &mut self,
        settings: &DatabaseSettings,
        numbers: &[Hex128],
    ) -> Result<usize, BackendError> {
        self.with_session(settings, async |session: &Session| {
            forget_customers(session, numbers).await
        })
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
