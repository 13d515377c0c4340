//! Distinct byte strings, numbered in the order in which they come first.

use ahash::RandomState;
use hashbrown::HashTable;

use crate::error::{Error, Result};

/// Distinct strings, numbered.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    hasher: RandomState,
    table: HashTable<u32>,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Interner {
    /// The string of a number.
    pub fn get(&self, code: u32) -> &[u8] {
        let start = (code as usize).checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[code as usize]]
    }

    /// The number of a string.
    pub fn code(&mut self, value: &[u8]) -> Result<u32> {
        let hash = self.hasher.hash_one(value);
        if let Some(code) = self.table.find(hash, |code| self.get(*code) == value) {
            return Ok(*code);
        }
        let code = u32::try_from(self.ends.len())
            .map_err(|_| Error::unsupported("2^32 or more distinct strings"))?;
        self.bytes.extend_from_slice(value);
        self.ends.push(self.bytes.len());
        let mut table = std::mem::take(&mut self.table);
        table.insert_unique(hash, code, |code| self.hasher.hash_one(self.get(*code)));
        self.table = table;
        Ok(code)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }
}
