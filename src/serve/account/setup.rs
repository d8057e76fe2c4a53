//! What the customer's pages share.

use std::sync::Arc;

use bytes::Bytes;
use warp::http::{HeaderMap, header};

use crate::serve::account::words::AccountTexts;
use crate::serve::pages::answer::STYLE;
use crate::serve::pages::form::PageOrigin;
use crate::serve::pages::mail_sign_in::SignInCounts;
use crate::serve::pages::scan_turn::ScanTurn;
use countersign_mail::account::MailAccount;
use countersign_model::digest::Digest;
use countersign_settings::config::{AccountConfig, PublicUrl};

/// What the pages for customers share.
pub struct AccountSetup {
    pub(super) config: AccountConfig,
    /// By which address people reach the pages.
    pub(super) origin: PageOrigin,
    pub(super) texts: AccountTexts,
    /// Who sends mails to customers that sign in.
    pub(super) mail: Arc<MailAccount>,
    /// For which addresses mails were asked, known or not.
    pub(super) asked: SignInCounts,
    /// Which known customers got mails.
    pub(super) mailed: SignInCounts,
    /// Which customers had a key be mailed again.
    pub(super) mailed_keys: SignInCounts,
    /// How often codes were tried.
    pub(super) sign_ins: SignInCounts,
    pub(super) scans: ScanTurn,
    /// The style sheet with the vendor's color, and its path.
    pub(super) style: (String, Bytes),
}

impl AccountSetup {
    /// The pages of this vendor; `None` if nobody knows by which address they are reached.
    pub(in crate::serve) fn new(
        config: AccountConfig,
        public_url: Option<&PublicUrl>,
        texts: AccountTexts,
        mail: MailAccount,
    ) -> Option<Self> {
        let origin = match &config.url {
            Some(url) => url.origin().to_owned(),
            None => url::Url::parse(public_url?.as_str())
                .ok()?
                .origin()
                .ascii_serialization(),
        };
        let style = style(config.color);
        Some(Self {
            origin: PageOrigin {
                is_https: origin.starts_with("https://"),
                origin,
            },
            config,
            texts,
            mail: Arc::new(mail),
            asked: SignInCounts::default(),
            mailed: SignInCounts::default(),
            mailed_keys: SignInCounts::default(),
            sign_ins: SignInCounts::default(),
            scans: ScanTurn::default(),
            style,
        })
    }

    /// The address of the first page.
    pub(in crate::serve) fn url(&self) -> String {
        format!("{}/account", self.origin.origin)
    }

    /// Whether a request is for these pages: by its path, and by its host if they have one of their own.
    pub(in crate::serve) fn is_asked(&self, path: &str, headers: &HeaderMap) -> bool {
        let is_inside = path
            .strip_prefix("/account")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        match &self.config.url {
            None => is_inside,
            Some(url) => {
                let host = headers
                    .get(header::HOST)
                    .and_then(|host| host.to_str().ok())
                    .unwrap_or_default();
                let is_own = host
                    .strip_suffix(":443")
                    .unwrap_or(host)
                    .eq_ignore_ascii_case(url.authority());
                is_own && (is_inside || path == "/")
            }
        }
    }
}

/// The style sheet with this color for what can be clicked, and its path, which has the digest of the sheet.
fn style(color: Option<[u8; 3]>) -> (String, Bytes) {
    let mut sheet = STYLE.as_bytes().to_vec();
    if let Some(color) = color {
        // For a dark page it is made lighter.
        let [light, dark] = [color, color.map(|part| part / 2 + 127)].map(|color| (hex(color), hex(ink_on(color))));
        let own = format!(
            ":root{{--accent:light-dark({},{});--accent-ink:light-dark({},{})}}\n",
            light.0, dark.0, light.1, dark.1
        );
        sheet.extend(own.into_bytes());
    }
    let digest = Digest::of(&sheet).to_string();
    (format!("/account/style-{}.css", &digest[..16]), sheet.into())
}

/// Black or white, whichever differs more: the contrast of WCAG 2, with the usual approximation of the luminance.
fn ink_on([red, green, blue]: [u8; 3]) -> [u8; 3] {
    let linear = |part: u8| (f64::from(part) / 255.0).powf(2.2);
    let luminance = 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
    // Where (1 + 0.05) / (l + 0.05) is (l + 0.05) / 0.05.
    if luminance > 0.179 { [0; 3] } else { [255; 3] }
}

fn hex([red, green, blue]: [u8; 3]) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_color_of_the_vendor_has_ink_that_can_be_read_on_it() {
        assert_eq!(
            [[255, 255, 0], [0, 0, 0], [200, 0, 0]].map(ink_on),
            [[0; 3], [255; 3], [255; 3]]
        );
        let (path, sheet) = style(Some([0xC8, 0, 0]));
        let plain = style(None);
        assert!(path != plain.0 && sheet.len() > plain.1.len());
        let sheet = str::from_utf8(&sheet).unwrap();
        assert!(
            sheet.ends_with(":root{--accent:light-dark(#c80000,#e37f7f);--accent-ink:light-dark(#ffffff,#000000)}\n"),
            "{}",
            &sheet[sheet.len() - 120..]
        );
    }
}
