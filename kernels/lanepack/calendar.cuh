// Years, months and days of dates and timestamps, in the proleptic Gregorian calendar: as
// src/scan/calendar.rs has them.
#pragma once

#include "base.cuh"

namespace lanepack {

// A day of the calendar, in years that begin in March.
struct CalendarDay {
    i64 year;
    // 0 is March.
    u32 month;
    u32 day_of_year;
};

// The quotient rounded down, of a positive divisor.
LANEPACK_DEVICE i64 floor_quotient(i64 x, i64 y) { return x / y - (x % y < 0 ? 1 : 0); }

// The day of `value` units after 1970-01-01, of which a day has `per_day`.
LANEPACK_DEVICE CalendarDay calendar_day(i64 value, i64 per_day) {
    constexpr i64 ERA = 146097;
    const i64 days = floor_quotient(value, per_day) + 719468;
    const i64 era = floor_quotient(days, ERA);
    const u32 of_era = static_cast<u32>(days - era * ERA);
    const u32 year = (of_era - of_era / 1460 + of_era / 36524 - of_era / (static_cast<u32>(ERA) - 1)) / 365;
    const u32 day_of_year = of_era - (365 * year + year / 4 - year / 100);
    return {400 * era + year, (5 * day_of_year + 2) / 153, day_of_year};
}

LANEPACK_DEVICE i64 year_of(i64 value, i64 per_day) {
    const CalendarDay day = calendar_day(value, per_day);
    return day.year + (day.month >= 10 ? 1 : 0);
}

LANEPACK_DEVICE i64 month_of(i64 value, i64 per_day) {
    return (calendar_day(value, per_day).month + 2) % 12 + 1;
}

LANEPACK_DEVICE i64 day_of(i64 value, i64 per_day) {
    const CalendarDay day = calendar_day(value, per_day);
    return day.day_of_year - (153 * day.month + 2) / 5 + 1;
}

}  // namespace lanepack
