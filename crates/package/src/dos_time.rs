//! MS-DOS date and time, as a zip archive has them (APPNOTE.TXT 4.4.6): steps of two seconds, years 1980 to 2107.

use chrono::{DateTime, Datelike as _, Timelike as _, Utc};

/// Date and time of a header, in UTC. The format has no time zone; another one would give other bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DosTime {
    pub time: u16,
    pub date: u16,
}

impl DosTime {
    /// 1980-01-01 00:00:00.
    const FIRST: Self = Self {
        time: 0,
        date: 1 << 5 | 1,
    };

    /// 2107-12-31 23:59:58.
    const LAST: Self = Self {
        time: 23 << 11 | 59 << 5 | 29,
        date: 127 << 9 | 12 << 5 | 31,
    };
}

impl From<DateTime<Utc>> for DosTime {
    /// The step of the time; the first or last one if it is outside of the range.
    fn from(time: DateTime<Utc>) -> Self {
        let year = match time.year() {
            ..1980 => return Self::FIRST,
            2108.. => return Self::LAST,
            year => year - 1980,
        };
        // All of them fit: hours have 5 bits, minutes 6, and so on.
        Self {
            time: (time.hour() << 11 | time.minute() << 5 | (time.second() / 2)) as u16,
            date: (year.unsigned_abs() << 9 | time.month() << 5 | time.day()) as u16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_cut_to_two_seconds_and_to_the_range() {
        let of = |text: &str| {
            let DosTime { time, date } = text.parse::<DateTime<Utc>>().unwrap().into();
            let day = (1980 + (date >> 9), date >> 5 & 15, date & 31);
            (day, (time >> 11, time >> 5 & 63, 2 * (time & 31)))
        };
        assert_eq!(of("2026-11-23T15:04:19Z"), ((2026, 11, 23), (15, 4, 18)));
        assert_eq!(of("2026-11-23T15:04:19.999+02:00"), ((2026, 11, 23), (13, 4, 18)));
        assert_eq!(of("1980-01-01T00:00:00Z"), ((1980, 1, 1), (0, 0, 0)));
        assert_eq!(of("1979-12-31T23:59:59Z"), ((1980, 1, 1), (0, 0, 0)));
        assert_eq!(of("2107-12-31T23:59:59Z"), ((2107, 12, 31), (23, 59, 58)));
        assert_eq!(of("2108-01-01T00:00:00Z"), ((2107, 12, 31), (23, 59, 58)));
        // A leap second is the 61st of its minute for chrono.
        assert_eq!(of("2016-12-31T23:59:60Z"), ((2016, 12, 31), (23, 59, 58)));
    }
}
