//! Groups in the source of a kernel: kept rows of a vector are added to a table of groups
//! (`kernels/lanepack/groups.cuh`).

use std::fmt::Write;
use std::sync::Arc;

use super::aggregates::{Added, Valid, bound_key};
use super::{Reach, Readers, Scalar, Writer, order_name};
use crate::device::DeviceColumn;
use crate::error::Result;
use crate::gpu::DeviceBuffer;
use crate::gpu::abi::{Header, constant};
use crate::scan::aggregate::{Comparable, Input, Plan};
use crate::scan::device::aggregate::{is_computed, reach_of};
use crate::scan::group::{GroupKey, Grouping, KeySource};
use crate::scan::number::Kind;

const HEADER: &Header = &Header::read(include_str!("../../../../kernels/lanepack/groups.cuh"));

/// Words of a table in the shared memory of a block: at most so many, and a multiple of this. What it does
/// not take the first-level cache has.
const MOST_IN_SHARED: usize = 1024;
const SHARED_UNIT: usize = 128;

/// The types of codes and numbers of groups.
pub(super) const U32: &str = "u32";
const U64: &str = "u64";

/// The words that an aggregate has in each group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::scan::device) enum GroupWords {
    /// Nothing but the number of rows.
    None,
    /// A sum that 64 bits hold.
    Narrow,
    /// A sum in digits of 32 bits.
    Wide,
    /// An exact sum of floats.
    Floats,
    Least,
    Greatest,
}

impl GroupWords {
    pub fn words(self) -> usize {
        match self {
            Self::None => 0,
            Self::Narrow | Self::Least | Self::Greatest => 1,
            Self::Wide => constant(HEADER, "INTEGER_DIGITS") as usize,
            Self::Floats => {
                (constant(HEADER, "FLOAT_DIGITS") + constant(HEADER, "FLOAT_COUNTS")) as usize
            }
        }
    }

    /// Those of an aggregate of so many rows; none if kernels do not compute it.
    fn of(plan: &Plan, columns: &[&DeviceColumn], rows: usize) -> Option<Self> {
        if !is_computed(plan, columns) {
            return None;
        }
        let bound = if plan.is_min() { Self::Least } else { Self::Greatest };
        match &plan.input {
            Input::Rows | Input::Valid(..) => Some(Self::None),
            Input::Sum(number, _) => Some(match number.kind {
                Kind::Float32 | Kind::Float64 => Self::Floats,
                // In doubt the wide one, which is right of all sums.
                Kind::Exact { .. } => match reach_of(plan, columns, rows) {
                    Ok(Reach::Narrow) => Self::Narrow,
                    _ => Self::Wide,
                },
            }),
            Input::Bounds(number, width) => {
                (Scalar::of(number, *width) != Scalar::I128).then_some(bound)
            }
            Input::ColumnBounds(_, Comparable::Words(_)) => Some(bound),
            Input::ColumnBounds(..) => None,
        }
    }
}

/// Where the words of an aggregate are in a table.
#[derive(Debug, Clone, Copy)]
pub(in crate::scan::device) struct GroupPlace {
    /// The word that has the number of its rows.
    pub count: usize,
    pub first: usize,
    pub kind: GroupWords,
}

/// The words of a table of groups. Word 0 is the number of rows.
#[derive(Debug)]
pub(in crate::scan::device) struct GroupLayout {
    pub places: Vec<GroupPlace>,
    /// Where sums end, and least keys.
    pub sums: usize,
    pub least: usize,
    pub words: usize,
    /// Aggregates by the word that has the number of their rows.
    sets: Vec<Set>,
}

/// Aggregates whose rows are those in which the same columns are valid.
#[derive(Debug)]
struct Set {
    valid: Valid,
    plans: Vec<usize>,
    count: usize,
}

impl GroupLayout {
    /// None if kernels do not compute one of the aggregates.
    pub fn new(plans: &[&Plan], columns: &[&DeviceColumn], rows: usize) -> Option<Self> {
        let mut sets = vec![Set { valid: Valid::default(), plans: Vec::new(), count: 0 }];
        let (mut kinds, mut counts) = (Vec::new(), Vec::new());
        for (index, plan) in plans.iter().enumerate() {
            kinds.push(GroupWords::of(plan, columns, rows)?);
            let valid = Valid::of(plan, |column| columns[column].null_count() > 0);
            let known = sets.iter().position(|set| set.valid.is_same(&valid));
            let at = known.unwrap_or_else(|| {
                let count = sets.len();
                sets.push(Set { valid, plans: Vec::new(), count });
                count
            });
            sets[at].plans.push(index);
            counts.push(at);
        }
        let place = |count| GroupPlace { count, first: 0, kind: GroupWords::None };
        let mut places: Vec<GroupPlace> = counts.into_iter().map(place).collect();
        let mut end = sets.len();
        let mut put = |wanted: fn(GroupWords) -> bool| {
            for (place, kind) in places.iter_mut().zip(&kinds).filter(|(_, kind)| wanted(**kind)) {
                (place.first, place.kind) = (end, *kind);
                end += kind.words();
            }
            end
        };
        let sums =
            put(|kind| matches!(kind, GroupWords::Narrow | GroupWords::Wide | GroupWords::Floats));
        let least = put(|kind| kind == GroupWords::Least);
        let words = put(|kind| kind == GroupWords::Greatest);
        Some(Self { places, sums, least, words, sets })
    }
}

