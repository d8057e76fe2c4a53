//! The words of the customer's page in each language: those of the vendor in `registry/account/LANGUAGE.toml`, or the built-in ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use chrono::NaiveDate;
use chrono::format::{Item, StrftimeItems};
use serde::Deserialize;
use toml::Table;
use warp::http::{HeaderMap, header};

use countersign_files::regular_file;
use countersign_model::language::Language;
use countersign_model::period::NEVER;
use countersign_model::text::toml_error;

/// The folder of the registry with the vendor's words.
const FOLDER: &str = "account";

/// The built-in words. The first language is for everybody who reads none of the others.
const FILES: [(&str, &str); 2] = [
    ("en", include_str!("../templates/account/en.toml")),
    ("de", include_str!("../templates/account/de.toml")),
];

/// Size limit of a file in bytes.
const MAX_FILE: u64 = 256 << 10;

/// The most languages that a browser asks for and that are looked at.
const MOST_ASKED: usize = 20;

/// The words in one language, by what they say.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AccountWords {
    /// The tag of the language. No file has it.
    #[serde(default)]
    pub(super) language: String,
    /// The form of a day, as of strftime(3).
    day: String,
    pub(super) skip: String,
    pub(super) sign_out: String,
    pub(super) questions: String,
    pub(super) licenses: String,
    pub(super) back: String,
    pub(super) sign_in_text: String,
    pub(super) address: String,
    pub(super) send_link: String,
    pub(super) lost_address: String,
    pub(super) only_key: String,
    pub(super) sent_title: String,
    pub(super) sent_text: String,
    pub(super) code: String,
    pub(super) sign_in: String,
    pub(super) try_again: String,
    pub(super) link_text: String,
    pub(super) no_cookies_title: String,
    pub(super) no_cookies_text: String,
    pub(super) mail_subject: String,
    pub(super) mail_text: String,
    pub(super) none: String,
    pub(super) active: String,
    pub(super) ends_soon: String,
    pub(super) expired: String,
    pub(super) suspended: String,
    pub(super) revoked: String,
    pub(super) suspended_text: String,
    pub(super) revoked_text: String,
    pub(super) expired_text: String,
    pub(super) sites: String,
    pub(super) used_of: String,
    pub(super) used_any: String,
    pub(super) renews: String,
    pub(super) by_itself: String,
    pub(super) ends: String,
    pub(super) ended: String,
    pub(super) never: String,
    pub(super) renew: String,
    pub(super) upgrade: String,
    pub(super) download: String,
    pub(super) find_site: String,
    pub(super) find: String,
    pub(super) part: String,
    pub(super) next: String,
    pub(super) none_found: String,
    pub(super) site: String,
    pub(super) version: String,
    pub(super) last_seen: String,
    pub(super) action: String,
    pub(super) move_or_free: String,
    pub(super) no_sites: String,
    pub(super) set_by_seller: String,
    pub(super) copy: String,
    pub(super) add_site: String,
    pub(super) add_site_text: String,
    pub(super) lost_key: String,
    pub(super) lost_key_text: String,
    pub(super) enter_address: String,
    pub(super) mail_key: String,
    pub(super) stolen_key: String,
    pub(super) stolen_key_text: String,
    pub(super) new_key: String,
    pub(super) ask_seller: String,
    pub(super) steps: String,
    pub(super) step_freed: String,
    pub(super) step_moved: String,
    pub(super) step_key: String,
    pub(super) step_mailed: String,
    pub(super) step_downloaded: String,
    pub(super) done_freed: String,
    pub(super) done_moved: String,
    pub(super) done_mailed: String,
    pub(super) done_key: String,
    pub(super) done_same: String,
    pub(super) move_title: String,
    pub(super) moved: String,
    pub(super) moved_text: String,
    pub(super) gone: String,
    pub(super) gone_text: String,
    pub(super) new_address: String,
    pub(super) moves_left: String,
    pub(super) save: String,
    pub(super) change_nothing: String,
    pub(super) key_title: String,
    pub(super) key_text: String,
    pub(super) get_key: String,
    pub(super) download_text: String,
    pub(super) download_theme_text: String,
    pub(super) for_site: String,
    pub(super) for_site_text: String,
    pub(super) zip: String,
    pub(super) no_downloads: String,
    pub(super) billing: String,
    pub(super) billing_text: String,
    pub(super) billing_page: String,
    pub(super) composer: String,
    pub(super) composer_text: String,
    pub(super) composer_use: String,
    pub(super) composer_site: String,
    pub(super) token: String,
    pub(super) token_made: String,
    pub(super) token_once: String,
    pub(super) token_valid: String,
    pub(super) make_token: String,
    pub(super) revoke_token: String,
    pub(super) done_revoked: String,
    pub(super) by_key_title: String,
    pub(super) by_key_text: String,
    pub(super) key: String,
    pub(super) own_site: String,
    pub(super) look_up: String,
    pub(super) here: String,
    pub(super) not_here: String,
    pub(super) with_address: String,
    pub(super) nothing_changed: String,
    pub(super) not_found_title: String,
    pub(super) not_found: String,
    pub(super) foreign_form: String,
    pub(super) used_code_title: String,
    pub(super) used_code: String,
    pub(super) wrong_code_title: String,
    pub(super) wrong_code: String,
    pub(super) bad_address: String,
    pub(super) slowed_title: String,
    pub(super) slowed: String,
    pub(super) too_many_title: String,
    pub(super) too_many: String,
    pub(super) not_now_title: String,
    pub(super) not_now: String,
    pub(super) not_active: String,
    pub(super) not_on_it: String,
    pub(super) no_seat: String,
    pub(super) no_moves: String,
    pub(super) bad_site: String,
    pub(super) same_site: String,
    pub(super) set_site: String,
    pub(super) faster: String,
    pub(super) no_mail: String,
    pub(super) other_address: String,
    pub(super) no_package: String,
    pub(super) too_many_copies: String,
    pub(super) unknown_key: String,
}

