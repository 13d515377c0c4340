//! Tables of lanepack files.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, plan_err};
use datafusion::datasource::TableType;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::error::Result;
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, SortExpr, TableProviderFilterPushDown};
use datafusion::physical_expr::utils::{collect_columns, conjunction};
use datafusion::physical_expr::{PhysicalSortExpr, create_physical_expr};
use datafusion::physical_plan::filter::FilterExecBuilder;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use datafusion::scalar::ScalarValue;
use futures::{StreamExt, TryStreamExt};
use lanepack::file::{Dataset, File, Object};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use percent_encoding::percent_decode_str;

use crate::engine::EngineKind;
use crate::external;
use crate::files::Files;
use crate::filter::is_text;
use crate::scan::{LanepackExec, apart, exact_filter};

/// The extension of files that are looked for in folders.
pub(crate) const EXTENSION: &str = "lanepack";

/// A table of one or many lanepack files: what `CREATE EXTERNAL TABLE ... STORED AS LANEPACK` makes.
///
/// The footers of all files are read when it is made. Files that are added to a folder later do not belong to it.
#[derive(Debug)]
pub struct LanepackTable {
    files: Arc<Files>,
    order: Vec<Vec<SortExpr>>,
    definition: Option<String>,
}

/// What a table is made of.
#[derive(Debug, Clone, Default)]
pub(crate) struct TableOptions {
    /// The columns of files, if not those of the first one: files that lack one have nulls there.
    pub schema: Option<SchemaRef>,
    /// Columns whose values are in paths, `NAME=VALUE/`.
    pub path_fields: Vec<FieldRef>,
    /// Orders that the rows of the files have.
    pub order: Vec<Vec<SortExpr>>,
    pub definition: Option<String>,
}

impl LanepackTable {
    /// A table of the rows of a dataset.
    ///
    /// # Errors
    /// If what the indexes of files say of columns does not fit their types.
    pub fn try_new(dataset: Dataset) -> Result<Self> {
        let of_paths = dataset.files().map(|_| Vec::new()).collect();
        let files = Files::try_new(dataset, Vec::new(), of_paths)?;
        Ok(Self { files: Arc::new(files), order: Vec::new(), definition: None })
    }

    /// A table of the files at some places: files, or folders (ending in `/`) whose files end in `.lanepack`; of
    /// the system or of a store that the session knows.
    ///
    /// # Errors
    /// If there are none, if one is none of lanepack, or if they differ in their columns.
    pub async fn open<S: AsRef<str>>(session: &dyn Session, places: &[S]) -> Result<Self> {
        Self::open_with(session, places, TableOptions::default()).await
    }

    pub(crate) async fn open_with<S: AsRef<str>>(
        session: &dyn Session,
        places: &[S],
        options: TableOptions,
    ) -> Result<Self> {
        let mut found = Vec::new();
        for place in places {
            found.extend(found_at(session, place.as_ref(), &options.path_fields).await?);
        }
        if found.is_empty() {
            let places: Vec<&str> = places.iter().map(AsRef::as_ref).collect();
            return plan_err!("no .{EXTENSION} files at {}", places.join(", "));
        }
        let TableOptions { schema, path_fields, order, definition } = options;
        let (dataset, of_paths) = opened(found, schema).await?;
        for (at, field) in path_fields.iter().enumerate() {
            if dataset.schema().field_with_name(field.name()).is_ok() {
                return plan_err!("column {:?} is in files and in their paths", field.name());
            }
            if path_fields[..at].iter().any(|other| other.name() == field.name()) {
                return plan_err!("column {:?} is twice a column of paths", field.name());
            }
        }
        let files = Arc::new(Files::try_new(dataset, path_fields, of_paths)?);
        let table = Self { files, order, definition };
        // An order by columns that there are not is an error now, not of each query.
        table.sorted()?;
        Ok(table)
    }

