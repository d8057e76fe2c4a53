//! The texts of mails: those of the vendor in `registry/mail/`, or the built-in ones. They are templates of Jinja.
//!
//! [`MailTexts`] fills in the [`MailValues`]; [`message`](super::message) makes the mail.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, Value};
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior};

use crate::made_up;
use crate::values::{MailContent, MailKind, MailValues};
use countersign_files::regular_file;
use countersign_model::language::Language;

/// The folder of the registry with the vendor's texts.
pub const FOLDER: &str = "mail";

/// The files of the built-in texts: of each kind, the text with the subject, and the HTML.
pub const FILES: [(&str, &str); 10] = [
    ("license.txt", include_str!("texts/license.txt")),
    ("license.html", include_str!("texts/license.html")),
    ("download.txt", include_str!("texts/download.txt")),
    ("download.html", include_str!("texts/download.html")),
    ("reminder-before.txt", include_str!("texts/reminder-before.txt")),
    ("reminder-before.html", include_str!("texts/reminder-before.html")),
    ("reminder-after.txt", include_str!("texts/reminder-after.txt")),
    ("reminder-after.html", include_str!("texts/reminder-after.html")),
    ("site-claimed.txt", include_str!("texts/site-claimed.txt")),
    ("site-claimed.html", include_str!("texts/site-claimed.html")),
];

/// Size limit of a template, in bytes.
const MAX_TEMPLATE: u64 = 256 << 10;

/// Size limit of what a template makes, in bytes.
const MAX_TEXT: usize = 1 << 20;

/// How many steps a template may take: a mail with a hundred licenses takes some thousand.
const MAX_STEPS: u64 = 1_000_000;

/// The most tokens in all tags of a template. The engine recurses once or less for each: when it parses and compiles a chain such
/// as `a.b.c`, and when it shows or drops a list of lists. 2,000 tokens need 800 KiB of stack; a thread has 2 MiB.
const MAX_TOKENS: usize = 2_000;

/// The longest subject, in characters.
const MAX_SUBJECT: usize = 200;

/// How the first line of the text begins.
const SUBJECT: &str = "Subject: ";

/// The templates.
pub struct MailTexts {
    environment: Environment<'static>,
    folder: PathBuf,
    /// The texts of each kind and language; without a language, those for everybody else.
    pairs: BTreeMap<(MailKind, Option<Language>), TextPair>,
}

/// The names of the templates of one mail.
struct TextPair {
    text: String,
    html: Option<String>,
    /// Whether the vendor wrote them.
    is_own: bool,
}

/// What a mail says.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct RenderedMail {
    /// One line.
    pub subject: String,
    /// The text.
    pub text: String,
    /// The same as HTML, if there is a template for it.
    pub html: Option<String>,
    /// The link to say no to further ones, if it reminds of something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsubscribe: Option<String>,
}

/// Why there is no text, in one line each. [`MailTextError::hint`] says what to do.
#[derive(Debug, thiserror::Error)]
pub enum MailTextError {
    /// A file cannot be read.
    #[error("{}: cannot be read: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why. Part of the message, so it is not a source.
        reason: io::Error,
    },
    /// There is HTML and no text.
    #[error("{}: there is HTML, but no text", .0.display())]
    NoText(PathBuf),
    /// What its name has between two dots is no language.
    #[error("{}: its name has no language, as license.de.txt has", .0.display())]
    NoLanguage(PathBuf),
    /// Another file has the same language, otherwise written.
    #[error("{}: another file is for the same language", .0.display())]
    TwoNames(PathBuf),
    /// A template is wrong.
    #[error("{file}:{line}: {reason}")]
    Template {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// The text does not begin with a usable subject.
    #[error("{file}:1: {reason}")]
    Subject {
        /// The file.
        file: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// No license is left that could be mailed.
    #[error("there is no license to mail")]
    NoLicense,
}

impl MailTextError {
    /// What to do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Read { .. } => "let the user that runs the server read it",
            Self::NoText(_) => "write the text, whose name ends in .txt, beside it: not every mail program shows HTML",
            Self::NoLanguage(_) => "name it after a language, as license.de.txt and license.pt-br.txt",
            Self::TwoNames(_) => "remove one of them",
            Self::Template { .. } => "docs/mail.md lists what a text can show; `countersign mail preview` tries it",
            Self::Subject { .. } => {
                "begin the text with a line such as \"Subject: Your license key\", then an empty line"
            }
            Self::NoLicense => "look at the licenses with `countersign license show`",
        }
    }
}

