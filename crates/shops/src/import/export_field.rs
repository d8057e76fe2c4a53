//! What an export may say of a license.

use std::fmt;

use strum::{EnumIter, IntoEnumIterator as _};

/// What a column may say of a license.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumIter)]
pub enum ExportField {
    /// The license key.
    Key,
    /// Its status.
    Status,
    /// The last day, or the second after which it is over.
    Expires,
    /// For how many days since it was bought, if it has no last day.
    ValidFor,
    /// How many sites.
    Sites,
    /// The sites that use it.
    Hosts,
    /// What the shop calls it.
    Reference,
    /// When it was bought.
    Created,
    /// Modules and features.
    Modules,
    /// The product's name.
    Product,
    /// The product's number.
    ProductId,
    /// Which of the product's prices was paid.
    Price,
    /// The buyer's mail address.
    Customer,
    /// The buyer's name.
    Name,
    /// The subscription that renews it.
    Subscription,
    /// The order in which it was bought.
    Order,
}

impl ExportField {
    /// The field's name, as `--column` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Status => "status",
            Self::Expires => "expires",
            Self::ValidFor => "valid_for",
            Self::Sites => "sites",
            Self::Hosts => "hosts",
            Self::Reference => "reference",
            Self::Created => "created",
            Self::Modules => "modules",
            Self::Product => "product",
            Self::ProductId => "product_id",
            Self::Price => "price",
            Self::Customer => "customer",
            Self::Name => "name",
            Self::Subscription => "subscription",
            Self::Order => "order",
        }
    }

    /// The field with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::iter().find(|field| field.name() == name)
    }
}

impl fmt::Display for ExportField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
