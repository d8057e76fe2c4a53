//! The words of the customer's page in each language: those of the vendor in `registry/account/LANGUAGE.toml`, or the built-in ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use chrono::NaiveDate;
use chrono::format::{Item, StrftimeItems};
use toml::{Table, Value};
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

/// Declares the words, and reads them out of a table. Not derived: for so many members, what serde derives takes 400 kB of the program.
macro_rules! account_words {
    ($($word:ident),* $(,)?) => {
        /// The words in one language, by what they say.
        #[derive(Clone, Debug)]
        pub(super) struct AccountWords {
            /// The tag of the language.
            pub(super) language: String,
            $(pub(super) $word: String,)*
        }

        impl AccountWords {
            /// Reads them, each once; an unknown word is an error.
            fn read(language: &str, mut table: Table) -> Result<Self, String> {
                let names = [$(stringify!($word)),*];
                let mut values = names.map(|_| String::new());
                for (name, value) in names.iter().zip(&mut values) {
                    *value = match table.remove(*name) {
                        Some(Value::String(text)) => text,
                        Some(other) => return Err(format!("{name}: {}, expected a string", other.type_str())),
                        None => return Err(format!("{name} is missing")),
                    };
                }
                if let Some(unknown) = table.keys().next() {
                    return Err(format!("unknown field `{unknown}`"));
                }
                let [$($word),*] = values;
                Ok(Self { language: language.to_owned(), $($word),* })
            }
        }
    };
}

account_words! {
    day, skip, sign_out, questions, licenses, back, sign_in_text, address, send_link, lost_address, only_key,
    sent_title, sent_text, code, sign_in, try_again, link_text, no_cookies_title, no_cookies_text, mail_subject,
    mail_text, none, active, ends_soon, expired, suspended, revoked, suspended_text, revoked_text, expired_text,
    sites, used_of, used_any, renews, by_itself, ends, ended, never, renew, upgrade, download, find_site, find, part,
    next, none_found, site, version, last_seen, action, move_or_free, no_sites, set_by_seller, copy, add_site,
    add_site_text, lost_key, lost_key_text, enter_address, mail_key, stolen_key, stolen_key_text, new_key,
    ask_seller, steps, step_freed, step_moved, step_key, step_mailed, step_downloaded, done_freed, done_moved,
    done_mailed, done_key, done_same, move_title, moved, moved_text, gone, gone_text, new_address, moves_left, save,
    change_nothing, key_title, key_text, get_key, download_text, download_theme_text, for_site, for_site_text, zip,
    no_downloads, billing, billing_text, billing_page, composer, composer_text, composer_use, composer_site, token,
    token_made, token_once, token_valid, make_token, revoke_token, done_revoked, by_key_title, by_key_text, key,
    own_site, look_up, here, not_here, with_address, nothing_changed, not_found_title, not_found, foreign_form,
    used_code_title, used_code, wrong_code_title, wrong_code, bad_address, slowed_title, slowed, too_many_title,
    too_many, not_now_title, not_now, not_active, not_on_it, no_seat, no_moves, bad_site, same_site, set_site,
    faster, no_mail, other_address, no_package, too_many_copies, unknown_key,
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
        let words = Self::read(tag, words)?;
        if StrftimeItems::new(&words.day).any(|item| matches!(item, Item::Error)) {
            return Err(format!(
                "day = {:?} is no form of a day, such as \"%-d %b %Y\"",
                words.day
            ));
        }
        Ok(words)
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

/// The words with what is in braces filled in.
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
        for (name, text, reason) in [
            ("it.toml", "licences = \"x\"\n", "unknown field `licences`"),
            ("it.toml", "licenses = 5\n", "expected a string"),
            ("it.toml", "day = \"%Q\"\n", "day ="),
            ("i.toml", "", "not a language"),
        ] {
            fs::write(own.join(name), text).unwrap();
            let error = AccountTexts::load(folder.path()).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(reason), "{error}");
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