impl MailTexts {
    /// Reads the vendor's texts in the folder `registry`; of a kind without any, the built-in ones. A vendor's text without HTML gives
    /// mails without HTML.
    ///
    /// # Errors
    /// A file cannot be read, or is no template.
    pub fn load(registry: &Path) -> Result<Self, MailTextError> {
        let mut texts = Self {
            environment: environment()?,
            folder: registry.join(FOLDER),
            pairs: BTreeMap::new(),
        };
        let own = texts.own()?.into_iter();
        let own = own.flat_map(|(kind, tags)| tags.into_iter().map(move |(language, tag)| (kind, language, tag)));
        for (kind, language, tag) in own {
            let name: &str = kind.into();
            let stem = match language {
                None => name.to_owned(),
                Some(_) => format!("{name}.{tag}"),
            };
            let [text, html] = [".txt", ".html"].map(|end| {
                let path = texts.folder.join(format!("{stem}{end}"));
                read(&path).map(|source| (path, source))
            });
            let (html_path, html) = html?;
            let Some(text) = text?.1 else {
                return Err(MailTextError::NoText(html_path));
            };
            texts.put(kind, language, &stem, (text, html), true)?;
        }
        for ((name, text), (_, html)) in FILES.iter().zip(&FILES[1..]).step_by(2) {
            let stem = name.trim_end_matches(".txt");
            if let Ok(kind) = stem.parse::<MailKind>()
                && !texts.pairs.contains_key(&(kind, None))
            {
                let sources = ((*text).to_owned(), Some((*html).to_owned()));
                texts.put(kind, None, stem, sources, false)?;
            }
        }
        Ok(texts)
    }

    /// The kinds and languages of the vendor's files, each language as the file's name has it.
    fn own(&self) -> Result<BTreeMap<MailKind, BTreeMap<Option<Language>, String>>, MailTextError> {
        let failed = |reason| MailTextError::Read {
            path: self.folder.clone(),
            reason,
        };
        let mut own = BTreeMap::new();
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(own),
            entries => entries.map_err(failed)?,
        };
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            let Some(stem) = name.to_str().and_then(|name| {
                let stem = name.strip_suffix(".txt").or_else(|| name.strip_suffix(".html"));
                stem.filter(|stem| !stem.starts_with('.'))
            }) else {
                continue;
            };
            let (kind, language) = stem
                .split_once('.')
                .map_or((stem, None), |(kind, tag)| (kind, Some(tag)));
            let Ok(kind) = kind.parse::<MailKind>() else { continue };
            let tag = language.unwrap_or_default();
            let language = match language.map(str::parse::<Language>) {
                None => None,
                Some(Ok(language)) => Some(language),
                Some(Err(_)) => return Err(MailTextError::NoLanguage(self.folder.join(name))),
            };
            let known = own
                .entry(kind)
                .or_insert_with(BTreeMap::new)
                .insert(language, tag.to_owned());
            if known.is_some_and(|known| known != tag) {
                return Err(MailTextError::TwoNames(self.folder.join(name)));
            }
        }
        Ok(own)
    }

    fn put(
        &mut self,
        kind: MailKind,
        language: Option<Language>,
        stem: &str,
        (text, html): (String, Option<String>),
        is_own: bool,
    ) -> Result<(), MailTextError> {
        let pair = TextPair {
            text: format!("{stem}.txt"),
            html: html.is_some().then(|| format!("{stem}.html")),
            is_own,
        };
        self.add(&pair, &pair.text, text)?;
        if let (Some(name), Some(html)) = (&pair.html, html) {
            self.add(&pair, name, html)?;
        }
        self.pairs.insert((kind, language), pair);
        Ok(())
    }

    /// The folder of the vendor's own texts of a kind; `None` for the built-in ones.
    pub fn folder(&self, kind: MailKind) -> Option<&Path> {
        let pair = self.pairs.get(&(kind, None))?;
        pair.is_own.then_some(&*self.folder)
    }

    /// Makes a mail of each kind and in each language, of made-up values.
    ///
    /// # Errors
    /// As [`render`](Self::render).
    pub fn try_all(&self) -> Result<(), MailTextError> {
        for (kind, language) in self.pairs.keys() {
            for count in [1, 2] {
                let content = made_up::content(*kind, language.clone(), None, None, count);
                self.render(&content)?;
                // Not everything is known of every license.
                self.render(&made_up::bare(content))?;
            }
        }
        Ok(())
    }

    /// The texts for a mail: in its language, in one that it is a kind of, or those for everybody.
    fn pair(&self, content: &MailContent) -> Option<&TextPair> {
        let wider = content.language.iter().flat_map(Language::with_wider);
        let languages = wider.map(|tag| tag.parse().ok()).chain([None]);
        let mut pairs = languages.filter_map(|language| self.pairs.get(&(content.kind, language)));
        pairs.next()
    }

    /// Fills the texts in.
    ///
    /// # Errors
    /// A template names what there is not, makes too much, or makes no usable subject.
    pub fn render(&self, content: &MailContent) -> Result<RenderedMail, MailTextError> {
        let values = MailValues::of(content).ok_or(MailTextError::NoLicense)?;
        let pair = self.pair(content).ok_or(MailTextError::NoLicense)?;
        let whole = self.fill(pair, &pair.text, &values)?;
        let bad = |reason| MailTextError::Subject {
            file: self.shown(pair, &pair.text),
            reason,
        };
        let (first, rest) = whole.split_once('\n').unwrap_or((&whole, ""));
        let subject = first
            .strip_prefix(SUBJECT)
            .ok_or(bad("expected \"Subject: \" and the subject"))?
            .trim();
        // SECURITY: a line break in a value would begin another header.
        if subject.contains(char::is_control) {
            return Err(bad("a control character in the subject"));
        }
        if subject.is_empty() || subject.chars().count() > MAX_SUBJECT {
            return Err(bad("a subject has 1 to 200 characters"));
        }
        let text = rest
            .strip_prefix("\r\n")
            .or_else(|| rest.strip_prefix('\n'))
            .ok_or(bad("expected an empty line below the subject"))?;
        let html = pair.html.as_ref();
        Ok(RenderedMail {
            subject: subject.to_owned(),
            text: text.to_owned(),
            html: html.map(|name| self.fill(pair, name, &values)).transpose()?,
            unsubscribe: content.reminder.as_ref().map(|reminder| reminder.unsubscribe.clone()),
        })
    }

    fn add(&mut self, pair: &TextPair, name: &str, source: String) -> Result<(), MailTextError> {
        // SECURITY: before the parser, which ends the process where a template is too deep.
        check_tags(&source, self.environment.syntax()).map_err(|(line, reason)| MailTextError::Template {
            file: self.shown(pair, name),
            line,
            reason: reason.to_owned(),
        })?;
        let added = self.environment.add_template_owned(name.to_owned(), source);
        added.map_err(|error| self.wrong(pair, name, &error))
    }

    fn fill(&self, pair: &TextPair, name: &str, values: &MailValues<'_>) -> Result<String, MailTextError> {
        let mut text = Bounded(Vec::new());
        let template = self.environment.get_template(name);
        let filled = template.and_then(|template| template.render_captured_to(Serde(values), &mut text).map(drop));
        filled.map_err(|error| self.wrong(pair, name, &error))?;
        // The engine writes UTF-8 alone.
        Ok(String::from_utf8(text.0).unwrap_or_default())
    }

    /// How a file is named in messages.
    fn shown(&self, pair: &TextPair, name: &str) -> String {
        match pair.is_own {
            true => self.folder.join(name).display().to_string(),
            false => format!("built-in {name}"),
        }
    }

    // SECURITY: of an error, only what it says of the template goes on: its other parts can hold values.
    fn wrong(&self, pair: &TextPair, name: &str, error: &Error) -> MailTextError {
        let place = || error.template_source()?.get(error.range()?);
        let reason = match error.kind() {
            ErrorKind::SyntaxError => error.detail().unwrap_or("not a template").to_owned(),
            ErrorKind::UndefinedError => match place() {
                Some(place) => format!("there is no {place:?}"),
                None => "a name that there is not".to_owned(),
            },
            ErrorKind::OutOfFuel => "too many steps: a loop without an end?".to_owned(),
            ErrorKind::WriteFailure => format!("it makes more than {} MiB", MAX_TEXT >> 20),
            ErrorKind::UnknownFilter
            | ErrorKind::UnknownFunction
            | ErrorKind::UnknownTest
            | ErrorKind::UnknownMethod => error.detail().unwrap_or("a function that there is not").to_owned(),
            other => other.to_string(),
        };
        MailTextError::Template {
            file: self.shown(pair, name),
            line: error.line().unwrap_or(1),
            reason,
        }
    }
}

