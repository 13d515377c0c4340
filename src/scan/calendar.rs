//! Years, months and days of dates and timestamps, in the proleptic Gregorian calendar.
//!
//! `kernels/lanepack/calendar.cuh` computes the same. Both count years from March on, so that a leap day
//! is the last of its year, in eras of 400 years, which all have the same number of days.

use super::expr::DatePart;

/// Days of 400 years.
const ERA: i64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const EPOCH: i64 = 719_468;

/// A part of the date of `value` units after 1970-01-01, of which a day has `per_day`. Values of more than
/// 2^62 days are none that a column can have.
pub(super) fn part_of(part: DatePart, value: i64, per_day: i64) -> i64 {
    let days = value.div_euclid(per_day).wrapping_add(EPOCH);
    let (era, day_of_era) = (days.div_euclid(ERA), days.rem_euclid(ERA));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / (ERA - 1)) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // 0 is March.
    let month = (5 * day_of_year + 2) / 153;
    match part {
        DatePart::Year => 400 * era + year_of_era + i64::from(month >= 10),
        DatePart::Month => (month + 2) % 12 + 1,
        DatePart::Day => day_of_year - (153 * month + 2) / 5 + 1,
    }
}

/// The days from 1970-01-01 to the first day of a year.
pub(super) fn days_to(year: i64) -> i64 {
    // January is in the year that has begun in March before.
    let year = year - 1;
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_era = 365 * year_of_era + year_of_era / 4 - year_of_era / 100 + 306;
    era * ERA + day_of_era - EPOCH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_the_dates_that_arrow_gives_them() {
        use arrow_array::temporal_conversions::date32_to_datetime;

        // Around the first days of years and of March, leap years and centuries among them, and every day
        // of some years.
        let around = (1..4000).flat_map(|year| {
            let first = days_to(year);
            (first - 2..first + 2).chain(first + 57..first + 62)
        });
        for day in around.skip(2).chain(-1000..30_000) {
            let expected = date32_to_datetime(day as i32).expect("a date").date().to_string();
            let [year, month, of_month] = [DatePart::Year, DatePart::Month, DatePart::Day]
                .map(|part| part_of(part, day * 86_400 + day.rem_euclid(86_400), 86_400));
            assert_eq!(format!("{year:04}-{month:02}-{of_month:02}"), expected, "day {day}");
        }
    }

    #[test]
    fn years_far_away_are_computed() {
        for year in [-5_000_000, -401, -400, -1, 0, 1, 9999, 10_000, 5_000_000] {
            let first = days_to(year);
            assert_eq!(part_of(DatePart::Year, first, 1), year);
            assert_eq!(part_of(DatePart::Year, first - 1, 1), year - 1);
        }
        for end in [i64::MIN, i64::MAX] {
            let year = part_of(DatePart::Year, end, 86_400);
            assert!((year as f64 * 365.2425 * 86_400.0 / end as f64 - 1.0).abs() < 1e-6);
        }
    }
}
