//! Aggregates of kernels for queries: what becomes of the rows that a vector keeps.

use std::fmt::Write;

use super::{Place, Reach, Readers, Scalar, Writer, order_name};
use crate::gpu::abi::{self, Reduction};
use crate::scan::aggregate::{Comparable, Input, Plan};

/// What a kernel adds up, of sums and bounds alike.
struct Sum {
    /// How partials are reduced, and their words.
    kind: u32,
    words: usize,
    /// The class that makes partials, the type of what is added to it, and that itself.
    class: String,
    of: &'static str,
    value: String,
}

impl Writer<'_> {
    /// Writes what makes the partials of a vector from its kept rows.
    pub(super) fn aggregates(
        &mut self,
        plans: &[&Plan],
        reaches: &[Reach],
        kept: &str,
        code: &mut String,
    ) {
        // Aggregates by the columns that have to be valid: (columns, aggregates).
        let mut groups: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
        for (index, plan) in plans.iter().enumerate() {
            let mut columns = plan.input.columns();
            columns.retain(|column| self.columns[*column].has_nulls);
            columns.sort_unstable();
            match groups.iter_mut().find(|(of, _)| *of == columns) {
                Some((_, aggregates)) => aggregates.push(index),
                None => groups.push((columns, vec![index])),
            }
        }
        let mut places = vec![Place { count: 0, first: 0, words: 1 }; plans.len()];
        let _ = writeln!(code, "const bool has_rows = any({kept});");
        for (columns, aggregates) in groups {
            let valid: String = columns.iter().map(|column| self.valid(*column)).collect();
            let rows = self.variable();
            let _ = writeln!(code, "const u32 {rows} = has_rows ? {kept}{valid} : 0;");
            let count = self.partial(abi::REDUCE_SUM, 1);
            let _ = writeln!(code, "a{count}.add({rows});");
            self.of_warp("CountRows", count);
            let mut readers = Readers::default();
            let (mut declared, mut fields, mut values) = (String::new(), String::new(), Vec::new());
            let (mut added, mut gathered, mut put) = (String::new(), String::new(), String::new());
            for index in aggregates {
                let own = self.aggregate(plans[index], reaches[index], &mut readers);
                let Some(Sum { kind, words, class, of, value }) = own else {
                    places[index] = Place { count, first: count, words: 1 };
                    continue;
                };
                let first = self.partial(kind, words);
                places[index] = Place { count, first, words };
                let _ = writeln!(fields, "{of} v{first};");
                let _ = writeln!(added, "a{first}.add(values.v{first});");
                values.push(value);
                if class == "SumIntegers" {
                    self.of_warp(&class, first);
                    continue;
                }
                let _ = writeln!(declared, "{class} a{first};");
                let _ = writeln!(gathered, "a{first}.gather();");
                let _ = writeln!(put, "put_partials(args, {first}, chunk, vector, a{first});");
            }
            if values.is_empty() {
                continue;
            }
            *code += &declared;
            let _ = writeln!(code, "if (any({rows})) {{");
            readers.write(code);
            let class = format!("Values{count}");
            let _ = writeln!(code, "struct {class} {{\n{fields}}};");
            let _ = writeln!(
                code,
                "add_each_step({rows}, [&](u32 step) {{ return {class}{{{}}}; }},\n\
                 [&](const {class}& values) {{\n{added}}});",
                values.join(", ")
            );
            let _ = writeln!(code, "{gathered}}}\n{put}");
        }
        self.places = places;
    }

    /// An aggregate of all vectors of a warp.
    fn of_warp(&mut self, class: &str, first: usize) {
        let _ = writeln!(self.prepared, "    {class} a{first};");
        let _ = writeln!(
            self.finished,
            "    a{first}.gather();\n    put_partial_of_warp(args, {first}, place, a{first});"
        );
    }

    /// The number of the first of the partials of an aggregate.
    fn partial(&mut self, kind: u32, words: usize) -> usize {
        let first = self.partials;
        self.partials += words;
        self.reductions.push(Reduction { first: first as u32, kind });
        first
    }

    /// What an aggregate becomes; nothing for one that is a number of rows.
    fn aggregate(&mut self, plan: &Plan, reach: Reach, readers: &mut Readers) -> Option<Sum> {
        let is_min = plan.is_min();
        let bound = |words: usize| {
            let kind = match (words, is_min) {
                (1, true) => abi::REDUCE_LEAST,
                (1, false) => abi::REDUCE_GREATEST,
                (_, true) => abi::REDUCE_WIDE_LEAST,
                (_, false) => abi::REDUCE_WIDE_GREATEST,
            };
            (kind, words, format!("Bound<{words}, {is_min}>"))
        };
        let (kind, words, class, value) = match &plan.input {
            Input::Rows | Input::Valid(_) => return None,
            Input::Sum(number, width) => {
                let value = self.number(number, *width, readers);
                let (kind, words, class, value) = match (Scalar::of(number, *width), reach) {
                    (Scalar::F32 | Scalar::F64, _) => {
                        let value = format!("static_cast<double>({value})");
                        (abi::REDUCE_FLOAT_SUM, 1, "SumFloats", value)
                    }
                    (Scalar::I64, Reach::Narrow) => (abi::REDUCE_SUM, 1, "SumIntegers", value),
                    _ => {
                        let value = format!("static_cast<i128>({value})");
                        (abi::REDUCE_WIDE_SUM, 3, "SumWide", value)
                    }
                };
                (kind, words, class.to_owned(), value)
            }
            Input::Bounds(number, width) => {
                let value = self.number(number, *width, readers);
                let scalar = Scalar::of(number, *width);
                let (kind, words, class) = bound(if scalar == Scalar::I128 { 2 } else { 1 });
                let value = match scalar {
                    Scalar::I128 => value,
                    Scalar::I64 => format!("ordered(static_cast<u64>({value}), SIGNED)"),
                    _ => format!("static_cast<u64>(order_key({value}))"),
                };
                (kind, words, class, value)
            }
            Input::ColumnBounds(column, Comparable::Words(key)) => {
                let (kind, words, class) = bound(1);
                let value = if key.bits == 1 {
                    let list = self.list(self.columns[*column].lists[0].address);
                    let bits = format!("select_true(args.nodes[{list}][chunk], vector)");
                    let name = readers.declare(format!("b{list}"), "u32".to_owned(), bits);
                    format!("u64{{{name} >> step & 1}}")
                } else {
                    let value = self.reader(*column, readers);
                    format!("u64{{ordered({value}(step), {})}}", order_name(key.order))
                };
                (kind, words, class, value)
            }
            Input::ColumnBounds(column, _) => {
                let (kind, words, class) = bound(2);
                (kind, words, class, format!("{}(step)", self.wide_reader(*column, readers)))
            }
        };
        let of = match class.as_str() {
            "SumFloats" => "double",
            "SumIntegers" => "i64",
            _ if words == 1 => "u64",
            _ => "i128",
        };
        Some(Sum { kind, words, class, of, value })
    }
}
