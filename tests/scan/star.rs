//! Star schemas: facts and two dimensions, joins of them, filters and groups, and a loop over rows that
//! says what these come to. Shared by tests of the CPU and of GPUs.

use std::collections::{BTreeMap, HashMap, HashSet};

use arrow_array::builder::{
    Date32Builder, Decimal128Builder, Float64Builder, Int32Builder, Int64Builder, StringBuilder,
};
use arrow_array::cast::AsArray;
use arrow_array::temporal_conversions::date32_to_datetime;
use arrow_array::types::{Date32Type, Decimal128Type, Float64Type, Int32Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use lanepack::scan::{
    Aggregate, Expr, Lookup, Scan, avg, col, count, count_distinct, count_rows, lit, max, min, sum,
};
use lanepack::{CompressedDeviceBatch, Engine, Options, compress};
use proptest::prelude::*;

/// A row of the table that is scanned.
#[derive(Debug, Clone)]
struct Fact {
    near: Option<i32>,
    far: Option<i64>,
    amount: Option<i64>,
    weight: Option<f64>,
    shop: Option<&'static str>,
    /// A date in days, and a decimal of three digits, of which one is behind the point.
    sold: Option<i32>,
    price: Option<i128>,
}

/// Rows of two dimensions: keys that are close together, and others.
#[derive(Debug, Clone)]
struct Near {
    name: Option<&'static str>,
    rank: Option<i32>,
}

#[derive(Debug, Clone)]
struct Far {
    day: Option<i32>,
    size: i64,
}

/// Facts and two dimensions.
#[derive(Debug, Clone)]
pub struct Star {
    facts: Vec<Fact>,
    near: BTreeMap<i32, Near>,
    far: BTreeMap<i64, Far>,
}

const SHOPS: [&str; 4] = ["north", "south", "", "west"];
const NAMES: [&str; 5] = ["ASIA", "EUROPE", "AFRICA", "AMERICA", "ASIA MINOR"];

fn far_key(number: i64) -> i64 {
    (number - 20).wrapping_mul(0x0123_4567_89ab_cdef)
}

/// Any facts with any dimensions.
pub fn star() -> impl Strategy<Value = Star> {
    let optional = |share: f64, most: i64| prop::option::weighted(share, 0..most);
    let fact = (
        (optional(0.9, 60), optional(0.9, 40)),
        (prop::option::weighted(0.9, -1000..1000_i64), prop::option::weighted(0.8, -80..80_i32)),
        optional(0.9, SHOPS.len() as i64),
        (prop::option::weighted(0.9, -900..900_i32), prop::option::weighted(0.9, -40..40_i128)),
    );
    let fact = fact.prop_map(|((near, far), (amount, weight), shop, (sold, price))| Fact {
        near: near.map(|near| near as i32 - 5),
        far: far.map(far_key),
        amount,
        // Sums of quarters are exact.
        weight: weight.map(|weight| f64::from(weight) / 4.0),
        shop: shop.map(|shop| SHOPS[shop as usize]),
        sold,
        price,
    });
    let near = (optional(0.8, NAMES.len() as i64), optional(0.8, 7));
    let near = near.prop_map(|(name, rank)| Near {
        name: name.map(|name| NAMES[name as usize]),
        rank: rank.map(|rank| rank as i32 - 3),
    });
    let far = (optional(0.8, 5), 0..9_i64)
        .prop_map(|(day, size)| Far { day: day.map(|day| day as i32 + 9000), size });
    (
        prop::collection::vec(fact, 0..2500),
        prop::collection::btree_map(-5..55_i32, near, 0..40),
        prop::collection::btree_map((0..40_i64).prop_map(far_key), far, 0..30),
    )
        .prop_map(|(facts, near, far)| Star { facts, near, far })
}

impl Star {
    fn fact_batch(&self) -> RecordBatch {
        let (mut near, mut far) = (Int32Builder::new(), Int64Builder::new());
        let (mut amount, mut weight) = (Int64Builder::new(), Float64Builder::new());
        let mut shop = StringBuilder::new();
        let (mut sold, mut price) = (Date32Builder::new(), Decimal128Builder::new());
        for fact in &self.facts {
            near.append_option(fact.near);
            far.append_option(fact.far);
            amount.append_option(fact.amount);
            weight.append_option(fact.weight);
            shop.append_option(fact.shop);
            sold.append_option(fact.sold);
            price.append_option(fact.price);
        }
        let price = price.finish().with_precision_and_scale(3, 1).unwrap();
        RecordBatch::try_from_iter_with_nullable([
            ("near", std::sync::Arc::new(near.finish()) as _, true),
            ("far", std::sync::Arc::new(far.finish()) as _, true),
            ("amount", std::sync::Arc::new(amount.finish()) as _, true),
            ("weight", std::sync::Arc::new(weight.finish()) as _, true),
            ("shop", std::sync::Arc::new(shop.finish()) as _, true),
            ("sold", std::sync::Arc::new(sold.finish()) as _, true),
            ("price", std::sync::Arc::new(price) as _, true),
        ])
        .unwrap()
    }

    fn near_batch(&self) -> RecordBatch {
        // Of another type of integers than the column that is looked up.
        let (mut key, mut name) = (Int64Builder::new(), StringBuilder::new());
        let mut rank = Int32Builder::new();
        for (near, row) in &self.near {
            key.append_value((*near).into());
            name.append_option(row.name);
            rank.append_option(row.rank);
        }
        // A row without a key is nowhere.
        key.append_null();
        name.append_value("nowhere");
        rank.append_null();
        RecordBatch::try_from_iter_with_nullable([
            ("near_key", std::sync::Arc::new(key.finish()) as _, true),
            ("name", std::sync::Arc::new(name.finish()) as _, true),
            ("rank", std::sync::Arc::new(rank.finish()) as _, true),
        ])
        .unwrap()
    }

    fn far_batch(&self) -> RecordBatch {
        let (mut key, mut day) = (Int64Builder::new(), Date32Builder::new());
        let mut size = Int64Builder::new();
        for (far, row) in &self.far {
            key.append_value(*far);
            day.append_option(row.day);
            size.append_value(row.size);
        }
        RecordBatch::try_from_iter_with_nullable([
            ("far_key", std::sync::Arc::new(key.finish()) as _, true),
            ("day", std::sync::Arc::new(day.finish()) as _, true),
            ("size", std::sync::Arc::new(size.finish()) as _, true),
        ])
        .unwrap()
    }
}

/// A row with what joins have found.
#[derive(Clone)]
struct Joined<'a> {
    fact: &'a Fact,
    near: Option<&'a Near>,
    far: Option<&'a Far>,
}

