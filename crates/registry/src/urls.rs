//! The URLs in a plugin entry: of its repository, its downloads and its pages.

use std::path::{Component, Path, PathBuf};

use url::{Host, Url};

use countersign_model::plugin::RepositoryLocation;

/// The placeholders of `download_url`.
const PLACEHOLDERS: [&str; 3] = ["{slug}", "{version}", "{tag}"];

/// Schemes that git can fetch with.
const GIT_SCHEMES: [&str; 5] = ["https", "http", "ssh", "git", "file"];

/// Parses `repository`: a URL, git's short form of one (`git@host:path`), or a path relative to the entry's folder.
pub(super) fn repository(text: &str, folder: &Path) -> Result<RepositoryLocation, String> {
    if text.is_empty() {
        return Err("must not be empty: leave it out if there is no source".into());
    }
    if text.chars().any(char::is_control) {
        return Err("contains a control character".into());
    }
    let long = match text.split_once(':') {
        _ if text.contains("://") => text.to_owned(),
        Some((place, path)) if place.contains('@') && !place.contains('/') => {
            format!("ssh://{place}/{}", path.trim_start_matches('/'))
        }
        _ => return Ok(RepositoryLocation::Folder(normalize(&folder.join(text)))),
    };
    let url = Url::parse(&long).map_err(|error| format!("is not a URL: {error}"))?;
    if !GIT_SCHEMES.contains(&url.scheme()) {
        return Err(format!("must be a URL with one of {}", GIT_SCHEMES.join(", ")));
    }
    // SECURITY: the registry is in git, so a token would be in every clone. The message does not show it.
    if url.password().is_some() || url.scheme() != "ssh" && !url.username().is_empty() {
        return Err("must not contain a user name or password".into());
    }
    // SECURITY: tokens may be there, too, and git prints the URL when it fails.
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must not contain a query ('?') or a fragment ('#')".into());
    }
    Ok(RepositoryLocation::Url(url))
}

/// Removes `.` and `..` without access to the disk.
fn normalize(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if matches!(normal.components().next_back(), Some(Component::Normal(_))) => {
                normal.pop();
            }
            Component::ParentDir if normal.has_root() => {}
            other => normal.push(other),
        }
    }
    if normal.as_os_str().is_empty() {
        ".".into()
    } else {
        normal
    }
}

/// Checks `download_url`: an https URL once its placeholders are filled in.
pub(super) fn download_url(text: &str) -> Result<(), String> {
    let sample = PLACEHOLDERS
        .iter()
        .fold(text.to_owned(), |text, placeholder| text.replace(placeholder, "1"));
    if let Some(start) = sample.find(['{', '}']) {
        let name = &sample[start..sample[start..].find('}').map_or(sample.len(), |end| start + end + 1)];
        return Err(format!(
            "has the unknown placeholder {name:?}: expected {}",
            PLACEHOLDERS.join(", ")
        ));
    }
    let url = web_url(&sample)?;
    // SECURITY: a tag's name must not choose the host a site downloads from.
    let authority = text
        .split_once("://")
        .map_or(text, |(_, rest)| rest)
        .split(['/', '?', '#'])
        .next()
        .unwrap_or(text);
    if authority.contains('{') {
        return Err("must not contain a placeholder in its host".into());
    }
    let loopback = match url.host() {
        Some(Host::Domain(domain)) => domain == "localhost" || domain.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    if url.scheme() == "https" || loopback {
        Ok(())
    } else {
        Err("must begin with https://".into())
    }
}

/// Parses an `http` or `https` URL.
pub(super) fn web_url(text: &str) -> Result<Url, String> {
    // The parser would drop or encode these, but the text is published as it is.
    if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
        return Err("contains a space, a control character or a backslash".into());
    }
    let url = Url::parse(text).map_err(|error| format!("is not a URL: {error}"))?;
    if matches!(url.scheme(), "http" | "https") {
        Ok(url)
    } else {
        Err("must begin with https:// or http://".into())
    }
}

