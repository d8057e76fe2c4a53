//! Several rows of one key: one license with all their modules, if they say the same of it.

use std::collections::HashSet;

use countersign_model::license::SiteLimit;

use crate::import::exported_license::ExportedLicense;

/// Which of several ends counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergedEnd {
    /// The first one.
    Earliest,
    /// The last one.
    Latest,
}

/// Two rows that say different things of one license. Quotes nothing of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowDifference {
    /// The line of the one.
    pub line: u64,
    /// The line of the other.
    pub other: u64,
    /// In what they differ, and what to do about it.
    pub what: &'static str,
}

impl RowDifference {
    /// For people; `counts` is what a row is counted as.
    pub fn text(&self, counts: &str) -> String {
        let Self { line, other, what } = self;
        format!("{counts}s {line} and {other} have the same key and {what}")
    }
}

/// One license of rows with the same key, in the order of the file. `modules` of each row are all that it covers.
///
/// Of several ends the one counts that `merged` says, and then of several numbers of sites the smallest.
///
/// # Errors
/// Two rows differ, and nobody said which one counts.
pub fn merge(
    mut rows: impl Iterator<Item = (u64, ExportedLicense)>,
    merged: Option<MergedEnd>,
) -> Result<Option<ExportedLicense>, RowDifference> {
    let Some((line, mut license)) = rows.next() else {
        return Ok(None);
    };
    for (other, row) in rows {
        let differ = |what| RowDifference { line, other, what };
        if row.status != license.status {
            return Err(differ("different statuses: make them one"));
        }
        license.expires = match merged {
            _ if row.expires == license.expires => row.expires,
            None => {
                return Err(differ(
                    "different ends: --merge earliest or latest says which one counts",
                ));
            }
            Some(MergedEnd::Earliest) => row.expires.min(license.expires),
            Some(MergedEnd::Latest) => row.expires.max(license.expires),
        };
        license.sites = match (license.sites, row.sites) {
            (one, other) if one == other => one,
            _ if merged.is_none() => {
                return Err(differ(
                    "different numbers of sites: with --merge the smallest one counts",
                ));
            }
            (SiteLimit::Limited(one), SiteLimit::Limited(other)) => SiteLimit::Limited(one.min(other)),
            (limited, SiteLimit::Unlimited) | (SiteLimit::Unlimited, limited) => limited,
        };
        add(&mut license, row);
    }
    Ok(Some(license))
}

/// Adds what another row has: modules, features, sites. What a license has once is that of its first row.
fn add(license: &mut ExportedLicense, row: ExportedLicense) {
    for (module, features) in row.modules {
        let known = license.modules.entry(module).or_default();
        for feature in features {
            if !known.contains(&feature) {
                known.push(feature);
            }
        }
    }
    let mut known: HashSet<_> = license.hosts.iter().map(|(host, _)| host.clone()).collect();
    let hosts = row.hosts.into_iter().filter(|(host, _)| known.insert(host.clone()));
    license.hosts.extend(hosts);
    license.created = license.created.into_iter().chain(row.created).min();
    license.assumed.extend(row.assumed);
    license.left_out.extend(row.left_out);
    let texts = [
        (
            &mut license.reference,
            row.reference,
            "references of further rows of a key",
        ),
        (&mut license.order, row.order, "orders of further rows of a key"),
        (
            &mut license.subscription,
            row.subscription,
            "subscriptions of further rows of a key",
        ),
        (
            &mut license.customer,
            row.customer,
            "customers of further rows of a key",
        ),
        (&mut license.name, row.name, "names of further rows of a key"),
    ];
    for (first, other, what) in texts {
        match (first.as_ref(), other) {
            (_, None) => {}
            (None, other) => *first = other,
            (Some(first), Some(other)) if *first == other => {}
            (Some(_), Some(_)) => license.left_out.push(what),
        }
    }
}

#[cfg(test)]
mod tests {
    use countersign_model::issued_license::Hex128;
    use countersign_model::license::{LicenseStatus, Modules};
    use countersign_model::license_key::LicenseId;

