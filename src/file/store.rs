//! Files in object stores (feature `object_store`).
//!
//! ```text
//! threads of callers, of the pool    read ranges, and wait for them
//! Object                             requests of announced ranges, in flight ahead of the reads
//! runtime of this module             runs the requests
//! ```
//!
//! Requests run on a runtime of two threads that this module starts with the first object, so that calls can
//! wait for a store wherever they are made, within a runtime of the caller or not. Connections of HTTP clients
//! belong to the runtime that opened them: a store that the only thread of another runtime has used as well
//! may give a request a connection that this thread does not serve while it waits.

use std::future::Future;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_schema::{Schema, SchemaRef};
use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::buffered::BufWriter;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt};
use tokio::io::AsyncWriteExt;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinHandle};

use super::source::ReadAt;
use super::{Dataset, File, Writer};
use crate::engine::Engine;
use crate::error::{Error, Place, Result};
use crate::options::Options;

/// Requests of an object that are in flight by default.
const IN_FLIGHT: usize = 16;
/// Ranges with less than this between them are requested together: what a store sends meanwhile takes about
/// as long as a request.
const GAP: u64 = 512 << 10;
/// Bytes of ranges, of all objects, that are requested before they are read.
const AHEAD_BYTES: u64 = 512 << 20;
/// How many there are now.
static AHEAD: AtomicU64 = AtomicU64::new(0);
/// Files that are opened at a time by threads that wait for stores: stores may need such threads as well.
static OPENING: Semaphore = Semaphore::const_new(64);
/// Bytes that are given to an upload at a time.
const PIECE_BYTES: usize = 8 << 20;
/// Rows of a batch that are compressed before others are uploaded.
const SLICE_ROWS: usize = 1 << 17;

/// Runs requests.
fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<std::io::Result<Runtime>> = OnceLock::new();
    let start = || {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2).thread_name("lanepack store").enable_all().build()
    };
    RUNTIME
        .get_or_init(start)
        .as_ref()
        .map_err(|error| Error::from(std::io::Error::new(error.kind(), error.to_string())))
}

/// Has the runtime do something, and waits for the result.
fn wait<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<T> {
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    runtime()?.spawn(async move {
        // Nobody waits any more if this fails.
        let _ = sender.send(work.await);
    });
    receiver.recv().map_err(|_| Error::from(std::io::Error::other("a request panicked")))
}

fn in_object(error: object_store::Error, location: &Path) -> Error {
    Error::from(std::io::Error::from(error)).in_file(location.as_ref())
}

/// An object of a store, which is read by ranges: a source of a [`File`].
///
/// Chunks that a scan will read soon are requested ahead of it, 16 ranges at a time. An object that is replaced
/// meanwhile is an error, if the store has tags of contents (`ETag`); where it only has versions, the one that
/// was opened is read.
#[derive(Debug)]
pub struct Object {
    shared: Arc<Shared>,
    ahead: Mutex<Vec<Request>>,
}

#[derive(Debug)]
struct Shared {
    store: Arc<dyn ObjectStore>,
    meta: ObjectMeta,
    in_flight: Semaphore,
}

/// A range that was announced and has not been read.
#[derive(Debug)]
struct Request {
    range: Range<u64>,
    task: JoinHandle<object_store::Result<Bytes>>,
}

impl Request {
    /// None if as many bytes as may be are requested already.
    fn new(shared: &Arc<Shared>, range: Range<u64>) -> Option<Self> {
        let runtime = runtime().ok()?;
        let bytes = range.end.saturating_sub(range.start);
        if AHEAD.fetch_add(bytes, Ordering::Relaxed) + bytes > AHEAD_BYTES {
            AHEAD.fetch_sub(bytes, Ordering::Relaxed);
            return None;
        }
        let task = runtime.spawn(shared.clone().get(range.clone()));
        Some(Self { range, task })
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        AHEAD.fetch_sub(self.range.end.saturating_sub(self.range.start), Ordering::Relaxed);
        self.task.abort();
    }
}

