//! A license that was revoked in one home never comes back by the other: over all orders of what people do to the files of two
//! nodes and to the ledger that they share.

use std::sync::{Arc, LazyLock};

use futures_util::{StreamExt as _, stream};
use tempfile::TempDir;

use super::*;
use crate::serve::ops::command_user::CommandUser;
use crate::serve::ops::license_answers::{
    AdoptedLicense, AdoptionOrder, AdoptionReply, LedgerTools, LicenseAction, LicenseOrder, LicenseReply,
};
use countersign_model::digest::Digest;
use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_model::license::LicenseStatus;
use countersign_model::license_step::LicenseStep;
use countersign_model::staging_hosts::StagingRule;
use countersign_settings::config::CustomerRule;

/// What happens, each once, on one of two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// The node's files declare the license.
    Declare,
    /// The declaration is changed: it says that the license is revoked.
    Change,
    /// The declaration is removed.
    Remove,
    /// A checkout as old as the first declaration takes the place of the node's files.
    OldCheckout,
    /// The ledger adopts what the node's files declare.
    Adopt,
    /// The license is revoked in the ledger, and adopted with that if need be.
    Revoke,
}

const ACTS: [Act; 6] = [
    Act::Declare,
    Act::Change,
    Act::Remove,
    Act::OldCheckout,
    Act::Adopt,
    Act::Revoke,
];

/// How many ways to spread the acts over two nodes are tried with each order.
const PLACINGS: usize = 5;

static USER: LazyLock<CommandUser> = LazyLock::new(|| CommandUser::new(0, None));

/// Sequences that share commits.
const AT_ONCE: usize = 512;

/// Every order of the acts.
fn orders() -> Vec<Vec<Act>> {
    let mut orders = vec![Vec::new()];
    for _ in ACTS {
        let longer = |order: Vec<Act>| {
            let next = ACTS.into_iter().filter(|act| !order.contains(act)).collect::<Vec<_>>();
            next.into_iter().map(move |act| [&order[..], &[act]].concat())
        };
        orders = orders.into_iter().flat_map(longer).collect();
    }
    orders
}

/// Ids are digests: tables look them up by that.
fn id(number: usize) -> LicenseId {
    LicenseId::from_bytes(*Digest::of(&number.to_le_bytes()).as_bytes())
}

/// What the files of a node may be: nothing, all licenses active, or all revoked.
struct Checkouts {
    empty: Registry,
    active: Registry,
    revoked: Registry,
}