/// Parses a path inside a repository: relative, with `/`, without `.` and `..`; a final `/` is dropped.
pub(super) fn path_inside(text: &str) -> Result<String, String> {
    let path = text.strip_suffix('/').unwrap_or(text);
    let plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(|c: char| c == '\\' || c.is_control());
    if path.split('/').all(plain) {
        Ok(path.to_owned())
    } else {
        Err("must be a relative path with '/', without '.', '..' and '\\'".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_a_url_only_where_it_looks_like_one() {
        let read = |text| match repository(text, Path::new("registry/plugins")) {
            Ok(RepositoryLocation::Folder(path)) => path.display().to_string(),
            Ok(RepositoryLocation::Url(url)) => url.to_string(),
            Err(reason) => format!("!{reason}"),
        };
        for (text, expected) in [
            ("../../../acme-forms", "../acme-forms"),
            ("../..", "."),
            ("./acme:forms", "registry/plugins/acme:forms"),
            ("/srv/git/../acme.git", "/srv/acme.git"),
            ("/../acme", "/acme"),
            ("https://example.com/acme.git", "https://example.com/acme.git"),
            ("git@example.com:acme/forms.git", "ssh://git@example.com/acme/forms.git"),
            ("ssh://git@example.com:22/acme", "ssh://git@example.com:22/acme"),
            ("file:///srv/acme", "file:///srv/acme"),
            (
                "ext::sh -c id://",
                "!must be a URL with one of https, http, ssh, git, file",
            ),
            (
                "https://token@example.com/acme",
                "!must not contain a user name or password",
            ),
            (
                "ssh://git:secret@example.com/acme",
                "!must not contain a user name or password",
            ),
            (
                "https://example.com/acme?token=secret",
                "!must not contain a query ('?') or a fragment ('#')",
            ),
            (
                "https://example.com/acme#secret",
                "!must not contain a query ('?') or a fragment ('#')",
            ),
            (
                "git@example.com:acme?secret",
                "!must not contain a query ('?') or a fragment ('#')",
            ),
            (
                "file:///srv/acme?",
                "!must not contain a query ('?') or a fragment ('#')",
            ),
            ("../what?#", "registry/what?#"),
            ("", "!must not be empty: leave it out if there is no source"),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn a_download_url_is_https_with_known_placeholders_behind_its_host() {
        for good in [
            "https://example.com/{slug}-{version}.zip",
            "https://example.com/get?tag={tag}",
            "https://example.com/latest.zip",
            "http://localhost:8000/{version}.zip",
            "http://127.0.0.1/{tag}",
            "http://[::1]/{tag}",
        ] {
            assert_eq!(download_url(good), Ok(()), "{good}");
        }
        for (bad, reason) in [
            ("http://example.com/{version}.zip", "must begin with https://"),
            (
                "https://example.com/{ver}.zip",
                "has the unknown placeholder \"{ver}\": expected {slug}, {version}, {tag}",
            ),
            (
                "https://example.com/{version",
                "has the unknown placeholder \"{version\": expected {slug}, {version}, {tag}",
            ),
            (
                "https://{tag}.example.com/",
                "must not contain a placeholder in its host",
            ),
            ("/files/{version}.zip", "is not a URL: relative URL without a base"),
            ("ftp://example.com/", "must begin with https:// or http://"),
            (
                "https://example.com/a b",
                "contains a space, a control character or a backslash",
            ),
        ] {
            assert_eq!(download_url(bad), Err(reason.to_owned()), "{bad}");
        }
    }

    #[test]
    fn a_path_inside_a_repository_stays_inside() {
        assert_eq!(path_inside("plugins/acme/"), Ok("plugins/acme".into()));
        for bad in ["", "/", "/etc", "../x", "a/../b", "a//b", ".", "a\\b", "a\nb"] {
            assert!(path_inside(bad).is_err(), "{bad:?}");
        }
    }
}