impl Shared {
    async fn get(self: Arc<Self>, range: Range<u64>) -> object_store::Result<Bytes> {
        let _permit = self.in_flight.acquire().await.expect("it is never closed");
        // Weak tags (`W/".."`) match nothing here.
        let tag = self.meta.e_tag.clone().filter(|tag| !tag.starts_with("W/"));
        let version = self.meta.version.clone().filter(|_| tag.is_none());
        let options = GetOptions {
            range: Some(GetRange::Bounded(range)),
            if_match: tag,
            version,
            ..GetOptions::default()
        };
        self.store.get_opts(&self.meta.location, options).await?.bytes().await
    }
}

impl Object {
    /// Asks the store for the size of an object.
    ///
    /// # Errors
    /// [`Error::Io`] with what the store reports.
    pub fn open(store: Arc<dyn ObjectStore>, location: &Path) -> Result<Self> {
        let path = location.clone();
        let asked = store.clone();
        let meta = wait(async move { asked.head(&path).await })?;
        let meta = meta.map_err(|error| in_object(error, location))?;
        Ok(Self::new(store, meta))
    }

    /// An object that the store has been asked about, or has listed.
    pub fn new(store: Arc<dyn ObjectStore>, meta: ObjectMeta) -> Self {
        let shared = Shared { store, meta, in_flight: Semaphore::new(IN_FLIGHT) };
        Self { shared: Arc::new(shared), ahead: Mutex::default() }
    }

    fn ahead(&self) -> MutexGuard<'_, Vec<Request>> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The request of a range that was announced.
    fn request(&self, range: &Range<u64>) -> Option<Request> {
        let mut ahead = self.ahead();
        let at = ahead.iter().position(|request| request.range == *range)?;
        Some(ahead.remove(at))
    }

    /// What the store says of the object.
    pub fn meta(&self) -> &ObjectMeta {
        &self.shared.meta
    }
}

impl ReadAt for Object {
    fn len(&self) -> u64 {
        self.shared.meta.size
    }

    fn read_at(&self, range: Range<u64>) -> Result<Buffer> {
        if range.is_empty() {
            return Ok(Buffer::from_vec(Vec::<u8>::new()));
        }
        let announced = match self.request(&range) {
            Some(mut request) => wait(async move { (&mut request.task).await.ok()?.ok() })?,
            None => None,
        };
        // Not announced, or its request has failed, maybe a while ago.
        let bytes = match announced {
            Some(bytes) => Ok(bytes),
            None => wait(self.shared.clone().get(range))?,
        };
        bytes.map(Buffer::from).map_err(|error| in_object(error, &self.shared.meta.location))
    }

    fn gap(&self) -> u64 {
        GAP
    }

    fn will_read(&self, range: Range<u64>) {
        let mut ahead = self.ahead();
        if !range.is_empty() && !ahead.iter().any(|request| request.range == range) {
            ahead.extend(Request::new(&self.shared, range));
        }
    }

    fn will_not_read(&self, range: Range<u64>) {
        drop(self.request(&range));
    }
}

impl File {
    /// Opens an object of a store. Calls of the file wait for the store: make them in
    /// `tokio::task::spawn_blocking` within asynchronous code, or open it by [`File::open_object_async`].
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use arrow_array::record_batch;
    /// use lanepack::scan::{col, sum};
    /// use lanepack::{Engine, Options, file};
    /// use object_store::{ObjectStore, memory::InMemory, path::Path};
    ///
    /// let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    /// let path = Path::from("sales/2026.lanepack");
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let batch = record_batch!(("day", Int32, [1, 2, 3]), ("price", Int64, [7, 5, 6]))?;
    /// let options = Options::default();
    /// let mut writer = file::ObjectWriter::try_new(store.clone(), &path, &batch.schema(), options)?;
    /// writer.write(&batch).await?;
    /// writer.finish().await?;
    /// # Ok::<(), lanepack::Error>(())
    /// # })?;
    ///
    /// let file = file::File::open_object(store, &path)?;
    /// let scan = file.scan().filter(col("day").gt(1));
    /// let total = scan.aggregate(&[sum(col("price"))], &Engine::cpu())?;
    /// assert_eq!(total.columns(), record_batch!(("sum(price)", Int64, [11]))?.columns());
    /// # Ok::<(), lanepack::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`File::open`].
    pub fn open_object(store: Arc<dyn ObjectStore>, location: &Path) -> Result<Self> {
        Self::of_object(Object::open(store, location)?)
    }

