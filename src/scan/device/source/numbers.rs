//! Numbers of rows in the source of a kernel: arithmetic, and readers of columns.

use super::{Readers, Scalar, Writer, tree};
use crate::decode::trees::TreeList;
use crate::error::Result;
use crate::ranges::Order;
use crate::scan::expr::{DatePart, Operator};
use crate::scan::number::{Form, Kind, Number, Width, power_as_float};

impl Writer<'_> {
    /// What computes a number of a row, with integers of this width.
    pub(super) fn number(
        &mut self,
        number: &Number,
        width: Width,
        readers: &mut Readers,
    ) -> Result<String> {
        let steps = self.steps(number, width, readers)?;
        Ok(match number.is_computed() && !matches!(number.kind, Kind::Exact { .. }) {
            true => format!("with_one_nan({steps})"),
            false => steps,
        })
    }

    /// The same with NaN as the processor makes it.
    pub(super) fn steps(
        &mut self,
        number: &Number,
        width: Width,
        readers: &mut Readers,
    ) -> Result<String> {
        let scalar = Scalar::of(number, width);
        let name = scalar.name();
        Ok(match &number.form {
            Form::Null => format!("{name}{{0}}"),
            Form::Integer(value) => self.integer(*value, scalar),
            Form::Float(value) => {
                let literal = self.literal(&[value.to_bits()]);
                format!("static_cast<{name}>(args.number({literal}))")
            }
            Form::Words(column, key) => {
                let value = self.reader(*column, readers);
                match (key.order, key.bits) {
                    (Order::Float, 32) => format!("__uint_as_float({value}(at))"),
                    (Order::Float, _) => {
                        format!("__longlong_as_double(static_cast<i64>({value}(at)))")
                    }
                    (Order::Signed, bits) => {
                        format!("static_cast<{name}>(static_cast<i{bits}>({value}(at)))")
                    }
                    (Order::Unsigned, _) => format!("static_cast<{name}>({value}(at))"),
                }
            }
            // Where 64 bits hold all values, the lowest word does.
            Form::Wide(column) if scalar == Scalar::I64 => {
                let value = self.reader(*column, readers);
                format!("static_cast<i64>({value}(at))")
            }
            Form::Wide(column) => format!("{}(at)", self.wide_reader(*column, readers)),
            Form::Joined(joined) => self.joined_number(joined, name, readers)?,
            Form::Operation(operator, left, right) => {
                let function = match operator {
                    Operator::Add => "plus",
                    Operator::Subtract => "minus",
                    Operator::Multiply => "times",
                    Operator::Divide => "quotient",
                    Operator::Remainder => "remainder",
                };
                let left = self.steps(left, width, readers)?;
                let right = self.steps(right, width, readers)?;
                format!("{function}({left}, {right})")
            }
            Form::Negative(inner) => {
                format!("negative({})", self.steps(inner, width, readers)?)
            }
            Form::Part(part, inner, per_day) => {
                let function = match part {
                    DatePart::Year => "year_of",
                    DatePart::Month => "month_of",
                    DatePart::Day => "day_of",
                };
                let value = self.steps(inner, Width::Bits64, readers)?;
                let per_day = self.integer((*per_day).into(), Scalar::I64);
                format!("static_cast<{name}>({function}({value}, {per_day}))")
            }
            Form::Scaled(inner, factor) => {
                let inner = self.steps(inner, width, readers)?;
                format!("times({inner}, {})", self.integer(*factor, scalar))
            }
            Form::Float64(inner) => {
                let value = self.steps(inner, width, readers)?;
                let Kind::Exact { scale } = inner.kind else {
                    return Ok(format!("static_cast<double>({value})"));
                };
                let power = self.literal(&[power_as_float(scale).to_bits()]);
                let function = if scale >= 0 { "quotient" } else { "times" };
                format!("{function}(to_double({value}), args.number({power}))")
            }
        })
    }

    pub(super) fn integer(&mut self, value: i128, scalar: Scalar) -> String {
        let words = [value as u64, (value >> 64) as u64];
        match scalar {
            Scalar::I128 => format!("args.wide_integer({})", self.literal(&words)),
            _ => format!("args.integer({})", self.literal(&words[..1])),
        }
    }

    /// The name of what reads the words of a column, of wide ones the lowest.
    pub(super) fn reader(&mut self, column: usize, readers: &mut Readers) -> String {
        let list = self.columns[column].lists[0].clone();
        self.reader_of(column, &list, readers)
    }

    /// The same of a list of trees of a column.
    pub(super) fn reader_of(
        &mut self,
        column: usize,
        list: &TreeList,
        readers: &mut Readers,
    ) -> String {
        let number = self.trees(list);
        let state = self.state(number, list);
        let fault = self.fault(column);
        let (name, tree) = (format!("v{number}"), tree(number, list));
        match list.is_random() {
            true => {
                readers.declare_by_row(format!("const RowValues<Reader{number}> {name}{{{tree}}};"))
            }
            false => {
                readers.are_of_vectors = true;
                readers.declare_by_row(format!(
                    "const RowsOfVector<Reader{number}::Values> {name}{{Reader{number}::Values({tree}, \
                     vector, {state}, scratch.patches, {fault})}};"
                ));
            }
        }
        readers.declare(
            name,
            format!("Reader{number}::Values"),
            format!("{tree}, vector, {state}, scratch.patches, {fault}"),
        )
    }

    /// Shared memory for values of a list of trees.
    pub(super) fn state(&mut self, number: usize, list: &TreeList) -> String {
        let of = format!("Reader{number}::State");
        self.scratch(of, &format!("state{number}"), list.state_bytes())
    }

    /// The name of what reads the values of a column of 128 bits.
    pub(super) fn wide_reader(&mut self, column: usize, readers: &mut Readers) -> String {
        let lists = self.columns[column].lists.clone();
        let low = self.trees(&lists[0]);
        let (high_tree, high_reader, bytes) = match lists.get(1) {
            Some(list) => {
                let high = self.trees(list);
                (tree(high, list), format!("Reader{high}"), list.state_bytes())
            }
            // The sign of the lowest word needs no nodes.
            None => ("nullptr".to_owned(), "SignWord".to_owned(), 8),
        };
        let values = format!("WideValues<Reader{low}, {high_reader}>");
        let bytes = bytes.next_multiple_of(8) + lists[0].state_bytes();
        let state = self.scratch(format!("{values}::State"), &format!("wide{low}"), bytes);
        let fault = self.fault(column);
        let (name, low_tree) = (format!("w{low}"), tree(low, &lists[0]));
        match lists.iter().all(TreeList::is_random) {
            true => readers.declare_by_row(format!(
                "const WideRowValues<Reader{low}, {high_reader}> {name}{{{low_tree}, {high_tree}}};"
            )),
            false => {
                readers.are_of_vectors = true;
                readers.have_steps_alone = true;
            }
        }
        readers.declare(
            name,
            values,
            format!("{low_tree}, {high_tree}, vector, {state}, scratch.patches, {fault}"),
        )
    }
}
