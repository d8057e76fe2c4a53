//! Any bytes as the body of a validation. What is accepted is what JSON says; what is refused is a row of the problem
//! table and quotes nothing.
#![no_main]

use countersign::serve::api::{params, question};
use countersign::serve::reply::problem::Problem;
use countersign_model::foreign_key::ForeignKey;
use countersign_model::license_key::LicenseKey;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|body: &[u8]| {
    let json = serde_json::from_slice::<Value>(body).ok();
    let question = match question::parse(body) {
        Ok(question) => question,
        Err(problem) => {
            let Problem::Malformed(detail) = &problem else {
                panic!("{problem:?}")
            };
            let fixed: String = detail.chars().filter(|c| !c.is_ascii_digit()).collect();
            assert!(
                matches!(
                    fixed.strip_prefix(
                        "The body must be one JSON object in UTF-. Its fields must be strings, each at most once"
                    ),
                    Some("." | "; see line , column .")
                ),
                "{detail}"
            );
            assert_eq!(problem.into_response().status, 400);
            return;
        }
    };
    let fields = [
        ("license_key", &question.license_key),
        ("site_url", &question.site_url),
        ("domain", &question.domain),
        ("plugin_version", &question.plugin_version),
        ("build_id", &question.build_id),
        ("nonce", &question.nonce),
        ("release_hash", &question.release_hash),
        ("release_secret", &question.release_secret),
    ];
    // Where the ignored fields are deeper than a tree can be, or out of a number's range, there is no second opinion.
    if let Some(json) = json {
        assert!(json.is_object());
        for (name, value) in &fields {
            assert_eq!(
                json.get(name).map(|value| value.as_str().unwrap()),
                value.as_deref(),
                "{name}"
            );
        }
    }
    let sent: serde_json::Map<_, _> = fields
        .iter()
        .filter_map(|(name, value)| Some((name.to_string(), value.as_deref()?.into())))
        .collect();
    let again = serde_json::to_vec(&sent).unwrap();
    assert_eq!(
        format!("{:?}", question::parse(&again).unwrap()),
        format!("{question:?}")
    );

    let license_key = question.license_key.as_deref().unwrap_or_default();
    let key = license_key.parse::<LicenseKey>();
    // A key of another system is asked for only where the text is none of ours.
    if key.is_err() && ForeignKey::parse(license_key).is_ok() {
        assert!((16..=128).contains(&license_key.trim().len()));
    }
    for problem in [
        key.err().map(Problem::LicenseKey),
        params::build_id(question.build_id.as_deref()).err(),
        question.release_hash().err(),
        question.release_proof().err(),
        params::at_most(
            params::MAX_VERSION,
            "plugin_version",
            question.plugin_version.as_deref(),
        )
        .err(),
    ]
    .into_iter()
    .flatten()
    {
        assert!(matches!(problem.into_response().status.as_u16(), 400 | 422));
    }
});
