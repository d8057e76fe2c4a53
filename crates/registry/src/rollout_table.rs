//! Table `[rollout]` of a plugin entry: which share of the sites gets a release after how many hours, and who waits.

use crate::reader::DocumentReader;
use crate::spanned::SpannedTable;
use countersign_model::rollout::{HoldRule, OtherClients, RolloutSettings, StepsError, WaveStep};

/// What the table says; `None` where the entry has none. Only valid if the reader has no diagnostics afterwards.
pub(super) fn rollout(reader: &mut DocumentReader<'_>, table: &SpannedTable<'_>) -> Option<RolloutSettings> {
    let inner = reader.table(table, "rollout")?;
    reader.only(inner, &["steps", "hold", "others"]);
    reader.require(inner, "steps");
    let hold = word(reader, inner, "hold", "must be \"automatic\" or \"all\"");
    let others = word(reader, inner, "others", "must be \"hide\" or \"offer\"");
    steps(reader, inner, hold.unwrap_or_default(), others.unwrap_or_default())
}

/// One of two words.
fn word<T: std::str::FromStr>(
    reader: &mut DocumentReader<'_>,
    table: &SpannedTable<'_>,
    name: &str,
    must: &str,
) -> Option<T> {
    let (at, text) = reader.string(table, name)?;
    text.parse()
        .map_err(|_| reader.complain(at, format!("{name:?} {must}")))
        .ok()
}

fn steps(
    reader: &mut DocumentReader<'_>,
    table: &SpannedTable<'_>,
    hold: HoldRule,
    others: OtherClients,
) -> Option<RolloutSettings> {
    let at = table.fields.get("steps")?.node.at;
    let texts = reader.strings(table, "steps")?;
    let mut steps = Vec::new();
    for (at, text) in &texts {
        steps.extend(reader.parse::<WaveStep>(*at, "steps", text));
    }
    if steps.len() < texts.len() {
        return None;
    }
    let settings = RolloutSettings::new(steps, hold, others);
    settings
        .map_err(|error| {
            let at = match error {
                StepsError::Count => at,
                StepsError::Order(place) | StepsError::End(place) => texts[place].0,
            };
            reader.complain(at, format!("\"steps\" {error}"));
        })
        .ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The settings, and what is complained about with its place.
    fn read(text: &str) -> (Option<RolloutSettings>, Vec<String>) {
        let (mut reader, table) = DocumentReader::toml(Path::new("acme.toml"), text);
        let settings = rollout(&mut reader, &table.unwrap());
        (settings, reader.diagnostics().iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_rollout_has_steps_and_says_who_waits() {
        assert_eq!(read("name = 'Acme'\n"), (None, vec![]));
        let (settings, diagnostics) = read("[rollout]\nsteps = ['0h 2%', '24h 10%', '72h 100%']\n");
        let settings = settings.unwrap();
        assert_eq!(diagnostics, [""; 0]);
        assert_eq!(
            (settings.hold, settings.others),
            (HoldRule::Automatic, OtherClients::Hide)
        );
        assert_eq!(settings.steps().len(), 3);
        let (settings, _) = read("[rollout]\nsteps = ['1h 100%']\nhold = 'all'\nothers = 'offer'\n");
        let settings = settings.unwrap();
        assert_eq!((settings.hold, settings.others), (HoldRule::All, OtherClients::Offer));
    }

    #[test]
    fn mistakes_of_a_rollout_are_found_with_their_places() {
        let diagnostics = |text: &str| read(&format!("[rollout]\n{text}")).1;
        assert_eq!(diagnostics(""), ["acme.toml:1:1: missing field \"steps\""]);
        assert_eq!(
            diagnostics("steps = []\nhold = 'nobody'\nothers = 1\nstep = 1\n"),
            [
                "acme.toml:2:9: \"steps\" must have 1 to 20 steps",
                "acme.toml:3:8: \"hold\" must be \"automatic\" or \"all\"",
                "acme.toml:4:10: \"others\" must be a string, not an integer",
                "acme.toml:5:1: unknown field \"step\" (did you mean \"steps\"?)",
            ]
        );
        let step = "\"steps\" is not a step: write hours and a share, such as \"24h 10%\"";
        assert_eq!(
            diagnostics("steps = ['0h 2%', '1d 10%', '24h 0%', '72h 100%']\n"),
            [format!("acme.toml:2:19: {step}"), format!("acme.toml:2:29: {step}")]
        );
        assert_eq!(
            diagnostics("steps = ['0h 2%', '24h 1%', '72h 100%']\n"),
            [
                "acme.toml:2:19: \"steps\" must ascend: each step needs more hours and a greater share than the one before"
            ]
        );
        assert_eq!(
            diagnostics("steps = ['0h 2%', '24h 50%']\n"),
            ["acme.toml:2:19: \"steps\" must end with a step for everybody, such as \"72h 100%\""]
        );
    }
}