/// The engine: HTML is escaped, and a name that there is not is an error, not an empty text.
fn environment() -> Result<Environment<'static>, MailTextError> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(MAX_STEPS));
    // Errors then say where they are.
    environment.set_debug(true);
    // SECURITY: steps are counted, and the bytes of texts, but not the items of lists. So nothing may make a list of lists, or one
    // list out of others: forty doublings would have 2^40 items. `check_tags` refuses the signs that do.
    for global in ["debug", "dict", "namespace"] {
        environment.remove_global(global);
    }
    for filter in ["batch", "chain", "groupby", "slice", "sum", "zip"] {
        environment.remove_filter(filter);
    }
    // The engine's own can put any value into a list.
    environment.add_filter("map", attributes);
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .keep_trailing_newline(true)
        .build();
    environment.set_syntax(syntax.map_err(|error| MailTextError::Template {
        file: "the syntax of templates".to_owned(),
        line: 1,
        reason: error.kind().to_string(),
    })?);
    Ok(environment)
}

/// The filter `map(attribute="name")`: this attribute of each value.
fn attributes(values: &Value, options: Kwargs) -> Result<Vec<Value>, Error> {
    let path: &str = options.get("attribute")?;
    options.assert_all_used()?;
    let attribute = |value: Value| {
        path.split('.').try_fold(value, |value, name| {
            let inner = value.get_attr(name)?;
            match inner.is_undefined() {
                true => Err(ErrorKind::UndefinedError.into()),
                false => Ok(inner),
            }
        })
    };
    values.try_iter()?.map(attribute).collect()
}

