//! Joins of a scan with lookups: each row of the scan has at most one row of a lookup.
//!
//! A join is a test of a row's key, with other tests in one predicate, and gives the columns of its
//! lookup names in expressions. Tests of such a column are made once for each of its distinct values;
//! what is left is a set of codes.

use std::fmt;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, UInt32Array};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, FieldRef};

use super::expr::Expr;
use super::lookup::{self, Lookup, LookupColumn, Table, is_key_type};
use super::{Scan, predicate::Predicate};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::memory::MemoryLimit;
use crate::ranges::Key;

/// Which rows a join keeps, and whether columns of its lookup may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JoinKind {
    Inner,
    Left,
    Semi,
    Anti,
}

/// A join that was asked for.
#[derive(Debug, Clone)]
pub(super) struct Join {
    pub kind: JoinKind,
    pub key: Expr,
    pub lookup: Lookup,
}

/// A join whose key is a column of the scan.
pub(crate) struct BoundJoin {
    pub kind: JoinKind,
    /// The number of the column, and how its values are ordered.
    pub column: usize,
    pub key: Key,
    pub table: Arc<Table>,
}

impl fmt::Debug for BoundJoin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (f.debug_struct("BoundJoin").field("kind", &self.kind).field("column", &self.column))
            .field("keys", &self.table.keys.len())
            .finish_non_exhaustive()
    }
}

/// A column of a lookup that a scan is joined with.
#[derive(Debug, Clone)]
pub(crate) struct JoinedColumn {
    pub join: Arc<BoundJoin>,
    /// Its number in the lookup.
    pub column: usize,
}

impl JoinedColumn {
    pub fn column(&self) -> &LookupColumn {
        &self.join.table.columns[self.column]
    }

    /// The column in a result: nullable where rows may have no row of the lookup.
    pub fn field(&self) -> FieldRef {
        let field = self.column().field.as_ref();
        let is_nullable = field.is_nullable() || self.join.kind == JoinKind::Left;
        Arc::new(field.clone().with_nullable(is_nullable))
    }

    /// Whether both are the same column of the same join.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.join, &other.join) && self.column == other.column
    }

    /// Whether it may be null in rows that the join keeps.
    pub fn may_be_null(&self) -> bool {
        self.column().null.is_some() || self.join.kind == JoinKind::Left
    }

    /// Its values, given an array of keys.
    ///
    /// # Errors
    /// [`Error::MemoryLimit`] if they take more than is allowed, [`Error::TooLarge`] if strings pass
    /// 2 GiB.
    pub fn values_of(&self, keys: &ArrayRef, limit: MemoryLimit) -> Result<ArrayRef> {
        let (table, column) = (&self.join.table, self.column());
        let known = table.keys.table()?;
        let code = |key: Option<i64>| Some(column.code(known.entry(known.find(key?)?)) as u32);
        let codes = UInt32Array::from_iter(lookup::keys_of(keys).into_iter().map(code));
        let name = column.field.name().as_str();
        let all = column.values.get_buffer_memory_size();
        let stored = all + keys.get_buffer_memory_size();
        // No value takes more than all of them.
        let most = (all as u64).saturating_mul(codes.len() as u64);
        if most > SURELY_SMALL {
            let of_code = |code: usize| column.values.slice(code, 1).to_data();
            let sizes = (0..column.values.len())
                .map(|code| of_code(code).get_slice_memory_size().map_or(0, |bytes| bytes as u64));
            let sizes: Vec<u64> = sizes.collect();
            let size = |code: Option<u32>| code.map_or(0, |code| sizes[code as usize]);
            let needed = codes.iter().map(size).fold(0_u64, u64::saturating_add);
            limit.check(stored, std::iter::once((name, needed)))?;
            let has_short_offsets =
                matches!(column.field.data_type(), DataType::Utf8 | DataType::Binary);
            if has_short_offsets && needed > i32::MAX as u64 {
                let what = format!("strings of {needed} bytes, a column of its type has 2 GiB");
                return Err(Error::too_large(what).in_column(name));
            }
        }
        Ok(arrow_select::take::take(&column.values, &codes, None)?)
    }

    /// The rows in which it is not null.
    pub fn valid(&self) -> Predicate {
        let codes = self.column().null.map(|null| {
            let count = self.column().values.len();
            Codes {
                column: self.column,
                set: BooleanBuffer::collect_bool(count, |code| code != null),
            }
        });
        Predicate::Probe(Probe { join: self.join.clone(), codes })
    }

    /// The rows in which an expression of this column alone is true, or else false.
    pub fn rows(&self, expr: &Expr, wanted: bool) -> Result<Predicate> {
        let expr = if wanted { expr.clone() } else { !expr.clone() };
        let values = self.column().compressed()?;
        let set: BooleanArray = Scan::new(values).filter(expr).mask(&Engine::cpu())?;
        Ok(match set.true_count() {
            0 => Predicate::Constant(false),
            _ => {
                let codes = Some(Codes { column: self.column, set: set.values().clone() });
                Predicate::Probe(Probe { join: self.join.clone(), codes })
            }
        })
    }
}

