//! The JSON Schemas of docs/cli-json.md, which commands with `--json` conform to.

use std::collections::BTreeMap;

use boon::{Compiler, Draft, Schemas};
use serde_json::Value;

const PAGE: &str = include_str!("../../docs/cli-json.md");

/// The schemas of the page by name.
pub struct Page(pub BTreeMap<&'static str, Value>);

impl Page {
    pub fn read() -> Self {
        let blocks = PAGE.split("\n```json schema=").skip(1).map(|block| {
            let (name, rest) = block.split_once('\n').unwrap();
            let (text, _) = rest.split_once("\n```").unwrap();
            (
                name,
                serde_json::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}")),
            )
        });
        Self(blocks.collect())
    }

    /// Why `document` does not conform to a schema, if it does not.
    pub fn fault(&self, name: &str, document: &Value) -> Option<String> {
        let at = |name: &str| format!("http://localhost/{name}");
        let mut compiler = Compiler::new();
        compiler.set_default_draft(Draft::V2020_12);
        compiler.enable_format_assertions();
        for (name, schema) in &self.0 {
            compiler.add_resource(&at(name), schema.clone()).unwrap();
        }
        let mut schemas = Schemas::new();
        let schema = compiler
            .compile(&at(name), &mut schemas)
            .unwrap_or_else(|error| panic!("{name}: {error:#}"));
        schemas
            .validate(document, schema)
            .err()
            .map(|error| format!("{error:#}"))
    }

    #[track_caller]
    pub fn check(&self, name: &str, document: &Value) {
        if let Some(fault) = self.fault(name, document) {
            panic!("{name}: {fault}\n{document:#}");
        }
    }
}
