//! The rollouts of a plugin: how far its newest releases are, and the forms that pause, resume and finish one.

use crate::serve::desk::asked::Asked;
use crate::serve::desk::page_table::DeskPage;
use crate::serve::ops::rollout_answers::{self, ReleaseRollout, RolloutOrder, RolloutReply, RolloutVerb};
use crate::serve::pages::answer::PageAnswer;
use crate::serve::pages::page_problem::PageProblem;
use crate::serve::pages::shown::{ShownTime, address};
use countersign_model::desk_person::DeskRole;
use countersign_model::plugin::Plugin;
use countersign_model::rollout::RolloutPhase;
use countersign_model::slug::Slug;
use countersign_model::text::outside_text::OutsideText;
use countersign_model::version::Version;

/// How many releases the page shows that reached everybody, or were taken back.
const MOST_PAST: usize = 3;

/// A release on its way to the sites.
pub(super) struct ShownRollout {
    pub(super) version: OutsideText,
    pub(super) pill: &'static str,
    pub(super) state: String,
    /// Whether not every site has it yet.
    pub(super) is_open: bool,
    pub(super) since: ShownTime,
    pub(super) who: Option<OutsideText>,
    pub(super) reason: Option<OutsideText>,
    /// The share of the next step, in percent, and when it comes.
    pub(super) next: Option<(String, ShownTime)>,
    pub(super) may_pause: bool,
    pub(super) may_resume: bool,
    pub(super) may_finish: bool,
    /// The address of the page that says how to take it back, while sites get it.
    pub(super) take_back: Option<String>,
}

/// The rollouts of a plugin; none if its releases come to all sites at once.
pub(super) async fn of_plugin(asked: &Asked<'_>, plugin: &Plugin) -> Result<Vec<ShownRollout>, PageProblem> {
    let order = RolloutOrder {
        slug: plugin.slug.clone(),
        version: None,
        verb: None,
        reason: None,
    };
    match rollout_answers::of_service(&asked.state.service, &order, &asked.visitor.name).await? {
        RolloutReply::Done(report) => {
            let is_open =
                |release: &ReleaseRollout| matches!(release.phase, RolloutPhase::Running | RolloutPhase::Paused);
            let (open, past): (Vec<_>, Vec<_>) = report
                .releases
                .iter()
                .filter(|release| !(release.superseded && is_open(release)))
                .partition(|release| is_open(release));
            let shown = open.into_iter().chain(past.into_iter().take(MOST_PAST));
            Ok(shown
                .filter_map(|release| shown_release(asked, plugin, release))
                .collect())
        }
        RolloutReply::Unknown(_) | RolloutReply::Refused(_) => Ok(Vec::new()),
    }
}

fn shown_release(asked: &Asked<'_>, plugin: &Plugin, release: &ReleaseRollout) -> Option<ShownRollout> {
    let last = release.events.last()?;
    let share = release.share;
    let (pill, state) = match release.phase {
        RolloutPhase::Running => ("warn", format!("at {share} %")),
        RolloutPhase::Paused => ("bad", format!("paused at {share} %")),
        RolloutPhase::Finished => ("good", "for everyone".to_owned()),
        RolloutPhase::Withheld => ("", "taken back".to_owned()),
    };
    let may = |role| asked.visitor.may(role);
    let is_open = matches!(release.phase, RolloutPhase::Running | RolloutPhase::Paused);
    let next = release.next.as_ref();
    Some(ShownRollout {
        version: OutsideText::of(release.version.as_str()),
        pill,
        state,
        is_open,
        since: ShownTime::of(last.time, asked.now),
        who: last.who.as_deref().map(OutsideText::of),
        reason: last.reason.as_deref().map(OutsideText::of),
        next: next.map(|next| (next.share.to_string(), ShownTime::of(next.time, asked.now))),
        may_pause: release.phase == RolloutPhase::Running && may(DeskRole::Support),
        may_resume: release.phase == RolloutPhase::Paused && may(DeskRole::Support),
        may_finish: is_open && may(DeskRole::Admin),
        take_back: (release.phase != RolloutPhase::Withheld).then(|| withhold_path(&plugin.slug, &release.version)),
    })
}

/// The address of the page that says how to take a release back.
fn withhold_path(plugin: &Slug, version: &Version) -> String {
    address(&format!("/plugins/{plugin}/withhold"), &[("version", version.as_str())])
}

/// Pauses, resumes or finishes a rollout.
pub(super) async fn change(asked: &Asked<'_>, page: DeskPage) -> Result<PageAnswer, PageProblem> {
    let plugin = asked.plugin()?;
    let back = format!("/plugins/{}", plugin.slug);
    let refused = |why: String| PageProblem::refused(why).back_to(back.clone());
    let version = asked.fields.get("version").parse();
    let reason = asked.fields.get("reason").trim();
    let order = RolloutOrder {
        slug: plugin.slug.clone(),
        version: Some(version.map_err(|_| refused("The form names no release. Reload the page.".to_owned()))?),
        verb: Some(match page {
            DeskPage::PauseRollout => RolloutVerb::Pause,
            DeskPage::ResumeRollout => RolloutVerb::Resume,
            _ => RolloutVerb::Finish,
        }),
        reason: (!reason.is_empty()).then(|| reason.to_owned()),
    };
    match rollout_answers::of_service(&asked.state.service, &order, &asked.visitor.name).await? {
        RolloutReply::Done(_) => Ok(PageAnswer::SeeOther(back)),
        RolloutReply::Unknown(why) | RolloutReply::Refused(why) => Err(refused(format!("Nothing was changed: {why}."))),
    }
}
