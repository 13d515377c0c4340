//! The source of a kernel that builds a lookup: kept rows of a vector are added to its table
//! (`LookupBuilder` of `kernels/lanepack/lookup.cuh`).

use std::fmt::Write;
use std::sync::Arc;

use super::aggregates::Added;
use super::groups::U32;
use super::{Readers, Writer};
use crate::error::Result;
use crate::gpu::DeviceBuffer;
use crate::gpu::abi::LookupMemory;
use crate::ranges::Key;
use crate::scan::group::GroupKey;

/// The table that rows are added to.
pub(in crate::scan::device) struct LookupTarget<'a> {
    pub memory: LookupMemory,
    /// The column of the keys, and how these are ordered.
    pub column: usize,
    pub key: Key,
    /// Columns whose codes are fields of entries, and where these begin.
    pub columns: &'a [GroupKey],
    pub shifts: &'a [u32],
    pub entry_bytes: usize,
    /// Of bits, entries, and what is found beside.
    pub buffers: [&'a Arc<DeviceBuffer>; 3],
}

impl Writer<'_> {
    /// Writes the code that adds the kept rows of a vector to a table.
    pub(super) fn lookup_rows(
        &mut self,
        target: &LookupTarget<'_>,
        kept: &str,
        code: &mut String,
    ) -> Result<()> {
        let words: &[u64] = bytemuck::cast_slice(std::slice::from_ref(&target.memory));
        let literal = self.literal(words);
        let _ = writeln!(
            self.prepared,
            "    const auto& builder = args.words<LookupBuilder>({literal});\n    u32 built = 0;"
        );
        let _ = writeln!(self.finished, "    builder.count(built);");
        self.looks_up = true;
        let valid = self.valid(target.column);
        let rows = self.variable();
        let _ = writeln!(code, "const u32 {rows} = {kept}{valid};");
        let _ = writeln!(code, "built += static_cast<u32>(__popc({rows}));");

        let mut readers = Readers::default();
        let key = self.key_of(target.column, target.key, &mut readers);
        let mut added = Added::new(vec![("i64", "key".to_owned(), key)]);
        let outside = self.outside(target.column);
        let (mut entry, mut first) = ("u64{0}".to_owned(), 0_u64);
        for (number, (column, shift)) in target.columns.iter().zip(target.shifts).enumerate() {
            let code = self.group_code(column, U32, &mut readers)?;
            let name = format!("c{number}");
            let literal = self.literal(&[u64::from((*shift).min(63)), first]);
            let _ = write!(entry, " | u64{{values.{name}}} << args.literals[{literal}]");
            let mark = format!("builder.mark(args.literals[{}], values.{name});", literal + 1);
            let _ = writeln!(added.free, "{mark}");
            added.values.push(("u32", name, code));
            first += column.codes() as u64;
        }
        let _ = match target.entry_bytes {
            0 => writeln!(added.free, "builder.add(values.key, {outside});"),
            bytes => {
                writeln!(added.free, "builder.add<u{}>(values.key, {entry}, {outside});", 8 * bytes)
            }
        };
        self.add_up(0, (&rows, &format!("any({rows})")), &readers, &added, code);
        Ok(())
    }
}
