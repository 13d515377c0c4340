//! LZ over symbol sizes, segments, windows and kinds of data, each as words of 64 bits, so that
//! symbols of every size fit:
//!
//! - `l_comment`: TPC-H's comments, one behind the other, of the shared data;
//! - `l_orderkey`: its sorted keys, as Int64, and `l_quantity`, numbers from 1 to 50 as Int32;
//! - `quant16`: a smooth field quantised to 16 bits, and `field f32`: a smooth field of two
//!   decimals.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, UInt64Array};
use lanepack::{Encoding, Lz, Options, compress_array};

use super::cases::{Case, Failure, data_folder, read};
use super::generated::random;

/// Level, bytes of a symbol, symbols of a segment.
type Shape = (u8, usize, Option<usize>);

/// GPULZ's figures are of the first two, LZ4's of the third.
const SHAPES: [Shape; 10] = [
    (3, 2, Some(2048)),
    (4, 1, Some(4096)),
    (5, 1, None),
    (5, 2, None),
    (5, 4, None),
    (5, 8, None),
    (1, 1, Some(2048)),
    (2, 4, Some(2048)),
    (4, 8, Some(2048)),
    (4, 2, Some(4096)),
];

/// Values of generated columns.
const VALUES: usize = 1 << 20;

fn data(name: &str) -> Result<Vec<u8>, Failure> {
    let mut next = random(7);
    let mut phase = 0.0_f64;
    let mut smooth = || {
        phase += 0.01 + (next() >> 60) as f64 * 0.0005;
        phase.sin() * phase.cos().mul_add(0.25, 1.0)
    };
    let words = |bytes: Vec<[u8; 8]>| bytes.concat();
    Ok(match name {
        "l_comment" => {
            let file = data_folder().join("strings/l_comment.parquet");
            read(&file, 0)?.as_string::<i32>().iter().flatten().collect::<String>().into_bytes()
        }
        "l_orderkey" => {
            let mut next = random(9);
            let lines = (0..).flat_map(|order: i64| {
                let key = order / 8 * 32 + order % 8 + 1;
                vec![key.to_le_bytes(); 1 + (next() % 7) as usize]
            });
            words(lines.take(VALUES).collect())
        }
        "l_quantity" => {
            (0..VALUES).flat_map(|_| (1 + (next() % 50) as i32).to_le_bytes()).collect()
        }
        "quant16" => {
            (0..VALUES).flat_map(|_| ((smooth() * 900.0).round() as i16).to_le_bytes()).collect()
        }
        _ => {
            let rounded = |_| ((smooth() * 100.0).round() / 100.0) as f32;
            (0..VALUES).map(rounded).flat_map(f32::to_le_bytes).collect()
        }
    })
}

/// All shapes of all data whose name has `only` in it.
pub fn cases(only: &str) -> impl Iterator<Item = Case> {
    let names = ["l_comment", "l_orderkey", "l_quantity", "quant16", "field f32"];
    let all = names.into_iter().flat_map(|name| SHAPES.map(|shape| (name, shape)));
    all.filter_map(move |(data, shape)| case(data, shape, only))
}

/// None of another name, or whose data cannot be read.
fn case(data: &str, (level, symbol, segment_symbols): Shape, only: &str) -> Option<Case> {
    let segment = segment_symbols.unwrap_or(65_536 / symbol);
    let name = format!("{data} S{symbol} C{segment} L{level}");
    if !name.contains(only) {
        return None;
    }
    let made = || -> Result<Case, Failure> {
        let bytes = self::data(data)?;
        let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let array = Arc::new(UInt64Array::from_iter_values(words)) as ArrayRef;
        let lz = Lz::default()
            .with_level(level)
            .with_symbol_bytes(symbol)
            .with_segment_symbols(segment_symbols);
        let options = Options::default().with_encodings([Encoding::Lz]).with_lz(lz);
        let column = compress_array(&array, &options)?;
        Ok(Case { name: name.clone(), array, column, options })
    };
    made().map_err(|error| eprintln!("{name}: {error}")).ok()
}
