//! A connection to the server that takes changes, and that has every line this node has read.
//!
//! The address may name several servers. One that is a standby, or that lacks lines, is passed over: after a failover the
//! old primary may still answer.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::error::Severity;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{AsyncMessage, Client, Connection, NoTls, Socket};

use crate::model::digest::Digest;
use crate::store::backend_error::BackendError;
use crate::store::ledger_state::LedgerState;
use crate::store::log::Position;
use crate::store::postgres::failure::{database_error, failure};
use crate::store::postgres::settings::{DatabaseServer, DatabaseSettings};
use crate::store::postgres::{load, password, schema, tls};

/// How long a server may take until it can be used.
const DEADLINE: Duration = Duration::from_secs(4);

/// What a node has read of the log.
#[derive(Clone, Copy)]
pub(super) struct KnownLog {
    pub end: Position,
    /// How often the log was repaired or compacted before.
    pub epoch: i32,
}

impl KnownLog {
    /// Nothing.
    pub(super) fn none() -> Self {
        Self {
            end: Position::genesis(),
            epoch: 0,
        }
    }
}

/// A connection that can append.
pub(super) struct Session {
    pub client: Client,
    /// `host:port`.
    pub server: String,
    /// The server's process. Another one in a later transaction shows a pooler.
    pub process: i32,
    warned: Arc<AtomicBool>,
    driver: JoinHandle<()>,
}

impl Drop for Session {
    fn drop(&mut self) {
        // Closes the socket, also where the server no longer answers.
        self.driver.abort();
    }
}

impl Session {
    /// Whether the server sent a warning since the last call.
    pub(super) fn take_warning(&self) -> bool {
        self.warned.swap(false, Ordering::Relaxed)
    }

    /// Connects to the first server that has what the node knows.
    pub(super) async fn open(settings: &DatabaseSettings, known: KnownLog) -> Result<Self, BackendError> {
        let mut failures: Vec<BackendError> = Vec::new();
        for server in &settings.servers {
            let opened = timeout(DEADLINE, open(settings, server, known)).await;
            match opened.unwrap_or_else(|_| Err(failure(LedgerState::Unreachable, "does not answer"))) {
                Ok(session) => return Ok(session),
                Err(error) => failures.push(BackendError {
                    message: format!("{}: {}", server.name, error.message),
                    ..error
                }),
            }
        }
        let state = failures
            .iter()
            .map(|error| error.state)
            .max_by_key(|state| rank(*state));
        let messages: Vec<_> = failures.iter().map(|error| error.message.as_str()).collect();
        Err(failure(state.unwrap_or(LedgerState::Unreachable), messages.join("; ")))
    }
}

/// Of several failures, the one that a person must know first.
fn rank(state: LedgerState) -> usize {
    const ORDER: [LedgerState; 7] = [
        LedgerState::Unreachable,
        LedgerState::ReadOnly,
        LedgerState::Refused,
        LedgerState::Pooler,
        LedgerState::Schema,
        LedgerState::LinesLost,
        LedgerState::Damaged,
    ];
    ORDER.iter().position(|known| *known == state).unwrap_or_default()
}

async fn open(settings: &DatabaseSettings, server: &DatabaseServer, known: KnownLog) -> Result<Session, BackendError> {
    let session = connect(settings, server).await?;
    prepare(&session).await?;
    refuse_transaction_pooler(settings, server, &session).await?;
    has_lines(&session.client, known).await?;
    Ok(session)
}

/// Connects, without any check of what the server is.
pub(super) async fn connect(settings: &DatabaseSettings, server: &DatabaseServer) -> Result<Session, BackendError> {
    let refused = |error: std::io::Error| failure(LedgerState::Refused, error);
    let mut config = server.config.clone();
    if let Some(password) = password::find(server, settings.passfile.as_deref()).map_err(refused)? {
        config.password(password.as_str());
    }
    let warned = Arc::new(AtomicBool::new(false));
    let (client, driver) = if server.verify {
        let tls = tls::connector(settings.root_certificate.as_deref()).map_err(refused)?;
        start(&config, tls, warned.clone()).await?
    } else {
        start(&config, NoTls, warned.clone()).await?
    };
    let process = process(&client).await?;
    Ok(Session {
        client,
        server: server.name.clone(),
        process,
        warned,
        driver,
    })
}

async fn start<T>(
    config: &tokio_postgres::Config,
    tls: T,
    warned: Arc<AtomicBool>,
) -> Result<(Client, JoinHandle<()>), BackendError>
where
    T: MakeTlsConnect<Socket>,
    T::Stream: Send + 'static,
    T::TlsConnect: TlsConnect<Socket>,
{
    let (client, connection) = config.connect(tls).await.map_err(|error| database_error(&error))?;
    Ok((client, tokio::spawn(drive(connection, warned))))
}

