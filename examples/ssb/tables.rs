//! The tables: columns and distributions of the specification.

use std::ops::Range;
use std::path::Path;

use lanepack::Options;
use lanepack::arrow::arrow_array::{ArrayRef, RecordBatch};
use lanepack::arrow::arrow_schema::ArrowError;

use super::compressed::{Database, Failure, Generation};
use super::generator::{
    COLORS, CONTAINERS, MODES, NATIONS, ORDER_DAYS, PRIORITIES, REGIONS, Random, SEGMENTS, TYPES,
    numbers, order_key, retail_price, texts,
};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Days of the table of dates, from 1992-01-01 on, a Wednesday.
const ALL_DAYS: usize = 2557;

/// A day as year, month and day, both from 1 on, and its number in the year from 1 on.
#[derive(Clone, Copy)]
struct Day {
    year: i32,
    month: usize,
    day: i32,
    in_year: i32,
}

fn days() -> Vec<Day> {
    let mut days = Vec::with_capacity(ALL_DAYS);
    for year in 1992..=1998 {
        let mut in_year = 0;
        for month in 1..=12 {
            let length = match month {
                2 => 28 + i32::from(year % 4 == 0),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            for day in 1..=length {
                in_year += 1;
                days.push(Day { year, month, day, in_year });
            }
        }
    }
    days
}

impl Day {
    fn key(self) -> i32 {
        self.year * 10_000 + self.month as i32 * 100 + self.day
    }
}

fn city(nation: &str, random: &mut Random) -> String {
    format!("{:<9.9}{}", nation, random.below(10))
}

/// Generates and compresses the tables, of lineorder some columns or all, by options; writes them to a
/// folder as Arrow files if one is given.
pub fn generate(
    scale_factor: f64,
    lineorder: Option<&[&str]>,
    options: &Options,
    folder: Option<&Path>,
) -> Result<Database, Failure> {
    let tables = Tables { scale_factor, days: days() };
    let default = Options::default();
    let mut generation = Generation::new(folder)?;
    generation.add("date", 1, &default, |_| tables.date())?;
    generation.add("customer", 1, &default, |_| tables.customer())?;
    generation.add("supplier", 1, &default, |_| tables.supplier())?;
    generation.add("part", 1, &default, |_| tables.part())?;
    generation
        .add("lineorder", tables.orders(), options, |orders| tables.lines(orders, lineorder))?;
    Ok(generation.finish())
}

/// The tables of a scale factor.
struct Tables {
    scale_factor: f64,
    days: Vec<Day>,
}

impl Tables {
    fn rows(&self, of_one: f64) -> usize {
        (of_one * self.scale_factor).ceil().max(1.0) as usize
    }

    /// Orders, of one to seven lines each.
    fn orders(&self) -> usize {
        self.rows(1_500_000.0)
    }

    fn customers(&self) -> usize {
        self.rows(30_000.0)
    }

    fn suppliers(&self) -> usize {
        self.rows(2_000.0)
    }

    fn parts(&self) -> usize {
        match self.scale_factor >= 1.0 {
            true => (200_000.0 * (1.0 + self.scale_factor.log2())) as usize,
            false => self.rows(200_000.0),
        }
    }

    /// The table of dates.
    fn date(&self) -> Result<RecordBatch, ArrowError> {
        let days = &self.days;
        let each = |of: &dyn Fn(usize, Day) -> i32| {
            numbers(days.iter().enumerate().map(|(index, day)| of(index, *day)))
        };
        let text = |of: &dyn Fn(usize, Day) -> String| {
            texts(days.iter().enumerate().map(|(index, day)| of(index, *day)))
        };
        // 1992-01-01 was a Wednesday, number 4 of a week that begins with Sunday.
        let in_week = |index: usize| (index + 3) % 7;
        let month = |day: Day| MONTHS[day.month - 1];
        let is_last = |index: usize| days.get(index + 1).is_none_or(|next| next.day == 1);
        let season = |day: Day| match day.month {
            11 | 12 => "Christmas",
            1..=3 => "Winter",
            4 => "Spring",
            5..=8 => "Summer",
            _ => "Fall",
        };
        RecordBatch::try_from_iter(vec![
            ("d_datekey", each(&|_, day| day.key())),
            ("d_date", text(&|_, day| format!("{} {}, {}", month(day), day.day, day.year))),
            ("d_dayofweek", text(&|index, _| DAYS[in_week(index)].to_owned())),
            ("d_month", text(&|_, day| month(day).to_owned())),
            ("d_year", each(&|_, day| day.year)),
            ("d_yearmonthnum", each(&|_, day| day.year * 100 + day.month as i32)),
            ("d_yearmonth", text(&|_, day| format!("{}{}", &month(day)[..3], day.year))),
            ("d_daynuminweek", each(&|index, _| in_week(index) as i32 + 1)),
            ("d_daynuminmonth", each(&|_, day| day.day)),
            ("d_daynuminyear", each(&|_, day| day.in_year)),
            ("d_monthnuminyear", each(&|_, day| day.month as i32)),
            ("d_weeknuminyear", each(&|_, day| (day.in_year - 1) / 7 + 1)),
            ("d_sellingseason", text(&|_, day| season(day).to_owned())),
            ("d_lastdayinweekfl", each(&|index, _| i32::from(in_week(index) == 6))),
            ("d_lastdayinmonthfl", each(&|index, _| i32::from(is_last(index)))),
            ("d_holidayfl", each(&|_, day| i32::from(day.day == 25 && day.month == 12))),
            ("d_weekdayfl", each(&|index, _| i32::from((1..6).contains(&in_week(index))))),
        ])
    }

    /// The table of customers.
    fn customer(&self) -> Result<RecordBatch, ArrowError> {
        let mut columns = self.people(1, self.customers(), "Customer", "c_");
        let segments = (1..=self.customers()).map(|row| Random::new(2, row).of(&SEGMENTS));
        columns.push(("c_mktsegment".to_owned(), texts(segments)));
        RecordBatch::try_from_iter(columns)
    }

    /// The table of suppliers.
    fn supplier(&self) -> Result<RecordBatch, ArrowError> {
        RecordBatch::try_from_iter(self.people(3, self.suppliers(), "Supplier", "s_"))
    }

    /// Customers or suppliers.
    fn people(
        &self,
        table: u64,
        rows: usize,
        title: &str,
        prefix: &str,
    ) -> Vec<(String, ArrayRef)> {
        let key = if prefix == "c_" { "custkey" } else { "suppkey" };
        let (mut addresses, mut cities) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
        let (mut nations, mut regions) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
        let mut phones = Vec::with_capacity(rows);
        for row in 1..=rows {
            let mut random = Random::new(table, row);
            let nation = random.below(NATIONS.len());
            let (name, region) = NATIONS[nation];
            addresses.push(random.address(10..26));
            cities.push(city(name, &mut random));
            nations.push(name);
            regions.push(REGIONS[region]);
            phones.push(random.phone(nation));
        }
        let name = |row: usize| format!("{title}#{row:09}");
        vec![
            (format!("{prefix}{key}"), numbers((1..=rows).map(|row| row as i32))),
            (format!("{prefix}name"), texts((1..=rows).map(name))),
            (format!("{prefix}address"), texts(addresses.iter())),
            (format!("{prefix}city"), texts(cities.iter())),
            (format!("{prefix}nation"), texts(nations.iter())),
            (format!("{prefix}region"), texts(regions.iter())),
            (format!("{prefix}phone"), texts(phones.iter())),
        ]
    }

    /// The table of parts.
    fn part(&self) -> Result<RecordBatch, ArrowError> {
        let rows = self.parts();
        let mut columns: [Vec<String>; 7] = Default::default();
        let mut sizes = Vec::with_capacity(rows);
        for row in 1..=rows {
            let mut random = Random::new(4, row);
            let maker = format!("MFGR#{}", 1 + random.below(5));
            let category = format!("{maker}{}", 1 + random.below(5));
            let brand = format!("{category}{}", 1 + random.below(40));
            let color = random.of(&COLORS);
            let name = format!("{color} {}", random.of(&COLORS));
            let kind = random.words(&TYPES);
            let container = random.words(&CONTAINERS);
            sizes.push(random.within(1..51));
            let values = [name, maker, category, brand, color.to_owned(), kind, container];
            columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
        }
        let [name, maker, category, brand, color, kind, container] =
            columns.map(|column| texts(column.iter()));
        RecordBatch::try_from_iter(vec![
            ("p_partkey", numbers((1..=rows).map(|row| row as i32))),
            ("p_name", name),
            ("p_mfgr", maker),
            ("p_category", category),
            ("p_brand1", brand),
            ("p_color", color),
            ("p_type", kind),
            ("p_size", numbers(sizes.into_iter())),
            ("p_container", container),
        ])
    }

    /// Lines of some orders, of which some columns are wanted or all.
    fn lines(
        &self,
        orders: Range<usize>,
        wanted: Option<&[&str]>,
    ) -> Result<RecordBatch, ArrowError> {
        let mut columns: [Vec<i32>; 15] = Default::default();
        let (mut priorities, mut modes) = (Vec::new(), Vec::new());
        for order in orders {
            let mut random = Random::new(5, order);
            let key = order_key(order) as i32;
            // A third of all customers orders nothing.
            let customer = 1 + random.below(self.customers());
            let customer = customer - usize::from(customer.is_multiple_of(3));
            let day = random.below(ORDER_DAYS);
            let priority = random.of(&PRIORITIES);
            let first = columns[0].len();
            let mut total = 0_i64;
            for line in 1..=1 + random.below(7) {
                let part = 1 + random.below(self.parts());
                let (quantity, discount) = (random.within(1..51), random.within(0..11));
                let tax = random.within(0..9);
                let extended = quantity * retail_price(part);
                let revenue = (i64::from(extended) * i64::from(100 - discount) / 100) as i32;
                total += i64::from(revenue) * i64::from(100 + tax) / 100;
                let committed = self.days[day + 30 + random.below(61)].key();
                let values = [
                    key,
                    line as i32,
                    customer as i32,
                    part as i32,
                    1 + random.below(self.suppliers()) as i32,
                    self.days[day].key(),
                    0,
                    quantity,
                    extended,
                    0,
                    discount,
                    revenue,
                    retail_price(part) / 10 * 6,
                    tax,
                    committed,
                ];
                columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
                priorities.push(priority);
                modes.push(random.of(&MODES));
            }
            columns[9][first..].fill(total.min(i64::from(i32::MAX)) as i32);
        }
        const NAMES: [&str; 15] = [
            "lo_orderkey",
            "lo_linenumber",
            "lo_custkey",
            "lo_partkey",
            "lo_suppkey",
            "lo_orderdate",
            "lo_shippriority",
            "lo_quantity",
            "lo_extendedprice",
            "lo_ordtotalprice",
            "lo_discount",
            "lo_revenue",
            "lo_supplycost",
            "lo_tax",
            "lo_commitdate",
        ];
        let of_numbers = NAMES.into_iter().zip(columns.map(|column| numbers(column.into_iter())));
        let of_texts =
            [("lo_orderpriority", texts(priorities.iter())), ("lo_shipmode", texts(modes.iter()))];
        let all = of_numbers.chain(of_texts);
        let is_wanted = |name: &str| wanted.is_none_or(|wanted| wanted.contains(&name));
        RecordBatch::try_from_iter(all.filter(|(name, _)| is_wanted(name)))
    }
}
