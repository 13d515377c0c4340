//! Sets of encodings.

use std::fmt;

use super::ids::Encoding;

/// A set of encodings, iterated in the order of their numbers.
///
/// ```
/// use lanepack::{Effort, Encoding, EncodingSet};
///
/// let mut set = EncodingSet::from_iter([Encoding::Ffor, Encoding::Plain]);
/// set.insert(Encoding::Alp);
/// assert!(set.contains(Encoding::Alp) && set.len() == 3);
/// assert_eq!(set.to_string(), "plain, ffor, alp");
/// assert!(set.is_subset(Effort::Balanced.encodings()));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct EncodingSet(u64);

impl EncodingSet {
    /// The set without encodings.
    pub const EMPTY: Self = Self(0);

    /// The set of all encodings.
    pub const ALL: Self = Self::of(Encoding::ALL);

    const fn bit(encoding: Encoding) -> u64 {
        1 << encoding as u32
    }

    /// The set of the encodings of a slice.
    pub(crate) const fn of(encodings: &[Encoding]) -> Self {
        let (mut bits, mut at) = (0, 0);
        while at < encodings.len() {
            bits |= Self::bit(encodings[at]);
            at += 1;
        }
        Self(bits)
    }

    /// Whether an encoding is in the set.
    pub const fn contains(self, encoding: Encoding) -> bool {
        self.0 & Self::bit(encoding) != 0
    }

    /// Adds an encoding; whether it was not in the set before.
    pub fn insert(&mut self, encoding: Encoding) -> bool {
        let is_new = !self.contains(encoding);
        self.0 |= Self::bit(encoding);
        is_new
    }

    /// Removes an encoding; whether it was in the set.
    pub fn remove(&mut self, encoding: Encoding) -> bool {
        let was_there = self.contains(encoding);
        self.0 &= !Self::bit(encoding);
        was_there
    }

    /// The encodings that are in either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The encodings that are in both sets.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The encodings of this set that are not in the other.
    #[must_use]
    pub const fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether all encodings of this set are in the other.
    pub const fn is_subset(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// Number of encodings.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether the set has no encodings.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The encodings, in the order of their numbers.
    pub fn iter(self) -> impl Iterator<Item = Encoding> {
        Encoding::ALL.iter().copied().filter(move |encoding| self.contains(*encoding))
    }
}

impl FromIterator<Encoding> for EncodingSet {
    fn from_iter<I: IntoIterator<Item = Encoding>>(encodings: I) -> Self {
        let mut set = Self::EMPTY;
        set.extend(encodings);
        set
    }
}

impl<'a> FromIterator<&'a Encoding> for EncodingSet {
    fn from_iter<I: IntoIterator<Item = &'a Encoding>>(encodings: I) -> Self {
        encodings.into_iter().copied().collect()
    }
}

impl<const N: usize> From<[Encoding; N]> for EncodingSet {
    fn from(encodings: [Encoding; N]) -> Self {
        Self::of(&encodings)
    }
}

impl From<Encoding> for EncodingSet {
    fn from(encoding: Encoding) -> Self {
        Self::of(&[encoding])
    }
}

impl Extend<Encoding> for EncodingSet {
    fn extend<I: IntoIterator<Item = Encoding>>(&mut self, encodings: I) {
        for encoding in encodings {
            self.insert(encoding);
        }
    }
}

impl IntoIterator for EncodingSet {
    type Item = Encoding;
    type IntoIter = std::vec::IntoIter<Encoding>;

    /// The encodings, in the order of their numbers.
    fn into_iter(self) -> Self::IntoIter {
        self.iter().collect::<Vec<_>>().into_iter()
    }
}

impl fmt::Display for EncodingSet {
    /// The names of the encodings, separated by commas.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, encoding) in self.iter().enumerate() {
            write!(f, "{}{encoding}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl fmt::Debug for EncodingSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_put_in() {
        assert_eq!(EncodingSet::ALL.len(), Encoding::ALL.len());
        for encoding in Encoding::ALL.iter().copied() {
            let mut set = EncodingSet::from(encoding);
            assert_eq!(set.iter().collect::<Vec<_>>(), [encoding]);
            assert!(!set.insert(encoding) && set.remove(encoding) && !set.remove(encoding));
            assert!(set.is_empty() && set.insert(encoding));
            let others = EncodingSet::ALL.difference(set);
            assert!(!others.contains(encoding) && others.len() + 1 == Encoding::ALL.len());
            assert_eq!(others.union(set), EncodingSet::ALL);
            assert_eq!(others.intersection(set), EncodingSet::EMPTY);
            assert!(!set.is_subset(others) && others.is_subset(EncodingSet::ALL));
        }
    }

    #[test]
    fn sets_are_iterated_in_order() {
        let reversed: EncodingSet = Encoding::ALL.iter().rev().collect();
        assert_eq!(reversed.into_iter().collect::<Vec<_>>(), Encoding::ALL);
        assert_eq!(reversed.into_iter().len(), Encoding::ALL.len());
        assert_eq!(EncodingSet::from([Encoding::Fsst, Encoding::Plain]).to_string(), "plain, fsst");
        assert_eq!(format!("{:?}", EncodingSet::from([Encoding::Alp])), "{Alp}");
        assert_eq!(EncodingSet::default().to_string(), "");
    }
}
