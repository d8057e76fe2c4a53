//! Today: what needs a person, and some calm figures.

use askama::Template;

use crate::serve::desk::asked::Asked;
use crate::serve::desk::frame::{NavEntry, PageFrame};
use crate::serve::desk::health_page;
use crate::serve::desk::kept_figures;
use crate::serve::desk::plugin_history;
use crate::serve::desk::sales_page::SalesLook;
use crate::serve::history_report::HistoryReport;
use crate::serve::pages::answer::PageAnswer;
use crate::serve::pages::page_problem::PageProblem;
use crate::serve::pages::shown::grouped;
use crate::serve::rollouts;
use countersign_files::queue::QueueState;
use countersign_model::text::outside_text::OutsideText;

#[derive(Template)]
#[template(path = "desk/today.html")]
struct TodayPage {
    frame: PageFrame,
    day: String,
    /// This node, where there are several: other nodes have queues of their own.
    node: Option<OutsideText>,
    todo: Vec<TodoItem>,
    /// Each with where its name leads.
    figures: Vec<(&'static str, &'static str, String, String)>,
    /// What was counted.
    yesterday: Option<String>,
}

/// Something that needs a person.
struct TodoItem {
    what: OutsideText,
    more: OutsideText,
    path: &'static str,
    is_urgent: bool,
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
    let sales = SalesLook::now(asked).await?.waiting;
    if let Some(oldest) = sales.first() {
        let what = match sales.len() {
            1 => "1 sale waits".to_owned(),
            count => format!("{} sales wait", grouped(count)),
        };
        item(
            what,
            &format!("the oldest waits for: {}", oldest.waits_for.words()),
            "/sales",
            false,
        );
    }
    let parked = asked
        .state
        .service
        .hooks
        .spool()
        .map_or(0, |spool| spool.count(QueueState::Parked).0);
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
        item(what, "nothing is done by itself", "/sharing", false);
    }
    todo.sort_by_key(|item| !item.is_urgent);
    let figures = kept_figures::licenses(asked).await?;
    let bindings = asked.state.service.gate.bindings();
    // Where it cannot be read, the page says all the same what does not work.
    let report = HistoryReport::of_server(&asked.state.service, None, 2, asked.now)
        .await
        .ok();
    let yesterday = report.zip(asked.today().pred_opt());
    Ok(PageAnswer::ok(&TodayPage {
        frame: asked.frame("Today", NavEntry::Today),
        day: asked.now.format("%A, %-d %B").to_string(),
        node: bindings.node().map(OutsideText::of),
        todo,
        yesterday: yesterday.and_then(|(report, day)| plugin_history::all_plugins(&report.history, day)),
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
