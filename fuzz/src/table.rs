//! Tables of several columns and chunks, to be damaged and scanned.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt32Type};
use arrow_array::*;
use arrow_ord::cmp;
use arrow_schema::Schema;
use lanepack::scan::{Expr, Literal, Lookup, Scan, col, count, count_rows, max, min, sum};
use lanepack::{Engine, Error, Options, columns, compress, decompress};
use xxhash_rust::xxh3::xxh3_64;

use crate::{array, not_refused_by_arrow, patch};

/// Rows of a chunk: tables have up to four.
const CHUNK_ROWS: usize = 2048;

/// Header and body of a chunk.
struct Chunk {
    header: Vec<u8>,
    body: Vec<u8>,
}

/// What makes the checksums of damaged chunks right.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Seal {
    /// Nothing: they tell.
    Nothing,
    /// Those of headers and bodies; bounds stay what they were, and may be lies.
    Chunks,
    /// All, and there are no bounds: scans have to find what decompression finds.
    WithoutBounds,
}

/// A compressed batch, its chunks as bytes.
pub struct Table {
    packed: RecordBatch,
    /// Of each column.
    chunks: Vec<Vec<Chunk>>,
}

impl Table {
    /// Compresses columns of these kinds.
    pub fn of(kinds: &[u8], shape: u8, rows: u8, options: Options) -> Self {
        let columns = kinds.iter().enumerate().map(|(at, kind)| {
            let shape = shape.rotate_left(3 * at as u32);
            (format!("c{at}"), array(*kind, shape, rows), true)
        });
        let batch = RecordBatch::try_from_iter_with_nullable(columns).expect("equal lengths");
        let options = options.with_chunk_rows(CHUNK_ROWS);
        let packed = compress(&batch, &options).expect("everything can be compressed");
        let chunks = packed.columns().iter().map(|column| {
            let headers = column.as_struct().column(4).as_binary::<i32>().iter();
            let bodies = column.as_struct().column(5).as_binary::<i64>().iter();
            let chunks = headers.flatten().zip(bodies.flatten());
            chunks
                .map(|(header, body)| Chunk { header: header.into(), body: body.into() })
                .collect()
        });
        let chunks = chunks.collect();
        Self { packed, chunks }
    }

    /// Patches headers and bodies: a place is, from its highest bits, body or header (1 bit),
    /// column (2), chunk (2), and byte.
    pub fn patch(&mut self, patches: &[u8]) {
        patch(patches, |place, change| {
            let columns = self.chunks.len();
            let column = &mut self.chunks[usize::from(place >> 13 & 3) % columns];
            let chunks = column.len();
            let chunk = &mut column[usize::from(place >> 11 & 3) % chunks];
            let bytes = if place >> 15 == 1 { &mut chunk.body } else { &mut chunk.header };
            change(bytes, usize::from(place & 0x7ff));
        });
    }

