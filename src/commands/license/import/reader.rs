//! A row of an export as a license with all that it covers, or why it is none.

use countersign_model::license_key::LicenseId;
use countersign_shops::import::columns::ExportColumns;
use countersign_shops::import::export_field::ExportField;
use countersign_shops::import::export_file::RowText;
use countersign_shops::import::exported_license::{self, ExportedLicense, ReadRow, RowRules};

use crate::commands::license::import::products::Products;

/// Reads rows by the rules of a command line.
pub(super) struct RowReader<'f> {
    columns: &'f ExportColumns,
    products: Products,
    rules: RowRules,
}

/// What a row is.
pub(super) enum RowResult {
    /// A license; its modules are all that it covers.
    License(Box<ExportedLicense>),
    /// No license of anybody, by this word for its status.
    Skipped(String),
    /// It cannot be taken.
    Refused {
        /// The id of its key, if that could be read.
        id: Option<LicenseId>,
        /// Quotes nothing of the row but a short word.
        reason: String,
    },
}

impl<'f> RowReader<'f> {
    pub(super) fn new(columns: &'f ExportColumns, products: Products, rules: RowRules) -> Self {
        Self {
            columns,
            products,
            rules,
        }
    }

    /// Reads a row.
    pub(super) fn read(&self, row: &RowText<'_>) -> RowResult {
        let refused = |reason: String| RowResult::Refused {
            id: row.key_id(self.columns),
            reason,
        };
        let read = row.cells(self.columns);
        let read = read.and_then(|cells| exported_license::read(self.columns, &cells, &self.rules));
        let mut license = match read {
            Ok(ReadRow::License(license)) => license,
            Ok(ReadRow::Skipped { word }) => return RowResult::Skipped(word),
            Err(error) => return refused(error.to_string()),
        };
        let Some(covered) = self.products.covered(&license) else {
            let field = match self.columns.has(ExportField::Product) {
                true => ExportField::Product,
                false => ExportField::ProductId,
            };
            let reason = format!(
                "{} {:?}: no plugin entry has this product as its edd_item_name or edd_item_id, and no --map names it",
                self.columns.preset().form.parts(),
                self.columns.header(field)
            );
            return refused(reason);
        };
        if license.price.is_some() && !covered.is_by_price {
            license.left_out.push("price");
        }
        license.modules = covered.modules;
        RowResult::License(license)
    }
}
