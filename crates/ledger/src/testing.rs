//! Licenses and lines of the ledger, for tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, NaiveDate};

use countersign_model::api_token::ApiToken;
use countersign_model::digest::Digest;
use countersign_model::issued_license::{ChangeKind, Hex128, IssueOrigin, IssuedLicense};
use countersign_model::license::{Details, License, LicenseStatus, SiteLimit};
use countersign_model::license_key::LicenseId;
use countersign_model::offer::{LicenseTerm, QuantityMeaning, ShopId};
use countersign_model::sale::fact::{Fact, PaidLine, Payment};
use countersign_model::sale::terms::Terms;

use crate::log::record::{LedgerEvent, LedgerRecord};
use crate::log::{Position, SoldTerms};

/// A license that the token `shop` issued.
pub(crate) fn issued(number: u8) -> IssuedLicense {
    let scope = Arc::new("token:shop".parse().unwrap());
    IssuedLicense {
        license: License {
            id: LicenseId::from_bytes([number; 32]),
            status: LicenseStatus::Active,
            expires: NaiveDate::from_ymd_opt(9999, 12, 31).unwrap(),
            modules: Arc::new(BTreeMap::from([("forms".parse().unwrap(), Vec::new())])),
            sites: SiteLimit::DEFAULT,
            grace_period_hours: None,
            details: Details::default(),
            is_declared: false,
        },
        origin: IssueOrigin {
            body: Hex128([number; 16]),
            key: Hex128([number; 16]),
            salt: Hex128([number; 16]),
            scope: Arc::clone(&scope),
            secret: 1,
            issued: DateTime::from_timestamp(1, 0).unwrap(),
        },
        reference: None,
        kind: ChangeKind::Issued,
        revision: 1,
        scope,
        status_by: None,
        time: DateTime::from_timestamp(1, 0).unwrap(),
    }
}

/// A token that may change licenses, whose secret is its name.
pub(crate) fn api_token(name: &str) -> ApiToken {
    let time = DateTime::from_timestamp(1, 0).unwrap();
    ApiToken {
        name: name.parse().unwrap(),
        hash: Digest::of(name.as_bytes()),
        scopes: ["licenses:write".parse().unwrap()].into(),
        issued: time,
        used: None,
        revoked: false,
        time,
        who: None,
        reason: None,
    }
}

/// A payment of this number at this second: one line of the price `price_1`.
pub(crate) fn sale_fact(number: u8, second: i64) -> Fact<Hex128> {
    let time = DateTime::from_timestamp(second, 0).unwrap();
    let price: ShopId = "price_1".parse().unwrap();
    Fact::Payment(Payment {
        amount: Some(1_900),
        at: time,
        id: Hex128([number; 16]),
        is_valid: true,
        lines: vec![PaidLine {
            amount: Some(1_900),
            from: None,
            item: Hex128([200; 16]),
            is_recurring: false,
            offer: None,
            price: price.clone(),
            product: price,
            quantity: 1,
            to: None,
        }],
        names: Vec::new(),
        paid: Some(time),
        place: None,
        renews: Vec::new(),
        subscription: None,
    })
}

/// What `price_1` grants to the payment of this number.
pub(crate) fn sold_terms(number: u8) -> SoldTerms {
    SoldTerms {
        price: "price_1".parse().unwrap(),
        sale: Hex128([number; 16]),
        terms: Terms {
            grace_days: 3,
            is_nothing: false,
            lasts: LicenseTerm::Lifetime,
            modules: Arc::new(BTreeMap::from([("forms".parse().unwrap(), Vec::new())])),
            offer: "forms".parse().unwrap(),
            quantity: QuantityMeaning::Licenses,
            site_moves: Some(5),
            sites: SiteLimit::DEFAULT,
            staging_sites: None,
        },
    }
}

/// The first line of a ledger, with this event. It is canonical JSON, and is read back as what it was.
pub(crate) fn written(change: LedgerEvent) -> String {
    let record = LedgerRecord {
        previous: Position::genesis(),
        synced: 0,
        change,
    };
    let mut line = Vec::new();
    record.write(&mut line).unwrap();
    let line = String::from_utf8(line).unwrap();
    let value: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(serde_json_canonicalizer::to_string(&value).unwrap() + "\n", line);
    assert_eq!(LedgerRecord::read(line.as_bytes()).unwrap(), record);
    line
}
