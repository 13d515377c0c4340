//! Chunks that break a rule of the format, and what every reader says of them.

use std::sync::Arc;

use arrow_array::*;
use arrow_schema::DataType;
use lanepack::scan::{Expr, col};
use lanepack::{Encoding, Options};

use super::image::{Image, Node, Tree};
use super::{Nulls, Shape, array_of};

/// When a reader finds that a rule is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Before it reads values: in the header or in parameters of vectors.
    Opening,
    /// When it reads the values, or tests them.
    Reading,
}

/// A chunk that is refused.
pub struct Bad {
    pub name: &'static str,
    pub image: Image,
    pub found: Found,
    /// A part of the error.
    pub says: &'static str,
    /// A filter that statistics do not decide.
    pub filter: Expr,
}

const ROWS: i64 = 1500;

fn image(array: ArrayRef, encodings: &[Encoding], tree: &[Encoding]) -> Image {
    let options = Options::default().with_encodings(encodings.iter().copied());
    let image = Image::of(&array, &options);
    let found: Vec<u8> = image.tree().nodes.iter().map(|node| node.encoding).collect();
    let expected: Vec<u8> = tree.iter().map(|encoding| *encoding as u8).collect();
    assert_eq!(found, expected);
    image
}

fn integers(value: impl Fn(i64) -> i64) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values((0..ROWS).map(value)))
}

/// Buffers before those of a node.
fn buffers_before(tree: &Tree, node: usize) -> usize {
    tree.nodes[..node].iter().map(|node| usize::from(node.buffers)).sum()
}

