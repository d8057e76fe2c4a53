//! License validation and signed, gated updates for vendors of paid CMS plugins.
//!
//! What the vendor *decides* lives in files; what the field *reports* lives in the store.
//!
//! ```text
//!  plugin repositories ──┐
//!                        ├─ build ──> releases/ ──> catalog ─┐
//!  registry/*.toml ──────┤                                   ├─ serve ──> statements (signed), manifests (gated)
//!                        └─ registry ────────────────────────┤
//!                                             store ─────────┘
//! ```
//!
//! - [`model`]: pure values; everything from outside becomes one of them or a clear refusal.
//! - [`registry`]: the vendor's TOML, from a folder or a git revision.
//! - [`build`]: plugin repositories and registry in, manifests out.
//! - [`catalog`]: the manifests, verified and held; handed out only against an [`Entitlement`](model::entitlement::Entitlement).
//! - [`store`]: which site is bound to which license, in a ledger that proves itself.
//! - [`package`]: the archive a site installs: read strictly, written in one normal form.
//! - [`release`]: what people sign offline about a release, and the proof that they did.
//! - [`preview`]: what the CMS will show, on a page for this machine only.
//! - [`serve`]: the HTTP server; its [`gate`](serve::gate) is the one door.
//! - [`keys`]: the private keys of this machine.
//! - [`watch`]: tells when files change.
//! - [`text`]: what messages are made of.
//! - [`regular_file`]: the one way to open a file, for everything that is read; [`durable_file`]: the way to write one;
//!   [`folder_lock`]: the way to hold a folder against other commands.
//! - [`histogram`]: durations by size, which many threads fill at once.
//! - [`time_limit`]: ends the wait for work on the outside.
//! - [`commands`]: one file a verb; [`cli`] and [`config`] say what they take.
//!
//! Arrows run one way: `commands -> build | preview | serve -> registry | catalog | store | keys | watch -> model | text`,
//! and `preview -> build`. `serve` and the other two never import each other. Inside a room, too, no file imports itself by
//! way of others: a `mod.rs` stands above the files that it declares, and what two of them share has a file of its own. The
//! test `architecture` holds both.
#![forbid(unsafe_code)]

pub mod build;
pub mod catalog;
pub mod cli;
pub mod commands;
pub mod config;
pub mod durable_file;
pub mod folder_lock;
pub mod histogram;
pub mod keys;
pub mod model;
pub mod package;
pub mod preview;
pub mod registry;
pub mod regular_file;
pub mod release;
pub mod serve;
pub mod store;
pub mod text;
pub mod time_limit;
pub mod watch;