impl Joined<'_> {
    fn name(&self) -> Option<&'static str> {
        self.near?.name
    }

    fn rank(&self) -> Option<i64> {
        self.near?.rank.map(i64::from)
    }

    fn size(&self) -> Option<i64> {
        self.far.map(|far| far.size)
    }

    fn day(&self) -> Option<i32> {
        self.far?.day
    }
}

/// A part of a date as Arrow writes it, from a character to another.
fn part(day: Option<i32>, part: std::ops::Range<usize>) -> Option<i64> {
    let date = date32_to_datetime(day?)?.date().to_string();
    date[part].parse().ok()
}

/// A join with a dimension.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    None,
    Inner,
    Left,
    Semi,
    Anti,
}

impl Kind {
    fn join<'a>(self, scan: Scan<'a>, key: &str, lookup: &Lookup) -> Scan<'a> {
        match self {
            Self::None => scan,
            Self::Inner => scan.join(col(key), lookup),
            Self::Left => scan.left_join(col(key), lookup),
            Self::Semi => scan.semi_join(col(key), lookup),
            Self::Anti => scan.anti_join(col(key), lookup),
        }
    }

    fn keeps(self, found: bool) -> bool {
        match self {
            Self::None | Self::Left => true,
            Self::Inner | Self::Semi => found,
            Self::Anti => !found,
        }
    }

    fn has_columns(self) -> bool {
        matches!(self, Self::Inner | Self::Left)
    }
}

