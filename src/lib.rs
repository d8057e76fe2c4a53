//! Answers license checks and update requests of paid CMS plugins.
//!
//! What the vendor *decides* is in files; what sites *report* is in the store.
//!
//! ```text
//!  plugin repositories ──┐
//!                        ├─ build ──> releases/ ──> catalog ─┐
//!  registry/*.toml ──────┤                                   ├─ serve ──> statements (signed), manifests (gated)
//!                        └─ registry ────────────────────────┤
//!                                             store ─────────┘
//! ```
//!
//! - [`model`]: plain values. Everything from outside becomes one of them or is refused.
//! - [`registry`]: the vendor's files, from a folder or a git revision.
//! - [`build`]: makes manifests from the plugins' repositories and the registry.
//! - [`catalog`]: the verified manifests in memory. It gives one only for an
//!   [`Entitlement`](model::entitlement::Entitlement).
//! - [`store`]: which site is bound to which license, in a chained ledger.
//! - [`package`]: the archive that a site installs: strict reading, one normal form.
//! - [`release`]: signatures that people make offline about a release, and their verification.
//! - [`preview`]: shows releases as the CMS will, on a page for this machine only.
//! - [`serve`]: the HTTP server. [`gate`](serve::gate) makes every decision.
//! - [`shop`]: deliveries of shops: their signatures, and what they say.
//! - [`import`]: exports of other systems, read row by row into licenses.
//! - [`spool`]: the deliveries of shops that are not applied yet.
//! - [`mail`]: mails with license keys to buyers: their texts, the queue, and the way to the mail server.
//! - [`webhook`]: messages to the vendor's own services about licenses and sites.
//! - [`keys`]: the private keys of this machine.
//! - [`watch`]: reports changes of files.
//! - [`text`]: makes text printable, error chains one line, and prints to standard error.
//! - [`regular_file`]: opens every file; [`durable_file`]: writes every file; [`folder_lock`]: locks a folder against
//!   other commands.
//! - [`json_folder`]: a folder of small files that only the owner reads.
//! - [`histogram`]: histograms of durations for many threads.
//! - [`time_limit`]: ends the wait for work that may hang.
//! - [`http_client`]: asks another server; [`tls_client`]: which certificates of other servers are trusted.
//! - [`commands`]: one file a verb; [`cli`] and [`config`] have their arguments and settings.
//!
//! Imports run one way: `commands -> build | preview | serve -> registry | catalog | store | keys | watch -> release ->
//! package -> model | text`, and `preview -> build`. `serve` does not import `build` or `preview`, and they do not
//! import it. Files inside a module import in no circle, either: what two of them share has its own file. The test
//! `architecture` checks this. `docs/design.md` follows a request, a download, a tag and a change through the files.
#![forbid(unsafe_code)]

pub mod build;
pub use countersign_package::catalog;
pub mod cli;
pub mod commands;
pub use countersign_files::durable_file;
pub use countersign_files::folder_lock;
pub use countersign_files::histogram;
pub use countersign_files::json_folder;
pub use countersign_mail as mail;
pub use countersign_model as model;
pub use countersign_package as package;
pub use countersign_settings::config;
pub use countersign_settings::http_client;
pub use countersign_settings::keys;
pub use countersign_shops::import;
pub mod preview;
pub use countersign_files::regular_file;
pub use countersign_package::release;
pub use countersign_registry as registry;
pub mod serve;
pub use countersign_files::spool;
pub use countersign_files::time_limit;
pub use countersign_files::watch;
pub use countersign_ledger as store;
pub use countersign_model::text;
pub use countersign_settings::tls_client;
pub use countersign_shops as shop;
pub mod webhook;
