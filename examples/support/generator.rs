//! What the generators of ssb and tpch have in common: numbers that follow from a seed, lists of strings
//! (TPC-H specification, revision 3.0.1, clause 4.2.2.13), and arrays of what was drawn.
//!
//! Each row has random numbers of its own, so that any rows of a table can be made without those before
//! them.

use std::ops::Range;
use std::sync::Arc;

use lanepack::arrow::arrow_array::{ArrayRef, Int32Array, StringArray};

pub const REGIONS: [&str; 5] = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"];
/// Nations, and the numbers of their regions (clause 4.2.3).
pub const NATIONS: [(&str, usize); 25] = [
    ("ALGERIA", 0),
    ("ARGENTINA", 1),
    ("BRAZIL", 1),
    ("CANADA", 1),
    ("EGYPT", 4),
    ("ETHIOPIA", 0),
    ("FRANCE", 3),
    ("GERMANY", 3),
    ("INDIA", 2),
    ("INDONESIA", 2),
    ("IRAN", 4),
    ("IRAQ", 4),
    ("JAPAN", 2),
    ("JORDAN", 4),
    ("KENYA", 0),
    ("MOROCCO", 0),
    ("MOZAMBIQUE", 0),
    ("PERU", 1),
    ("CHINA", 2),
    ("ROMANIA", 3),
    ("SAUDI ARABIA", 4),
    ("VIETNAM", 2),
    ("RUSSIA", 3),
    ("UNITED KINGDOM", 3),
    ("UNITED STATES", 1),
];
pub const SEGMENTS: [&str; 5] = ["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"];
pub const PRIORITIES: [&str; 5] = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"];
pub const MODES: [&str; 7] = ["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"];
/// The syllables of types of parts.
pub const TYPES: [&[&str]; 3] = [
    &["STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"],
    &["ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"],
    &["TIN", "NICKEL", "BRASS", "STEEL", "COPPER"],
];
/// The syllables of containers of parts.
pub const CONTAINERS: [&[&str]; 2] = [
    &["SM", "LG", "MED", "JUMBO", "WRAP"],
    &["CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"],
];
/// Words of names of parts.
#[rustfmt::skip]
pub const COLORS: [&str; 92] = [
    "almond", "antique", "aquamarine", "azure", "beige", "bisque", "black", "blanched", "blue",
    "blush", "brown", "burlywood", "burnished", "chartreuse", "chiffon", "chocolate", "coral",
    "cornflower", "cornsilk", "cream", "cyan", "dark", "deep", "dim", "dodger", "drab", "firebrick",
    "floral", "forest", "frosted", "gainsboro", "ghost", "goldenrod", "green", "grey", "honeydew",
    "hot", "indian", "ivory", "khaki", "lace", "lavender", "lawn", "lemon", "light", "lime", "linen",
    "magenta", "maroon", "medium", "metallic", "midnight", "mint", "misty", "moccasin", "navajo",
    "navy", "olive", "orange", "orchid", "pale", "papaya", "peach", "peru", "pink", "plum", "powder",
    "puff", "purple", "red", "rose", "rosy", "royal", "saddle", "salmon", "sandy", "seashell",
    "sienna", "sky", "slate", "smoke", "snow", "spring", "steel", "tan", "thistle", "tomato",
    "turquoise", "violet", "wheat", "white", "yellow",
];
/// Characters of addresses, 64 (clause 4.2.2.7).
const CHARACTERS: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ, ";

/// Days on which there are orders, from 1992-01-01 to 1998-08-02 (clause 4.2.3).
pub const ORDER_DAYS: usize = 2406;

/// Numbers that follow from a seed (SplitMix64).
pub struct Random(u64);

impl Random {
    /// Those of a row of a table.
    pub fn new(table: u64, row: usize) -> Self {
        Self((table << 56) ^ (row as u64).wrapping_mul(0xd134_2543_de82_ef95))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ bits >> 31
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub fn within(&mut self, range: Range<i32>) -> i32 {
        range.start + self.below((range.end - range.start) as usize) as i32
    }

    pub fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    /// A word of each list.
    pub fn words(&mut self, lists: &[&[&str]]) -> String {
        lists.iter().map(|list| self.of(list)).collect::<Vec<_>>().join(" ")
    }

    pub fn address(&mut self, lengths: Range<usize>) -> String {
        let length = lengths.start + self.below(lengths.len());
        (0..length).map(|_| char::from(self.of(CHARACTERS))).collect()
    }

    /// A number of a telephone in a nation (clause 4.2.2.9).
    pub fn phone(&mut self, nation: usize) -> String {
        let mut part = |most: i32| self.within(most / 10..most);
        format!("{}-{}-{}-{}", nation + 10, part(1000), part(1000), part(10_000))
    }
}

/// The key of an order: eight of every 32 numbers are keys (clause 4.2.3).
pub fn order_key(order: usize) -> usize {
    ((order >> 3) << 5 | order & 7) + 1
}

/// The price of a part in cents (clause 4.2.3).
pub fn retail_price(part: usize) -> i32 {
    (90_000 + (part / 10) % 20_001 + 100 * (part % 1000)) as i32
}

pub fn numbers(values: impl Iterator<Item = i32>) -> ArrayRef {
    Arc::new(Int32Array::from_iter_values(values))
}

pub fn texts<T: AsRef<str>>(values: impl Iterator<Item = T>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}
