//! The queries, with the parameters of their validation (clauses 2.4.1, 2.4.3, 2.4.5, 2.4.6, 2.4.12,
//! 2.4.14 and 2.4.19 of the TPC-H specification). Results have keys of groups first.

use std::sync::Arc;

use lanepack::arrow::arrow_array::cast::AsArray;
use lanepack::arrow::arrow_array::types::Decimal128Type;
use lanepack::arrow::arrow_array::{Array, ArrayRef, Float64Array, RecordBatch};
use lanepack::scan::{Aggregate, Expr, Literal, Lookup, avg, col, count_rows, lit, sum};
use lanepack::{Engine, Result};

use super::compressed::{Database, Query};

/// All queries.
pub const QUERIES: [Query; 7] = [
    Query { name: "Q1", lookups: |_, _| Ok(Vec::new()), facts: pricing_summary },
    Query { name: "Q3", lookups: orders_of_a_segment, facts: shipping_priority },
    Query { name: "Q5", lookups: orders_and_suppliers_of_a_region, facts: local_supplier_volume },
    Query { name: "Q6", lookups: |_, _| Ok(Vec::new()), facts: forecast_of_revenue },
    Query { name: "Q12", lookups: priorities, facts: shipping_modes },
    Query { name: "Q14", lookups: types_of_parts, facts: promotion_effect },
    Query { name: "Q19", lookups: parts_of_three_brands, facts: discounted_revenue },
];

/// Price after discount.
fn discounted() -> Expr {
    col("l_extendedprice") * (lit(1) - col("l_discount"))
}

fn revenue() -> Aggregate {
    sum(discounted()).named("revenue")
}

/// Days from the first to the one before the last.
fn within(date: &str, first: &str, end: &str) -> Expr {
    col(date).gt_eq(first).and(col(date).lt(end))
}

/// Q1.
fn pricing_summary(tables: &Database, engine: &Engine, _: &[Lookup]) -> Result<RecordBatch> {
    let groups = tables
        .scan("lineitem")
        // 90 days before 1998-12-01.
        .filter(col("l_shipdate").lt_eq("1998-09-02"))
        .group_by([col("l_returnflag"), col("l_linestatus")]);
    tables.aggregate_groups(
        &groups,
        &[
            sum(col("l_quantity")).named("sum_qty"),
            sum(col("l_extendedprice")).named("sum_base_price"),
            sum(discounted()).named("sum_disc_price"),
            sum(discounted() * (lit(1) + col("l_tax"))).named("sum_charge"),
            avg(col("l_quantity")).named("avg_qty"),
            avg(col("l_extendedprice")).named("avg_price"),
            avg(col("l_discount")).named("avg_disc"),
            count_rows().named("count_order"),
        ],
        engine,
    )
}

/// Q3: orders of customers in a segment.
fn orders_of_a_segment(tables: &Database, engine: &Engine) -> Result<Vec<Lookup>> {
    let customers = tables.scan("customer").filter(col("c_mktsegment").eq("BUILDING")).lookup(
        "c_custkey",
        &[] as &[&str],
        engine,
    )?;
    let orders = tables
        .scan("orders")
        .semi_join(col("o_custkey"), &customers)
        .filter(col("o_orderdate").lt("1995-03-15"))
        .lookup("o_orderkey", &["o_orderdate", "o_shippriority"], engine)?;
    Ok(vec![orders])
}

fn shipping_priority(
    tables: &Database,
    engine: &Engine,
    lookups: &[Lookup],
) -> Result<RecordBatch> {
    let groups = tables
        .scan("lineitem")
        .join(col("l_orderkey"), &lookups[0])
        .filter(col("l_shipdate").gt("1995-03-15"))
        .group_by([col("l_orderkey"), col("o_orderdate"), col("o_shippriority")])
        .order_by([("revenue", true), ("o_orderdate", false)])
        .limit(10);
    tables.aggregate_groups(&groups, &[revenue()], engine)
}

/// Q5: orders with the nations of their customers, suppliers with theirs, of a region.
fn orders_and_suppliers_of_a_region(tables: &Database, engine: &Engine) -> Result<Vec<Lookup>> {
    let regions = tables.scan("region").filter(col("r_name").eq("ASIA")).lookup(
        "r_regionkey",
        &[] as &[&str],
        engine,
    )?;
    let nations = tables.scan("nation").semi_join(col("n_regionkey"), &regions).lookup(
        "n_nationkey",
        &["n_name"],
        engine,
    )?;
    let customers = tables.scan("customer").semi_join(col("c_nationkey"), &nations).lookup(
        "c_custkey",
        &["c_nationkey"],
        engine,
    )?;
    let orders = tables
        .scan("orders")
        .join(col("o_custkey"), &customers)
        .filter(within("o_orderdate", "1994-01-01", "1995-01-01"))
        .lookup("o_orderkey", &["c_nationkey"], engine)?;
    let suppliers = tables.scan("supplier").join(col("s_nationkey"), &nations).lookup(
        "s_suppkey",
        &["s_nationkey", "n_name"],
        engine,
    )?;
    Ok(vec![orders, suppliers])
}

fn local_supplier_volume(
    tables: &Database,
    engine: &Engine,
    lookups: &[Lookup],
) -> Result<RecordBatch> {
    let groups = tables
        .scan("lineitem")
        .join(col("l_orderkey"), &lookups[0])
        .join(col("l_suppkey"), &lookups[1])
        .filter(col("c_nationkey").eq(col("s_nationkey")))
        .group_by([col("n_name")])
        .order_by([("revenue", true)]);
    tables.aggregate_groups(&groups, &[revenue()], engine)
}

