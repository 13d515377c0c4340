//! The Star Schema Benchmark (examples/ssb): what a GPU gives is what the CPU does.

use lanepack::{Engine, Options};

use super::{compressed, engines, generator, without_compiler};
use queries::QUERIES;

#[path = "../../examples/ssb/queries.rs"]
mod queries;
#[path = "../../examples/ssb/tables.rs"]
mod tables;

#[test]
fn queries_of_a_star_give_what_they_give_on_the_cpu() {
    let star = tables::generate(0.01, None, &Options::default(), None).unwrap();
    let expected: Vec<_> =
        QUERIES.iter().map(|query| query.run(&star, &Engine::cpu()).unwrap()).collect();
    assert!(expected.iter().any(|groups| groups.num_rows() > 50), "groups at this size");
    // Without a compiler there are no aggregates, which flight 1 has, but groups.
    let without_compiler = without_compiler().map(|engine| (engine, "Q1"));
    for (engine, but) in
        engines().into_iter().map(|engine| (engine, "none")).chain(without_compiler)
    {
        let mut star = tables::generate(0.01, None, &Options::default(), None).unwrap();
        star.upload(&engine).unwrap();
        let queries = QUERIES.iter().zip(&expected);
        for (query, expected) in queries.filter(|(query, _)| !query.name.starts_with(but)) {
            assert_eq!(query.run(&star, &engine).unwrap(), *expected, "{}", query.name);
        }
    }
}
