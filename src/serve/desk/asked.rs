//! What a page is asked: by whom, about what, with which fields.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};

use crate::serve::desk::frame::{NavEntry, PageFrame};
use crate::serve::desk::state::DeskState;
use crate::serve::desk::visitor::DeskVisitor;
use crate::serve::gate::Snapshot;
use crate::serve::ops::command_user::CommandUser;
use crate::serve::ops::license_answers::LedgerTools;
use crate::serve::pages::form::FormFields;
use crate::serve::pages::page_problem::PageProblem;
use countersign_ledger::StoreError;
use countersign_model::customer::CustomerAddress;
use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_model::license_key::LicenseId;
use countersign_model::plugin::Plugin;
use countersign_model::stored_text::StoredText;
use countersign_model::text::outside_text::OutsideText;
use countersign_settings::keys::license_secrets::LicenseSecrets;

/// A request of somebody who may ask for this page.
pub(super) struct Asked<'a> {
    pub(super) state: &'a Arc<DeskState>,
    pub(super) visitor: &'a DeskVisitor,
    pub(super) secrets: &'a Arc<LicenseSecrets>,
    pub(super) snapshot: &'a Arc<Snapshot>,
    pub(super) fields: &'a FormFields,
    /// The part of the path that names a thing.
    pub(super) name: &'a str,
    pub(super) now: DateTime<Utc>,
}

impl<'a> Asked<'a> {
    /// The plugin that the path names.
    ///
    /// # Errors
    /// The registry has none of this name.
    pub(super) fn plugin(&self) -> Result<&'a Plugin, PageProblem> {
        let plugin = self.snapshot.registry.plugin(self.name);
        plugin.ok_or_else(PageProblem::not_found)
    }

    /// What people call a plugin.
    pub(super) fn plugin_name(&self, plugin: &Plugin) -> OutsideText {
        OutsideText::of(plugin.shown_name(self.snapshot.catalog.plugin_name(&plugin.slug)))
    }

    pub(super) fn today(&self) -> NaiveDate {
        self.now.date_naive()
    }

    /// What is kept of texts.
    pub(super) async fn texts(&self, names: Vec<Hex128>) -> Result<BTreeMap<Hex128, StoredText>, StoreError> {
        if names.is_empty() {
            return Ok(BTreeMap::new());
        }
        let found = self.state.service.gate.bindings().texts(names).await?;
        Ok(found.into_iter().collect())
    }

    /// The numbers of the customer with this address. There may be several if a retired secret named the address.
    pub(super) async fn customers_of(&self, address: &CustomerAddress) -> Result<Vec<Hex128>, StoreError> {
        let names = self.secrets.references().customer_names(address);
        let found = self.texts(names).await?;
        Ok(found
            .values()
            .filter_map(StoredText::customer)
            .map(|row| row.number)
            .collect())
    }

    /// The licenses of these customers.
    pub(super) async fn issued_to(&self, customers: Vec<Hex128>) -> Result<Vec<LicenseId>, PageProblem> {
        let service = Arc::clone(&self.state.service);
        let look = move || service.gate.bindings().issued_to(&customers);
        Ok(self.state.scans.look(look).await?)
    }

    /// What the orders of commands are carried out with, for the visitor.
    pub(super) fn tools(&self) -> LedgerTools<'_> {
        let user = CommandUser::of_person(&self.visitor.name);
        LedgerTools {
            scope: Arc::new(ChangeScope::desk()),
            ..LedgerTools::of(&self.state.service, self.snapshot, user)
        }
    }

    /// What is around the page.
    pub(super) fn frame(&self, title: &str, here: NavEntry) -> PageFrame {
        PageFrame::new(title, here, self.visitor, self.now)
    }
}

/// The text of this name, unless it was erased.
pub(super) fn text(texts: &BTreeMap<Hex128, StoredText>, name: Option<Hex128>) -> Option<&str> {
    texts.get(&name?)?.text()
}
