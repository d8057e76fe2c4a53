//! Rollouts: how a release reaches sites in steps. The settings of an entry, what happened to a release, and which sites wait.
//!
//! Time is an argument. [`wave`](crate::wave) decides for one site; the ledger has the marks that make a [`Rollout`].

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, TimeDelta, Utc};

use crate::channel::Channel;
use crate::digest::Hex128;
use crate::version::Version;

/// The most steps of a rollout.
pub const MAX_STEPS: usize = 20;

/// The latest step, in hours: a year.
const MAX_HOURS: u32 = 8_760;

/// So many releases are compared as texts before their order counts.
const FEW: usize = 8;

/// A share of all sites, in thousandths of a percent.
const ALL: u32 = 100_000;

/// Table `[rollout]` of a plugin's entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutSettings {
    /// Which share of the sites gets a release after how many hours: 1 to [`MAX_STEPS`], both ascending, the last one everybody.
    steps: Vec<WaveStep>,
    /// Who waits.
    pub hold: HoldRule,
    /// What clients get that do not know of rollouts.
    pub others: OtherClients,
}

/// From so many hours on, this share of the sites gets a release. Written `24h 10%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaveStep {
    hours: u32,
    share: SiteShare,
}

/// A share of all sites, from 0.001 % to all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SiteShare(u32);

/// Who waits for a site's turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum HoldRule {
    /// A rollout holds automatic updates alone. A person who presses a button gets the release.
    #[default]
    Automatic,
    /// Everybody.
    All,
}

/// What a site that waits gets if its client does not know of rollouts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum OtherClients {
    /// The release before.
    #[default]
    Hide,
    /// The new release.
    Offer,
}

/// The text is not a step.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a step: write hours and a share, such as \"24h 10%\"")]
pub struct NotAStep;

/// Why steps are not those of a rollout.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum StepsError {
    /// None, or too many.
    #[error("must have 1 to {MAX_STEPS} steps")]
    Count,
    /// This one does not come after the one before.
    #[error("must ascend: each step needs more hours and a greater share than the one before")]
    Order(usize),
    /// The last one leaves sites out.
    #[error("must end with a step for everybody, such as \"72h 100%\"")]
    End(usize),
}

impl FromStr for WaveStep {
    type Err = NotAStep;

    fn from_str(text: &str) -> Result<Self, NotAStep> {
        let (hours, share) = text.split_once(' ').ok_or(NotAStep)?;
        let hours = hours
            .strip_suffix('h')
            .and_then(|digits| number(digits, 4))
            .ok_or(NotAStep)?;
        let share = share.trim_start().strip_suffix('%').ok_or(NotAStep)?;
        let (whole, part) = share.split_once('.').unwrap_or((share, "0"));
        let whole = number(whole, 3).ok_or(NotAStep)?;
        let thousandths = number(part, 3).ok_or(NotAStep)? * 10_u32.pow(3 - part.len() as u32);
        let share = whole * 1_000 + thousandths;
        if hours > MAX_HOURS || !(1..=ALL).contains(&share) {
            return Err(NotAStep);
        }
        Ok(Self {
            hours,
            share: SiteShare(share),
        })
    }
}

/// A number of 1 to `most` digits.
fn number(digits: &str, most: usize) -> Option<u32> {
    let is_number = (1..=most).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

impl fmt::Display for WaveStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}h {}", self.hours, self.share)
    }
}

impl fmt::Display for SiteShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.0 / 1_000;
        let thousandths = self.0 % 1_000;
        match thousandths {
            0 => write!(f, "{whole}%"),
            _ => write!(f, "{whole}.{}%", format!("{thousandths:03}").trim_end_matches('0')),
        }
    }
}

impl SiteShare {
    /// All sites.
    pub const ALL: Self = Self(ALL);

    /// In percent.
    pub fn percent(self) -> f64 {
        f64::from(self.0) / 1_000.0
    }

    /// Whether a site at this position, of 2^32, is within.
    pub(crate) fn has(self, position: u32) -> bool {
        u64::from(position) * u64::from(ALL) < u64::from(self.0) << 32
    }
}

