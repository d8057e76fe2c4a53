//! Reads fields of a delivery by their paths. What is missing, of another type or too long reads as `None`.

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDateTime, Utc};
use serde_json::Value;

use crate::event::DeliveryError;
use countersign_model::customer;
use countersign_model::language::Language;
use countersign_model::license_key::LicenseKey;
use countersign_model::offer::ShopId;
use countersign_model::period;
use countersign_model::renewal_token::{NotARenewalToken, RenewalToken};

/// The longest id or name that is taken, in bytes.
const MAX_ID: usize = 255;

/// The longest mail address (RFC 5321 section 4.5.3.1).
const MAX_ADDRESS: usize = 254;

/// Lines of a sale that are read. One with more is parked.
pub(super) const MAX_LINES: usize = 100;

/// The value at a path such as `data.object`.
pub(super) fn at<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(value, |value, name| value.get(name))
}

pub(super) fn text<'v>(value: &'v Value, path: &str) -> Option<&'v str> {
    at(value, path)?.as_str()
}

/// The same where a delivery must have it.
pub(super) fn required<'v>(value: &'v Value, path: &'static str) -> Result<&'v str, DeliveryError> {
    text(value, path)
        .filter(|text| text.len() <= MAX_ID && !LicenseKey::is_in(text))
        .ok_or(DeliveryError::Missing(path))
}

pub(super) fn is_true(value: &Value, path: &str) -> bool {
    at(value, path).and_then(Value::as_bool).unwrap_or_default()
}

/// An id: a text, a number, or an object that has an `id`. A number 0 is none.
pub(super) fn id(value: &Value, path: &str) -> Option<String> {
    let found = at(value, path)?;
    let text = match found {
        Value::Object(expanded) => expanded.get("id")?.as_str()?.to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => number.as_u64().filter(|number| *number > 0)?.to_string(),
        _ => return None,
    };
    let is_plain = !text.is_empty() && text.len() <= MAX_ID && text.bytes().all(|byte| byte.is_ascii_graphic());
    // SECURITY: ids are stored and logged.
    let is_plain = is_plain && !LicenseKey::is_in(&text);
    is_plain.then_some(text)
}

/// An id that can be a part of a path or a query.
// SECURITY: the sender of an id can choose no other question by it.
pub(super) fn path_id(value: &Value, path: &str) -> Option<String> {
    id(value, path).filter(|id| is_of_path(id))
}

