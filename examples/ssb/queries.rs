//! The queries, flight by flight.

use lanepack::arrow::arrow_array::RecordBatch;
use lanepack::scan::{Expr, Lookup, Scan, col, sum};
use lanepack::{Engine, Result};

use super::Star;

type Query = fn(&Star, &Engine) -> Result<RecordBatch>;

/// All queries by name.
pub const QUERIES: [(&str, Query); 13] = [
    ("Q1.1", |star, engine| {
        let year = col("d_year").eq(1993);
        flight_1(star, engine, year, (1, 3), col("lo_quantity").lt(25))
    }),
    ("Q1.2", |star, engine| {
        let month = col("d_yearmonthnum").eq(199_401);
        flight_1(star, engine, month, (4, 6), col("lo_quantity").between(26, 35))
    }),
    ("Q1.3", |star, engine| {
        let week = col("d_weeknuminyear").eq(6).and(col("d_year").eq(1994));
        flight_1(star, engine, week, (5, 7), col("lo_quantity").between(26, 35))
    }),
    ("Q2.1", |star, engine| flight_2(star, engine, col("p_category").eq("MFGR#12"), "AMERICA")),
    ("Q2.2", |star, engine| {
        let brands = col("p_brand1").between("MFGR#2221", "MFGR#2228");
        flight_2(star, engine, brands, "ASIA")
    }),
    ("Q2.3", |star, engine| flight_2(star, engine, col("p_brand1").eq("MFGR#2239"), "EUROPE")),
    ("Q3.1", |star, engine| {
        let [customers, suppliers] = ["c_region", "s_region"].map(|name| col(name).eq("ASIA"));
        flight_3(star, engine, customers, suppliers, years(1992, 1997), "nation")
    }),
    ("Q3.2", |star, engine| {
        let [customers, suppliers] =
            ["c_nation", "s_nation"].map(|name| col(name).eq("UNITED STATES"));
        flight_3(star, engine, customers, suppliers, years(1992, 1997), "city")
    }),
    ("Q3.3", |star, engine| {
        let [customers, suppliers] = ["c_city", "s_city"].map(two_cities);
        flight_3(star, engine, customers, suppliers, years(1992, 1997), "city")
    }),
    ("Q3.4", |star, engine| {
        let [customers, suppliers] = ["c_city", "s_city"].map(two_cities);
        let month = col("d_yearmonth").eq("Dec1997");
        flight_3(star, engine, customers, suppliers, month, "city")
    }),
    ("Q4.1", |star, engine| {
        let dates = dates(star, engine, None)?;
        let customers = customers(star, engine, col("c_region").eq("AMERICA"), &["c_nation"])?;
        let suppliers = suppliers(star, engine, col("s_region").eq("AMERICA"), &[])?;
        let parts = parts(star, engine, two_makers(), &[])?;
        let by = ["d_year", "c_nation"];
        flight_4(star, engine, [&dates, &customers, &suppliers, &parts], &by)
    }),
    ("Q4.2", |star, engine| {
        let dates = dates(star, engine, Some(years(1997, 1998)))?;
        let customers = customers(star, engine, col("c_region").eq("AMERICA"), &[])?;
        let suppliers = suppliers(star, engine, col("s_region").eq("AMERICA"), &["s_nation"])?;
        let parts = parts(star, engine, two_makers(), &["p_category"])?;
        let by = ["d_year", "s_nation", "p_category"];
        flight_4(star, engine, [&dates, &customers, &suppliers, &parts], &by)
    }),
    ("Q4.3", |star, engine| {
        let dates = dates(star, engine, Some(years(1997, 1998)))?;
        let customers = customers(star, engine, col("c_region").eq("AMERICA"), &[])?;
        let suppliers = suppliers(star, engine, col("s_nation").eq("UNITED STATES"), &["s_city"])?;
        let parts = parts(star, engine, col("p_category").eq("MFGR#14"), &["p_brand1"])?;
        let by = ["d_year", "s_city", "p_brand1"];
        flight_4(star, engine, [&dates, &customers, &suppliers, &parts], &by)
    }),
];

fn years(first: i32, last: i32) -> Expr {
    col("d_year").between(first, last)
}

