//! Tests of one column in the source of a kernel: numbers in ranges, strings, and codes of
//! dictionaries, whose values have been tested before.

use std::fmt::Write;

use super::{LENGTHS, MOST_TESTS, Writer, order_name};
use crate::decode::trees::TreeList;
use crate::encoding::Encoding;
use crate::error::Result;
use crate::gpu::abi::{self, Range};
use crate::ranges::{Key, Order};
use crate::scan::device::select::{CodeTests, WordType, in_bits};
use crate::scan::device::shortest;
use crate::scan::predicate::{BytesForm, BytesTest, Test};

impl Writer<'_> {
    /// The rows that pass a test.
    pub(super) fn test(&mut self, column: usize, test: &Test) -> Result<String> {
        let nodes = self.columns[column];
        let (key, ranges) = match test {
            Test::Words(key, ranges) => (*key, ranges.clone()),
            // Of one word: it is a signed integer.
            Test::Wide(ranges) => (Key::HIGHEST_WORD, ranges.of_one_word()),
            Test::Bytes(_) => unreachable!("strings are no words"),
        };
        let list = nodes.lists[0].clone();
        if key.bits == 1 {
            match (ranges.contains(0), ranges.contains(1)) {
                (true, true) => return Ok("FULL".to_owned()),
                (false, false) => return Ok("0".to_owned()),
                _ => {}
            }
        }
        let (mut ranges, negated) = shortest(key, &ranges);
        let mut order = key.order;
        if key.bits == 16 && key.order == Order::Float {
            // Kernels know the bits of Float16 as integers.
            ranges = in_bits(&ranges);
            order = Order::Unsigned;
        }
        let codes = match nodes.dictionaries.count {
            0 => None,
            _ => {
                let order = match order {
                    Order::Unsigned => abi::UNSIGNED,
                    Order::Signed => abi::SIGNED,
                    Order::Float => abi::FLOAT,
                };
                let bits = key.bits as usize;
                Some(self.looked_up(column, WordType { bits, order }, &ranges)?)
            }
        };
        let not = if negated { "~" } else { "" };
        let test = self.words(column, &list, &ranges, order_name(order), codes);
        Ok(format!("{not}{test}"))
    }

    /// What has tests of the codes of chunks of dict, whose values have been tested.
    fn looked_up(&mut self, column: usize, of: WordType, ranges: &[Range]) -> Result<String> {
        let CodeTests { tests, buffer } = (self.tests_of.words)(column, of, ranges)?;
        let literal = self.literal(&[tests.address()]);
        self.buffers.push(buffer);
        Ok(format!("args.tests({literal}) + chunk"))
    }

    /// The rows whose values lie in ranges.
    fn words(
        &mut self,
        column: usize,
        list: &TreeList,
        ranges: &[Range],
        order: &str,
        codes: Option<String>,
    ) -> String {
        let number = self.trees(list);
        let (tree, fault) = (super::tree(number, list), self.fault(column));
        let used: usize = self.scratch.iter().map(|(_, _, bytes)| bytes).sum();
        let fits = used + list.test_bytes() <= MOST_TESTS;
        let leaves = list.leaves().filter(|_| list.word_bits() > 1);
        // Codes that pass need no range.
        let ranges = match list.tests_codes() {
            true => &[Range::default()],
            false => ranges,
        };
        if let ([range], true) = (ranges, leaves.is_none() || fits) {
            let literal = self.literal(&[range.low, range.high]);
            let codes = codes.unwrap_or_else(|| "nullptr".to_owned());
            let question = format!("Question{{args.range({literal}), {order}, {codes}}}");
            return self.test_of(column, list, &question, &question);
        }
        let literal = self.literal(&[0, ranges.len() as u64]);
        self.ranges.push((literal, ranges.to_vec()));
        let ranges = format!("args.ranges({literal}, {order})");
        let selection = if let Some((encodings, widths)) = leaves {
            let bits = list.word_bits();
            format!(
                "select_values<u{bits}, {encodings:#x}, {widths:#x}>(*({tree}), vector, {ranges}, \
                 scratch.patches)"
            )
        } else {
            let state = self.state(number, list);
            format!(
                "select_in_ranges<Reader{number}>({tree}, vector, {ranges}, {state}, scratch.patches, {fault})"
            )
        };
        if self.is_by_step { format!("by_step({selection})") } else { selection }
    }

    /// The rows of a vector that pass a question to the readers of a list of trees, which are prepared with
    /// the same one.
    pub(super) fn test_of(
        &mut self,
        column: usize,
        list: &TreeList,
        prepared: &str,
        question: &str,
    ) -> String {
        let number = self.trees(list);
        let (tree, fault) = (super::tree(number, list), self.fault(column));
        let name = format!("test{}", self.tests);
        self.tests += 1;
        let of = format!("Reader{number}::Test<SCAN_EACH>");
        let test = self.scratch(of, &name, list.test_bytes());
        let _ = writeln!(
            self.prepared,
            "    {test}.prepare({tree}, place.first, place.count, {prepared});"
        );
        let form = self.form();
        format!(
            "{form}<Reader{number}>({test}.select({tree}, vector, i, {question}, scratch.patches, \
             {fault}))"
        )
    }

    /// The rows that pass a test of strings, of those of variable `live`; it says anything of
    /// others.
    pub(super) fn strings(
        &mut self,
        column: usize,
        test: &BytesTest,
        live: &str,
    ) -> Result<String> {
        let tests = (self.tests_of.strings)(column, test)?;
        // The form's own kind in any case, so that literals which leave no chunk make no source.
        let kind = match test.form {
            BytesForm::OneOf(_) => abi::STRINGS_LITERALS,
            BytesForm::Automaton(_) => abi::STRINGS_BYTE_ROWS,
        };
        let lists = self.columns[column].lists.clone();
        let of = |list: &TreeList| list.leaves().unwrap_or_default();
        let (encodings, widths) = of(&lists[1]);
        let has_others = of(&lists[0]).0 != abi::encoding_bit(Encoding::Dict as u16);
        let kinds = if has_others { tests.kinds() | 1 << kind } else { 0 };
        self.walks_strings |= has_others;
        let [roots, its_lengths] = [0, 1].map(|at: usize| self.list(lists[at].start));
        let [values, its_lengths] =
            [roots, its_lengths].map(|list| format!("args.nodes[{list}][chunk]"));
        let literal = self.literal(&[0]);
        let status = self.status(column);
        self.strings.push((literal, tests, column));
        let not = if test.negated { "~" } else { "" };
        let codes = lists.get(2);
        if codes.is_some() && has_others {
            self.mixed_strings = Some(roots);
        }
        let (test, lengths) = self.strings_test(column, codes, has_others);
        let of_codes = codes.map(|codes| self.codes(column, codes, literal, &test));
        let of_strings = has_others.then(|| {
            format!(
                "scan_strings<{kinds:#x}, {encodings:#x}, {widths:#x}>(args, {values}, {its_lengths}, \
                 vector, args.tests({literal})[chunk], {status}, {live}, {lengths})"
            )
        });
        Ok(match (of_codes, of_strings) {
            (Some(codes), Some(strings)) => {
                format!("{not}({values}.encoding == DICT ? {codes} : {strings})")
            }
            (codes, strings) => format!("{not}{}", codes.or(strings).unwrap_or_default()),
        })
    }

    /// Shared memory of a test of strings: its test of codes (chunks of dict), and lengths (others). A
    /// chunk uses one of them, so the first test of a column has both in one place; the column's other
    /// tests use the same lengths.
    fn strings_test(
        &mut self,
        column: usize,
        codes: Option<&TreeList>,
        has_others: bool,
    ) -> (String, String) {
        let Some(codes) = codes else {
            let lengths = self.scratch("StoredLengths".to_owned(), "lengths", LENGTHS);
            return (String::new(), lengths);
        };
        let number = self.tests;
        self.tests += 1;
        let test = format!("Reader{}::Test<SCAN_EACH>", self.trees(codes));
        let (name, bytes) = (format!("test{number}"), codes.test_bytes());
        let known = self.lengths.iter().find(|(of, _)| *of == column);
        let known = known.map(|(_, lengths)| lengths.clone());
        if known.is_some() || !has_others {
            return (self.scratch(test, &name, bytes), known.unwrap_or_default());
        }
        let union = format!("StringsMemory{number}");
        let _ = writeln!(self.types, "union {union} {{ {test} codes; StoredLengths lengths; }};");
        let place = self.scratch(union, &name, bytes.max(LENGTHS));
        let lengths = format!("{place}.lengths");
        self.lengths.push((column, lengths.clone()));
        (format!("{place}.codes"), lengths)
    }

    /// The rows whose codes pass, of chunks of dict of strings, whose dictionaries have been tested.
    fn codes(&mut self, column: usize, list: &TreeList, literal: usize, test: &str) -> String {
        let number = self.trees(list);
        let (tree, fault) = (super::tree(number, list), self.fault(column));
        let question = format!("Question{{{{0, 0}}, UNSIGNED, args.tests({literal}) + chunk}}");
        let _ = writeln!(
            self.prepared,
            "    {test}.prepare({tree}, place.first, place.count, {question});"
        );
        format!(
            "selection_of<Reader{number}>({test}.select({tree}, vector, i, {question}, \
             scratch.patches, {fault}))"
        )
    }
}