    use super::*;

    fn row(modules: &str, expires: &str, sites: u32, hosts: &[&str]) -> ExportedLicense {
        let modules: Modules = modules
            .split(' ')
            .map(|module| {
                let (name, feature) = module.split_once('=').unwrap_or((module, ""));
                let features = Some(feature).filter(|feature| !feature.is_empty());
                (
                    name.parse().unwrap(),
                    features.iter().map(|feature| feature.parse().unwrap()).collect(),
                )
            })
            .collect();
        ExportedLicense {
            id: LicenseId::from_bytes([1; 32]),
            spelling: Hex128([1; 16]),
            status: LicenseStatus::Active,
            expires: expires.parse().unwrap(),
            sites: std::num::NonZeroU32::new(sites).map_or(SiteLimit::Unlimited, SiteLimit::Limited),
            modules,
            product: None,
            product_id: None,
            price: None,
            hosts: hosts.iter().map(|host| (host.parse().unwrap(), None)).collect(),
            reference: None,
            order: Some(modules_order(expires)),
            subscription: None,
            customer: None,
            name: None,
            created: None,
            assumed: Vec::new(),
            left_out: Vec::new(),
        }
    }

    fn modules_order(expires: &str) -> String {
        format!("order of {expires}")
    }

    fn merge_rows(rows: &[ExportedLicense], merged: Option<MergedEnd>) -> Result<ExportedLicense, String> {
        let lines = (2..).zip(rows.iter().cloned());
        merge(lines, merged)
            .map(Option::unwrap)
            .map_err(|error| error.text("line"))
    }

    #[test]
    fn rows_that_say_the_same_are_one_license_with_all_modules_and_sites() {
        let rows = [
            row("forms=pdf", "2027-01-01", 3, &["a.com"]),
            row("maps", "2027-01-01", 3, &["b.com", "a.com"]),
            row("forms=api", "2027-01-01", 3, &[]),
        ];
        let license = merge_rows(&rows, None).unwrap();
        assert_eq!(
            license.modules,
            row("forms=pdf maps", "2027-01-01", 3, &[])
                .modules
                .into_iter()
                .map(|(name, mut features)| {
                    if name.to_string() == "forms" {
                        features.push("api".parse().unwrap());
                    }
                    (name, features)
                })
                .collect::<Modules>()
        );
        assert_eq!(license.hosts.len(), 2);
        assert!(license.left_out.is_empty());
    }

    #[test]
    fn rows_that_differ_are_refused_by_their_lines_until_somebody_says_which_end_counts() {
        let rows = [
            row("forms", "2027-01-01", 3, &[]),
            row("maps", "2028-01-01", 0, &[]),
            row("seo", "2026-01-01", 5, &[]),
        ];
        let error = merge_rows(&rows, None).unwrap_err();
        assert!(
            error.starts_with("lines 2 and 3 have the same key and different ends: --merge"),
            "{error}"
        );
        let early = merge_rows(&rows, Some(MergedEnd::Earliest)).unwrap();
        assert_eq!(
            (early.expires.to_string(), early.sites.to_string()),
            ("2026-01-01".to_owned(), "3".to_owned())
        );
        assert_eq!((early.modules.len(), early.left_out.len()), (3, 2));
        let late = merge_rows(&rows, Some(MergedEnd::Latest)).unwrap();
        assert_eq!(
            (late.expires.to_string(), late.sites.to_string()),
            ("2028-01-01".to_owned(), "3".to_owned())
        );

        let sites = [rows[0].clone(), row("maps", "2027-01-01", 0, &[])];
        assert!(
            merge_rows(&sites, None)
                .unwrap_err()
                .contains("different numbers of sites")
        );
        let suspended = ExportedLicense {
            status: LicenseStatus::Suspended,
            ..rows[0].clone()
        };
        let error = merge_rows(&[rows[0].clone(), suspended], Some(MergedEnd::Latest)).unwrap_err();
        assert!(error.contains("different statuses"), "{error}");
    }
}