    /// Whether a filter is of columns of paths alone.
    fn is_of_paths(&self, filter: &Arc<dyn PhysicalExpr>) -> bool {
        let columns = collect_columns(filter);
        !columns.is_empty()
            && columns.iter().all(|column| {
                let number = self.files.schema().index_of(column.name());
                number.is_ok_and(|number| self.files.is_of_path(number))
            })
    }

    fn physical(&self, filter: &Expr) -> Result<Arc<dyn PhysicalExpr>> {
        let schema = DFSchema::try_from(self.files.schema().as_ref().clone())?;
        let (properties, context) = (ExecutionProps::new(), PhysicalPlanningContext::default());
        create_physical_expr(&unqualified(filter)?, &schema, &properties, &context)
    }

    /// The declared order. It holds within a partition that has rows of one file.
    fn sorted(&self) -> Result<Vec<PhysicalSortExpr>> {
        let Some(order) = self.order.first() else { return Ok(Vec::new()) };
        let sorted = order.iter().map(|sort| {
            let options = datafusion::arrow::compute::SortOptions {
                descending: !sort.asc,
                nulls_first: sort.nulls_first,
            };
            Ok(PhysicalSortExpr { expr: self.physical(&sort.expr)?, options })
        });
        sorted.collect()
    }
}

/// A file that was found, and the values of the columns of its path.
struct Found {
    store: Arc<dyn ObjectStore>,
    meta: ObjectMeta,
    /// Where it is in the system.
    local: Option<std::path::PathBuf>,
    of_path: Vec<ScalarValue>,
}

/// The files at a place, in the order of their paths.
async fn found_at(session: &dyn Session, place: &str, fields: &[FieldRef]) -> Result<Vec<Found>> {
    let mut url = ListingTableUrl::parse(place)?;
    if !url.is_collection() && url.get_glob().is_none() && is_folder(&url) {
        url = ListingTableUrl::parse(format!("{place}/"))?;
    }
    let extension = match url.is_collection() && url.get_glob().is_none() {
        true => format!(".{EXTENSION}"),
        false => String::new(),
    };
    let store = session.runtime_env().object_store(url.object_store())?;
    let is_one_file = !url.is_collection() && url.get_glob().is_none();
    // Not by the session's cache of lists, which does not know of files that are written.
    let listed: Vec<ObjectMeta> = match is_one_file {
        true => vec![store.head(url.prefix()).await?],
        false => store.list(Some(url.prefix())).try_collect().await?,
    };
    let is_chosen = |object: &ObjectMeta| {
        let path = &object.location;
        is_one_file || path.as_ref().ends_with(&extension) && url.contains(path, false)
    };
    let listed: Vec<ObjectMeta> = listed.into_iter().filter(is_chosen).collect();
    let mut found = Vec::with_capacity(listed.len());
    for meta in listed {
        let location = meta.location.clone();
        let segments: Vec<&str> = match url.strip_prefix(&location) {
            Some(segments) => segments.collect(),
            None => Vec::new(),
        };
        let of_path = fields.iter().map(|field| of_path(&segments, field, &location));
        let of_path = of_path.collect::<Result<_>>()?;
        let local =
            is_system(store.as_ref()).then(|| std::path::Path::new("/").join(location.as_ref()));
        found.push(Found { store: store.clone(), meta, local, of_path });
    }
    found.sort_by(|one, next| one.meta.location.as_ref().cmp(next.meta.location.as_ref()));
    Ok(found)
}

/// Whether locations of a store are paths of the system from its root.
pub(crate) fn is_system(store: &dyn ObjectStore) -> bool {
    store.to_string() == "LocalFileSystem(file:///)"
}

/// Whether a place of the system is a folder.
fn is_folder(url: &ListingTableUrl) -> bool {
    let path = || url.get_url().to_file_path().ok();
    url.scheme() == "file" && path().is_some_and(|path| path.is_dir())
}

