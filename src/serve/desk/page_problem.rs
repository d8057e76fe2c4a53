//! Why a page is not shown or a form not carried out, as a page.

use askama::Template;
use chrono::{DateTime, Utc};
use warp::http::StatusCode;

use crate::serve::desk::answer::DeskAnswer;
use crate::serve::desk::frame::{NavEntry, PageFrame};
use crate::serve::desk::scan_turn::Busy;
use crate::serve::desk::visitor::DeskVisitor;
use crate::serve::reply::problem::Problem;
use countersign_ledger::StoreError;
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

/// Why a page is not shown, or a form not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PageProblem {
    status: StatusCode,
    heading: &'static str,
    sentences: Vec<String>,
    back: Option<String>,
    is_guess: bool,
}

impl PageProblem {
    fn new(status: StatusCode, heading: &'static str, sentence: impl Into<String>) -> Self {
        Self {
            status,
            heading,
            sentences: vec![sentence.into()],
            back: None,
            is_guess: false,
        }
    }

    pub(super) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "Not here", "There is no such page.")
    }

    pub(super) fn no_license() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "No such license",
            "There is no license with this id.",
        )
    }

    pub(super) fn forbidden() -> Self {
        let sentence =
            "Your role does not allow this. Who has another one can do it, or change yours in registry/desk.toml.";
        Self::new(StatusCode::FORBIDDEN, "Not for your role", sentence)
    }

    pub(super) fn misdirected() -> Self {
        let sentence = "The desk does not answer to this name. On the server, `countersign desk` prints its address.";
        Self::new(StatusCode::MISDIRECTED_REQUEST, "Another name", sentence)
    }

    pub(super) fn foreign_form() -> Self {
        let sentence =
            "The form did not come from a page of the desk, so nothing was done. Open the desk and try again there.";
        Self::new(StatusCode::FORBIDDEN, "Not from here", sentence)
    }

    pub(super) fn used_link() -> Self {
        let sentence =
            "The link was used, or its ten minutes are over. On the server, `countersign desk` prints another one.";
        Self {
            is_guess: true,
            ..Self::new(StatusCode::GONE, "This link is over", sentence)
        }
    }

    pub(super) fn used_code() -> Self {
        let sentence =
            "The code or the link was used, was tried too often, or its fifteen minutes are over. Ask for another one.";
        Self {
            is_guess: true,
            back: Some("/sign-in".to_owned()),
            ..Self::new(StatusCode::GONE, "This code is over", sentence)
        }
    }

    pub(super) fn wrong_code(back: String) -> Self {
        Self {
            is_guess: true,
            back: Some(back),
            ..Self::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "A wrong code",
                "It is not the code of the mail.",
            )
        }
    }

    pub(super) fn too_many() -> Self {
        let sentence = "Too many requests came from your address. Wait a minute.";
        Self::new(StatusCode::TOO_MANY_REQUESTS, "Too many requests", sentence)
    }

    pub(super) fn no_secrets() -> Self {
        let sentence = "The keys that sessions are signed with are not there. Look at the server's log.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "The desk is closed", sentence)
    }

    pub(super) fn timeout() -> Self {
        let sentence = "It took too long. What you sent may have been done: look before you try again.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "Too slow", sentence)
    }

    /// A form that is not carried out. Nothing was changed.
    pub(super) fn refused(sentence: String) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Nothing was changed", sentence)
    }

    /// The same with a way back.
    pub(super) fn back_to(self, path: String) -> Self {
        let back = Some(path);
        Self { back, ..self }
    }

    /// Whether somebody may be guessing.
    pub(super) fn is_guess(&self) -> bool {
        self.is_guess
    }

    /// The page, for somebody who is signed in or for a stranger.
    pub(super) fn answer(&self, visitor: Option<&DeskVisitor>, now: DateTime<Utc>) -> DeskAnswer {
        let frame = match visitor {
            Some(visitor) => PageFrame::new(self.heading, NavEntry::Today, visitor, now).elsewhere(),
            None => PageFrame::of_stranger(self.heading, now),
        };
        let page = NotePage {
            frame,
            heading: self.heading,
            sentences: self
                .sentences
                .iter()
                .map(|text| OutsideText::of_sentence(text))
                .collect(),
            back: self.back.clone().unwrap_or_else(|| "/".to_owned()),
            back_word: match (&self.back, visitor) {
                (Some(_), _) => "Back",
                (None, Some(_)) => "To the first page",
                (None, None) => "Sign in",
            },
        };
        DeskAnswer::page(self.status, &page)
    }
}

impl From<Busy> for PageProblem {
    fn from(_: Busy) -> Self {
        let sentence = "Others look at all licenses right now. Try again in a moment.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "Busy", sentence)
    }
}

impl From<StoreError> for PageProblem {
    fn from(error: StoreError) -> Self {
        tracing::warn!(%error, "the desk could not use the store");
        let sentence = "The store cannot be used now, so nothing was changed. The server's log has the reason.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "The store does not answer", sentence)
    }
}

impl From<Problem> for PageProblem {
    fn from(problem: Problem) -> Self {
        let sentence = match problem.status() {
            StatusCode::PAYLOAD_TOO_LARGE => "The form is too long.",
            StatusCode::UNSUPPORTED_MEDIA_TYPE => "This is not a form of the desk.",
            StatusCode::NOT_FOUND => "There is nothing of this name.",
            _ => "It did not work. The server's log has the reason.",
        };
        Self::new(problem.status(), "It did not work", sentence)
    }
}
