//! `POST /licenses` and `POST /adoptions` of the admin socket: change licenses of the ledger, or bindings, and adopt licenses that
//! files declare, for commands beside a running server.
//!
//! A command without a server carries out the same orders itself.

use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, NaiveDate, SecondsFormat, Utc};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde::{Deserialize, Serialize};

use crate::serve::customer_numbers::{self, SaidCustomer};
use crate::serve::found_license::{self, ChangeError, FoundLicense};
use crate::serve::gate::Snapshot;
use crate::serve::ledger_licenses::{self, Adopting, Changer, ExpectedRevision, LicenseChangeError, refresh};
use crate::serve::license_mails::{MailAgain, MailTools, MailedAgain, MailsKeeper, MailsOrder};
use crate::serve::links::FirstCopyPages;
use crate::serve::ops::command_user::{CommandUser, GivenOrder};
use crate::serve::pages::form::new_once;
use crate::serve::state::Service;
use crate::serve::vouches::{self, VouchError};
use countersign_ledger::{
    AdoptedStep, ChangeOutcome, ChangeRefusal, Handout, Ledger, NewHandout, StoreError, named_at_random,
};
use countersign_mail::address::MailAddress;
use countersign_mail::queue::MailQueue;
use countersign_model::composer::ComposerToken;
use countersign_model::customer::CustomerAddress;
use countersign_model::issued_license::{ChangeScope, Hex128, IssuedLicense};
use countersign_model::issuing_key::IssueRequest;
use countersign_model::license::{License, LicenseStatus};
use countersign_model::license_key::LicenseId;
use countersign_model::license_step::{LicenseStep, LicenseTerms, StepRefusal};
use countersign_model::offer::SalesMode;
use countersign_model::remarks::{Author, MAX_NOTE, MAX_REASON, NamedText, NewRemarks, check_remark};
use countersign_model::staging_hosts::StagingRule;
use countersign_model::stored_text::StoredText;
use countersign_registry::Registry;
use countersign_settings::config::CustomerRule;
use countersign_settings::keys::license_secrets::LicenseSecrets;
use countersign_settings::keys::secret_keys::DownloadKeys;

/// What to do with a license.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LicenseOrder {
    /// Which license.
    pub license: LicenseId,
    /// What happens.
    pub action: LicenseAction,
    /// If a file declares the license and the ledger does not have it, adopts it with the step or the new key in one line. The
    /// [digest](countersign_model::license::License::grant_digest) of the declared license, as the command read it. Releases and
    /// moves adopt nothing: they are about bindings, which are in the ledger anyhow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopt: Option<Hex128>,
    /// The note of the declaration that is adopted, which a server does not load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Why, as a person says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The most licenses in one order of adoption.
pub const MAX_ADOPTED: usize = 500;

/// Declared licenses to adopt, at most [`MAX_ADOPTED`]. `license import --from registry` sends several orders for more. The
/// licenses of an order share group commits.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AdoptionOrder {
    /// The licenses.
    pub licenses: Vec<AdoptedLicense>,
}

/// A declared license that the ledger shall take.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AdoptedLicense {
    /// Which license.
    pub license: LicenseId,
    /// The [digest](countersign_model::license::License::grant_digest) of the declared license, as the command read it. The server
    /// takes the grant from the registry that it has in force, and refuses another digest.
    pub grant: Hex128,
    /// The note of the declaration, which a server does not load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What became of a license of an order of adoption. The replies are in the order of the licenses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdoptionReply {
    /// The ledger has it now.
    Adopted,
    /// The ledger had adopted it before, with the same grant.
    Repeated,
    /// Nothing was changed. Why.
    Refused(String),
}

