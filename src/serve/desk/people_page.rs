//! People: who may sign in, and what each may do. The list is a file. All sessions of a person can be ended.

use askama::Template;

use crate::serve::desk::asked::Asked;
use crate::serve::desk::frame::{NavEntry, PageFrame};
use crate::serve::pages::answer::PageAnswer;
use crate::serve::pages::label::PageLabel;
use crate::serve::pages::page_problem::PageProblem;
use crate::serve::pages::session::{SessionEnds, SessionOwner, operators_number, person_number};
use countersign_model::desk_person::DeskRole;
use countersign_model::issued_license::Hex128;
use countersign_model::text::outside_text::OutsideText;

#[derive(Template)]
#[template(path = "desk/people.html")]
struct PeoplePage {
    frame: PageFrame,
    people: Vec<ShownPerson>,
    /// Names all who ran `countersign desk` for a visitor who may sign them out.
    operators: Option<Hex128>,
}

/// Somebody who may use the desk.
struct ShownPerson {
    name: OutsideText,
    /// `None` where the visitor does not see addresses.
    address: Option<OutsideText>,
    role: DeskRole,
    is_visitor: bool,
    /// Names the person for a visitor who may sign them out.
    number: Option<Hex128>,
}

/// The page.
pub(super) fn page(asked: &Asked<'_>) -> PageAnswer {
    let visitor = asked.visitor;
    let may_end = visitor.may(DeskRole::Admin);
    let key = asked.secrets.references().current();
    let people = asked.snapshot.registry.people().iter().map(|person| ShownPerson {
        name: OutsideText::of(&person.name),
        address: visitor
            .sees_customers()
            .then(|| OutsideText::of(person.address.written())),
        role: person.role,
        number: may_end.then(|| person_number(PageLabel::DESK, key, &person.address)),
        is_visitor: matches!(visitor.session.owner, SessionOwner::Person(_)) && visitor.name == person.name,
    });
    PageAnswer::ok(&PeoplePage {
        frame: asked.frame("People", NavEntry::People),
        people: people.collect(),
        operators: may_end.then(|| operators_number(PageLabel::DESK, key)),
    })
}

/// Ends all sessions of a person, or of all who ran `countersign desk`.
pub(super) async fn sign_out(asked: &Asked<'_>) -> Result<PageAnswer, PageProblem> {
    let key = asked.secrets.references().current();
    let known = asked.snapshot.registry.people().iter();
    let numbers = known.map(|person| person_number(PageLabel::DESK, key, &person.address));
    let mut numbers = numbers.chain([operators_number(PageLabel::DESK, key)]);
    let owner = numbers.find(|number| number.to_string() == asked.name);
    let owner = owner.ok_or_else(|| {
        PageProblem::refused("Nobody in registry/desk.toml has this number.".to_owned()).back_to("/people".to_owned())
    })?;
    let ends = SessionEnds {
        label: PageLabel::DESK,
        key,
        ledger: asked.state.service.gate.bindings(),
    };
    ends.end_all(owner, asked.now).await?;
    tracing::info!("all sessions of a person at the desk were ended");
    Ok(PageAnswer::SeeOther("/people".to_owned()))
}