/// The memory of a table of groups.
pub(in crate::scan::device) struct GroupMemory {
    pub words: Arc<DeviceBuffer>,
    /// Groups that there is room for: all numbers, or the slots of a hash table.
    pub groups: usize,
    pub slots: Option<SlotMemory>,
}

/// The memory of the slots of a hash table.
pub(in crate::scan::device) struct SlotMemory {
    pub numbers: Arc<DeviceBuffer>,
    /// A word that says whether the table is full, and one for the number of groups.
    pub status: Arc<DeviceBuffer>,
}

impl GroupMemory {
    pub fn buffers(&self) -> Vec<&Arc<DeviceBuffer>> {
        let of_slots = self.slots.iter().flat_map(|slots| [&slots.numbers, &slots.status]);
        std::iter::once(&self.words).chain(of_slots).collect()
    }
}

impl Writer<'_> {
    /// Writes the code that adds the kept rows of a vector to a table of groups.
    pub(super) fn groups(
        &mut self,
        grouping: Grouping<'_>,
        layout: &GroupLayout,
        memory: &GroupMemory,
        kept: &str,
        code: &mut String,
    ) -> Result<()> {
        let groups = memory.groups;
        let [sums, least, words] =
            [layout.sums, layout.least, layout.words].map(|word| word as u64);
        let address = memory.words.pointer::<u8>().address();
        let literal = self.literal(&[address, groups as u64, sums, least, words]);
        let _ = writeln!(
            self.begun,
            "    const GroupTable table{{{{reinterpret_cast<u64*>(args.literals[{0}]), static_cast<u32>(args.literals[{1}])}},\n\
             static_cast<u32>(args.literals[{2}]), static_cast<u32>(args.literals[{3}]), static_cast<u32>(args.literals[{4}])}};",
            literal,
            literal + 1,
            literal + 2,
            literal + 3,
            literal + 4
        );
        if let Some(slots) = &memory.slots {
            let [numbers, status] =
                [&slots.numbers, &slots.status].map(|buffer| buffer.pointer::<u8>().address());
            let literal = self.literal(&[numbers, groups as u64 - 1, status]);
            let _ = writeln!(
                self.begun,
                "    const GroupSlots slots{{reinterpret_cast<u64*>(args.literals[{literal}]), \
                 static_cast<u32>(args.literals[{}]),\n\
                 reinterpret_cast<u32*>(args.literals[{}])}};",
                literal + 1,
                literal + 2
            );
        }
        let size = (groups * layout.words).next_multiple_of(SHARED_UNIT);
        match size <= MOST_IN_SHARED && memory.slots.is_none() {
            true => {
                self.block_bytes = size * 8;
                let _ = writeln!(self.begun, "    LANEPACK_SHARED(u64[{size}], own);");
                let _ = writeln!(self.begun, "    const Groups groups = table.begin(own);");
                let _ = writeln!(self.ended, "    table.end(own);");
            }
            false => {
                let _ = writeln!(self.begun, "    const Groups& groups = table.groups;");
            }
        }
        let _ = writeln!(code, "const bool has_rows = any({kept});");
        for set in &layout.sets {
            let (rows, has_rows) = self.valid_rows(&set.valid, kept, code)?;
            let mut readers = Readers::default();
            let number = match memory.slots {
                Some(_) => format!("slots.of({})", self.group_number(grouping, U64, &mut readers)?),
                None => self.group_number(grouping, U32, &mut readers)?,
            };
            let mut added = Added::new(vec![("u32", "group".to_owned(), number)]);
            let _ = writeln!(added.free, "groups.add({}, values.group, u64{{1}});", set.count);
            for index in &set.plans {
                let (plan, place) = (grouping.plans[*index], layout.places[*index]);
                let Some((of, value)) = self.grouped_value(plan, place.kind, &mut readers)? else {
                    continue;
                };
                let function = match place.kind {
                    GroupWords::Least => "least",
                    GroupWords::Greatest => "greatest",
                    _ => "add",
                };
                let name = format!("v{}", place.first);
                let _ = writeln!(
                    added.free,
                    "groups.{function}({}, values.group, values.{name});",
                    place.first
                );
                added.values.push((of, name, value));
            }
            self.add_up(set.count, (&rows, &has_rows), &readers, &added, code);
        }
        Ok(())
    }

    /// The value of a row that is added, and its type; none for aggregates that only count.
    fn grouped_value(
        &mut self,
        plan: &Plan,
        kind: GroupWords,
        readers: &mut Readers,
    ) -> Result<Option<(&'static str, String)>> {
        if kind == GroupWords::None {
            return Ok(None);
        }
        Ok(Some(match &plan.input {
            Input::Sum(number, width) => {
                let value = self.number(number, *width, readers)?;
                match kind {
                    GroupWords::Floats => ("double", format!("static_cast<double>({value})")),
                    GroupWords::Narrow => ("i64", format!("static_cast<i64>({value})")),
                    _ => ("i128", format!("static_cast<i128>({value})")),
                }
            }
            Input::Bounds(number, width) => {
                let value = self.number(number, *width, readers)?;
                ("u64", bound_key(number, value))
            }
            Input::ColumnBounds(column, Comparable::Words(key)) => {
                let value = self.reader(*column, readers);
                ("u64", format!("u64{{ordered({value}(at), {})}}", order_name(key.order)))
            }
            _ => return Ok(None),
        }))
    }

    /// The number of a row's group, of type `of`.
    fn group_number(
        &mut self,
        grouping: Grouping<'_>,
        of: &'static str,
        readers: &mut Readers,
    ) -> Result<String> {
        let mut terms = Vec::new();
        for (key, stride) in grouping.keys.iter().zip(&grouping.numbering.strides) {
            let code = self.group_code(key, of, readers)?;
            terms.push(match stride {
                1 => code,
                stride => {
                    let literal = self.literal(&[*stride as u64]);
                    format!("static_cast<{of}>(args.literals[{literal}]) * {code}")
                }
            });
        }
        Ok(if terms.is_empty() { format!("{of}{{0}}") } else { terms.join(" + ") })
    }

    /// The code of a key of a row, of values of type `of`.
    pub(super) fn group_code(
        &mut self,
        key: &GroupKey,
        of: &'static str,
        readers: &mut Readers,
    ) -> Result<String> {
        let code = match &key.source {
            KeySource::Joined(joined) => return self.joined_group(joined, readers),
            KeySource::Words { column, key: words, least } => {
                let value = self.reader(*column, readers);
                let value = format!("u64{{ordered({value}(at), {})}}", order_name(words.order));
                self.code_above(&value, *least, key, (*column, of))
            }
            KeySource::Number { number, width, least } => {
                let value = self.number(number, *width, readers)?;
                let column = key.columns()[0];
                match Scalar::of(number, *width) {
                    Scalar::I128 => {
                        let least = self.integer(*least, Scalar::I128);
                        let codes = self.literal(&[key.values as u64]);
                        let outside = self.outside(column);
                        format!(
                            "code_of<{of}>(minus({value}, {least}), args.literals[{codes}], {outside})"
                        )
                    }
                    _ => {
                        let value = format!("static_cast<u64>({value})");
                        self.code_above(&value, *least as u64, key, (column, of))
                    }
                }
            }
            KeySource::Coded { column, codes } => {
                let list = self.columns[*column].lists[2].clone();
                let value = self.reader_of(*column, &list, readers);
                let literal = self.literal(&[codes.table.pointer::<u8>().address()]);
                self.buffers.push(codes.table.clone());
                format!(
                    "dictionary_code(args.pointer<u32>({literal}), chunk, {value}(at), {})",
                    self.outside(*column)
                )
            }
            KeySource::Strings { .. } => unreachable!("groups by strings are the CPU's"),
        };
        if !key.has_nulls {
            return Ok(code);
        }
        let mut valid = Vec::new();
        for column in key.columns() {
            if let Some(list) = self.columns[column].validity.clone() {
                valid.push(format!("{}(at) != 0", self.reader_of(column, &list, readers)));
            }
        }
        Ok(match valid.is_empty() {
            true => format!("({code} + 1)"),
            false => format!("({} ? {code} + 1 : 0)", valid.join(" && ")),
        })
    }

    /// The code, of a type, of a value above the least one of a key; if it is outside of the bounds,
    /// `column` is damaged.
    fn code_above(
        &mut self,
        value: &str,
        least: u64,
        key: &GroupKey,
        (column, of): (usize, &'static str),
    ) -> String {
        let literal = self.literal(&[least, key.values as u64]);
        let outside = self.outside(column);
        format!(
            "code_of<{of}>({value}, args.literals[{literal}], args.literals[{}], {outside})",
            literal + 1
        )
    }

    /// The name of the flag that a value of a column is outside of the column's bounds.
    pub(super) fn outside(&mut self, column: usize) -> String {
        let status = self.status(column);
        if !self.bounded.contains(&status) {
            self.bounded.push(status);
            let _ = writeln!(self.prepared, "    bool outside{status} = false;");
            let _ = writeln!(
                self.finished,
                "    if (__any_sync(FULL, outside{status})) fault{status} = FAULT_BOUNDS;"
            );
        }
        format!("outside{status}")
    }
}
