//! Customers, as a person names them on a command line, and what the store keeps of them, also beside a running server.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt;
use std::io::{self, Read as _};
use std::str::FromStr;

use crate::commands::Failure;
use crate::commands::keys::secrets;
use crate::commands::store::{store_failure, store_source};
use countersign_model::customer::{CustomerAddress, CustomerRow};
use countersign_model::issued_license::Hex128;
use countersign_model::stored_text::StoredText;
use countersign_settings::config::Config;
use countersign_settings::keys::secret_keys::ReferenceKeys;

/// The most bytes to read from stdin: more than an address has.
const MAX_STDIN: u64 = 1_024;

/// An address, or the number of a customer, as it is typed; `-` reads it from stdin.
// SECURITY: it is personal. So it is parsed after clap, whose errors quote what they reject, and is never shown.
#[derive(Clone)]
pub(super) struct CustomerArg(String);

/// A customer, as a person names one.
#[derive(Clone, Debug)]
pub(super) enum NamedCustomer {
    /// By an address.
    Address(CustomerAddress),
    /// By the number.
    Number(Hex128),
}

impl FromStr for CustomerArg {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for CustomerArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CustomerArg(redacted)")
    }
}

impl CustomerArg {
    /// Whether it is read from stdin.
    pub(super) fn is_stdin(&self) -> bool {
        self.0 == "-"
    }

    /// Whether it is this word.
    pub(super) fn is(&self, word: &str) -> bool {
        self.0 == word
    }

    fn text(&self) -> Result<String, Failure> {
        if !self.is_stdin() {
            return Ok(self.0.clone());
        }
        let mut read = String::new();
        let stdin = io::stdin().lock().take(MAX_STDIN).read_to_string(&mut read);
        stdin.map_err(Failure::environment)?;
        Ok(read)
    }

    /// The address.
    pub(super) fn address(&self) -> Result<CustomerAddress, Failure> {
        address(&self.text()?)
    }

    /// The address or the number.
    pub(super) fn named(&self) -> Result<NamedCustomer, Failure> {
        let text = self.text()?;
        match text.trim().to_ascii_lowercase().parse::<Hex128>() {
            Ok(number) => Ok(NamedCustomer::Number(number)),
            Err(_) => address(&text).map(NamedCustomer::Address),
        }
    }
}

fn address(text: &str) -> Result<CustomerAddress, Failure> {
    let address = text.parse();
    address.map_err(|error: countersign_model::customer::NotACustomerAddress| Failure::usage(error))
}

/// No row has the address.
#[derive(Debug, thiserror::Error)]
#[error("no customer has this address")]
struct UnknownAddress;

impl NamedCustomer {
    /// The customer's number.
    ///
    /// # Errors
    /// No customer has the address, or the store or the keys cannot be read.
    pub(super) fn number(&self, config: &Config) -> Result<Hex128, Failure> {
        match self {
            Self::Number(number) => Ok(*number),
            Self::Address(address) => number_of(address, config)?.ok_or_else(|| {
                Failure::input(UnknownAddress)
                    .hint("`countersign license list --find TEXT` looks for parts of addresses and names")
            }),
        }
    }
}

/// The number of the customer with this address, if there is one.
pub(super) fn number_of(address: &CustomerAddress, config: &Config) -> Result<Option<Hex128>, Failure> {
    let paths = &config.paths;
    let loaded = ReferenceKeys::load(&paths.references_key, &paths.retired_keys);
    let (keys, _) = loaded.map_err(secrets::failure)?;
    let names = keys.customer_names(address);
    let found = countersign_ledger::texts(store_source(paths), &names).map_err(store_failure)?;
    // In the order of the names: the secret in force comes first.
    let of_name = |name: &Hex128| found.iter().find(|(found, _)| found == name);
    let rows = names.iter().filter_map(of_name).map(|(_, stored)| stored);
    Ok(rows.filter_map(StoredText::customer).map(|row| row.number).next())
}

/// The rows of these customers, the newest first.
pub(super) fn of(numbers: &BTreeSet<Hex128>, config: &Config) -> Result<Vec<CustomerRow>, Failure> {
    countersign_ledger::customers(store_source(&config.paths), numbers).map_err(store_failure)
}

/// At most `most` rows whose address or name contains a text.
pub(super) fn with(text: &str, most: usize, config: &Config) -> Result<Vec<CustomerRow>, Failure> {
    countersign_ledger::customers_with(store_source(&config.paths), text, most).map_err(store_failure)
}
