//! Tables and queries of two benchmarks whose scans read a few columns of one large table.
//!
//! **TPC-H Q6**: `lineitem` as section 4.2.3 of the specification draws it: orders of one to
//! seven items; quantities from 1 to 50; prices of that many parts, which cost 901.00 to
//! 2,098.99 by a formula of their key; discounts from 0.00 to 0.10; shipped 1 to 121 days after
//! an order of 1992-01-01 to 1998-08-02.
//!
//! **TPC-H Q19**, what it asks of `lineitem`: one of two ways of shipping and an instruction
//! (section 4.2.2.13), for three ranges of quantities; and, as in Q13, comments that have two
//! words, of those shipped in a year. Comments are words of the specification's grammar
//! (4.2.2.14) in a simpler order.
//!
//! **SSB Q1.1 to Q1.3** (O'Neil, O'Neil, Chen: Star Schema Benchmark): `lineorder`, drawn
//! in the same way, with money in cents. Conditions on the date table are ranges of
//! `lo_orderdate`, as queries on GPUs have them (Shanbhag, Madden, Yu: Crystal, SIGMOD 2020).
//!
//! Values are drawn by rows in blocks, so that a seed gives the same table on any number of
//! threads; they follow the published distributions, and are not those of the
//! benchmarks' own programs.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Date32Array, Decimal128Array, Float64Array, RecordBatch, StringArray, UInt32Array,
};
use lanepack::scan::{Expr, Literal, col};
use rayon::prelude::*;

/// Rows that are drawn from one seed.
const BLOCK: usize = 1 << 16;

/// Rows of `lineitem` and `lineorder` at scale factor 1.
const SCALE_ROWS: usize = 6_000_000;

/// Parts at scale factor 1.
const PARTS: usize = 200_000;

/// 1992-01-01, in days since 1970.
const FIRST_DAY: i32 = 8035;

/// Days on which there are orders, from 1992-01-01 to 1998-08-02.
const ORDER_DAYS: u64 = 2406;

/// 1994-01-01 and 1994-12-31.
const YEAR_1994: [i32; 2] = [8766, 9130];

/// The type of money and quantities in `lineitem`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Money {
    /// Decimal(15, 2).
    Decimal,
    /// Float64, hundredths rounded once.
    Float64,
}

/// `sum(...)` of the rows that a filter keeps.
pub struct Query {
    /// The benchmark and the number of the query.
    pub name: &'static str,
    /// Which rows.
    pub filter: Expr,
    /// What is added up.
    pub sum: Expr,
}

/// TPC-H Q6.
pub fn q6(money: Money) -> Query {
    let number = |hundredths: i32| match money {
        Money::Decimal => Literal::decimal(hundredths.into(), 2),
        Money::Float64 => Literal::Float(f64::from(hundredths) / 100.0),
    };
    let [first, last] = YEAR_1994;
    Query {
        name: "TPC-H Q6",
        filter: (col("l_shipdate").between(first, last))
            .and(col("l_discount").between(number(5), number(7)))
            .and(col("l_quantity").lt(number(2400))),
        sum: col("l_extendedprice") * col("l_discount"),
    }
}

/// What TPC-H Q19 asks of `lineitem`, and a filter of comments.
pub fn of_strings() -> [Query; 2] {
    let [first, last] = YEAR_1994;
    let quantities = [1, 10, 20].map(|low| col("l_quantity").between(low, low + 10));
    let any = quantities.into_iter().reduce(Expr::or).expect("three ranges");
    [
        Query {
            name: "TPC-H Q19, lineitem",
            filter: (col("l_shipmode").in_list(["AIR", "REG AIR"]))
                .and(col("l_shipinstruct").eq("DELIVER IN PERSON"))
                .and(any),
            sum: col("l_quantity"),
        },
        Query {
            name: "l_comment LIKE, a year",
            filter: (col("l_shipdate").between(first, last))
                .and(col("l_comment").like("%special%requests%")),
            sum: col("l_quantity"),
        },
    ]
}

