//! Tables `[shops.NAME]`: shops whose deliveries the server takes at `/hooks/NAME`.

use std::path::{Path, PathBuf};

use crate::config::tables::settings_table;
use crate::config::urls::ServiceUrl;
use crate::config::value::Setting;
use countersign_model::issued_license::ChangeScope;
use countersign_model::offer::SalesMode;
use countersign_model::slug::Slug;
use countersign_shops::shop::Shop;

/// The folder of the secrets, in the instance.
const SECRETS: &str = "keys/shops";

settings_table! {
    /// A table `[shops.NAME]`.
    ShopTable {
        kind: &'static Shop,
        secret_file: PathBuf,
        mode: SalesMode,
        keys: KeyIssuer,
        api_key_file: PathBuf,
        api_url: ServiceUrl,
    }
}

/// A shop whose deliveries the server takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShopConfig {
    /// Its name in the offers, and at the end of `/hooks/NAME`.
    pub name: Slug,
    /// Its software.
    pub kind: &'static Shop,
    /// The file with the secret that it signs with, or two while one is replaced: one in a line.
    pub secret_file: PathBuf,
    /// Live or test, for a shop whose deliveries do not say it; live if it is not set.
    pub mode: Option<SalesMode>,
    /// Whose keys its licenses have.
    pub keys: KeyIssuer,
    /// Where it is asked for what its deliveries lack.
    pub api: Option<ApiSettings>,
}

/// Whose keys the licenses of a shop have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyIssuer {
    /// Ours, which we mail.
    #[default]
    Own,
    /// The shop's own, which it mails. Not every shop makes keys.
    Shop,
}

/// The programming interface of a shop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiSettings {
    /// The file with a key that may read what is asked.
    pub key_file: PathBuf,
    /// Where it is, if not where the shop has it.
    pub url: Option<ServiceUrl>,
}

impl ShopConfig {
    /// What the ledger's name of an object is an HMAC of. Shops and modes never meet: the same id of another shop is another sale.
    pub fn sale_name(shop: &Slug, mode: SalesMode, id: &str) -> String {
        format!("{}\n{}\n{id}", ChangeScope::of_shop(shop), mode.as_str())
    }

    /// The texts of [`Self::sale_name`] for all objects of this shop that may have this id, live and test.
    pub fn sale_names(&self, id: &str) -> Vec<String> {
        let names = self.kind.ids.names(id);
        let modes = [SalesMode::Live, SalesMode::Test];
        let of_mode = |mode| names.iter().map(move |name| Self::sale_name(&self.name, mode, name));
        modes.into_iter().flat_map(of_mode).collect()
    }

    /// Resolves a table: its paths are relative to `instance`, and a missing setting has its default.
    ///
    /// # Errors
    ///
    /// A required setting is missing, or a setting does not fit the shop's kind.
    pub(super) fn of_table(instance: &Path, name: Slug, table: ShopTable) -> Result<Self, String> {
        let kind = table.kind.or_else(|| name.as_str().parse().ok());
        let kind = kind.ok_or_else(|| format!("[shops.{name}] needs \"kind\": {}", <&Shop>::EXPECTED))?;
        if table.keys == Some(KeyIssuer::Shop) && !kind.makes_keys {
            return Err(format!(
                "[shops.{name}]: \"keys\" is \"own\", because {} delivers no keys",
                kind.title
            ));
        }
        let asks = table.api_key_file.is_some() || table.api_url.is_some();
        if asks && kind.api.is_none() {
            return Err(format!("[shops.{name}]: {} needs no \"api_key_file\"", kind.title));
        }
        if table.api_url.is_some() && table.api_key_file.is_none() {
            return Err(format!("[shops.{name}]: \"api_url\" needs \"api_key_file\""));
        }
        let default = || Path::new(SECRETS).join(format!("{name}.secret"));
        Ok(Self {
            secret_file: instance.join(table.secret_file.unwrap_or_else(default)),
            mode: table.mode,
            keys: table.keys.unwrap_or_default(),
            api: table.api_key_file.map(|file| ApiSettings {
                key_file: instance.join(file),
                url: table.api_url,
            }),
            kind,
            name,
        })
    }
}

