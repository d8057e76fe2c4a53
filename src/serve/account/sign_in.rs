//! Signing in by the address that the licenses were bought with.
//!
//! SECURITY: known or not, an address gets the same page in the same time. Whether it is known is looked up on the side, and the name of
//! an attempt is made of the address alone. GET and HEAD do nothing, because scanners open every link.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use chrono::{DateTime, Utc};
use tokio::time::sleep;

use crate::serve::account::asked::customer_row;
use crate::serve::account::frame::AccountFrame;
use crate::serve::account::page_table::AccountPage;
use crate::serve::account::problem::{AccountProblem, AccountRefusal};
use crate::serve::account::setup::AccountSetup;
use crate::serve::account::words::{AccountWords, filled};
use crate::serve::pages::answer::PageAnswer;
use crate::serve::pages::form::FormFields;
use crate::serve::pages::label::PageLabel;
use crate::serve::pages::mail_sign_in::{MailSignIn, SignInAttempt, send_mail};
use crate::serve::pages::session::SessionOwner;
use crate::serve::reply::problem::Problem;
use crate::serve::state::Service;
use countersign_ledger::StoreError;
use countersign_mail::address::MailAddress;
use countersign_mail::queued_mail::MailId;
use countersign_mail::texts::RenderedMail;
use countersign_model::customer::{CustomerAddress, CustomerRow, NewCustomer};
use countersign_model::issued_license::Hex128;
use countersign_model::issuing_key::ReferenceKey;
use countersign_settings::keys::license_secrets::LicenseSecrets;

const LABEL: PageLabel = PageLabel::ACCOUNT;

/// How long a mail waits at least.
const SOONEST: Duration = Duration::from_millis(100);

#[derive(Template)]
#[template(path = "account/sign-in.html")]
struct AccountSignInPage<'a> {
    frame: AccountFrame<'a>,
    /// Whether somebody signed in just now, and sends no cookie.
    is_without_cookie: bool,
}

#[derive(Template)]
#[template(path = "account/code.html")]
struct AccountCodePage<'a> {
    frame: AccountFrame<'a>,
    name: &'a str,
}

#[derive(Template)]
#[template(path = "account/link.html")]
struct AccountLinkPage<'a> {
    frame: AccountFrame<'a>,
    name: &'a str,
}

/// A request of a stranger.
pub(super) struct AccountSignIn<'a> {
    pub(super) service: &'a Arc<Service>,
    pub(super) setup: &'a Arc<AccountSetup>,
    pub(super) secrets: &'a Arc<LicenseSecrets>,
    pub(super) words: &'a AccountWords,
    pub(super) fields: &'a FormFields,
    /// The part of the path that names an attempt or a link.
    pub(super) name: &'a str,
    pub(super) now: DateTime<Utc>,
}

