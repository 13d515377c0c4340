//! Kinds of values, and rates by kind.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Rate;
use crate::chunk::{Encoding, Physical};

/// What kind of values: the encoding of the first chunk where that is known, and what they are stored
/// as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Kind {
    pub encoding: Option<Encoding>,
    pub physical: Physical,
}

impl Kind {
    /// Integers with a sign and without take as long: those with one.
    pub fn signed(self) -> Self {
        let physical = match self.physical {
            Physical::U8 => Physical::I8,
            Physical::U16 => Physical::I16,
            Physical::U32 => Physical::I32,
            Physical::U64 => Physical::I64,
            other => other,
        };
        Self { physical, ..self }
    }

    /// As files of rates name it: `alp F64`, `F64`.
    pub fn name(self) -> String {
        let Self { encoding, physical } = self.signed();
        match encoding {
            Some(encoding) => format!("{} {physical:?}", encoding.name()),
            None => format!("{physical:?}"),
        }
    }

    /// Its place in [`RatesByKind`].
    fn place(self) -> usize {
        let Self { encoding, physical } = self.signed();
        let row = encoding.map_or(0, |encoding| 1 + encoding as usize);
        row * Physical::ALL.len() + physical as usize
    }

    fn all() -> impl Iterator<Item = Self> {
        let encodings = Encoding::ALL.iter().copied().map(Some).chain([None]);
        encodings.flat_map(|encoding| Physical::ALL.map(|physical| Self { encoding, physical }))
    }
}

/// Rates of kinds of values, in files by name. A look-up takes a few nanoseconds, as predictions are made
/// for calls that take microseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "BTreeMap<String, Rate>", into = "BTreeMap<String, Rate>")]
pub(crate) struct RatesByKind {
    /// By [`Kind::place`].
    rates: Vec<Option<Rate>>,
    /// The least of each.
    least: Option<Rate>,
}

impl RatesByKind {
    /// That of a kind, or else of its physical type; of unknown kinds the slowest is expected.
    pub fn rate(&self, kind: Kind) -> Option<Rate> {
        let of = |kind: Kind| self.rates.get(kind.place()).copied().flatten();
        of(kind).or_else(|| of(Kind { encoding: None, ..kind })).or(self.least)
    }

    pub fn insert(&mut self, kind: Kind, rate: Rate) {
        let place = kind.place();
        self.rates.resize(self.rates.len().max(place + 1), None);
        self.rates[place] = Some(rate);
        let all = self.rates().reduce(|one, other| Rate {
            cpu: one.cpu.min(other.cpu),
            device: one.device.min(other.device),
        });
        self.least = all;
    }

    pub fn rates(&self) -> impl Iterator<Item = Rate> {
        self.rates.iter().copied().flatten()
    }
}

impl From<BTreeMap<String, Rate>> for RatesByKind {
    fn from(named: BTreeMap<String, Rate>) -> Self {
        let mut rates = Self::default();
        for kind in Kind::all() {
            if let Some(rate) = named.get(&kind.name()) {
                rates.insert(kind, *rate);
            }
        }
        rates
    }
}

impl From<RatesByKind> for BTreeMap<String, Rate> {
    fn from(rates: RatesByKind) -> Self {
        let rate = |kind: Kind| Some((kind.name(), (*rates.rates.get(kind.place())?)?));
        Kind::all().filter_map(rate).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_place_of_its_own() {
        let mut names = BTreeMap::new();
        for kind in Kind::all() {
            let name = names.entry(kind.place()).or_insert_with(|| kind.name());
            assert_eq!(*name, kind.name());
        }
        assert_eq!(names.len(), (Encoding::ALL.len() + 1) * (Physical::ALL.len() - 4));
    }

    #[test]
    fn names_lead_to_rates_and_back() {
        let rate = |cpu: f64| Rate { cpu, device: 10.0 * cpu };
        let named: BTreeMap<String, Rate> = [("alp F64", 3e9), ("F64", 2e9), ("I32", 5e9)]
            .map(|(n, cpu)| (n.into(), rate(cpu)))
            .into();
        let rates = RatesByKind::from(named.clone());
        let of = |encoding, physical| rates.rate(Kind { encoding, physical });
        assert_eq!(of(Some(Encoding::Alp), Physical::F64), Some(rate(3e9)));
        assert_eq!(
            of(Some(Encoding::Rle), Physical::F64),
            Some(rate(2e9)),
            "as others of the type"
        );
        assert_eq!(of(None, Physical::U32), Some(rate(5e9)));
        assert_eq!(of(Some(Encoding::RunEnds), Physical::Arrow), Some(rate(2e9)), "the slowest");
        assert_eq!(BTreeMap::from(rates), named);
        assert_eq!(
            RatesByKind::default().rate(Kind { encoding: None, physical: Physical::I8 }),
            None
        );
    }
}
