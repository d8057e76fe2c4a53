//! Which lines of an export name which modules, to tell those that no plugin has. Quotes nothing of a line.

use std::collections::BTreeMap;

use countersign_model::license::Modules;
use countersign_model::name::Name;
use countersign_registry::SoldModules;

/// How many lines are named for one module.
const MOST_LINES: usize = 10;

/// How many modules are named.
const MOST_MODULES: usize = 10;

/// The lines of each module.
#[derive(Debug, Default)]
pub(super) struct ModuleLines(BTreeMap<Name, Lines>);

#[derive(Debug, Default)]
struct Lines {
    first: Vec<u64>,
    count: usize,
}

impl ModuleLines {
    /// Counts the modules of a line.
    pub(super) fn add(&mut self, line: u64, modules: &Modules) {
        for module in modules.keys() {
            let lines = match self.0.get_mut(module) {
                Some(lines) => lines,
                None => self.0.entry(module.clone()).or_default(),
            };
            lines.count += 1;
            if lines.first.len() < MOST_LINES {
                lines.first.push(line);
            }
        }
    }

    /// One note for each module that no plugin has; `counts` is what a row is counted as.
    // SECURITY: the column of the modules may have keys by mistake, so no name is quoted.
    pub(super) fn notes(&self, sold: &SoldModules, counts: &str) -> Vec<String> {
        let unsold = self.0.iter().filter(|(module, _)| !sold.has(module));
        let mut notes: Vec<_> = unsold
            .clone()
            .take(MOST_MODULES)
            .map(|(module, lines)| {
                let meant = sold.did_you_mean(module);
                format!(
                    "no plugin of the registry has the module of {}{meant}",
                    lines.text(counts)
                )
            })
            .collect();
        let more = unsold.count() - notes.len();
        if more > 0 {
            notes.push(format!("no plugin of the registry has {more} more modules of the file"));
        }
        notes
    }
}

impl Lines {
    fn text(&self, counts: &str) -> String {
        let plural = if self.count == 1 { "" } else { "s" };
        let named: Vec<_> = self.first.iter().map(u64::to_string).collect();
        let more = match self.count - self.first.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{counts}{plural} {}{more}", named.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_that_no_plugin_has_are_reported_with_their_lines_and_without_their_names() {
        let modules = |names: &[&str]| -> Modules {
            let named = names.iter().map(|name| (name.parse().unwrap(), Vec::new()));
            named.collect()
        };
        let mut lines = ModuleLines::default();
        for line in 2..=13 {
            lines.add(line, &modules(&["froms"]));
        }
        lines.add(14, &modules(&["forms", "0123456789abcdef"]));
        let folder = tempfile::tempdir().unwrap();
        let plugins = folder.path().join("plugins");
        std::fs::create_dir(&plugins).unwrap();
        std::fs::write(plugins.join("forms.toml"), "\n").unwrap();
        let sold = SoldModules::load(folder.path());
        assert_eq!(
            lines.notes(&sold, "line"),
            [
                "no plugin of the registry has the module of line 14",
                "no plugin of the registry has the module of lines 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more \
                 (did you mean \"forms\"?)",
            ]
        );
        for number in 0..20 {
            lines.add(99, &modules(&[&format!("zz{number}")]));
        }
        assert_eq!(lines.notes(&sold, "line").len(), 11);
    }
}