impl Checkouts {
    fn of(licenses: usize) -> Self {
        let folder = TempDir::new().unwrap();
        for name in ["plugins", "licenses"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let read = |licenses: usize, status: &str| {
            let line = |number| {
                let id = id(number);
                format!(
                    "{{\"id\":\"{id}\",\"expires\":\"2099-12-31\",\"modules\":{{\"a\":[]}},\"status\":\"{status}\"}}\n"
                )
            };
            let lines: String = (0..licenses).map(line).chain(["\n".to_owned()]).collect();
            std::fs::write(folder.path().join("licenses/a.jsonl"), lines).unwrap();
            Registry::load(folder.path()).unwrap()
        };
        Self {
            empty: read(0, ""),
            active: read(licenses, "active"),
            revoked: read(licenses, "revoked"),
        }
    }
}

/// What the ledger has of the license, and what two nodes with these files answer: never a declaration beside it.
fn check(files: [&Registry; 2], ledger: &Ledger, id: &LicenseId, was_revoked: &mut bool, so_far: &[(usize, Act)]) {
    let issued = ledger.issued(id).map(|issued| issued.license.status);
    let mut beginning = [0; 16];
    beginning.copy_from_slice(&id.as_bytes()[..16]);
    for registry in files {
        let found = find(registry, ledger, id);
        let by_link = beginning_with(registry, ledger, &beginning);
        let statuses = [found, by_link].map(|found| found.map(|found| found.status));
        match issued {
            Some(status) => assert_eq!(statuses, [Some(status); 2], "{so_far:?}"),
            None => {
                let declared = registry.license(id).map(|license| license.status);
                assert_eq!(statuses, [declared; 2], "{so_far:?}");
            }
        }
    }
    *was_revoked |= issued == Some(LicenseStatus::Revoked);
    if *was_revoked {
        assert_eq!(issued, Some(LicenseStatus::Revoked), "{so_far:?}");
    }
}

fn tools<'a>(registry: &'a Registry, bindings: &'a Ledger) -> LedgerTools<'a> {
    LedgerTools {
        registry,
        bindings,
        secrets: None,
        mail: None,
        downloads: None,
        pages: None,
        staging: StagingRule::NONE,
        customers: CustomerRule::Keep,
        user: USER.clone(),
        scope: Arc::new(ChangeScope::operator()),
    }
}

/// Does the acts, each on its node; returns whether the license was revoked in the ledger.
async fn play(acts: Vec<(usize, Act)>, id: LicenseId, checkouts: &Checkouts, ledger: &Ledger) -> bool {
    let mut files = [&checkouts.empty; 2];
    let mut was_revoked = false;
    let grant = |registry: &Registry| registry.license(&id).map(License::grant_digest);
    let step = async |registry: &Registry, step| {
        let order = LicenseOrder {
            note: None,
            license: id,
            action: LicenseAction::Step(step),
            adopt: grant(registry),
            reason: None,
        };
        tools(registry, ledger).carry_out(order).await.unwrap()
    };
    for (number, &(node, act)) in acts.iter().enumerate() {
        match act {
            Act::Declare | Act::OldCheckout => files[node] = &checkouts.active,
            Act::Change => files[node] = &checkouts.revoked,
            Act::Remove => files[node] = &checkouts.empty,
            Act::Adopt => {
                let grant = grant(files[node]);
                let wanted = AdoptedLicense {
                    note: None,
                    license: id,
                    grant: grant.unwrap_or(Hex128([0; 16])),
                };
                let licenses = vec![wanted];
                let replies = tools(files[node], ledger)
                    .adopt(AdoptionOrder { licenses })
                    .await
                    .unwrap();
                let was_there = matches!(replies[0], AdoptionReply::Refused(_));
                assert!(!was_there || grant.is_none() || was_revoked, "{acts:?}: {replies:?}");
            }
            Act::Revoke => {
                let reply = step(files[node], LicenseStep::Revoke).await;
                let is_done = matches!(reply, LicenseReply::Done { .. });
                let is_known = find(files[node], ledger, &id).is_some();
                assert_eq!(is_done, is_known, "{acts:?}: {reply:?}");
            }
        }
        check(files, ledger, &id, &mut was_revoked, &acts[..=number]);
    }
    for registry in files {
        let _ = step(registry, LicenseStep::Resume).await;
        check(files, ledger, &id, &mut was_revoked, &acts);
    }
    was_revoked
}

#[tokio::test]
async fn what_was_revoked_in_the_ledger_never_comes_back_by_a_file() {
    let folder = TempDir::new().unwrap();
    let ledger = countersign_ledger::open(folder.path()).unwrap();
    let orders = orders();
    let checkouts = &Checkouts::of(orders.len() * PLACINGS);
    let ledger_of_all = &*ledger;
    let plays = (0..orders.len() * PLACINGS).map(|number| {
        // Over all orders, every way to spread the acts over the two nodes.
        let placing = number * 13 % (1 << ACTS.len());
        let node = |at| (placing >> at) & 1;
        let acts = orders[number / PLACINGS].iter().enumerate();
        let acts = acts.map(|(at, act)| (node(at), *act)).collect();
        play(acts, id(number), checkouts, ledger_of_all)
    });
    let revoked = stream::iter(plays)
        .buffer_unordered(AT_ONCE)
        .filter(|was_revoked| std::future::ready(*was_revoked))
        .count()
        .await;
    // The others were revoked before anything declared them on that node, and adopted at no time.
    assert!(revoked > orders.len() * PLACINGS / 2, "{revoked}");
    ledger.close().unwrap();
}
