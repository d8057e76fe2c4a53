//! A connection to the server that takes changes, and that has every line this node has read.
//!
//! The address may name several servers. One that is a standby, or that lacks lines, is passed over: after a failover the
//! old primary may still answer. A pooler that gives each transaction another connection is refused: settings of other clients
//! would leak into ours. Every transaction compares its process, too (`transaction`).

use std::future::poll_fn;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::error::Severity;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{AsyncMessage, Client, Connection, NoTls, SimpleQueryMessage, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::{BackendError, LedgerState, StoreError};
use crate::log::Position;
use crate::postgres::failure::{database_error, failure, lines_lost, older};
use crate::postgres::load::{self, PlainHead};
use crate::postgres::settings::{DatabaseServer, DatabaseSettings};
use crate::postgres::statements::Statements;
use crate::postgres::{password, schema};
use countersign_model::digest::Digest;
use countersign_settings::tls_client;

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
    statements: OnceCell<Statements>,
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

    /// The statements of transactions, which are prepared when they are needed for the first time.
    pub(super) async fn statements(&self) -> Result<&Statements, tokio_postgres::Error> {
        self.statements
            .get_or_try_init(|| Statements::prepare(&self.client))
            .await
    }

    /// The head, without a lock.
    pub(super) async fn look(&self) -> Result<PlainHead, BackendError> {
        let statements = self.statements().await.map_err(|error| database_error(&error))?;
        load::head_by(&self.client, &statements.look).await
    }

    /// A session of a command, with a runtime of its own that the caller drives.
    pub(super) fn open_here(address: &str) -> Result<(Runtime, Self), StoreError> {
        let settings = DatabaseSettings::parse(address).map_err(StoreError::Address)?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| StoreError::shared(error.into()))?;
        let session = runtime.block_on(Self::open(&settings, KnownLog::none(), None));
        Ok((runtime, session.map_err(StoreError::shared)?))
    }

    /// Connects to the first server that has what the node knows. One that was `silent` comes last: a primary that was
    /// replaced takes connections, and answers no commit.
    pub(super) async fn open(
        settings: &DatabaseSettings,
        known: KnownLog,
        silent: Option<&str>,
    ) -> Result<Self, BackendError> {
        let mut failures: Vec<BackendError> = Vec::new();
        let mut servers: Vec<_> = settings.servers.iter().collect();
        servers.sort_by_key(|server| silent == Some(server.name.as_str()));
        for server in servers {
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
    let other = connect(settings, server).await?;
    refuse_pooler(&session.client, session.process, &other.client).await?;
    require_lines(&session.client, known).await?;
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
        let tls = connector(settings.root_certificate.as_deref()).map_err(refused)?;
        start(&config, tls, warned.clone()).await?
    } else {
        start(&config, NoTls, warned.clone()).await?
    };
    let process = process_of(&client).await?;
    Ok(Session {
        client,
        server: server.name.clone(),
        process,
        warned,
        statements: OnceCell::new(),
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

/// Sets what every transaction needs, and refuses a standby and other tables.
async fn prepare(session: &Session) -> Result<(), BackendError> {
    // The server ends a connection whose node went away.
    const SETTINGS: &str = "SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3; \
         SET tcp_user_timeout = 8000; SET client_min_messages = 'warning'";
    let failed = |error: tokio_postgres::Error| database_error(&error);
    session.client.batch_execute(SETTINGS).await.map_err(failed)?;
    let row = session
        .client
        .query_one(
            "SELECT pg_is_in_recovery(), current_setting('transaction_read_only')",
            &[],
        )
        .await
        .map_err(failed)?;
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
        .map_err(failed)?;
    match row.map(|row| row.get(0)) {
        Some(format) => schema::is_known(format),
        None => Err(failure(
            LedgerState::Schema,
            "the table countersign.head is empty: run `countersign bindings schema`",
        )),
    }
}

/// Fails unless the server has the last line that the node has read. After a repair, the node reads everything again.
pub(super) async fn require_lines(client: &Client, known: KnownLog) -> Result<(), BackendError> {
    let KnownLog { end, epoch } = known;
    let head = load::head(client).await?;
    if end.sequence == 0 || head.epoch > epoch {
        return Ok(());
    }
    if head.epoch < epoch {
        return Err(lines_lost(older(end)));
    }
    let found = has_line(client, end).await.map_err(|error| database_error(&error))?;
    match (found, head.sequence < end.sequence) {
        (true, _) => Ok(()),
        (false, true) => Err(lines_lost(format!(
            "its log ends with line {}, but this node has read up to line {}",
            head.sequence, end.sequence
        ))),
        (false, false) => Err(lines_lost(format!(
            "line {} is not the one that this node has read",
            end.sequence
        ))),
    }
}

/// Whether the log has this very line.
pub(super) async fn has_line(client: &Client, line: Position) -> Result<bool, tokio_postgres::Error> {
    const LINE: &str = "SELECT line FROM countersign.ledger WHERE sequence = $1";
    let row = client.query_opt(LINE, &[&(line.sequence as i64)]).await?;
    let found = row.map(|row| Digest::of(format!("{}\n", row.get::<_, &str>(0)).as_bytes()));
    Ok(found == Some(line.digest))
}

/// Refuses a pooler that gives each transaction another connection. `process` is what served `ours` before, and `other` is a
/// second connection.
///
/// While the second connection is in a transaction, the first one must still have its own process; and afterwards, too, when
/// a pooler would give it the one that became free.
async fn refuse_pooler(ours: &Client, process: i32, other: &Client) -> Result<(), BackendError> {
    // A pooler that takes what was used last would give this one to the other connection.
    process_of(ours).await?;
    other
        .batch_execute("BEGIN")
        .await
        .map_err(|error| database_error(&error))?;
    let theirs = process_of(other).await?;
    if theirs == process || process_of(ours).await? != process {
        return Err(pooler_found());
    }
    other
        .batch_execute("COMMIT")
        .await
        .map_err(|error| database_error(&error))?;
    // Poolers take the process that was used last, or take turns.
    for _ in 0..3 {
        if process_of(ours).await? != process {
            return Err(pooler_found());
        }
    }
    Ok(())
}

/// What is wrong with such a pooler.
pub(super) fn pooler_found() -> BackendError {
    failure(
        LedgerState::Pooler,
        "a pooler gives each transaction another connection: connect directly, or set pool_mode = session",
    )
}

/// The server's process. A simple query leaves nothing behind that a pooler would still be busy with.
async fn process_of(client: &Client) -> Result<i32, BackendError> {
    let answer = client.simple_query("SELECT pg_backend_pid()").await;
    let answer = answer.map_err(|error| database_error(&error))?;
    let text = answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    let process = text.and_then(|text| text.parse().ok());
    process.ok_or_else(|| {
        failure(
            LedgerState::Unreachable,
            "does not tell which process serves this connection",
        )
    })
}

/// Reads the certificates to trust: those in `file`, or the system's.
fn connector(file: Option<&Path>) -> io::Result<MakeRustlsConnect> {
    tls_client::config(file, "?sslrootcert=FILE").map(MakeRustlsConnect::new)
}
