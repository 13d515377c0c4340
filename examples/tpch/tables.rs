//! The tables: columns of clause 1.4.1, sizes of clause 4.2.5 and distributions of clause 4.2.3 of the
//! TPC-H specification; lists of strings are those of clause 4.2.2.13, dates those of clause 4.2.2.12.
//!
//! Keys are Int64, other integers Int32, amounts of money and quantities decimals, texts Utf8. Comments
//! of suppliers mention neither complaints nor recommendations. There is no partsupp, but suppliers of lines
//! are those that it would have for the part.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use lanepack::Options;
use lanepack::arrow::arrow_array::{
    ArrayRef, Date32Array, Decimal128Array, Int64Array, RecordBatch,
};
use lanepack::arrow::arrow_schema::ArrowError;

use super::compressed::{Database, Failure, Generation};
use super::generator::{
    COLORS, CONTAINERS, MODES, NATIONS, ORDER_DAYS, PRIORITIES, REGIONS, Random, SEGMENTS, TYPES,
    numbers, order_key, retail_price, texts,
};
use super::text::Text;

const INSTRUCTIONS: [&str; 4] = ["DELIVER IN PERSON", "COLLECT COD", "TAKE BACK RETURN", "NONE"];
/// 1992-01-01, in days since 1970.
const START_DATE: i32 = 8035;
/// 1995-06-17.
const CURRENT_DATE: i32 = 9298;

/// Numbers of the tables, from which their random numbers follow.
const REGION: u64 = 1;
const NATION: u64 = 2;
const SUPPLIER: u64 = 3;
const CUSTOMER: u64 = 4;
const PART: u64 = 5;
const ORDERS: u64 = 6;
const LINEITEM: u64 = 7;

/// Generates and compresses the tables; writes them to a folder as Arrow files if one is given.
pub fn generate(scale_factor: f64, folder: Option<&Path>) -> Result<Database, Failure> {
    let rows = |of_one: f64| (of_one * scale_factor).ceil().max(1.0) as usize;
    let tables = Tables {
        suppliers: rows(10_000.0),
        customers: rows(150_000.0),
        parts: rows(200_000.0),
        orders: rows(1_500_000.0),
        clerks: rows(1000.0),
        text: Text::new(),
    };
    let options = Options::default();
    let mut generation = Generation::new(folder)?;
    generation.add("region", REGIONS.len(), &options, |rows| tables.region(rows))?;
    generation.add("nation", NATIONS.len(), &options, |rows| tables.nation(rows))?;
    generation.add("supplier", tables.suppliers, &options, |rows| tables.supplier(rows))?;
    generation.add("customer", tables.customers, &options, |rows| tables.customer(rows))?;
    generation.add("part", tables.parts, &options, |rows| tables.part(rows))?;
    generation.add("orders", tables.orders, &options, |rows| tables.orders(rows))?;
    generation.add("lineitem", tables.orders, &options, |orders| tables.lineitem(orders))?;
    Ok(generation.finish())
}

/// The tables of a scale factor: numbers of rows, and the text that comments are pieces of.
struct Tables {
    suppliers: usize,
    customers: usize,
    parts: usize,
    orders: usize,
    clerks: usize,
    text: Text,
}

/// An order, as far as its lines need it.
struct Order {
    key: i64,
    customer: i64,
    day: i32,
    /// For what follows.
    random: Random,
}

/// A line of an order. Amounts are cents, discount and tax hundredths.
struct Line {
    order: i64,
    number: i32,
    part: i64,
    supplier: i64,
    quantity: i32,
    price: i64,
    discount: i32,
    tax: i32,
    shipped: i32,
    committed: i32,
    received: i32,
    flag: &'static str,
    instruction: &'static str,
    mode: &'static str,
}

impl Line {
    /// Whether it was not shipped yet.
    fn is_open(&self) -> bool {
        self.shipped > CURRENT_DATE
    }
}