impl RolloutSettings {
    /// Settings with these steps.
    ///
    /// # Errors
    /// The steps are not those of a rollout.
    pub fn new(steps: Vec<WaveStep>, hold: HoldRule, others: OtherClients) -> Result<Self, StepsError> {
        if !(1..=MAX_STEPS).contains(&steps.len()) {
            return Err(StepsError::Count);
        }
        let ascends = |pair: &[WaveStep]| pair[0].hours < pair[1].hours && pair[0].share < pair[1].share;
        if let Some(place) = steps.windows(2).position(|pair| !ascends(pair)) {
            return Err(StepsError::Order(place + 1));
        }
        let last = steps.len() - 1;
        match steps[last].share {
            SiteShare::ALL => Ok(Self { steps, hold, others }),
            _ => Err(StepsError::End(last)),
        }
    }

    /// The steps.
    pub fn steps(&self) -> &[WaveStep] {
        &self.steps
    }

    /// How long a release takes to everybody, in running hours.
    pub fn whole(&self) -> TimeDelta {
        self.steps.last().map_or(TimeDelta::zero(), |step| step.after())
    }

    /// The share after so much running time. None before the first step.
    pub fn share_after(&self, running: TimeDelta) -> SiteShare {
        let due = self.steps.iter().take_while(|step| step.after() <= running);
        due.last().map_or(SiteShare::default(), |step| step.share)
    }

    /// The running time after which the position's turn comes.
    pub(crate) fn turn_of(&self, position: u32) -> TimeDelta {
        let turn = self.steps.iter().find(|step| step.share.has(position));
        turn.map_or(self.whole(), |step| step.after())
    }

    /// The next step after so much running time.
    pub fn next_after(&self, running: TimeDelta) -> Option<WaveStep> {
        self.steps.iter().copied().find(|step| step.after() > running)
    }
}

impl WaveStep {
    /// The running time from which on it is in force.
    pub fn after(self) -> TimeDelta {
        TimeDelta::hours(i64::from(self.hours))
    }

    /// The share from then on.
    pub fn share(self) -> SiteShare {
        self.share
    }
}

/// Something that happened to a rollout.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    strum::EnumString,
    strum::IntoStaticStr,
    serde::Serialize,
    serde::Deserialize,
)]
#[strum(serialize_all = "lowercase")]
#[serde(rename_all = "lowercase")]
pub enum RolloutStep {
    /// The release became the newest of a channel.
    Started,
    /// Somebody stopped it for now.
    Paused,
    /// It goes on.
    Resumed,
    /// Everybody gets the release.
    Finished,
    /// The release was taken back.
    Withheld,
    /// A release that was taken back is there again: its rollout begins from the start.
    Restarted,
    /// Many sites that took the release do not run it. It goes on until somebody stops it.
    Alarmed,
}

impl RolloutStep {
    /// As in lines and documents.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A step, when it happened, and who did it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutMark {
    /// What happened.
    pub step: RolloutStep,
    /// When.
    pub time: DateTime<Utc>,
    /// The number of the person who did it; `None` if the server did.
    pub who: Option<Hex128>,
    /// The name of the reason.
    pub reason: Option<Hex128>,
}

/// How far a rollout is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, serde::Serialize, serde::Deserialize)]
#[strum(serialize_all = "lowercase")]
#[serde(rename_all = "lowercase")]
pub enum RolloutPhase {
    /// More sites get the release with each step.
    Running,
    /// No site gets it by its turn.
    Paused,
    /// Everybody gets it.
    Finished,
    /// The release was taken back.
    Withheld,
}

/// The rollout of one release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollout {
    /// The release.
    pub version: Version,
    /// When it began, the last time.
    pub started: DateTime<Utc>,
    /// What happened to it, in order.
    pub marks: Vec<RolloutMark>,
    /// That of the version.
    channel: Option<Channel>,
    phase: RolloutPhase,
    /// The running time before `since`.
    ran: TimeDelta,
    /// Since when the phase is as it is.
    since: DateTime<Utc>,
}

impl Rollout {
    /// The rollout of a release that has none yet; `None` if it cannot begin with this step.
    pub fn begin(version: Version, mark: RolloutMark) -> Option<Self> {
        let phase = match mark.step {
            RolloutStep::Started => RolloutPhase::Running,
            // A release that all sites had before rollouts were set up.
            RolloutStep::Finished => RolloutPhase::Finished,
            _ => return None,
        };
        Some(Self {
            channel: version.channel(),
            version,
            started: mark.time,
            phase,
            ran: TimeDelta::zero(),
            since: mark.time,
            marks: vec![mark],
        })
    }

