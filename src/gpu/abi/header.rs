//! Constants of the kernels' sources, read when the crate is compiled.
//!
//! A source is read once, whatever is asked of it: the compiler interprets this code, at
//! about a microsecond for each byte.

/// Constants that one source defines at most.
const MOST: usize = 128;

/// The constants of a source: `NAME = 12;`, or in enums `NAME = 12,`.
#[derive(Debug)]
pub(crate) struct Header {
    source: &'static [u8],
    /// Where names end.
    ends: [usize; MOST],
    values: [u64; MOST],
    count: usize,
}

impl Header {
    pub const fn read(source: &'static str) -> Self {
        let source = source.as_bytes();
        let mut header = Self { source, ends: [0; MOST], values: [0; MOST], count: 0 };
        let mut at = 2;
        while at < source.len() {
            if source[at] == b'=' && is_of_name(source[at - 2]) {
                header.add(at);
            }
            at += 1;
        }
        header
    }

    /// Adds the constant whose equals sign is at a place, if there is one.
    const fn add(&mut self, equals: usize) {
        let Some((before, after)) = self.source.split_at_checked(equals + 2) else { return };
        if before[equals - 1] != b' ' || before[equals + 1] != b' ' {
            return;
        }
        let (mut value, mut digits) = (0, 0);
        while digits < after.len() && after[digits].is_ascii_digit() {
            value = value * 10 + (after[digits] - b'0') as u64;
            digits += 1;
        }
        if digits == 0 || digits == after.len() || !matches!(after[digits], b';' | b',') {
            return;
        }
        assert!(self.count < MOST, "a source with more constants than are expected");
        self.ends[self.count] = equals - 1;
        self.values[self.count] = value;
        self.count += 1;
    }

    /// The number of a constant, whose name stands behind `before`.
    pub const fn number(&self, before: &str, name: &str) -> u64 {
        let mut index = 0;
        while index < self.count {
            let end = self.ends[index];
            if ends_with(self.source, end, name.as_bytes())
                && ends_with(self.source, end - name.len(), before.as_bytes())
            {
                return self.values[index];
            }
            index += 1;
        }
        panic!("no such constant, or none that is a plain number")
    }
}

/// Whether names of constants have such a byte.
const fn is_of_name(byte: u8) -> bool {
    matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_')
}

/// Whether the first `end` bytes of a source end with a part.
const fn ends_with(source: &[u8], end: usize, part: &[u8]) -> bool {
    if end < part.len() {
        return false;
    }
    let mut left = part.len();
    while left > 0 {
        left -= 1;
        if source[end - part.len() + left] != part[left] {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "constexpr u32 A_BC = 12;\nconstexpr u32 BC = 345;\n\
        constexpr u32 SUM = 1 + 2;\nenum {\n    FAULT_A = 7,\n    FAULT_B = 8\n};\nint C = 9;";

    #[test]
    fn finds_plain_numbers_by_whole_names() {
        let header = Header::read(SOURCE);
        let found = |before, name| std::panic::catch_unwind(|| header.number(before, name)).ok();
        assert_eq!(found("constexpr u32 ", "A_BC"), Some(12));
        assert_eq!(found("constexpr u32 ", "BC"), Some(345));
        assert_eq!(found("FAULT_", "A"), Some(7));
        for name in ["SUM", "C", "B", "A", "A_B", "BC = 345", ""] {
            assert_eq!(found("constexpr u32 ", name), None, "{name}");
        }
        for source in ["", "=", "A =", "A = ", "A = 1", "A = 1;"] {
            assert_eq!(Header::read(source).count, usize::from(source == "A = 1;"), "{source}");
        }
    }
}
