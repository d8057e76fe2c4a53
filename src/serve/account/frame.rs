//! What is around every page for customers, and the page that says one thing.

use askama::Template;

use crate::serve::account::problem::AccountProblem;
use crate::serve::account::setup::AccountSetup;
use crate::serve::account::words::AccountWords;
use crate::serve::pages::answer::PageAnswer;
use countersign_model::text::outside_text::OutsideText;

/// What is around a page.
pub(super) struct AccountFrame<'a> {
    pub(super) words: &'a AccountWords,
    pub(super) title: &'a str,
    /// The vendor.
    pub(super) vendor: &'a str,
    pub(super) logo: Option<&'a str>,
    pub(super) style: &'a str,
    /// Where customers ask: the address of a link, and what it says.
    pub(super) support: Option<(String, &'a str)>,
    /// Who is signed in, as the bar shows it; `None` for a stranger.
    pub(super) who: Option<OutsideText>,
}

impl<'a> AccountFrame<'a> {
    /// Around a page for a stranger.
    pub(super) fn new(setup: &'a AccountSetup, words: &'a AccountWords, title: &'a str) -> Self {
        let support = setup.config.support.as_deref().map(|support| {
            let link = match support.starts_with("https://") {
                true => support.to_owned(),
                false => format!("mailto:{support}"),
            };
            (link, support)
        });
        Self {
            words,
            title,
            vendor: &setup.config.name,
            logo: setup.config.logo.as_deref(),
            style: &setup.style.0,
            support,
            who: None,
        }
    }

    /// The same with a title of its own.
    pub(super) fn titled<'t>(self, title: &'t str) -> AccountFrame<'t>
    where
        'a: 't,
    {
        AccountFrame { title, ..self }
    }
}

#[derive(Template)]
#[template(path = "account/note.html")]
struct AccountNote<'a> {
    frame: AccountFrame<'a>,
    heading: &'a str,
    sentence: &'a str,
    back: &'a str,
}

/// The page of a problem.
pub(super) fn problem_page(setup: &AccountSetup, words: &AccountWords, problem: &AccountProblem) -> PageAnswer {
    let (heading, sentence) = problem.said(words);
    let page = AccountNote {
        frame: AccountFrame::new(setup, words, heading),
        heading,
        sentence,
        back: problem.back.as_deref().unwrap_or("/account"),
    };
    PageAnswer::page(problem.status(), &page)
}
