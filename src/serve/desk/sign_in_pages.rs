//! The pages for strangers: a code and a link by mail, and the link of `countersign desk`.
//!
//! GET changes nothing, because browsers and mail scanners open links before a person does. The button's POST uses a link up.
//! A person who may not sign in gets the same answer.

use std::sync::Arc;

use askama::Template;
use chrono::{DateTime, Utc};

use crate::serve::desk::frame::PageFrame;
use crate::serve::desk::page_table::DeskPage;
use crate::serve::desk::state::DeskState;
use crate::serve::pages::answer::PageAnswer;
use crate::serve::pages::form::{FormFields, PageOrigin};
use crate::serve::pages::label::PageLabel;
use crate::serve::pages::mail_sign_in::{MINUTES, MailSignIn, SignInAttempt, send_mail};
use crate::serve::pages::page_problem::PageProblem;
use crate::serve::pages::session::{SessionOwner, person_number};
use crate::serve::reply::problem::Problem;
use countersign_mail::address::MailAddress;
use countersign_mail::queued_mail::MailId;
use countersign_mail::texts::RenderedMail;
use countersign_model::customer::CustomerAddress;
use countersign_model::desk_person::DeskPerson;
use countersign_model::issuing_key::ReferenceKey;

#[derive(Template)]
#[template(path = "desk/sign-in.html")]
struct SignInPage {
    frame: PageFrame,
    has_mail: bool,
}

#[derive(Template)]
#[template(path = "desk/code.html")]
struct CodePage<'a> {
    frame: PageFrame,
    name: &'a str,
}

#[derive(Template)]
#[template(path = "desk/link.html")]
struct SignInLinkPage {
    frame: PageFrame,
    action: String,
}

/// A request that needs no session.
pub(super) struct SignIn<'a> {
    pub(super) state: &'a Arc<DeskState>,
    pub(super) key: &'a ReferenceKey,
    pub(super) origin: &'a PageOrigin,
    pub(super) people: &'a [DeskPerson],
    pub(super) fields: &'a FormFields,
    /// The part of the path that names an attempt or a link.
    pub(super) name: &'a str,
    pub(super) now: DateTime<Utc>,
}

impl SignIn<'_> {
    /// The page, or what the form does.
    pub(super) async fn answer(&self, page: DeskPage) -> Result<PageAnswer, PageProblem> {
        let Self { state, name, now, .. } = *self;
        match page {
            DeskPage::SignIn => Ok(PageAnswer::ok(&SignInPage {
                frame: self.frame(),
                has_mail: state.mail.is_some() && !self.people.is_empty(),
            })),
            DeskPage::SendCode => self.send_code(),
            DeskPage::Code => {
                self.by_mail().named(name)?;
                Ok(PageAnswer::ok(&CodePage {
                    frame: self.frame(),
                    name,
                }))
            }
            DeskPage::UseCode => {
                let attempt = self.by_mail().with_code(name, self.fields.get("code")).await?;
                self.sign_in(&attempt).await
            }
            DeskPage::MailLink => {
                self.by_mail().linked(name)?;
                Ok(self.link_page(format!("/mail-link/{name}")))
            }
            DeskPage::UseMailLink => self.sign_in(&self.by_mail().linked(name)?).await,
            DeskPage::Link if state.door.has_link(name, now) => Ok(self.link_page(format!("/link/{name}"))),
            DeskPage::UseLink => {
                let user = state.door.use_link(name, now).ok_or_else(PageProblem::used_link)?;
                self.signed_in(SessionOwner::Operator(user))
            }
            DeskPage::Link => Err(PageProblem::used_link()),
            _ => Err(PageProblem::not_found()),
        }
    }

    fn by_mail(&self) -> MailSignIn<'_> {
        MailSignIn {
            label: PageLabel::DESK,
            key: self.key,
            counts: &self.state.sign_ins,
            ledger: self.state.service.gate.bindings(),
            now: self.now,
        }
    }

    fn frame(&self) -> PageFrame {
        PageFrame::of_stranger("Sign in", self.now)
    }

    fn link_page(&self, action: String) -> PageAnswer {
        PageAnswer::ok(&SignInLinkPage {
            frame: self.frame(),
            action,
        })
    }

    /// Sends the mail, if somebody has the address. What the browser gets says nothing of that.
    fn send_code(&self) -> Result<PageAnswer, PageProblem> {
        let address: Result<CustomerAddress, _> = self.fields.get("address").parse();
        let address = address
            .map_err(|_| PageProblem::refused("It is not a mail address.".to_owned()).back_to("/sign-in".to_owned()))?;
        let number = person_number(PageLabel::DESK, self.key, &address);
        let person = self
            .people
            .iter()
            .find(|person| person.address.normal() == address.normal());
        let may_have = person.filter(|_| self.state.sign_ins.take_mail(PageLabel::DESK, number, self.now));
        let attempt = SignInAttempt::new(PageLabel::DESK, self.key, number, self.now);
        let mut attempt = attempt.map_err(|error| Problem::internal(&error))?;
        if person.is_some() && may_have.is_none() {
            attempt = attempt.unsent();
        }
        if let Some(person) = may_have {
            self.send(person, &attempt);
        }
        Ok(PageAnswer::SeeOther(format!(
            "/sign-in/{}",
            attempt.name(PageLabel::DESK, self.key)
        )))
    }

    /// Sends the mail on the side: how long that takes says who is in the list.
    fn send(&self, person: &DeskPerson, attempt: &SignInAttempt) {
        let address: Result<MailAddress, _> = person.address.written().parse();
        let (Some(account), Ok(address)) = (self.state.mail.clone(), address) else {
            return;
        };
        let code = attempt.code(PageLabel::DESK, self.key);
        let link = attempt.link(PageLabel::DESK, self.key);
        let said = RenderedMail {
            unsubscribe: None,
            subject: "Sign in at the desk".to_owned(),
            text: format!(
                "Somebody asked to sign in at the desk of countersign with this address.\n\nYour code: {}-{}\n\nOr open this \
                 link:\n{}/mail-link/{link}\n\nEach works once, for {MINUTES} minutes. If it was not you, do nothing.\n",
                &code[..4],
                &code[4..],
                self.origin.origin,
            ),
            html: None,
        };
        let id = MailId::of_event(&format!("desk sign-in {}", attempt.name(PageLabel::DESK, self.key)));
        let now = self.now;
        tokio::spawn(async move { send_mail(PageLabel::DESK, &account, &address, id, now, &said).await });
    }

    /// Signs the person of an attempt in, once.
    async fn sign_in(&self, attempt: &SignInAttempt) -> Result<PageAnswer, PageProblem> {
        let is_known =
            |person: &DeskPerson| person_number(PageLabel::DESK, self.key, &person.address) == attempt.person;
        if !self.people.iter().any(is_known) || !attempt.is_sent(PageLabel::DESK, self.key) {
            return Err(PageProblem::used_code(PageLabel::DESK));
        }
        self.by_mail().use_up(attempt).await?;
        self.signed_in(SessionOwner::Person(attempt.person))
    }

    fn signed_in(&self, owner: SessionOwner) -> Result<PageAnswer, PageProblem> {
        let by = match owner {
            SessionOwner::Operator(_) => "a link of `countersign desk`",
            SessionOwner::Person(_) => "mail",
        };
        let answer = self.by_mail().signed_in(owner, self.origin.is_https)?;
        tracing::info!(by, "somebody signed in at the desk");
        Ok(answer)
    }
}
