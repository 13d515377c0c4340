//! Scans of files: chunks that bounds exclude are not read, windows are scanned one by one, and what a GPU
//! gives is what the CPU gives of the same columns in memory.

use arrow_array::{RecordBatch, RecordBatchReader, record_batch};
use arrow_buffer::Buffer;
use lanepack::file::{File, Writer};
use lanepack::scan::{Expr, Lookup, Scan, col, count_distinct, count_rows, max, min, sum};
use lanepack::{Engine, Options, compress};

use super::engines;

/// 9,000 rows in order of `day`.
fn facts() -> RecordBatch {
    let rows = 0..9000_i64;
    let price = |row: i64| (row % 5 > 0).then_some((row * 37 % 1000) as f64 * 0.1);
    record_batch!(
        ("day", Int32, rows.clone().map(|row| (row / 10) as i32).collect::<Vec<_>>()),
        ("shop", Int64, rows.clone().map(|row| row * 7919 % 23).collect::<Vec<_>>()),
        ("price", Float64, rows.clone().map(price).collect::<Vec<_>>()),
        ("name", Utf8, rows.map(|row| format!("item {}", row * 31 % 97)).collect::<Vec<_>>())
    )
    .unwrap()
}

#[test]
fn files_are_scanned_as_columns_in_memory() {
    let options = Options::default().with_chunk_rows(1024);
    let batch = facts();
    let mut writer = Writer::try_new(Vec::new(), &batch.schema(), options.clone()).unwrap();
    writer.write(&batch).unwrap();
    let file = File::from_bytes(Buffer::from_vec(writer.into_inner().unwrap())).unwrap();
    let packed = compress(&batch, &options).unwrap();
    let shops = record_batch!(
        ("id", Int64, (0..20).collect::<Vec<i64>>()),
        ("town", Utf8, (0..20).map(|id| format!("town {}", id % 4)).collect::<Vec<_>>())
    );
    let shops = Lookup::try_new(&shops.unwrap(), "id").unwrap();
    let filters: [Option<Expr>; 4] = [
        None,
        // Chunks in the middle, two chunks with others between, none.
        Some(col("day").between(200, 450)),
        Some(col("day").lt(60).or(col("day").gt(800)).and(col("name").not_eq("item 31"))),
        Some(col("day").gt(5000)),
    ];
    let aggregates = [count_rows(), sum(col("price")), max(col("price")), min(col("day"))];
    let all = |scan: &Scan<'_>, engine: &Engine| {
        let groups = scan.clone().join(col("shop"), &shops).group_by([col("town"), col("name")]);
        [
            scan.aggregate(&aggregates, engine).unwrap(),
            scan.aggregate(&[count_distinct(col("name"))], engine).unwrap(),
            groups.aggregate(&aggregates, engine).unwrap(),
            scan.gather(&["name", "price", "day"], engine).unwrap(),
            scan.clone().order_by([("price", true)]).limit(9).gather(&["day"], engine).unwrap(),
        ]
    };
    for engine in engines() {
        // All chunks at a time, a few, one.
        for window in [u64::MAX, 20_000, 1] {
            let file = file.clone().with_window_bytes(window);
            for filter in &filters {
                let [expected, found] =
                    [Scan::new(&packed), file.scan()].map(|scan| match filter {
                        None => scan,
                        Some(filter) => scan.filter(filter.clone()),
                    });
                let cpu = Engine::cpu();
                assert_eq!(found.mask(&engine).unwrap(), expected.mask(&cpu).unwrap());
                assert_eq!(found.count(&engine).unwrap(), expected.count(&cpu).unwrap());
                assert_eq!(all(&found, &engine), all(&expected, &cpu), "{window} {filter:?}");
                let batches = found.batches(&["name", "price", "day"], &engine).unwrap();
                let schema = batches.schema();
                let batches: Vec<RecordBatch> = batches.collect::<Result<_, _>>().unwrap();
                let rows = arrow_select::concat::concat_batches(&schema, &batches).unwrap();
                assert_eq!(rows, all(&expected, &cpu)[3]);
            }
        }
    }
}
