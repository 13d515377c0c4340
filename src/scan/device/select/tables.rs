//! Tests of strings as kernels have them, one for each chunk: literals or an automaton by the
//! codes of its symbol table, which chunks share (`kernels/lanepack/select_strings.cuh`).

use std::collections::HashMap;
use std::sync::Arc;

use bytemuck::Pod;

use super::{ChunkTest, Report};
use crate::device::parameters::{Offset, Parameters};
use crate::error::{Error, Result};
use crate::gpu::abi::{self, Range, StoredLiteral, StringsTest};
use crate::gpu::{DeviceBuffer, DevicePtr};
use crate::scan::automaton::DeviceRows;
use crate::scan::predicate::CodesTest;

/// The tests of some chunks, and the tables that they share.
#[derive(Default)]
pub(crate) struct StringTests {
    chunks: Vec<Made>,
    tables: Vec<u8>,
    /// The test for each one of the host's.
    made: HashMap<*const CodesTest, Made>,
    /// Shared memory for the largest automaton of rows of bytes.
    pub(super) shared: u32,
    /// What tests of dictionaries have found, where codes are looked up.
    found: Vec<Arc<DeviceBuffer>>,
    /// What was wrong with these dictionaries.
    pub report: Report,
}

/// A test, whose tables are not on the device yet.
#[derive(Clone, Copy)]
struct Made {
    test: StringsTest,
    /// Where `table`, `bytes` and `lengths` of the test are among the tables; nothing if they are
    /// there already or not used.
    tables: Option<[usize; 3]>,
}

impl Made {
    /// The test, with its tables from `tables` on.
    fn placed(&self, tables: DevicePtr<u8>) -> StringsTest {
        let Some([table, bytes, lengths]) = self.tables else { return self.test };
        StringsTest {
            table: tables.add(table),
            bytes: tables.add(bytes),
            lengths: tables.byte_add(lengths).cast(),
            ..self.test
        }
    }
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
        self.chunks.iter().fold(0, |kinds, made| kinds | 1 << made.test.kind) & !others
    }

    /// Adds the test of a chunk.
    pub(super) fn push(&mut self, chunk: usize, test: &ChunkTest) -> Result<()> {
        let decided =
            |kind| Made { test: StringsTest { kind, ..Default::default() }, tables: None };
        let made = match test {
            ChunkTest::Decided(false) => decided(abi::STRINGS_NONE),
            ChunkTest::Decided(true) => decided(abi::STRINGS_ALL),
            ChunkTest::LookedUp(found) => {
                self.keep(&found.found);
                let test = StringsTest {
                    table: found.bits,
                    bytes: found.range.cast(),
                    kind: abi::STRINGS_CODES,
                    count: found.count,
                    ..Default::default()
                };
                Made { test, tables: None }
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
        let test = StringsTest { chunk: chunk as u32, ..made.test };
        self.chunks.push(Made { test, ..made });
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

    fn make(&mut self, test: &CodesTest) -> Result<Made> {
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
                let test = StringsTest {
                    kind,
                    count: automaton.states,
                    start: automaton.start,
                    accepts: automaton.accepts,
                    faults: automaton.faults,
                    ..Default::default()
                };
                Ok(Made { test, tables: Some([table, 0, 0]) })
            }
        }
    }

    /// A test for values, which are in order of their lengths and then of their bytes.
    fn literals(&mut self, values: &[Vec<u8>]) -> Result<Made> {
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
        let tables = [self.table(&literals), self.table(&rests), self.table(&lengths)];
        let test = StringsTest {
            kind: abi::STRINGS_LITERALS,
            count: literals.len() as u32,
            range_count: lengths.len() as u32,
            ..Default::default()
        };
        Ok(Made { test, tables: Some(tables) })
    }

    /// Where a table stands among the others.
    fn table<T: Pod>(&mut self, values: &[T]) -> usize {
        let at = self.tables.len();
        self.tables.extend_from_slice(bytemuck::cast_slice(values));
        self.tables.resize(self.tables.len().next_multiple_of(16), 0);
        at
    }

    /// Room among the parameters of a launch for the tests and their tables.
    pub fn reserve(&self, parameters: &mut Parameters) -> TestPlaces {
        TestPlaces {
            tables: parameters.push(&self.tables),
            tests: parameters.reserve(self.chunks.len()),
        }
    }

    /// Puts the tests there, with pointers to their tables where the parameters will be in `buffer`.
    pub fn fill(&self, parameters: &mut Parameters, places: &TestPlaces, buffer: &DeviceBuffer) {
        let tables = places.tables.within(buffer);
        let tests: Vec<StringsTest> = self.chunks.iter().map(|made| made.placed(tables)).collect();
        parameters.fill(places.tests, &tests);
    }
}

/// Where tests stand among the parameters of a launch.
pub(crate) struct TestPlaces {
    tables: Offset<u8>,
    pub tests: Offset<StringsTest>,
}
