//! Why a page is not shown or a form not carried out, as a page.

use warp::http::StatusCode;

use crate::serve::pages::label::PageLabel;
use crate::serve::reply::problem::Problem;
use countersign_ledger::StoreError;
use countersign_model::text::outside_text::OutsideText;

/// Why a page is not shown, or a form not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::serve) struct PageProblem {
    pub(in crate::serve) status: StatusCode,
    pub(in crate::serve) heading: &'static str,
    sentences: Vec<String>,
    pub(in crate::serve) back: Option<String>,
    pub(in crate::serve) is_guess: bool,
}

impl PageProblem {
    pub(in crate::serve) fn new(status: StatusCode, heading: &'static str, sentence: impl Into<String>) -> Self {
        Self {
            status,
            heading,
            sentences: vec![sentence.into()],
            back: None,
            is_guess: false,
        }
    }

    pub(in crate::serve) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "Not here", "There is no such page.")
    }

    pub(in crate::serve) fn no_license() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "No such license",
            "There is no license with this id.",
        )
    }

    pub(in crate::serve) fn foreign_form() -> Self {
        let sentence =
            "The form did not come from a page of this server, so nothing was done. Open the page and try again there.";
        Self::new(StatusCode::FORBIDDEN, "Not from here", sentence)
    }

    pub(in crate::serve) fn used_code(label: PageLabel) -> Self {
        let sentence =
            "The code or the link was used, was tried too often, or its fifteen minutes are over. Ask for another one.";
        Self::new(StatusCode::GONE, "This code is over", sentence)
            .guessed()
            .back_to(label.sign_in.to_owned())
    }

    pub(in crate::serve) fn wrong_code(back: String) -> Self {
        let sentence = "It is not the code of the mail.";
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "A wrong code", sentence)
            .guessed()
            .back_to(back)
    }

    pub(in crate::serve) fn too_many() -> Self {
        let sentence = "Too many requests came from your address. Wait a minute.";
        Self::new(StatusCode::TOO_MANY_REQUESTS, "Too many requests", sentence)
    }

    pub(in crate::serve) fn timeout() -> Self {
        let sentence = "It took too long. What you sent may have been done: look before you try again.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "Too slow", sentence)
    }

    /// A form that is not carried out. Nothing was changed.
    pub(in crate::serve) fn refused(sentence: String) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Nothing was changed", sentence)
    }

    /// The same, where somebody may be guessing.
    pub(in crate::serve) fn guessed(self) -> Self {
        Self { is_guess: true, ..self }
    }

    /// The same with a way back.
    pub(in crate::serve) fn back_to(self, path: String) -> Self {
        let back = Some(path);
        Self { back, ..self }
    }

    /// What the page says.
    pub(in crate::serve) fn sentences(&self) -> Vec<OutsideText> {
        let sentences = self.sentences.iter();
        sentences.map(|text| OutsideText::of_sentence(text)).collect()
    }
}

impl From<StoreError> for PageProblem {
    fn from(error: StoreError) -> Self {
        tracing::warn!(%error, "a page could not use the store");
        let sentence = "The store cannot be used now, so nothing was changed. The server's log has the reason.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "The store does not answer", sentence)
    }
}

impl From<Problem> for PageProblem {
    fn from(problem: Problem) -> Self {
        let sentence = match problem.status() {
            StatusCode::PAYLOAD_TOO_LARGE => "The form is too long.",
            StatusCode::UNSUPPORTED_MEDIA_TYPE => "This is not a form of this page.",
            StatusCode::NOT_FOUND => "There is nothing of this name.",
            _ => "It did not work. The server's log has the reason.",
        };
        Self::new(problem.status(), "It did not work", sentence)
    }
}
