//! Checks the base URL of links to packages. `doctor` does not see the server's flags.

use crate::commands::doctor::finding::{Finding, broken, ok, warning};
use crate::serve::reload::error::{LoadError, PUBLIC_URL_HINT};
use countersign_settings::config::ServeConfig;

/// The server's public URL, if it has packages.
pub(super) fn findings(serve: &ServeConfig) -> Finding {
    let Some(url) = serve.links_begin_with() else {
        let error = LoadError::NoPublicUrl;
        return broken(
            "links",
            format!("a server does not start: {error}"),
            Some(PUBLIC_URL_HINT.to_owned()),
        );
    };
    match url.port_wordpress_refuses() {
        Some(port) => warning(
            "links",
            format!("links to packages begin with {url}, and WordPress downloads nothing from port {port}"),
            "use port 80, 443 or 8080 in public_url",
        ),
        None => ok("links", format!("links to packages begin with {url}")),
    }
}
