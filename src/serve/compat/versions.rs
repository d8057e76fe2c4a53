//! `get_version`: the latest release, with the package's link for an entitled site, and EDD's fields beside the manifest's.

use std::fmt::Write as _;
use std::net::IpAddr;

use chrono::Utc;
use serde_json::{Map, Value, json};

use crate::serve::api::params::reported_version;
use crate::serve::compat::items::MeantPlugins;
use crate::serve::compat::licenses::{LedgerProof, certain, require_issuing};
use crate::serve::compat::question::{EddAbout, EddQuestion};
use crate::serve::gate::{LicenseRequest, UpdateWish};
use crate::serve::links::LinkHolder;
use crate::serve::reply::outcome::{Code, Weight};
use crate::serve::reply::problem::Problem;
use crate::serve::state::Service;
use countersign_ledger::LedgerLook;
use countersign_model::binding::CheckIn;
use countersign_model::entitlement::Refusal;
use countersign_model::version::Version;

/// Answers about one plugin, or about several at once.
pub(super) async fn latest(
    service: &Service,
    client: IpAddr,
    question: &EddQuestion,
) -> Result<(Code, Value), Problem> {
    require_issuing(service)?;
    let proof = LedgerProof::default();
    if question.products.is_empty() {
        return one(service, &question.about, &proof).await;
    }
    let mut code = Code::UpToDate;
    let mut all = Map::new();
    for (name, about) in &question.products {
        // SECURITY: each wrong key weighs as much as one alone. `routes` charges one of them.
        let has_wrong_key = code.weight() == Weight::WrongKey;
        if has_wrong_key {
            service.limits.check_address(client)?;
        }
        let (outcome, document) = one(service, about, &proof).await?;
        let is_wrong_key = outcome.weight() == Weight::WrongKey;
        if has_wrong_key && is_wrong_key {
            service.limits.charge(client, Weight::WrongKey);
        }
        if code == Code::UpToDate || is_wrong_key {
            code = outcome;
        }
        all.insert(name.clone(), document);
    }
    Ok((code, all.into()))
}

async fn one(service: &Service, about: &EddAbout, proof: &LedgerProof) -> Result<(Code, Value), Problem> {
    let snapshot = service.gate.snapshot();
    let Some(id) = about.license() else {
        let (code, message) = match about.has_no_license() {
            true => (Code::MissingField, "No license key has been provided."),
            false => (
                Code::MalformedLicenseKey,
                "License key provided does not match a valid download",
            ),
        };
        return Ok((code, nothing(message)));
    };
    let found = certain(service, &snapshot, &id, about, proof).await?;
    let Some(license) = found.as_deref() else {
        return Ok((
            Code::UnknownLicense,
            nothing("License key provided does not match a valid download"),
        ));
    };
    let meant = MeantPlugins::find(&snapshot.registry, about);
    let Some(plugin) = meant.covered(license, about) else {
        return Ok((
            Code::PluginNotCovered,
            nothing("License key is not valid for this download"),
        ));
    };
    let Some(host) = about.host(service, &id).transpose()? else {
        return Ok((Code::MissingField, nothing("No site has been provided.")));
    };
    let slug = plugin.slug.as_str();
    let version: Option<Version> = reported_version(service, &id, about.version()).and_then(|text| text.parse().ok());
    let check_in = CheckIn {
        time: Utc::now(),
        build_id: None,
        plugin_version: None,
        current_version: version.as_ref().map(|version| (slug, version.as_str())),
    };
    let request = LicenseRequest {
        id: &id,
        license: Some(license),
        host: &host,
        check_in,
    };
    let decide = || {
        let bound = service.gate.bindings().of(&id);
        // These clients compare versions themselves, so the answer has the latest release whatever the site runs.
        let wish = UpdateWish {
            channel: about.channel(),
            current: version.as_ref(),
            ..UpdateWish::default()
        };
        let decided = service.gate.manifest(&snapshot, &request, &bound, slug, &wish);
        decided.map_err(|refusal| {
            (
                refusal,
                service.gate.latest_for_expired(&snapshot, &request, &bound, slug, None),
            )
        })
    };
    let mut decided = decide();
    if let Err((refusal, _)) = &decided
        && refusal.rests_on_ledger()
        && let Some(look) = service.gate.bindings().refresh(LedgerLook::Read)
    {
        service.within_deadline(look).await?;
        decided = decide();
    }
    tracing::debug!(license = id.log_tag(), site = %host, entitled = decided.is_ok(), "an EDD client asked for updates");
    let code = match &decided {
        Ok(Some(_)) => Code::Update,
        Ok(None) => Code::UpToDate,
        Err((refusal, _)) => Problem::Refused(*refusal).code(),
    };
    service.tally.update(plugin, code, request.check_in.time);
    match decided {
        Ok(Some(offered)) => {
            let holder = LinkHolder {
                license: &id,
                host: &host,
                now: request.check_in.time,
                line: None,
            };
            let filled = service
                .links
                .fill(offered, slug, holder, snapshot.secrets.downloads.as_deref());
            let bytes = bytes::Bytes::from(filled);
            let manifest: Map<String, Value> =
                serde_json::from_slice(&bytes).map_err(|error| Problem::internal(&error))?;
            let stable = snapshot.catalog.newest(&plugin.slug).map_or("", Version::as_str);
            Ok((code, with_edd_fields(manifest, stable, own_slug(about, slug))))
        }
        Ok(None) => Ok((code, nothing("There is no release yet."))),
        Err((refusal, latest)) => {
            let mut document = nothing(match refusal {
                Refusal::LicenseExpired => "Your license has expired.",
                Refusal::LicenseNotBound | Refusal::TrialSite | Refusal::BoundElsewhere => {
                    "Your license is not active for this site."
                }
                _ => "License key is not valid for this download",
            });
            if let Some(latest) = latest {
                // Shown as an update without a package.
                document["new_version"] = latest.version.as_str().into();
                document["stable_version"] = latest.version.as_str().into();
                document["slug"] = own_slug(about, slug).into();
                // Version 1.9.4 of EDD's updater reads it of whatever has a version.
                document["url"] = "".into();
                document["sections"] = php_serialized(&Map::from_iter([("changelog".to_owned(), "".into())])).into();
            }
            Ok((code, document))
        }
    }
}

