//! Tests of strings as kernels have them, one for each chunk: literals or an automaton by the
//! codes of its symbol table, which chunks share (`kernels/lanepack/select_strings.cuh`).

use std::collections::HashMap;
use std::sync::Arc;

use bytemuck::Pod;

use super::{ChunkTest, Report};
use crate::device::parameters::Parameters;
use crate::error::{Error, Result};
use crate::gpu::DeviceBuffer;
use crate::gpu::abi::{self, Range, StoredLiteral, StringsTest};
use crate::scan::automaton::DeviceRows;
use crate::scan::predicate::CodesTest;

/// The tests of some chunks, and the tables that they share.
#[derive(Default)]
pub(crate) struct StringTests {
    /// Addresses count from the first byte of the tables.
    chunks: Vec<StringsTest>,
    tables: Vec<u8>,
    /// The test for each one of the host's.
    made: HashMap<*const CodesTest, StringsTest>,
    /// Shared memory for the largest automaton of rows of bytes.
    pub(super) shared: u32,
    /// What tests of dictionaries have found, where codes are looked up.
    found: Vec<Arc<DeviceBuffer>>,
    /// What was wrong with these dictionaries.
    pub report: Report,
}

impl StringTests {
    /// The tests of the chunks of a column; the report is of those of dictionaries.
    ///
    /// # Errors
    /// [`Error::TooLarge`] for literals of 4 GiB in all.
    pub fn of(chunks: &[ChunkTest], report: Report) -> Result<Self> {
        let mut tests = Self { report, ..Self::default() };
        for (chunk, test) in chunks.iter().enumerate() {
            tests.push(chunk, test)?;
        }
        Ok(tests)
    }

    /// The kinds of tests that look at strings, as bits by their numbers `abi::STRINGS_..`: neither
    /// those that are decided nor those of codes.
    pub fn kinds(&self) -> u32 {
        let others = 1 << abi::STRINGS_NONE | 1 << abi::STRINGS_ALL | 1 << abi::STRINGS_CODES;
        self.chunks.iter().fold(0, |kinds, test| kinds | 1 << test.kind) & !others
    }

    /// Adds the test of a chunk.
    pub(super) fn push(&mut self, chunk: usize, test: &ChunkTest) -> Result<()> {
        let decided = |kind| StringsTest { kind, ..Default::default() };
        let made = match test {
            ChunkTest::Decided(false) => decided(abi::STRINGS_NONE),
            ChunkTest::Decided(true) => decided(abi::STRINGS_ALL),
            ChunkTest::LookedUp(found) => {
                self.keep(&found.found);
                StringsTest {
                    table: found.bits,
                    bytes: found.range,
                    kind: abi::STRINGS_CODES,
                    count: found.count,
                    ..Default::default()
                }
            }
            ChunkTest::Codes(test) => match self.made.get(&Arc::as_ptr(test)) {
                Some(made) => *made,
                None => {
                    let made = self.make(test)?;
                    self.made.insert(Arc::as_ptr(test), made);
                    made
                }
            },
        };
        self.chunks.push(StringsTest { chunk: chunk as u32, ..made });
        Ok(())
    }

    fn keep(&mut self, found: &Arc<DeviceBuffer>) {
        if !self.found.iter().any(|known| Arc::ptr_eq(known, found)) {
            self.found.push(found.clone());
        }
    }

    /// What launches that use the tests have to name, their tables not counted.
    pub fn buffers(&self) -> impl Iterator<Item = &DeviceBuffer> {
        self.found.iter().map(AsRef::as_ref)
    }

    fn make(&mut self, test: &CodesTest) -> Result<StringsTest> {
        match test {
            CodesTest::OneOf(values) => self.literals(values),
            CodesTest::Automaton(automaton) => {
                let automaton = automaton.for_device();
                let (kind, table) = match &automaton.rows {
                    DeviceRows::Bytes(rows) => {
                        self.shared = self.shared.max(rows.len() as u32);
                        (abi::STRINGS_BYTE_ROWS, self.table(rows))
                    }
                    DeviceRows::Words(rows) => (abi::STRINGS_WORD_ROWS, self.table(rows)),
                };
                Ok(StringsTest {
                    table,
                    kind,
                    count: automaton.states,
                    start: automaton.start,
                    accepts: automaton.accepts,
                    faults: automaton.faults,
                    ..Default::default()
                })
            }
        }
    }

    /// A test for values, which are in order of their lengths and then of their bytes.
    fn literals(&mut self, values: &[Vec<u8>]) -> Result<StringsTest> {
        const HEAD: usize = 8;
        let mut literals = Vec::with_capacity(values.len());
        let mut rests: Vec<u8> = Vec::new();
        let mut lengths: Vec<Range> = Vec::new();
        for value in values {
            let small = |len: usize| {
                u32::try_from(len).map_err(|_| Error::too_large("literals of 4 GiB or more"))
            };
            let (length, rest) = (small(value.len())?, small(rests.len())?);
            let mut head = [0; HEAD];
            let (first, behind) = value.split_at(value.len().min(HEAD));
            head[..first.len()].copy_from_slice(first);
            rests.extend_from_slice(behind);
            rests.resize(rests.len().next_multiple_of(4), 0);
            literals.push(StoredLiteral { head: u64::from_be_bytes(head), length, rest });
            let length = u64::from(length);
            match lengths.last_mut() {
                Some(last) if length <= last.high + 1 => last.high = length,
                _ => lengths.push(Range { low: length, high: length }),
            }
        }
        Ok(StringsTest {
            table: self.table(&literals),
            bytes: self.table(&rests),
            lengths: self.table(&lengths),
            kind: abi::STRINGS_LITERALS,
            count: literals.len() as u32,
            range_count: lengths.len() as u32,
            ..Default::default()
        })
    }

    /// Where a table stands among the others.
    fn table<T: Pod>(&mut self, values: &[T]) -> u64 {
        let at = self.tables.len();
        self.tables.extend_from_slice(bytemuck::cast_slice(values));
        self.tables.resize(self.tables.len().next_multiple_of(16), 0);
        at as u64
    }

    /// Room among the parameters of a launch for the tests and their tables.
    pub fn reserve(&self, parameters: &mut Parameters) -> TestPlaces {
        TestPlaces {
            tables: parameters.push(&self.tables),
            tests: parameters.reserve(size_of_val(self.chunks.as_slice())),
        }
    }

    /// Puts the tests there, with the addresses that their tables have where the parameters
    /// begin at `base`.
    pub fn fill(&self, parameters: &mut Parameters, places: &TestPlaces, base: u64) {
        let tables = base + places.tables;
        let placed = |test: &StringsTest| match test.kind {
            abi::STRINGS_CODES => *test,
            _ => StringsTest {
                table: test.table + tables,
                bytes: test.bytes + tables,
                lengths: test.lengths + tables,
                ..*test
            },
        };
        let tests: Vec<StringsTest> = self.chunks.iter().map(placed).collect();
        parameters.fill(places.tests, &tests);
    }
}

/// Where tests stand among the parameters of a launch.
pub(crate) struct TestPlaces {
    tables: u64,
    pub tests: u64,
}
