//! Reading of damaged columns ([`Image`]), with an eye on allocations.

use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::*;
use lanepack::scan::{Literal, Lookup, Scan, col, count_rows, min as min_of, sum};
use lanepack::{CompressedColumn, Engine, Error};

pub use super::common::image::{Image, Node, Tree};
use super::{Counting, LIMIT};

/// Reads share this; what may allocate more than [`LIMIT`] takes it alone.
static ALLOCATIONS: RwLock<()> = RwLock::new(());

/// What a reader does with an image.
pub trait Read {
    /// Does all that readers do. What comes back must be of the declared number
    /// and type, and no allocation may have been too large.
    fn read(&self) -> Result<ArrayRef, Error>;

    /// The message of the error that reading must give.
    #[track_caller]
    fn error(&self) -> String {
        match self.read() {
            Ok(_) => panic!("read without an error"),
            Err(error) => error.to_string(),
        }
    }

    /// Reading must give an error that says `what`.
    #[track_caller]
    fn rejects(&self, what: &str) {
        let error = self.error();
        assert!(error.contains(what), "{what:?} expected, found: {error}");
        assert!(error.starts_with("column \"price\""), "{error}");
    }
}

impl Read for Image {
    fn read(&self) -> Result<ArrayRef, Error> {
        let turn = ALLOCATIONS.read().unwrap_or_else(PoisonError::into_inner);
        let result = self.open().and_then(|column| read(&column));
        let largest = Counting::largest();
        assert!(largest < LIMIT, "an allocation of {largest} bytes");
        drop(turn);
        result
    }
}

/// Decompresses, and reads single values; the first error if there is one.
fn read(column: &CompressedColumn) -> Result<ArrayRef, Error> {
    assert!(column.explain().contains(&column.encoding().to_string()));
    // Damage is found or not; either is fine.
    let _ = column.verify_checksums();
    scan(column);
    let all = column.decompress();
    if let Ok(array) = &all {
        assert_eq!((array.len(), array.data_type()), (column.len(), column.data_type()));
        array.to_data().validate_full().unwrap();
    }
    let len = column.len();
    let mut values = Ok(());
    for row in [0, 1, 7, 63, 64, 1023, 1024, len / 2, len.wrapping_sub(1), len] {
        match column.value(row) {
            Ok(value) => {
                let value = value.into_inner();
                assert_eq!((value.len(), value.data_type()), (1, column.data_type()));
            }
            Err(Error::OutOfRange { .. }) => assert!(row >= len),
            Err(error) => values = values.and(Err(error)),
        }
    }
    let all = all?;
    values.map(|()| all)
}

/// Groups of a column, and a join of it with a lookup. Damage is found, or decides wrongly which
/// groups there are.
fn join_and_group(column: &CompressedColumn) {
    static LOOKUP: LazyLock<Lookup> = LazyLock::new(|| {
        let ids = Int64Array::from_iter_values(0..100);
        let labels = StringArray::from_iter_values((0..100).map(|id| format!("label {}", id % 7)));
        let batch = RecordBatch::try_from_iter([
            ("id", Arc::new(ids) as ArrayRef),
            ("label", Arc::new(labels)),
        ]);
        Lookup::try_new(&batch.unwrap(), "id").unwrap()
    });
    let engine = Engine::cpu();
    let scan = Scan::of(std::slice::from_ref(column));
    let x = || col(column.field().name());
    let groups = scan.clone().group_by([x()]);
    if let Ok(groups) = groups.aggregate(&[count_rows(), min_of(x())], &engine) {
        groups.columns().iter().for_each(|array| array.to_data().validate_full().unwrap());
    }
    let joined = scan.left_join(x(), &LOOKUP).group_by([col("label")]);
    if let Ok(groups) = joined.aggregate(&[count_rows()], &engine) {
        let counts = groups.column(1).as_primitive::<Int64Type>();
        assert_eq!(counts.values().iter().sum::<i64>(), column.len() as i64);
    }
}

/// Scans in all ways. Damage is found, or decides wrongly which rows there are.
fn scan(column: &CompressedColumn) {
    join_and_group(column);
    let columns = std::slice::from_ref(column);
    let engine = Engine::cpu();
    let name = column.field().name();
    let x = || col(name);
    let min = column.chunks().first().map(|chunk| chunk.min().clone());
    let above = min.filter(|min| min.is_valid(0)).map(|min| x().gt(Literal::Arrow(min)));
    let number = (x() * 3).not_eq(x() + 5);
    let text = Literal::from("e");
    let filters = [
        Some(x().is_not_null()),
        Some(!(x().eq(5).or(x().eq(true)))),
        Some(number),
        Some(x().contains(text).or(x().eq("https://example.org/item/7?page=7"))),
        Some(x().contains(b"e".as_slice()).and(x().not_eq(b"abc".as_slice()))),
        above,
    ];
    for filter in filters.into_iter().flatten() {
        let scan = Scan::of(columns).filter(filter);
        if let Ok(mask) = scan.mask(&engine) {
            assert_eq!(mask.len(), column.len());
            assert_eq!(scan.count(&engine).unwrap(), mask.true_count());
            if let Ok(kept) = scan.gather(&[name], &engine) {
                assert_eq!(kept.num_rows(), mask.true_count());
                kept.column(0).to_data().validate_full().unwrap();
            }
        }
        for aggregate in [min_of(x()), sum(x()), sum(x() * x())] {
            let _ = scan.aggregate(&[aggregate], &engine);
        }
    }
}

/// Runs `work` while nothing else is read, and gives its largest allocation.
pub fn largest_allocation<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let _turn = ALLOCATIONS.write().unwrap_or_else(PoisonError::into_inner);
    Counting::reset();
    let result = work();
    let largest = Counting::largest();
    Counting::reset();
    (result, largest)
}
