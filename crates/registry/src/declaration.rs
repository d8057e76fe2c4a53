//! The text of a declaration, for a person to paste into a file of `registry/licenses/`. [`license`](crate::license) reads it.

use toml::Value;

use countersign_model::license::{License, LicenseStatus, SiteLimit};

/// A `[[license]]` table of a TOML file, with a final line feed.
pub fn table(license: &License) -> String {
    let mut table = "[[license]]\n".to_owned();
    for (name, value) in fields(license) {
        table += &format!("{name} = {value}\n");
    }
    table += "\n[license.modules]\n";
    for (module, features) in modules(license) {
        // A name may have a dot, which separates keys.
        let key = match module.contains('.') {
            true => Value::String(module).to_string(),
            false => module,
        };
        table += &format!("{key} = {features}\n");
    }
    table
}

/// A line of a JSONL file, without its line feed.
pub fn line(license: &License) -> String {
    let json = |(name, value): (&str, Value)| (name.to_owned(), json(value));
    let mut line: serde_json::Map<_, _> = fields(license).into_iter().map(json).collect();
    let modules: serde_json::Map<_, _> = modules(license)
        .map(|(name, value)| (name, self::json(value)))
        .collect();
    line.insert("modules".to_owned(), modules.into());
    serde_json::Value::Object(line).to_string()
}

/// The fields that are not as in a license without them, but for the modules and releases: a new license has none of these.
fn fields(license: &License) -> Vec<(&'static str, Value)> {
    let details = &license.details;
    let text = |text: &str| Value::String(text.to_owned());
    let number = |number: u16| Value::Integer(number.into());
    let sites = match license.sites {
        SiteLimit::DEFAULT => None,
        SiteLimit::Limited(limit) => Some(Value::Integer(limit.get().into())),
        SiteLimit::Unlimited => Some(text("unlimited")),
    };
    let hosts: Vec<_> = details.hosts.iter().map(|host| text(host.as_str())).collect();
    let is_active = license.status == LicenseStatus::Active;
    let fields = [
        ("id", Some(text(&license.id.to_string()))),
        ("status", (!is_active).then(|| text(license.status.as_str()))),
        ("expires", license.expires.to_string().parse().ok().map(Value::Datetime)),
        ("sites", sites),
        ("grace_period_hours", license.grace_period_hours.map(number)),
        ("staging_sites", details.staging_sites.map(number)),
        ("site_moves", details.site_moves.map(number)),
        ("hosts", (!hosts.is_empty()).then_some(Value::Array(hosts))),
        ("note", (!details.note.is_empty()).then(|| text(&details.note))),
        ("replaces", details.replaces.map(|id| text(&id.to_string()))),
    ];
    let rights = details.rights.fields().into_iter();
    let rights = rights.map(|(name, value)| (name, Value::try_from(value).ok()));
    fields
        .into_iter()
        .chain(rights)
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

fn modules(license: &License) -> impl Iterator<Item = (String, Value)> {
    license.modules.iter().map(|(module, features)| {
        let features = features.iter().map(|feature| Value::String(feature.to_string()));
        (module.to_string(), Value::Array(features.collect()))
    })
}

/// A date is a string in JSON.
fn json(value: Value) -> serde_json::Value {
    match value {
        Value::String(text) => text.into(),
        Value::Integer(number) => number.into(),
        Value::Boolean(value) => value.into(),
        Value::Array(values) => values.into_iter().map(json).collect(),
        other => other.to_string().into(),
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::sync::Arc;

    use countersign_model::channel::Channel;
    use countersign_model::license::LicenseDetails;
    use countersign_model::license_key::LicenseId;
    use countersign_model::rights::Rights;

    use super::*;
    use crate::licenses::testing::load;

    #[test]
    fn a_declaration_is_read_back_as_the_license() {
        let bare = License {
            id: LicenseId::from_bytes([7; 32]),
            status: LicenseStatus::Active,
            expires: "2027-12-31".parse().unwrap(),
            modules: Arc::new([("base".parse().unwrap(), vec![])].into()),
            sites: SiteLimit::DEFAULT,
            grace_period_hours: None,
            details: LicenseDetails::default().into(),
            is_declared: true,
        };
        let whole = License {
            status: LicenseStatus::Suspended,
            sites: SiteLimit::Limited(NonZeroU32::new(3).unwrap()),
            grace_period_hours: Some(0),
            modules: Arc::new(
                [
                    (
                        "acme.pdf".parse().unwrap(),
                        vec!["a.b".parse().unwrap(), "c".parse().unwrap()],
                    ),
                    ("1st".parse().unwrap(), vec![]),
                ]
                .into(),
            ),
            details: LicenseDetails {
                hosts: vec!["a.com".parse().unwrap(), "xn--mnchen-3ya.de".parse().unwrap()].into(),
                note: "two\r\nlines, \"quoted\" \\ '''Zoë\u{7f}".into(),
                replaces: Some(LicenseId::from_bytes([9; 32])),
                staging_sites: Some(0),
                site_moves: Some(u16::MAX),
                rights: Rights {
                    channels: [Channel::Rc, Channel::Beta].into(),
                    white_label: true,
                    ..Rights::NONE
                },
                ..LicenseDetails::default()
            }
            .into(),
            ..bare.clone()
        };
        let unlimited = License {
            sites: SiteLimit::Unlimited,
            expires: countersign_model::period::NEVER,
            ..bare.clone()
        };
        for license in [bare, whole, unlimited] {
            for (file, text) in [("a.toml", table(&license)), ("a.jsonl", line(&license) + "\n")] {
                let (read, diagnostics) = load(&[(file, &text)]);
                assert_eq!(diagnostics, [""; 0], "{text}");
                assert_eq!(read.iter().next(), Some(&license), "{text}");
            }
        }
    }
}
