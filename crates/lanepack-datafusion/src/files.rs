//! The files of a table: their rows as one dataset, columns of their paths, and what is known of them.
//!
//! ```text
//! columns   those of the files | those of the paths (`year=1994/`), one value for each file
//! chunks    file by file; a span is some neighbouring ones of one file
//! ```

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, FieldRef, Fields, Schema, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Statistics};
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_plan::PhysicalExpr;
use datafusion::scalar::ScalarValue;
use lanepack::file::Dataset;

use crate::external;

/// See the module.
#[derive(Debug)]
pub(crate) struct Files {
    dataset: Dataset,
    schema: SchemaRef,
    /// For each file the values of the columns of its path.
    of_paths: Vec<Vec<ScalarValue>>,
    /// For each file its chunks.
    chunks: Vec<Range<usize>>,
    /// Rows before each chunk, and all.
    rows: Vec<usize>,
    statistics: Statistics,
}

impl Files {
    /// Files, and for each the values of columns of its path.
    pub fn try_new(
        dataset: Dataset,
        path_fields: Vec<FieldRef>,
        of_paths: Vec<Vec<ScalarValue>>,
    ) -> Result<Self> {
        let own = dataset.schema();
        let fields: Fields = own.fields().iter().cloned().chain(path_fields).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, own.metadata().clone()));
        let mut chunks = Vec::with_capacity(of_paths.len());
        let (mut at, mut rows) = (0, vec![0]);
        for file in dataset.files() {
            chunks.push(at..at + file.num_chunks());
            at += file.num_chunks();
        }
        for count in dataset.chunk_rows() {
            rows.push(rows.last().copied().unwrap_or(0) + count);
        }
        let statistics = statistics(&dataset, &schema)?;
        Ok(Self { dataset, schema, of_paths, chunks, rows, statistics })
    }

    pub fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// All columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The columns that are in files.
    pub fn own_schema(&self) -> &SchemaRef {
        self.dataset.schema()
    }

    /// Whether a column is one of paths.
    pub fn is_of_path(&self, column: usize) -> bool {
        column >= self.own_schema().fields().len()
    }

    /// What is known of all rows.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// The rows of some chunks.
    pub fn rows_of(&self, span: &Range<usize>) -> usize {
        self.rows[span.end] - self.rows[span.start]
    }

    /// Files that some chunks are of.
    pub fn count_of<'a>(&self, spans: impl Iterator<Item = &'a Range<usize>>) -> usize {
        let spans: Vec<&Range<usize>> = spans.collect();
        let has_some = |chunks: &&Range<usize>| {
            spans.iter().any(|span| span.start < chunks.end && chunks.start < span.end)
        };
        self.chunks.iter().filter(has_some).count()
    }

    /// The value of a column of paths in the file of a chunk.
    pub fn value_of_path(&self, column: usize, chunk: usize) -> &ScalarValue {
        let file = self.chunks.partition_point(|chunks| chunks.end <= chunk);
        &self.of_paths[file][column - self.own_schema().fields().len()]
    }

    /// The chunks of the files whose paths pass filters, which are of columns of paths alone.
    pub fn chosen(&self, filters: &[Arc<dyn PhysicalExpr>]) -> Result<Vec<Range<usize>>> {
        let mut chosen: Vec<Range<usize>> = self.chunks.clone();
        if !filters.is_empty() && !self.chunks.is_empty() {
            let kept = self.passing(filters)?;
            chosen = chosen
                .into_iter()
                .zip(kept)
                .filter_map(|(chunks, is)| is.then_some(chunks))
                .collect();
        }
        chosen.retain(|chunks| !chunks.is_empty());
        Ok(chosen)
    }

    fn passing(&self, filters: &[Arc<dyn PhysicalExpr>]) -> Result<Vec<bool>> {
        let columns = self.schema.fields().iter().enumerate().map(|(column, field)| {
            let files = self.of_paths.len();
            match self.is_of_path(column) {
                false => ScalarValue::try_new_null(field.data_type())?.to_array_of_size(files),
                true => {
                    let at = column - self.own_schema().fields().len();
                    ScalarValue::iter_to_array(
                        self.of_paths.iter().map(|values| values[at].clone()),
                    )
                }
            }
        });
        let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
        let nullable =
            self.schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        let schema = Arc::new(Schema::new(nullable.collect::<Vec<_>>()));
        let batch = RecordBatch::try_new(schema, columns)?;
        let mut kept = vec![true; self.of_paths.len()];
        for filter in filters {
            let passes = filter.evaluate(&batch)?.into_array(batch.num_rows())?;
            let passes = passes.as_boolean();
            for (file, kept) in kept.iter_mut().enumerate() {
                *kept &= passes.is_valid(file) && passes.value(file);
            }
        }
        Ok(kept)
    }

    /// Divides chunks into parts of about as many rows.
    pub fn divided(&self, spans: &[Range<usize>], parts: usize) -> Vec<Vec<Range<usize>>> {
        let all: usize = spans.iter().map(|span| self.rows_of(span)).sum();
        let parts = parts.min(spans.iter().map(Range::len).sum()).max(1);
        let mut divided: Vec<Vec<Range<usize>>> = vec![Vec::new(); parts];
        let mut before = 0;
        for chunk in spans.iter().cloned().flatten() {
            let rows = self.rows_of(&(chunk..chunk + 1));
            // By the row in the middle of the chunk.
            let part = ((before + rows / 2) * parts / all.max(1)).min(parts - 1);
            before += rows;
            match divided[part].last_mut() {
                Some(last) if last.end == chunk && self.is_one_file(last.start, chunk) => {
                    last.end = chunk + 1;
                }
                _ => divided[part].push(chunk..chunk + 1),
            }
        }
        divided
    }

    fn is_one_file(&self, one: usize, other: usize) -> bool {
        let file = |chunk| self.chunks.partition_point(|chunks| chunks.end <= chunk);
        file(one) == file(other)
    }
}

