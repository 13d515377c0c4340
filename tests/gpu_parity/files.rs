//! Real columns.

use lanepack::{Encoding, Options, compress};

use super::common::{read_parquet, shared_files};
use super::{assert_same, engines};

/// Rows of a file that an emulated device decompresses.
const EMULATED_ROWS: usize = 4000;

#[test]
fn all_shared_files() {
    for engine in engines() {
        let emulated = engine.device().is_some_and(|device| device.name.contains("emulation"));
        for path in shared_files() {
            let whole = read_parquet(&path);
            let rows = if emulated { EMULATED_ROWS } else { whole.num_rows() };
            let batch = whole.slice(0, rows.min(whole.num_rows()));
            for encoding in [None, Some(Encoding::Fsst), Some(Encoding::Alp)] {
                let options = match encoding {
                    Some(encoding) => Options::default().with_encodings([encoding]),
                    None => Options::default(),
                };
                let packed = compress(&batch, &options.with_chunk_rows(65_536)).unwrap();
                let back = engine.decompress(&packed).unwrap();
                assert_eq!(back.schema(), batch.schema());
                for (found, expected) in back.columns().iter().zip(batch.columns()) {
                    assert_same(found, expected, || format!("{} {encoding:?}", path.display()));
                }
            }
        }
    }
}
