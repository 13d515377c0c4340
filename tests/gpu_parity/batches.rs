//! Batches of random schemas: columns of any type, nested to depth 4 ones among flat ones.

use std::io::Cursor;
use std::sync::Arc;

use arrow_array::*;
use arrow_schema::{Field, Schema};
use lanepack::{Effort, Engine, Options, compress, decompress, ipc};

use super::common::Rng;
use super::{any_type, assert_same, assert_same_bytes, engines, thinned};

fn batch(rng: &mut Rng) -> RecordBatch {
    let len = match rng.below(4) {
        0 => rng.below(3),
        1 => 3 + rng.below(200),
        _ => 1000 + rng.below(2500),
    };
    let columns = (0..1 + rng.below(5)).map(|number| {
        let depth = [0, 4][rng.below(2) as usize];
        let data_type = any_type::data_type(rng, depth);
        let field = Field::new(format!("column {number}"), data_type.clone(), true);
        (field, any_type::array(rng, &data_type, len as usize))
    });
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

#[test]
fn batches_of_any_types_come_back() {
    for engine in engines() {
        for case in (0..600).filter(|case| !thinned(&engine, *case, 3)) {
            let mut rng = Rng(1000 + case as u64);
            let batch = batch(&mut rng);
            let effort = [Effort::Fast, Effort::Balanced, Effort::Small][rng.below(3) as usize];
            let options = Options::default()
                .with_chunk_rows([1024, 2048, 131_072][rng.below(3) as usize])
                .with_effort(effort);
            let what = || format!("case {case}: {effort:?}, {:?}", batch.schema());
            let expected = compress(&batch, &options).unwrap();
            let packed = engine.compress(&batch, &options).unwrap();
            assert_same_bytes(&packed, &expected, what);
            for back in [engine.decompress(&packed).unwrap(), decompress(&packed).unwrap()] {
                assert_eq!(back.schema(), batch.schema(), "{}", what());
                for (found, expected) in back.columns().iter().zip(batch.columns()) {
                    assert_same(found, expected, what);
                }
            }
        }
    }
}

/// Files that engines write are the CPU's, and give them the same batches.
#[test]
fn files_are_those_of_the_cpu() {
    let rows = 5000;
    let text = |row: usize| (row % 7 != 3).then(|| format!("line {} of many", row * 7919 % 97));
    let columns: [(&str, ArrayRef, bool); 2] = [
        ("n", Arc::new(Int64Array::from_iter_values((0..rows as i64).map(|row| row * 9))), false),
        ("text", Arc::new(StringArray::from_iter((0..rows).map(text))), true),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let write = |engine: &Engine| {
        let options = Options::default().with_chunk_rows(1024);
        let mut writer = ipc::Writer::file(Vec::new(), &batch.schema(), options).unwrap();
        writer = writer.with_engine(engine);
        writer.write(&batch).unwrap();
        writer.into_inner().unwrap()
    };
    let file = write(&Engine::cpu());
    for engine in engines() {
        assert!(write(&engine) == file, "another file");
        let reader = ipc::Reader::file(Cursor::new(&file)).unwrap().with_engine(&engine);
        let read: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
        assert_eq!(read, std::slice::from_ref(&batch));
    }
}
