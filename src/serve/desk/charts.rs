//! Charts as inline SVG with classes only. The picture stretches; its words are HTML beside it, and a table under it has the numbers.

use chrono::{NaiveDate, TimeDelta};

use crate::serve::pages::shown::{grouped, percent};
use countersign_model::text::outside_text::OutsideText;

/// The size of the picture.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 200.0;

/// How many days are named below a picture, and how many rows a table has, at most.
const MOST_NAMED: usize = 7;
const MOST_ROWS: usize = 12;

/// The colours of areas, the topmost first.
const COLOURS: [&str; 6] = ["s0", "s1", "s2", "s3", "s4", "s5"];

/// The colours of the parts of a bar, the lowest first.
const BAR_COLOURS: [&str; 2] = ["s0", "s2"];

/// How much of a week's place its bar takes, and which of the weeks are named below the picture: each third.
const BAR: f64 = 0.6;
const NAMED_WEEKS: usize = 3;

/// The most areas of a chart.
pub(super) const MOST_AREAS: usize = COLOURS.len();

/// What one area or line shows: a value for each day or part of a day.
pub(super) struct ChartSeries {
    pub(super) name: String,
    pub(super) values: Vec<u64>,
}

/// A chart, as its template shows it.
pub(super) struct Chart {
    /// What it says, for those who do not see it.
    pub(super) label: String,
    pub(super) is_low: bool,
    /// Whether each name is that of the day above it, as wide as the day, and no mark between two.
    pub(super) names_whole_days: bool,
    pub(super) top: String,
    pub(super) middle: String,
    pub(super) shapes: Vec<ChartShape>,
    pub(super) days: Vec<String>,
    pub(super) keys: Vec<ChartKey>,
    pub(super) caption: String,
    /// What a row of the table is about.
    pub(super) row_head: &'static str,
    pub(super) heads: Vec<OutsideText>,
    /// The newest first.
    pub(super) rows: Vec<(String, Vec<String>)>,
}

/// A path of the picture.
pub(super) struct ChartShape {
    pub(super) class: &'static str,
    /// Whether a line divides it from the shape beside it.
    pub(super) is_area: bool,
    pub(super) path: String,
}

/// What an area shows.
pub(super) struct ChartKey {
    pub(super) class: &'static str,
    pub(super) name: OutsideText,
    pub(super) said: String,
}

impl Chart {
    /// Areas on top of each other, the first one on top, with a value for each of these days; `None` where there are fewer than two
    /// days. `title` begins the label.
    pub(super) fn stacked(title: &str, days: &[NaiveDate], series: &[ChartSeries]) -> Option<Self> {
        let first = days.first()?;
        let last = days.last()?;
        let series = &series[..series.len().min(MOST_AREAS)];
        let sums: Vec<u64> = (0..days.len())
            .map(|day| series.iter().map(|one| one.values[day]).sum())
            .collect();
        let top = round_up(sums.iter().copied().max()?);
        let span = (*last - *first).num_days();
        if span < 1 {
            return None;
        }
        let places: Vec<f64> = days
            .iter()
            .map(|day| (*day - *first).num_days() as f64 * WIDTH / span as f64)
            .collect();
        let mut below = vec![0; days.len()];
        let mut shapes = Vec::new();
        for (colour, one) in COLOURS.iter().zip(series).rev() {
            let above: Vec<u64> = below
                .iter()
                .zip(&one.values)
                .map(|(below, value)| below + value)
                .collect();
            let upper = points(&places, &above, top);
            let lower = points(&places, &below, top).rev();
            let line: Vec<_> = upper.chain(lower).collect();
            shapes.push(ChartShape {
                class: colour,
                is_area: true,
                path: format!("M{}Z", line.join("L")),
            });
            below = above;
        }
        let total = *sums.last()?;
        let newest = |one: &ChartSeries| one.values.last().copied().unwrap_or_default();
        let said = |one: &ChartSeries| format!("{} · {} %", shown(newest(one)), share(newest(one), total));
        let largest = series.iter().max_by_key(|one| newest(one))?;
        let step = days.len().div_ceil(MOST_ROWS);
        Some(Self {
            label: format!(
                "{title} over {} days. {} runs on {} percent of {}.",
                span + 1,
                OutsideText::of(&largest.name),
                share(newest(largest), total),
                shown(total)
            ),
            is_low: false,
            names_whole_days: false,
            top: shown(top),
            middle: shown(top / 2),
            shapes,
            days: named_days(*first, *last),
            keys: COLOURS
                .iter()
                .zip(series)
                .map(|(class, one)| ChartKey {
                    class,
                    name: OutsideText::of(&one.name),
                    said: said(one),
                })
                .collect(),
            caption: title.to_owned(),
            row_head: "Day",
            heads: series.iter().map(|one| OutsideText::of(&one.name)).collect(),
            rows: (0..days.len())
                .rev()
                .step_by(step)
                .map(|day| {
                    (
                        day_name(days[day]),
                        series.iter().map(|one| shown(one.values[day])).collect(),
                    )
                })
                .collect(),
        })
    }