    fn of_object(object: Object) -> Result<Self> {
        let name = object.meta().location.to_string();
        let file = Self::from_source(Arc::new(object));
        file.map(|file| file.with_name(&name)).map_err(|error| error.in_file(&name))
    }

    /// As [`File::open_object`], without waiting.
    ///
    /// # Errors
    /// As [`File::open`].
    pub async fn open_object_async(store: Arc<dyn ObjectStore>, location: &Path) -> Result<Self> {
        let location = location.clone();
        let _permit = OPENING.acquire().await.expect("it is never closed");
        unblocked(move || Self::open_object(store, &location)).await?
    }
}

impl Dataset {
    /// Opens objects of a store, in this order.
    ///
    /// # Errors
    /// As [`File::open_object`] and [`Dataset::try_new`].
    pub fn open_objects(store: &Arc<dyn ObjectStore>, locations: &[Path]) -> Result<Self> {
        let open = |location: &Path| {
            let (store, location) = (store.clone(), location.clone());
            move || File::open_object(store, &location)
        };
        Self::opened(locations.iter().map(open))
    }

    /// Opens all objects below a prefix, as `sales/2026` and `sales/2026/05/a` are below `sales`, in the order of
    /// their names. Those whose last part begins with a dot or an underscore, such as `_SUCCESS`, are left out.
    ///
    /// # Errors
    /// As [`Dataset::open_objects`]; [`Error::Mismatch`] if there is no such object.
    pub fn list_objects(store: &Arc<dyn ObjectStore>, prefix: &Path) -> Result<Self> {
        let listed = store.list(Some(prefix));
        let objects = wait(listed.try_collect::<Vec<ObjectMeta>>())?;
        let mut objects = objects.map_err(|error| in_object(error, prefix))?;
        let is_hidden = |meta: &ObjectMeta| {
            meta.location.filename().is_none_or(|name| name.starts_with(['.', '_']))
        };
        objects.retain(|meta| !is_hidden(meta));
        if objects.is_empty() {
            let what = format!("objects with the prefix {prefix}, found none");
            return Err(Error::Mismatch { place: Place::default(), what });
        }
        objects.sort_unstable_by(|one, other| one.location.cmp(&other.location));
        let open = |meta: ObjectMeta| {
            let object = Object::new(store.clone(), meta);
            move || File::of_object(object)
        };
        Self::opened(objects.into_iter().map(open))
    }

    /// Opens files by threads that wait for stores.
    fn opened<F: FnOnce() -> Result<File> + Send + 'static>(
        files: impl Iterator<Item = F>,
    ) -> Result<Self> {
        let runtime = runtime()?;
        let task = |open: F| {
            runtime.spawn(async move {
                let _permit = OPENING.acquire().await.expect("it is never closed");
                unblocked(open).await?
            })
        };
        let tasks: Vec<JoinHandle<Result<File>>> = files.map(task).collect();
        let files = wait(async move {
            let mut files = Vec::with_capacity(tasks.len());
            for task in tasks {
                files.push(joined(task.await)??);
            }
            Ok::<_, Error>(files)
        })?;
        Self::try_new(files?)
    }
}

/// Does work that waits, on a thread for such work.
async fn unblocked<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    joined(runtime()?.spawn_blocking(work).await)
}

/// The result of a task, which panics if the task did.
fn joined<T>(result: Result<T, JoinError>) -> Result<T> {
    result.map_err(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(error) => Error::from(std::io::Error::other(error)),
    })
}