/// Whether an id can be a part of a path or a query.
pub(super) fn is_of_path(id: &str) -> bool {
    !id.is_empty() && id.len() <= MAX_ID && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Puts a value at a path such as `data.object.lines`, if the object before the last dot is there.
pub(super) fn put(value: &mut Value, path: &str, new: Value) {
    let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
    let parent = match parent {
        "" => Some(value),
        _ => parent.split('.').try_fold(value, |value, name| value.get_mut(name)),
    };
    if let Some(Value::Object(parent)) = parent {
        parent.insert(name.to_owned(), new);
    }
}

/// The same as an id that an offer can have.
pub(super) fn shop_id(value: &Value, path: &str) -> Option<ShopId> {
    id(value, path)?.parse().ok()
}

/// The first id at some paths.
pub(super) fn first_id(value: &Value, paths: &[&str]) -> Option<String> {
    paths.iter().find_map(|path| id(value, path))
}

/// The ids at some paths, each once.
pub(super) fn ids(value: &Value, paths: &[&str]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for id in paths.iter().filter_map(|path| id(value, path)) {
        if !found.contains(&id) {
            found.push(id);
        }
    }
    found
}

/// Seconds since 1970, in the years 1 to 9999.
pub(super) fn seconds(value: &Value, path: &str) -> Option<DateTime<Utc>> {
    with_day(DateTime::from_timestamp(at(value, path)?.as_i64()?, 0)?)
}

/// RFC 3339, in the years 1 to 9999; without a zone, it is UTC.
pub(super) fn time(value: &Value, path: &str) -> Option<DateTime<Utc>> {
    let text = text(value, path)?;
    match DateTime::parse_from_rfc3339(text) {
        Ok(time) => with_day(time.to_utc()),
        Err(_) => {
            let time = NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S").ok()?;
            with_day(time.and_utc())
        }
    }
}

/// The time, if its day can be the last one of a license.
fn with_day(time: DateTime<Utc>) -> Option<DateTime<Utc>> {
    period::last_day(time.date_naive()).map(|_| time)
}

/// A mail address. It is not checked further: the mail server will.
pub(super) fn address(value: &Value, path: &str) -> Option<String> {
    let text = text(value, path)?;
    let is_plain = text.len() <= MAX_ADDRESS && text.contains('@') && !text.chars().any(|c| c.is_control() || c == ' ');
    // SECURITY: addresses are stored.
    let is_plain = is_plain && !LicenseKey::is_in(text);
    is_plain.then(|| text.to_owned())
}

/// The renewal token at the first of some paths that has a text.
// SECURITY: the buyer can write it, so only its MAC says that it is one.
pub(super) fn renewal_token(value: &Value, paths: &[&str]) -> Option<Result<RenewalToken, NotARenewalToken>> {
    let found = paths
        .iter()
        .find_map(|path| text(value, path).filter(|text| !text.is_empty()));
    found.map(str::parse)
}

/// A person's name of these parts; `None` if all are missing or empty.
pub(super) fn name(value: &Value, paths: &[&str]) -> Option<String> {
    let parts: Vec<_> = paths
        .iter()
        .filter_map(|path| text(value, path))
        .filter(|part| !part.is_empty())
        .collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

/// What a shop calls something that it sells, of these parts.
pub(super) fn words(value: &Value, paths: &[&str]) -> Option<Box<str>> {
    customer::kept_name(&name(value, paths)?)
}

/// The language at the first of some paths that has one.
pub(super) fn language(value: &Value, paths: &[&str]) -> Option<Language> {
    paths.iter().find_map(|path| text(value, path)?.parse().ok())
}

/// The array at a path; empty if there is none.
pub(super) fn list<'v>(value: &'v Value, path: &str) -> &'v [Value] {
    at(value, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// How many were bought; what is missing is 1. `None` if it is no 32-bit number. A quantity below 0 is one that went back.
pub(super) fn quantity(value: &Value, path: &str) -> Option<u32> {
    match at(value, path) {
        None | Some(Value::Null) => Some(1),
        Some(quantity) => u32::try_from(quantity.as_i64()?.unsigned_abs()).ok(),
    }
}

/// An amount in the currency's smallest unit: a whole number, or a text of one.
pub(super) fn amount(value: &Value, path: &str) -> Option<i64> {
    match at(value, path)? {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// An amount that is asked for or goes back: below 0, nothing is.
pub(super) fn above_zero(amount: i64) -> u64 {
    u64::try_from(amount).unwrap_or_default()
}

/// Names items that have no id of the shop: their product, and their number among items of that product.
#[derive(Default)]
pub(super) struct ItemNames(BTreeMap<ShopId, u32>);

impl ItemNames {
    pub(super) fn next(&mut self, product: &ShopId) -> String {
        let number = self.0.entry(product.clone()).or_default();
        let name = format!("{product}#{number}");
        *number += 1;
        name
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_has_a_license_key_is_no_id_and_no_address() {
        let key = LicenseKey::from_random([5; 20]);
        let value =
            json!({ "a": key.reveal(), "b": format!("{}@b.example", key.reveal()), "c": { "id": key.reveal() } });
        assert_eq!(
            (id(&value, "a"), id(&value, "c"), address(&value, "b")),
            (None, None, None)
        );
        assert!(required(&value, "a").is_err() && shop_id(&value, "a").is_none());
        // A shop's own key is read by this one, and kept nowhere.
        assert!(text(&value, "a").is_some());
    }

    #[test]
    fn a_time_whose_day_no_license_can_end_on_is_none() {
        let value = json!({ "last": "9999-12-31T23:59:59Z", "over": "9999-12-31T23:59:59-01:00", "plain": "10000-01-01T00:00:00",
            "zero": "0000-12-31T00:00:00Z", "second": 253_402_300_799_i64, "next": 253_402_300_800_i64, "most": i64::MAX });
        assert!(time(&value, "last").is_some() && seconds(&value, "second").is_some());
        for path in ["over", "plain", "zero"] {
            assert_eq!(time(&value, path), None, "{path}");
        }
        for path in ["next", "most"] {
            assert_eq!(seconds(&value, path), None, "{path}");
        }
    }
}
