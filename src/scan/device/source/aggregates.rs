//! Aggregates of kernels for queries: what becomes of the rows that a vector keeps.
//!
//! ```text
//! many rows   a loop over each thread's rows
//! few         `kernels/lanepack/scan_rows.cuh`:
//!   any order   collected from all vectors of a warp, evaluated behind the last one; vector by vector
//!               if values cannot be read row by row
//!   floats      vector by vector, added in the order of rows of each thread, if values can
//! ```

use std::fmt::Write;

use super::{PATCHES, Place, Reach, Readers, SHARED, Scalar, Writer, order_name};
use crate::error::Result;
use crate::gpu::abi::{self, Reduction};
use crate::scan::aggregate::{Comparable, Input, Plan, RowFilter};
use crate::scan::join::JoinedColumn;
use crate::scan::number::{Kind, Number};

/// Shared memory of a warp for lists of rows (`RowList`, `OrderedRows`, `ListedRows`).
const ROW_LIST: usize = 1024;
const ORDERED_ROWS: usize = 384;
const VECTOR_ROWS: usize = 128;

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

/// The rows of an aggregate: columns, and columns of lookups, that may have nulls and must be valid there,
/// and its filter.
#[derive(Debug, Default)]
pub(super) struct Valid {
    columns: Vec<usize>,
    joined: Vec<JoinedColumn>,
    filter: Option<RowFilter>,
}

impl Valid {
    pub fn of(plan: &Plan, has_nulls: impl Fn(usize) -> bool) -> Self {
        let mut columns = plan.input.columns();
        columns.retain(|column| has_nulls(*column));
        columns.sort_unstable();
        let joined = plan.input.joined_columns().into_iter();
        let joined = joined.filter(|column| column.may_be_null()).cloned().collect();
        Self { columns, joined, filter: plan.filter.clone() }
    }

    pub fn is_same(&self, other: &Self) -> bool {
        self.columns == other.columns
            && self.joined.len() == other.joined.len()
            && self.joined.iter().zip(&other.joined).all(|(one, other)| one.is_same(other))
            && match (&self.filter, &other.filter) {
                (Some(one), Some(other)) => one.is_same(other),
                (one, other) => one.is_none() && other.is_none(),
            }
    }
}

/// What is added up of the rows of a vector.
pub(super) struct Added {
    /// The type of each value, its name, and the value of a row.
    pub values: Vec<(&'static str, String, String)>,
    /// What adds `values` of a row to what has no order.
    pub free: String,
    /// The numbers of sums of floats, which have one.
    ordered: Vec<usize>,
}

impl Added {
    pub fn new(values: Vec<(&'static str, String, String)>) -> Self {
        Self { values, free: String::new(), ordered: Vec::new() }
    }
}

/// What numbers of up to 64 bits are compared by.
pub(super) fn bound_key(number: &Number, value: String) -> String {
    match number.kind {
        Kind::Exact { .. } => format!("ordered(static_cast<u64>({value}), SIGNED)"),
        _ => format!("static_cast<u64>(order_key({value}))"),
    }
}

impl Writer<'_> {
    /// Writes what makes the partials of a vector from its kept rows.
    pub(super) fn aggregates(
        &mut self,
        plans: &[&Plan],
        reaches: &[Reach],
        kept: &str,
        code: &mut String,
    ) -> Result<()> {
        // Aggregates by the columns that have to be valid: (columns, aggregates).
        let mut groups: Vec<(Valid, Vec<usize>)> = Vec::new();
        for (index, plan) in plans.iter().enumerate() {
            let valid = Valid::of(plan, |column| self.columns[column].validity.is_some());
            match groups.iter_mut().find(|(of, _)| of.is_same(&valid)) {
                Some((_, aggregates)) => aggregates.push(index),
                None => groups.push((valid, vec![index])),
            }
        }
        let mut places = vec![Place { count: 0, first: 0, words: 1 }; plans.len()];
        let _ = writeln!(code, "const bool has_rows = any({kept});");
        for (valid, aggregates) in groups {
            let (rows, has_rows) = self.valid_rows(&valid, kept, code)?;
            let count = self.partial(abi::REDUCE_SUM, 1);
            let _ = writeln!(code, "a{count}.add({rows});");
            self.of_warp("CountRows", count);
            let mut readers = Readers::default();
            let mut sums: Vec<Sum> = Vec::new();
            for index in aggregates {
                let own = self.aggregate(plans[index], reaches[index], &mut readers)?;
                let Some(mut sum) = own else {
                    places[index] = Place { count, first: count, words: 1 };
                    continue;
                };
                sum.first = self.partial(sum.kind, sum.words);
                places[index] = Place { count, first: sum.first, words: sum.words };
                sums.push(sum);
            }
            if !sums.is_empty() {
                self.add_sums(count, (&rows, &has_rows), &readers, &sums, code);
            }
        }
        self.places = places;
        Ok(())
    }