fn kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(vec![Kind::None, Kind::Inner, Kind::Left, Kind::Semi, Kind::Anti])
}

type Test = fn(&Joined<'_>) -> Option<bool>;

/// Filters, which joins they need, and what they are in SQL's three values.
fn filters() -> Vec<(Expr, [bool; 2], Test)> {
    vec![
        (col("amount").gt(100), [false, false], |row| Some(row.fact.amount? > 100)),
        (col("name").eq("ASIA"), [true, false], |row| Some(row.name()? == "ASIA")),
        (!col("name").starts_with("ASIA"), [true, false], |row| {
            Some(!row.name()?.starts_with("ASIA"))
        }),
        (col("name").is_null(), [true, false], |row| Some(row.name().is_none())),
        (col("rank").between(-1, 2), [true, false], |row| Some((-1..=2).contains(&row.rank()?))),
        (col("rank").in_list([lit(0), lit(3)]), [true, false], |row| {
            Some([0, 3].contains(&row.rank()?))
        }),
        (col("rank").eq(col("size")), [true, true], |row| Some(row.rank()? == row.size()?)),
        (col("size").lt(col("amount")), [false, true], |row| Some(row.size()? < row.fact.amount?)),
        (col("day").eq("1994-08-24").or(col("amount").lt(0)), [false, true], |row| {
            let day = row.far.and_then(|far| far.day).map(|day| day == 9001);
            let amount = row.fact.amount.map(|amount| amount < 0);
            match (day, amount) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            }
        }),
    ]
}

