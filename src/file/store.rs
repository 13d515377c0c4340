//! Files in object stores (feature `object_store`).
//!
//! ```text
//! threads of callers, of the pool    read ranges, and wait for them
//! Object                             requests of announced ranges, in flight ahead of the reads
//! runtime of this module             runs the requests
//! ```
//!
//! Requests run on a runtime of two threads that this module starts with the first object. So calls may wait
//! for a store wherever they are made, within a runtime of the caller or not, and a call within an
//! asynchronous task never keeps the requests from running that it waits for.

use std::collections::VecDeque;
use std::future::Future;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_schema::{Schema, SchemaRef};
use bytes::Bytes;
use object_store::buffered::BufWriter;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt};
use rayon::prelude::*;
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
/// Bytes of announced ranges that are kept until they are read.
const AHEAD_BYTES: u64 = 512 << 20;

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
/// meanwhile is an error, if the store has tags of contents (`ETag`) or versions.
#[derive(Debug)]
pub struct Object {
    shared: Arc<Shared>,
    ahead: Mutex<Ahead>,
}

#[derive(Debug)]
struct Shared {
    store: Arc<dyn ObjectStore>,
    meta: ObjectMeta,
    in_flight: Semaphore,
}

/// Ranges that were announced and have not been read.
#[derive(Debug, Default)]
struct Ahead {
    requests: VecDeque<(Range<u64>, JoinHandle<object_store::Result<Bytes>>)>,
    bytes: u64,
}

impl Ahead {
    fn take(&mut self, range: &Range<u64>) -> Option<JoinHandle<object_store::Result<Bytes>>> {
        let at = self.requests.iter().position(|(own, _)| own == range)?;
        let (range, request) = self.requests.remove(at)?;
        self.bytes -= range.end - range.start;
        Some(request)
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        let ahead = self.ahead.get_mut().unwrap_or_else(PoisonError::into_inner);
        ahead.requests.iter().for_each(|(_, request)| request.abort());
    }
}

impl Shared {
    async fn get(self: Arc<Self>, range: Range<u64>) -> object_store::Result<Bytes> {
        let _permit = self.in_flight.acquire().await.expect("it is never closed");
        let options = GetOptions {
            range: Some(GetRange::Bounded(range)),
            if_match: self.meta.e_tag.clone(),
            version: self.meta.version.clone(),
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
        let shared = Shared { store, meta, in_flight: Semaphore::new(IN_FLIGHT) };
        Ok(Self { shared: Arc::new(shared), ahead: Mutex::default() })
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
        let announced = self.ahead.lock().unwrap_or_else(PoisonError::into_inner).take(&range);
        let shared = self.shared.clone();
        let bytes = match announced {
            Some(request) => wait(async move { request.await.ok() })?,
            None => None,
        };
        // Not announced, or the request did not end.
        let bytes = match bytes {
            Some(bytes) => bytes,
            None => wait(shared.get(range))?,
        };
        bytes.map(Buffer::from).map_err(|error| in_object(error, &self.shared.meta.location))
    }

    fn gap(&self) -> u64 {
        GAP
    }

    fn will_read(&self, range: Range<u64>) {
        let Ok(runtime) = runtime() else { return };
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        if range.is_empty() || ahead.requests.iter().any(|(own, _)| *own == range) {
            return;
        }
        ahead.bytes += range.end - range.start;
        let request = runtime.spawn(self.shared.clone().get(range.clone()));
        ahead.requests.push_back((range, request));
        // Those of calls that have failed, say, are never read.
        while ahead.bytes > AHEAD_BYTES && ahead.requests.len() > 1 {
            if let Some((range, request)) = ahead.requests.pop_front() {
                ahead.bytes -= range.end - range.start;
                request.abort();
            }
        }
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
        let file = Self::from_source(Arc::new(Object::open(store, location)?));
        let name = location.as_ref();
        file.map(|file| file.with_name(name)).map_err(|error| error.in_file(name))
    }

    /// As [`File::open_object`], without waiting.
    ///
    /// # Errors
    /// As [`File::open`].
    pub async fn open_object_async(store: Arc<dyn ObjectStore>, location: &Path) -> Result<Self> {
        let location = location.clone();
        unblocked(move || Self::open_object(store, &location)).await?
    }
}

impl Dataset {
    /// Opens objects of a store, in this order.
    ///
    /// # Errors
    /// As [`File::open_object`] and [`Dataset::try_new`].
    pub fn open_objects(store: &Arc<dyn ObjectStore>, locations: &[Path]) -> Result<Self> {
        let open = |location: &Path| File::open_object(store.clone(), location);
        Self::try_new(locations.par_iter().map(open).collect::<Result<_>>()?)
    }