/// Types whose bounds are the least and the greatest value, and are compared as SQL does.
fn has_exact_bounds(data_type: &DataType) -> bool {
    data_type.is_integer()
        || data_type.is_temporal()
        || matches!(
            data_type,
            DataType::Boolean | DataType::Decimal128(..) | DataType::Decimal256(..)
        )
}

/// What the indexes of all files say.
fn statistics(dataset: &Dataset, schema: &Schema) -> Result<Statistics> {
    let own = dataset.schema().fields();
    let column = |(at, field): (usize, &FieldRef)| match at < own.len() {
        true => column_statistics(dataset, field),
        false => Ok((ColumnStatistics::new_unknown(), 0)),
    };
    let columns: Vec<(ColumnStatistics, usize)> =
        schema.fields().iter().enumerate().map(column).collect::<Result<_>>()?;
    let bytes = columns.iter().map(|(_, bytes)| bytes).sum();
    Ok(Statistics {
        num_rows: Precision::Exact(dataset.num_rows()),
        total_byte_size: Precision::Inexact(bytes),
        column_statistics: columns.into_iter().map(|(column, _)| column).collect(),
    })
}

/// Of one column, and about how many bytes its values take.
fn column_statistics(dataset: &Dataset, field: &FieldRef) -> Result<(ColumnStatistics, usize)> {
    let known = dataset.statistics(field.name()).map_err(external)?;
    let nulls = known.null_counts.values().iter().map(|count| *count as usize).sum();
    let rows = dataset.num_rows();
    let bytes = match field.data_type().primitive_width() {
        Some(width) => rows * width,
        // As if they were compressed to a third.
        None => 3 * known.bytes.values().iter().sum::<u64>() as usize,
    };
    // Chunks of nulls have no bounds, but others without bounds have unknown ones.
    let is_known = |bounds: &ArrayRef| {
        let chunks = known.rows.values().iter().zip(known.null_counts.values()).enumerate();
        let mut unknown = chunks.filter(|(at, (rows, nulls))| bounds.is_null(*at) && nulls < rows);
        unknown.next().is_none()
    };
    let of = |bounds: &ArrayRef, is_better: Ordering| {
        if nulls == rows || bounds.data_type() == &DataType::Null || !is_known(bounds) {
            return Ok::<_, DataFusionError>(Precision::Absent);
        }
        let mut best = ScalarValue::try_from_array(bounds, 0)?;
        for chunk in 1..bounds.len() {
            let value = ScalarValue::try_from_array(bounds, chunk)?;
            if best.is_null() || !value.is_null() && value.partial_cmp(&best) == Some(is_better) {
                best = value;
            }
        }
        Ok(match has_exact_bounds(field.data_type()) {
            true => Precision::Exact(best.cast_to(field.data_type())?),
            // Bounds of long values are shorter than they.
            false => best.cast_to(field.data_type()).map_or(Precision::Absent, Precision::Inexact),
        })
    };
    let column = ColumnStatistics {
        null_count: Precision::Exact(nulls),
        min_value: of(&known.min, Ordering::Less)?,
        max_value: of(&known.max, Ordering::Greater)?,
        byte_size: Precision::Inexact(bytes),
        ..ColumnStatistics::new_unknown()
    };
    Ok((column, bytes))
}
