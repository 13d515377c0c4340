//! The Star Schema Benchmark (examples/ssb): what a GPU gives is what the CPU does.

use lanepack::{Engine, Options};

use super::engines;
use queries::QUERIES;
use star::Star;

#[path = "../../examples/ssb/queries.rs"]
mod queries;
#[path = "../../examples/ssb/star.rs"]
#[allow(dead_code, reason = "the example uses more of it")]
mod star;
#[path = "../../examples/ssb/tables.rs"]
mod tables;

type Failure = Box<dyn std::error::Error>;

#[test]
fn queries_of_a_star_give_what_they_give_on_the_cpu() {
    let mut star = Star::generate(0.01, None, &Options::default(), None).unwrap();
    let expected: Vec<_> =
        QUERIES.iter().map(|query| query.run(&star, &Engine::cpu()).unwrap()).collect();
    assert!(expected.iter().any(|groups| groups.num_rows() > 50), "groups at this size");
    for engine in engines() {
        star.upload(&engine).unwrap();
        for (query, expected) in QUERIES.iter().zip(&expected) {
            assert_eq!(query.run(&star, &engine).unwrap(), *expected, "{}", query.name);
        }
    }
}
