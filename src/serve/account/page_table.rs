//! The one table of the pages for customers: what is not here does not exist.

use warp::http::Method;

/// A page, or what a form does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccountPage {
    Licenses,
    SignIn,
    SendCode,
    Code,
    UseCode,
    Link,
    UseLink,
    SignOut,
    Key,
    LookUp,
    License,
    AskMove,
    Move,
    MailKey,
    AskNewKey,
    NewKey,
    Downloads,
    Download,
    AskComposer,
    Composer,
}

impl AccountPage {
    /// Whether nobody needs to be signed in.
    pub(super) fn is_for_anyone(self) -> bool {
        matches!(
            self,
            Self::SignIn
                | Self::SendCode
                | Self::Code
                | Self::UseCode
                | Self::Link
                | Self::UseLink
                | Self::Key
                | Self::LookUp
        )
    }
}

/// The page of a request, whether it is a form, and the part of the path that names a thing.
pub(super) fn find<'p>(method: &Method, path: &'p str) -> Option<(AccountPage, bool, &'p str)> {
    use AccountPage as P;
    let is_post = match *method {
        Method::GET | Method::HEAD => false,
        Method::POST => true,
        _ => return None,
    };
    let inside = path
        .strip_prefix("/account")
        .filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
    let parts: Vec<&str> = inside.split('/').skip(1).collect();
    if parts.len() > 1 && parts.iter().any(|part| part.is_empty()) {
        return None;
    }
    let (page, name) = match (is_post, &parts[..]) {
        (false, [] | [""]) => (P::Licenses, ""),
        (false, ["sign-in"]) => (P::SignIn, ""),
        (true, ["sign-in"]) => (P::SendCode, ""),
        (false, ["sign-in", name]) => (P::Code, *name),
        (true, ["sign-in", name]) => (P::UseCode, *name),
        (false, ["link", name]) => (P::Link, *name),
        (true, ["link", name]) => (P::UseLink, *name),
        (true, ["sign-out"]) => (P::SignOut, ""),
        (false, ["key"]) => (P::Key, ""),
        (true, ["key"]) => (P::LookUp, ""),
        (false, ["licenses", name]) => (P::License, *name),
        (false, ["licenses", name, "move"]) => (P::AskMove, *name),
        (true, ["licenses", name, "move"]) => (P::Move, *name),
        (true, ["licenses", name, "mail-key"]) => (P::MailKey, *name),
        (false, ["licenses", name, "new-key"]) => (P::AskNewKey, *name),
        (true, ["licenses", name, "new-key"]) => (P::NewKey, *name),
        (false, ["licenses", name, "download"]) => (P::Downloads, *name),
        (true, ["licenses", name, "download"]) => (P::Download, *name),
        (false, ["licenses", name, "composer"]) => (P::AskComposer, *name),
        (true, ["licenses", name, "composer"]) => (P::Composer, *name),
        _ => return None,
    };
    Some((page, is_post, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_in_the_table_does_not_exist() {
        let page = |method, path| find(&method, path).map(|(page, ..)| page);
        for path in ["/account", "/account/"] {
            assert_eq!(page(Method::HEAD, path), Some(AccountPage::Licenses));
        }
        assert_eq!(find(&Method::GET, "/account/licenses/x/move").unwrap().2, "x");
        for (method, path) in [
            (Method::POST, "/account"),
            (Method::GET, "/account/sign-out"),
            (Method::GET, "/accounts"),
            (Method::GET, "/account/licenses"),
            (Method::GET, "/account/licenses/"),
            (Method::GET, "/account/licenses//move"),
            (Method::GET, "/account//sign-in"),
            (Method::GET, "/account/sign-in/"),
            (Method::GET, "/account/licenses/x/y/move"),
            (Method::PUT, "/account/sign-in"),
            (Method::OPTIONS, "/account"),
            (Method::GET, "/"),
        ] {
            assert_eq!(page(method.clone(), path), None, "{method} {path}");
        }
    }

    #[test]
    fn who_changes_something_is_signed_in() {
        for path in ["move", "mail-key", "new-key", "download", "composer"] {
            let (page, is_post, _) = find(&Method::POST, &format!("/account/licenses/x/{path}")).unwrap();
            assert!(is_post && !page.is_for_anyone());
        }
    }
}