/// Why an order of adoption was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum AdoptionError {
    /// It has too many licenses.
    #[error("an order has more than {MAX_ADOPTED} licenses")]
    TooMany,
    /// The ledger could not be written. Some licenses may be adopted; the same order may be given again.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What happens to a license.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LicenseAction {
    /// It changes.
    Step(LicenseStep),
    /// Another one with a new key takes its place.
    Rekey,
    /// Its key, or the page of its first copies, is mailed to this address.
    Resend(MailAddress, MailedAgain),
    /// It is for the customer with this address.
    Assign(CustomerAddress),
    /// Its customer has this address from now on.
    NewAddress(CustomerAddress),
    /// Its mails are so from now on.
    Mails(MailsOrder),
    /// Somebody vouches for it.
    Vouch {
        /// The last day; `None` takes it back.
        until: Option<NaiveDate>,
    },
    /// It gets another Composer token, or has none that is valid.
    Composer {
        /// Whether its token is only revoked.
        revoke: bool,
    },
}

/// What became of an order.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LicenseReply {
    /// It is in force.
    Done {
        /// Whether it was not so before.
        changed: bool,
    },
    /// The license that takes its place.
    Rekeyed(NewKey),
    /// The mail is in the queue.
    Queued,
    /// Its Composer token.
    Composer(NewToken),
    /// Nothing was changed. Why.
    Refused(String),
}

/// A Composer token.
// SECURITY: it stays out of logs.
#[derive(Serialize, Deserialize)]
pub struct NewToken(pub String);

impl fmt::Debug for NewToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NewToken(redacted)")
    }
}

/// A license with its key.
// SECURITY: the key stays out of logs.
#[derive(Serialize, Deserialize)]
pub struct NewKey {
    /// The license.
    pub id: LicenseId,
    /// Its key.
    pub license_key: String,
    /// The page from which its buyer downloads the plugins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub download_page: Option<String>,
}

impl fmt::Debug for NewKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NewKey({}, redacted)", self.id.log_tag())
    }
}

/// What orders are carried out with, in a server and in a command.
pub struct LedgerTools<'a> {
    /// The licenses of files.
    pub registry: &'a Registry,
    /// The ledger.
    pub bindings: &'a Ledger,
    /// `None` where no machine issues licenses.
    pub secrets: Option<Arc<LicenseSecrets>>,
    /// `None` without a mail server.
    pub mail: Option<Arc<MailQueue>>,
    /// The keys that Composer tokens are made with; `None` where no package was ever hosted.
    pub downloads: Option<Arc<DownloadKeys>>,
    /// `None` where there are no pages with first copies.
    pub pages: Option<FirstCopyPages>,
    /// The server's setting about staging copies.
    pub staging: StagingRule,
    /// The setting: what is kept of customers.
    pub customers: CustomerRule,
    /// Who gives the orders.
    pub user: CommandUser,
    /// How they come: by a command, or from the desk.
    pub scope: Arc<ChangeScope>,
}

impl<'a> LedgerTools<'a> {
    /// Those of a server.
    pub(in crate::serve) fn of(service: &'a Service, snapshot: &'a Snapshot, user: CommandUser) -> Self {
        Self {
            registry: &snapshot.registry,
            bindings: service.gate.bindings(),
            secrets: snapshot.secrets.licensing.clone(),
            mail: service.mail.get().cloned(),
            downloads: snapshot.secrets.downloads.clone(),
            pages: service.first_copy_pages(snapshot),
            staging: service.gate.rules().staging.clone(),
            customers: service.customers,
            user,
            scope: Arc::new(ChangeScope::operator()),
        }
    }
}

impl LedgerTools<'_> {
    /// What the answer to a person says of a license that has a key now.
    pub(super) fn new_key(&self, license: &License, license_key: String) -> NewKey {
        let pages = self.pages.as_ref();
        NewKey {
            id: license.id,
            license_key,
            download_page: pages.and_then(|pages| pages.link(license, Utc::now().date_naive())),
        }
    }
}

/// The digest of a declaration that is adopted, and its note.
type AdoptedGrant = (Hex128, Option<NamedText>);

/// A note as the ledger keeps it; `None` for an empty one. The error says why the note is not taken.
pub(in crate::serve) fn named_note(note: &str) -> Result<Option<NamedText>, String> {
    if note.is_empty() {
        return Ok(None);
    }
    check_remark(note, MAX_NOTE).map_err(|error| format!("the note is not taken: {error}"))?;
    named_at_random(note).map(Some).map_err(|error| error.to_string())
}

