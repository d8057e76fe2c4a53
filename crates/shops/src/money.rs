//! Amounts of money: how many digits a currency has behind the point, and how people read an amount.

/// Currencies without a smaller unit, and those with 1,000 of them; all others have 100 (ISO 4217, list one,
/// <https://www.six-group.com/en/products-services/financial-information/data-standards.html>).
const NO_MINOR_UNIT: [&str; 17] = [
    "BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "UYI", "VND", "VUV", "XAF", "XOF",
    "XPF",
];
const THOUSANDTHS: [&str; 7] = ["BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"];

/// Digits of the smallest unit of a currency.
pub(crate) fn digits(currency: &str) -> usize {
    match currency {
        currency if NO_MINOR_UNIT.contains(&currency) => 0,
        currency if THOUSANDTHS.contains(&currency) => 3,
        _ => 2,
    }
}

/// An amount in units of which a whole has so many digits: `29.99 USD`.
pub(crate) fn shown(units: i64, digits: usize, currency: &str) -> String {
    let sign = if units < 0 { "-" } else { "" };
    let number = format!("{:0>width$}", units.unsigned_abs(), width = digits + 1);
    let (whole, part) = number.split_at(number.len() - digits);
    let point = if part.is_empty() { "" } else { "." };
    format!("{sign}{whole}{point}{part} {currency}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_has_the_digits_of_its_currency() {
        let of = |units, currency| shown(units, digits(currency), currency);
        assert_eq!(of(2_999, "USD"), "29.99 USD");
        assert_eq!(of(5, "EUR"), "0.05 EUR");
        assert_eq!(of(-2_999, "JPY"), "-2999 JPY");
        assert_eq!(of(12_345, "KWD"), "12.345 KWD");
        assert_eq!(of(0, "USD"), "0.00 USD");
    }
}
