//! The list of licenses as a CSV file, with the filters of the page. It is made while it is sent.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::StreamBody;
use hyper::body::Frame;
use tokio::sync::mpsc;

use crate::serve::desk::asked::Asked;
use crate::serve::desk::license_rows::LicenseNames;
use crate::serve::desk::licenses_page::{self, RunningSites};
use crate::serve::desk::terms_form::modules_text;
use crate::serve::found_license::{self, FoundLicense};
use crate::serve::pages::answer::PageAnswer;
use crate::serve::pages::form::FormFields;
use crate::serve::pages::page_problem::PageProblem;
use crate::serve::reply::body::ReplyBody;
use crate::serve::reply::response::ContentType;
use countersign_model::binding::Stored as _;
use countersign_model::license::License;
use countersign_model::license_key::LicenseId;
use countersign_model::site_host::SiteHost;

const CSV: ContentType = ContentType("text/csv; charset=utf-8");

const HEADINGS: &str = "license,state,modules,sites,used,ends,renews,issued,customer,address,order,hosts\r\n";

/// How many licenses a piece of the file has.
const PIECE: usize = 500;

/// How many pieces are made ahead of the browser.
const AHEAD: usize = 2;

/// The file.
pub(super) async fn file(asked: &Asked<'_>) -> Result<PageAnswer, PageProblem> {
    let (ids, running) = licenses_page::all_matching(asked).await?;
    let (sender, mut receiver) = mpsc::channel::<Bytes>(AHEAD);
    let count = ids.len();
    tracing::info!(licenses = count, by = "operator:desk", "exports licenses");
    let state = Arc::clone(asked.state);
    let visitor = asked.visitor.clone();
    let secrets = Arc::clone(asked.secrets);
    let snapshot = Arc::clone(asked.snapshot);
    let now = asked.now;
    tokio::spawn(async move {
        let asked = Asked {
            state: &state,
            visitor: &visitor,
            secrets: &secrets,
            snapshot: &snapshot,
            fields: &FormFields::default(),
            name: "",
            now,
        };
        if sender.send(Bytes::from_static(HEADINGS.as_bytes())).await.is_err() {
            return;
        }
        for ids in ids.chunks(PIECE) {
            let Ok(lines) = lines(&asked, ids, running.as_deref()).await else {
                // The browser sees a file that ends early: the last line says so.
                let _ = sender
                    .send(Bytes::from_static(
                        b"\"the store did not answer: the file is not whole\"\r\n",
                    ))
                    .await;
                return;
            };
            // Nobody waits for it any more.
            if sender.send(lines.into()).await.is_err() {
                return;
            }
        }
    });
    let pieces = stream::poll_fn(move |cx| {
        receiver
            .poll_recv(cx)
            .map(|piece| piece.map(|piece| Ok::<_, std::convert::Infallible>(Frame::data(piece))))
    });
    Ok(PageAnswer::Download {
        kind: CSV,
        name: format!("licenses-{}.csv", asked.today()),
        body: ReplyBody::read_while_sent(StreamBody::new(pieces)),
    })
}

/// The lines of these licenses. Their hosts are those of `running`, or else all that have a seat.
async fn lines(asked: &Asked<'_>, ids: &[LicenseId], running: Option<&RunningSites>) -> Result<String, PageProblem> {
    let gate = &asked.state.service.gate;
    let bindings = gate.bindings();
    let found = ids
        .iter()
        .filter_map(|id| found_license::find(&asked.snapshot.registry, bindings, id));
    let found: Vec<_> = found.collect();
    let names = LicenseNames::of(asked, &found).await?;
    let mut lines = String::new();
    for found in &found {
        let license: &License = found;
        let row = names.row(license);
        let bound = bindings.of(&license.id);
        let used = license.used_seats(&bound, &gate.rules().staging);
        let hosts: Vec<&str> = match running {
            Some(running) => running
                .get(&license.id)
                .into_iter()
                .flatten()
                .map(SiteHost::as_str)
                .collect(),
            None => {
                let held = bound.all().iter().filter(|binding| !license.is_void(binding));
                held.map(|binding| binding.host.as_str()).collect()
            }
        };
        let issued = match found {
            FoundLicense::Ledger(issued) => issued.origin.issued.format("%Y-%m-%dT%H:%M:%SZ").to_string(),
            FoundLicense::Declared(_) => String::new(),
        };
        let text = |text: Option<Box<str>>| text.map(String::from).unwrap_or_default();
        let (customer, address) = row.map_or_else(Default::default, |row| (text(row.name), text(row.address)));
        let fields = [
            license.id.to_string(),
            licenses_page::state_word(license, asked.today()).to_owned(),
            modules_text(&license.modules),
            license.sites.to_string(),
            used.to_string(),
            license.expires.to_string(),
            if license.renews() { "yes" } else { "no" }.to_owned(),
            issued,
            customer,
            address,
            names.order_text(found).unwrap_or_default().to_owned(),
            hosts.join(" "),
        ];
        lines += &fields.map(|value| csv_field(&value)).join(",");
        lines += "\r\n";
    }
    Ok(lines)
}

/// A field of the file (RFC 4180).
// SECURITY: a spreadsheet takes what begins with one of these for a formula. Customers choose their names.
fn csv_field(value: &str) -> String {
    let mark = if value.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        "'"
    } else {
        ""
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-.:_@ ".contains(&byte);
    match mark.is_empty() && value.bytes().all(is_plain) {
        true => value.to_owned(),
        false => format!("\"{mark}{}\"", value.replace('"', "\"\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_field_is_a_formula_or_ends_early() {
        for (value, written) in [
            ("anna@example.com", "anna@example.com"),
            ("", ""),
            ("=1+1", "\"'=1+1\""),
            ("@sum", "\"'@sum\""),
            ("\tx", "\"'\tx\""),
            ("\rx", "\"'\rx\""),
            ("-1", "\"'-1\""),
            ("+49", "\"'+49\""),
            ("a, \"b\"\n", "\"a, \"\"b\"\"\n\""),
            ("Ünal", "\"Ünal\""),
        ] {
            assert_eq!(csv_field(value), written);
        }
    }
}