    /// Takes a step; whether it changes anything. One that does not is not taken.
    pub fn take(&mut self, mark: RolloutMark) -> bool {
        use RolloutPhase::{Finished, Paused, Running, Withheld};
        let phase = match (mark.step, self.phase) {
            (RolloutStep::Paused, Running) => Paused,
            (RolloutStep::Resumed, Paused) => Running,
            (RolloutStep::Finished, Running | Paused) => Finished,
            (RolloutStep::Withheld, Running | Paused | Finished) => Withheld,
            (RolloutStep::Restarted, Withheld) => Running,
            // Once, as long as it is out.
            (RolloutStep::Alarmed, Running | Paused | Finished) if !self.is_alarmed() => {
                self.marks.push(mark);
                return true;
            }
            _ => return false,
        };
        self.ran = self.running(mark.time);
        if mark.step == RolloutStep::Restarted {
            self.ran = TimeDelta::zero();
            self.started = mark.time;
        }
        self.phase = phase;
        self.since = mark.time;
        self.marks.push(mark);
        true
    }

    /// Whether many sites that took the release since it began do not run it.
    pub fn is_alarmed(&self) -> bool {
        let since = self
            .marks
            .iter()
            .rev()
            .take_while(|mark| !matches!(mark.step, RolloutStep::Started | RolloutStep::Restarted));
        since.into_iter().any(|mark| mark.step == RolloutStep::Alarmed)
    }

    /// The channel of the release; `None` for one that sites are never offered.
    pub fn channel(&self) -> Option<Channel> {
        self.channel
    }

    /// How far it is.
    pub fn phase(&self) -> RolloutPhase {
        self.phase
    }

    /// Since when it is so far.
    pub fn since(&self) -> DateTime<Utc> {
        self.since
    }

    /// The time that counts at `now`: pauses do not, and a clock that jumps back never takes away what counted before.
    pub fn running(&self, now: DateTime<Utc>) -> TimeDelta {
        match self.phase {
            RolloutPhase::Running => self.ran + (now - self.since).max(TimeDelta::zero()),
            _ => self.ran,
        }
    }

    /// How long it was paused until `now`.
    pub(crate) fn paused(&self, now: DateTime<Utc>) -> TimeDelta {
        let until = match self.phase {
            RolloutPhase::Running | RolloutPhase::Paused => now,
            RolloutPhase::Finished | RolloutPhase::Withheld => self.since,
        };
        (until - self.started - self.running(until)).max(TimeDelta::zero())
    }

    /// The share of the sites at `now`.
    pub fn share(&self, settings: &RolloutSettings, now: DateTime<Utc>) -> SiteShare {
        match self.phase {
            RolloutPhase::Finished => SiteShare::ALL,
            RolloutPhase::Withheld => SiteShare::default(),
            RolloutPhase::Running | RolloutPhase::Paused => settings.share_after(self.running(now)),
        }
    }

    /// The next step, and when it comes; `None` if none is known.
    pub fn next(&self, settings: &RolloutSettings, now: DateTime<Utc>) -> Option<(DateTime<Utc>, SiteShare)> {
        let step = settings.next_after(self.running(now))?;
        Some((self.when(step.after(), now)?, step.share))
    }

    /// When so much running time is reached; `None` if it does not run.
    pub(crate) fn when(&self, running: TimeDelta, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let is_running = self.phase == RolloutPhase::Running;
        is_running
            .then(|| now.checked_add_signed(running - self.running(now)))
            .flatten()
    }

    /// Whether it ended by `now`: everybody had got the release.
    pub fn is_over(&self, settings: &RolloutSettings, now: DateTime<Utc>) -> bool {
        match self.phase {
            RolloutPhase::Finished => true,
            RolloutPhase::Withheld => false,
            RolloutPhase::Running | RolloutPhase::Paused => self.running(now) >= settings.whole(),
        }
    }

    /// The last step, and who did it.
    pub fn last(&self) -> Option<&RolloutMark> {
        self.marks.last()
    }
}

/// The rollouts of one plugin, the newest release first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginRollouts(Vec<Rollout>);

impl PluginRollouts {
    /// That of a release.
    pub fn of(&self, version: &Version) -> Option<&Rollout> {
        self.0.get(self.place(version).ok()?)
    }

    /// Takes a step of a release; whether it changes anything.
    pub fn take(&mut self, version: &Version, mark: RolloutMark) -> bool {
        match self.place(version) {
            Ok(place) => self.0[place].take(mark),
            Err(place) => match Rollout::begin(version.clone(), mark) {
                Some(rollout) => {
                    self.0.insert(place, rollout);
                    true
                }
                None => false,
            },
        }
    }