    /// A line of a value for each part of these days, which follow each other; each day has as many parts. `None` where nothing was
    /// counted.
    pub(super) fn line(title: &str, days: &[NaiveDate], series: &ChartSeries) -> Option<Self> {
        let parts = series.values.len().checked_div(days.len())?;
        let most = series.values.iter().copied().max().filter(|most| *most > 0)?;
        let top = round_up(most);
        let width = WIDTH / (series.values.len() - 1).max(1) as f64;
        let places: Vec<f64> = (0..series.values.len()).map(|part| part as f64 * width).collect();
        let line: Vec<_> = points(&places, &series.values, top).collect();
        let line = line.join("L");
        let sums: Vec<u64> = series.values.chunks(parts.max(1)).map(|day| day.iter().sum()).collect();
        let total = sums.iter().sum();
        Some(Self {
            label: format!("{title} in {} days: {}.", days.len(), shown(total)),
            is_low: true,
            names_whole_days: true,
            top: shown(top),
            middle: shown(top / 2),
            shapes: vec![
                ChartShape {
                    class: "under",
                    is_area: false,
                    path: format!("M0 {HEIGHT}L{line}L{WIDTH} {HEIGHT}Z"),
                },
                ChartShape {
                    class: "thread",
                    is_area: false,
                    path: format!("M{line}"),
                },
            ],
            days: days.iter().map(|day| day.format("%-d %b").to_string()).collect(),
            keys: Vec::new(),
            caption: title.to_owned(),
            row_head: "Day",
            heads: vec![OutsideText::of(&series.name)],
            rows: days
                .iter()
                .zip(&sums)
                .rev()
                .map(|(day, sum)| (day_name(*day), vec![shown(*sum)]))
                .collect(),
        })
    }

    /// A bar for each of these weeks, which begin on these days; the last one runs. The first series is at the foot of a bar. `beside`
    /// is in the table alone. `None` where nothing was counted.
    pub(super) fn weeks(title: &str, weeks: &[NaiveDate], series: &[ChartSeries], beside: ChartSeries) -> Option<Self> {
        let sum = |week: usize| series.iter().map(|one| one.values[week]).sum::<u64>();
        let most = (0..weeks.len()).map(sum).max().filter(|most| *most > 0)?;
        let top = round_up(most);
        let width = WIDTH / weeks.len() as f64;
        let mut shapes = Vec::new();
        for week in 0..weeks.len() {
            let left = width * (week as f64 + (1.0 - BAR) / 2.0);
            let mut below = 0;
            for (class, one) in BAR_COLOURS.into_iter().zip(series) {
                let above = below + one.values[week];
                let [left, right] = [left, left + width * BAR].map(tenths);
                let [foot, head] = [below, above].map(|value| tenths(height(value, top)));
                if above > below {
                    shapes.push(ChartShape {
                        class,
                        is_area: false,
                        path: format!("M{left} {foot}V{head}H{right}V{foot}Z"),
                    });
                }
                below = above;
            }
        }
        let newest = |one: &ChartSeries| shown(one.values.last().copied().unwrap_or_default());
        let said: Vec<_> = series
            .iter()
            .map(|one| format!("{} {}", newest(one), one.name))
            .collect();
        let columns: Vec<_> = series.iter().chain([&beside]).collect();
        let is_counted = |week: &usize| columns.iter().any(|one| one.values[*week] > 0);
        let known = (0..weeks.len()).find(is_counted)?;
        let days = weeks.iter().take(weeks.len() - 1).step_by(NAMED_WEEKS);
        let days = days.map(|day| day.format("%-d %b").to_string());
        Some(Self {
            label: format!("{title}. This week {} so far.", said.join(" and ")),
            is_low: true,
            names_whole_days: false,
            top: shown(top),
            middle: shown(top / 2),
            shapes,
            days: days.chain(["this week".to_owned()]).collect(),
            keys: BAR_COLOURS
                .into_iter()
                .zip(series)
                .map(|(class, one)| ChartKey {
                    class,
                    name: OutsideText::of(&one.name),
                    said: format!("{} this week", newest(one)),
                })
                .collect(),
            caption: title.to_owned(),
            row_head: "Week of",
            heads: columns.iter().map(|one| OutsideText::of(&one.name)).collect(),
            rows: (known..weeks.len())
                .rev()
                .map(|week| {
                    let values = columns.iter().map(|one| shown(one.values[week]));
                    (day_name(weeks[week]), values.collect())
                })
                .collect(),
        })
    }
}

/// The points of a line, as a path has them.
fn points(places: &[f64], values: &[u64], top: u64) -> impl DoubleEndedIterator<Item = String> {
    places
        .iter()
        .zip(values)
        .map(move |(place, value)| format!("{} {}", tenths(*place), tenths(height(*value, top))))
}

/// How far below the upper edge of the picture a value is.
fn height(value: u64, top: u64) -> f64 {
    HEIGHT - value as f64 * HEIGHT / top as f64
}

