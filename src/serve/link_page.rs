//! Pages behind a link of a mail: a sentence, and one button or none.
//!
//! GET and HEAD show the button and change nothing, because mail scanners open every link.

use askama::Template;
use warp::http::StatusCode;

use crate::serve::first_copy_page::{self, CountedPage};
use crate::serve::reply::outcome::{Code, Weight};
use crate::serve::reply::problem::Problem;

/// Size limit of a form in bytes. A mail program sends `List-Unsubscribe=One-Click`.
pub(super) const MAX_FORM: usize = 1024;

#[derive(Template)]
#[template(path = "link.html")]
pub(super) struct LinkPage {
    pub(super) title: &'static str,
    pub(super) sentence: String,
    /// What the button says.
    pub(super) button: Option<&'static str>,
}

impl LinkPage {
    /// The page of a link that names nothing.
    pub(super) fn unknown() -> Self {
        Self {
            title: "This link is not valid",
            sentence: "Please copy the whole link from the mail, up to its last character.".to_owned(),
            button: None,
        }
    }

    /// The page where something fails that may work later.
    pub(super) fn failed() -> Self {
        Self {
            title: "This does not work now",
            sentence: "Please try again in some minutes. Your link stays valid.".to_owned(),
            button: None,
        }
    }

    /// The answer with this page; `problem` is why there is no better one.
    pub(super) fn answer(&self, problem: Option<&Problem>) -> CountedPage {
        let (status, code, weight) = match problem {
            None => (StatusCode::OK, Code::Ok, Weight::Request),
            Some(problem) => (problem.status(), problem.code(), problem.weight()),
        };
        first_copy_page::answer(status, (code, weight), self)
    }
}
