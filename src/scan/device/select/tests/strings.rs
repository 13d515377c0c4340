//! Strings as part of bitmaps that hold something, wherever chunks begin. What tests of
//! strings find is tested in tests/gpu_parity/strings.rs, where a GPU is as well.

use arrow_array::StringArray;
use arrow_select::concat::concat_batches;

use super::*;
use crate::scan::automaton::Automaton;
use crate::scan::predicate::{BytesForm, BytesTest};

/// A test of strings, and the numbers whose strings pass it.
type Case = (BytesTest, fn(usize) -> bool);

/// Tests of the numbers that strings end with, by literals and by automata.
pub(super) fn tests() -> [Case; 2] {
    let anywhere = (None, None);
    let text = |number: usize| text(number).into_bytes();
    let literals = || BytesForm::OneOf([3, 30, 77].map(text).to_vec());
    let threes = || BytesForm::Automaton(Automaton::contains(b"number 3").unwrap());
    [
        (BytesTest::new(literals(), anywhere.clone(), false), |number| {
            [3, 30, 77].contains(&number)
        }),
        (BytesTest::new(threes(), anywhere.clone(), true), |number| number / 10 != 3),
    ]
}

pub(super) fn text(number: usize) -> String {
    format!("{}number {number:02}", "a ".repeat(number % 7))
}

/// Strings of numbers below 100, in chunks of so many rows each.
fn in_chunks(numbers: &[Option<usize>], rows: &[usize]) -> RecordBatch {
    let mut at = 0;
    let parts: Vec<RecordBatch> = rows
        .iter()
        .map(|rows| {
            let texts = numbers[at..at + rows].iter().map(|number| number.map(text));
            at += rows;
            let array: ArrayRef = Arc::new(StringArray::from_iter(texts));
            // Every other chunk as bytes.
            let encoding = if at % 2 == 0 { Encoding::Fsst } else { Encoding::Plain };
            compressed(&array, Some(encoding), 131_072)
        })
        .collect();
    assert_eq!(at, numbers.len());
    concat_batches(&parts[0].schema(), &parts).unwrap()
}

#[test]
fn strings_are_combined_with_what_a_bitmap_holds() {
    let chunks = [1100, 1, 31, 2, 5, 1024, 1024, 3, 1001];
    let rows: usize = chunks.iter().sum();
    let mut rng = Rng(31);
    let numbers: Vec<Option<usize>> =
        (0..rows).map(|row| (row % 5 != 3).then(|| rng.below(100) as usize)).collect();
    let packed = in_chunks(&numbers, &chunks);
    let few: Vec<u32> = (0..bitmap_len(rows) / 4).map(|_| 1 << rng.below(32)).collect();
    let some: Vec<u32> = few.iter().map(|_| rng.next() as u32).collect();
    let parts: Vec<u32> =
        (0..few.len()).map(|word| if word / 32 % 2 == 0 { 0 } else { u32::MAX }).collect();
    for engine in engines() {
        let subject = Subject::new(&engine, &packed);
        for (test, holds) in tests() {
            let context = engine.named_device().expect("a device");
            let on_device = |stream: &Arc<dyn Stream>| test.on_device(stream, subject.column());
            let (chunks, _) = context.with_stream(on_device).unwrap();
            let test = ColumnTest::Strings { chunks, negated: test.negated };
            let passes = |row: usize| numbers[row].is_some_and(holds);
            subject.check(&engine, &test, passes);
            for before in [&few, &some, &parts] {
                let had = |row: usize| before[row / 32] >> (row % 32) & 1 == 1;
                for combine in [Combine::Set, Combine::And, Combine::Or] {
                    let (mut found, set) =
                        subject.words(&engine, &test, combine, Some(before)).unwrap();
                    let expected: Vec<bool> = (0..rows)
                        .map(|row| match combine {
                            Combine::Set => passes(row),
                            Combine::And => had(row) && passes(row),
                            Combine::Or => had(row) || passes(row),
                        })
                        .collect();
                    assert_eq!(set, expected.iter().filter(|bit| **bit).count());
                    // What was not looked at keeps what stood behind the last row.
                    if let Some(last) = found.last_mut().filter(|_| !rows.is_multiple_of(32)) {
                        *last &= u32::MAX >> (32 - rows % 32);
                    }
                    assert_bits(&found, &expected, || format!("{combine:?}"));
                }
            }
        }
    }
}

/// Symbol tables come to the host once, each once.
#[test]
fn symbol_tables_are_known_on_the_host() {
    let numbers: Vec<Option<usize>> = (0..5000).map(|row| Some(row % 100)).collect();
    let packed = in_chunks(&numbers, &[2000, 2000, 1000]);
    let columns = crate::columns(&packed).unwrap();
    for engine in engines() {
        let subject = Subject::new(&engine, &packed);
        let context = engine.named_device().expect("a device");
        context
            .with_stream(|stream| {
                let stored = subject.column().stored_strings(stream)?;
                let expected: Vec<&[u8]> =
                    columns[0].chunks().iter().map(|chunk| chunk.root().buffer(0)).collect();
                assert_eq!(stored.chunks.len(), 3);
                for (chunk, table) in stored.chunks.iter().zip(expected) {
                    let StoredForm::Codes(number) = chunk.form else { panic!("codes") };
                    assert_eq!(&*stored.tables[number], table);
                }
                let again = subject.column().stored_strings(stream)?;
                assert!(std::ptr::eq(stored, again));
                Ok(())
            })
            .unwrap();
    }
}
