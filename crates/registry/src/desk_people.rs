//! `registry/desk.toml`: who may use the desk, one `[[person]]` each. The file may be missing.

use std::collections::HashMap;

use countersign_model::desk_person::DeskPerson;
use countersign_model::license_key::LicenseKey;

use crate::error::{Diagnostic, RegistryError};
use crate::files::{PEOPLE, RegistryFiles};
use crate::reader::DocumentReader;
use crate::spanned::{SpannedTable, array, table};

/// Reads every person; all diagnostics if there are any.
pub(super) fn load(files: &RegistryFiles) -> Result<(Vec<DeskPerson>, Vec<Diagnostic>), RegistryError> {
    let Some(listed) = files.top_file(PEOPLE)? else {
        return Ok((Vec::new(), Vec::new()));
    };
    let text = match files.text(&listed) {
        Ok(text) => text,
        Err(diagnostic) => return Ok((Vec::new(), vec![diagnostic])),
    };
    let (mut reader, document) = DocumentReader::toml(&listed.file, &text);
    let people = document.map_or_else(Vec::new, |document| people(&mut reader, &document));
    Ok((people, reader.diagnostics()))
}

/// The people of the file; valid only if the reader has no diagnostics afterwards.
fn people(reader: &mut DocumentReader<'_>, document: &SpannedTable<'_>) -> Vec<DeskPerson> {
    let expected = "an array of tables, each [[person]]";
    reader.only(document, &["person"]);
    let nodes = reader.field(document, "person", expected, array);
    let mut people = Vec::new();
    let mut lines: HashMap<String, usize> = HashMap::new();
    for node in nodes.map_or(&[][..], |(_, nodes)| nodes) {
        let Some((_, inner)) = reader.typed(node, "person", expected, table) else {
            continue;
        };
        let Some(person) = person(reader, inner) else { continue };
        for (field, what) in [
            ("address", person.address.normal().to_owned()),
            ("name", person.name.to_string()),
        ] {
            let at = inner.fields.get(field).map_or(inner.at, |field| field.node.at);
            let line = reader.line(at);
            if let Some(other) = lines.insert(what, line) {
                // SECURITY: the address is not shown, because the server logs complaints.
                reader.complain(at, format!("{field:?} is that of the person at line {other}, too"));
            }
        }
        people.push(person);
    }
    people
}

fn person(reader: &mut DocumentReader<'_>, table: &SpannedTable<'_>) -> Option<DeskPerson> {
    reader.only(table, &["name", "address", "role"]);
    for required in ["name", "address", "role"] {
        reader.require(table, required);
    }
    let name = reader.line_of_text(table, "name");
    if let (Some(name), Some(field)) = (&name, table.fields.get("name")) {
        let max = DeskPerson::MAX_NAME;
        let is_name = (1..=max).contains(&name.chars().count()) && name.trim() == name && !LicenseKey::is_in(name);
        if !is_name {
            let message = format!("\"name\" must be a name of 1 to {max} characters, without blanks around it");
            reader.complain(field.node.at, message);
        }
    }
    let address = reader.parsed(table, "address");
    let role = reader.parsed(table, "role");
    Some(DeskPerson {
        name: name?.into(),
        address: address?,
        role: role?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_model::desk_person::DeskRole;

    const ANNA: &str = "[[person]]\nname = 'Anna Keller'\naddress = 'anna@example.com'\nrole = 'admin'\n";

    fn read(text: &str) -> (Vec<DeskPerson>, Vec<String>) {
        let registry = tempfile::tempdir().unwrap();
        std::fs::write(registry.path().join(PEOPLE), text).unwrap();
        let (people, diagnostics) = load(&RegistryFiles::folder(registry.path())).unwrap();
        let strip = |diagnostic: &Diagnostic| {
            diagnostic
                .to_string()
                .replace(&format!("{}/", registry.path().display()), "")
        };
        (people, diagnostics.iter().map(strip).collect())
    }

    #[test]
    fn a_person_has_a_name_an_address_and_a_role() {
        let (people, diagnostics) = read(ANNA);
        assert_eq!(diagnostics, [""; 0]);
        let [anna] = &people[..] else { panic!("{people:?}") };
        assert_eq!((&*anna.name, anna.role), ("Anna Keller", DeskRole::Admin));
        assert_eq!(anna.address.normal(), "anna@example.com");
        assert!(!format!("{anna:?}").contains("anna"));
        assert_eq!(read("").0, []);
    }

    #[test]
    fn every_mistake_is_found_with_its_place_and_no_address_is_shown() {
        let twice = ANNA.replace("Keller", "K").replace("anna@", "Anna@");
        let wrong = "[[person]]\nname = ' Jonas'\nadress = 'jonas@example.com'\nrole = 'boss'\n";
        let (_, diagnostics) = read(&[ANNA, &twice, wrong, "[[people]]\n"].concat());
        assert_eq!(
            diagnostics,
            [
                r#"desk.toml:7:11: "address" is that of the person at line 3, too"#,
                r#"desk.toml:9:1: missing field "address""#,
                r#"desk.toml:10:8: "name" must be a name of 1 to 60 characters, without blanks around it"#,
                r#"desk.toml:11:1: unknown field "adress" (did you mean "address"?)"#,
                r#"desk.toml:12:8: "role" is not a role: expected "read", "support" or "admin""#,
                r#"desk.toml:13:3: unknown field "people""#,
            ]
        );
    }

    #[test]
    fn a_registry_without_the_file_has_no_people() {
        let registry = tempfile::tempdir().unwrap();
        let (people, diagnostics) = load(&RegistryFiles::folder(registry.path())).unwrap();
        assert!(people.is_empty() && diagnostics.is_empty());
    }
}
