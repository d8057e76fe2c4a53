//! Why a page for customers is not shown, or a form not carried out: in the customer's words.

use warp::http::StatusCode;

use crate::serve::account::words::AccountWords;
use crate::serve::found_license::ChangeError;
use crate::serve::gate::release::NotReleased;
use crate::serve::ledger_licenses::LicenseChangeError;
use crate::serve::pages::page_problem::PageProblem;
use crate::serve::pages::scan_turn::Busy;
use crate::serve::reply::outcome::{Code, Weight};
use crate::serve::reply::problem::Problem;
use countersign_ledger::{ReleaseRefusal, StoreError};

/// Why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccountRefusal {
    NotFound,
    ForeignForm,
    UsedCode,
    WrongCode,
    BadAddress,
    Slowed,
    TooMany,
    NotNow,
    NotActive,
    NotOnIt,
    NoSeat,
    NoMoves,
    BadSite,
    SameSite,
    SetSite,
    Faster,
    NoMail,
    OtherAddress,
    NoPackage,
    TooManyCopies,
    UnknownKey,
    AskSeller,
}

/// Why, and where to go back to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AccountProblem {
    pub(super) refusal: AccountRefusal,
    /// A path of ours; none for the first page.
    pub(super) back: Option<String>,
}

impl From<AccountRefusal> for AccountProblem {
    fn from(refusal: AccountRefusal) -> Self {
        Self { refusal, back: None }
    }
}

impl AccountProblem {
    /// The same with a way back, unless it has one.
    pub(super) fn back_to(self, path: &str) -> Self {
        Self {
            back: Some(self.back.unwrap_or_else(|| path.to_owned())),
            ..self
        }
    }

    pub(super) fn status(&self) -> StatusCode {
        use AccountRefusal as R;
        match self.refusal {
            R::NotFound => StatusCode::NOT_FOUND,
            R::ForeignForm => StatusCode::FORBIDDEN,
            R::UsedCode => StatusCode::GONE,
            R::Slowed | R::TooMany | R::TooManyCopies => StatusCode::TOO_MANY_REQUESTS,
            R::NotNow => StatusCode::SERVICE_UNAVAILABLE,
            R::Faster => StatusCode::CONFLICT,
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        }
    }

    /// How it is counted.
    pub(super) fn code(&self) -> Code {
        use AccountRefusal as R;
        match self.refusal {
            R::NotFound => Code::NotFound,
            R::UsedCode => Code::LinkExpired,
            R::WrongCode => Code::Unauthorized,
            R::Slowed | R::TooMany => Code::TooManyRequests,
            R::TooManyCopies => Code::TooManyFirstCopies,
            R::NoMoves => Code::TooManyMoves,
            R::NotNow => Code::StoreUnavailable,
            R::UnknownKey => Code::UnknownLicense,
            R::ForeignForm | R::BadAddress | R::BadSite => Code::MalformedRequest,
            _ => Code::Conflict,
        }
    }

    /// What it costs the client.
    pub(super) fn weight(&self) -> Weight {
        match self.refusal {
            // Somebody may be guessing.
            AccountRefusal::UsedCode | AccountRefusal::WrongCode | AccountRefusal::UnknownKey => Weight::WrongKey,
            AccountRefusal::NotFound => Weight::Malformed,
            _ => Weight::Request,
        }
    }

    /// The heading and the sentence.
    pub(super) fn said<'w>(&self, words: &'w AccountWords) -> (&'w str, &'w str) {
        use AccountRefusal as R;
        let refused = &words.nothing_changed;
        let (heading, sentence) = match self.refusal {
            R::NotFound => (&words.not_found_title, &words.not_found),
            R::ForeignForm => (refused, &words.foreign_form),
            R::UsedCode => (&words.used_code_title, &words.used_code),
            R::WrongCode => (&words.wrong_code_title, &words.wrong_code),
            R::BadAddress => (refused, &words.bad_address),
            R::Slowed => (&words.slowed_title, &words.slowed),
            R::TooMany => (&words.too_many_title, &words.too_many),
            R::NotNow => (&words.not_now_title, &words.not_now),
            R::NotActive => (refused, &words.not_active),
            R::NotOnIt => (refused, &words.not_on_it),
            R::NoSeat => (refused, &words.no_seat),
            R::NoMoves => (refused, &words.no_moves),
            R::BadSite => (refused, &words.bad_site),
            R::SameSite => (refused, &words.same_site),
            R::SetSite => (refused, &words.set_site),
            R::Faster => (refused, &words.faster),
            R::NoMail => (refused, &words.no_mail),
            R::OtherAddress => (refused, &words.other_address),
            R::NoPackage => (refused, &words.no_package),
            R::TooManyCopies => (refused, &words.too_many_copies),
            R::UnknownKey => (&words.not_found_title, &words.unknown_key),
            R::AskSeller => (refused, &words.ask_seller),
        };
        (heading, sentence)
    }
}

impl From<PageProblem> for AccountProblem {
    fn from(problem: PageProblem) -> Self {
        let refusal = match problem.status {
            StatusCode::GONE => AccountRefusal::UsedCode,
            _ if problem.is_guess => AccountRefusal::WrongCode,
            _ => AccountRefusal::NotNow,
        };
        Self {
            refusal,
            back: problem.back,
        }
    }
}

impl From<Problem> for AccountProblem {
    fn from(problem: Problem) -> Self {
        let refusal = match problem {
            Problem::TooManyRequests(_) => AccountRefusal::TooMany,
            Problem::TooManyFirstCopies(..) => AccountRefusal::TooManyCopies,
            Problem::Refused(_) | Problem::NoPackage => AccountRefusal::NoPackage,
            problem if problem.status().is_server_error() => AccountRefusal::NotNow,
            _ => AccountRefusal::ForeignForm,
        };
        refusal.into()
    }
}

impl From<LicenseChangeError> for AccountProblem {
    fn from(error: LicenseChangeError) -> Self {
        match error {
            LicenseChangeError::Change(ChangeError::Store(error)) => error.into(),
            LicenseChangeError::Revised => AccountRefusal::Faster.into(),
            LicenseChangeError::NoSuchLicense => AccountRefusal::NotFound.into(),
            LicenseChangeError::Change(ChangeError::Declared { .. }) => AccountRefusal::AskSeller.into(),
            _ => AccountRefusal::NotActive.into(),
        }
    }
}

impl From<StoreError> for AccountProblem {
    fn from(error: StoreError) -> Self {
        tracing::warn!(%error, "a page for customers could not use the store");
        AccountRefusal::NotNow.into()
    }
}

impl From<Busy> for AccountProblem {
    fn from(_: Busy) -> Self {
        AccountRefusal::NotNow.into()
    }
}

impl From<NotReleased> for AccountProblem {
    fn from(error: NotReleased) -> Self {
        let refusal = match error {
            NotReleased::Store(error) => return error.into(),
            NotReleased::License(_) => AccountRefusal::NotActive,
            NotReleased::Site(ReleaseRefusal::NoSeat) => AccountRefusal::NoSeat,
            NotReleased::Site(ReleaseRefusal::TooManyMoves) => AccountRefusal::NoMoves,
            NotReleased::Site(ReleaseRefusal::BoundByVendor) => AccountRefusal::SetSite,
            NotReleased::Site(ReleaseRefusal::NotBound | ReleaseRefusal::WrongSecret) => AccountRefusal::NotOnIt,
        };
        refusal.into()
    }
}