    /// The batch of the chunks as they are.
    fn batch(&mut self, seal: Seal) -> RecordBatch {
        let mut arrays: Vec<ArrayRef> = Vec::new();
        for (column, chunks) in self.packed.columns().iter().zip(&mut self.chunks) {
            let (fields, mut columns, _) = column.as_struct().clone().into_parts();
            if seal == Seal::WithoutBounds {
                let none = new_null_array(columns[2].data_type(), chunks.len());
                (columns[2], columns[3]) = (none.clone(), none);
            }
            let counts = [0, 1].map(|at| columns[at].as_primitive::<UInt32Type>().clone());
            let mut stated = [Vec::new(), Vec::new()];
            for (index, chunk) in chunks.iter_mut().enumerate() {
                let header = &mut chunk.header;
                let sealed = seal != Seal::Nothing && header.len() >= 48;
                if sealed {
                    if seal == Seal::WithoutBounds {
                        header[40..48].copy_from_slice(&xxh3_64(&[0, 0]).to_le_bytes());
                    }
                    header[24..32].copy_from_slice(&xxh3_64(&chunk.body).to_le_bytes());
                    header[32..40].fill(0);
                    let checksum = xxh3_64(header);
                    header[32..40].copy_from_slice(&checksum.to_le_bytes());
                }
                for (which, at) in [4, 8].into_iter().enumerate() {
                    let found = header.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
                    stated[which].push(match found {
                        Some(bytes) if sealed => u32::from_le_bytes(bytes),
                        _ => counts[which].value(index),
                    });
                }
            }
            let [rows, nulls] =
                stated.map(|counts| Arc::new(UInt32Array::from(counts)) as ArrayRef);
            (columns[0], columns[1]) = (rows, nulls);
            let headers = chunks.iter().map(|chunk| &chunk.header);
            columns[4] = Arc::new(BinaryArray::from_iter_values(headers));
            let bodies = chunks.iter().map(|chunk| &chunk.body);
            columns[5] = Arc::new(LargeBinaryArray::from_iter_values(bodies));
            arrays.push(Arc::new(StructArray::new(fields, columns, None)));
        }
        RecordBatch::try_new(self.packed.schema(), arrays).expect("the same types")
    }

    /// Scans with filters that a few bytes choose, on the CPU. Without bounds, answers have to be
    /// those that the decompressed values give.
    ///
    /// # Panics
    /// If they are not, or arrays are not valid.
    pub fn scan(mut self, seal: Seal, choice: [u8; 4]) {
        let packed = self.batch(seal);
        let opened = match columns(&packed) {
            Ok(columns) => columns,
            Err(error) => return not_refused_by_arrow(&error),
        };
        let plain = decompress(&packed);
        if let Err(error) = &plain {
            not_refused_by_arrow(error);
        }
        let engine = Engine::cpu();
        let schema = packed.schema();
        let [first, second] = [choice[0], choice[1]].map(|at| usize::from(at) % opened.len());
        for joined in [false, true] {
            let mut filters = vec![Leaf::new(first, choice[2], choice[3])];
            if joined {
                filters.push(Leaf::new(second, choice[3], choice[2]));
            }
            let Some(expr) = expression(&schema, &filters, plain.as_ref().ok(), choice[0]) else {
                continue;
            };
            let scan = Scan::of(&opened).filter(expr);
            let mask = scan.mask(&engine);
            if let Ok(mask) = &mask {
                assert_eq!(mask.len(), opened[0].len());
                assert_eq!(mask.null_count(), 0);
                if let Ok(count) = scan.count(&engine) {
                    assert_eq!(count, mask.true_count());
                }
            }
            if let (Ok(plain), Seal::WithoutBounds) = (&plain, seal) {
                match &mask {
                    Ok(mask) => {
                        assert_eq!(*mask, expected(plain, &filters, choice[0]), "{filters:?}");
                    }
                    Err(Error::Unsupported { .. } | Error::TooLarge { .. }) => {}
                    Err(error) => panic!("values are read, a scan is not: {error}"),
                }
            }
            let name = schema.field(first).name().as_str();
            if let Ok(kept) = scan.gather(&[name], &engine) {
                kept.column(0).to_data().validate_full().expect("a valid array");
            }
            for aggregate in [count(col(name)), min(col(name)), max(col(name)), sum(col(name))] {
                let _ = scan.aggregate(&[aggregate.clone()], &engine);
                let groups = scan.clone().group_by([col(name)]);
                if let Ok(groups) = groups.aggregate(&[aggregate], &engine) {
                    let arrays = groups.columns().iter();
                    arrays
                        .for_each(|array| array.to_data().validate_full().expect("a valid array"));
                }
            }
            let ids = Int64Array::from_iter_values(0..100);
            let labels = Int64Array::from_iter_values((0..100).map(|id| id % 7));
            let ids = [("id", Arc::new(ids) as ArrayRef), ("label", Arc::new(labels))];
            let ids = RecordBatch::try_from_iter(ids).expect("equal lengths");
            let lookup = Lookup::try_new(&ids, "id").expect("unique keys");
            let joined = scan.left_join(col(name), &lookup).group_by([col("label")]);
            if let (Ok(mask), Ok(groups)) = (&mask, joined.aggregate(&[count_rows()], &engine)) {
                let counts = groups.column(1).as_primitive::<Int64Type>().values();
                assert_eq!(counts.iter().sum::<i64>(), mask.true_count() as i64);
            }
        }
    }
}

