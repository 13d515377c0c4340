//! Queries of TPC-H (examples/tpch): what a GPU gives is what the CPU does.

use lanepack::Engine;

use super::{compressed, engines, generator};
use queries::QUERIES;

#[path = "../../examples/tpch/queries.rs"]
mod queries;
#[path = "../../examples/tpch/tables.rs"]
mod tables;
#[path = "../../examples/tpch/text.rs"]
mod text;

#[test]
fn queries_of_orders_give_what_they_give_on_the_cpu() {
    let mut database = tables::generate(0.005, None).unwrap();
    let expected: Vec<_> =
        QUERIES.iter().map(|query| query.run(&database, &Engine::cpu()).unwrap()).collect();
    assert!(expected.iter().all(|result| result.num_rows() > 0), "rows at this size");
    for engine in engines() {
        for (query, expected) in QUERIES.iter().zip(&expected) {
            let found = query.run(&database, &engine).unwrap();
            assert_eq!(found, *expected, "{} of host memory", query.name);
        }
    }
    for engine in engines() {
        database = tables::generate(0.005, None).unwrap();
        database.upload(&engine).unwrap();
        for (query, expected) in QUERIES.iter().zip(&expected) {
            assert_eq!(query.run(&database, &engine).unwrap(), *expected, "{}", query.name);
        }
    }
}
