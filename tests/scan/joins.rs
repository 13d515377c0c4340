//! Joins with lookups and groups, compared with a loop over rows.

use std::collections::{BTreeMap, HashMap};

use arrow_array::builder::{
    Date32Builder, Float64Builder, Int32Builder, Int64Builder, StringBuilder,
};
use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Float64Type, Int32Type, Int64Type};
use arrow_array::{Array, RecordBatch, record_batch};
use lanepack::scan::{
    Aggregate, Expr, Lookup, Scan, avg, col, count, count_rows, lit, max, min, sum,
};
use lanepack::{Engine, Error, Options, compress};
use proptest::prelude::*;

/// A row of the table that is scanned.
#[derive(Debug, Clone)]
struct Fact {
    near: Option<i32>,
    far: Option<i64>,
    amount: Option<i64>,
    weight: Option<f64>,
    shop: Option<&'static str>,
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

#[derive(Debug, Clone)]
struct Star {
    facts: Vec<Fact>,
    near: BTreeMap<i32, Near>,
    far: BTreeMap<i64, Far>,
}

const SHOPS: [&str; 4] = ["north", "south", "", "west"];
const NAMES: [&str; 5] = ["ASIA", "EUROPE", "AFRICA", "AMERICA", "ASIA MINOR"];

fn far_key(number: i64) -> i64 {
    (number - 20).wrapping_mul(0x0123_4567_89ab_cdef)
}

fn star() -> impl Strategy<Value = Star> {
    let optional = |share: f64, most: i64| prop::option::weighted(share, 0..most);
    let fact = (
        (optional(0.9, 60), optional(0.9, 40)),
        (prop::option::weighted(0.9, -1000..1000_i64), prop::option::weighted(0.8, -80..80_i32)),
        optional(0.9, SHOPS.len() as i64),
    );
    let fact = fact.prop_map(|((near, far), (amount, weight), shop)| Fact {
        near: near.map(|near| near as i32 - 5),
        far: far.map(far_key),
        amount,
        // Sums of quarters are exact.
        weight: weight.map(|weight| f64::from(weight) / 4.0),
        shop: shop.map(|shop| SHOPS[shop as usize]),
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
        for fact in &self.facts {
            near.append_option(fact.near);
            far.append_option(fact.far);
            amount.append_option(fact.amount);
            weight.append_option(fact.weight);
            shop.append_option(fact.shop);
        }
        RecordBatch::try_from_iter_with_nullable([
            ("near", std::sync::Arc::new(near.finish()) as _, true),
            ("far", std::sync::Arc::new(far.finish()) as _, true),
            ("amount", std::sync::Arc::new(amount.finish()) as _, true),
            ("weight", std::sync::Arc::new(weight.finish()) as _, true),
            ("shop", std::sync::Arc::new(shop.finish()) as _, true),
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
}

#[derive(Debug, Clone, Copy)]
enum Kind {
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

/// Keys of groups, which joins they need, and their values.
fn keys() -> Vec<(&'static str, [bool; 2], Value)> {
    fn text<T: ToString>(value: Option<T>) -> Option<String> {
        value.map(|value| value.to_string())
    }
    vec![
        ("name", [true, false], |row| text(row.name())),
        ("rank", [true, false], |row| text(row.rank())),
        ("day", [false, true], |row| text(row.far.and_then(|far| far.day))),
        ("size", [false, true], |row| text(row.size())),
        ("shop", [false, false], |row| text(row.fact.shop)),
        ("near", [false, false], |row| text(row.fact.near)),
        ("weight", [false, false], |row| text(row.fact.weight)),
    ]
}

/// The text of a value in a result.
fn text(array: &dyn Array, row: usize) -> Option<String> {
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
    ];
    if has_rank {
        all.extend([sum(col("amount") * col("rank")), count(col("rank")), max(col("rank"))]);
    }
    all
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
    ];
    if has_rank {
        let products: Vec<i64> =
            rows.iter().filter_map(|row| Some(row.fact.amount? * row.rank()?)).collect();
        let ranks: Vec<i64> = rows.iter().filter_map(Joined::rank).collect();
        all.push(some(!products.is_empty(), products.iter().sum::<i64>().to_string()));
        all.push(Some(ranks.len().to_string()));
        all.push(ranks.iter().max().map(ToString::to_string));
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn joins_and_groups_are_those_of_a_loop_over_rows(
        star in star(),
        kinds in (kind(), kind()),
        chosen in prop::collection::vec(any::<prop::sample::Index>(), 0..3),
        grouped in prop::collection::vec(any::<prop::sample::Index>(), 0..3),
    ) {
        let engine = Engine::cpu();
        let options = Options::default().with_chunk_rows(1024);
        let [facts, near, far] = [star.fact_batch(), star.near_batch(), star.far_batch()]
            .map(|batch| compress(&batch, &options).unwrap());
        let near = Scan::new(&near).lookup("near_key", &["name", "rank"], &engine).unwrap();
        let far = Scan::new(&far).lookup("far_key", &["day", "size"], &engine).unwrap();
        let scan = kinds.0.join(Scan::new(&facts), "near", &near);
        let mut scan = kinds.1.join(scan, "far", &far);
        let has = [kinds.0.has_columns(), kinds.1.has_columns()];
        let may = |needs: [bool; 2]| needs.iter().zip(has).all(|(needs, has)| !needs || has);

        let all = filters();
        let possible: Vec<_> = all.iter().filter(|filter| may(filter.1)).collect();
        let mut tests: Vec<Test> = Vec::new();
        for index in &chosen {
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
        prop_assert_eq!(scan.rows(&engine).unwrap().values().to_vec(), rows);

        // Values of columns of lookups as well.
        let all = keys();
        let possible: Vec<_> = all.iter().filter(|key| may(key.1)).collect();
        let names: Vec<&str> = possible.iter().map(|key| key.0).collect();
        let gathered = scan.gather(&names, &engine).unwrap();
        for (column, (name, _, value)) in possible.iter().enumerate() {
            let found: Vec<_> =
                (0..gathered.num_rows()).map(|row| text(gathered.column(column), row)).collect();
            let expected: Vec<_> = kept.iter().map(|(_, row)| value(row)).collect();
            prop_assert_eq!(found, expected, "{}", name);
        }

        let mut by: Vec<(&'static str, Value)> = Vec::new();
        for index in &grouped {
            let (name, _, value) = index.get(&possible);
            if !by.iter().any(|(known, _)| known == name) {
                by.push((*name, *value));
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
            .group_by(by.iter().map(|(name, _)| col(*name)))
            .aggregate(&aggregates, &engine)
            .unwrap();
        prop_assert_eq!(found.num_rows(), groups.len());
        for row in 0..found.num_rows() {
            let line: Vec<_> = found.columns().iter().map(|array| text(array, row)).collect();
            let (key, values) = line.split_at(by.len());
            let group = groups.get(key);
            prop_assert!(group.is_some(), "{:?}", key);
            prop_assert_eq!(values.to_vec(), expected(group.unwrap(), has[0]), "{:?}", key);
        }
        let sorted: Vec<_> = found.columns()[..by.len()].iter().map(|values| {
            arrow_ord::sort::SortColumn { values: values.clone(), options: None }
        }).collect();
        if !sorted.is_empty() && found.num_rows() > 0 {
            let order = arrow_ord::sort::lexsort_to_indices(&sorted, None).unwrap();
            let ascending: Vec<u32> = (0..found.num_rows() as u32).collect();
            prop_assert_eq!(order.values().to_vec(), ascending);
        }
        // Without groups it is what the scan's own aggregates are.
        let totals = scan.aggregate(&aggregates, &engine).unwrap();
        let all: Vec<Joined<'_>> = kept.iter().map(|(_, row)| row.clone()).collect();
        let line: Vec<_> = totals.columns().iter().map(|array| text(array, 0)).collect();
        prop_assert_eq!(line, expected(&all, has[0]));
    }
}

fn facts() -> RecordBatch {
    let batch = record_batch!(
        ("key", Int64, [Some(1), Some(2), None, Some(9), Some(2)]),
        ("value", Int64, [10, 20, 30, 40, i64::MAX])
    );
    compress(&batch.unwrap(), &Options::default()).unwrap()
}

fn message(result: Result<RecordBatch, Error>) -> String {
    result.expect_err("an error").to_string()
}

#[test]
fn a_key_that_comes_twice_is_an_error_that_names_it() {
    let batch = record_batch!(("id", Int64, [7, 5, 7]), ("name", Utf8, ["a", "b", "c"])).unwrap();
    let error = Lookup::try_new(&batch, "id").unwrap_err();
    assert_eq!(
        error.to_string(),
        "key 7 of column \"id\" comes twice: rows of a lookup need unique keys"
    );
    // A slice has its own rows.
    assert_eq!(Lookup::try_new(&batch.slice(1, 2), "id").unwrap().len(), 2);
    // Nulls are no keys, so there may be several.
    let batch = record_batch!(("id", Int64, [Some(7), None, None])).unwrap();
    assert_eq!(Lookup::try_new(&batch, "id").unwrap().len(), 1);
}

#[test]
fn lookups_that_do_not_fit_are_errors() {
    let engine = Engine::cpu();
    let facts = facts();
    let scan = || Scan::new(&facts);
    let ids = record_batch!(("id", Int64, [1, 2]), ("value", Utf8, ["a", "b"])).unwrap();
    let named_alike = Lookup::try_new(&ids, "id").unwrap();
    let joined = scan().join(col("key"), &named_alike);
    assert!(message(joined.gather(&["key"], &engine)).contains("the name of another column"));
    // Rows alone need no names.
    assert_eq!(scan().semi_join(col("key"), &named_alike).count(&engine).unwrap(), 3);

    let floats = record_batch!(("id", Float64, [1.0, 2.0])).unwrap();
    let error = Lookup::try_new(&floats, "id").unwrap_err().to_string();
    assert!(error.contains("keys of type Float64"), "{error}");
    assert!(Lookup::try_new(&ids, "name").unwrap_err().to_string().contains("no column \"name\""));

    let days = Lookup::try_new(
        &RecordBatch::try_from_iter([(
            "day",
            std::sync::Arc::new(arrow_array::Date32Array::from(vec![1, 2])) as _,
        )])
        .unwrap(),
        "day",
    )
    .unwrap();
    let error = scan().semi_join(col("key"), &days).count(&engine).unwrap_err().to_string();
    assert!(error.contains("Int64") && error.contains("Date32"), "{error}");
    let error = scan().semi_join(col("key") + 1, &days).count(&engine).unwrap_err().to_string();
    assert!(error.contains("only columns are keys of joins"), "{error}");
}

#[test]
fn an_empty_lookup_has_no_keys() {
    let engine = Engine::cpu();
    let facts = facts();
    let empty =
        record_batch!(("id", Int64, [1, 2]), ("name", Utf8, ["a", "b"])).unwrap().slice(0, 0);
    let empty = Lookup::try_new(&empty, "id").unwrap();
    assert!(empty.is_empty());
    let scan = || Scan::new(&facts);
    assert_eq!(scan().join(col("key"), &empty).count(&engine).unwrap(), 0);
    assert_eq!(scan().anti_join(col("key"), &empty).count(&engine).unwrap(), 5);
    let left = scan().left_join(col("key"), &empty);
    assert_eq!(left.gather(&["name"], &engine).unwrap().column(0).null_count(), 5);
    let groups = left.group_by([col("name")]).aggregate(&[count_rows()], &engine).unwrap();
    assert_eq!(groups.num_rows(), 1);
    let none = scan().join(col("key"), &empty).group_by([col("name")]);
    assert_eq!(none.aggregate(&[count_rows()], &engine).unwrap().num_rows(), 0);
}

#[test]
fn unsigned_keys_above_the_range_match_nothing() {
    let engine = Engine::cpu();
    let facts = record_batch!(("key", UInt64, [1, u64::MAX, 3])).unwrap();
    let facts = compress(&facts, &Options::default()).unwrap();
    let positive = record_batch!(("id", Int64, [1, 3])).unwrap();
    let lookup = Lookup::try_new(&positive, "id").unwrap();
    assert_eq!(Scan::new(&facts).semi_join(col("key"), &lookup).count(&engine).unwrap(), 2);
    // -1 has the bits of the greatest unsigned number.
    let negative = Lookup::try_new(&record_batch!(("id", Int64, [-1])).unwrap(), "id").unwrap();
    assert!(Scan::new(&facts).semi_join(col("key"), &negative).count(&engine).is_err());
    let huge = record_batch!(("id", UInt64, [u64::MAX])).unwrap();
    assert!(Lookup::try_new(&huge, "id").is_err());
}

#[test]
fn sums_that_do_not_fit_and_groups_past_the_limit_are_errors() {
    let engine = Engine::cpu();
    let facts = facts();
    let by_key = Scan::new(&facts).group_by([col("key")]);
    let error = message(by_key.aggregate(&[sum(col("value"))], &engine));
    assert!(error.contains("9223372036854775827") && error.contains("Int64"), "{error}");
    let error = message(by_key.clone().with_group_limit(3).aggregate(&[count_rows()], &engine));
    assert!(error.contains("more than 3 groups"), "{error}");
    assert_eq!(
        by_key.with_group_limit(4).aggregate(&[count_rows()], &engine).unwrap().num_rows(),
        4
    );
}

#[test]
fn groups_come_in_the_order_that_was_asked_for() {
    let engine = Engine::cpu();
    let batch = record_batch!(
        ("shop", Utf8, [Some("b"), Some("a"), None, Some("a"), Some("c"), Some("b")]),
        ("price", Int64, [1, 5, 9, 2, 7, 6])
    );
    let packed = compress(&batch.unwrap(), &Options::default()).unwrap();
    let by_shop = || Scan::new(&packed).group_by([col("shop")]);
    let shops = |groups: RecordBatch| -> Vec<Option<String>> {
        (0..groups.num_rows()).map(|row| text(groups.column(0), row)).collect()
    };
    let some = |name: &str| Some(name.to_owned());
    let total = [sum(col("price")).named("total")];
    assert_eq!(
        shops(by_shop().aggregate(&total, &engine).unwrap()),
        [None, some("a"), some("b"), some("c")]
    );
    // Three shops have 7.
    let order = by_shop().order_by([("total", true)]);
    assert_eq!(
        shops(order.aggregate(&total, &engine).unwrap()),
        [None, some("a"), some("b"), some("c")]
    );
    let order = by_shop().order_by([("total", false), ("shop", true)]).limit(2);
    assert_eq!(shops(order.aggregate(&total, &engine).unwrap()), [some("c"), some("b")]);
    assert!(by_shop().limit(0).aggregate(&total, &engine).unwrap().num_rows() == 0);
    let error = message(by_shop().order_by([("sum", true)]).aggregate(&total, &engine));
    assert!(error.contains("no column \"sum\" among \"shop\", \"total\""), "{error}");
}

#[test]
fn groups_of_every_type_of_key_have_its_ends_and_null() {
    use arrow_array::*;
    use std::sync::Arc;
    let engine = Engine::cpu();
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(BooleanArray::from(vec![None, Some(false), Some(true)])),
        Arc::new(Int8Array::from(vec![None, Some(i8::MIN), Some(0), Some(i8::MAX)])),
        Arc::new(UInt16Array::from(vec![None, Some(0), Some(u16::MAX)])),
        Arc::new(Int64Array::from(vec![None, Some(i64::MIN), Some(-1), Some(i64::MAX)])),
        Arc::new(UInt64Array::from(vec![None, Some(0), Some(u64::MAX)])),
        Arc::new(Float64Array::from(vec![
            None,
            Some(f64::NEG_INFINITY),
            Some(-0.0),
            Some(0.0),
            Some(f64::NAN),
        ])),
        Arc::new(Date32Array::from(vec![None, Some(i32::MIN), Some(i32::MAX)])),
        Arc::new(TimestampSecondArray::from(vec![None, Some(i64::MIN), Some(i64::MAX)])),
        Arc::new(Decimal32Array::from(vec![None, Some(-999_999_999), Some(999_999_999)])),
        Arc::new(Decimal64Array::from(vec![None, Some(-5), Some(5)])),
        Arc::new(StringArray::from(vec![None, Some(""), Some("a"), Some("b")])),
        Arc::new(StringViewArray::from(vec![None, Some(""), Some("longer than an inline view")])),
        Arc::new(BinaryArray::from(vec![None, Some(&b""[..]), Some(&b"\xff\xfe"[..])])),
        Arc::new(LargeStringArray::from(vec![None, Some(""), Some("a")])),
        Arc::new(BinaryViewArray::from(vec![None, Some(&b""[..]), Some(&[7; 40][..])])),
        Arc::new(
            FixedSizeBinaryArray::try_from_sparse_iter_with_size(
                [None, Some([0_u8; 3]), Some([255; 3])].into_iter(),
                3,
            )
            .unwrap(),
        ),
    ];
    for array in arrays {
        // Each value in several rows, in another order.
        let rows: Vec<u32> =
            (0..3).flat_map(|_| (0..array.len() as u32).rev()).chain([0]).collect();
        let values = arrow_select::take::take(&array, &UInt32Array::from(rows), None).unwrap();
        let batch = RecordBatch::try_from_iter_with_nullable([("key", values, true)]).unwrap();
        let packed = compress(&batch, &Options::default()).unwrap();
        let groups = Scan::new(&packed).group_by([col("key")]);
        let groups = groups.aggregate(&[count_rows()], &engine).unwrap();
        assert_eq!(groups.column(0), &array, "{}", array.data_type());
        let counts = groups.column(1).as_primitive::<Int64Type>().values().to_vec();
        let expected: Vec<i64> = (0..array.len()).map(|row| 3 + i64::from(row == 0)).collect();
        assert_eq!(counts, expected, "{}", array.data_type());
    }
}

#[test]
fn tests_that_are_true_for_null_keep_rows_without_a_row_of_the_lookup() {
    let engine = Engine::cpu();
    let facts = facts();
    let ranks = record_batch!(("id", Int64, [1, 2]), ("rank", Int64, [Some(5), None])).unwrap();
    let ranks = Lookup::try_new(&ranks, "id").unwrap();
    let count = |filter: Expr| {
        Scan::new(&facts).left_join(col("key"), &ranks).filter(filter).count(&engine).unwrap()
    };
    let nothing = || col("rank").in_list(Vec::<i64>::new());
    assert_eq!(count(nothing()), 0);
    assert_eq!(count(!nothing()), 5);
    assert_eq!(count(nothing().is_null()), 0);
    // One is equal whatever the other is.
    assert_eq!(count(lit(7).in_list([col("rank"), lit(7)])), 5);
    assert_eq!(count(lit(5).in_list([col("rank"), lit(7)])), 1);
    assert_eq!(count(col("rank").is_null()), 4);
    assert_eq!(count(col("rank").not_eq(4)), 1);
}

#[test]
fn numbers_of_lookups_are_bounded_by_their_valid_values() {
    let engine = Engine::cpu();
    let facts = facts();
    let units = record_batch!(("id", Int64, [1, 2]), ("units", Int64, [Some(2), None])).unwrap();
    let units = Lookup::try_new(&units, "id").unwrap();
    let joined = Scan::new(&facts).join(col("key"), &units);
    let total = joined.aggregate(&[sum(col("value") / col("units"))], &engine).unwrap();
    assert_eq!(text(total.column(0), 0).as_deref(), Some("5"));
    let none = Scan::new(&facts).join(col("key"), &units).filter(col("units").is_null());
    let total = none.aggregate(&[sum(col("value") / col("units"))], &engine).unwrap();
    assert_eq!(text(total.column(0), 0), None);
}

#[test]
fn entries_of_64_bits_have_all_columns() {
    let rows = 1 << 16;
    let of = |column: i64| {
        std::sync::Arc::new(arrow_array::Int64Array::from_iter_values(
            (0..rows).map(move |row| row * 7 + column),
        )) as arrow_array::ArrayRef
    };
    let constant = std::sync::Arc::new(arrow_array::Int64Array::from(vec![9; rows as usize]));
    let mut columns: Vec<(String, arrow_array::ArrayRef)> =
        (0..5).map(|column| (format!("c{column}"), of(column))).collect();
    columns.push(("last".to_owned(), constant));
    let batch = RecordBatch::try_from_iter(columns.clone()).unwrap();
    let lookup = Lookup::try_new(&batch, "c0").unwrap();
    let engine = Engine::cpu();
    let facts = record_batch!(("key", Int64, [7 * 65_535, 7, 3])).unwrap();
    let facts = compress(&facts, &Options::default()).unwrap();
    let scan = Scan::new(&facts).join(col("key"), &lookup);
    let found = scan.gather(&["c1", "c2", "c3", "c4", "last"], &engine).unwrap();
    let first: Vec<_> = found.columns().iter().map(|array| text(array, 0).unwrap()).collect();
    assert_eq!(first, ["458746", "458747", "458748", "458749", "9"]);
    columns.push(("c5".to_owned(), of(5)));
    let error = Lookup::try_new(&RecordBatch::try_from_iter(columns).unwrap(), "c0").unwrap_err();
    assert!(error.to_string().contains("more than 64 bits"), "{error}");
}

#[test]
fn gathered_columns_of_lookups_count_for_the_memory_limit() {
    let engine = Engine::cpu().with_memory_limit(1 << 20);
    let long = "x".repeat(1 << 16);
    let texts = record_batch!(("id", Int64, [1, 2]), ("text", Utf8, [long.as_str(), ""])).unwrap();
    let texts = Lookup::try_new(&texts, "id").unwrap();
    let keys = std::sync::Arc::new(arrow_array::Int64Array::from(vec![1; 1000]));
    let facts = RecordBatch::try_from_iter([("key", keys as arrow_array::ArrayRef)]).unwrap();
    let facts = compress(&facts, &Options::default()).unwrap();
    let scan = Scan::new(&facts).join(col("key"), &texts);
    let error = scan.gather(&["text"], &engine).unwrap_err();
    assert!(matches!(error, Error::MemoryLimit { .. }), "{error}");
    assert_eq!(scan.count(&engine).unwrap(), 1000);
}
