//! System times as year, month, day and time of day. [wdm: TIME_FIELDS]

use std::ffi::c_void;

use wddm_ddi::types::LARGE_INTEGER;

use super::memory::{get, put};
use crate::driver::Export;

pub(super) const EXPORTS: &[Export] = &[
    ("RtlTimeToTimeFields", || rtl_time_to_time_fields as *const () as usize),
    ("RtlTimeFieldsToTime", || rtl_time_fields_to_time as *const () as usize),
];

/// Milliseconds of a day, and units of 100 ns of a millisecond.
const DAY: i64 = 86_400_000;
const MILLISECOND: i64 = 10_000;
/// Days of 400 years, after which the calendar begins anew. The first of January 1601, from which times count, was a Monday.
const ERA: i64 = 146_097;
const FIRST_YEAR: i64 = 1601;
/// "Specifies a value from 1601 to 30827." [wdm: TIME_FIELDS]
const LAST_YEAR: i64 = 30_827;

/// Days of the years before this one since 1601.
fn days_before(year: i64) -> i64 {
    let years = year - FIRST_YEAR;
    years * 365 + years.div_euclid(4) - years.div_euclid(100) + years.div_euclid(400)
}

fn is_leap(year: i64) -> bool {
    days_before(year + 1) - days_before(year) == 366
}

fn days_of(year: i64) -> [i64; 12] {
    [31, if is_leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
}

/// At any level. [wdm: RtlTimeToTimeFields]
extern "win64" fn rtl_time_to_time_fields(time: *const LARGE_INTEGER, fields: *mut c_void) {
    const NAME: &str = "RtlTimeToTimeFields";
    let milliseconds = get(NAME, time).QuadPart.div_euclid(MILLISECOND);
    let (days, in_day) = (milliseconds.div_euclid(DAY), milliseconds.rem_euclid(DAY));
    // By years of the mean length, which is this year or one of its neighbours; begun with the year before.
    let mut year = FIRST_YEAR + (days * 400).div_euclid(ERA) - 1;
    while days_before(year + 1) <= days {
        year += 1;
    }
    let mut day = days - days_before(year);
    let mut month = 0;
    for length in days_of(year) {
        if day < length {
            break;
        }
        (day, month) = (day - length, month + 1);
    }
    let weekday = (days + 1).rem_euclid(7);
    let of_day = [in_day / 3_600_000, in_day / 60_000 % 60, in_day / 1000 % 60, in_day % 1000];
    let [hour, minute, second, millisecond] = of_day;
    let told = [year, month + 1, day + 1, hour, minute, second, millisecond, weekday];
    put(NAME, fields.cast(), told.map(|field| field as i16));
}

/// FALSE, and no time, for fields that are no time; the day of the week is not looked at. At any level. [wdm: RtlTimeFieldsToTime]
extern "win64" fn rtl_time_fields_to_time(fields: *const c_void, time: *mut LARGE_INTEGER) -> u8 {
    const NAME: &str = "RtlTimeFieldsToTime";
    let [year, month, day, hour, minute, second, millisecond, _] = get::<[i16; 8]>(NAME, fields.cast()).map(i64::from);
    if !(FIRST_YEAR..=LAST_YEAR).contains(&year) || !(1..=12).contains(&month) {
        return 0;
    }
    let months = days_of(year);
    let (before, this) = months.split_at(month as usize - 1);
    let in_day = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second);
    if !this.first().is_some_and(|length| (1..=*length).contains(&day)) || !in_day || !(0..1000).contains(&millisecond)
    {
        return 0;
    }
    let days = days_before(year) + before.iter().sum::<i64>() + day - 1;
    let milliseconds = days * DAY + ((hour * 60 + minute) * 60 + second) * 1000 + millisecond;
    let Some(units) = milliseconds.checked_mul(MILLISECOND) else { return 0 };
    put(NAME, time, LARGE_INTEGER { QuadPart: units });
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields_of(units: i64) -> [i16; 8] {
        let (time, mut fields) = (LARGE_INTEGER { QuadPart: units }, [0_i16; 8]);
        rtl_time_to_time_fields(&raw const time, fields.as_mut_ptr().cast());
        fields
    }

    fn time_of(fields: [i16; 8]) -> Option<i64> {
        let mut time = LARGE_INTEGER { QuadPart: -7 };
        let made = rtl_time_fields_to_time(fields.as_ptr().cast(), &raw mut time);
        assert!(made == 1 || time.QuadPart == -7, "no time was written");
        (made == 1).then_some(time.QuadPart)
    }

    #[test]
    fn times_have_their_fields_and_fields_their_times() {
        let known = [
            (0, [1601, 1, 1, 0, 0, 0, 0, 1]),
            (9_999, [1601, 1, 1, 0, 0, 0, 0, 1]),
            // The first second of 1970, a Thursday.
            (116_444_736_000_000_000, [1970, 1, 1, 0, 0, 0, 0, 4]),
            // The leap day of 2000, a Tuesday.
            (125_963_423_999_990_000, [2000, 2, 29, 23, 59, 59, 999, 2]),
            (125_963_424_000_000_000, [2000, 3, 1, 0, 0, 0, 0, 3]),
        ];
        for (units, fields) in known {
            assert_eq!(fields_of(units), fields, "{units}");
            assert_eq!(time_of(fields), Some(units - units % MILLISECOND), "{fields:?}");
        }
        for day in (0..ERA).step_by(13) {
            let units = day * DAY * MILLISECOND;
            assert_eq!(time_of(fields_of(units)), Some(units), "day {day}");
        }
        assert_eq!(fields_of(i64::MAX)[0], 30_828);
    }

    #[test]
    fn fields_that_are_no_time_are_refused_and_the_day_of_the_week_is_not_looked_at() {
        let good = [2026, 2, 28, 12, 30, 59, 999, 6];
        assert!(time_of(good).is_some());
        assert_eq!(time_of([2026, 2, 28, 12, 30, 59, 999, 99]), time_of(good));
        let wrong =
            [(0, 1600), (0, 30_828), (1, 0), (1, 13), (2, 0), (2, 29), (3, 24), (4, 60), (5, 60), (6, 1000), (6, -1)];
        for (place, value) in wrong {
            let mut fields = good;
            fields[place] = value;
            assert_eq!(time_of(fields), None, "{fields:?}");
        }
    }
}
