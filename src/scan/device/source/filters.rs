//! Tests of one column in the source of a kernel: numbers in ranges, strings, and codes of
//! dictionaries, whose values have been tested before.

use std::fmt::Write;

use super::{MOST_PREPARED, Writer, order_name};
use crate::encoding::Encoding;
use crate::engine::nodes::NodeList;
use crate::engine::select::in_bits;
use crate::error::Result;
use crate::gpu::abi::{self, Range};
use crate::scan::device::shortest;
use crate::scan::predicate::{BytesForm, BytesTest, Test};
use crate::scan::ranges::{Key, Order};

impl Writer<'_> {
    /// The rows that pass a test.
    pub(super) fn test(&mut self, column: usize, test: &Test) -> Result<String> {
        let nodes = self.columns[column];
        let (key, ranges) = match test {
            Test::Words(key, ranges) => (*key, ranges.clone()),
            // Of one limb: it is a signed integer.
            Test::Wide(ranges) => (Key::LIMB, ranges.of_one_limb()),
            Test::Bytes(_) => unreachable!("strings are no words"),
        };
        let list = nodes.lists[0];
        let number = self.list(list.address);
        let node = format!("args.nodes[{number}][chunk]");
        if key.bits == 1 {
            let all = format!("select_true({node}, vector)");
            return Ok(match (ranges.contains(0), ranges.contains(1)) {
                (true, true) => "FULL".to_owned(),
                (false, true) => all,
                (true, false) => format!("~{all}"),
                (false, false) => "0".to_owned(),
            });
        }
        let (as_they_are, negated) = shortest(key, &ranges);
        let mut ranges = as_they_are.clone();
        let mut order = order_name(key.order);
        if key.bits == 16 && key.order == Order::Float {
            // Kernels know the bits of Float16 as integers.
            ranges = in_bits(&ranges);
            order = "UNSIGNED";
        }
        let not = if negated { "~" } else { "" };
        let dict = abi::encoding_bit(Encoding::Dict as u32);
        let looked_up = match list.encodings & dict {
            0 => None,
            _ => Some(self.looked_up(column, &as_they_are, &node)?),
        };
        let test = match (looked_up, list.encodings & !dict) {
            (Some(looked_up), 0) => looked_up,
            (looked_up, others) => {
                let mut list = list;
                list.encodings = others;
                let stored = self.stored(&node, key.bits, &list, &ranges, order);
                match looked_up {
                    None => stored,
                    Some(looked_up) => {
                        format!("({node}.encoding == DICT ? {looked_up} : {stored})")
                    }
                }
            }
        };
        Ok(format!("{not}{test}"))
    }

    /// The rows whose codes stand for a value in ranges, of chunks of dict.
    fn looked_up(&mut self, column: usize, ranges: &[Range], node: &str) -> Result<String> {
        let tests = (self.tests_of.words)(column, ranges)?;
        let literal = self.literal(&[0]);
        self.strings.push((literal, tests));
        self.tested.push(column);
        let widths = self.columns[column].lists[0].widths;
        Ok(format!("select_looked_up<{widths:#x}>({node}, vector, args.tests({literal})[chunk])"))
    }

    /// The rows whose values lie in ranges, of chunks of other encodings than dict.
    fn stored(
        &mut self,
        node: &str,
        bits: u32,
        list: &NodeList,
        ranges: &[Range],
        order: &str,
    ) -> String {
        let column = format!("u{bits}, {:#x}, {:#x}", list.encodings, list.widths);
        if let [range] = ranges
            && self.tests.len() < MOST_PREPARED
        {
            let literal = self.literal(&[range.low, range.high]);
            let test = self.tests.len();
            self.tests.push((bits, format!("RangeTest<{column}>")));
            let _ = writeln!(
                self.prepared,
                "    if ({node}.encoding != DICT) Test{test}::prepare({node}, place.first, \
                 place.count, args.range({literal}), {order}, scratch.test{test});"
            );
            return format!(
                "Test{test}::select({node}, vector, args.range({literal}), {order}, \
                 scratch.test{test}[i], scratch.patches)"
            );
        }
        let literal = self.literal(&[0, ranges.len() as u64]);
        self.ranges.push((literal, ranges.to_vec()));
        format!(
            "select_values<{column}>({node}, vector, args.ranges({literal}, {order}), \
             scratch.patches)"
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
        let [strings, lengths] = [0, 1].map(|list| self.columns[column].lists[list]);
        let dict = abi::encoding_bit(Encoding::Dict as u32);
        let mut kinds = tests.kinds();
        if strings.encodings & dict != 0 {
            kinds |= 1 << abi::STRINGS_CODES;
        }
        if strings.encodings & !dict != 0 {
            kinds |= 1 << kind;
        }
        let [values, its_lengths] = [strings, lengths]
            .map(|list| format!("args.nodes[{}][chunk]", self.list(list.address)));
        let literal = self.literal(&[0]);
        let number = self.strings.len();
        self.strings.push((literal, tests));
        self.tested.push(column);
        let not = if test.negated { "~" } else { "" };
        Ok(format!(
            "{not}scan_strings<{kinds:#x}, {:#x}>(args, {values}, {its_lengths}, vector, \
             args.tests({literal})[chunk], {number}, {live}, scratch.lengths)",
            lengths.widths
        ))
    }
}
