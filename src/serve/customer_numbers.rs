//! The number of a customer: the row beside the ledger is there before a line names it.
//!
//! SECURITY: address and name are in no log and in no error.

use countersign_ledger::{Ledger, StoreError};
use countersign_model::customer::CustomerAddress;
use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_settings::config::CustomerRule;
use countersign_settings::keys::license_secrets::LicenseSecrets;

/// A customer, as somebody says it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SaidCustomer<'a> {
    /// The address.
    pub address: &'a CustomerAddress,
    /// The name, where it is said. `Debug` of the request is never logged.
    pub name: Option<&'a str>,
    /// Who says so.
    pub by: &'a ChangeScope,
}

/// The customer's number. If the address is new, so is the number; its row is durable.
///
/// # Errors
/// The row could not be read or written, or the system has no random numbers.
pub(super) async fn number(
    bindings: &Ledger,
    secrets: &LicenseSecrets,
    said: SaidCustomer<'_>,
    rule: CustomerRule,
) -> Result<Hex128, StoreError> {
    let SaidCustomer { address, name, by } = said;
    let new = secrets.references().customer(address, name, by, rule);
    let new = new.map_err(|error| StoreError::NotDurable(error.to_string().into()))?;
    bindings.keep_customer(new).await
}