/// Bytes of values that are not worth a look.
const SURELY_SMALL: u64 = 16 << 20;

/// Rows whose key a lookup has.
#[derive(Debug, Clone)]
pub(crate) struct Probe {
    pub join: Arc<BoundJoin>,
    /// What a column of the lookup has in them; anything if there is none.
    pub codes: Option<Codes>,
}

/// Codes of a lookup's column.
#[derive(Debug, Clone)]
pub(crate) struct Codes {
    pub column: usize,
    /// A bit for each code.
    pub set: BooleanBuffer,
}

impl Codes {
    /// The set as words.
    pub fn words(&self) -> Vec<u64> {
        self.set.bit_chunks().iter_padded().collect()
    }
}

impl Probe {
    /// The share of rows that it keeps, as far as is known.
    pub fn share(&self) -> f64 {
        let codes = self
            .codes
            .as_ref()
            .map_or(1.0, |codes| codes.set.count_set_bits() as f64 / codes.set.len().max(1) as f64);
        self.join.table.share * codes
    }
}

impl BoundJoin {
    /// What the join keeps, whatever else is asked.
    pub fn predicate(self: &Arc<Self>) -> Predicate {
        let probe = Predicate::Probe(Probe { join: self.clone(), codes: None });
        match self.kind {
            JoinKind::Inner | JoinKind::Semi => probe,
            JoinKind::Anti => probe.not(),
            JoinKind::Left => Predicate::Constant(true),
        }
    }

    /// Whether columns of the lookup have names in expressions.
    pub fn has_columns(&self) -> bool {
        matches!(self.kind, JoinKind::Inner | JoinKind::Left)
    }
}

/// Checks that values of a column may be looked up.
pub(super) fn check_key(name: &str, data_type: &DataType, lookup: &Lookup) -> Result<()> {
    let of_lookup = lookup.key();
    let are_alike = match data_type.is_temporal() || of_lookup.data_type().is_temporal() {
        true => data_type == of_lookup.data_type(),
        false => is_key_type(data_type),
    };
    if !are_alike {
        return Err(Error::expression(format!(
            "column {name:?} is {data_type}, keys {:?} of the lookup are {}",
            of_lookup.name(),
            of_lookup.data_type()
        )));
    }
    if *data_type == DataType::UInt64 && lookup.table().keys.has_negative()? {
        let what = format!("column {name:?} is UInt64, a key of the lookup is negative");
        return Err(Error::expression(what));
    }
    Ok(())
}

impl Scan<'_> {
    /// Keeps the rows whose `key`, a column, is a key of a lookup. Expressions may then use columns
    /// of the lookup by their names, which must be others than those of the scan.
    ///
    /// Null is no key. A join takes part in the filter: those that keep few rows and read little
    /// are evaluated first, in whatever order they were asked for.
    #[must_use]
    pub fn join(self, key: impl Into<Expr>, lookup: &Lookup) -> Self {
        self.joined(JoinKind::Inner, key.into(), lookup)
    }

    /// As [`Scan::join`], but keeps all rows: columns of the lookup are null in those whose key it
    /// does not have.
    #[must_use]
    pub fn left_join(self, key: impl Into<Expr>, lookup: &Lookup) -> Self {
        self.joined(JoinKind::Left, key.into(), lookup)
    }

    /// As [`Scan::join`], for rows alone: columns of the lookup have no names in expressions.
    #[must_use]
    pub fn semi_join(self, key: impl Into<Expr>, lookup: &Lookup) -> Self {
        self.joined(JoinKind::Semi, key.into(), lookup)
    }

    /// Keeps the rows whose key is null or no key of a lookup.
    #[must_use]
    pub fn anti_join(self, key: impl Into<Expr>, lookup: &Lookup) -> Self {
        self.joined(JoinKind::Anti, key.into(), lookup)
    }

    fn joined(mut self, kind: JoinKind, key: Expr, lookup: &Lookup) -> Self {
        self.joins.push(Join { kind, key, lookup: lookup.clone() });
        self
    }
}
