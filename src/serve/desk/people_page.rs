//! People: who may sign in, and what each may do. The list is a file.

use askama::Template;

use crate::serve::desk::asked::Asked;
use crate::serve::desk::frame::{NavEntry, PageFrame};
use crate::serve::pages::answer::PageAnswer;
use crate::serve::pages::session::SessionOwner;
use countersign_model::desk_person::DeskRole;
use countersign_model::text::outside_text::OutsideText;

#[derive(Template)]
#[template(path = "desk/people.html")]
struct PeoplePage {
    frame: PageFrame,
    people: Vec<ShownPerson>,
}

/// Somebody who may use the desk.
struct ShownPerson {
    name: OutsideText,
    /// `None` where the visitor does not see addresses.
    address: Option<OutsideText>,
    role: DeskRole,
    is_visitor: bool,
}

/// The page.
pub(super) fn page(asked: &Asked<'_>) -> PageAnswer {
    let visitor = asked.visitor;
    let people = asked.snapshot.registry.people().iter().map(|person| ShownPerson {
        name: OutsideText::of(&person.name),
        address: visitor
            .sees_customers()
            .then(|| OutsideText::of(person.address.written())),
        role: person.role,
        is_visitor: matches!(visitor.session.owner, SessionOwner::Person(_)) && visitor.name == person.name,
    });
    PageAnswer::ok(&PeoplePage {
        frame: asked.frame("People", NavEntry::People),
        people: people.collect(),
    })
}