impl Setting for &'static Shop {
    const EXPECTED: &'static str = countersign_shops::EXPECTED;

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl Setting for KeyIssuer {
    const EXPECTED: &'static str = "expected \"own\" or \"shop\"";

    fn from_text(text: &str) -> Option<Self> {
        match text {
            "own" => Some(Self::Own),
            "shop" => Some(Self::Shop),
            _ => None,
        }
    }
}

impl Setting for SalesMode {
    const EXPECTED: &'static str = "expected \"live\" or \"test\"";

    fn from_text(text: &str) -> Option<Self> {
        [Self::Live, Self::Test].into_iter().find(|mode| mode.as_str() == text)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn read(text: &str) -> Result<Vec<ShopConfig>, String> {
        let tables = toml::from_str::<BTreeMap<String, BTreeMap<Slug, ShopTable>>>(text);
        let mut tables = tables.map_err(|error| error.message().to_owned())?;
        let shops = tables.remove("shops").unwrap_or_default().into_iter();
        shops
            .map(|(name, table)| ShopConfig::of_table(Path::new("here"), name, table))
            .collect()
    }

    #[test]
    fn a_shop_needs_its_kind_unless_its_name_says_it() {
        let shops =
            read("[shops.stripe]\n[shops.eu]\nkind = 'paddle'\nsecret_file = '/run/eu'\nmode = 'test'\n").unwrap();
        let eu = ShopConfig {
            name: "eu".parse().unwrap(),
            kind: "paddle".parse().unwrap(),
            secret_file: "/run/eu".into(),
            mode: Some(SalesMode::Test),
            keys: KeyIssuer::Own,
            api: None,
        };
        let stripe = ShopConfig {
            name: "stripe".parse().unwrap(),
            kind: "stripe".parse().unwrap(),
            secret_file: "here/keys/shops/stripe.secret".into(),
            mode: None,
            keys: KeyIssuer::Own,
            api: None,
        };
        assert_eq!(shops, [eu, stripe]);
        assert_eq!(read("").unwrap(), []);
        for (text, expected) in [
            (
                "[shops.eu]\n",
                format!("[shops.eu] needs \"kind\": {}", <&Shop>::EXPECTED),
            ),
            ("[shops.eu]\nkind = 'x'\n", <&Shop>::EXPECTED.to_owned()),
            (
                "[shops.eu]\nkind = 'paddle'\nmode = 1\n",
                SalesMode::EXPECTED.to_owned(),
            ),
        ] {
            assert_eq!(read(text).unwrap_err(), expected);
        }
        assert!(read("[shops.'a/b']\nkind = 'paddle'\n").is_err());
    }

    #[test]
    fn only_some_shops_have_keys_of_their_own_or_are_asked_for_addresses() {
        let of = |text: &str| read(text).map(|mut shops| shops.remove(0));
        let squeezed = of("[shops.lemonsqueezy]\nkeys = 'shop'\n").unwrap();
        assert_eq!(squeezed.keys, KeyIssuer::Shop);
        let asked = of("[shops.paddle]\napi_key_file = 'keys/shops/paddle.api-key'\n").unwrap();
        let expected = ApiSettings {
            key_file: "here/keys/shops/paddle.api-key".into(),
            url: None,
        };
        assert_eq!(asked.api, Some(expected));
        for wrong in [
            "[shops.stripe]\nkeys = 'shop'\n",
            "[shops.lemonsqueezy]\nkeys = 'theirs'\n",
            "[shops.lemonsqueezy]\napi_key_file = 'x'\n",
            "[shops.paddle]\napi_url = 'https://api.example/'\n",
            "[shops.paddle]\napi_key_file = 'x'\napi_url = 'http://api.example/'\n",
        ] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