/// Refuses a template that could exhaust the stack, the memory or the time, with the line.
fn check_tags(source: &str, syntax: &SyntaxConfig) -> Result<(), (usize, &'static str)> {
    let mut count = 0;
    let mut tag = TemplateTag::default();
    for token in tokenize(source, false, syntax.clone()) {
        // The parser reports what is no token.
        let Ok((token, place)) = token else { break };
        let refuse = |reason| Err((place.start_line as usize, reason));
        count += usize::from(!matches!(token, Token::TemplateData(_)));
        if count > MAX_TOKENS {
            return refuse("the tags of a template may have 2,000 names, numbers, texts and signs in all");
        }
        if let Err(reason) = tag.take(&token) {
            return refuse(reason);
        }
    }
    Ok(())
}

/// What was read of a tag.
#[derive(Default)]
struct TemplateTag<'s> {
    /// The brackets that are open.
    open: Vec<Bracket>,
    /// Its first name.
    verb: Option<&'s str>,
    /// Whether what comes now is a value: that of a `set`, or what a `for` goes through.
    is_value: bool,
    /// Whether a value ends here, so that a bracket is a call or an index.
    ends_value: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Bracket {
    /// A list or a map.
    Literal,
    /// Arguments, or an index.
    OfValue,
    /// What belongs together.
    Group,
}

impl<'s> TemplateTag<'s> {
    fn take(&mut self, token: &Token<'s>) -> Result<(), &'static str> {
        const PLAIN: &str = "a list or a map in a template can have numbers and texts alone";
        let of_value = |bracket| if self.ends_value { Bracket::OfValue } else { bracket };
        let mut ends_value = false;
        match token {
            Token::VariableStart | Token::BlockStart => *self = Self::default(),
            // Such a loop makes a value deeper in each of its turns.
            Token::Ident("recursive") => return Err("a loop cannot be recursive"),
            Token::Plus | Token::Mul | Token::Pow => {
                return Err("there is no +, no * and no ** in a template: ~ joins texts");
            }
            Token::Ident(name) => {
                if self.open.contains(&Bracket::Literal) && !CONSTANTS.contains(name) {
                    return Err(PLAIN);
                }
                self.verb.get_or_insert(name);
                self.is_value |= *name == "in";
                ends_value = !KEYWORDS.contains(name);
            }
            Token::Assign => self.is_value |= self.open.is_empty(),
            Token::BracketOpen => self.open.push(of_value(Bracket::Literal)),
            Token::BraceOpen => self.open.push(Bracket::Literal),
            Token::ParenOpen => self.open.push(of_value(Bracket::Group)),
            Token::BracketClose | Token::BraceClose | Token::ParenClose => {
                self.open.pop();
                ends_value = true;
            }
            Token::Comma => {
                let is_target = matches!(self.verb, Some("for" | "set")) && !self.is_value;
                let separates = match self.open.last() {
                    Some(Bracket::Literal | Bracket::OfValue) => true,
                    Some(Bracket::Group) => is_target,
                    None => is_target || self.verb == Some("with"),
                };
                if !separates {
                    return Err(PLAIN);
                }
            }
            Token::Str(_) | Token::String(_) => ends_value = true,
            _ => {}
        }
        self.ends_value = ends_value;
        Ok(())
    }
}

/// Names that are no names of values.
const CONSTANTS: [&str; 6] = ["true", "false", "none", "True", "False", "None"];

/// Names behind which a bracket begins a value.
const KEYWORDS: [&str; 12] = [
    "and", "elif", "else", "filter", "for", "if", "in", "is", "not", "or", "set", "with",
];

/// The text of a file; `None` if there is no such file.
fn read(path: &Path) -> Result<Option<String>, MailTextError> {
    match regular_file::read_to_string(path, MAX_TEMPLATE) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(reason) => Err(MailTextError::Read {
            path: path.to_owned(),
            reason,
        }),
    }
}