/// A test of one column.
#[derive(Debug)]
struct Leaf {
    column: usize,
    operator: u8,
    /// Chooses the row of the value that it is compared with.
    row: u8,
}

impl Leaf {
    fn new(column: usize, operator: u8, row: u8) -> Self {
        Self { column, operator: operator % 8, row }
    }

    /// The value to compare with: one of the column's, which is not null.
    fn literal(&self, values: &ArrayRef) -> Option<ArrayRef> {
        let len = values.len();
        let start = usize::from(self.row) * len / 256;
        let row = (start..len).chain(0..start).find(|row| values.is_valid(*row))?;
        Some(values.slice(row, 1))
    }
}

/// Whether a column's values can be compared by this test: what nested types are is left out.
fn comparable(values: &ArrayRef) -> bool {
    let data_type = values.data_type();
    !data_type.is_nested() && !matches!(data_type, arrow_schema::DataType::Dictionary(..))
}

/// The filter; none if there is no value to compare with.
fn expression(
    schema: &Schema,
    leaves: &[Leaf],
    plain: Option<&RecordBatch>,
    joint: u8,
) -> Option<Expr> {
    let exprs = leaves.iter().map(|leaf| {
        let x = || col(schema.field(leaf.column).name().as_str());
        if leaf.operator >= 6 {
            return Some(if leaf.operator == 6 { x().is_null() } else { x().is_not_null() });
        }
        let literal = match plain {
            Some(plain) => {
                let values = plain.column(leaf.column);
                if !comparable(values) {
                    return None;
                }
                Literal::Arrow(leaf.literal(values)?)
            }
            None => Literal::Integer(i128::from(leaf.row)),
        };
        Some(match leaf.operator {
            0 => x().eq(literal),
            1 => x().not_eq(literal),
            2 => x().lt(literal),
            3 => x().lt_eq(literal),
            4 => x().gt(literal),
            _ => x().gt_eq(literal),
        })
    });
    let exprs = exprs.collect::<Option<Vec<_>>>()?;
    exprs.into_iter().reduce(|a, b| if joint >= 128 { a.or(b) } else { a.and(b) })
}

/// The rows that Arrow's own kernels keep.
fn expected(plain: &RecordBatch, leaves: &[Leaf], joint: u8) -> BooleanArray {
    let masks = leaves.iter().map(|leaf| {
        let values = plain.column(leaf.column);
        let nulls = values.logical_nulls();
        let valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        if leaf.operator >= 6 {
            let wanted = leaf.operator == 7;
            return (0..values.len()).map(|row| valid(row) == wanted).collect::<Vec<bool>>();
        }
        let literal = Scalar::new(leaf.literal(values).expect("the filter has it"));
        let found = match leaf.operator {
            0 => cmp::eq(values, &literal),
            1 => cmp::neq(values, &literal),
            2 => cmp::lt(values, &literal),
            3 => cmp::lt_eq(values, &literal),
            4 => cmp::gt(values, &literal),
            _ => cmp::gt_eq(values, &literal),
        };
        found.expect("equal types").iter().map(|kept| kept == Some(true)).collect()
    });
    let mask = masks.reduce(|a, b| {
        let both = a.into_iter().zip(b);
        both.map(|(a, b)| if joint >= 128 { a | b } else { a & b }).collect()
    });
    BooleanArray::from(mask.expect("one leaf at least"))
}