/// Chunks of each kind of bad input.
pub fn bad_input() -> Vec<Bad> {
    use Encoding::*;
    use Found::*;
    let ffor = || image(integers(|row| row * row % 20), &[Ffor], &[Ffor]);
    let dict = || image(integers(|row| row % 7 * 3), &[Dict], &[Dict, Plain, Plain]);
    let lengths = || image(integers(|row| row / 50), &[Rle], &[Rle, Plain, Plain]);
    let bits = || image(integers(|row| row / 2), &[Rle], &[Rle, Plain]);
    let delta = || image(integers(|row| row * 20 + row * row % 3), &[Delta, Ffor], &[Delta, Ffor]);
    let gcd = || image(integers(|row| 7 + row * row % 400 * 60), &[Gcd, Ffor], &[Gcd, Ffor]);
    let limbs = || {
        let decimals = array_of(&DataType::Decimal128(38, 4), 1500, Shape::Narrow, Nulls::None);
        image(decimals, &[Limbs], &[Limbs, Plain])
    };
    let coded_runs = || {
        let value = |row: i64| (row / 30 * 7919 % 12).pow(7);
        image(integers(value), &[Rle, Dict], &[Dict, Rle, Plain, Plain])
    };
    let packed_codes = || {
        let value = |row: i64| (row * row % 12).pow(7);
        image(integers(value), &[Dict, Ffor], &[Dict, Ffor, Plain])
    };
    let words = || -> Image {
        let word = |row: i64| ["alpha", "beta", "gamma ray", "delta"][row as usize % 4];
        let words = Arc::new(StringArray::from_iter_values((0..ROWS).map(word)));
        image(words, &[Dict], &[Dict, Plain, Plain, Plain])
    };
    let numbers = |name, image: Image, found, says, change: &dyn Fn(&mut Tree)| {
        let mut image = image;
        image.change(|tree| change(tree));
        Bad { name, image, found, says, filter: col("price").between(3, 17) }
    };
    let texts = |name, image: Image, found, says, change: &dyn Fn(&mut Tree)| Bad {
        filter: col("price").contains("eta"),
        ..numbers(name, image, found, says, change)
    };
    let leaf = |physical: u8| Node { encoding: 1, physical, len: 1500, ..Node::default() };
    let decimals = |bad: Bad| Bad { filter: col("price").is_not_null(), ..bad };
    // A filter that keeps some of the values of the dictionary.
    let seventh = |bad: Bad| Bad { filter: col("price").between(1, 1000), ..bad };
    let length = |tree: &mut Tree, run: usize, length: u16| {
        tree.buffers[2][2 * run..][..2].copy_from_slice(&length.to_le_bytes());
    };
    vec![
        // Deeper and wider than trees may be.
        numbers("17 levels", ffor(), Opening, "node 16 is nested deeper than 16 levels", &|tree| {
            let node = Node { encoding: 5, physical: 11, children: 1, ..leaf(11) };
            tree.nodes = vec![node; 17];
            tree.nodes[16].children = 0;
            tree.buffers.clear();
        }),
        numbers("60,000 children", ffor(), Opening, "node with 60000 children", &|tree| {
            tree.nodes = vec![leaf(4); 60_001];
            tree.nodes[0].children = 60_000;
            tree.buffers.clear();
        }),
        numbers("two kinds of quotients", gcd(), Opening, "gcd node with 2 children", &|tree| {
            tree.nodes[0].children = 2;
            tree.nodes.push(leaf(8));
        }),
        decimals(numbers("three limbs of 128 bits", limbs(), Opening, "3 limbs", &|tree| {
            tree.nodes = vec![tree.nodes[0].clone(), leaf(8), leaf(8), leaf(4)];
            tree.nodes[0].children = 3;
            tree.buffers.clear();
        })),
        // Children of another type, length or encoding.
        numbers("codes with a sign", dict(), Opening, "codes of type I32", &|tree| {
            tree.nodes[1].physical = 3;
        }),
        numbers("values without a sign", dict(), Opening, "a dictionary of type U64", &|tree| {
            tree.nodes[2].physical = 8;
        }),
        numbers("runs without a sign", lengths(), Opening, "runs of type U64", &|tree| {
            tree.nodes[1].physical = 8;
        }),
        numbers("lengths with a sign", lengths(), Opening, "lengths of type I16", &|tree| {
            tree.nodes[2].physical = 2;
        }),
        numbers("deltas without a sign", delta(), Opening, "deltas of type U64", &|tree| {
            tree.nodes[1].physical = 8;
        }),
        numbers("deltas of a short vector", delta(), Opening, "1500 deltas", &|tree| {
            tree.nodes[1].len = 1500;
        }),
        numbers("quotients with a sign", gcd(), Opening, "quotients of type I64", &|tree| {
            tree.nodes[1].physical = 4;
        }),
        numbers("quotients of quotients", gcd(), Opening, "quotients encoded as gcd", &|tree| {
            let inner = Node { physical: 8, ..tree.nodes[0].clone() };
            tree.nodes.insert(1, inner);
        }),
        decimals(numbers("a limb without a sign", limbs(), Opening, "limb 0 holds", &|tree| {
            tree.nodes[1].physical = 8;
        })),
        numbers("a divisor of 1", gcd(), Opening, "at least 2 is needed", &|tree| {
            tree.nodes[0].parameters[0] = 1;
        }),
        // Runs that are not those of the values.
        numbers("more runs than values", lengths(), Opening, "vector 0 of 1024 values", &|tree| {
            tree.set_word(0, 1, 2000);
        }),
        numbers("a vector without runs", lengths(), Opening, "vector 0 of 1024 values", &|tree| {
            tree.set_word(0, 1, 0);
        }),
        numbers("a run too long", lengths(), Reading, "vector 0 have 1025 values", &|tree| {
            length(tree, 5, 51);
        }),
        numbers("a run of none", lengths(), Reading, "0 at least, of 1024", &|tree| {
            length(tree, 5, 100);
            length(tree, 6, 0);
        }),
        numbers("the longest run", lengths(), Reading, "the runs of vector 1 have", &|tree| {
            length(tree, 30, u16::MAX);
        }),
        numbers("a run across vectors", lengths(), Reading, "vector 0 have 1025 values", &|tree| {
            length(tree, 20, 25);
            length(tree, 21, 25);
        }),
        numbers("a bit too many", bits(), Reading, "513 runs of vector 0 begin", &|tree| {
            tree.buffers[1][0] |= 2;
        }),
        numbers("no bit at the start", bits(), Reading, "512 runs of vector 0 begin", &|tree| {
            tree.buffers[1][0] ^= 3;
        }),
        numbers("no bits in the end", bits(), Reading, "runs of vector 1 begin", &|tree| {
            tree.buffers[1][187] = 0;
        }),
        // Codes past the dictionary.
        numbers(
            "the code behind the last",
            dict(),
            Reading,
            "code 7 of a dictionary of 7",
            &|tree| {
                tree.set_word(0, 1100, 7);
            },
        ),
        numbers("the greatest code", dict(), Reading, "code 4294967295 of a", &|tree| {
            tree.set_word(0, 3, u32::MAX);
        }),
        seventh(numbers("packed codes", packed_codes(), Reading, "of a dictionary of", &|tree| {
            // The base of the second vector.
            tree.set_word(1, 1, 1 << 20);
        })),
        seventh(numbers(
            "codes of runs",
            coded_runs(),
            Reading,
            "code 99 of a dictionary of",
            &|tree| {
                let codes = buffers_before(tree, 3);
                tree.set_word(codes, 4, 99);
            },
        )),
        texts("codes of strings", words(), Reading, "code 77 of a dictionary of 4", &|tree| {
            let codes = buffers_before(tree, 1);
            tree.set_word(codes, 1400, 77);
        }),
    ]
}