/// A text up to [`MAX_TEXT`].
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_TEXT {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::num::NonZeroU32;
    use std::sync::Arc;

    use super::*;
    use crate::MailedLicense;
    use countersign_model::license::{Details, License, LicenseStatus, SiteLimit};
    use countersign_model::license_key::LicenseKey;
    use countersign_model::shop_link::LicenseLinks;

    fn licenses(count: u8) -> MailContent {
        let license = |number: u8| {
            let key = LicenseKey::from_random([number; 20]);
            MailedLicense {
                license: License {
                    id: key.id(),
                    status: LicenseStatus::Active,
                    expires: "2027-11-24".parse().unwrap(),
                    modules: Arc::new([("forms".parse().unwrap(), vec!["pdf".parse().unwrap()])].into()),
                    sites: SiteLimit::Limited(NonZeroU32::new(3).unwrap()),
                    grace_period_hours: None,
                    details: Details::default(),
                    is_declared: false,
                },
                key: Some(key),
                order: None,
                product: None,
                plugins: vec!["Acme <Forms> & \"Maps\"".to_owned()],
                download_page: (number > 0).then(|| "https://a.example/first-copy/x".to_owned()),
                links: LicenseLinks::default(),
            }
        };
        MailContent {
            kind: MailKind::License,
            name: None,
            language: None,
            licenses: (0..count).map(license).collect(),
            reminder: None,
            site: None,
        }
    }

    /// What these two files make of one license.
    fn rendered(text: &str, html: Option<&str>) -> Result<RenderedMail, String> {
        let registry = tempfile::tempdir().unwrap();
        let folder = registry.path().join(FOLDER);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("license.txt"), text).unwrap();
        if let Some(html) = html {
            fs::write(folder.join("license.html"), html).unwrap();
        }
        let loaded = MailTexts::load(registry.path());
        let rendered = loaded.and_then(|texts| texts.render(&licenses(1)));
        rendered.map_err(|error| {
            assert!(!error.hint().is_empty());
            error.to_string().replace(&format!("{}/", folder.display()), "")
        })
    }

    #[test]
    fn the_built_in_texts_have_each_key_and_what_it_is_for() {
        let registry = tempfile::tempdir().unwrap();
        let texts = MailTexts::load(registry.path()).unwrap();
        assert_eq!(texts.folder(MailKind::License), None);
        let one = texts.render(&licenses(1)).unwrap();
        assert_eq!(one.subject, "Your license key");
        let key = LicenseKey::from_random([0; 20]);
        for expected in [key.reveal(), "Acme <Forms> & \"Maps\"", "Sites:       3", "2027-11-24"] {
            assert!(one.text.contains(expected), "{expected}: {}", one.text);
        }
        let html = one.html.unwrap();
        assert!(
            html.contains(key.reveal()) && html.contains("Acme &lt;Forms&gt; &amp; &quot;Maps&quot;"),
            "{html}"
        );
        assert!(!html.contains("<Forms>"));

        let three = texts.render(&licenses(3)).unwrap();
        assert_eq!(three.subject, "Your license keys");
        for number in 0..3 {
            assert!(three.text.contains(LicenseKey::from_random([number; 20]).reveal()));
        }
        let links = |text: &str| {
            text.replace("&#x2f;", "/")
                .matches("https://a.example/first-copy/x")
                .count()
        };
        assert_eq!(
            (links(&three.text), links(&three.html.unwrap())),
            (2, 2),
            "the first license has no page"
        );
        assert!(three.text.contains("14 days"), "{}", three.text);
        assert!(!one.text.contains("Download") && !html.contains("Download"));
        assert!(matches!(texts.render(&licenses(0)), Err(MailTextError::NoLicense)));
    }

    #[test]
    fn a_license_with_a_page_links_to_it_and_a_text_without_the_link_is_as_before() {
        let registry = tempfile::tempdir().unwrap();
        let texts = MailTexts::load(registry.path()).unwrap();
        let mut of = licenses(1);
        of.licenses[0].download_page = Some("https://a.example/first-copy/x".to_owned());
        let mail = texts.render(&of).unwrap();
        assert!(
            mail.text.contains("Download:    https://a.example/first-copy/x\n") && mail.text.contains("14 days"),
            "{}",
            mail.text
        );
        // The engine escapes a slash, too.
        let html = mail.html.unwrap().replace("&#x2f;", "/");
        assert!(
            html.contains("<a href=\"https://a.example/first-copy/x\">Download</a>"),
            "{html}"
        );
        let own =
            "Subject: Key\n\n{{ license.key }}{% if license.download_page %} {{ license.download_page }}{% endif %}\n";
        let key = LicenseKey::from_random([0; 20]);
        assert_eq!(rendered(own, None).unwrap().text, key.reveal());
        let old = "Subject: Key\n\n{{ license.key }}\n";
        assert_eq!(rendered(old, None).unwrap().text, format!("{}\n", key.reveal()));
    }

    #[test]
    fn a_license_without_an_end_and_without_a_limit_says_so() {
        let registry = tempfile::tempdir().unwrap();
        let texts = MailTexts::load(registry.path()).unwrap();
        let mut of = licenses(1);
        of.licenses[0].license.expires = "9999-12-31".parse().unwrap();
        of.licenses[0].license.sites = SiteLimit::Unlimited;
        of.licenses[0].plugins.clear();
        let text = texts.render(&of).unwrap().text;
        for expected in ["For:         forms\n", "any number", "no end"] {
            assert!(text.contains(expected), "{text}");
        }
        assert!(!text.contains("9999"));
    }

    #[test]
    fn a_vendors_text_takes_the_place_of_both_and_html_needs_a_text() {
        let own = rendered(
            "Subject: Hi\n\n{{ license.key }} {{ license.modules[0].features[0] }}\n",
            None,
        )
        .unwrap();
        let key = LicenseKey::from_random([0; 20]);
        assert_eq!(own.text, format!("{} pdf\n", key.reveal()));
        assert_eq!((own.subject.as_str(), own.html), ("Hi", None));
        let both = rendered("Subject: Hi\r\n\r\nx\r\n", Some("<b>{{ license.plugins[0] }}</b>")).unwrap();
        assert_eq!(both.html.unwrap(), "<b>Acme &lt;Forms&gt; &amp; &quot;Maps&quot;</b>");

        let registry = tempfile::tempdir().unwrap();
        fs::create_dir(registry.path().join(FOLDER)).unwrap();
        fs::write(registry.path().join("mail/license.html"), "x").unwrap();
        assert!(matches!(
            MailTexts::load(registry.path()),
            Err(MailTextError::NoText(_))
        ));
    }

    #[test]
    fn mistakes_are_reported_with_file_and_line_and_without_a_value() {
        for (text, expected) in [
            (
                "Subject: a\n\nx\n{{ licence.key }}\n",
                "license.txt:4: there is no \"licence.key\"",
            ),
            (
                "Subject: a\n\n{% if license.expired %}x{% endif %}",
                "license.txt:3: there is no \"license.expired\"",
            ),
            ("Subject: a\n\n{{ license.key | nothing }}", "license.txt:3: "),
            ("Subject: a\n\n{% if x", "license.txt:3: "),
            ("Hello\n\nx", "license.txt:1: expected \"Subject: \" and the subject"),
            ("Subject:  \n\nx", "license.txt:1: a subject has 1 to 200 characters"),
            (
                "Subject: a\nx",
                "license.txt:1: expected an empty line below the subject",
            ),
            (
                "Subject: a\rBcc: x\n\nx",
                "license.txt:1: a control character in the subject",
            ),
            (
                "Subject: a\n\n{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}",
                "license.txt:3: ",
            ),
        ] {
            let error = rendered(text, None).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
            assert!(!error.contains(LicenseKey::from_random([0; 20]).reveal()));
        }
        // The engine does not say which line was too much.
        let endless = format!(
            "Subject: a\n\n{{% for a in range(9999) %}}{}{{% endfor %}}",
            "x".repeat(999)
        );
        assert_eq!(
            rendered(&endless, None).unwrap_err(),
            "license.txt:1: it makes more than 1 MiB"
        );
    }

    #[test]
    fn a_template_that_is_too_deep_is_an_error_with_its_line() {
        let deep = |open: &str, repeated: &str, close: &str| {
            format!(
                "Subject: a\n\n{open}{}{close}",
                repeated.repeat(60_000.min(250_000 / repeated.len()))
            )
        };
        let show = |repeated: &str| deep("{{ ", repeated, "1 }}");
        let chain = |repeated: &str| deep("{{ license", repeated, " }}");
        let loops = |made: &str| {
            format!(
                "Subject: a\n\n{{% set n = namespace(x=[]) %}}{{% for a in range(60000) %}}{{% set n.x={made} %}}{{% endfor %}}{{{{ n.x }}}}"
            )
        };
        let nested = format!("{{% set a={}a{} %}}", "[".repeat(70), "]".repeat(70));
        for text in [
            show("not "),
            show("-"),
            show("1+"),
            show("1 if 1 else "),
            chain("|abs"),
            chain(".key"),
            chain("[0]"),
            chain("[:]"),
            chain("()"),
            chain("**2"),
            chain("~1"),
            chain(" and 1"),
            chain(" is not odd"),
            deep("{% if 0 %}", "{% elif 0 %}", "{% endif %}"),
            deep("{% set a = [] %}", "{% set a=[a] %}", "{{ a }}"),
            deep("{% set a = [] %}", "{% set a={1:a} %}", "{{ a }}"),
            format!("Subject: a\n\n{{% set a=[] %}}{}{{{{ a }}}}", nested.repeat(1_000)),
            loops("[n.x]"),
            loops("{1: n.x}"),
            loops("n"),
            loops("n.x|zip([1])"),
            format!("Subject: a\n\n{{% for a in [1] recursive %}}{nested}{{{{ loop([a]) }}}}{{% endfor %}}"),
            deep("{{ ", "(", " }}"),
            deep("", "{% if 1 %}", ""),
        ] {
            let error = rendered(&text, None).unwrap_err();
            assert!(error.starts_with("license.txt:3: "), "{text:.60}: {error}");
        }
    }

    #[test]
    fn the_deepest_template_that_may_be_fits_a_stack() {
        let list = format!("{{% set a={}1{} %}}", "[".repeat(70), "]".repeat(70));
        for text in [
            format!("{{{{ {}1 }}}}", "-".repeat(1_990)),
            format!("{{{{ {}1 }}}}", "not ".repeat(1_990)),
            format!("{{{{ 1{} }}}}", "-1".repeat(990)),
            format!("{{{{ license.key{} }}}}", "|string".repeat(990)),
            format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(490)),
            format!("{list}{{{{ a }}}}"),
        ] {
            // Half of what a thread has.
            let made = std::thread::Builder::new()
                .stack_size(1 << 20)
                .spawn(move || rendered(&format!("Subject: a\n\n{text}"), None).map(drop));
            assert_eq!(made.unwrap().join().unwrap(), Ok(()));
        }
    }

    #[test]
    fn a_template_ends_soon_and_takes_little_memory_whatever_it_builds() {
        let twice = |step: &str, show: &str| format!("{{% set a = [1, 2] %}}{}{show}", step.repeat(40));
        let texts = |step: &str| format!("{{% set a = 'xy' %}}{}{{{{ a|length }}}}", step.repeat(40));
        let length = "{{ a|length }}";
        let pair = "{% set a=[a,a] %}";
        for text in [
            twice("{% set a=a+a %}", length),
            twice("{% set a=a*2 %}", length),
            twice("{% set a=a|chain(a) %}", length),
            twice("{% set a=[a,a]|sum(start=[]) %}", length),
            twice(pair, "{{ a == a|list }}"),
            twice(pair, "{% if a < [a]|first|list %}x{% endif %}"),
            twice(pair, "{% set b = a|string %}"),
            twice(pair, "{% set b = 'x' ~ a %}"),
            twice(pair, "{{ a|join }}"),
            twice(pair, "{{ {a: 1}|length }}"),
            twice(pair, "{{ [a, a|list]|unique|length }}"),
            twice("{% set a=(a,a) %}", "{{ a == a|list }}"),
            twice("{% set a = a, a %}", "{{ a == a|list }}"),
            twice("{% set a={1: a, 2: a} %}", "{{ a|string|length }}"),
            twice("{% set a=dict(x=a, y=a) %}", "{{ a|string|length }}"),
            twice("{% set a=a|zip(a)|list %}", "{{ a|string|length }}"),
            twice(
                "{% set a=a|batch(1)|list %}{% set a=a|zip(a)|list %}",
                "{{ a|string|length }}",
            ),
            twice(
                "{% set a=[1,2]|map(attribute='x', default=a)|list %}",
                "{{ a|string|length }}",
            ),
            twice(
                "{% set a=[0,0]|map('default', a, true)|list %}",
                "{{ a|string|length }}",
            ),
            "{{ ([[1]*10000000]*10000000)|length }}".to_owned(),
            "{{ [1]*1000000000000 == [1]*1000000000000 }}".to_owned(),
            "{% for x in [1]*1000000000000 %}{% endfor %}".to_owned(),
            "{{ ([1]*1000000000000)|last }}".to_owned(),
            "{{ range(1000000000)|length }}".to_owned(),
            "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}".to_owned(),
            "{{ 'x' * 10**12 }}".to_owned(),
            "{{ '%999999999999d'|format(1) }}".to_owned(),
            "{{ 'x'|indent(999999999999) }}".to_owned(),
            "{{ range(100000)|join('x' * 1000000) }}".to_owned(),
            "{{ 2**2**2**2**2**2**2 }}".to_owned(),
            texts("{% set a=a~a %}"),
            texts("{% set a=a|replace('x', a) %}"),
            texts("{% set a=a|join(a) %}"),
            texts("{% set a %}{{ a }}{{ a }}{% endset %}"),
            "{% set a %}{% for a in range(60000) %}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{% endfor %}{% endset %}\
             {% for b in range(90000) %}{% set c = a|upper|lower|title %}{% endfor %}"
                .to_owned(),
        ] {
            let (made, is_made) = std::sync::mpsc::channel();
            let template = format!("Subject: a\n\n{text}");
            std::thread::spawn(move || made.send(rendered(&template, None)));
            let result = is_made.recv_timeout(std::time::Duration::from_secs(20));
            let error = result
                .unwrap_or_else(|_| panic!("it goes on: {text:.90}"))
                .map(drop)
                .unwrap_err();
            assert!(error.starts_with("license.txt:"), "{text:.60}: {error}");
        }
    }

    #[test]
    fn a_vendors_text_decides_joins_and_counts() {
        let text = "Subject: a\n\n{% for module in license.modules %}{{ loop.index }} {{ module.name|upper }}\
            {% if module.name in ['forms', 'maps'] and not loop.last %},{% endif %}{% endfor %} \
            {{ license.modules|map(attribute='features')|first|join('/') }} {{ ('a' ~ 'b')|replace('a', 'c') }} \
            {{ license.note|default('none') if false else license.sites - 1 }} {{ range(1, 3)|join(', ') }} \
            {% for name, number in {'x': 1}|items %}{{ name }}{{ number }}{% endfor %} {{ license.expires[:4] }}\n";
        assert_eq!(rendered(text, None).unwrap().text, "1 FORMS pdf cb 2 1, 2 x1 2027\n");
    }

    #[test]
    fn a_file_that_is_none_is_an_error_and_not_the_built_in_text() {
        let registry = tempfile::tempdir().unwrap();
        fs::create_dir_all(registry.path().join("mail/license.txt")).unwrap();
        assert!(matches!(
            MailTexts::load(registry.path()),
            Err(MailTextError::Read { .. })
        ));
        fs::remove_dir(registry.path().join("mail/license.txt")).unwrap();
        fs::write(registry.path().join("mail/license.txt"), vec![b' '; 257 << 10]).unwrap();
        assert!(matches!(
            MailTexts::load(registry.path()),
            Err(MailTextError::Read { .. })
        ));
    }

    #[test]
    fn every_built_in_text_shows_all_that_is_known_and_goes_without_it() {
        let registry = tempfile::tempdir().unwrap();
        let texts = MailTexts::load(registry.path()).unwrap();
        texts.try_all().unwrap();
        for (kind, subject) in [
            (MailKind::License, "Your license keys"),
            (MailKind::Download, "Your download"),
            (MailKind::ReminderBefore, "Your licenses end on "),
            (MailKind::ReminderAfter, "Your licenses have ended"),
            (MailKind::SiteClaimed, "Was example.com set up again?"),
        ] {
            let content = made_up::content(kind, None, None, None, 2);
            let mail = texts.render(&content).unwrap();
            assert!(mail.subject.starts_with(subject), "{}", mail.subject);
            assert!(mail.text.contains("Hello Anna Example,"), "{}", mail.text);
            let link = content.reminder.map(|reminder| reminder.unsubscribe);
            assert_eq!(mail.unsubscribe, link);
            let confirm = content.site.map(|site| site.confirm);
            if let Some(link) = link.or(confirm) {
                let html = mail.html.clone().unwrap().replace("&#x2f;", "/");
                assert!(mail.text.contains(&link) && html.contains(&link), "{html}");
                assert!(!mail.text.contains(LicenseKey::from_random([1; 20]).reveal()));
            }
        }
    }

    #[test]
    fn a_mail_has_the_text_of_its_language_or_of_a_wider_one_or_of_nobody() {
        let registry = tempfile::tempdir().unwrap();
        let folder = registry.path().join(FOLDER);
        fs::create_dir(&folder).unwrap();
        let write =
            |name: &str, text: &str| fs::write(folder.join(name), format!("Subject: {text}\n\n{{{{ language }}}}"));
        for (name, text) in [
            ("license.txt", "Hi"),
            ("license.de.txt", "Hallo"),
            ("license.pt-BR.txt", "Oi"),
            ("license.pt.txt", "Viva"),
        ] {
            write(name, text).unwrap();
        }
        fs::write(folder.join("notes.md"), "").unwrap();
        let said = |language: Option<&str>| {
            let content = MailContent {
                language: language.map(|tag| tag.parse().unwrap()),
                ..licenses(1)
            };
            let mail = MailTexts::load(registry.path()).unwrap().render(&content).unwrap();
            (mail.subject, mail.text)
        };
        for (language, subject) in [
            (None, "Hi"),
            (Some("fr"), "Hi"),
            (Some("de_AT"), "Hallo"),
            (Some("pt_BR"), "Oi"),
            (Some("pt-pt"), "Viva"),
        ] {
            assert_eq!(said(language).0, subject, "{language:?}");
        }
        assert_eq!(said(Some("de_AT")).1, "de-at");
        let error = |name: &str| {
            write(name, "x").unwrap();
            let error = MailTexts::load(registry.path()).err().unwrap();
            fs::remove_file(folder.join(name)).unwrap();
            assert!(!error.hint().is_empty());
            error
        };
        assert!(matches!(error("license.french.txt"), MailTextError::NoLanguage(_)));
        assert!(matches!(error("license.pt_br.txt"), MailTextError::TwoNames(_)));
        fs::write(folder.join("reminder-after.fr.html"), "x").unwrap();
        assert!(matches!(
            MailTexts::load(registry.path()),
            Err(MailTextError::NoText(_))
        ));
    }

    #[test]
    fn a_text_names_the_sale() {
        let mut content = licenses(1);
        content.name = Some("Anna".into());
        content.licenses[0].order = Some("order:7".into());
        content.licenses[0].product = Some("Acme Forms, 1 year".into());
        let registry = tempfile::tempdir().unwrap();
        let folder = registry.path().join(FOLDER);
        fs::create_dir(&folder).unwrap();
        let text = "Subject: {{ license.product }}\n\n{{ customer.name }} {{ license.order }}";
        fs::write(folder.join("license.txt"), text).unwrap();
        let mail = MailTexts::load(registry.path()).unwrap().render(&content).unwrap();
        assert_eq!(
            (mail.subject.as_str(), mail.text.as_str()),
            ("Acme Forms, 1 year", "Anna order:7")
        );
    }
}
