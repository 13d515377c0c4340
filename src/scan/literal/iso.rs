//! Dates, timestamps and times of day as ISO 8601 writes them, read by arrow-cast and converted
//! to the unit of the column, exactly.

use arrow_array::timezone::Tz;
use arrow_cast::parse::{string_to_datetime, string_to_time_nanoseconds};
use arrow_schema::{DataType, TimeUnit};

/// Digits behind the point of a second that the parser reads.
const MOST_DIGITS: usize = 9;
/// Characters of a date.
const DATE: usize = 10;
/// Nanoseconds of a second and a day.
const SECOND: i128 = 1_000_000_000;
const DAY: i128 = 86_400 * SECOND;

/// Whether columns of a type are compared with such texts.
pub(super) fn is_for(data_type: &DataType) -> bool {
    use DataType as T;
    matches!(data_type, T::Date32 | T::Date64 | T::Timestamp(..) | T::Time32(_) | T::Time64(_))
}

/// The integer that a column of this type stores for a text, or what is wrong with the text.
pub(super) fn parse(text: &str, data_type: &DataType) -> Result<i128, String> {
    if text.split('.').nth(1).is_some_and(|fraction| digits(fraction) > MOST_DIGITS) {
        return Err(format!("more than {MOST_DIGITS} digits of a second"));
    }
    let (nanoseconds, unit) = match data_type {
        DataType::Time32(unit) | DataType::Time64(unit) => {
            let time = string_to_time_nanoseconds(text)
                .map_err(|_| "a time such as \"10:30:00\" is needed".to_owned())?;
            let time = i128::from(time);
            if time >= DAY {
                return Err("a time before \"24:00:00\" is needed".to_owned());
            }
            (time, nanoseconds_of(*unit))
        }
        DataType::Timestamp(unit, zone) => {
            (timestamp(text, zone.as_deref())?, nanoseconds_of(*unit))
        }
        DataType::Date64 => (timestamp(text, None)?, nanoseconds_of(TimeUnit::Millisecond)),
        _ => (timestamp(text, None)?, DAY),
    };
    if nanoseconds % unit != 0 {
        return Err(match unit {
            DAY => "a date without a time of day is needed".to_owned(),
            _ => format!("a multiple of {unit} ns is needed"),
        });
    }
    Ok(nanoseconds / unit)
}

/// Nanoseconds since 1970 in the zone of a column, or in local time if it has none.
fn timestamp(text: &str, zone: Option<&str>) -> Result<i128, String> {
    let read = |zone: &str| {
        // Names of other zones are known where a program has arrow's feature `chrono-tz`.
        let offset = if ["UTC", "Etc/UTC", "GMT", "Z"].contains(&zone) { "+00:00" } else { zone };
        let zone: Tz =
            offset.parse().map_err(|_| format!("the time zone {zone:?} is not known"))?;
        let time = string_to_datetime(&zone, text).map_err(|_| {
            let example = "\"1995-03-15\" or \"1995-03-15T10:30:00\"";
            format!("a date or timestamp such as {example} is needed")
        })?;
        Ok::<_, String>(
            i128::from(time.timestamp()) * SECOND + i128::from(time.timestamp_subsec_nanos()),
        )
    };
    // A text with an offset is the same point in time in every zone.
    let [utc, other] = [read("+00:00")?, read("+01:00")?];
    match (zone, utc == other) {
        (None, false) | (Some(_), true) => Ok(utc),
        (None, true) => Err("the column has no time zone, the text has an offset".to_owned()),
        (Some(zone), false) => {
            let time = if text.len() == DATE { "T00:00:00" } else { "" };
            read(zone).map_err(|why| format!("{why}; write the offset, as in \"{text}{time}Z\""))
        }
    }
}

/// How many digits a text begins with.
fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

fn nanoseconds_of(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => SECOND,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1000,
        TimeUnit::Nanosecond => 1,
    }
}