/// Multiples of 60 from 7 on, but in some rows, whose products or quotients pass the end of the type.
pub struct Great {
    pub name: &'static str,
    pub image: Image,
    /// Whether a row is what a writer makes.
    pub is_sound: fn(usize) -> bool,
}

/// With plain quotients, and with packed ones.
pub fn great_quotients() -> Vec<Great> {
    let array = integers(|row| 7 + row * row % 400 * 60);
    let tree = [Encoding::Gcd, Encoding::Ffor];
    let of = || image(array.clone(), &tree, &tree);
    let mut plain = of();
    plain.change(|tree| {
        let quotients = (0..ROWS as u64).map(|row| match row % 5 {
            4 => u64::MAX - row * row,
            3 => u64::MAX / 60 + 1 + row,
            2 => (1 << 63) / 60 + row,
            _ => row % 400,
        });
        tree.nodes[1] = Node { encoding: 0, buffers: 1, ..tree.nodes[1].clone() };
        tree.buffers = vec![quotients.flat_map(u64::to_le_bytes).collect()];
    });
    let mut packed = of();
    packed.change(|tree| {
        // The base of the second vector: its sums pass the end as well.
        let base = (u64::MAX - 100).to_le_bytes();
        tree.buffers[1][8..16].copy_from_slice(&base);
    });
    vec![
        Great { name: "plain quotients", image: plain, is_sound: |row| row % 5 < 2 },
        Great { name: "packed quotients", image: packed, is_sound: |row| row < 1024 },
    ]
}

impl Great {
    /// Compares what filters keep of the values with what they may: all of the sound rows that
    /// pass, and of the others some that do.
    #[track_caller]
    pub fn check(&self, values: &Int64Array, mut kept: impl FnMut(Expr) -> BooleanArray) {
        let least = values.iter().flatten().min().unwrap();
        // Statistics decide none of these for all rows.
        let bounds = [(7, 6007), (600, 700), (8, 66), (least, -1), (least, 20_000), (8, i64::MAX)];
        for (low, high) in bounds {
            let mask = kept(col("price").between(low, high));
            for row in 0..values.len() {
                let (value, is_kept) = (values.value(row), mask.value(row));
                let passes = low <= value && value <= high;
                let is_right = is_kept == passes || !is_kept && !(self.is_sound)(row);
                assert!(is_right, "{}: row {row}, {value} in {low}..={high}", self.name);
            }
        }
    }
}
