//! The queries, flight by flight.

use lanepack::arrow::arrow_array::RecordBatch;
use lanepack::scan::{Expr, Lookup, col, sum};
use lanepack::{Engine, Result};

use super::compressed::{Database, Query};

/// All queries.
pub const QUERIES: [Query; 13] = [
    Query {
        name: "Q1.1",
        lookups: |star, engine| Ok(vec![dates(star, engine, Some(col("d_year").eq(1993)))?]),
        facts: |star, engine, lookups| {
            flight_1(star, engine, lookups, (1, 3), col("lo_quantity").lt(25))
        },
    },
    Query {
        name: "Q1.2",
        lookups: |star, engine| {
            Ok(vec![dates(star, engine, Some(col("d_yearmonthnum").eq(199_401)))?])
        },
        facts: |star, engine, lookups| {
            flight_1(star, engine, lookups, (4, 6), col("lo_quantity").between(26, 35))
        },
    },
    Query {
        name: "Q1.3",
        lookups: |star, engine| {
            let week = col("d_weeknuminyear").eq(6).and(col("d_year").eq(1994));
            Ok(vec![dates(star, engine, Some(week))?])
        },
        facts: |star, engine, lookups| {
            flight_1(star, engine, lookups, (5, 7), col("lo_quantity").between(26, 35))
        },
    },
    Query {
        name: "Q2.1",
        lookups: |star, engine| lookups_2(star, engine, col("p_category").eq("MFGR#12"), "AMERICA"),
        facts: flight_2,
    },
    Query {
        name: "Q2.2",
        lookups: |star, engine| {
            let brands = col("p_brand1").between("MFGR#2221", "MFGR#2228");
            lookups_2(star, engine, brands, "ASIA")
        },
        facts: flight_2,
    },
    Query {
        name: "Q2.3",
        lookups: |star, engine| lookups_2(star, engine, col("p_brand1").eq("MFGR#2239"), "EUROPE"),
        facts: flight_2,
    },
    Query {
        name: "Q3.1",
        lookups: |star, engine| {
            let places = ["c_region", "s_region"].map(|name| col(name).eq("ASIA"));
            lookups_3(star, engine, places, years(1992, 1997), "nation")
        },
        facts: |star, engine, lookups| flight_3(star, engine, lookups, "nation"),
    },
    Query {
        name: "Q3.2",
        lookups: |star, engine| {
            let places = ["c_nation", "s_nation"].map(|name| col(name).eq("UNITED STATES"));
            lookups_3(star, engine, places, years(1992, 1997), "city")
        },
        facts: |star, engine, lookups| flight_3(star, engine, lookups, "city"),
    },
    Query {
        name: "Q3.3",
        lookups: |star, engine| {
            let places = ["c_city", "s_city"].map(two_cities);
            lookups_3(star, engine, places, years(1992, 1997), "city")
        },
        facts: |star, engine, lookups| flight_3(star, engine, lookups, "city"),
    },
    Query {
        name: "Q3.4",
        lookups: |star, engine| {
            let places = ["c_city", "s_city"].map(two_cities);
            lookups_3(star, engine, places, col("d_yearmonth").eq("Dec1997"), "city")
        },
        facts: |star, engine, lookups| flight_3(star, engine, lookups, "city"),
    },
    Query {
        name: "Q4.1",
        lookups: |star, engine| {
            Ok(vec![
                dates(star, engine, None)?,
                customers(star, engine, col("c_region").eq("AMERICA"), &["c_nation"])?,
                suppliers(star, engine, col("s_region").eq("AMERICA"), &[])?,
                parts(star, engine, two_makers(), &[])?,
            ])
        },
        facts: |star, engine, lookups| flight_4(star, engine, lookups, &["d_year", "c_nation"]),
    },
    Query {
        name: "Q4.2",
        lookups: |star, engine| {
            Ok(vec![
                dates(star, engine, Some(years(1997, 1998)))?,
                customers(star, engine, col("c_region").eq("AMERICA"), &[])?,
                suppliers(star, engine, col("s_region").eq("AMERICA"), &["s_nation"])?,
                parts(star, engine, two_makers(), &["p_category"])?,
            ])
        },
        facts: |star, engine, lookups| {
            flight_4(star, engine, lookups, &["d_year", "s_nation", "p_category"])
        },
    },
    Query {
        name: "Q4.3",
        lookups: |star, engine| {
            Ok(vec![
                dates(star, engine, Some(years(1997, 1998)))?,
                customers(star, engine, col("c_region").eq("AMERICA"), &[])?,
                suppliers(star, engine, col("s_nation").eq("UNITED STATES"), &["s_city"])?,
                parts(star, engine, col("p_category").eq("MFGR#14"), &["p_brand1"])?,
            ])
        },
        facts: |star, engine, lookups| {
            flight_4(star, engine, lookups, &["d_year", "s_city", "p_brand1"])
        },
    },
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

fn dates(star: &Database, engine: &Engine, filter: Option<Expr>) -> Result<Lookup> {
    let scan = star.scan("date");
    let scan = match filter {
        Some(filter) => scan.filter(filter),
        None => scan,
    };
    scan.lookup("d_datekey", &["d_year"], engine)
}

fn customers(star: &Database, engine: &Engine, filter: Expr, columns: &[&str]) -> Result<Lookup> {
    star.scan("customer").filter(filter).lookup("c_custkey", columns, engine)
}

fn suppliers(star: &Database, engine: &Engine, filter: Expr, columns: &[&str]) -> Result<Lookup> {
    star.scan("supplier").filter(filter).lookup("s_suppkey", columns, engine)
}

fn parts(star: &Database, engine: &Engine, filter: Expr, columns: &[&str]) -> Result<Lookup> {
    star.scan("part").filter(filter).lookup("p_partkey", columns, engine)
}

/// The revenue of discounts.
fn flight_1(
    star: &Database,
    engine: &Engine,
    lookups: &[Lookup],
    discounts: (i32, i32),
    quantity: Expr,
) -> Result<RecordBatch> {
    let scan = star
        .scan("lineorder")
        .semi_join(col("lo_orderdate"), &lookups[0])
        .filter(col("lo_discount").between(discounts.0, discounts.1).and(quantity));
    star.aggregate(
        &scan,
        &[sum(col("lo_extendedprice") * col("lo_discount")).named("revenue")],
        engine,
    )
}

fn lookups_2(
    star: &Database,
    engine: &Engine,
    of_parts: Expr,
    region: &str,
) -> Result<Vec<Lookup>> {
    Ok(vec![
        dates(star, engine, None)?,
        parts(star, engine, of_parts, &["p_brand1"])?,
        suppliers(star, engine, col("s_region").eq(region), &[])?,
    ])
}

/// Revenue by year and brand.
fn flight_2(star: &Database, engine: &Engine, lookups: &[Lookup]) -> Result<RecordBatch> {
    let groups = star
        .scan("lineorder")
        .join(col("lo_orderdate"), &lookups[0])
        .join(col("lo_partkey"), &lookups[1])
        .semi_join(col("lo_suppkey"), &lookups[2])
        .group_by([col("d_year"), col("p_brand1")]);
    star.aggregate_groups(&groups, &[sum(col("lo_revenue")).named("revenue")], engine)
}

fn lookups_3(
    star: &Database,
    engine: &Engine,
    [of_customers, of_suppliers]: [Expr; 2],
    of_dates: Expr,
    place: &str,
) -> Result<Vec<Lookup>> {
    Ok(vec![
        dates(star, engine, Some(of_dates))?,
        customers(star, engine, of_customers, &[&format!("c_{place}")])?,
        suppliers(star, engine, of_suppliers, &[&format!("s_{place}")])?,
    ])
}

/// Revenue between places, by year.
fn flight_3(
    star: &Database,
    engine: &Engine,
    lookups: &[Lookup],
    place: &str,
) -> Result<RecordBatch> {
    let groups = star
        .scan("lineorder")
        .join(col("lo_orderdate"), &lookups[0])
        .join(col("lo_custkey"), &lookups[1])
        .join(col("lo_suppkey"), &lookups[2])
        .group_by([col(format!("c_{place}")), col(format!("s_{place}")), col("d_year")])
        .order_by([("d_year", false), ("revenue", true)]);
    star.aggregate_groups(&groups, &[sum(col("lo_revenue")).named("revenue")], engine)
}

/// Profit by some columns of lookups of dates, customers, suppliers and parts.
fn flight_4(
    star: &Database,
    engine: &Engine,
    lookups: &[Lookup],
    by: &[&str],
) -> Result<RecordBatch> {
    let groups = star
        .scan("lineorder")
        .join(col("lo_orderdate"), &lookups[0])
        .join(col("lo_custkey"), &lookups[1])
        .join(col("lo_suppkey"), &lookups[2])
        .join(col("lo_partkey"), &lookups[3])
        .group_by(by.iter().map(|name| col(*name)));
    star.aggregate_groups(
        &groups,
        &[sum(col("lo_revenue") - col("lo_supplycost")).named("profit")],
        engine,
    )
}