/// The value of a column in a path.
fn of_path(segments: &[&str], field: &Field, location: &Path) -> Result<ScalarValue> {
    let of_field = |segment: &&str| {
        let (name, value) = segment.split_once('=')?;
        let name = percent_decode_str(name).decode_utf8().ok()?;
        (name == *field.name()).then(|| value.to_owned())
    };
    let Some(value) = segments.iter().find_map(of_field) else {
        return plan_err!("no folder {}=... in the path {location}", field.name());
    };
    let value = match percent_decode_str(&value).decode_utf8() {
        Ok(value) => value.into_owned(),
        Err(_) => return plan_err!("a value that is no UTF-8 in the path {location}"),
    };
    if value == "__HIVE_DEFAULT_PARTITION__" {
        return match field.is_nullable() {
            true => ScalarValue::try_new_null(field.data_type()),
            false => plan_err!("column {} is null in the path {location}", field.name()),
        };
    }
    ScalarValue::try_from_string(value, field.data_type())
        .map_err(|error| error.context(format!("column {} in the path {location}", field.name())))
}

/// Opens files, some at a time: all of the system, or all of stores.
async fn opened(
    found: Vec<Found>,
    schema: Option<SchemaRef>,
) -> Result<(Dataset, Vec<Vec<ScalarValue>>)> {
    let (mut objects, mut paths, mut of_paths) = (Vec::new(), Vec::new(), Vec::new());
    for file in found {
        of_paths.push(file.of_path);
        match file.local {
            Some(path) => paths.push(path),
            None => objects.push((file.store, file.meta)),
        }
    }
    if !objects.is_empty() && !paths.is_empty() {
        return plan_err!("a table of files of the system and of a store");
    }
    if objects.is_empty() {
        let open = move || match schema {
            Some(schema) => {
                let first = File::open(&paths[0])?;
                Dataset::open_with_schema(&paths, &with_types_of(&schema, first.schema()))
            }
            None => Dataset::open(&paths),
        };
        return Ok((apart(move || open().map_err(external)).await?, of_paths));
    }
    let opening = objects.into_iter().map(|(store, meta): (Arc<dyn ObjectStore>, ObjectMeta)| {
        apart(move || {
            let name = meta.location.to_string();
            let file = File::from_source(Arc::new(Object::new(store, meta)));
            let file = file.map_err(|error| external(error).context(name.clone()));
            file.map(|file| file.with_name(&name))
        })
    });
    let opening: Vec<_> = opening.collect();
    let files: Vec<File> =
        futures::stream::iter(opening).buffered(OPENED_AT_A_TIME).try_collect().await?;
    let dataset = match schema {
        Some(schema) => {
            let schema = with_types_of(&schema, files[0].schema());
            Dataset::try_new_with_schema(files, &schema)
        }
        None => Dataset::try_new(files),
    };
    Ok((dataset.map_err(external)?, of_paths))
}

/// Declared columns with the types of text that files have: SQL has one name for all of them.
fn with_types_of(declared: &Schema, of_file: &Schema) -> Schema {
    let fields = declared.fields().iter().map(|field| {
        let own = of_file.field_with_name(field.name()).map(Field::data_type);
        match own {
            Ok(own) if is_text(own) && is_text(field.data_type()) => {
                field.as_ref().clone().with_data_type(own.clone())
            }
            _ => field.as_ref().clone(),
        }
    });
    Schema::new_with_metadata(fields.collect::<Vec<_>>(), declared.metadata().clone())
}

/// Objects that are opened at a time, each of which takes some requests.
const OPENED_AT_A_TIME: usize = 32;

/// A filter whose columns have no table in front of their names.
fn unqualified(filter: &Expr) -> Result<Expr> {
    use datafusion::common::tree_node::{Transformed, TreeNode};
    let changed = filter.clone().transform(|expr| {
        Ok(match expr {
            Expr::Column(column) => Transformed::yes(Expr::Column(
                datafusion::common::Column::new_unqualified(column.name),
            )),
            other => Transformed::no(other),
        })
    });
    Ok(changed?.data)
}

