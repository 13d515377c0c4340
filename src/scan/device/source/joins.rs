//! Joins in the source of a kernel: tests of keys, and numbers and codes of joined rows
//! (`kernels/lanepack/lookup.cuh`).

use std::fmt::Write;
use std::sync::Arc;

use super::{MOST_TESTS, ROWS, Readers, Writer};
use crate::decode::trees::TreeList;
use crate::error::Result;
use crate::ranges::{Key, Order};
use crate::scan::device::select::CodeTests;
use crate::scan::join::{BoundJoin, JoinedColumn, Probe};
use crate::scan::lookup::LookupColumn;

impl Writer<'_> {
    /// Writes the test of the keys of rows `live`, which keeps those that a lookup has:
    ///
    /// ```text
    /// dictionaries   their values are looked up before; rows by codes
    /// packed, runs   the reader's test, as long as many rows are left
    /// others         row by row
    /// ```
    pub(super) fn probe(
        &mut self,
        probe: &Probe,
        live: &str,
        kept: &str,
        code: &mut String,
    ) -> Result<()> {
        let join = &probe.join;
        let list = self.columns[join.column].lists[0].clone();
        let valid = self.valid(join.column);
        let rows = self.variable();
        let _ = writeln!(code, "const u32 {rows} = {live}{valid};\nu32 {kept} = 0;");
        let used: usize = self.scratch.iter().map(|(_, _, bytes)| bytes).sum();
        // Tests of keys of leaves need no memory.
        let test_bytes = if list.leaves().is_some() { 0 } else { list.test_bytes() };
        let fits = used + test_bytes <= MOST_TESTS;
        if live == ROWS && !list.asks_codes() {
            let bytes = (self.tests_of.tables)(&join.table)?.key_bytes();
            self.cache_bytes = self.cache_bytes.saturating_add(bytes);
        }
        if list.asks_codes() && fits {
            let (test, codes) = self.test_of_codes(probe, &list)?;
            let _ = writeln!(code, "if (any({rows})) {{\n{kept} = {rows} & {test};");
            if !list.tests_codes() {
                // This chunk has no dictionary.
                let _ = writeln!(code, "if ({codes}->kind == STRINGS_NONE) {{");
                self.probe_rows(probe, &rows, kept, code)?;
                *code += "}\n";
            }
            *code += "}\n";
        } else if probe.codes.is_none() && list.tests_keys() && fits {
            let test = self.test_of_keys(join, &list, &rows, live == ROWS)?;
            match list.is_random() {
                true => {
                    let _ = writeln!(code, "if (are_many({rows})) {{");
                    let _ =
                        writeln!(code, "{kept} = {rows} & {test};\n}} else if (any({rows})) {{");
                    self.probe_rows(probe, &rows, kept, code)?;
                    *code += "}\n";
                }
                false => {
                    let _ = writeln!(code, "if (any({rows})) {kept} = {rows} & {test};");
                }
            }
        } else {
            let _ = writeln!(code, "if (any({rows})) {{");
            self.probe_rows(probe, &rows, kept, code)?;
            *code += "}\n";
        }
        Ok(())
    }

    /// The rows whose codes pass, of chunks with dictionaries, and the chunk's test of codes.
    fn test_of_codes(&mut self, probe: &Probe, list: &TreeList) -> Result<(String, String)> {
        let column = probe.join.column;
        let CodeTests { tests, buffer } = (self.tests_of.keys)(column, probe)?;
        let literal = self.literal(&[tests.address(), 0, u64::MAX]);
        self.buffers.push(buffer);
        let codes = format!("(args.tests({literal}) + chunk)");
        // Of chunks without a dictionary all pass.
        let question = format!("Question{{args.range({}), UNSIGNED, {codes}}}", literal + 1);
        Ok((self.test_of(column, list, &question, &question), codes))
    }

    /// The rows whose keys a lookup has, of those of a variable, by tests of their reader. `is_first`:
    /// whether no other test has left rows out.
    fn test_of_keys(
        &mut self,
        join: &BoundJoin,
        list: &TreeList,
        rows: &str,
        is_first: bool,
    ) -> Result<String> {
        let lookup = self.lookup(join)?;
        let class = self.class(join)?;
        let is_signed = join.key.order == Order::Signed;
        let question = |of_all: bool, live: &str| {
            format!("KeyQuestion<{class}, {is_signed}, {of_all}>{{{lookup}, {live}}}")
        };
        if list.leaves().is_some() {
            let number = self.trees(list);
            let (form, tree) = (self.form(), super::tree(number, list));
            return Ok(format!(
                "{form}<Reader{number}>(Reader{number}::select_asked({tree}, vector, {}, scratch.patches))",
                question(is_first, rows)
            ));
        }
        Ok(self.test_of(join.column, list, &question(true, "FULL"), &question(is_first, rows)))
    }

    /// Writes the lookup of keys row by row.
    fn probe_rows(
        &mut self,
        probe: &Probe,
        rows: &str,
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
                self.sets.push((set, codes.words()));
                let (find, code) = (self.find(join, &lookup, &key)?, self.code(column, "entry"));
                format!("u64 entry; return {find} && has_code(args.pointer<u32>({set}), {code});")
            }
        };
        let test = format!("[&](u32 at) {{ {test} }}");
        let is_random = !readers.are_of_vectors;
        if is_random {
            self.lists_keys = true;
            let by_row: String = readers.by_row.iter().map(|line| format!("{line}\n")).collect();
            let _ = write!(
                code,
                "if (are_few({rows})) {{\n{by_row}{kept} = scratch.keys.select({rows}, vector, {test});\n\
                 }} else {{\n"
            );
        }
        readers.write(code);
        let _ = writeln!(code, "{kept} = select_keys({rows}, {test});");
        *code += if is_random { "}\n" } else { "" };
        Ok(())
    }

    /// The key of a row.
    fn key(&mut self, join: &BoundJoin, readers: &mut Readers) -> String {
        self.key_of(join.column, join.key, readers)
    }

    /// The key of a row in a column.
    pub(super) fn key_of(&mut self, column: usize, key: Key, readers: &mut Readers) -> String {
        let value = self.reader(column, readers);
        match key.order {
            Order::Signed => {
                format!("static_cast<i64>(static_cast<i{}>({value}(at)))", key.bits)
            }
            _ => format!("static_cast<i64>({value}(at))"),
        }
    }

    /// The variable by which the keys of a join are looked up.
    fn lookup(&mut self, join: &BoundJoin) -> Result<String> {
        Ok(format!("lookup{}", self.lookup_number(join)?))
    }

    /// The type of that variable.
    fn class(&mut self, join: &BoundJoin) -> Result<&'static str> {
        let number = self.lookup_number(join)?;
        Ok(self.lookups[number].1)
    }

    fn lookup_number(&mut self, join: &BoundJoin) -> Result<usize> {
        let table = (self.tests_of.tables)(&join.table)?;
        // Of columns of different types the same table may have lookups of different ones.
        let known = |(of, _, key): &(_, _, Key)| Arc::ptr_eq(of, &table) && *key == join.key;
        if let Some(number) = self.lookups.iter().position(known) {
            return Ok(number);
        }
        let class = table.class(join.key, join.table.keys.bounds());
        let (number, literal) = (self.lookups.len(), self.literal(table.words()));
        let _ = writeln!(
            self.prepared,
            "    [[maybe_unused]] const auto& lookup{number} = args.words<{class}>({literal});"
        );
        self.looks_up = true;
        self.buffers.extend(table.buffers.iter().cloned());
        self.lookups.push((table, class, join.key));
        Ok(number)
    }

    /// Bytes of an entry of a join's lookup.
    fn entry_bytes(&mut self, join: &BoundJoin) -> Result<usize> {
        let number = self.lookup_number(join)?;
        Ok(self.lookups[number].0.entry_bytes)
    }

    /// The expression that sets `entry` to the entry of a row; true if the lookup has the row's key.
    fn find(&mut self, join: &BoundJoin, lookup: &str, key: &str) -> Result<String> {
        Ok(match self.entry_bytes(join)? {
            0 => format!("((entry = 0), has_key({lookup}, {key}))"),
            bytes => format!("find_entry<u{}>({lookup}, {key}, entry)", 8 * bytes),
        })
    }

    /// The code of a column of a lookup in an entry.
    fn code(&mut self, column: &LookupColumn, entry: &str) -> String {
        // A field of no bits may begin behind the last one.
        let literal = self.literal(&[u64::from(column.shift.min(63)), column.mask()]);
        format!("args.words<CodeField>({literal}).of({entry})")
    }

    /// The code of a row in a column of a lookup; 0 of rows without one.
    fn joined_code(&mut self, joined: &JoinedColumn, readers: &mut Readers) -> Result<String> {
        let join = &joined.join;
        let key = self.key(join, readers);
        let lookup = self.lookup(join)?;
        Ok(match self.entry_bytes(join)? {
            0 => "0u".to_owned(),
            bytes => {
                let entry = format!("entry_of<u{}>({lookup}, {key})", 8 * bytes);
                self.code(joined.column(), &entry)
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

    /// The code of a row as a key of groups. If there may be nulls, null is code 0 and other codes are one
    /// more.
    pub(super) fn joined_group(
        &mut self,
        joined: &JoinedColumn,
        readers: &mut Readers,
    ) -> Result<String> {
        if !joined.may_be_null() {
            return self.joined_code(joined, readers);
        }
        let (join, column) = (&joined.join, joined.column());
        let key = self.key(join, readers);
        let lookup = self.lookup(join)?;
        let find = self.find(join, &lookup, &key)?;
        let code = self.code(column, "entry");
        let null = self.literal(&[column.null.map_or(u64::MAX, |null| null as u64)]);
        let is_valid = match self.columns[join.column].validity.clone() {
            Some(list) => format!("{}(at) != 0", self.reader_of(join.column, &list, readers)),
            None => "true".to_owned(),
        };
        Ok(format!(
            "[&] {{ u64 entry; const bool has = ({is_valid}) && {find}; const u32 code = has ? {code} : 0; \
             return or_null(has && code != args.literals[{null}], code); }}()"
        ))
    }
}
