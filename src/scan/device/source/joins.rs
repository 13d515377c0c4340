//! Lookups in the source of a kernel: tests of keys, numbers and codes of rows
//! (`kernels/lanepack/lookup.cuh`).

use std::fmt::Write;
use std::sync::Arc;

use super::{Readers, Writer};
use crate::error::Result;
use crate::ranges::Order;
use crate::scan::join::{BoundJoin, JoinedColumn, Probe};
use crate::scan::lookup::LookupColumn;

impl Writer<'_> {
    /// Writes what leaves the rows of `live` whose key a lookup has.
    pub(super) fn probe(
        &mut self,
        probe: &Probe,
        live: &str,
        kept: &str,
        code: &mut String,
    ) -> Result<()> {
        let join = &probe.join;
        let mut readers = Readers::default();
        let key = self.key(join, &mut readers);
        let lookup = self.lookup(join)?;
        let test = match &probe.codes {
            None => format!("return has_key({lookup}, {key});"),
            Some(codes) => {
                let column = &join.table.columns[codes.column];
                let set = self.literal(&[0]);
                let bits = (codes.set.iter().collect::<Vec<_>>().chunks(64))
                    .map(|bits| bits.iter().rev().fold(0, |word, bit| word << 1 | u64::from(*bit)))
                    .collect();
                self.sets.push((set, bits));
                let (find, code) = (self.find(join, &lookup, &key)?, self.code(column));
                format!("u64 entry; return {find} && has_code(args.pointer<u32>({set}), {code});")
            }
        };
        let valid = self.valid(join.column);
        let rows = self.variable();
        let _ = writeln!(code, "const u32 {rows} = {live}{valid};\nu32 {kept} = 0;");
        let _ = writeln!(code, "if (any({rows})) {{");
        readers.write(code);
        let _ = writeln!(code, "{kept} = select_keys({rows}, [&](u32 at) {{ {test} }});\n}}");
        Ok(())
    }

    /// The key of a row.
    pub(super) fn key(&mut self, join: &BoundJoin, readers: &mut Readers) -> String {
        let value = self.reader(join.column, readers);
        match join.key.order {
            Order::Signed => {
                format!("static_cast<i64>(static_cast<i{}>({value}(at)))", join.key.bits)
            }
            _ => format!("static_cast<i64>({value}(at))"),
        }
    }

    /// The name of what looks up keys of a join.
    fn lookup(&mut self, join: &BoundJoin) -> Result<String> {
        let table = (self.tests_of.tables)(&join.table)?;
        let class = table.class(join.key, join.table.keys.bounds());
        let known = |(of, with): &(_, _)| Arc::ptr_eq(of, &table) && *with == class;
        let number = match self.lookups.iter().position(known) {
            Some(number) => number,
            None => {
                let (number, literal) = (self.lookups.len(), self.literal(table.words()));
                let _ = writeln!(
                    self.prepared,
                    "    [[maybe_unused]] const auto& lookup{number} = args.words<{class}>({literal});"
                );
                self.buffers.extend(table.buffers.iter().cloned());
                self.lookups.push((table, class));
                number
            }
        };
        Ok(format!("lookup{number}"))
    }

    /// What puts the entry of a row into `entry`, and says whether there is one.
    fn find(&mut self, join: &BoundJoin, lookup: &str, key: &str) -> Result<String> {
        Ok(match (self.tests_of.tables)(&join.table)?.entry_bytes {
            0 => format!("((entry = 0), has_key({lookup}, {key}))"),
            bytes => format!("find_entry<u{}>({lookup}, {key}, entry)", 8 * bytes),
        })
    }

    /// The code of a column of a lookup in `entry`.
    fn code(&mut self, column: &LookupColumn) -> String {
        // A field of no bits may begin behind the last one.
        let literal = self.literal(&[u64::from(column.shift.min(63)), column.mask()]);
        format!("args.words<CodeField>({literal}).of(entry)")
    }

    /// The code of a row in a column of a lookup; 0 of rows without one.
    fn joined_code(&mut self, joined: &JoinedColumn, readers: &mut Readers) -> Result<String> {
        let (join, column) = (&joined.join, joined.column());
        let key = self.key(join, readers);
        let lookup = self.lookup(join)?;
        Ok(match (self.tests_of.tables)(&join.table)?.entry_bytes {
            0 => "0u".to_owned(),
            bytes => {
                let literal = self.literal(&[u64::from(column.shift.min(63)), column.mask()]);
                format!(
                    "args.words<CodeField>({literal}).of(entry_of<u{}>({lookup}, {key}))",
                    8 * bytes
                )
            }
        })
    }

    /// The number of a row in a column of a lookup, as type `name`.
    pub(super) fn joined_number(
        &mut self,
        joined: &JoinedColumn,
        name: &str,
        readers: &mut Readers,
    ) -> Result<String> {
        let code = self.joined_code(joined, readers)?;
        let numbers = (self.tests_of.numbers)(joined)?;
        let literal = self.literal(&[numbers.buffer.pointer::<u8>().address()]);
        self.buffers.push(numbers.buffer);
        Ok(format!("static_cast<{name}>(args.pointer<{}>({literal})[{code}])", numbers.of))
    }

    /// The code of a row as a key of groups: null is 0 if there may be some, and others one more then.
    pub(super) fn joined_group(
        &mut self,
        joined: &JoinedColumn,
        readers: &mut Readers,
    ) -> Result<String> {
        if !joined.may_be_null() {
            return self.joined_code(joined, readers);
        }
        let (join, column) = (&joined.join, joined.column());
        let mut key = self.key(join, readers);
        let lookup = self.lookup(join)?;
        let find = self.find(join, &lookup, &key)?;
        let code = self.code(column);
        let null = self.literal(&[column.null.map_or(u64::MAX, |null| null as u64)]);
        key = match self.columns[join.column].validity.clone() {
            Some(list) => format!("{}(at) != 0", self.reader_of(join.column, &list, readers)),
            None => "true".to_owned(),
        };
        Ok(format!(
            "[&] {{ u64 entry; const bool has = ({key}) && {find}; const u32 code = has ? {code} : 0; \
             return or_null(has && code != args.literals[{null}], code); }}()"
        ))
    }
}
