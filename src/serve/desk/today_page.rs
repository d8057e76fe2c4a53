//! Today: what needs a person, and some calm figures.

use std::collections::HashSet;
use std::sync::Arc;

use askama::Template;

use crate::serve::desk::asked::Asked;
use crate::serve::desk::frame::{NavEntry, PageFrame};
use crate::serve::desk::health_page;
use crate::serve::desk::kept_figures;
use crate::serve::desk::sales_look::WaitingSales;
use crate::serve::desk::today_history::TodayHistory;
use crate::serve::pages::answer::PageAnswer;
use crate::serve::pages::page_problem::PageProblem;
use crate::serve::pages::shown::grouped;
use crate::serve::rollouts;
use countersign_ledger::{OtherNode, QueueCounts, StoreError};
use countersign_model::text::ErrorChain;
use countersign_model::text::outside_text::OutsideText;

/// A node that said nothing for so many seconds does not run.
const SILENT_AFTER: u64 = 60;

#[derive(Template)]
#[template(path = "desk/today.html")]
struct TodayPage {
    frame: PageFrame,
    day: String,
    yesterday: String,
    /// This node, where there are several: other nodes have queues of their own.
    node: Option<OutsideText>,
    todo: Vec<TodoItem>,
    /// Each with where its name leads.
    figures: Vec<(&'static str, &'static str, String, String)>,
    /// What was counted.
    history: TodayHistory,
}

/// Something that needs a person.
struct TodoItem {
    what: OutsideText,
    more: OutsideText,
    path: &'static str,
    is_urgent: bool,
}

/// The other nodes of a shared ledger. Where they cannot be read, the log says so, and the page shows the rest.
async fn other_nodes(asked: &Asked<'_>) -> Result<Vec<OtherNode>, PageProblem> {
    let service = Arc::clone(&asked.state.service);
    let look = move || {
        let bindings = service.gate.bindings();
        countersign_ledger::other_nodes(bindings.source(), bindings.node())
    };
    let read = asked.state.scans.look(look).await?;
    let warn =
        |error: &StoreError| tracing::warn!(error = %ErrorChain(error), "the queues of other nodes cannot be read");
    Ok(read.inspect_err(warn).unwrap_or_default())
}

/// What waits on another node, and what a person has to decide there.
fn node_words(node: &OtherNode) -> String {
    let QueueCounts {
        deliveries_waiting,
        deliveries_parked,
        mails_waiting,
        mails_parked,
    } = node.queues;
    // A mail or a delivery that is about to leave is no news while the node runs.
    let is_silent = node.silent_seconds >= SILENT_AFTER;
    let parts = [
        (deliveries_parked, "parked delivery", "parked deliveries", true),
        (mails_parked, "parked mail", "parked mails", true),
        (
            deliveries_waiting,
            "delivery that waits",
            "deliveries that wait",
            is_silent,
        ),
        (mails_waiting, "mail that waits", "mails that wait", is_silent),
    ];
    let shown = parts
        .into_iter()
        .filter(|(count, _, _, is_news)| *count > 0 && *is_news);
    let words = shown.map(|(count, one, many, _)| match count {
        1 => format!("1 {one}"),
        count => format!("{} {many}", grouped(usize::try_from(count).unwrap_or(usize::MAX))),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// The page.
pub(super) async fn page(asked: &Asked<'_>) -> Result<PageAnswer, PageProblem> {
    asked.state.service.catch_up().await;
    let mut todo = Vec::new();
    let mut item = |what: String, more: &str, path, is_urgent| {
        todo.push(TodoItem {
            what: OutsideText::of(&what),
            more: OutsideText::of_sentence(more),
            path,
            is_urgent,
        });
    };
    // What shops sent has entries of its own.
    for part in health_page::parts(asked).await? {
        if !part.is_well() && part.name.as_str() != health_page::SHOPS {
            let what = format!("{}: {}", part.name, part.word);
            item(what, part.detail.as_str(), "/health", part.class == "bad");
        }
    }
    for (slug, version) in rollouts::alarmed(&asked.state.service, asked.snapshot) {
        let what = format!("Many sites do not run {slug} {version}");
        item(
            what,
            "they took it a day ago or more; it goes on until you pause it",
            "/plugins",
            true,
        );
    }
    let WaitingSales { sales, parked } = WaitingSales::now(asked).await?;
    if let Some(oldest) = sales.first() {
        let what = match sales.len() {
            1 => "1 sale waits".to_owned(),
            count => format!("{} sales wait", grouped(count)),
        };
        item(
            what,
            &format!("the oldest waits for: {}", oldest.waits_for.words()),
            "/sales",
            sales.iter().any(|wait| wait.waits_for.is_for_person()),
        );
    }
    // Those that are among the sales are counted there.
    let of_sales: HashSet<_> = sales.iter().filter_map(|wait| wait.delivery).collect();
    let parked = parked
        .iter()
        .filter(|delivery| !of_sales.contains(&delivery.id))
        .count();
    if parked > 0 {
        let what = match parked {
            1 => "1 delivery of a shop is parked".to_owned(),
            count => format!("{} deliveries of shops are parked", grouped(count)),
        };
        item(what, "a person has to decide", "/sales", true);
    }
    let shared = kept_figures::sharing(asked).await?.count();
    if shared > 0 {
        let what = match shared {
            1 => "1 license may be shared".to_owned(),
            count => format!("{} licenses may be shared", grouped(count)),
        };
        item(
            what,
            "a person has to decide: no license is changed by itself",
            "/sharing",
            false,
        );
    }
    for node in other_nodes(asked).await? {
        let waiting = node_words(&node);
        if !waiting.is_empty() {
            let more = match node.silent_seconds {
                ..SILENT_AFTER => "look at that node’s desk",
                _ => "it does not run: what waits there waits until it does",
            };
            let is_urgent = node.silent_seconds >= SILENT_AFTER || node.queues.deliveries_parked > 0;
            item(format!("Node {}: {waiting}", node.name), more, "/health", is_urgent);
        }
    }
    todo.sort_by_key(|item| !item.is_urgent);
    let figures = kept_figures::licenses(asked).await?;
    let bindings = asked.state.service.gate.bindings();
    Ok(PageAnswer::ok(&TodayPage {
        frame: asked.frame("Today", NavEntry::Today),
        day: asked.now.format("%A, %-d %B").to_string(),
        yesterday: (asked.today() - chrono::Days::new(1)).to_string(),
        node: bindings.node().map(OutsideText::of),
        todo,
        history: TodayHistory::of(asked, &figures).await,
        figures: vec![
            (
                "Active licenses",
                "/licenses?state=active",
                grouped(figures.active),
                format!("of {}", grouped(figures.all)),
            ),
            (
                "Seats in use",
                "/licenses",
                grouped(figures.seats),
                "held by sites".to_owned(),
            ),
            (
                "Ending in 30 days",
                "/licenses?state=active&ends=30",
                grouped(figures.ending),
                format!("{} renew by themselves", grouped(figures.renewing)),
            ),
            (
                "Never used",
                "/licenses?seats=none",
                grouped(figures.unused),
                "no site yet".to_owned(),
            ),
        ],
    }))
}
