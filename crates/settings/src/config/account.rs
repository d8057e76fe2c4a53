//! Table `[account]`: the customer's page, in the vendor's name.

use url::Url;

use crate::config::desk::{DeskUrl, DeskUrlSetting};
use crate::config::tables::settings_table;
use crate::config::value::Setting;

/// The longest name, path and address in bytes.
const MAX_LENGTH: usize = 200;

settings_table! {
    /// Table `[account]`.
    AccountSettings {
        name: AccountName,
        color: AccountColor,
        logo: AccountLogo,
        support: AccountSupport,
        billing: AccountBilling,
        url: DeskUrlSetting,
    }
}

/// The setting `name`.
#[derive(Clone, Debug)]
struct AccountName(String);

impl Setting for AccountName {
    const EXPECTED: &'static str =
        "expected the name that customers know you by, of at most 200 bytes, or an empty text for no page";

    fn from_text(text: &str) -> Option<Self> {
        let is_plain = text.len() <= MAX_LENGTH && !text.chars().any(char::is_control);
        is_plain.then(|| Self(text.trim().to_owned()))
    }
}

/// The setting `color`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AccountColor(Option<[u8; 3]>);

impl Setting for AccountColor {
    const EXPECTED: &'static str = "expected a color such as \"#17615a\"";

    fn from_text(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self(None));
        }
        let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6)?;
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
        let [_, red, green, blue] = number.to_be_bytes();
        Some(Self(Some([red, green, blue])))
    }
}

/// The setting `logo`.
#[derive(Clone, Debug)]
struct AccountLogo(String);

impl Setting for AccountLogo {
    const EXPECTED: &'static str = "expected the path of a picture in the public folder, such as \"logo.svg\"";

    fn from_text(text: &str) -> Option<Self> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        let has_parts = || text.split('/').all(|part| !part.is_empty() && !part.starts_with('.'));
        let is_path = text.is_empty() || text.len() <= MAX_LENGTH && text.chars().all(is_plain) && has_parts();
        is_path.then(|| Self(text.to_owned()))
    }
}

/// The setting `support`.
#[derive(Clone, Debug)]
struct AccountSupport(String);

impl Setting for AccountSupport {
    const EXPECTED: &'static str =
        "expected a mail address or an https address where customers ask, such as \"help@example.com\"";

    fn from_text(text: &str) -> Option<Self> {
        let is_mail = || {
            let is_part = |part: &str| {
                !part.is_empty()
                    && part
                        .bytes()
                        .all(|byte| byte.is_ascii_alphanumeric() || b".+-_".contains(&byte))
            };
            text.split_once('@')
                .is_some_and(|(local, domain)| is_part(local) && is_part(domain))
        };
        let is_one = text.is_empty() || is_page(text) || is_short(text) && is_mail();
        is_one.then(|| Self(text.to_owned()))
    }
}

/// The setting `billing`.
#[derive(Clone, Debug)]
struct AccountBilling(String);

impl Setting for AccountBilling {
    const EXPECTED: &'static str = "expected the https address of your shop's page where customers manage what they pay, such as \"https://shop.example/my-account\"";

    fn from_text(text: &str) -> Option<Self> {
        (text.is_empty() || is_page(text)).then(|| Self(text.to_owned()))
    }
}

/// Whether this is the address of a page that customers may be sent to.
fn is_page(text: &str) -> bool {
    is_short(text) && text.starts_with("https://") && Url::parse(text).is_ok()
}

fn is_short(text: &str) -> bool {
    text.len() <= MAX_LENGTH && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The resolved settings of `[account]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountConfig {
    /// The name that customers know the vendor by.
    pub name: String,
    /// The color of buttons and links: red, green, blue.
    pub color: Option<[u8; 3]>,
    /// The path of a picture in the public folder.
    pub logo: Option<String>,
    /// Where customers ask: a mail address, or an https address.
    pub support: Option<String>,
    /// The https address where customers see what they paid, and end what renews by itself.
    pub billing: Option<String>,
    /// The address of a host of its own; otherwise the page is on the host of `public_url`.
    pub url: Option<DeskUrl>,
}

impl AccountConfig {
    /// The settings of the file; `None` if there is no page.
    pub(super) fn of_file(file: AccountSettings) -> Option<Self> {
        let is_set = |text: &String| !text.is_empty();
        let name = file.name.map(|AccountName(name)| name).filter(is_set)?;
        Some(Self {
            name,
            color: file.color.and_then(|AccountColor(color)| color),
            logo: file.logo.map(|AccountLogo(path)| path).filter(is_set),
            billing: file.billing.map(|AccountBilling(page)| page).filter(is_set),
            support: file.support.map(|AccountSupport(support)| support).filter(is_set),
            url: file.url.and_then(DeskUrlSetting::url),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<AccountConfig>, String> {
        let settings = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        Ok(AccountConfig::of_file(settings))
    }

    #[test]
    fn there_is_a_page_where_the_vendor_has_a_name() {
        assert_eq!(read(""), Ok(None));
        assert_eq!(read("name = \" \"\nsupport = \"help@example.com\""), Ok(None));
        let page = read(
            "name = \"Acme\"\ncolor = \"#17615A\"\nlogo = \"img/logo.svg\"\nsupport = \"https://acme.example/help\"\nurl = \"https://licenses.example.com\"",
        );
        let page = page.unwrap().unwrap();
        assert_eq!((page.name.as_str(), page.color), ("Acme", Some([0x17, 0x61, 0x5A])));
        assert_eq!(page.logo.as_deref(), Some("img/logo.svg"));
        assert_eq!(page.support.as_deref(), Some("https://acme.example/help"));
        assert_eq!(page.url.unwrap().authority(), "licenses.example.com");
    }

    #[test]
    fn what_could_leave_its_place_on_the_page_is_refused() {
        for wrong in [
            "color = \"red\"",
            "color = \"#12345\"",
            "color = \"#1234é\"",
            "color = \"#+12345\"",
            "logo = \"/logo.svg\"",
            "logo = \"../logo.svg\"",
            "logo = \"https://elsewhere.example/logo.svg\"",
            "logo = \"a b.svg\"",
            "support = \"javascript:alert(1)\"",
            "support = \"http://acme.example\"",
            "support = \"a@b.example?cc=c@d.example\"",
            "support = \"help\"",
            "billing = \"billing@acme.example\"",
            "billing = \"http://shop.example\"",
            "name = \"A\\nB\"",
            "url = \"http://licenses.example.com\"",
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.starts_with("expected "), "{wrong}: {error}");
        }
    }
}