/// Writes batches, compressed, to an object of a store: a [`Writer`] whose sink is an upload.
///
/// The object is there once [`ObjectWriter::finish`] has returned, and not before: larger ones are uploaded in
/// parts, which the store puts together at the end. A call that fails removes the parts. A writer that is
/// dropped leaves them, unless [`ObjectWriter::abort`] removes them; stores keep such parts as long as their
/// rules say, which may be for ever. A call whose future is dropped goes on; if it is `finish`, the object will
/// be there.
pub struct ObjectWriter {
    store: Arc<dyn ObjectStore>,
    location: Path,
    schema: SchemaRef,
    state: State,
}

enum State {
    Open(Box<Upload>),
    /// A call works with the upload, or did when its future was dropped.
    Running(JoinHandle<Step>),
    Failed,
    Finished,
}

/// What a call leaves, and its result.
type Step = (State, Result<()>);

struct Upload {
    writer: Writer<Vec<u8>>,
    parts: BufWriter,
}

impl ObjectWriter {
    /// A writer of batches of this schema.
    ///
    /// # Errors
    /// As [`Writer::try_new`].
    pub fn try_new(
        store: Arc<dyn ObjectStore>,
        location: &Path,
        schema: &Schema,
        options: Options,
    ) -> Result<Self> {
        let writer = Writer::try_new(Vec::new(), schema, options)?;
        let schema = writer.schema().clone();
        let parts = BufWriter::new(store.clone(), location.clone());
        let state = State::Open(Box::new(Upload { writer, parts }));
        Ok(Self { store, location: location.clone(), schema, state })
    }

    fn with(mut self, change: impl FnOnce(Upload) -> Upload) -> Self {
        self.state = match self.state {
            State::Open(upload) => State::Open(Box::new(change(*upload))),
            other => other,
        };
        self
    }

    fn with_writer(self, change: impl FnOnce(Writer<Vec<u8>>) -> Writer<Vec<u8>>) -> Self {
        self.with(|upload| Upload { writer: change(upload.writer), ..upload })
    }

    /// Compresses with this engine, as [`Writer::with_engine`].
    #[must_use]
    pub fn with_engine(self, engine: &Engine) -> Self {
        self.with_writer(|writer| writer.with_engine(engine))
    }

    /// As [`Writer::with_batch_rows`].
    #[must_use]
    pub fn with_batch_rows(self, rows: usize) -> Self {
        self.with_writer(|writer| writer.with_batch_rows(rows))
    }

    /// As [`Writer::with_batch_bytes`].
    #[must_use]
    pub fn with_batch_bytes(self, bytes: usize) -> Self {
        self.with_writer(|writer| writer.with_batch_bytes(bytes))
    }

    /// Writes membership filters of these columns, as [`Writer::with_filters`].
    ///
    /// # Errors
    /// As [`Writer::with_filters`].
    pub fn with_filters<S: AsRef<str>>(self, names: &[S]) -> Result<Self> {
        let Self { store, location, schema, state } = self;
        let state = match state {
            State::Open(upload) => {
                let Upload { writer, parts } = *upload;
                State::Open(Box::new(Upload { writer: writer.with_filters(names)?, parts }))
            }
            _ => {
                let what = "filters of an object in which something has been written".to_owned();
                return Err(Error::Mismatch { place: Place::default(), what });
            }
        };
        Ok(Self { store, location, schema, state })
    }

    /// Uploads parts of so many bytes, by default 10 MiB. Stores limit the size of a part (S3: 5 MiB at least)
    /// and their number (S3: 10,000). For a writer that has written nothing.
    #[must_use]
    pub fn with_part_bytes(self, bytes: usize) -> Self {
        let parts =
            BufWriter::with_capacity(self.store.clone(), self.location.clone(), bytes.max(1));
        self.with(|upload| Upload { parts, ..upload })
    }

