//! Membership filters of files with an index.

use super::*;

/// Membership filters of columns of each kind of bytes that are hashed.
#[test]
fn filters_of_all_kinds_of_values() {
    let rows = || 0..300_i64;
    let scattered = |row: i64| row.wrapping_mul(0x5851_f42d_4c95_7f2d);
    let special = |row: i64| special(row as usize / 3);
    let double = |row: i64| if row % 3 == 0 { special(row) } else { row as f64 / 8.0 };
    let text = |row: i64| format!("{:x}", scattered(row) as u16);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("i8", Arc::new(Int8Array::from_iter_values(rows().map(|row| scattered(row) as i8)))),
        ("u16", Arc::new(UInt16Array::from_iter_values(rows().map(|row| scattered(row) as u16)))),
        (
            "i32",
            Arc::new(Int32Array::from_iter(
                rows().map(|row| (row % 9 > 0).then(|| scattered(row) as i32)),
            )),
        ),
        ("u64", Arc::new(UInt64Array::from_iter_values(rows().map(|row| scattered(row) as u64)))),
        (
            "f16",
            Arc::new(Float16Array::from_iter_values(
                rows().map(|row| half::f16::from_bits(scattered(row) as u16)),
            )),
        ),
        ("f32", Arc::new(Float32Array::from_iter_values(rows().map(|row| double(row) as f32)))),
        ("f64", Arc::new(Float64Array::from_iter_values(rows().map(double)))),
        (
            "date",
            Arc::new(Date32Array::from_iter_values(
                rows().map(|row| 19_000 + (scattered(row) >> 50) as i32),
            )),
        ),
        (
            "at",
            Arc::new(
                TimestampNanosecondArray::from_iter_values(rows().map(scattered))
                    .with_timezone("Asia/Tokyo"),
            ),
        ),
        (
            "decimal",
            Arc::new(Decimal128Array::from_iter_values(
                rows().map(|row| i128::from(scattered(row)) * -3),
            )),
        ),
        (
            "wide",
            Arc::new(Decimal256Array::from_iter_values(
                rows().map(|row| i256::from_i128(i128::from(scattered(row)) << 50)),
            )),
        ),
        ("utf8", Arc::new(StringArray::from_iter_values(rows().map(text)))),
        (
            "view",
            Arc::new(StringViewArray::from_iter(
                rows().map(|row| (row % 5 > 0).then(|| text(row))),
            )),
        ),
        (
            "binary",
            Arc::new(LargeBinaryArray::from_iter_values(
                rows().map(|row| scattered(row).to_be_bytes()),
            )),
        ),
        (
            "fixed",
            Arc::new(
                FixedSizeBinaryArray::try_from_iter(rows().map(|row| scattered(row).to_le_bytes()))
                    .unwrap(),
            ),
        ),
    ];
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let batch = batch(columns.clone());
    let options = Options::default().with_chunk_rows(1024);
    let writer = file::Writer::try_new(Vec::new(), &batch.schema(), options).unwrap();
    let mut writer = writer.with_filters(&names).unwrap();
    writer.write(&batch).unwrap();
    let written = writer.into_inner().unwrap();
    let golden = stored("filters", || written.clone());
    assert!(golden == written, "other bytes of chunks or filters");
    let file = file::File::from_bytes(golden.into()).unwrap();
    assert_eq!(file.verify(&Engine::cpu()).len(), 0);
}
