//! The sales of a ledger and their licenses, for commands that read it.

use std::path::Path;

use countersign_model::issued_license::{Hex128, IssuedLicense};

use crate::error::StoreError;
use crate::issued_table::IssuedBuilder;
use crate::ledger_tables::EventTables;
use crate::log::record::LedgerEvent;
use crate::sale_table::KnownSale;
use crate::{disk, recovery};

/// The sales and licenses of a ledger.
#[derive(Default)]
pub struct StoredSales {
    events: EventTables,
    licenses: Vec<IssuedLicense>,
}

impl StoredSales {
    /// Every sale, by id.
    pub fn all(&self) -> Vec<KnownSale> {
        self.events.sales.all()
    }

    /// The sale that has an object with this name.
    pub fn sale_of(&self, name: Hex128) -> Option<Hex128> {
        self.events.sales.id_of(name)
    }

    /// Every license with the sale that it is of now, sorted by its id; licenses of no sale are left out.
    pub fn licenses(&self) -> impl Iterator<Item = (Hex128, &IssuedLicense)> {
        self.licenses.iter().filter_map(|issued| {
            let sold = issued.license.details.remarks().sold.as_deref()?;
            Some((self.events.sales.id_of(sold.sale)?, issued))
        })
    }
}

/// Collects sales while a ledger is read.
#[derive(Default)]
pub(crate) struct StoredSalesBuilder {
    events: EventTables,
    licenses: IssuedBuilder,
}

impl StoredSalesBuilder {
    /// Takes the event of the next line.
    pub(crate) fn take(&mut self, event: LedgerEvent) {
        match event {
            LedgerEvent::License(license) => self.licenses.add(license),
            event => self.events.take(&event),
        }
    }

    pub(crate) fn finish(self) -> StoredSales {
        StoredSales {
            events: self.events,
            licenses: self.licenses.finish().into_licenses(),
        }
    }
}

/// Those of a folder; none where there is no ledger.
pub(crate) fn in_folder(path: &Path) -> Result<StoredSales, StoreError> {
    let mut builder = StoredSalesBuilder::default();
    if disk::has_ledger(path)? {
        recovery::read(path, |_, change| {
            change.into_iter().for_each(|event| builder.take(event));
        })?;
    }
    Ok(builder.finish())
}
