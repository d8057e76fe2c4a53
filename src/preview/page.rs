//! The page: a [`VersionView`] in the templates of `templates/`, which escape everything that is not marked as HTML.

mod address;
mod list;
mod version;

use askama::Template;

use crate::build::{PluginState, Remark};
use crate::preview::compare::LineChange;
use crate::preview::license_mail::LicenseMail;
use crate::preview::site::{Level, PluginRow};
use crate::preview::snapshot::{PreviewSnapshot, Previewed};
use crate::preview::target::Target;
use crate::preview::view::VersionView;
pub use address::{Address, Tab};
use list::{LeftOut, PluginLink, VersionLink};
use version::VersionBody;

/// The title of the page with the mail.
const MAIL_TITLE: &str = "License mail";

#[derive(Template)]
#[template(path = "page.html")]
struct Page<'a> {
    stamp: &'a str,
    title: String,
    problems: &'a [String],
    assumptions: Vec<String>,
    plugins: Vec<PluginLink>,
    versions: Vec<VersionLink>,
    left_out: Vec<LeftOut>,
    /// Whether there is a mail to show, and whether it is this page.
    has_mail: bool,
    is_mail: bool,
    body: Body<'a>,
}

enum Body<'a> {
    /// There is nothing to show, or the requested item is missing.
    Nothing {
        message: &'static str,
        is_absent: bool,
    },
    /// The plugin cannot be read.
    Broken {
        name: String,
        lines: Vec<String>,
    },
    /// The version would not be a release.
    Refused {
        name: String,
        origin: &'static str,
        remark: &'a Remark,
    },
    Version(Box<VersionBody<'a>>),
    /// The mail to a buyer.
    Mail(&'a LicenseMail),
}

/// A page.
pub struct RenderedPage {
    /// All of it.
    pub html: String,
    /// Whether the requested item exists.
    pub is_found: bool,
}

/// The whole page. `stamp` names the snapshot.
pub fn render(
    snapshot: &PreviewSnapshot,
    target: &Target,
    address: &Address,
    stamp: &str,
) -> Result<RenderedPage, askama::Error> {
    let plugin = match &address.plugin {
        Some(slug) => snapshot.plugin(slug),
        None => snapshot.plugins.first(),
    };
    let look = plugin.and_then(|plugin| VersionView::at(plugin, target.releases.as_deref(), &address.selection));
    let pick = look.as_ref().map(|look| look.pick.clone());
    let versions = plugin
        .map(|plugin| list::versions(plugin, address, pick.as_ref()))
        .unwrap_or_default();
    let left_out = plugin.map(|plugin| list::left_out(plugin)).unwrap_or_default();
    let body = body(plugin.map(|plugin| &**plugin), look, address);
    let title = match &body {
        Body::Version(body) => format!("{} {}", body.name, body.manifest.version),
        Body::Broken { name, .. } | Body::Refused { name, .. } => name.clone(),
        Body::Nothing { .. } => "Nothing to show".to_owned(),
        Body::Mail(_) => MAIL_TITLE.to_owned(),
    };
    Page {
        stamp,
        title,
        problems: &snapshot.problems,
        assumptions: target.assumptions(),
        plugins: snapshot
            .plugins
            .iter()
            .map(|known| list::plugin(known, plugin.is_some_and(|plugin| std::ptr::eq(&**plugin, &**known))))
            .collect(),
        versions,
        left_out,
        has_mail: snapshot.mail.is_some(),
        is_mail: false,
        body,
    }
    .rendered()
}

/// The page with the mail to a buyer. Without an instance there is none.
pub fn render_mail(snapshot: &PreviewSnapshot, target: &Target, stamp: &str) -> Result<RenderedPage, askama::Error> {
    let nothing = Body::Nothing {
        message: "Without an instance there is no mail.",
        is_absent: true,
    };
    Page {
        stamp,
        title: MAIL_TITLE.to_owned(),
        problems: &snapshot.problems,
        assumptions: target.assumptions(),
        plugins: snapshot
            .plugins
            .iter()
            .map(|known| list::plugin(known, false))
            .collect(),
        versions: Vec::new(),
        left_out: Vec::new(),
        has_mail: snapshot.mail.is_some(),
        is_mail: true,
        body: snapshot.mail.as_ref().map_or(nothing, Body::Mail),
    }
    .rendered()
}

impl Page<'_> {
    fn rendered(&self) -> Result<RenderedPage, askama::Error> {
        Ok(RenderedPage {
            html: self.render()?,
            is_found: !matches!(self.body, Body::Nothing { is_absent: true, .. }),
        })
    }
}

fn body<'a>(plugin: Option<&'a Previewed>, look: Option<VersionView<'a>>, address: &Address) -> Body<'a> {
    let nothing = |message| Body::Nothing {
        message,
        is_absent: false,
    };
    let absent = |message| Body::Nothing {
        message,
        is_absent: true,
    };
    let Some(plugin) = plugin else {
        return match address.plugin {
            Some(_) => absent("There is no such plugin."),
            None => nothing("There is no plugin in registry/plugins yet. Its README.md has an example to start from."),
        };
    };
    let name = list::name(plugin);
    if let PluginState::Broken(lines) = &plugin.draft.tagged.report.state {
        return Body::Broken {
            name,
            lines: lines.clone(),
        };
    }
    match look {
        None if plugin.draft.tagged.report.state == PluginState::NoSource => {
            nothing("The entry has no repository, so nothing of this plugin is published.")
        }
        None if address
            .selection
            .version
            .as_ref()
            .is_some_and(|version| !version.is_empty()) =>
        {
            absent("There is no such version.")
        }
        None => nothing("The repository has no release, and nothing that could become one."),
        Some(VersionView {
            pick,
            release: Err(remark),
            ..
        }) => Body::Refused {
            name,
            origin: pick.label(),
            remark,
        },
        Some(VersionView {
            pick,
            release: Ok(rendered),
            site,
        }) => Body::Version(Box::new(VersionBody::of(plugin, &pick, rendered, site, address))),
    }
}