type Value = fn(&Joined<'_>) -> Option<String>;

/// Columns, which joins they need, and their values.
fn columns() -> Vec<(&'static str, [bool; 2], Value)> {
    fn text<T: ToString>(value: Option<T>) -> Option<String> {
        value.map(|value| value.to_string())
    }
    vec![
        ("name", [true, false], |row| text(row.name())),
        ("rank", [true, false], |row| text(row.rank())),
        ("day", [false, true], |row| text(row.day())),
        ("size", [false, true], |row| text(row.size())),
        ("shop", [false, false], |row| text(row.fact.shop)),
        ("near", [false, false], |row| text(row.fact.near)),
        ("weight", [false, false], |row| text(row.fact.weight)),
        ("sold", [false, false], |row| text(row.fact.sold)),
        ("price", [false, false], |row| text(row.fact.price)),
    ]
}

/// Keys of groups, which joins they need, and their values.
fn keys() -> Vec<(Expr, [bool; 2], Value)> {
    let of_columns = columns().into_iter().map(|(name, needs, value)| (col(name), needs, value));
    let mut all: Vec<(Expr, [bool; 2], Value)> = of_columns.collect();
    all.push((col("sold").year(), [false, false], |row| {
        part(row.fact.sold, 0..4).map(|year| year.to_string())
    }));
    all.push((col("day").month(), [false, true], |row| {
        part(row.day(), 5..7).map(|month| month.to_string())
    }));
    all.push((col("amount") % 7 + col("near"), [false, false], |row| {
        Some((row.fact.amount? % 7 + i64::from(row.fact.near?)).to_string())
    }));
    all.push((col("amount") - col("size"), [false, true], |row| {
        Some((row.fact.amount? - row.size()?).to_string())
    }));
    all.push((col("price") * 2, [false, false], |row| {
        row.fact.price.map(|price| (price * 2).to_string())
    }));
    all
}

/// The text of a value in a result.
pub fn text(array: &dyn Array, row: usize) -> Option<String> {
    use arrow_schema::DataType as T;
    if array.is_null(row) {
        return None;
    }
    Some(match array.data_type() {
        T::Int64 => array.as_primitive::<Int64Type>().value(row).to_string(),
        T::Int32 => array.as_primitive::<Int32Type>().value(row).to_string(),
        T::Date32 => array.as_primitive::<Date32Type>().value(row).to_string(),
        T::Float64 => array.as_primitive::<Float64Type>().value(row).to_string(),
        T::Utf8 => array.as_string::<i32>().value(row).to_owned(),
        T::Decimal128(..) => array.as_primitive::<Decimal128Type>().value(row).to_string(),
        other => panic!("{other}"),
    })
}

fn aggregates(has_rank: bool) -> Vec<Aggregate> {
    let mut all = vec![
        count_rows(),
        count(col("amount")),
        sum(col("amount")),
        sum(col("weight")),
        min(col("amount")),
        max(col("weight")),
        avg(col("amount")),
        min(col("shop")),
        count_rows().filter(col("shop").eq("south")),
        sum(col("amount")).filter(col("sold").year().eq(1970).and(col("price").gt(0))),
        max(col("amount")).filter(col("near").is_null().or(col("weight").lt(0.0))),
        count_distinct(col("shop")),
        count_distinct(col("near")).filter(col("amount").gt(0)),
        count_distinct(col("sold").year()),
        sum(col("price")),
    ];
    if has_rank {
        all.extend([
            sum(col("amount") * col("rank")),
            count(col("rank")),
            max(col("rank")),
            avg(col("amount")).filter(col("name").starts_with("ASIA")),
            count_distinct(col("name")),
        ]);
    }
    all
}

/// The number of distinct values.
fn distinct<T: Eq + std::hash::Hash>(values: impl Iterator<Item = Option<T>>) -> Option<String> {
    Some(values.flatten().collect::<HashSet<T>>().len().to_string())
}

/// What aggregates of some rows are.
fn expected(rows: &[Joined<'_>], has_rank: bool) -> Vec<Option<String>> {
    let amounts: Vec<i64> = rows.iter().filter_map(|row| row.fact.amount).collect();
    let weights: Vec<f64> = rows.iter().filter_map(|row| row.fact.weight).collect();
    let some = |is_some: bool, text: String| is_some.then_some(text);
    let has = !amounts.is_empty();
    let total: i64 = amounts.iter().sum();
    let mut all = vec![
        Some(rows.len().to_string()),
        Some(amounts.len().to_string()),
        some(has, total.to_string()),
        some(!weights.is_empty(), weights.iter().sum::<f64>().to_string()),
        amounts.iter().min().map(ToString::to_string),
        weights.iter().copied().reduce(f64::max).map(|weight| weight.to_string()),
        some(has, (total as f64 / amounts.len() as f64).to_string()),
        rows.iter().filter_map(|row| row.fact.shop).min().map(str::to_owned),
        Some(rows.iter().filter(|row| row.fact.shop == Some("south")).count().to_string()),
        rows.iter()
            .filter(|row| part(row.fact.sold, 0..4) == Some(1970) && row.fact.price > Some(0))
            .filter_map(|row| row.fact.amount)
            .reduce(|one, other| one + other)
            .map(|total| total.to_string()),
        rows.iter()
            .filter(|row| {
                row.fact.near.is_none() || row.fact.weight.is_some_and(|weight| weight < 0.0)
            })
            .filter_map(|row| row.fact.amount)
            .max()
            .map(|most| most.to_string()),
        distinct(rows.iter().map(|row| row.fact.shop)),
        distinct(rows.iter().filter(|row| row.fact.amount > Some(0)).map(|row| row.fact.near)),
        distinct(rows.iter().map(|row| part(row.fact.sold, 0..4))),
        rows.iter()
            .filter_map(|row| row.fact.price)
            .reduce(|one, other| one + other)
            .map(|total| total.to_string()),
    ];
    if has_rank {
        let products: Vec<i64> =
            rows.iter().filter_map(|row| Some(row.fact.amount? * row.rank()?)).collect();
        let ranks: Vec<i64> = rows.iter().filter_map(Joined::rank).collect();
        all.push(some(!products.is_empty(), products.iter().sum::<i64>().to_string()));
        all.push(Some(ranks.len().to_string()));
        all.push(ranks.iter().max().map(ToString::to_string));
        let of_asia =
            rows.iter().filter(|row| row.name().is_some_and(|name| name.starts_with("ASIA")));
        let of_asia: Vec<i64> = of_asia.filter_map(|row| row.fact.amount).collect();
        let mean = of_asia.iter().sum::<i64>() as f64 / of_asia.len() as f64;
        all.push(some(!of_asia.is_empty(), mean.to_string()));
        all.push(distinct(rows.iter().map(Joined::name)));
    }
    all
}

/// What is asked of a star: joins, and which filters and keys of groups.
#[derive(Debug, Clone)]
pub struct Asked {
    kinds: (Kind, Kind),
    filters: Vec<prop::sample::Index>,
    keys: Vec<prop::sample::Index>,
}

pub fn asked() -> impl Strategy<Value = Asked> {
    let some = || prop::collection::vec(any::<prop::sample::Index>(), 0..3);
    ((kind(), kind()), some(), some()).prop_map(|(kinds, filters, keys)| Asked {
        kinds,
        filters,
        keys,
    })
}

/// Compares what an engine makes of a star, whose facts may lie in its memory, with a loop over rows.
pub fn check(
    star: &Star,
    asked: &Asked,
    engine: &Engine,
    is_resident: bool,
) -> Result<(), TestCaseError> {
    let kinds = asked.kinds;
    let cpu = Engine::cpu();
    let options = Options::default().with_chunk_rows(1024);
    let [facts, near, far] = [star.fact_batch(), star.near_batch(), star.far_batch()]
        .map(|batch| compress(&batch, &options).unwrap());
    let upload = |batch: &RecordBatch| is_resident.then(|| engine.upload(batch).unwrap());
    let [resident, near_resident, far_resident] = [&facts, &near, &far].map(upload);
    // Of batches in the memory of a GPU it makes lookups as well.
    let lookup =
        |on_host, resident: &Option<CompressedDeviceBatch>, key: &str, columns| match resident {
            Some(batch) => Scan::on_device(batch).lookup(key, columns, engine).unwrap(),
            None => Scan::new(on_host).lookup(key, columns, &cpu).unwrap(),
        };
    let near = lookup(&near, &near_resident, "near_key", &["name", "rank"]);
    let far = lookup(&far, &far_resident, "far_key", &["day", "size"]);
    let scan = resident.as_ref().map_or(Scan::new(&facts), Scan::on_device);
    let scan = kinds.0.join(scan, "near", &near);
    let mut scan = kinds.1.join(scan, "far", &far);
    let has = [kinds.0.has_columns(), kinds.1.has_columns()];
    let may = |needs: [bool; 2]| needs.iter().zip(has).all(|(needs, has)| !needs || has);

    let all = filters();
    let possible: Vec<_> = all.iter().filter(|filter| may(filter.1)).collect();
    let mut tests: Vec<Test> = Vec::new();
    for index in &asked.filters {
        let (expr, _, test) = index.get(&possible);
        scan = scan.filter(expr.clone());
        tests.push(*test);
    }
    let joined = star.facts.iter().enumerate().map(|(row, fact)| {
        let near = fact.near.and_then(|key| star.near.get(&key));
        (row, Joined { fact, near, far: fact.far.and_then(|key| star.far.get(&key)) })
    });
    let kept: Vec<(usize, Joined<'_>)> = joined
        .filter(|(_, row)| kinds.0.keeps(row.near.is_some()) && kinds.1.keeps(row.far.is_some()))
        .filter(|(_, row)| tests.iter().all(|test| test(row) == Some(true)))
        .collect();
    let rows: Vec<u64> = kept.iter().map(|(row, _)| *row as u64).collect();
    prop_assert_eq!(scan.rows(engine).unwrap().values().to_vec(), rows);

    // Values of columns of lookups as well.
    let all = columns();
    let possible: Vec<_> = all.iter().filter(|column| may(column.1)).collect();
    let names: Vec<&str> = possible.iter().map(|key| key.0).collect();
    let values_of = |batch: &RecordBatch, column: usize| -> Vec<_> {
        (0..batch.num_rows()).map(|row| text(batch.column(column), row)).collect()
    };
    let gathered = scan.gather(&names, engine).unwrap();
    for (column, (name, _, value)) in possible.iter().enumerate() {
        let expected: Vec<_> = kept.iter().map(|(_, row)| value(row)).collect();
        prop_assert_eq!(values_of(&gathered, column), expected, "{}", name);
    }

    // The first ones in an order, in which many are equal.
    let order = [("price", true), ("near", false)];
    let mut ordered: Vec<&Joined<'_>> = kept.iter().map(|(_, row)| row).collect();
    ordered.sort_by_key(|row| {
        let price = row.fact.price;
        (price.is_some(), std::cmp::Reverse(price), row.fact.near)
    });
    for limit in [None, Some(0), Some(17), Some(5000)] {
        let all = scan.clone().order_by(order);
        let first = limit.into_iter().fold(all, |all, limit| all.limit(limit));
        let first = first.gather(&names, engine).unwrap();
        let count = limit.unwrap_or(usize::MAX).min(ordered.len());
        for (column, (name, _, value)) in possible.iter().enumerate() {
            let expected: Vec<_> = ordered[..count].iter().map(|row| value(row)).collect();
            prop_assert_eq!(values_of(&first, column), expected, "{}", name);
        }
    }

    let all = keys();
    let possible: Vec<_> = all.iter().filter(|key| may(key.1)).collect();
    let mut by: Vec<(Expr, Value)> = Vec::new();
    for index in &asked.keys {
        let (key, _, value) = index.get(&possible);
        if !by.iter().any(|(known, _)| known == key) {
            by.push((key.clone(), *value));
        }
    }
    let mut groups: HashMap<Vec<Option<String>>, Vec<Joined<'_>>> = HashMap::new();
    if by.is_empty() {
        groups.insert(Vec::new(), Vec::new());
    }
    for (_, row) in &kept {
        let key = by.iter().map(|(_, value)| value(row)).collect();
        groups.entry(key).or_default().push(row.clone());
    }
    let aggregates = aggregates(has[0]);
    let found = scan
        .clone()
        .group_by(by.iter().map(|(key, _)| key.clone()))
        .aggregate(&aggregates, engine)
        .unwrap();
    prop_assert_eq!(found.num_rows(), groups.len());
    for row in 0..found.num_rows() {
        let line: Vec<_> = found.columns().iter().map(|array| text(array, row)).collect();
        let (key, values) = line.split_at(by.len());
        let group = groups.get(key);
        prop_assert!(group.is_some(), "{:?}", key);
        prop_assert_eq!(values.to_vec(), expected(group.unwrap(), has[0]), "{:?}", key);
    }
    let sorted: Vec<_> = found.columns()[..by.len()]
        .iter()
        .map(|values| arrow_ord::sort::SortColumn { values: values.clone(), options: None })
        .collect();
    if !sorted.is_empty() && found.num_rows() > 0 {
        let order = arrow_ord::sort::lexsort_to_indices(&sorted, None).unwrap();
        let ascending: Vec<u32> = (0..found.num_rows() as u32).collect();
        prop_assert_eq!(order.values().to_vec(), ascending);
    }
    // Without groups it is what the scan's own aggregates are.
    let totals = scan.aggregate(&aggregates, engine).unwrap();
    let all: Vec<Joined<'_>> = kept.iter().map(|(_, row)| row.clone()).collect();
    let line: Vec<_> = totals.columns().iter().map(|array| text(array, 0)).collect();
    prop_assert_eq!(line, expected(&all, has[0]));
    Ok(())
}