/// SSB Q1.1, Q1.2 and Q1.3. Of quantities, which begin at 1, Q1.1 has those below 25.
pub fn q1() -> [Query; 3] {
    let query = |name, (from, to): (i32, i32), discounts: [i32; 2], quantities: [i32; 2]| Query {
        name,
        filter: (col("lo_orderdate").between(from, to))
            .and(col("lo_discount").between(discounts[0], discounts[1]))
            .and(col("lo_quantity").between(quantities[0], quantities[1])),
        sum: col("lo_extendedprice") * col("lo_discount"),
    };
    [
        query("SSB Q1.1", (19930101, 19931231), [1, 3], [1, 24]),
        query("SSB Q1.2", (19940101, 19940131), [4, 6], [26, 35]),
        // The sixth week of 1994.
        query("SSB Q1.3", (19940204, 19940210), [5, 7], [26, 35]),
    ]
}

/// What a table has in a row: quantity, price in cents, discount in hundredths, and the
/// days of order and shipping since 1992-01-01.
struct Item {
    quantity: u32,
    cents: u32,
    discount: u32,
    ordered: u32,
    shipped: u32,
}

/// Numbers from a seed (SplitMix64).
struct Draws(u64);

impl Draws {
    /// A number below `end`.
    fn below(&mut self, end: u64) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        let high = (mixed ^ mixed >> 31) >> 32;
        ((high * end) >> 32) as u32
    }
}

/// Gives the rows of a block to `take`, with their number in it.
fn draw(seed: u64, block: usize, rows: usize, parts: u64, mut take: impl FnMut(usize, Item)) {
    let mut draws = Draws(seed ^ (block as u64 + 1).wrapping_mul(0xd134_2543_de82_ef95));
    let (mut ordered, mut left) = (0, 0);
    for row in 0..rows {
        if left == 0 {
            ordered = draws.below(ORDER_DAYS);
            left = 1 + draws.below(7);
        }
        left -= 1;
        let quantity = 1 + draws.below(50);
        let part = 1 + draws.below(parts);
        let cents = 90_000 + part / 10 % 20_001 + 100 * (part % 1000);
        let (discount, shipped) = (draws.below(11), ordered + 1 + draws.below(121));
        take(row, Item { quantity, cents: quantity * cents, discount, ordered, shipped });
    }
}

/// Columns `l_quantity`, `l_extendedprice`, `l_discount` and `l_shipdate` of so many rows; a
/// scale factor has six million.
pub fn lineitem(rows: usize, seed: u64, money: Money) -> RecordBatch {
    let (values, days): ([ArrayRef; 3], Vec<i32>) = match money {
        Money::Decimal => {
            let (values, days) = lineitem_of(rows, seed, i128::from);
            let array = |values: Vec<i128>| -> ArrayRef {
                let array = Decimal128Array::from(values).with_precision_and_scale(15, 2);
                Arc::new(array.expect("a precision that there is"))
            };
            (values.map(array), days)
        }
        Money::Float64 => {
            let (values, days) =
                lineitem_of(rows, seed, |hundredths| f64::from(hundredths) / 100.0);
            let array = |values| -> ArrayRef { Arc::new(Float64Array::from(values)) };
            (values.map(array), days)
        }
    };
    let [quantity, price, discount] = values;
    batch([
        ("l_quantity", quantity),
        ("l_extendedprice", price),
        ("l_discount", discount),
        ("l_shipdate", Arc::new(Date32Array::from(days))),
    ])
}

