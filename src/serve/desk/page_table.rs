//! The one table of the desk's pages: what is not here does not exist.

use warp::http::Method;

use countersign_model::desk_person::DeskRole;

/// A page, or what a form does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeskPage {
    SignIn,
    SendCode,
    Code,
    UseCode,
    MailLink,
    UseMailLink,
    Link,
    UseLink,
    SignOut,
    Today,
    Licenses,
    Export,
    NewLicense,
    Issue,
    License,
    Extend,
    Sites,
    Free,
    Move,
    Note,
    Modules,
    Assign,
    NewAddress,
    AskErase,
    Erase,
    MailKey,
    MailPage,
    AskSuspend,
    Suspend,
    Lift,
    AskNewKey,
    NewKey,
    Vouch,
    Unvouch,
    AskRevoke,
    Revoke,
    Sales,
    AskMatch,
    Match,
    TakeBack,
    AskDelivery,
    SayAddress,
    SayKey,
    Attach,
    RetryDelivery,
    DropDelivery,
    RetryMails,
    RetryMail,
    DropMail,
    Plugins,
    Plugin,
    Withhold,
    PauseRollout,
    ResumeRollout,
    FinishRollout,
    Releases,
    Sharing,
    Changes,
    Health,
    People,
    SignOutPerson,
}

/// What a request must have to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageAccess {
    /// Nothing.
    Anyone,
    /// A session of somebody with this role, or more.
    From(DeskRole),
}

/// How a page is asked for. HEAD is answered like GET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageMethod {
    Get,
    Post,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageRow {
    pub(super) page: DeskPage,
    pub(super) method: PageMethod,
    /// `{}` is one part of the path that is not empty.
    pub(super) path: &'static str,
    pub(super) access: PageAccess,
    /// Whether the form must say why.
    pub(super) needs_reason: bool,
}

const ANYONE: PageAccess = PageAccess::Anyone;
const READ: PageAccess = PageAccess::From(DeskRole::Read);
const SUPPORT: PageAccess = PageAccess::From(DeskRole::Support);
const ADMIN: PageAccess = PageAccess::From(DeskRole::Admin);

const GET: PageMethod = PageMethod::Get;
const POST: PageMethod = PageMethod::Post;

const fn row(page: DeskPage, method: PageMethod, path: &'static str, access: PageAccess) -> PageRow {
    PageRow {
        page,
        method,
        path,
        access,
        needs_reason: false,
    }
}

const fn with_reason(row: PageRow) -> PageRow {
    PageRow {
        needs_reason: true,
        ..row
    }
}

/// Every page of the desk. The style sheet and the icon stand beside it, for everybody.
pub(super) const PAGES: [PageRow; 61] = [
    row(DeskPage::SignIn, GET, "/sign-in", ANYONE),
    row(DeskPage::SendCode, POST, "/sign-in", ANYONE),
    row(DeskPage::Code, GET, "/sign-in/{}", ANYONE),
    row(DeskPage::UseCode, POST, "/sign-in/{}", ANYONE),
    row(DeskPage::MailLink, GET, "/mail-link/{}", ANYONE),
    row(DeskPage::UseMailLink, POST, "/mail-link/{}", ANYONE),
    row(DeskPage::Link, GET, "/link/{}", ANYONE),
    row(DeskPage::UseLink, POST, "/link/{}", ANYONE),
    row(DeskPage::SignOut, POST, "/sign-out", READ),
    row(DeskPage::Today, GET, "/", READ),
    row(DeskPage::Licenses, GET, "/licenses", READ),
    row(DeskPage::Export, GET, "/licenses.csv", ADMIN),
    row(DeskPage::NewLicense, GET, "/new-license", ADMIN),
    row(DeskPage::Issue, POST, "/new-license", ADMIN),
    row(DeskPage::License, GET, "/licenses/{}", READ),
    row(DeskPage::Extend, POST, "/licenses/{}/extend", SUPPORT),
    row(DeskPage::Sites, POST, "/licenses/{}/sites", SUPPORT),
    row(DeskPage::Free, POST, "/licenses/{}/free", SUPPORT),
    row(DeskPage::Move, POST, "/licenses/{}/move", SUPPORT),
    row(DeskPage::Note, POST, "/licenses/{}/note", SUPPORT),
    row(DeskPage::Modules, POST, "/licenses/{}/modules", ADMIN),
    row(DeskPage::Assign, POST, "/licenses/{}/assign", ADMIN),
    row(DeskPage::NewAddress, POST, "/licenses/{}/address", ADMIN),
    row(DeskPage::AskErase, GET, "/licenses/{}/erase-customer", ADMIN),
    with_reason(row(DeskPage::Erase, POST, "/licenses/{}/erase-customer", ADMIN)),
    row(DeskPage::MailKey, POST, "/licenses/{}/mail-key", SUPPORT),
    row(DeskPage::MailPage, POST, "/licenses/{}/mail-page", SUPPORT),
    row(DeskPage::AskSuspend, GET, "/licenses/{}/suspend", SUPPORT),
    with_reason(row(DeskPage::Suspend, POST, "/licenses/{}/suspend", SUPPORT)),
    row(DeskPage::Lift, POST, "/licenses/{}/lift", SUPPORT),
    row(DeskPage::AskNewKey, GET, "/licenses/{}/new-key", SUPPORT),
    with_reason(row(DeskPage::NewKey, POST, "/licenses/{}/new-key", SUPPORT)),
    row(DeskPage::Vouch, POST, "/licenses/{}/vouch", SUPPORT),
    row(DeskPage::Unvouch, POST, "/licenses/{}/unvouch", SUPPORT),
    row(DeskPage::AskRevoke, GET, "/licenses/{}/revoke", ADMIN),
    with_reason(row(DeskPage::Revoke, POST, "/licenses/{}/revoke", ADMIN)),
    row(DeskPage::Sales, GET, "/sales", READ),
    row(DeskPage::AskMatch, GET, "/sales/{}", SUPPORT),
    row(DeskPage::Match, POST, "/sales/{}/match", SUPPORT),
    with_reason(row(DeskPage::TakeBack, POST, "/sales/{}/take-back", SUPPORT)),
    row(DeskPage::AskDelivery, GET, "/deliveries/{}", SUPPORT),
    with_reason(row(DeskPage::SayAddress, POST, "/deliveries/{}/address", SUPPORT)),
    with_reason(row(DeskPage::SayKey, POST, "/deliveries/{}/key", SUPPORT)),
    with_reason(row(DeskPage::Attach, POST, "/deliveries/{}/attach", SUPPORT)),
    row(DeskPage::RetryDelivery, POST, "/deliveries/{}/retry", SUPPORT),
    row(DeskPage::DropDelivery, POST, "/deliveries/{}/drop", SUPPORT),
    row(DeskPage::RetryMails, POST, "/mails/retry", SUPPORT),
    row(DeskPage::RetryMail, POST, "/mails/{}/retry", SUPPORT),
    row(DeskPage::DropMail, POST, "/mails/{}/drop", SUPPORT),
    row(DeskPage::Plugins, GET, "/plugins", READ),
    row(DeskPage::Plugin, GET, "/plugins/{}", READ),
    row(DeskPage::Withhold, GET, "/plugins/{}/withhold", READ),
    with_reason(row(DeskPage::PauseRollout, POST, "/plugins/{}/pause", SUPPORT)),
    row(DeskPage::ResumeRollout, POST, "/plugins/{}/resume", SUPPORT),
    with_reason(row(DeskPage::FinishRollout, POST, "/plugins/{}/finish", ADMIN)),
    row(DeskPage::Releases, GET, "/releases", READ),
    row(DeskPage::Sharing, GET, "/sharing", READ),
    row(DeskPage::Changes, GET, "/changes", READ),
    row(DeskPage::Health, GET, "/health", READ),
    row(DeskPage::People, GET, "/people", READ),
    row(DeskPage::SignOutPerson, POST, "/people/{}/sign-out", ADMIN),
];