/// Q6.
fn forecast_of_revenue(tables: &Database, engine: &Engine, _: &[Lookup]) -> Result<RecordBatch> {
    let scan = tables
        .scan("lineitem")
        .filter(within("l_shipdate", "1994-01-01", "1995-01-01"))
        .filter(col("l_discount").between(Literal::decimal(5, 2), Literal::decimal(7, 2)))
        .filter(col("l_quantity").lt(24));
    tables.aggregate(
        &scan,
        &[sum(col("l_extendedprice") * col("l_discount")).named("revenue")],
        engine,
    )
}

/// Q12: the priorities of all orders.
fn priorities(tables: &Database, engine: &Engine) -> Result<Vec<Lookup>> {
    Ok(vec![tables.scan("orders").lookup("o_orderkey", &["o_orderpriority"], engine)?])
}

fn shipping_modes(tables: &Database, engine: &Engine, lookups: &[Lookup]) -> Result<RecordBatch> {
    let is_high = col("o_orderpriority").in_list(["1-URGENT", "2-HIGH"]);
    let groups = tables
        .scan("lineitem")
        .join(col("l_orderkey"), &lookups[0])
        .filter(col("l_shipmode").in_list(["MAIL", "SHIP"]))
        .filter(col("l_commitdate").lt(col("l_receiptdate")))
        .filter(col("l_shipdate").lt(col("l_commitdate")))
        .filter(within("l_receiptdate", "1994-01-01", "1995-01-01"))
        .group_by([col("l_shipmode")]);
    tables.aggregate_groups(
        &groups,
        &[
            count_rows().filter(is_high.clone()).named("high_line_count"),
            count_rows().filter(!is_high).named("low_line_count"),
        ],
        engine,
    )
}

/// Q14: the types of all parts.
fn types_of_parts(tables: &Database, engine: &Engine) -> Result<Vec<Lookup>> {
    Ok(vec![tables.scan("part").lookup("p_partkey", &["p_type"], engine)?])
}

fn promotion_effect(tables: &Database, engine: &Engine, lookups: &[Lookup]) -> Result<RecordBatch> {
    let promoted = col("p_type").starts_with("PROMO");
    let scan = tables.scan("lineitem").join(col("l_partkey"), &lookups[0]).filter(within(
        "l_shipdate",
        "1995-09-01",
        "1995-10-01",
    ));
    let sums = tables.aggregate(
        &scan,
        &[revenue().filter(promoted).named("promoted"), revenue()],
        engine,
    )?;
    percentage(&sums)
}

/// What the first sum is of the second, in percent.
fn percentage(sums: &RecordBatch) -> Result<RecordBatch> {
    // Both have the same number of digits behind the point.
    let [part, all] = [0, 1].map(|index| {
        let sum = sums.column(index).as_primitive::<Decimal128Type>();
        sum.is_valid(0).then(|| sum.value(0) as f64)
    });
    // No sum of no rows is 0 in `CASE WHEN ... ELSE 0`.
    let percentage: ArrayRef =
        Arc::new(Float64Array::from(vec![all.map(|all| 100.0 * part.unwrap_or(0.0) / all)]));
    Ok(RecordBatch::try_from_iter([("promo_revenue", percentage)])?)
}

/// Brands, containers and greatest sizes of parts, and least quantities, of Q19.
const CASES: [(&str, [&str; 4], i32, i32); 3] = [
    ("Brand#12", ["SM CASE", "SM BOX", "SM PACK", "SM PKG"], 5, 1),
    ("Brand#23", ["MED BAG", "MED BOX", "MED PKG", "MED PACK"], 10, 10),
    ("Brand#34", ["LG CASE", "LG BOX", "LG PACK", "LG PKG"], 15, 20),
];

fn any(tests: [Expr; 3]) -> Expr {
    let [first, second, third] = tests;
    first.or(second).or(third)
}

/// Q19: the parts of the three cases.
fn parts_of_three_brands(tables: &Database, engine: &Engine) -> Result<Vec<Lookup>> {
    let cases = CASES.map(|(brand, containers, size, _)| {
        let is_container = col("p_container").in_list(containers);
        col("p_brand").eq(brand).and(is_container).and(col("p_size").between(1, size))
    });
    Ok(vec![tables.scan("part").filter(any(cases)).lookup("p_partkey", &["p_brand"], engine)?])
}

fn discounted_revenue(
    tables: &Database,
    engine: &Engine,
    lookups: &[Lookup],
) -> Result<RecordBatch> {
    // Parts of a brand are those of its case: the lookup has no others.
    let cases = CASES.map(|(brand, _, _, quantity)| {
        col("p_brand").eq(brand).and(col("l_quantity").between(quantity, quantity + 10))
    });
    let scan = tables
        .scan("lineitem")
        .join(col("l_partkey"), &lookups[0])
        // The query has AIR REG, which no line has: the list of modes has REG AIR.
        .filter(col("l_shipmode").in_list(["AIR", "AIR REG"]))
        .filter(col("l_shipinstruct").eq("DELIVER IN PERSON"))
        .filter(any(cases));
    tables.aggregate(&scan, &[revenue()], engine)
}