/// The words in all languages.
#[derive(Clone, Debug)]
pub struct AccountTexts(BTreeMap<Language, AccountWords>);

/// Words that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct AccountTextError {
    path: PathBuf,
    reason: String,
}

impl AccountTexts {
    /// The built-in words, and those in the folder of the registry, which go before.
    ///
    /// # Errors
    /// A file cannot be read, is named after no language, or has an unknown word.
    pub fn load(registry: &Path) -> Result<Self, AccountTextError> {
        let mut tables = BTreeMap::new();
        for (tag, text) in FILES {
            let failed = failed(Path::new(tag));
            let language: Language = tag.parse().map_err(|error| failed(&error))?;
            tables.insert(language, table(text).map_err(|error| failed(&error))?);
        }
        let folder = registry.join(FOLDER);
        let files = match fs::read_dir(&folder) {
            Ok(files) => files
                .collect::<Result<Vec<_>, _>>()
                .map_err(|error| failed(&folder)(&error))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(failed(&folder)(&error)),
        };
        let english = table(FILES[0].1).map_err(|error| failed(Path::new(FILES[0].0))(&error))?;
        for file in files {
            let path = file.path();
            let name = file.file_name();
            let Some(tag) = name.to_str().and_then(|name| name.strip_suffix(".toml")) else {
                continue;
            };
            let failed = failed(&path);
            let language: Language = tag.parse().map_err(|error| failed(&error))?;
            let text = regular_file::read_to_string(&path, MAX_FILE).map_err(|error| failed(&error))?;
            let own = table(&text).map_err(|error| failed(&error))?;
            let words = tables.entry(language).or_insert_with(|| english.clone());
            words.extend(own);
            AccountWords::of(tag, words.clone()).map_err(|error| failed(&error))?;
        }
        let words = tables.into_iter().map(|(language, table)| {
            let words = AccountWords::of(language.as_str(), table);
            let words = words.map_err(|error| failed(Path::new(language.as_str()))(&error))?;
            Ok((language, words))
        });
        words.collect::<Result<_, _>>().map(Self)
    }

    /// The words that a browser asks for: `Accept-Language` (RFC 9110, section 12.5.4).
    pub(super) fn of(&self, headers: &HeaderMap) -> Option<&AccountWords> {
        let asked = headers.get_all(header::ACCEPT_LANGUAGE).iter();
        let asked = asked
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','));
        let mut ranked: Vec<_> = asked
            .take(MOST_ASKED)
            .filter_map(|asked| {
                let (tag, rank) = asked.split_once(';').unwrap_or((asked, "q=1"));
                let rank: f32 = rank.trim().strip_prefix("q=")?.parse().ok()?;
                Some((tag.trim().parse::<Language>().ok()?, rank))
            })
            .filter(|(_, rank)| *rank > 0.0)
            .collect();
        ranked.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        let mut wanted = ranked.iter().flat_map(|(language, _)| language.with_wider());
        let find = |tag: &str| self.0.get(&tag.parse::<Language>().ok()?);
        wanted.find_map(find).or_else(|| find(FILES[0].0))
    }
}

fn failed(path: &Path) -> impl Fn(&dyn std::fmt::Display) -> AccountTextError + use<> {
    let path = path.to_owned();
    move |error| AccountTextError {
        path: path.clone(),
        reason: error.to_string(),
    }
}