/// How many licenses to adopt at once. They share commits.
const AT_ONCE: usize = 256;

impl LedgerTools<'_> {
    /// Carries out an order of a command.
    ///
    /// # Errors
    /// Nothing was written. The same order may be given again.
    pub async fn carry_out(&self, order: LicenseOrder) -> Result<LicenseReply, StoreError> {
        let LicenseOrder {
            license,
            action,
            adopt,
            note,
            reason,
        } = order;
        let author = match self.author(reason.as_deref()) {
            Ok(author) => author,
            Err(reason) => return Ok(LicenseReply::Refused(reason)),
        };
        if adopt.is_some() {
            refresh(self.bindings).await?;
        }
        // What the ledger has is changed there, whatever files declare.
        let adopt = adopt.filter(|_| self.bindings.issued(&license).is_none());
        let note = match named_note(note.as_deref().unwrap_or_default()) {
            Ok(note) => note,
            Err(reason) => return Ok(LicenseReply::Refused(reason)),
        };
        let adopt = adopt.map(|grant| (grant, note));
        let done = match action {
            LicenseAction::Step(step) => self.step(license, step, adopt, author).await,
            LicenseAction::Rekey => self.rekey(license, adopt, author).await,
            LicenseAction::Resend(address, what) => self.resend(license, (address, what), author).await,
            LicenseAction::Assign(address) => self.assign(license, &address, ExpectedRevision::Any, author).await,
            LicenseAction::NewAddress(address) => {
                match ledger_licenses::find(self.registry, self.bindings, &license).await {
                    Ok(found) => Ok(self.new_address(&found.license, &address, author, Utc::now()).await?),
                    Err(error) => Err(error),
                }
            }
            LicenseAction::Mails(mails) => self.mails(license, &mails).await,
            LicenseAction::Vouch { until } => self.vouch(license, until, author).await,
            LicenseAction::Composer { revoke } => self.composer(license, revoke, adopt, author).await,
        };
        match done {
            Ok(reply) => Ok(reply),
            Err(LicenseChangeError::Change(ChangeError::Store(error))) => Err(error),
            Err(error) => Ok(LicenseReply::Refused(error.to_string())),
        }
    }

    /// Takes declared licenses into the ledger.
    ///
    /// # Errors
    /// As [`AdoptionError`].
    pub async fn adopt(&self, order: AdoptionOrder) -> Result<Vec<AdoptionReply>, AdoptionError> {
        if order.licenses.len() > MAX_ADOPTED {
            return Err(AdoptionError::TooMany);
        }
        let author = self.author(None).unwrap_or_default();
        let adopt = async |wanted: AdoptedLicense| {
            let grant = match named_note(wanted.note.as_deref().unwrap_or_default()) {
                Ok(note) => (wanted.grant, note),
                Err(reason) => return Ok(AdoptionReply::Refused(reason)),
            };
            match self.adopt_one(wanted.license, grant, None, author.clone()).await {
                Ok((_, true)) => Ok(AdoptionReply::Adopted),
                Ok((_, false)) => Ok(AdoptionReply::Repeated),
                Err(LicenseChangeError::Change(ChangeError::Store(error))) => Err(error),
                Err(error) => Ok(AdoptionReply::Refused(error.to_string())),
            }
        };
        let replies = stream::iter(order.licenses).map(adopt).buffered(AT_ONCE);
        Ok(replies.try_collect().await?)
    }

    async fn adopt_one(
        &self,
        id: LicenseId,
        (grant, note): AdoptedGrant,
        then: Option<AdoptedStep>,
        author: Author,
    ) -> Result<(Arc<IssuedLicense>, bool), LicenseChangeError> {
        let adopting = Adopting {
            grant,
            note,
            staging: self.staging.clone(),
            scope: &self.scope,
            author,
        };
        ledger_licenses::adopt(self.registry, self.bindings, adopting, id, then).await
    }

    /// Who gives an order, and why. Without secrets, nobody has a number.
    pub(super) fn author(&self, reason: Option<&str>) -> Result<Author, String> {
        let reason = match reason {
            Some(reason) => {
                check_remark(reason, MAX_REASON).map_err(|error| format!("the reason is not taken: {error}"))?;
                Some(named_at_random(reason).map_err(|error| error.to_string())?)
            }
            None => None,
        };
        let who = self.secrets.as_ref().map(|secrets| secrets.person(self.user.as_str()));
        Ok(Author { who, reason })
    }

    /// Gives a license another Composer token, or revokes the one that it has.
    async fn composer(
        &self,
        id: LicenseId,
        revoke: bool,
        adopt: Option<AdoptedGrant>,
        author: Author,
    ) -> Result<LicenseReply, LicenseChangeError> {
        let Some(keys) = &self.downloads else {
            return Ok(LicenseReply::Refused(
                "no package is hosted here, so there is no key for downloads".to_owned(),
            ));
        };
        refresh(self.bindings).await?;
        let found = found_license::find(self.registry, self.bindings, &id);
        let before = found.map(|license| license.details.rights.composer).unwrap_or_default();
        let after = if revoke {
            before.revoked()
        } else {
            before.with_another()
        };
        let terms = LicenseTerms::with_composer(after);
        let done = self.step(id, LicenseStep::Edit(terms), adopt, author).await?;
        Ok(match (done, after.number()) {
            (LicenseReply::Done { .. }, Some(number)) => {
                let token = ComposerToken::new(keys.current(), &id, number);
                LicenseReply::Composer(NewToken(token.reveal()))
            }
            (done, _) => done,
        })
    }

    async fn vouch(
        &self,
        id: LicenseId,
        until: Option<NaiveDate>,
        author: Author,
    ) -> Result<LicenseReply, LicenseChangeError> {
        let by = (&self.scope, author);
        match vouches::vouch(self.registry, self.bindings, by, id, until, Utc::now()).await {
            Ok(changed) => Ok(LicenseReply::Done { changed }),
            Err(VouchError::Store(error)) => Err(error.into()),
            Err(refusal) => Ok(LicenseReply::Refused(refusal.to_string())),
        }
    }

    async fn step(
        &self,
        id: LicenseId,
        step: LicenseStep,
        adopt: Option<AdoptedGrant>,
        author: Author,
    ) -> Result<LicenseReply, LicenseChangeError> {
        if step.is_about_bindings() {
            refresh(self.bindings).await?;
            if let Some(FoundLicense::Declared(license)) = found_license::find(self.registry, self.bindings, &id) {
                let changed = ledger_licenses::change_bindings(self.registry, self.bindings, license, &step).await?;
                return Ok(LicenseReply::Done { changed });
            }
        } else if let Some(grant) = adopt {
            let (_, changed) = self.adopt_one(id, grant, Some(AdoptedStep::Step(step)), author).await?;
            return Ok(LicenseReply::Done { changed });
        }
        let by = Changer {
            author,
            ..Changer::from(Arc::clone(&self.scope))
        };
        let any = ExpectedRevision::Any;
        let (_, changed) = ledger_licenses::apply(self.registry, self.bindings, &by, id, any, &step).await?;
        Ok(LicenseReply::Done { changed })
    }

    async fn rekey(
        &self,
        id: LicenseId,
        adopt: Option<AdoptedGrant>,
        author: Author,
    ) -> Result<LicenseReply, LicenseChangeError> {
        let Some(secrets) = &self.secrets else {
            return Ok(LicenseReply::Refused(NO_SECRETS.to_owned()));
        };
        let mut random = [0; 16];
        if let Err(error) = getrandom::fill(&mut random) {
            return Ok(LicenseReply::Refused(error.to_string()));
        }
        let body = format!("rekey {id}");
        let request = IssueRequest {
            scope: &self.scope,
            mode: SalesMode::Live,
            // Each order is a request of its own.
            idempotency_key: &Hex128(random).to_string(),
            body: body.as_bytes(),
        };
        let new = match secrets.new_origin(&request) {
            Ok(new) => new,
            Err(error) => return Ok(LicenseReply::Refused(error.to_string())),
        };
        let rekeyed = |issued: Arc<IssuedLicense>| {
            LicenseReply::Rekeyed(self.new_key(&issued.license, new.key.reveal().to_owned()))
        };
        if let Some(grant) = adopt {
            let then = AdoptedStep::Rekey {
                id: new.key.id(),
                origin: new.origin.clone(),
                retired: new.retired.clone(),
            };
            return Ok(rekeyed(self.adopt_one(id, grant, Some(then), author).await?.0));
        }
        let any = ExpectedRevision::Any;
        match ledger_licenses::rekey(self.registry, self.bindings, &new, id, any, author).await? {
            ChangeOutcome::Recorded(issued) | ChangeOutcome::Repeated(issued) => Ok(rekeyed(issued)),
            ChangeOutcome::Refused(ChangeRefusal::Revoked) => Err(StepRefusal::Revoked.into()),
            ChangeOutcome::Refused(refusal) => Err(LicenseChangeError::Refused(refusal)),
        }
    }

    /// Says for whom a license is.
    ///
    /// # Errors
    /// It is not in the ledger, it is revoked, it has another revision than the expected one, or nothing was written.
    pub(in crate::serve) async fn assign(
        &self,
        id: LicenseId,
        address: &CustomerAddress,
        expected: ExpectedRevision,
        author: Author,
    ) -> Result<LicenseReply, LicenseChangeError> {
        let found = ledger_licenses::find(self.registry, self.bindings, &id).await?;
        // Before the address is kept.
        if matches!(expected, ExpectedRevision::Only(revision) if revision != found.revision) {
            return Err(LicenseChangeError::Revised);
        }
        if found.license.status == LicenseStatus::Revoked {
            return Err(StepRefusal::Revoked.into());
        }
        let Some(holder) = self.customer(Some(address)).await? else {
            return Ok(LicenseReply::Refused(NO_SECRETS.to_owned()));
        };
        let by = Changer {
            author,
            remarks: NewRemarks {
                holder: Some(holder),
                ..NewRemarks::default()
            },
            ..Changer::from(Arc::clone(&self.scope))
        };
        let step = LicenseStep::Edit(LicenseTerms::default());
        let (issued, changed) = ledger_licenses::apply(self.registry, self.bindings, &by, id, expected, &step).await?;
        self.mails_keeper(&self.scope).follow(&issued.license).await?;
        Ok(LicenseReply::Done { changed })
    }

    /// Gives the customer of a license another address, to which mails go from then on. Number, name and licenses stay.
    ///
    /// # Errors
    /// The address is not kept, or the history of the license lacks it. It may be said again.
    pub(in crate::serve) async fn new_address(
        &self,
        license: &License,
        address: &CustomerAddress,
        author: Author,
        now: DateTime<Utc>,
    ) -> Result<LicenseReply, StoreError> {
        let Some(number) = license.details.remarks().holder else {
            return Ok(LicenseReply::Refused(NO_CUSTOMER.to_owned()));
        };
        let Some(secrets) = &self.secrets else {
            return Ok(LicenseReply::Refused(NO_SECRETS.to_owned()));
        };
        if !self.bindings.may_issue() {
            return Err(StoreError::Differs);
        }
        if self.bindings.is_erased(number) {
            return Ok(LicenseReply::Refused("the customer was erased".to_owned()));
        }
        let kept = self.bindings.customers([number].into()).await?;
        let newest = kept.iter().find(|row| row.is_of_address());
        let newest = newest.and_then(|row| row.address.as_deref()?.parse::<CustomerAddress>().ok());
        if newest.is_some_and(|newest| newest.normal() == address.normal()) {
            return Ok(LicenseReply::Done { changed: false });
        }
        let new = secrets
            .references()
            .customer(address, None, &self.scope, self.customers);
        let mut new = new.map_err(|error| StoreError::NotDurable(error.to_string().into()))?;
        let known = self.bindings.texts(new.names.clone()).await?;
        let is_others = |stored: &StoredText| stored.customer().is_some_and(|row| row.number != number);
        if known.iter().any(|(_, stored)| is_others(stored)) {
            let reason = "another customer has this address: say that the license is that customer's instead";
            return Ok(LicenseReply::Refused(reason.to_owned()));
        }
        new.row.number = number;
        new.row.since = Some(now);
        // The line first: if the address is not kept then, it can be said again.
        let handout = NewHandout {
            id: new_once().map_err(|error| StoreError::NotDurable(error.to_string().into()))?,
            license: license.id,
            what: Handout::Address,
            scope: Arc::clone(&self.scope),
            author,
            now,
        };
        self.bindings.note_handout(handout).await?;
        self.bindings.keep_customer(new).await?;
        tracing::info!(customer = %number, by = %self.scope, "a customer has another address");
        Ok(LicenseReply::Done { changed: true })
    }

    async fn mails(&self, id: LicenseId, mails: &MailsOrder) -> Result<LicenseReply, LicenseChangeError> {
        let found = ledger_licenses::find(self.registry, self.bindings, &id).await?;
        let keeper = self.mails_keeper(&self.scope);
        if let Err(reason) = keeper.check(mails) {
            return Ok(LicenseReply::Refused(reason.to_string()));
        }
        let changed = keeper.keep(&found.license, mails).await?;
        Ok(LicenseReply::Done { changed })
    }

    /// What keeps how mails are to be.
    pub(super) fn mails_keeper<'k>(&'k self, by: &'k ChangeScope) -> MailsKeeper<'k> {
        MailsKeeper {
            bindings: self.bindings,
            secrets: self.secrets.as_deref(),
            rule: self.customers,
            by,
        }
    }

    /// The number of a customer whom a person names; `None` without one, or without secrets.
    pub(super) async fn customer(&self, address: Option<&CustomerAddress>) -> Result<Option<Hex128>, StoreError> {
        let (Some(address), Some(secrets)) = (address, &self.secrets) else {
            return Ok(None);
        };
        if !self.bindings.may_issue() {
            return Err(StoreError::Differs);
        }
        let by = &*self.scope;
        let said = SaidCustomer {
            address,
            name: None,
            by,
        };
        customer_numbers::number(self.bindings, secrets, said, self.customers)
            .await
            .map(Some)
    }

    async fn resend(
        &self,
        id: LicenseId,
        (address, what): (MailAddress, MailedAgain),
        author: Author,
    ) -> Result<LicenseReply, LicenseChangeError> {
        let found = ledger_licenses::find(self.registry, self.bindings, &id).await?;
        let now = Utc::now();
        let wanted = MailAgain {
            what,
            address,
            // Each order is a mail of its own.
            event: format!("resend {id} {}", now.to_rfc3339_opts(SecondsFormat::Nanos, true)),
            scope: Arc::clone(&self.scope),
            author,
            now,
        };
        match self.mail_tools().mail_again(&found, wanted).await {
            Ok(()) => {
                tracing::info!(license = id.log_tag(), by = "operator:cli", ?what, "mailed again");
                Ok(LicenseReply::Queued)
            }
            Err(reason) => Ok(LicenseReply::Refused(reason.to_string())),
        }
    }

    /// What mails are made with.
    pub(in crate::serve) fn mail_tools(&self) -> MailTools<'_> {
        MailTools {
            bindings: self.bindings,
            queue: self.mail.clone(),
            secrets: self.secrets.as_deref(),
            pages: self.pages.as_ref(),
        }
    }
}

/// Why no address can be another one.
const NO_CUSTOMER: &str = "the license has no customer: say whose it is first";

/// Why no key can be made or shown.
pub(super) const NO_SECRETS: &str = "there are no keys to issue licenses with in keys/";

/// The result of an order to the running server.
pub(super) async fn change(service: Arc<Service>, given: GivenOrder<LicenseOrder>) -> Result<LicenseReply, StoreError> {
    let snapshot = service.gate.snapshot();
    LedgerTools::of(&service, &snapshot, given.user)
        .carry_out(given.order)
        .await
}

/// The result of an order of adoption to the running server.
pub(super) async fn adopt(
    service: Arc<Service>,
    given: GivenOrder<AdoptionOrder>,
) -> Result<Vec<AdoptionReply>, AdoptionError> {
    let snapshot = service.gate.snapshot();
    LedgerTools::of(&service, &snapshot, given.user)
        .adopt(given.order)
        .await
}