/// The manifest in EDD's form: lists are serialized, and the version has another name. `stable` is the latest release that is not a beta.
fn with_edd_fields(mut manifest: Map<String, Value>, stable: &str, slug: &str) -> Value {
    for name in ["sections", "banners", "icons"] {
        if let Some(Value::Object(texts)) = manifest.get(name) {
            let text = php_serialized(texts);
            manifest.insert(name.to_owned(), text.into());
        }
    }
    let version = manifest.get("version").cloned().unwrap_or_default();
    manifest.insert("new_version".to_owned(), version);
    manifest.insert("stable_version".to_owned(), stable.into());
    manifest.insert("slug".to_owned(), slug.into());
    manifest.insert("license_check".to_owned(), "".into());
    manifest.insert("msg".to_owned(), "".into());
    // For our own clients, which verify it.
    manifest.remove("release");
    manifest.into()
}

/// The slug that the client has: WordPress looks for details by it.
fn own_slug<'a>(about: &'a EddAbout, slug: &'a str) -> &'a str {
    match about.slug() {
        "" => slug,
        own => own,
    }
}

/// EDD's answer where it offers nothing: never an empty object, which a client would take for a fault.
fn nothing(message: &str) -> Value {
    json!({
        "new_version": "",
        "stable_version": "",
        "sections": "",
        "license_check": "",
        "msg": message,
        "homepage": "",
        "package": "",
        "download_link": "",
        "icons": php_serialized(&Map::new()),
        "banners": php_serialized(&Map::new()),
    })
}

/// The texts of an object as PHP's `serialize` writes them: EDD's clients expect sections, banners and icons so. Lengths are
/// in bytes.
fn php_serialized(object: &Map<String, Value>) -> String {
    let texts: Vec<(&str, &str)> = object
        .iter()
        .filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
        .collect();
    let mut serialized = format!("a:{}:{{", texts.len());
    for (name, text) in texts {
        // Writing to a String cannot fail.
        let _ = write!(serialized, "s:{}:\"{name}\";s:{}:\"{text}\";", name.len(), text.len());
    }
    serialized + "}"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_in_bytes_and_quotes_need_no_escape() {
        let object = serde_json::json!({ "a": "é\"", "b": "", "c": 1 });
        assert_eq!(
            php_serialized(object.as_object().unwrap()),
            "a:2:{s:1:\"a\";s:3:\"é\"\";s:1:\"b\";s:0:\"\";}"
        );
        assert_eq!(php_serialized(&Map::new()), "a:0:{}");
    }
}