fn table(text: &str) -> Result<Table, String> {
    text.parse().map_err(|error| toml_error::message(text, &error))
}

impl AccountWords {
    fn of(tag: &str, words: Table) -> Result<Self, String> {
        let words: Self = words
            .try_into()
            .map_err(|error: toml::de::Error| error.message().to_owned())?;
        if StrftimeItems::new(&words.day).any(|item| matches!(item, Item::Error)) {
            return Err(format!(
                "day = {:?} is no form of a day, such as \"%-d %b %Y\"",
                words.day
            ));
        }
        Ok(Self {
            language: tag.to_owned(),
            ..words
        })
    }

    /// A day as people write it.
    pub(super) fn day(&self, day: NaiveDate) -> String {
        match day {
            NEVER => self.never.clone(),
            day => {
                let mut shown = String::new();
                // The form was tried, and may still ask for what a day has not, such as an hour.
                match std::fmt::Write::write_fmt(&mut shown, format_args!("{}", day.format(&self.day))) {
                    Ok(()) => shown,
                    Err(_) => day.to_string(),
                }
            }
        }
    }
}

/// The words with what stands in braces filled in.
pub(super) fn filled(words: &str, values: &[(&str, &str)]) -> String {
    let mut rest = words;
    let mut filled = String::new();
    while let Some((before, behind)) = rest.split_once('{') {
        filled.push_str(before);
        let name = behind.split_once('}');
        let found = name.and_then(|(name, rest)| Some((values.iter().find(|(of, _)| *of == name)?, rest)));
        match found {
            Some(((_, value), behind)) => {
                filled.push_str(value);
                rest = behind;
            }
            None => {
                filled.push('{');
                rest = behind;
            }
        }
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked<'t>(texts: &'t AccountTexts, accepted: &str) -> &'t str {
        let headers = HeaderMap::from_iter([(header::ACCEPT_LANGUAGE, accepted.parse().unwrap())]);
        &texts.of(&headers).unwrap().language
    }

    #[test]
    fn a_browser_gets_the_first_language_that_it_asks_for_and_english_otherwise() {
        let folder = tempfile::tempdir().unwrap();
        let texts = AccountTexts::load(folder.path()).unwrap();
        for (accepted, expected) in [
            ("de", "de"),
            ("de-AT,de;q=0.9,en;q=0.8", "de"),
            ("fr,en;q=0.5,de;q=0.7", "de"),
            ("de;q=0,fr", "en"),
            ("", "en"),
            ("*", "en"),
            ("\"<>,;q=,de;q=x", "en"),
        ] {
            assert_eq!(asked(&texts, accepted), expected, "{accepted}");
        }
        assert_eq!(
            texts.of(&HeaderMap::new()).unwrap().day("2026-12-31".parse().unwrap()),
            "31 Dec 2026"
        );
    }

    #[test]
    fn words_of_the_vendor_go_before_and_what_is_wrong_is_told_with_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join(FOLDER);
        fs::create_dir(&own).unwrap();
        fs::write(own.join("fr.toml"), "licenses = \"Vos licences\"\n").unwrap();
        fs::write(own.join("de.toml"), "licenses = \"Deine Lizenzen\"\n").unwrap();
        let texts = AccountTexts::load(folder.path()).unwrap();
        let [fr, de] = ["fr", "de"].map(|tag| &texts.0[&tag.parse::<Language>().unwrap()]);
        assert_eq!(
            (fr.licenses.as_str(), fr.sign_out.as_str()),
            ("Vos licences", "Sign out")
        );
        assert_eq!(
            (de.licenses.as_str(), de.sign_out.as_str()),
            ("Deine Lizenzen", "Abmelden")
        );
        for (name, text, told) in [
            ("it.toml", "licences = \"x\"\n", "unknown field `licences`"),
            ("it.toml", "licenses = 5\n", "expected a string"),
            ("it.toml", "day = \"%Q\"\n", "day ="),
            ("i.toml", "", "not a language"),
        ] {
            fs::write(own.join(name), text).unwrap();
            let error = AccountTexts::load(folder.path()).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(told), "{error}");
            fs::remove_file(own.join(name)).unwrap();
        }
        // A day has no hour.
        fs::write(own.join("it.toml"), "day = \"%H\"\n").unwrap();
        let texts = AccountTexts::load(folder.path()).unwrap();
        assert_eq!(
            texts.0[&"it".parse::<Language>().unwrap()].day("2026-12-31".parse().unwrap()),
            "2026-12-31"
        );
    }

    #[test]
    fn what_is_in_braces_is_filled_in_once() {
        assert_eq!(filled("{a} of {b}{c}{", &[("a", "{b}"), ("b", "2")]), "{b} of 2{c}{");
    }
}