fn tenths(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

/// The least of 2, 4, 6, 8, 10, 14, 20, 40 and so on that is not less: its half is a whole number.
fn round_up(value: u64) -> u64 {
    let mut ten = 1;
    loop {
        for digit in [2, 4, 6, 8, 10, 14] {
            if digit * ten >= value {
                return digit * ten;
            }
        }
        ten *= 10;
    }
}

fn shown(number: u64) -> String {
    grouped(usize::try_from(number).unwrap_or(usize::MAX))
}

fn share(part: u64, all: u64) -> usize {
    let usize_of = |number: u64| usize::try_from(number).unwrap_or(usize::MAX / 400);
    percent(usize_of(part), usize_of(all))
}

fn day_name(day: NaiveDate) -> String {
    day.format("%-d %b %Y").to_string()
}

/// Names for the days below a picture, at equal distances.
fn named_days(first: NaiveDate, last: NaiveDate) -> Vec<String> {
    let span = (last - first).num_days();
    let names = span.min(MOST_NAMED as i64 - 1).max(1);
    (0..=names)
        .map(|name| {
            (first + TimeDelta::days(span * name / names))
                .format("%-d %b")
                .to_string()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(number: i64) -> NaiveDate {
        NaiveDate::from_ymd_opt(2026, 11, 1).unwrap() + chrono::TimeDelta::days(number)
    }

    #[test]
    fn areas_stand_on_each_other_and_the_first_is_on_top() {
        let series = [("2.6", vec![0, 5, 50]), ("2.5", vec![100, 95, 50])];
        let series = series.map(|(name, values)| ChartSeries {
            name: name.to_owned(),
            values,
        });
        let chart = Chart::stacked("Sites by version", &[day(0), day(1), day(4)], &series).unwrap();
        assert_eq!((chart.top.as_str(), chart.middle.as_str()), ("100", "50"));
        let paths: Vec<_> = chart
            .shapes
            .iter()
            .map(|shape| (shape.class, shape.path.as_str()))
            .collect();
        assert_eq!(
            paths,
            [
                ("s1", "M0 0L180 10L720 100L720 200L180 200L0 200Z"),
                ("s0", "M0 0L180 0L720 0L720 100L180 10L0 0Z"),
            ]
        );
        assert_eq!(chart.keys[0].said, "50 · 50 %");
        assert_eq!(
            chart.rows[0],
            ("5 Nov 2026".to_owned(), vec!["50".to_owned(), "50".to_owned()])
        );
        assert_eq!(chart.days, ["1 Nov", "2 Nov", "3 Nov", "4 Nov", "5 Nov"]);
        assert!(Chart::stacked("", &[day(0)], &[]).is_none() && Chart::stacked("", &[], &[]).is_none());
    }

    #[test]
    fn a_week_is_a_bar_and_the_table_begins_with_the_first_that_was_counted() {
        let weeks: Vec<_> = (0..4).map(|week| day(week * 7)).collect();
        let series = |name: &str, values: [u64; 4]| ChartSeries {
            name: name.to_owned(),
            values: values.to_vec(),
        };
        let bars = [series("sold", [0, 0, 30, 1_000]), series("renewed", [0, 0, 0, 400])];
        let chart = Chart::weeks("Licenses", &weeks, &bars, series("ended", [0, 2, 0, 0])).unwrap();
        assert_eq!(chart.label, "Licenses. This week 1,000 sold and 400 renewed so far.");
        let shapes: Vec<_> = chart.shapes.iter().map(|shape| (shape.class, &*shape.path)).collect();
        assert_eq!(
            shapes,
            [
                ("s0", "M396 200V195.7H504V200Z"),
                ("s0", "M576 200V57.1H684V200Z"),
                ("s2", "M576 57.1V0H684V57.1Z"),
            ]
        );
        assert_eq!(
            (chart.top.as_str(), chart.keys[1].said.as_str()),
            ("1,400", "400 this week")
        );
        assert_eq!(chart.days, ["1 Nov", "this week"]);
        let rows: Vec<_> = chart
            .rows
            .iter()
            .map(|(day, values)| format!("{day}: {}", values.join(" ")))
            .collect();
        assert_eq!(
            rows,
            ["22 Nov 2026: 1,000 400 0", "15 Nov 2026: 30 0 0", "8 Nov 2026: 0 0 2"]
        );
        assert!(Chart::weeks("", &weeks, &[series("sold", [0; 4])], series("ended", [1; 4])).is_none());
    }

    #[test]
    fn a_line_has_parts_of_days_and_its_table_whole_ones() {
        let series = ChartSeries {
            name: "2.6.0".to_owned(),
            values: vec![0, 3, 1, 0],
        };
        let chart = Chart::line("Packages", &[day(0), day(1)], &series).unwrap();
        assert_eq!(chart.shapes[1].path, "M0 200L240 50L480 150L720 200");
        assert_eq!(chart.label, "Packages in 2 days: 4.");
        assert_eq!(
            (chart.days.join(" ").as_str(), chart.names_whole_days),
            ("1 Nov 2 Nov", true)
        );
        assert_eq!(chart.rows[1], ("1 Nov 2026".to_owned(), vec!["3".to_owned()]));
        assert_eq!([0, 2, 3, 11, 15, 12_560].map(round_up), [2, 2, 4, 14, 20, 14_000]);
    }
}
