//! Aggregates of kernels for queries: what becomes of the rows that a vector keeps.
//!
//! ```text
//! many rows   a loop over each thread's rows
//! few         `kernels/lanepack/scan_rows.cuh`, if values can be read row by row:
//!   any order   collected from all vectors of a warp, evaluated behind the last one
//!   floats      vector by vector, added in the order of rows of each thread
//! ```

use std::fmt::Write;

use super::{PATCHES, Place, Reach, Readers, SHARED, Scalar, Writer, order_name};
use crate::gpu::abi::{self, Reduction};
use crate::scan::aggregate::{Comparable, Input, Plan};

/// Shared memory of a warp for lists of rows (`RowList`, `OrderedRows`).
const ROW_LIST: usize = 1024;
const ORDERED_ROWS: usize = 384;

/// What a kernel adds up, of sums and bounds alike.
struct Sum {
    /// The number of the first of its partials.
    first: usize,
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
            columns.retain(|column| self.columns[*column].validity.is_some());
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
            let mut rows = kept.to_owned();
            let mut has_rows = "has_rows".to_owned();
            if !valid.is_empty() {
                rows = self.variable();
                let _ = writeln!(code, "const u32 {rows} = has_rows ? {kept}{valid} : 0;");
                has_rows = format!("any({rows})");
            }
            let count = self.partial(abi::REDUCE_SUM, 1);
            let _ = writeln!(code, "a{count}.add({rows});");
            self.of_warp("CountRows", count);
            let mut readers = Readers::default();
            let mut sums: Vec<Sum> = Vec::new();
            for index in aggregates {
                let own = self.aggregate(plans[index], reaches[index], &mut readers);
                let Some(mut sum) = own else {
                    places[index] = Place { count, first: count, words: 1 };
                    continue;
                };
                sum.first = self.partial(sum.kind, sum.words);
                places[index] = Place { count, first: sum.first, words: sum.words };
                sums.push(sum);
            }
            if !sums.is_empty() {
                self.add_up(count, (&rows, &has_rows), &readers, &sums, code);
            }
        }
        self.places = places;
    }

    /// Writes what adds the values of a vector's rows to sums of one group; `has_rows` is the
    /// condition that there are any.
    fn add_up(
        &mut self,
        group: usize,
        (rows, has_rows): (&str, &str),
        readers: &Readers,
        sums: &[Sum],
        code: &mut String,
    ) {
        let name = format!("Values{group}");
        let fields: String =
            sums.iter().map(|sum| format!("    {} v{};\n", sum.of, sum.first)).collect();
        let _ = writeln!(self.types, "struct {name} {{\n{fields}}};");
        let expressions: Vec<&str> = sums.iter().map(|sum| sum.value.as_str()).collect();
        let values = format!("{name}{{{}}}", expressions.join(", "));
        let adding = |sum: &Sum| format!("a{0}.add(values.v{0});\n", sum.first);
        let (ordered, free): (Vec<&Sum>, Vec<&Sum>) =
            sums.iter().partition(|sum| sum.class == "SumFloats");
        let add_free: String = free.iter().copied().map(adding).collect();

        free.iter().for_each(|sum| self.of_warp(&sum.class, sum.first));
        for sum in &ordered {
            let _ = writeln!(code, "SumFloats a{};", sum.first);
        }
        let _ = writeln!(code, "if ({has_rows}) {{");
        let used: usize = self.scratch.iter().map(|(_, _, bytes)| bytes).sum();
        let bytes = if ordered.is_empty() { ROW_LIST } else { ORDERED_ROWS };
        let is_listed = !readers.are_of_vectors && PATCHES + used + bytes <= SHARED / 8;
        let by_row: String = readers.by_row.iter().map(|line| format!("{line}\n")).collect();
        if is_listed && ordered.is_empty() {
            let list =
                self.scratch("RowList<SCAN_EACH>".to_owned(), &format!("rows{group}"), bytes);
            let _ = writeln!(code, "if (!{list}.append({rows}, i, listed{group})) {{");
            let _ = writeln!(self.prepared, "    u32 listed{group} = 0;");
            let _ = write!(
                self.listed,
                "if (listed{group} != 0) {{\n{by_row}{list}.add_each(listed{group}, place.first,\n\
                 [&](u32 at) {{ return {values}; }},\n\
                 [&](const {name}& values) {{\n{add_free}}});\n}}\n"
            );
        } else if is_listed {
            let list = self.scratch("OrderedRows".to_owned(), "ordered", bytes);
            let add_ordered: String = (ordered.iter())
                .map(|sum| format!("{list}.add(own, from, values.v{0}, a{0});\n", sum.first))
                .collect();
            let _ = write!(
                code,
                "if (are_few({rows})) {{\n\
                 const OrderedRows::Place own = {list}.list({rows});\n{by_row}\
                 #pragma unroll 1\n\
                 for (u32 from = 0; from < own.count; from += WARP) {{\n\
                 {name} values{{}};\n\
                 if (from + threadIdx.x % WARP < own.count) {{\n\
                 const u32 at = {list}.row(vector, from);\n\
                 values = {values};\n{add_free}}}\n{add_ordered}}}\n}} else {{\n"
            );
        }
        readers.write(code);
        let add_all: String = sums.iter().map(adding).collect();
        let _ = writeln!(
            code,
            "add_each_step({rows}, [&](u32 at) {{ return {values}; }},\n\
             [&](const {name}& values) {{\n{add_all}}});"
        );
        if is_listed {
            *code += "}\n";
        }
        for sum in &ordered {
            let _ = writeln!(code, "a{}.gather();", sum.first);
        }
        *code += "}\n";
        for sum in &ordered {
            let _ = writeln!(code, "put_partials(args, {0}, chunk, vector, a{0});", sum.first);
        }
    }

    /// An aggregate of all vectors of a warp.
    fn of_warp(&mut self, class: &str, first: usize) {
        let _ = writeln!(self.prepared, "    {class} a{first};");
        let _ = writeln!(
            self.finished,
            "    a{first}.gather();\n    put_partials_of_warp(args, {first}, place, a{first});"
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
            Input::Rows | Input::Valid(..) => return None,
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
                let value = self.reader(*column, readers);
                let value = format!("u64{{ordered({value}(at), {})}}", order_name(key.order));
                (kind, words, class, value)
            }
            Input::ColumnBounds(column, _) => {
                let (kind, words, class) = bound(2);
                (kind, words, class, format!("{}(at)", self.wide_reader(*column, readers)))
            }
        };
        let of = match class.as_str() {
            "SumFloats" => "double",
            "SumIntegers" => "i64",
            _ if words == 1 => "u64",
            _ => "i128",
        };
        Some(Sum { first: 0, kind, words, class, of, value })
    }
}