fn keys(values: impl Iterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn dates(values: impl Iterator<Item = i32>) -> ArrayRef {
    Arc::new(Date32Array::from_iter_values(values))
}

/// Decimals, given hundredths.
fn decimals(values: impl Iterator<Item = i64>) -> Result<ArrayRef, ArrowError> {
    let values = Decimal128Array::from_iter_values(values.map(i128::from));
    Ok(Arc::new(values.with_precision_and_scale(15, 2)?))
}

impl Tables {
    fn comments(&self, table: u64, rows: Range<usize>, lengths: Range<usize>) -> ArrayRef {
        // Of other numbers than the rest of the row.
        let random = |row| Random::new(0x80 | table, row);
        texts(rows.map(|row| self.text.piece(&mut random(row), lengths.clone())))
    }

    fn region(&self, rows: Range<usize>) -> Result<RecordBatch, ArrowError> {
        RecordBatch::try_from_iter([
            ("r_regionkey", keys(rows.clone().map(|row| row as i64))),
            ("r_name", texts(rows.clone().map(|row| REGIONS[row]))),
            ("r_comment", self.comments(REGION, rows, 31..116)),
        ])
    }

    fn nation(&self, rows: Range<usize>) -> Result<RecordBatch, ArrowError> {
        RecordBatch::try_from_iter([
            ("n_nationkey", keys(rows.clone().map(|row| row as i64))),
            ("n_name", texts(rows.clone().map(|row| NATIONS[row].0))),
            ("n_regionkey", keys(rows.clone().map(|row| NATIONS[row].1 as i64))),
            ("n_comment", self.comments(NATION, rows, 31..115)),
        ])
    }

    fn supplier(&self, rows: Range<usize>) -> Result<RecordBatch, ArrowError> {
        let comments = self.comments(SUPPLIER, rows.clone(), 25..101);
        let mut columns = people(SUPPLIER, rows, "Supplier", "s_supp")?;
        columns.push(("s_comment".to_owned(), comments));
        RecordBatch::try_from_iter(columns)
    }

    fn customer(&self, rows: Range<usize>) -> Result<RecordBatch, ArrowError> {
        let segments = rows.clone().map(|row| Random::new(0x40 | CUSTOMER, row).of(&SEGMENTS));
        let (segments, comments) =
            (texts(segments), self.comments(CUSTOMER, rows.clone(), 29..117));
        let mut columns = people(CUSTOMER, rows, "Customer", "c_cust")?;
        columns.push(("c_mktsegment".to_owned(), segments));
        columns.push(("c_comment".to_owned(), comments));
        RecordBatch::try_from_iter(columns)
    }

    fn part(&self, rows: Range<usize>) -> Result<RecordBatch, ArrowError> {
        let mut columns: [Vec<String>; 5] = Default::default();
        let mut sizes = Vec::with_capacity(rows.len());
        for row in rows.clone() {
            let mut random = Random::new(PART, row);
            let mut words: Vec<&str> = Vec::with_capacity(5);
            while words.len() < 5 {
                let word = random.of(&COLORS);
                if !words.contains(&word) {
                    words.push(word);
                }
            }
            let maker = 1 + random.below(5);
            let brand = format!("Brand#{maker}{}", 1 + random.below(5));
            let maker = format!("Manufacturer#{maker}");
            let kind = random.words(&TYPES);
            sizes.push(random.within(1..51));
            let values = [words.join(" "), maker, brand, kind, random.words(&CONTAINERS)];
            columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
        }
        let [name, maker, brand, kind, container] = columns.map(|column| texts(column.iter()));
        let prices = rows.clone().map(|row| i64::from(retail_price(row + 1)));
        RecordBatch::try_from_iter([
            ("p_partkey", keys(rows.clone().map(|row| row as i64 + 1))),
            ("p_name", name),
            ("p_mfgr", maker),
            ("p_brand", brand),
            ("p_type", kind),
            ("p_size", numbers(sizes.into_iter())),
            ("p_container", container),
            ("p_retailprice", decimals(prices)?),
            ("p_comment", self.comments(PART, rows, 5..23)),
        ])
    }

    fn order(&self, row: usize) -> Order {
        let mut random = Random::new(ORDERS, row);
        // Customers whose key is a multiple of 3 order nothing.
        let customer = random.below(self.customers - self.customers / 3);
        Order {
            key: order_key(row) as i64,
            customer: (customer / 2 * 3 + customer % 2 + 1) as i64,
            day: START_DATE + random.below(ORDER_DAYS) as i32,
            random,
        }
    }

    /// Adds the lines of an order.
    fn lines(&self, row: usize, order: &Order, lines: &mut Vec<Line>) {
        let mut random = Random::new(LINEITEM, row);
        for number in 1..=random.within(1..8) {
            let part = 1 + random.below(self.parts);
            // One of the four suppliers that the part has in partsupp.
            let next = self.suppliers / 4 + (part - 1) / self.suppliers;
            let supplier = (part + random.below(4) * next) % self.suppliers + 1;
            let quantity = random.within(1..51);
            let shipped = order.day + random.within(1..122);
            let received = shipped + random.within(1..31);
            lines.push(Line {
                order: order.key,
                number,
                part: part as i64,
                supplier: supplier as i64,
                quantity,
                price: i64::from(quantity * retail_price(part)),
                discount: random.within(0..11),
                tax: random.within(0..9),
                shipped,
                committed: order.day + random.within(30..91),
                received,
                flag: if received <= CURRENT_DATE { random.of(&["R", "A"]) } else { "N" },
                instruction: random.of(&INSTRUCTIONS),
                mode: random.of(&MODES),
            });
        }
    }

    fn orders(&self, rows: Range<usize>) -> Result<RecordBatch, ArrowError> {
        let mut orders = Vec::with_capacity(rows.len());
        let (mut states, mut totals) = (Vec::new(), Vec::new());
        let (mut priorities, mut clerks) = (Vec::new(), Vec::new());
        let mut lines = Vec::new();
        for row in rows.clone() {
            let mut order = self.order(row);
            lines.clear();
            self.lines(row, &order, &mut lines);
            let open = lines.iter().filter(|line| line.is_open()).count();
            states.push(match open {
                0 => "F",
                _ if open == lines.len() => "O",
                _ => "P",
            });
            let amount = |line: &Line| {
                let discounted = line.price * i64::from(100 - line.discount) / 100;
                discounted * i64::from(100 + line.tax) / 100
            };
            totals.push(lines.iter().map(amount).sum());
            priorities.push(order.random.of(&PRIORITIES));
            clerks.push(format!("Clerk#{:09}", 1 + order.random.below(self.clerks)));
            orders.push(order);
        }
        RecordBatch::try_from_iter([
            ("o_orderkey", keys(orders.iter().map(|order| order.key))),
            ("o_custkey", keys(orders.iter().map(|order| order.customer))),
            ("o_orderstatus", texts(states.iter())),
            ("o_totalprice", decimals(totals.into_iter())?),
            ("o_orderdate", dates(orders.iter().map(|order| order.day))),
            ("o_orderpriority", texts(priorities.iter())),
            ("o_clerk", texts(clerks.iter())),
            ("o_shippriority", numbers(rows.clone().map(|_| 0))),
            ("o_comment", self.comments(ORDERS, rows, 19..79)),
        ])
    }

    /// The lines of some orders.
    fn lineitem(&self, orders: Range<usize>) -> Result<RecordBatch, ArrowError> {
        let mut lines = Vec::with_capacity(orders.len() * 4);
        let first = orders.start * 8;
        for row in orders {
            self.lines(row, &self.order(row), &mut lines);
        }
        let lines = &lines;
        let key = |of: fn(&Line) -> i64| keys(lines.iter().map(of));
        let date = |of: fn(&Line) -> i32| dates(lines.iter().map(of));
        let decimal = |of: fn(&Line) -> i64| decimals(lines.iter().map(of));
        let text = |of: fn(&Line) -> &'static str| texts(lines.iter().map(of));
        RecordBatch::try_from_iter([
            ("l_orderkey", key(|line| line.order)),
            ("l_partkey", key(|line| line.part)),
            ("l_suppkey", key(|line| line.supplier)),
            ("l_linenumber", numbers(lines.iter().map(|line| line.number))),
            ("l_quantity", decimal(|line| i64::from(line.quantity) * 100)?),
            ("l_extendedprice", decimal(|line| line.price)?),
            ("l_discount", decimal(|line| i64::from(line.discount))?),
            ("l_tax", decimal(|line| i64::from(line.tax))?),
            ("l_returnflag", text(|line| line.flag)),
            ("l_linestatus", text(|line| if line.is_open() { "O" } else { "F" })),
            ("l_shipdate", date(|line| line.shipped)),
            ("l_commitdate", date(|line| line.committed)),
            ("l_receiptdate", date(|line| line.received)),
            ("l_shipinstruct", text(|line| line.instruction)),
            ("l_shipmode", text(|line| line.mode)),
            ("l_comment", self.comments(LINEITEM, first..first + lines.len(), 10..44)),
        ])
    }
}

/// Columns that customers and suppliers have.
fn people(
    table: u64,
    rows: Range<usize>,
    title: &str,
    key: &str,
) -> Result<Vec<(String, ArrayRef)>, ArrowError> {
    let (mut addresses, mut nations) = (Vec::new(), Vec::new());
    let (mut phones, mut balances) = (Vec::new(), Vec::new());
    for row in rows.clone() {
        let mut random = Random::new(table, row);
        let nation = random.below(NATIONS.len());
        addresses.push(random.address(10..41));
        nations.push(nation as i64);
        phones.push(random.phone(nation));
        balances.push(i64::from(random.within(-99_999..1_000_000)));
    }
    let prefix = &key[..2];
    let names = rows.clone().map(|row| format!("{title}#{:09}", row + 1));
    Ok(vec![
        (format!("{key}key"), keys(rows.map(|row| row as i64 + 1))),
        (format!("{prefix}name"), texts(names)),
        (format!("{prefix}address"), texts(addresses.iter())),
        (format!("{prefix}nationkey"), keys(nations.into_iter())),
        (format!("{prefix}phone"), texts(phones.iter())),
        (format!("{prefix}acctbal"), decimals(balances.into_iter())?),
    ])
}