/// Moves messages until the connection ends, and notes warnings. PostgreSQL sends them before the answer they belong to.
async fn drive<S, T>(mut connection: Connection<S, T>, warned: Arc<AtomicBool>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notice(notice) = message
            && notice.parsed_severity() == Some(Severity::Warning)
        {
            tracing::warn!(message = notice.message(), "the database warns");
            warned.store(true, Ordering::Relaxed);
        }
    }
}

async fn process(client: &Client) -> Result<i32, BackendError> {
    let row = client.query_one("SELECT pg_backend_pid()", &[]).await;
    Ok(row.map_err(|error| database_error(&error))?.get(0))
}

/// Sets what every transaction needs, and refuses a standby and other tables.
async fn prepare(session: &Session) -> Result<(), BackendError> {
    // The server ends a connection whose node went away.
    const SETTINGS: &str = "SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3; \
         SET tcp_user_timeout = 8000; SET client_min_messages = 'warning'";
    let told = |error: tokio_postgres::Error| database_error(&error);
    session.client.batch_execute(SETTINGS).await.map_err(told)?;
    let row = session
        .client
        .query_one(
            "SELECT pg_is_in_recovery(), current_setting('transaction_read_only')",
            &[],
        )
        .await
        .map_err(told)?;
    if row.get::<_, bool>(0) {
        return Err(failure(LedgerState::ReadOnly, "is a standby, which takes no changes"));
    }
    if row.get::<_, &str>(1) == "on" {
        return Err(failure(
            LedgerState::ReadOnly,
            "takes no changes (default_transaction_read_only is on)",
        ));
    }
    let row = session
        .client
        .query_opt("SELECT format FROM countersign.head", &[])
        .await
        .map_err(told)?;
    match row.map(|row| row.get::<_, i32>(0)) {
        Some(schema::FORMAT) => Ok(()),
        Some(format) => Err(failure(
            LedgerState::Schema,
            format!(
                "its tables have format {format}, and this version reads {}: use the same version on all nodes",
                schema::FORMAT
            ),
        )),
        None => Err(failure(
            LedgerState::Schema,
            "the table countersign.head is empty: run `countersign bindings schema`",
        )),
    }
}

/// Refuses a pooler that gives each transaction another connection: settings of other clients would leak into ours.
///
/// While a second connection is in a transaction, the first one must still have its own process.
async fn refuse_transaction_pooler(
    settings: &DatabaseSettings,
    server: &DatabaseServer,
    session: &Session,
) -> Result<(), BackendError> {
    let other = connect(settings, server).await?;
    other
        .client
        .batch_execute("BEGIN")
        .await
        .map_err(|error| database_error(&error))?;
    let theirs = process(&other.client).await?;
    let ours = process(&session.client).await?;
    match theirs == session.process || ours != session.process {
        true => Err(pooler()),
        false => Ok(()),
    }
}

/// What is wrong with such a pooler.
pub(super) fn pooler() -> BackendError {
    failure(
        LedgerState::Pooler,
        "a pooler gives each transaction another connection: connect directly, or set pool_mode = session",
    )
}

/// Whether the server has the last line that the node has read. After a repair, the node reads everything anew.
async fn has_lines(client: &Client, known: KnownLog) -> Result<(), BackendError> {
    let KnownLog { end, epoch } = known;
    let head = load::head(client).await?;
    if end.sequence == 0 || head.epoch != epoch {
        return Ok(());
    }
    let told = |error: tokio_postgres::Error| database_error(&error);
    let row = client
        .query_opt(
            "SELECT line FROM countersign.ledger WHERE sequence = $1",
            &[&(end.sequence as i64)],
        )
        .await
        .map_err(told)?;
    let found = row.map(|row| Digest::of(format!("{}\n", row.get::<_, &str>(0)).as_bytes()));
    match found {
        Some(digest) if digest == end.digest => Ok(()),
        Some(_) => Err(lines_lost(format!(
            "line {} is not the one that this node has read",
            end.sequence
        ))),
        None => Err(lines_lost(format!(
            "its log ends with line {}, but this node has read up to line {}",
            head.sequence, end.sequence
        ))),
    }
}

/// The log lacks lines. Nobody but a person can say whether they will come back.
pub(super) fn lines_lost(what: String) -> BackendError {
    failure(
        LedgerState::LinesLost,
        format!(
            "{what}; bring back the server that has these lines, or restart the nodes to go on without them: their sites \
             then bind again"
        ),
    )
}
