//! Waves: whether a site gets a release whose [rollout](crate::rollout) runs, or is held until its turn comes.

use chrono::{DateTime, TimeDelta, Utc};

use crate::channel::Channel;
use crate::digest::Digest;
use crate::rollout::{PluginRollouts, Rollout, RolloutPhase, RolloutSettings};
use crate::site_host::SiteHost;
use crate::slug::Slug;
use crate::version::Version;

/// What is hashed in front of what names a site and a release.
const LABEL: &str = "countersign wave 1";

/// What a site says of its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum WaveWish {
    /// It wants each release with the first share.
    First,
    /// It wants each release with the last share.
    Last,
}

/// Where a site is among all sites, of 2^32: another place for each release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WavePosition(u32);

impl WavePosition {
    /// The position of a site for a release, unless the site has a wish.
    pub fn of(slug: &Slug, version: &Version, host: &SiteHost, wish: Option<WaveWish>) -> Self {
        match wish {
            Some(WaveWish::First) => Self(0),
            Some(WaveWish::Last) => Self(u32::MAX),
            None => {
                let words = [LABEL, "\0", slug.as_str(), "\0", version.as_str(), "\0", host.as_str()];
                let [a, b, c, d, ..] = *Digest::of_parts(words.map(str::as_bytes)).as_bytes();
                Self(u32::from_be_bytes([a, b, c, d]))
            }
        }
    }
}

/// A site that asks for a release.
#[derive(Clone, Copy, Debug)]
pub struct WaitingSite<'a> {
    /// What it runs, if that is known.
    pub current: Option<&'a Version>,
    /// The channel whose newest release it asks for.
    pub channel: Channel,
    /// Its position for that release.
    pub position: WavePosition,
    /// Whether it is a staging copy.
    pub is_copy: bool,
    /// Whether the release, or one that it lacks, is a security release.
    pub lacks_security: bool,
}

/// A site has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaveHold {
    /// Until when; `None` if that is not known, such as while somebody has paused the rollout.
    pub until: Option<DateTime<Utc>>,
}

/// Whether a site has to wait for the release `newest`, whose rollout runs by these settings.
///
/// A security release is never held, nor a release from a site that lacks one, that is a staging copy, that runs a release which
/// was taken back, or one whose own rollout had not ended, or that has waited for as long as a whole rollout since the first
/// release that it lacks. While somebody has paused the rollout, the last two do not count.
pub fn held(
    site: &WaitingSite<'_>,
    newest: &Version,
    rollouts: &PluginRollouts,
    settings: &RolloutSettings,
    now: DateTime<Utc>,
) -> Option<WaveHold> {
    // Nothing is known of a plugin whose first look at its releases is not over: everybody had them before.
    if rollouts.is_empty() || site.lacks_security || site.is_copy {
        return None;
    }
    let running = site.current.and_then(|current| rollouts.of(current));
    if running.is_some_and(|rollout| rollout.phase() == RolloutPhase::Withheld) {
        return None;
    }
    let Some(rollout) = rollouts.of(newest) else {
        // Its first line is under way: it starts now.
        let turn = settings.turn_of(site.position.0);
        return (turn > TimeDelta::zero()).then(|| WaveHold {
            until: now.checked_add_signed(turn),
        });
    };
    match rollout.phase() {
        RolloutPhase::Finished => return None,
        RolloutPhase::Paused => return Some(WaveHold { until: None }),
        // One that is back, whose line is under way.
        RolloutPhase::Withheld => return Some(WaveHold { until: None }),
        RolloutPhase::Running => {}
    }
    if running.is_some_and(|running| !was_over(running, rollouts, settings, now)) {
        return None;
    }
    let turn = rollout.when(settings.turn_of(site.position.0), now);
    let patience = site
        .current
        .and_then(|current| patience(current, site.channel, rollouts, settings, now));
    let until = turn
        .into_iter()
        .chain(patience.and_then(|left| now.checked_add_signed(left)))
        .min();
    until.is_none_or(|until| until > now).then_some(WaveHold { until })
}