    /// Writes what leaves the kept rows that an aggregate is of: the variable that has them, and the
    /// condition that there are any. `has_rows` says whether any are kept.
    pub(super) fn valid_rows(
        &mut self,
        valid: &Valid,
        kept: &str,
        code: &mut String,
    ) -> Result<(String, String)> {
        let (mut rows, mut has_rows) = (kept.to_owned(), "has_rows".to_owned());
        let of_columns: String = valid.columns.iter().map(|column| self.valid(*column)).collect();
        if !of_columns.is_empty() {
            rows = self.variable();
            let _ = writeln!(code, "const u32 {rows} = has_rows ? {kept}{of_columns} : 0;");
            has_rows = format!("any({rows})");
        }
        for joined in &valid.joined {
            rows = self.select(&joined.valid(), &rows, code)?;
            has_rows = format!("any({rows})");
        }
        if let Some(filter) = &valid.filter {
            let of_filter = self.variable();
            let _ = writeln!(code, "u32 {of_filter} = 0;\nif ({has_rows}) {{");
            let kept = self.select(&filter.predicate, &rows, code)?;
            let _ = writeln!(code, "{of_filter} = {kept};\n}}");
            (rows, has_rows) = (of_filter.clone(), format!("any({of_filter})"));
        }
        Ok((rows, has_rows))
    }

    /// Writes what adds the values of a vector's rows to sums, and their partials.
    fn add_sums(
        &mut self,
        group: usize,
        rows: (&str, &str),
        readers: &Readers,
        sums: &[Sum],
        code: &mut String,
    ) {
        let value = |sum: &Sum| (sum.of, format!("v{}", sum.first), sum.value.clone());
        let mut added = Added::new(sums.iter().map(value).collect());
        for sum in sums {
            let first = sum.first;
            if sum.class == "SumFloats" {
                added.ordered.push(first);
                let _ = writeln!(code, "SumFloats a{first};");
            } else {
                self.of_warp(&sum.class, first);
                let _ = writeln!(added.free, "a{first}.add(values.v{first});");
            }
        }
        self.add_up(group, rows, readers, &added, code);
        for first in added.ordered {
            let _ = writeln!(code, "put_partials(args, {first}, chunk, vector, a{first});");
        }
    }

    /// Writes what adds the values of a vector's rows to sums of one group of columns; `has_rows` is the
    /// condition that there are any.
    pub(super) fn add_up(
        &mut self,
        group: usize,
        (rows, has_rows): (&str, &str),
        readers: &Readers,
        added: &Added,
        code: &mut String,
    ) {
        let Added { values, free: add_free, ordered } = added;
        let name = format!("Values{group}");
        let fields: String =
            values.iter().map(|(of, field, _)| format!("    {of} {field};\n")).collect();
        let _ = writeln!(self.types, "struct {name} {{\n{fields}}};");
        let expressions: Vec<&str> = values.iter().map(|(.., value)| value.as_str()).collect();
        let values = format!("{name}{{{}}}", expressions.join(", "));
        let _ = writeln!(code, "if ({has_rows}) {{");
        let used: usize = self.scratch.iter().map(|(_, _, bytes)| bytes).sum();
        let bytes = match (readers.are_of_vectors, ordered.is_empty()) {
            (true, _) => VECTOR_ROWS,
            (false, true) => ROW_LIST,
            (false, false) => ORDERED_ROWS,
        };
        // Ordered sums of such values are added step by step.
        let can_list = match readers.are_of_vectors {
            true => !readers.have_steps_alone && ordered.is_empty(),
            false => true,
        };
        let is_listed = can_list && PATCHES + used + bytes <= SHARED / 8;
        let by_row: String = readers.by_row.iter().map(|line| format!("{line}\n")).collect();
        if is_listed && readers.are_of_vectors {
            let list = self.scratch("ListedRows".to_owned(), "rows_of_vector", bytes);
            let _ = write!(
                code,
                "if (are_few({rows})) {{\n{by_row}{list}.add_each({rows}, vector,\n\
                 [&](u32 at) {{ return {values}; }},\n\
                 [&](const {name}& values) {{\n{add_free}}});\n}} else {{\n"
            );
        } else if is_listed && ordered.is_empty() {
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
                .map(|first| format!("{list}.add(own, from, values.v{first}, a{first});\n"))
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
        let add_ordered: String =
            ordered.iter().map(|first| format!("a{first}.add(values.v{first});\n")).collect();
        let _ = writeln!(
            code,
            "add_each_step({rows}, [&](u32 at) {{ return {values}; }},\n\
             [&](const {name}& values) {{\n{add_free}{add_ordered}}});"
        );
        if is_listed {
            *code += "}\n";
        }
        for first in ordered {
            let _ = writeln!(code, "a{first}.gather();");
        }
        *code += "}\n";
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
    fn aggregate(
        &mut self,
        plan: &Plan,
        reach: Reach,
        readers: &mut Readers,
    ) -> Result<Option<Sum>> {
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
            Input::Rows | Input::Valid(..) => return Ok(None),
            Input::Sum(number, width) => {
                let value = self.number(number, *width, readers)?;
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
                let value = self.number(number, *width, readers)?;
                let scalar = Scalar::of(number, *width);
                let (kind, words, class) = bound(if scalar == Scalar::I128 { 2 } else { 1 });
                let value = match scalar {
                    Scalar::I128 => value,
                    _ => bound_key(number, value),
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
        Ok(Some(Sum { first: 0, kind, words, class, of, value }))
    }
}
