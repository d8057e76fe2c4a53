//! Answers license checks and update requests of paid CMS plugins.
//!
//! Plugins and offers are the vendor's files; licenses, their sites and sales are in the ledger.
//!
//! ```text
//!  plugin repositories ──┐
//!                        ├─ build ──> releases/ ──> catalog ─┐
//!  registry/*.toml ──────┤                                   ├─ serve ──> statements (signed), manifests (gated)
//!                        └─ registry ────────────────────────┤
//!                                            ledger ─────────┘
//! ```
//!
//! Most of it is in crates. Each imports only those above it:
//!
//! - [`countersign_model`]: plain values. Input from outside becomes one of them or is refused.
//! - [`countersign_files`]: opens, writes, locks and watches files.
//! - [`countersign_package`]: the archive that a site installs, signatures of people over a release, and the verified manifests
//!   in memory. It gives one only for an [`Entitlement`](countersign_model::entitlement::Entitlement).
//! - [`countersign_shops`]: deliveries of shops, and exports of other systems.
//! - [`countersign_settings`]: configuration, private keys, and clients of other servers.
//! - [`countersign_registry`]: the vendor's files, from a folder or a git revision.
//! - [`countersign_ledger`]: licenses, bindings and sales, in a chained ledger.
//! - [`countersign_mail`]: mails with license keys to buyers.
//!
//! The program itself is here:
//!
//! - [`build`]: makes manifests from the plugins' repositories and the registry.
//! - [`preview`]: shows releases as the CMS will, on a page for this machine only.
//! - [`webhook`]: messages to the vendor's own services about licenses and sites.
//! - [`serve`]: the HTTP server. [`gate`](serve::gate) makes every decision.
//! - [`commands`]: one file a verb; [`cli`] has their arguments.
//!
//! Its modules import one way, too: `commands -> build | preview | serve -> webhook`, and `preview -> build`. `serve` imports
//! neither `build` nor `preview`, and they do not import it. Files inside a crate import in no circle: what two of them share
//! has its own file. The test `architecture` checks this. `docs/design.md` follows a request, a download, a tag, a change
//! and a delivery through the files.
#![forbid(unsafe_code)]

pub mod build;
pub mod cli;
pub mod commands;
pub mod preview;
pub mod serve;
pub mod webhook;