/// Whether sites that wait for a newer release may have this one at once: everybody had got it.
pub fn is_for_everybody(
    version: &Version,
    rollouts: &PluginRollouts,
    settings: &RolloutSettings,
    now: DateTime<Utc>,
) -> bool {
    // One without a rollout is older than all that have one.
    let rollout = rollouts.of(version);
    rollout.is_none_or(|rollout| was_over(rollout, rollouts, settings, now))
}

/// Whether everybody had got this release before a newer one took its place.
fn was_over(rollout: &Rollout, rollouts: &PluginRollouts, settings: &RolloutSettings, now: DateTime<Utc>) -> bool {
    rollout.is_over(settings, rollouts.superseded(rollout).unwrap_or(now))
}

/// The time that a site with this version may still wait, counted from the first release of its channel that it lacks; 0 or less once
/// it has waited for the whole schedule. Pauses and releases that were taken back do not count.
fn patience(
    current: &Version,
    channel: Channel,
    rollouts: &PluginRollouts,
    settings: &RolloutSettings,
    now: DateTime<Utc>,
) -> Option<TimeDelta> {
    let lacked = rollouts.newer_than(current).filter(|rollout| {
        rollout.phase() != RolloutPhase::Withheld && rollout.channel().is_some_and(|its| its <= channel)
    });
    let mut paused = TimeDelta::zero();
    let mut least = None;
    for rollout in lacked {
        // Pauses of releases that follow one another do not overlap.
        paused += rollout.paused(rollouts.superseded(rollout).unwrap_or(now));
        let left = settings.whole() - (now - rollout.started - paused);
        least = Some(least.map_or(left, |least: TimeDelta| least.min(left)));
        // The site may lack hundreds.
        if left <= TimeDelta::zero() {
            break;
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::{HoldRule, OtherClients, RolloutMark, RolloutStep};

    fn settings() -> RolloutSettings {
        let steps = ["0h 2%", "24h 10%", "48h 50%", "72h 100%"];
        let steps = steps.iter().map(|step| step.parse().unwrap()).collect();
        RolloutSettings::new(steps, HoldRule::default(), OtherClients::default()).unwrap()
    }

    fn at(hours: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::hours(hours)
    }

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    fn rollouts(marks: &[(&str, RolloutStep, i64)]) -> PluginRollouts {
        let mut rollouts = PluginRollouts::default();
        for (text, step, hours) in marks {
            let mark = RolloutMark {
                step: *step,
                time: at(*hours),
                who: None,
                reason: None,
            };
            assert!(rollouts.take(&version(text), mark), "{text} {step:?}");
        }
        rollouts
    }

    /// A site that runs 1.0, with the last share.
    fn last(current: Option<&Version>) -> WaitingSite<'_> {
        WaitingSite {
            current,
            channel: Channel::Stable,
            position: WavePosition(u32::MAX),
            is_copy: false,
            lacks_security: false,
        }
    }

    fn until(hours: i64) -> Option<WaveHold> {
        Some(WaveHold { until: Some(at(hours)) })
    }

    #[test]
    fn the_position_is_the_one_that_other_programs_compute() {
        // printf 'countersign wave 1\0acme-forms\0002.0.0\0shop.example' | sha256sum
        let slug = "acme-forms".parse().unwrap();
        let host = "shop.example".parse().unwrap();
        let position = WavePosition::of(&slug, &version("2.0.0"), &host, None);
        assert_eq!(position, WavePosition(0x98d3_2223));
        assert_ne!(position, WavePosition::of(&slug, &version("2.0.1"), &host, None));
        assert_eq!(
            WavePosition::of(&slug, &version("2.0.0"), &host, "last".parse().ok()),
            WavePosition(u32::MAX)
        );
    }

    #[test]
    fn a_site_waits_for_its_turn_and_no_longer_than_the_whole_schedule() {
        use RolloutStep::{Finished, Paused, Resumed, Started};
        let old = version("1.0");
        let new = version("2.0");
        let known = rollouts(&[("1.0", Finished, -500), ("2.0", Started, 0)]);
        let ask =
            |site: &WaitingSite<'_>, known: &PluginRollouts, hours| held(site, &new, known, &settings(), at(hours));
        assert_eq!(ask(&last(Some(&old)), &known, 1), until(72));
        assert_eq!(ask(&last(Some(&old)), &known, 72), None);
        let first = WaitingSite {
            position: WavePosition(0),
            ..last(Some(&old))
        };
        assert_eq!(ask(&first, &known, 0), None);
        // A clock that jumps back: never less than 0 hours.
        assert_eq!(ask(&first, &known, -400), None);
        assert_eq!(ask(&last(Some(&old)), &known, -400), until(-400 + 72));
        let tenth = WaitingSite {
            position: WavePosition(u32::MAX / 20),
            ..first
        };
        assert_eq!(ask(&tenth, &known, 1), until(24));
        let paused = rollouts(&[("1.0", Finished, -500), ("2.0", Started, 0), ("2.0", Paused, 10)]);
        for site in [first, tenth, last(Some(&old))] {
            assert_eq!(ask(&site, &paused, 900), Some(WaveHold { until: None }));
        }
        let resumed = rollouts(&[
            ("1.0", Finished, -500),
            ("2.0", Started, 0),
            ("2.0", Paused, 10),
            ("2.0", Resumed, 910),
        ]);
        assert_eq!(ask(&tenth, &resumed, 911), until(924));
        assert_eq!(ask(&last(Some(&old)), &resumed, 911), until(972));
        // Nobody knows what it runs.
        assert_eq!(ask(&last(None), &known, 1), until(72));
        // Its line is under way.
        let unseen = rollouts(&[("1.0", Finished, -500)]);
        assert_eq!(ask(&last(Some(&old)), &unseen, 1), until(73));
        assert_eq!(ask(&first, &unseen, 1), None);
        assert_eq!(ask(&last(Some(&old)), &PluginRollouts::default(), 1), None);
    }

    #[test]
    fn who_is_never_held() {
        use RolloutStep::{Finished, Paused, Restarted, Started, Withheld};
        let old = version("1.0");
        let middle = version("1.1");
        let new = version("2.0");
        let begun = [("1.0", Finished, -500), ("1.1", Started, 0), ("2.0", Started, 48)];
        let known = rollouts(&begun);
        let ask =
            |site: WaitingSite<'_>, known: &PluginRollouts, hours| held(&site, &new, known, &settings(), at(hours));
        assert_eq!(
            ask(
                WaitingSite {
                    lacks_security: true,
                    ..last(Some(&old))
                },
                &known,
                49
            ),
            None
        );
        assert_eq!(
            ask(
                WaitingSite {
                    is_copy: true,
                    ..last(Some(&old))
                },
                &known,
                49
            ),
            None
        );
        // It waits since 1.1.
        assert_eq!(ask(last(Some(&old)), &known, 49), until(72));
        // The rollout of what it runs had not ended.
        assert_eq!(ask(last(Some(&middle)), &known, 49), None);
        let over = rollouts(&[begun[0], begun[1], ("2.0", Started, 73)]);
        assert_eq!(ask(last(Some(&middle)), &over, 74), until(73 + 72));
        // A pause holds both, but nobody on a release that was taken back.
        let paused = rollouts(&[begun[0], begun[1], begun[2], ("2.0", Paused, 49)]);
        for current in [&old, &middle] {
            assert_eq!(ask(last(Some(current)), &paused, 500), Some(WaveHold { until: None }));
        }
        assert_eq!(
            ask(
                WaitingSite {
                    lacks_security: true,
                    ..last(Some(&old))
                },
                &paused,
                500
            ),
            None
        );
        let taken_back = rollouts(&[begun[0], begun[1], ("1.1", Withheld, 40), begun[2], ("2.0", Paused, 49)]);
        assert_eq!(ask(last(Some(&middle)), &taken_back, 50), None);
        // Time of a release that was taken back does not count.
        let taken_back = rollouts(&[begun[0], begun[1], ("1.1", Withheld, 40), begun[2]]);
        assert_eq!(ask(last(Some(&old)), &taken_back, 50), until(120));
        let back = rollouts(&[begun[0], begun[2], ("2.0", Withheld, 50), ("2.0", Restarted, 90)]);
        assert_eq!(ask(last(Some(&old)), &back, 91), until(90 + 72));
        // A pre-release is no release that a site of the stable channel lacks.
        let beta = rollouts(&[begun[0], ("1.1-beta.1", Started, 0), begun[2]]);
        assert_eq!(ask(last(Some(&old)), &beta, 49), until(120));
        let channel = WaitingSite {
            channel: Channel::Beta,
            ..last(Some(&old))
        };
        assert_eq!(ask(channel, &beta, 49), until(72));
    }

    /// 4,000 sites that look for updates twice a day, on a year of releases.
    mod simulation {
        use super::*;
        use crate::rollout::SiteShare;

        const SITES: usize = 4_000;

        struct Site {
            host: SiteHost,
            /// At which of 12 hours it looks.
            hour: i64,
            /// The releases of the year that it has, by number; 0 is what all began with.
            runs: usize,
            got: Vec<i64>,
        }

        struct Field {
            slug: Slug,
            settings: RolloutSettings,
            rollouts: PluginRollouts,
            /// By number: the version, whether it is a security release, whether it was taken back.
            releases: Vec<(Version, bool, bool)>,
            sites: Vec<Site>,
        }

        impl Field {
            fn new() -> Self {
                let sites = (0..SITES).map(|number| Site {
                    host: format!("site-{number}.example").parse().unwrap(),
                    hour: (number % 12) as i64,
                    runs: 0,
                    got: vec![0],
                });
                Self {
                    slug: "acme-forms".parse().unwrap(),
                    settings: settings(),
                    rollouts: rollouts(&[("1.0.0", RolloutStep::Finished, -1)]),
                    releases: vec![(version("1.0.0"), false, false)],
                    sites: sites.collect(),
                }
            }

            fn mark(&mut self, number: usize, step: RolloutStep, hour: i64) {
                let mark = RolloutMark {
                    step,
                    time: at(hour),
                    who: None,
                    reason: None,
                };
                let version = self.releases[number].0.clone();
                assert!(self.rollouts.take(&version, mark), "{version} {step:?}");
            }

            fn release(&mut self, is_security: bool, hour: i64) -> usize {
                let number = self.releases.len();
                self.releases
                    .push((version(&format!("1.{number}.0")), is_security, false));
                // The server gives a security release to everybody.
                let step = match is_security {
                    true => RolloutStep::Finished,
                    false => RolloutStep::Started,
                };
                self.mark(number, step, hour);
                number
            }

            fn newest(&self) -> usize {
                self.releases.iter().rposition(|release| !release.2).unwrap()
            }

            /// Every site whose hour it is looks, and installs what it gets.
            fn look(&mut self, hour: i64) {
                let newest = self.newest();
                for site in &mut self.sites {
                    if hour.rem_euclid(12) != site.hour || site.runs >= newest {
                        continue;
                    }
                    let (new, ..) = &self.releases[newest];
                    let lacks_security = self.releases[site.runs + 1..=newest].iter().any(|release| release.1);
                    let waiting = WaitingSite {
                        current: Some(&self.releases[site.runs].0),
                        channel: Channel::Stable,
                        position: WavePosition::of(&self.slug, new, &site.host, None),
                        is_copy: false,
                        lacks_security,
                    };
                    if held(&waiting, new, &self.rollouts, &self.settings, at(hour)).is_none() {
                        site.runs = newest;
                        site.got.push(hour);
                    }
                }
            }
        }

        #[test]
        fn with_a_release_each_day_nobody_is_more_than_three_behind() {
            let mut field = Field::new();
            for hour in 0..365 * 24 {
                if hour % 24 == 0 {
                    field.release(false, hour);
                }
                field.look(hour);
                if hour > 12 && hour % 3 == 2 {
                    // A site may look up to 12 hours after a release that is for it.
                    let newest = field.newest();
                    let behind = field.sites.iter().map(|site| newest - site.runs).max().unwrap();
                    assert!(
                        behind <= 3 + usize::from(hour % 24 < 12),
                        "{behind} behind at hour {hour}"
                    );
                }
            }
        }

        #[test]
        fn a_security_fix_reaches_all_at_once_whatever_was_paused() {
            let mut field = Field::new();
            for hour in 0..60 * 24 {
                match hour {
                    0 | 240 | 300 => drop(field.release(false, hour)),
                    310 => field.mark(3, RolloutStep::Paused, hour),
                    // The fix, and 20 hours later a feature on top of it, which is also stopped.
                    400 => drop(field.release(true, hour)),
                    420 => drop(field.release(false, hour)),
                    421 => field.mark(5, RolloutStep::Paused, hour),
                    _ => {}
                }
                field.look(hour);
                if hour == 411 {
                    assert!(
                        field.sites.iter().all(|site| site.runs == 4),
                        "12 hours are one look of each"
                    );
                }
            }
            // The feature came to none but the first share that looked before the pause.
            let with_feature = field.sites.iter().filter(|site| site.runs == 5).count();
            assert!(with_feature < SITES / 100, "{with_feature}");
        }

        #[test]
        fn no_site_stays_on_a_release_that_was_taken_back() {
            let mut field = Field::new();
            let mut broken = 0;
            for day in 0..365 {
                for hour in day * 24..(day + 1) * 24 {
                    match hour % (24 * 14) {
                        0 => broken = field.release(false, hour),
                        // Too late for 10 percent. A fixed one comes a day later.
                        30 => {
                            field.releases[broken].2 = true;
                            field.mark(broken, RolloutStep::Withheld, hour);
                        }
                        54 => drop(field.release(false, hour)),
                        66 => {
                            let stay = field.sites.iter().filter(|site| site.runs == broken).count();
                            assert_eq!(stay, 0, "12 hours after the fix of {broken}");
                        }
                        _ => {}
                    }
                    field.look(hour);
                }
            }
            assert!(broken > 50);
        }

        #[test]
        fn shares_are_exact_to_a_tenth_of_a_percent() {
            let slug = "acme-forms".parse().unwrap();
            let settings = settings();
            let count = 400_000_usize;
            let hosts: Vec<SiteHost> = (0..count)
                .map(|number| format!("s{number}.example").parse().unwrap())
                .collect();
            let positions = |text: &str| {
                let new = version(text);
                let of = |host: &SiteHost| WavePosition::of(&slug, &new, host, None).0;
                hosts.iter().map(of).collect::<Vec<_>>()
            };
            let first = positions("2.0.0");
            for (hours, share) in [(0, 2.0), (24, 10.0), (48, 50.0), (72, 100.0)] {
                let share_then: SiteShare = settings.share_after(TimeDelta::hours(hours));
                assert!((share_then.percent() - share).abs() < 1e-9);
                let got = first.iter().filter(|position| share_then.has(**position)).count();
                let percent = 100.0 * got as f64 / count as f64;
                assert!((percent - share).abs() < 0.1, "{percent} percent instead of {share}");
            }
            // Another release begins with other sites.
            let tenth = settings.share_after(TimeDelta::hours(24));
            let second = positions("2.0.1");
            let both = first
                .iter()
                .zip(&second)
                .filter(|(one, other)| tenth.has(**one) && tenth.has(**other));
            let percent = 100.0 * both.count() as f64 / count as f64;
            assert!((percent - 1.0).abs() < 0.1, "{percent}");
        }
    }
}