    /// The schema of the batches that it takes.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Takes a batch; compresses and uploads rows once there are enough.
    ///
    /// # Errors
    /// As [`Writer::write`], and [`Error::Io`] with what the store reports: nothing more is written then.
    pub async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut start = 0;
        loop {
            let slice = batch.slice(start, SLICE_ROWS.min(batch.num_rows() - start));
            start += slice.num_rows();
            self.step(move |writer| writer.write(&slice), false).await?;
            if start == batch.num_rows() {
                return Ok(());
            }
        }
    }

    /// Writes the pending rows and the end of the file, and completes the upload, once.
    ///
    /// # Errors
    /// As [`ObjectWriter::write`].
    pub async fn finish(&mut self) -> Result<()> {
        self.settle().await?;
        match self.state {
            State::Finished => Ok(()),
            _ => self.step(Writer::finish, true).await,
        }
    }

    /// Gives the upload up, and removes its parts.
    ///
    /// # Errors
    /// [`Error::Io`] with what the store reports. If a call of `finish` was dropped, the object may be there.
    pub async fn abort(mut self) -> Result<()> {
        self.settle().await?;
        let State::Open(mut upload) = self.state else { return Ok(()) };
        let aborted = runtime()?.spawn(async move { upload.parts.abort().await });
        joined(aborted.await)?.map_err(|error| in_object(error, &self.location))
    }

    /// Waits for a call whose future was dropped.
    async fn settle(&mut self) -> Result<()> {
        if let State::Running(task) = &mut self.state {
            // Its error was that of the dropped call; what it left says whether the upload goes on.
            let (state, _) = joined(task.await)?;
            self.state = state;
        }
        Ok(())
    }

    /// Has a thread work with the writer, uploads what it has written, and completes the upload if that was all.
    async fn step(
        &mut self,
        work: impl FnOnce(&mut Writer<Vec<u8>>) -> Result<()> + Send + 'static,
        is_last: bool,
    ) -> Result<()> {
        self.settle().await?;
        let runtime = runtime()?;
        let upload = match std::mem::replace(&mut self.state, State::Failed) {
            State::Open(upload) => upload,
            other => {
                let what = match other {
                    State::Finished => "a batch behind the end of the object",
                    _ => "an earlier call failed: the object cannot be continued",
                };
                self.state = other;
                return Err(
                    Error::from(std::io::Error::other(what)).in_file(self.location.as_ref())
                );
            }
        };
        let location = self.location.clone();
        self.state = State::Running(runtime.spawn(step(upload, work, is_last, location)));
        let State::Running(task) = &mut self.state else { unreachable!("it was set") };
        let done = joined(task.await);
        let (state, result) = done.unwrap_or_else(|error| (State::Failed, Err(error)));
        self.state = state;
        result
    }
}

/// What a call does with an upload.
async fn step(
    upload: Box<Upload>,
    work: impl FnOnce(&mut Writer<Vec<u8>>) -> Result<()> + Send + 'static,
    is_last: bool,
    location: Path,
) -> Step {
    let worked = unblocked(move || {
        let mut upload = upload;
        let result = work(&mut upload.writer);
        (upload, result)
    });
    let (mut upload, result) = match worked.await {
        Ok(worked) => worked,
        Err(error) => return (State::Failed, Err(error)),
    };
    let uploaded = match result {
        Err(error) if upload.writer.is_open() => {
            // What the writer has refused was not taken, and others may follow.
            return (State::Open(upload), Err(error));
        }
        Err(error) => Err(error),
        Ok(()) => put(&mut upload, &location).await,
    };
    if let Err(error) = uploaded {
        // Parts that cannot be removed are left.
        let _ = upload.parts.abort().await;
        return (State::Failed, Err(error));
    }
    if !is_last {
        return (State::Open(upload), Ok(()));
    }
    match upload.parts.shutdown().await {
        Ok(()) => (State::Finished, Ok(())),
        Err(error) => (State::Failed, Err(Error::from(error).in_file(location.as_ref()))),
    }
}

/// Uploads what a writer has written.
async fn put(upload: &mut Upload, location: &Path) -> Result<()> {
    let mut bytes = Bytes::from(std::mem::take(upload.writer.sink_mut()));
    while !bytes.is_empty() {
        let piece = bytes.split_to(PIECE_BYTES.min(bytes.len()));
        upload.parts.put(piece).await.map_err(|error| in_object(error, location))?;
    }
    Ok(())
}

impl std::fmt::Debug for ObjectWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectWriter").field("location", &self.location).finish_non_exhaustive()
    }
}