    /// Opens all objects whose names begin with a prefix of whole parts, as `sales/2026` and `sales/2026/05/a`
    /// do with `sales`, in the order of their names.
    ///
    /// # Errors
    /// As [`Dataset::open_objects`]; [`Error::Mismatch`] if there is no such object.
    pub fn list_objects(store: &Arc<dyn ObjectStore>, prefix: &Path) -> Result<Self> {
        let (listed, first) = (store.clone(), prefix.clone());
        let locations = wait(async move {
            let (mut locations, mut prefixes) = (Vec::new(), vec![first]);
            while let Some(prefix) = prefixes.pop() {
                let found = listed.list_with_delimiter(Some(&prefix)).await?;
                locations.extend(found.objects.into_iter().map(|meta| meta.location));
                prefixes.extend(found.common_prefixes);
            }
            locations.sort_unstable();
            Ok::<_, object_store::Error>(locations)
        })?;
        let locations = locations.map_err(|error| in_object(error, prefix))?;
        if locations.is_empty() {
            let what = format!("objects with the prefix {prefix}, found none");
            return Err(Error::Mismatch { place: Place::default(), what });
        }
        Self::open_objects(store, &locations)
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
/// parts, which the store puts together at the end. An upload whose writer was dropped before, or that has
/// failed, leaves parts that stores remove after a time; [`ObjectWriter::abort`] removes them.
pub struct ObjectWriter {
    /// None while a call works with it, and after one that was dropped in the middle or has failed.
    open: Option<Upload>,
    finished: bool,
    location: Path,
    schema: SchemaRef,
}

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
        let parts = BufWriter::new(store, location.clone());
        let open = Some(Upload { writer, parts });
        Ok(Self { open, finished: false, location: location.clone(), schema })
    }

    fn with(mut self, change: impl FnOnce(Writer<Vec<u8>>) -> Writer<Vec<u8>>) -> Self {
        self.open = self.open.map(|open| Upload { writer: change(open.writer), ..open });
        self
    }

    /// Compresses with this engine, as [`Writer::with_engine`].
    #[must_use]
    pub fn with_engine(self, engine: &Engine) -> Self {
        self.with(|writer| writer.with_engine(engine))
    }

    /// As [`Writer::with_batch_rows`].
    #[must_use]
    pub fn with_batch_rows(self, rows: usize) -> Self {
        self.with(|writer| writer.with_batch_rows(rows))
    }

    /// As [`Writer::with_batch_bytes`].
    #[must_use]
    pub fn with_batch_bytes(self, bytes: usize) -> Self {
        self.with(|writer| writer.with_batch_bytes(bytes))
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
        let batch = batch.clone();
        self.step(move |writer| writer.write(&batch), false).await
    }

    /// Writes the pending rows and the end of the file, and completes the upload, once.
    ///
    /// # Errors
    /// As [`ObjectWriter::write`].
    pub async fn finish(&mut self) -> Result<()> {
        if !self.finished {
            self.step(Writer::finish, true).await?;
            self.finished = true;
        }
        Ok(())
    }

    /// Gives the upload up.
    ///
    /// # Errors
    /// [`Error::Io`] with what the store reports.
    pub async fn abort(mut self) -> Result<()> {
        let Some(mut open) = self.open.take().filter(|_| !self.finished) else { return Ok(()) };
        let aborted = runtime()?.spawn(async move { open.parts.abort().await });
        joined(aborted.await)?.map_err(|error| in_object(error, &self.location))
    }

    /// Has a thread work with the writer, uploads what it has written, and completes the upload if that was all.
    async fn step(
        &mut self,
        work: impl FnOnce(&mut Writer<Vec<u8>>) -> Result<()> + Send + 'static,
        is_last: bool,
    ) -> Result<()> {
        let location = self.location.clone();
        let Some(mut open) = self.open.take() else {
            let what = "an earlier call failed: the object cannot be continued";
            return Err(Error::from(std::io::Error::other(what)).in_file(location.as_ref()));
        };
        let done = runtime()?.spawn(async move {
            let (mut open, result) = unblocked(move || {
                let result = work(&mut open.writer);
                (open, result)
            })
            .await?;
            if result.is_err() && !open.writer.is_open() {
                return result.map(|()| None);
            }
            let bytes = std::mem::take(open.writer.sink_mut());
            if !bytes.is_empty() {
                let put = open.parts.put(bytes.into()).await;
                put.map_err(|error| in_object(error, &location))?;
            }
            if is_last && result.is_ok() {
                let completed = open.parts.shutdown().await;
                completed.map_err(|error| Error::from(error).in_file(location.as_ref()))?;
            }
            Ok(Some((open, result)))
        });
        match joined(done.await)?? {
            // What the writer has refused was not taken, and others may follow.
            Some((open, result)) => {
                self.open = Some(open);
                result
            }
            None => Ok(()),
        }
    }
}

impl std::fmt::Debug for ObjectWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectWriter").field("location", &self.location).finish_non_exhaustive()
    }
}
