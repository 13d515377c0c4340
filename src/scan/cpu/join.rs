//! Keys of a chunk, looked up a vector at a time.

use std::cell::{Ref, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use super::Validity;
use super::compute::words;
use super::source::Source;
use crate::column::CompressedColumn;
use crate::error::{Error, Result};
use crate::lanes::{Mask, VECTOR};
use crate::ranges::Key;
use crate::scan::join::BoundJoin;
use crate::scan::lookup::NarrowKeys;

/// The joins of a chunk of some columns; each is made when it is first asked for.
pub(in crate::scan) struct ChunkJoins<'a> {
    columns: Vec<&'a CompressedColumn>,
    index: usize,
    joins: RefCell<Made<'a>>,
}

/// Joins that have been made.
pub(super) type Made<'a> = Vec<(Arc<BoundJoin>, Rc<dyn Keys + 'a>)>;

/// A join, in a chunk.
struct ChunkJoin<'a> {
    join: Arc<BoundJoin>,
    source: Source<'a>,
    key: Key,
    validity: Validity<'a>,
    /// The keys of the vector that was asked for last.
    last: RefCell<Option<(usize, VectorKeys)>>,
}

/// The keys of a vector; those of rows without a value are anything.
enum VectorKeys {
    Keys(Box<[i64; VECTOR]>),
    /// Keys of 32 bits, as places of a dense table.
    Places(NarrowKeys, Box<[u32; VECTOR]>),
}

impl<'a> ChunkJoins<'a> {
    /// Of chunk `index` of the columns, of which some have been made.
    pub fn new(columns: &[&'a CompressedColumn], index: usize, made: Made<'a>) -> Rc<Self> {
        Rc::new(Self { columns: columns.to_vec(), index, joins: made.into() })
    }

    /// What has been made so far.
    pub fn made(&self) -> Made<'a> {
        self.joins.borrow().clone()
    }

    /// That of a join.
    pub fn of(&self, join: &Arc<BoundJoin>) -> Result<Rc<dyn Keys + 'a>> {
        let made = self.joins.borrow();
        if let Some((_, keys)) = made.iter().find(|(of, _)| Arc::ptr_eq(of, join)) {
            return Ok(keys.clone());
        }
        drop(made);
        let column = self.columns[join.column];
        let name = column.field().name();
        let validity = Validity::of(&column.chunks()[self.index], column)
            .map_err(|error| error.in_chunk(self.index).in_column(name))?;
        let key = Key::of(column.data_type())
            .ok_or_else(|| Error::corrupt("keys without an order").in_column(name))?;
        let new: Rc<dyn Keys + 'a> = Rc::new(ChunkJoin {
            join: join.clone(),
            source: Source::new(column, self.index),
            key,
            validity,
            last: RefCell::default(),
        });
        self.joins.borrow_mut().push((join.clone(), new.clone()));
        Ok(new)
    }
}

/// Keys that are looked up.
pub(in crate::scan) trait Keys {
    /// Leaves the rows that the lookup has keys of.
    fn retain(&self, vector: usize, mask: &mut Mask) -> Result<()>;

    /// The entries of the rows of a mask whose keys the lookup has; others stay.
    fn entries(&self, vector: usize, mask: &Mask, out: &mut [u64; VECTOR]) -> Result<()>;
}

impl ChunkJoin<'_> {
    /// The keys of a vector.
    fn keys(&self, vector: usize) -> Result<Ref<'_, VectorKeys>> {
        let is_last = self.last.borrow().as_ref().is_some_and(|(last, _)| *last == vector);
        if !is_last {
            let mut last = self.last.borrow_mut();
            let (of, keys) = match last.as_mut() {
                Some(last) => last,
                None => last.insert((vector, self.room()?)),
            };
            *of = usize::MAX;
            match keys {
                VectorKeys::Keys(keys) => words(&self.source, self.key, vector, keys)?,
                VectorKeys::Places(narrow, places) => {
                    self.source.read(vector, places)?;
                    narrow.places(places);
                }
            }
            *of = vector;
        }
        Ok(Ref::map(self.last.borrow(), |last| &last.as_ref().expect("just decoded").1))
    }

    /// Room for the keys of a vector.
    fn room(&self) -> Result<VectorKeys> {
        let narrow = match self.key.bits {
            32 => self.join.table.keys.table()?.narrow(self.key.order),
            _ => None,
        };
        Ok(match narrow {
            Some(narrow) => VectorKeys::Places(narrow, Box::new([0; VECTOR])),
            None => VectorKeys::Keys(Box::new([0; VECTOR])),
        })
    }
}

impl Keys for ChunkJoin<'_> {
    fn retain(&self, vector: usize, mask: &mut Mask) -> Result<()> {
        self.validity.retain(vector, mask);
        let table = self.join.table.keys.table()?;
        match &*self.keys(vector)? {
            VectorKeys::Keys(keys) => table.retain(keys, mask),
            VectorKeys::Places(_, places) => table.retain_places(places, mask),
        }
        Ok(())
    }

    fn entries(&self, vector: usize, mask: &Mask, out: &mut [u64; VECTOR]) -> Result<()> {
        let table = self.join.table.keys.table()?;
        match &*self.keys(vector)? {
            VectorKeys::Keys(keys) => table.entries(keys, mask, out),
            VectorKeys::Places(_, places) => table.entries_of_places(places, mask, out),
        }
        Ok(())
    }
}