/// The type of a column of paths that has none: as DataFusion's own tables.
pub(crate) fn path_field(name: &str) -> FieldRef {
    let data_type = DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Utf8));
    Arc::new(Field::new(name, data_type, true))
}

#[async_trait]
impl TableProvider for LanepackTable {
    fn schema(&self) -> SchemaRef {
        self.files.schema().clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn get_table_definition(&self) -> Option<&str> {
        self.definition.as_deref()
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| {
            let Ok(physical) = self.physical(filter) else {
                return TableProviderFilterPushDown::Unsupported;
            };
            match self.is_of_paths(&physical) || exact_filter(&self.files, &physical).is_some() {
                true => TableProviderFilterPushDown::Exact,
                false => TableProviderFilterPushDown::Unsupported,
            }
        };
        Ok(filters.iter().map(support).collect())
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (mut of_paths, mut others) = (Vec::new(), Vec::new());
        for filter in filters {
            let physical = self.physical(filter)?;
            match self.is_of_paths(&physical) {
                true => of_paths.push(physical),
                false => others.push(physical),
            }
        }
        let spans = self.files.chosen(&of_paths)?;
        let engine = EngineKind::of(session.config_options());
        let partitions = match engine.is_cpu() {
            true => session.config().target_partitions(),
            false => 1,
        };
        let mut parts = self.files.divided(&spans, partitions);
        let mut order = self.sorted()?;
        if !order.is_empty() && parts.iter().any(|part| part.len() > 1) {
            // One file or a part of one in each partition keeps the order.
            parts = parts.into_iter().flatten().map(|span| vec![span]).collect();
            if parts.len() > MOST_SORTED {
                (parts, order) = (self.files.divided(&spans, partitions), Vec::new());
            }
        }
        let all: Vec<usize> = (0..self.files.schema().fields().len()).collect();
        let wanted = projection.cloned().unwrap_or_else(|| all.clone());
        let scan = LanepackExec::try_new(self.files.clone(), parts, all, order, engine)?;
        let (scan, left) =
            others.into_iter().fold((scan, Vec::new()), |(scan, mut left), filter| {
                match scan.with_filter(&filter) {
                    Some(filtered) => (filtered, left),
                    None => {
                        left.push(filter);
                        (scan, left)
                    }
                }
            });
        if left.is_empty() {
            return Ok(Arc::new(scan.with_columns(wanted)?.with_limit(limit)));
        }
        // The optimizer has changed a filter since it was asked for, to one that scans do not apply.
        let filtered = FilterExecBuilder::new(conjunction(left), Arc::new(scan))
            .apply_projection(Some(wanted))?
            .with_fetch(limit)
            .build()?;
        Ok(Arc::new(filtered))
    }
}

/// Partitions at most for the sake of an order.
const MOST_SORTED: usize = 64;

/// The columns of a schema that are in files, and those that are in paths.
pub(crate) fn divided_schema(
    schema: &Schema,
    path_columns: &[String],
) -> Result<(Option<SchemaRef>, Vec<FieldRef>)> {
    // DataFusion gives names in the quotes that they are written in.
    let unquoted =
        |name: &String| match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
            Some(name) => name.replace("\"\"", "\""),
            None => name.clone(),
        };
    let path_columns: Vec<String> = path_columns.iter().map(unquoted).collect();
    if schema.fields().is_empty() {
        return Ok((None, path_columns.iter().map(|name| path_field(name)).collect()));
    }
    let mut path_fields = Vec::new();
    for name in &path_columns {
        path_fields.push(Arc::new(schema.field_with_name(name)?.clone()));
    }
    let own = schema.fields().iter().filter(|field| !path_columns.contains(field.name()));
    let own = Schema::new(own.cloned().collect::<Vec<_>>());
    // `PARTITIONED BY (year INT)` declares columns of paths alone.
    let own = (!own.fields().is_empty()).then(|| Arc::new(own));
    Ok((own, path_fields))
}
