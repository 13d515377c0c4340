//! Scans of compressed batches against Arrow's kernels on the values themselves.

#[path = "scan/aggregates.rs"]
mod aggregates;
mod common;
#[path = "scan/errors.rs"]
mod errors;
#[path = "scan/explain.rs"]
mod explain;
#[path = "scan/groups.rs"]
mod groups;
#[path = "scan/joins.rs"]
mod joins;
#[path = "scan/lz.rs"]
mod lz;
#[path = "scan/oracle.rs"]
mod oracle;
#[path = "scan/queries.rs"]
mod queries;
#[path = "scan/random.rs"]
mod random;
#[path = "scan/star.rs"]
mod star;
#[path = "scan/stored.rs"]
mod stored;

use arrow_array::RecordBatch;
use lanepack::scan::{Expr, Scan};
use lanepack::{Engine, Options, columns, compress};

use common::Rng;

/// Compares what a scan keeps with what Arrow's kernels keep.
fn check(batch: &RecordBatch, packed: &RecordBatch, expr: &Expr, engine: &Engine) {
    let expected = oracle::kept(expr, batch);
    let scan = Scan::new(packed).filter(expr.clone());
    let found = match scan.mask(engine) {
        Ok(found) => found,
        // Products of products of 64 bits.
        Err(error) if error.to_string().contains("128 bits") => return,
        Err(error) => panic!("{expr}: {error}"),
    };
    if found != expected {
        let row = (0..batch.num_rows()).find(|row| found.value(*row) != expected.value(*row));
        let row = row.unwrap_or_default();
        let values: Vec<String> = (batch.columns().iter().zip(batch.schema().fields()))
            .filter(|(_, field)| expr.to_string().contains(field.name().as_str()))
            .map(|(column, field)| format!("{} = {:?}", field.name(), column.slice(row, 1)))
            .collect();
        panic!(
            "{expr}\nrow {row} of {}: kept {}, expected {}\n{}",
            batch.num_rows(),
            found.value(row),
            expected.value(row),
            values.join("\n")
        );
    }
}

/// Random expressions over random batches.
fn random_scans(engine: &Engine, seeds: std::ops::Range<u64>, expressions: usize) {
    for seed in seeds {
        let mut rng = Rng(seed * 1_000_003);
        let batch = random::batch(&mut rng);
        let options = random::options(seed);
        let packed = compress(&batch, &options).unwrap();
        for _ in 0..expressions {
            let expr = random::filter(&mut rng, &batch, 3);
            check(&batch, &packed, &expr, engine);
        }
    }
}

#[test]
fn filters_keep_what_arrow_keeps() {
    random_scans(&Engine::cpu(), 0..120, 40);
}

#[test]
fn counts_rows_and_values_are_those_of_the_mask() {
    for seed in 0..30 {
        let mut rng = Rng(seed * 77 + 5);
        let batch = random::batch(&mut rng);
        let packed = compress(&batch, &Options::default().with_chunk_rows(1024)).unwrap();
        let engine = Engine::cpu();
        for _ in 0..5 {
            let expr = random::filter(&mut rng, &batch, 2);
            let packed_columns = columns(&packed).unwrap();
            let scan = Scan::of(&packed_columns).filter(expr.clone());
            let mask = scan.mask(&engine).unwrap();
            assert_eq!(scan.count(&engine).unwrap(), mask.true_count(), "{expr}");
            let rows: Vec<u64> =
                (0..mask.len()).filter(|row| mask.value(*row)).map(|row| row as u64).collect();
            assert_eq!(scan.rows(&engine).unwrap().values(), rows.as_slice(), "{expr}");
            let names: Vec<&str> =
                batch.schema_ref().fields().iter().map(|field| field.name().as_str()).collect();
            let gathered = scan.gather(&names, &engine).unwrap();
            let expected = arrow_select::filter::filter_record_batch(&batch, &mask).unwrap();
            assert_eq!(gathered.columns(), expected.columns(), "{expr}");
        }
    }
}
