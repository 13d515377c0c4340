//! Reading of damaged columns ([`Image`]), with an eye on allocations.

use std::sync::{PoisonError, RwLock};

use arrow_array::*;
use lanepack::{CompressedColumn, Error};

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
    assert!(column.explain().contains(&column.encoding()));
    // Damage is found or not; either is fine.
    let _ = column.verify_checksums();
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

/// Runs `work` while nothing else is read, and gives its largest allocation.
pub fn largest_allocation<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let _turn = ALLOCATIONS.write().unwrap_or_else(PoisonError::into_inner);
    Counting::reset();
    let result = work();
    let largest = Counting::largest();
    Counting::reset();
    (result, largest)
}
