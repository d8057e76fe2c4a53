//! The problems of the desk alone, and the page that tells any.

use askama::Template;
use chrono::{DateTime, Utc};
use warp::http::StatusCode;

use crate::serve::desk::frame::{NavEntry, PageFrame};
use crate::serve::desk::visitor::DeskVisitor;
use crate::serve::pages::answer::PageAnswer;
use crate::serve::pages::page_problem::PageProblem;
use crate::serve::pages::scan_turn::Busy;
use countersign_model::text::outside_text::OutsideText;

/// A page that says one thing.
#[derive(Template)]
#[template(path = "desk/note.html")]
struct NotePage {
    frame: PageFrame,
    heading: &'static str,
    sentences: Vec<OutsideText>,
    back: String,
    back_word: &'static str,
}

impl PageProblem {
    pub(super) fn forbidden() -> Self {
        let sentence =
            "Your role does not allow this. Somebody with a higher role can do it; registry/desk.toml gives the roles.";
        Self::new(StatusCode::FORBIDDEN, "Not for your role", sentence)
    }

    pub(super) fn misdirected() -> Self {
        let sentence = "The desk does not answer to this name. On the server, `countersign desk` prints its address.";
        Self::new(StatusCode::MISDIRECTED_REQUEST, "Another name", sentence)
    }

    pub(super) fn used_link() -> Self {
        let sentence =
            "The link was used, or its ten minutes are over. On the server, `countersign desk` prints another one.";
        Self::new(StatusCode::GONE, "This link is over", sentence).guessed()
    }

    pub(super) fn no_secrets() -> Self {
        let sentence = "The keys that sessions are signed with are not there. Look at the server's log.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "The desk is closed", sentence)
    }
}

/// The page of a problem, for somebody who is signed in or for a stranger.
pub(super) fn page(problem: &PageProblem, visitor: Option<&DeskVisitor>, now: DateTime<Utc>) -> PageAnswer {
    let frame = match visitor {
        Some(visitor) => PageFrame::new(problem.heading, NavEntry::Today, visitor, now).elsewhere(),
        None => PageFrame::of_stranger(problem.heading, now),
    };
    let page = NotePage {
        frame,
        heading: problem.heading,
        sentences: problem.sentences(),
        back: problem.back.clone().unwrap_or_else(|| "/".to_owned()),
        back_word: match (&problem.back, visitor) {
            (Some(_), _) => "Back",
            (None, Some(_)) => "To the first page",
            (None, None) => "Sign in",
        },
    };
    PageAnswer::page(problem.status, &page)
}

impl From<Busy> for PageProblem {
    fn from(_: Busy) -> Self {
        let sentence = "Others look at all licenses right now. Try again in a moment.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "Busy", sentence)
    }
}
