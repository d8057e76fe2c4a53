//! Addresses of a shop's pages on which a license is renewed or upgraded. `{token}` in them is where the license's renewal token goes.

use std::fmt;
use std::str::FromStr;

use url::Url;

use crate::renewal_token::RenewalToken;

/// Where the token goes.
const TOKEN: &str = "{token}";

/// The most bytes of an address. Browsers and mail programs take 2,000.
const MAX: usize = 1_500;

/// An address, such as `https://buy.stripe.com/abc?client_reference_id={token}`. Without `{token}`, it is the same for all licenses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShopLink(String);

/// Why a text is not such an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAShopLink {
    /// It is longer than [`MAX`].
    #[error("an address has at most {MAX} characters")]
    Long,
    /// It is no address of the web with TLS.
    #[error("expected an address such as \"https://shop.example/renew?license={{token}}\"")]
    NotHttps,
    /// It has another placeholder, or the same one twice.
    #[error("the one placeholder is {{token}}, at most once, behind the host")]
    Placeholder,
    /// It has a name or a password.
    #[error("an address that customers see has no user name and no password")]
    Credentials,
}

impl FromStr for ShopLink {
    type Err = NotAShopLink;

    fn from_str(text: &str) -> Result<Self, NotAShopLink> {
        if text.len() > MAX {
            return Err(NotAShopLink::Long);
        }
        let is_printable = text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\');
        let (before, after) = text.split_once(TOKEN).unwrap_or((text, ""));
        let whole = [before, after].concat();
        let url = Url::parse(&whole).map_err(|_| NotAShopLink::NotHttps)?;
        if !is_printable || url.scheme() != "https" || url.host().is_none() {
            return Err(NotAShopLink::NotHttps);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(NotAShopLink::Credentials);
        }
        let authority = before.strip_prefix("https://").ok_or(NotAShopLink::NotHttps)?;
        let is_behind_host = whole.len() == text.len() || authority.contains(['/', '?', '#']);
        if whole.contains(['{', '}']) || !is_behind_host {
            return Err(NotAShopLink::Placeholder);
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for ShopLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl ShopLink {
    /// The address for a license with this token; `None` if it needs one and there is none.
    // SECURITY: a token has letters, digits and `-` only, so that nothing of it is escaped or ends a part of the address.
    pub fn with(&self, token: Option<RenewalToken>) -> Option<String> {
        match (self.0.split_once(TOKEN), token) {
            (None, _) => Some(self.0.clone()),
            (Some((before, after)), Some(token)) => Some([before, &token.reveal(), after].concat()),
            (Some(_), None) => None,
        }
    }
}

/// Where licenses are renewed and upgraded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShopLinks {
    /// For the same again.
    pub renew: Option<ShopLink>,
    /// For something else.
    pub upgrade: Option<ShopLink>,
}

/// The addresses for one license.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LicenseLinks {
    /// What is bought with it is bought for the license.
    pub token: Option<RenewalToken>,
    /// Where the license is renewed; `None` if its shop does so by itself, or it has no end.
    pub renew: Option<String>,
    /// Where something else is bought for it.
    pub upgrade: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::download_key::DownloadKey;
    use crate::license_key::LicenseId;

    fn link(text: &str) -> Result<ShopLink, NotAShopLink> {
        text.parse()
    }

    #[test]
    fn the_token_takes_the_place_of_the_placeholder() {
        let token = RenewalToken::new(&DownloadKey::new(&[7; 32]), &LicenseId::from_bytes([1; 32]));
        for (text, before, after) in [
            ("https://buy.example/x?ref={token}", "https://buy.example/x?ref=", ""),
            (
                "https://buy.example/{token}/now#top",
                "https://buy.example/",
                "/now#top",
            ),
            (
                "https://buy.example?checkout[custom][countersign]={token}&a=b",
                "https://buy.example?checkout[custom][countersign]=",
                "&a=b",
            ),
        ] {
            let link = link(text).unwrap();
            assert_eq!(
                link.with(Some(token)).unwrap(),
                format!("{before}{}{after}", token.reveal())
            );
            assert_eq!(link.with(None), None);
        }
        let fixed = link("https://shop.example/account").unwrap();
        assert_eq!(fixed.with(None).as_deref(), Some("https://shop.example/account"));
    }

    #[test]
    fn what_a_customer_must_not_click_is_refused() {
        for (text, why) in [
            ("http://shop.example/{token}", NotAShopLink::NotHttps),
            ("javascript:alert(1)", NotAShopLink::NotHttps),
            ("https:shop.example", NotAShopLink::NotHttps),
            ("HTTPS://shop.example/", NotAShopLink::NotHttps),
            ("shop.example/{token}", NotAShopLink::NotHttps),
            ("https://", NotAShopLink::NotHttps),
            ("https://shop.example/a b", NotAShopLink::NotHttps),
            ("https://shop.example/\u{202e}", NotAShopLink::NotHttps),
            ("https://shop.example/\"onclick", NotAShopLink::NotHttps),
            ("https://shop.example/{token}{token}", NotAShopLink::Placeholder),
            ("https://shop.example/{email}", NotAShopLink::Placeholder),
            ("https://{token}.shop.example/", NotAShopLink::Placeholder),
            ("https://shop.example{token}", NotAShopLink::Placeholder),
            ("https://me:secret@shop.example/", NotAShopLink::Credentials),
        ] {
            assert_eq!(link(text), Err(why), "{text}");
        }
        assert_eq!(
            link(&format!("https://shop.example/{}", "a".repeat(MAX))),
            Err(NotAShopLink::Long)
        );
    }
}