fn two_cities(name: &str) -> Expr {
    col(name).in_list(["UNITED KI1", "UNITED KI5"])
}

fn two_makers() -> Expr {
    col("p_mfgr").in_list(["MFGR#1", "MFGR#2"])
}

fn dates(star: &Star, engine: &Engine, filter: Option<Expr>) -> Result<Lookup> {
    let scan = Scan::of(&star.date);
    let scan = match filter {
        Some(filter) => scan.filter(filter),
        None => scan,
    };
    scan.lookup("d_datekey", &["d_year"], engine)
}

fn customers(star: &Star, engine: &Engine, filter: Expr, columns: &[&str]) -> Result<Lookup> {
    Scan::of(&star.customer).filter(filter).lookup("c_custkey", columns, engine)
}

fn suppliers(star: &Star, engine: &Engine, filter: Expr, columns: &[&str]) -> Result<Lookup> {
    Scan::of(&star.supplier).filter(filter).lookup("s_suppkey", columns, engine)
}

fn parts(star: &Star, engine: &Engine, filter: Expr, columns: &[&str]) -> Result<Lookup> {
    Scan::of(&star.part).filter(filter).lookup("p_partkey", columns, engine)
}

/// The revenue of discounts.
fn flight_1(
    star: &Star,
    engine: &Engine,
    dates: Expr,
    discounts: (i32, i32),
    quantity: Expr,
) -> Result<RecordBatch> {
    let dates = self::dates(star, engine, Some(dates))?;
    Scan::of(&star.lineorder)
        .semi_join(col("lo_orderdate"), &dates)
        .filter(col("lo_discount").between(discounts.0, discounts.1).and(quantity))
        .aggregate(&[sum(col("lo_extendedprice") * col("lo_discount")).named("revenue")], engine)
}

/// Revenue by year and brand.
fn flight_2(star: &Star, engine: &Engine, parts: Expr, region: &str) -> Result<RecordBatch> {
    let dates = dates(star, engine, None)?;
    let parts = self::parts(star, engine, parts, &["p_brand1"])?;
    let suppliers = suppliers(star, engine, col("s_region").eq(region), &[])?;
    Scan::of(&star.lineorder)
        .join(col("lo_orderdate"), &dates)
        .join(col("lo_partkey"), &parts)
        .semi_join(col("lo_suppkey"), &suppliers)
        .group_by([col("d_year"), col("p_brand1")])
        .aggregate(&[sum(col("lo_revenue")).named("revenue")], engine)
}

/// Revenue between places, by year.
fn flight_3(
    star: &Star,
    engine: &Engine,
    customers: Expr,
    suppliers: Expr,
    dates: Expr,
    place: &str,
) -> Result<RecordBatch> {
    let (of_customer, of_supplier) = (format!("c_{place}"), format!("s_{place}"));
    let dates = self::dates(star, engine, Some(dates))?;
    let customers = self::customers(star, engine, customers, &[&of_customer])?;
    let suppliers = self::suppliers(star, engine, suppliers, &[&of_supplier])?;
    Scan::of(&star.lineorder)
        .join(col("lo_orderdate"), &dates)
        .join(col("lo_custkey"), &customers)
        .join(col("lo_suppkey"), &suppliers)
        .group_by([col(of_customer), col(of_supplier), col("d_year")])
        .order_by([("d_year", false), ("revenue", true)])
        .aggregate(&[sum(col("lo_revenue")).named("revenue")], engine)
}

/// Profit by some columns of lookups of dates, customers, suppliers and parts.
fn flight_4(
    star: &Star,
    engine: &Engine,
    [dates, customers, suppliers, parts]: [&Lookup; 4],
    by: &[&str],
) -> Result<RecordBatch> {
    Scan::of(&star.lineorder)
        .join(col("lo_orderdate"), dates)
        .join(col("lo_custkey"), customers)
        .join(col("lo_suppkey"), suppliers)
        .join(col("lo_partkey"), parts)
        .group_by(by.iter().map(|name| col(*name)))
        .aggregate(&[sum(col("lo_revenue") - col("lo_supplycost")).named("profit")], engine)
}