/// Columns `l_quantity`, `l_shipdate`, `l_shipmode`, `l_shipinstruct` and `l_comment`.
pub fn lineitem_strings(rows: usize, seed: u64) -> RecordBatch {
    const MODES: [&str; 7] = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"];
    const INSTRUCTIONS: [&str; 4] =
        ["DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"];
    const WORDS: [&str; 40] = [
        "special",
        "requests",
        "packages",
        "deposits",
        "accounts",
        "foxes",
        "ideas",
        "theodolites",
        "instructions",
        "dependencies",
        "excuses",
        "platelets",
        "asymptotes",
        "courts",
        "dolphins",
        "furiously",
        "carefully",
        "quickly",
        "blithely",
        "slyly",
        "pending",
        "final",
        "regular",
        "express",
        "ironic",
        "even",
        "bold",
        "silent",
        "sleep",
        "haggle",
        "nag",
        "wake",
        "cajole",
        "detect",
        "integrate",
        "among",
        "above",
        "the",
        "across",
        "after",
    ];
    let mut quantities = Vec::with_capacity(rows);
    let mut days = Vec::with_capacity(rows);
    for block in 0..rows.div_ceil(BLOCK) {
        draw(seed, block, BLOCK.min(rows - block * BLOCK), PARTS as u64, |_, item| {
            quantities.push(item.quantity);
            days.push(FIRST_DAY + item.shipped as i32);
        });
    }
    let mut draws = Draws(seed ^ 0x5bd1_e995);
    let mut one_of = |values: &[&'static str]| values[draws.below(values.len() as u64) as usize];
    let modes: StringArray = (0..rows).map(|_| Some(one_of(&MODES))).collect();
    let instructions: StringArray = (0..rows).map(|_| Some(one_of(&INSTRUCTIONS))).collect();
    let comments: StringArray = (0..rows)
        .map(|_| Some([one_of(&WORDS), one_of(&WORDS), one_of(&WORDS), one_of(&WORDS)].join(" ")))
        .collect();
    batch([
        ("l_quantity", Arc::new(UInt32Array::from(quantities)) as ArrayRef),
        ("l_shipdate", Arc::new(Date32Array::from(days))),
        ("l_shipmode", Arc::new(modes)),
        ("l_shipinstruct", Arc::new(instructions)),
        ("l_comment", Arc::new(comments)),
    ])
}

/// Quantities, prices and discounts, made of hundredths, and days of shipping.
fn lineitem_of<T: Copy + Default + Send>(
    rows: usize,
    seed: u64,
    value: impl Fn(u32) -> T + Sync,
) -> ([Vec<T>; 3], Vec<i32>) {
    let mut values = [vec![T::default(); rows], vec![T::default(); rows], vec![T::default(); rows]];
    let mut days = vec![0; rows];
    let parts = (rows * PARTS / SCALE_ROWS).max(1) as u64;
    let [quantity, price, discount] = &mut values;
    (quantity.par_chunks_mut(BLOCK))
        .zip(price.par_chunks_mut(BLOCK))
        .zip(discount.par_chunks_mut(BLOCK))
        .zip(days.par_chunks_mut(BLOCK))
        .enumerate()
        .for_each(|(block, (((quantity, price), discount), days))| {
            draw(seed, block, days.len(), parts, |row, item| {
                quantity[row] = value(item.quantity * 100);
                price[row] = value(item.cents);
                discount[row] = value(item.discount);
                days[row] = FIRST_DAY + item.shipped as i32;
            });
        });
    (values, days)
}

/// Columns `lo_orderdate` (as the number yyyymmdd), `lo_quantity`, `lo_discount`,
/// `lo_extendedprice` and `lo_revenue` (in cents) of so many rows, all UInt32; a scale factor
/// has six million.
pub fn lineorder(rows: usize, seed: u64) -> RecordBatch {
    let dates = calendar();
    let scale = rows as f64 / SCALE_ROWS as f64;
    let parts = PARTS as u64 * (1.0 + scale.log2()).max(1.0) as u64;
    let mut columns: [Vec<u32>; 5] = std::array::from_fn(|_| vec![0; rows]);
    let [date, quantity, discount, price, revenue] = &mut columns;
    (date.par_chunks_mut(BLOCK))
        .zip(quantity.par_chunks_mut(BLOCK))
        .zip(discount.par_chunks_mut(BLOCK))
        .zip(price.par_chunks_mut(BLOCK))
        .zip(revenue.par_chunks_mut(BLOCK))
        .enumerate()
        .for_each(|(block, ((((date, quantity), discount), price), revenue))| {
            draw(seed, block, date.len(), parts, |row, item| {
                date[row] = dates[item.ordered as usize];
                quantity[row] = item.quantity;
                discount[row] = item.discount;
                price[row] = item.cents;
                revenue[row] =
                    (u64::from(item.cents) * u64::from(100 - item.discount) / 100) as u32;
            });
        });
    let names = ["lo_orderdate", "lo_quantity", "lo_discount", "lo_extendedprice", "lo_revenue"];
    let arrays = columns.map(|column| -> ArrayRef { Arc::new(UInt32Array::from(column)) });
    batch(names.into_iter().zip(arrays))
}

/// The days from 1992-01-01 on as numbers yyyymmdd.
fn calendar() -> Vec<u32> {
    let mut days = Vec::with_capacity(ORDER_DAYS as usize);
    for year in 1992..1999 {
        let february = if year % 4 == 0 { 29 } else { 28 };
        let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        for (month, length) in (1..).zip(months) {
            days.extend((1..=length).map(|day| year * 10_000 + month * 100 + day));
        }
    }
    days.truncate(ORDER_DAYS as usize);
    days
}

fn batch<'a>(columns: impl IntoIterator<Item = (&'a str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}
