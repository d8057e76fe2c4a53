//! Any bytes as the body of a validation. What is accepted is what JSON says; what is refused is a row of the problem
//! table and quotes nothing.
#![no_main]

use std::borrow::Cow;

use countersign::config::LocalHosts;
use countersign::serve::api::{params, validate};
use countersign::serve::reply::problem::Problem;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|body: &[u8]| {
    let json = serde_json::from_slice::<Value>(body).ok();
    let question = match validate::parse(body) {
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
        format!("{:?}", validate::parse(&again).unwrap()),
        format!("{question:?}")
    );

    let site_url = question
        .site_url
        .as_ref()
        .or(question.domain.as_ref())
        .map(Cow::as_ref)
        .unwrap_or_default();
    for problem in [
        params::license_id(question.license_key.as_deref()).err(),
        params::site_host(site_url, LocalHosts::Refuse).err(),
        params::build_id(question.build_id.as_deref()).err(),
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