impl AccountSignIn<'_> {
    /// The page, or what the form does.
    pub(super) async fn answer(&self, page: AccountPage) -> Result<PageAnswer, AccountProblem> {
        let name = self.name;
        match page {
            AccountPage::SendCode => self.send_code(),
            AccountPage::Code => {
                self.by_mail().named(name)?;
                Ok(PageAnswer::ok(&AccountCodePage {
                    frame: self.frame(&self.words.sent_title),
                    name,
                }))
            }
            AccountPage::UseCode => {
                let attempt = self.by_mail().with_code(name, self.fields.get("code")).await?;
                self.sign_in(&attempt).await
            }
            AccountPage::Link => {
                self.by_mail().linked(name)?;
                Ok(PageAnswer::ok(&AccountLinkPage {
                    frame: self.frame(&self.words.sign_in),
                    name,
                }))
            }
            AccountPage::UseLink => self.sign_in(&self.by_mail().linked(name)?).await,
            _ => Ok(self.first_page(false)),
        }
    }

    /// The page that asks for the address.
    pub(super) fn first_page(&self, is_without_cookie: bool) -> PageAnswer {
        PageAnswer::ok(&AccountSignInPage {
            frame: self.frame(&self.words.licenses),
            is_without_cookie,
        })
    }

    fn frame<'f>(&'f self, title: &'f str) -> AccountFrame<'f> {
        AccountFrame::new(self.setup, self.words, title)
    }

    fn key(&self) -> &ReferenceKey {
        self.secrets.references().current()
    }

    fn by_mail(&self) -> MailSignIn<'_> {
        MailSignIn {
            label: LABEL,
            key: self.key(),
            counts: &self.setup.sign_ins,
            ledger: self.service.gate.bindings(),
            now: self.now,
        }
    }

    /// Has the mail be sent, if the address is known.
    fn send_code(&self) -> Result<PageAnswer, AccountProblem> {
        let address = self.fields.get("address");
        let bad = || AccountProblem::from(AccountRefusal::BadAddress).back_to(LABEL.sign_in);
        let address: CustomerAddress = address.parse().map_err(|_| bad())?;
        // SECURITY: others may write to another mailbox, and be found as the same address (U+212A is a k).
        let to: MailAddress = address.normal().parse().map_err(|_| bad())?;
        let names = self.secrets.references().customer_names(&address);
        let own = self.key().customer(&address);
        if !self.setup.asked.take_mail(LABEL, own, self.now) {
            return Err(AccountProblem::from(AccountRefusal::Slowed).back_to(LABEL.sign_in));
        }
        let attempt =
            SignInAttempt::new(LABEL, self.key(), own, self.now).map_err(|error| Problem::internal(&error))?;
        let said = self.said(&attempt);
        let id = MailId::of_event(&format!("account sign-in {}", attempt.name(LABEL, self.key())));
        let mail = CustomerMail {
            names,
            own,
            to,
            id,
            said,
        };
        tokio::spawn(mail.send(Arc::clone(self.service), Arc::clone(self.setup), self.now));
        Ok(PageAnswer::SeeOther(format!(
            "{}/{}",
            LABEL.sign_in,
            attempt.name(LABEL, self.key())
        )))
    }

    fn said(&self, attempt: &SignInAttempt) -> RenderedMail {
        let vendor = self.setup.config.name.as_str();
        let code = attempt.code(LABEL, self.key());
        let code = format!("{}-{}", &code[..4], &code[4..]);
        let link = format!("{}/link/{}", self.setup.url(), attempt.link(LABEL, self.key()));
        let values = [("name", vendor), ("code", code.as_str()), ("link", link.as_str())];
        RenderedMail {
            unsubscribe: None,
            subject: filled(&self.words.mail_subject, &values),
            text: filled(&self.words.mail_text, &values),
            html: None,
        }
    }

    /// Signs the customer of an attempt in, once.
    async fn sign_in(&self, attempt: &SignInAttempt) -> Result<PageAnswer, AccountProblem> {
        let known = customer_row(self.service.gate.bindings(), vec![attempt.person]).await?;
        if known.is_none() {
            return Err(AccountProblem::from(AccountRefusal::UsedCode).back_to(LABEL.sign_in));
        }
        self.by_mail().use_up(attempt).await?;
        tracing::info!("a customer signed in");
        let owner = SessionOwner::Person(attempt.person);
        Ok(self.by_mail().signed_in(owner, self.setup.origin.is_https)?)
    }
}

/// A mail to an address that may be known.
struct CustomerMail {
    /// The names that its row may have, and the one under the secret in force.
    names: Vec<Hex128>,
    own: Hex128,
    /// The address in its normal form; where an address is kept, the mail goes there.
    to: MailAddress,
    id: MailId,
    said: RenderedMail,
}

impl CustomerMail {
    async fn send(self, service: Arc<Service>, setup: Arc<AccountSetup>, now: DateTime<Utc>) {
        // SECURITY: not while the page is answered: the work for a known address would slow it down.
        let mut some = [0];
        let _ = getrandom::fill(&mut some);
        sleep(SOONEST + Duration::from_millis(some[0].into())).await;
        match self.known(&service).await {
            Ok(Some(row)) if setup.mailed.take_mail(LABEL, self.own, now) => {
                let kept = row.address.and_then(|address| address.parse().ok());
                let to = kept.unwrap_or(self.to);
                send_mail(LABEL, &setup.mail, &to, self.id, now, &self.said).await;
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "a customer who signs in gets no mail"),
        }
    }

    /// The row of the address, if a customer has it. A row under the name of a retired secret gets the new one.
    async fn known(&self, service: &Service) -> Result<Option<CustomerRow>, StoreError> {
        let ledger = service.gate.bindings();
        let Some((name, row)) = customer_row(ledger, self.names.clone()).await? else {
            return Ok(None);
        };
        if name != self.own {
            let names = self.names.clone();
            let row = row.clone();
            ledger.keep_customers(vec![NewCustomer { names, row }]).await?;
        }
        Ok(Some(row))
    }
}