/// The row of a request, and the part of the path that names a thing.
pub(super) fn find<'p>(method: &Method, path: &'p str) -> Option<(&'static PageRow, &'p str)> {
    let method = match *method {
        Method::GET | Method::HEAD => PageMethod::Get,
        Method::POST => PageMethod::Post,
        _ => return None,
    };
    let of_method = PAGES.iter().filter(|row| row.method == method);
    of_method
        .into_iter()
        .find_map(|row| Some((row, named(row.path, path)?)))
}

/// The part of a path that `{}` matches; empty where the pattern has none. `None` if the path is another one.
fn named<'p>(pattern: &str, path: &'p str) -> Option<&'p str> {
    let Some((before, behind)) = pattern.split_once("{}") else {
        return (pattern == path).then_some("");
    };
    let name = path.strip_prefix(before)?.strip_suffix(behind)?;
    (!name.is_empty() && !name.contains('/')).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(method: Method, path: &str) -> Option<DeskPage> {
        find(&method, path).map(|(row, _)| row.page)
    }

    #[test]
    fn each_page_has_one_row_and_what_is_not_in_the_table_does_not_exist() {
        for (number, row) in PAGES.iter().enumerate() {
            let method = match row.method {
                PageMethod::Get => Method::GET,
                PageMethod::Post => Method::POST,
            };
            assert_eq!(page(method, &row.path.replace("{}", "x")), Some(row.page));
            let is_same =
                |other: &PageRow| other.page == row.page || (other.method, other.path) == (row.method, row.path);
            assert_eq!(
                PAGES[number + 1..].iter().filter(|other| is_same(other)).count(),
                0,
                "{}",
                row.path
            );
        }
        assert_eq!(page(Method::HEAD, "/"), Some(DeskPage::Today));
        assert_eq!(find(&Method::GET, "/licenses/x/suspend").unwrap().1, "x");
        for (method, path) in [
            (Method::POST, "/"),
            (Method::GET, "/sign-out"),
            (Method::GET, "/licenses/"),
            (Method::GET, "/licenses/x/"),
            (Method::GET, "/licenses/x/y/suspend"),
            (Method::GET, "/licenses//suspend"),
            (Method::GET, "//"),
            (Method::GET, ""),
            (Method::GET, "/Licenses"),
            (Method::PUT, "/licenses"),
            (Method::OPTIONS, "/"),
            (Method::GET, "/api/v1/licenses"),
        ] {
            assert_eq!(page(method.clone(), path), None, "{method} {path}");
        }
    }

    #[test]
    fn whoever_changes_something_has_a_role_for_it_and_the_gravest_need_a_reason() {
        for row in &PAGES {
            let may_all = ["/sign-in", "/sign-in/{}", "/mail-link/{}", "/link/{}"].contains(&row.path);
            assert_eq!(row.access == ANYONE, may_all, "{}", row.path);
            let changes = row.method == PageMethod::Post && !may_all && row.page != DeskPage::SignOut;
            assert!(!changes || row.access != READ, "{}", row.path);
            let is_grave = matches!(
                row.page,
                DeskPage::Suspend
                    | DeskPage::NewKey
                    | DeskPage::Revoke
                    | DeskPage::Erase
                    | DeskPage::PauseRollout
                    | DeskPage::FinishRollout
                    | DeskPage::TakeBack
                    | DeskPage::SayAddress
                    | DeskPage::SayKey
                    | DeskPage::Attach
            );
            assert_eq!(row.needs_reason, is_grave, "{}", row.path);
        }
    }
}