    /// Every one, the newest release first.
    pub fn iter(&self) -> impl Iterator<Item = &Rollout> {
        self.0.iter()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// When a newer release took the place of this one; `None` if it is still the newest of its channel.
    pub fn superseded(&self, rollout: &Rollout) -> Option<DateTime<Utc>> {
        let newer = self.newer_than(&rollout.version);
        let newer = newer.filter(|newer| newer.phase != RolloutPhase::Withheld && newer.channel <= rollout.channel);
        newer.map(|newer| newer.started).min()
    }

    /// Those of newer releases than this one.
    pub(crate) fn newer_than<'a>(&'a self, version: &'a Version) -> impl Iterator<Item = &'a Rollout> {
        let is_newer = |rollout: &&Rollout| rollout.version.cmp_php(version) == Ordering::Greater;
        self.0.iter().take_while(is_newer)
    }

    /// The place of a release, or where it would come. Two versions that PHP takes for one are one release.
    fn place(&self, version: &Version) -> Result<usize, usize> {
        // Most sites have one of the newest.
        let mut newest = self.0.iter().take(FEW);
        if let Some(place) = newest.position(|rollout| rollout.version == *version) {
            return Ok(place);
        }
        self.0.binary_search_by(|rollout| version.cmp_php(&rollout.version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn settings(steps: &[&str]) -> Result<RolloutSettings, StepsError> {
        let steps = steps.iter().map(|step| step.parse().unwrap()).collect();
        RolloutSettings::new(steps, HoldRule::default(), OtherClients::default())
    }

    fn at(hours: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::hours(hours)
    }

    fn mark(step: RolloutStep, hours: i64) -> RolloutMark {
        RolloutMark {
            step,
            time: at(hours),
            who: None,
            reason: None,
        }
    }

    #[test]
    fn a_step_has_hours_and_a_share() {
        for (text, shown) in [
            ("24h 10%", "24h 10%"),
            ("0h 0.5%", "0h 0.5%"),
            ("8760h  100.000%", "8760h 100%"),
            ("1h 0.001%", "1h 0.001%"),
            ("01h 12.340%", "1h 12.34%"),
        ] {
            assert_eq!(text.parse::<WaveStep>().unwrap().to_string(), shown);
        }
        for bad in [
            "",
            "24h",
            "24 10%",
            "24h10%",
            "24h 10",
            "24h 0%",
            "24h 100.001%",
            "24h 101%",
            "-1h 10%",
            "8761h 10%",
            "24h 1.2345%",
            "24h .5%",
            "24h 5.%",
            "1.5h 10%",
            " 24h 10%",
            "24h 10% ",
            "24h 10%\n",
            "+1h 1%",
        ] {
            assert_eq!(bad.parse::<WaveStep>(), Err(NotAStep), "{bad:?}");
        }
    }

    #[test]
    fn steps_ascend_and_end_with_everybody() {
        assert_eq!(settings(&[]), Err(StepsError::Count));
        assert_eq!(settings(&["0h 2%", "24h 10%"]), Err(StepsError::End(1)));
        assert_eq!(settings(&["0h 2%", "0h 10%", "1h 100%"]), Err(StepsError::Order(1)));
        assert_eq!(
            settings(&["0h 2%", "1h 10%", "2h 10%", "3h 100%"]),
            Err(StepsError::Order(2))
        );
        let many: Vec<String> = (1..=21)
            .map(|step| format!("{step}h {}%", if step == 21 { 100 } else { step }))
            .collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(settings(&many), Err(StepsError::Count));
        assert!(settings(&many[1..]).is_ok());
        let whole = settings(&["0h 2%", "24h 10%", "72h 100%"]).unwrap();
        assert_eq!(whole.whole(), TimeDelta::hours(72));
        let share = |minutes| whole.share_after(TimeDelta::minutes(minutes)).to_string();
        assert_eq!(
            [share(0), share(24 * 60 - 1), share(24 * 60), share(72 * 60)],
            ["2%", "2%", "10%", "100%"]
        );
    }

    #[test]
    fn pauses_do_not_count_and_a_restart_begins_again() {
        let settings = settings(&["0h 2%", "24h 10%", "72h 100%"]).unwrap();
        let mut rollout = Rollout::begin("2.0".parse().unwrap(), mark(RolloutStep::Started, 0)).unwrap();
        assert!(!rollout.take(mark(RolloutStep::Started, 1)) && !rollout.take(mark(RolloutStep::Resumed, 1)));
        assert!(rollout.take(mark(RolloutStep::Paused, 20)));
        assert!(!rollout.take(mark(RolloutStep::Paused, 21)));
        assert_eq!(rollout.share(&settings, at(500)).to_string(), "2%");
        assert_eq!(rollout.next(&settings, at(500)), None);
        assert!(rollout.take(mark(RolloutStep::Resumed, 120)));
        assert_eq!(
            rollout.next(&settings, at(121)),
            Some((at(124), settings.steps()[1].share()))
        );
        assert_eq!(
            (rollout.running(at(130)), rollout.paused(at(130))),
            (TimeDelta::hours(30), TimeDelta::hours(100))
        );
        assert!(!rollout.is_over(&settings, at(171)) && rollout.is_over(&settings, at(172)));
        assert!(rollout.take(mark(RolloutStep::Withheld, 140)));
        assert_eq!(rollout.share(&settings, at(900)), SiteShare::default());
        assert!(!rollout.take(mark(RolloutStep::Finished, 141)));
        assert!(rollout.take(mark(RolloutStep::Restarted, 200)));
        assert_eq!(
            (rollout.started, rollout.running(at(201))),
            (at(200), TimeDelta::hours(1))
        );
        assert!(rollout.take(mark(RolloutStep::Finished, 201)));
        assert_eq!(rollout.share(&settings, at(201)), SiteShare::ALL);
        // An alarm is one mark, and changes nothing else.
        assert!(rollout.take(mark(RolloutStep::Alarmed, 202)) && !rollout.take(mark(RolloutStep::Alarmed, 203)));
        assert_eq!((rollout.phase(), rollout.since()), (RolloutPhase::Finished, at(201)));
        assert!(rollout.is_alarmed() && rollout.take(mark(RolloutStep::Withheld, 204)));
        assert!(rollout.take(mark(RolloutStep::Restarted, 205)) && !rollout.is_alarmed());
        assert_eq!(rollout.marks.len(), 9);
    }

    #[test]
    fn rollouts_are_kept_by_version() {
        let mut rollouts = PluginRollouts::default();
        for version in ["1.9", "2.1", "2.0", "2.1-beta.1"] {
            assert!(rollouts.take(&version.parse().unwrap(), mark(RolloutStep::Started, 1)));
        }
        assert!(!rollouts.take(&"2.1-beta1".parse().unwrap(), mark(RolloutStep::Started, 2)));
        assert!(!rollouts.take(&"3.0".parse().unwrap(), mark(RolloutStep::Paused, 2)));
        let versions: Vec<_> = rollouts.iter().map(|rollout| rollout.version.as_str()).collect();
        assert_eq!(versions, ["2.1", "2.1-beta.1", "2.0", "1.9"]);
        assert_eq!(rollouts.newer_than(&"2.0".parse().unwrap()).count(), 2);
    }

    proptest! {
        /// Whatever clocks say and whenever a rollout pauses, there are never less than 0 hours, and no share falls while it runs.
        #[test]
        fn hours_never_fall_below_zero(moves in prop::collection::vec((0_u8..3, -100_i64..100), 0..40)) {
            let settings = settings(&["0h 2%", "24h 10%", "48h 50%", "72h 100%"]).unwrap();
            let mut rollout = Rollout::begin("2.0".parse().unwrap(), mark(RolloutStep::Started, 0)).unwrap();
            let mut clock = 0;
            for (kind, jump) in moves {
                clock += jump;
                let before = rollout.running(at(clock));
                let step = [RolloutStep::Started, RolloutStep::Paused, RolloutStep::Resumed][usize::from(kind)];
                rollout.take(mark(step, clock));
                prop_assert_eq!(rollout.running(at(clock)), before);
                prop_assert!(before >= TimeDelta::zero());
                prop_assert!(rollout.share(&settings, at(clock)) >= settings.share_after(TimeDelta::zero()));
                prop_assert!(rollout.paused(at(clock)) >= TimeDelta::zero());
            }
        }

        #[test]
        fn a_step_reads_as_it_is_shown(hours in 0_u32..=MAX_HOURS, share in 1_u32..=ALL) {
            let step = WaveStep { hours, share: SiteShare(share) };
            prop_assert_eq!(step.to_string().parse(), Ok(step));
        }
    }
}
