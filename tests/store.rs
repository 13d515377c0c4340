//! Files in object stores: in memory, in folders, on a server with the interface of S3, and in stores that
//! fail, are slow or give too little.

mod common;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arrow_array::{RecordBatch, record_batch};
use futures::stream::BoxStream;
use lanepack::file::{Dataset, File, Object, ObjectWriter, ReadAt};
use lanepack::scan::{col, count_rows, sum};
use lanepack::{Engine, Error, Options};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, UploadPart,
};

fn facts(rows: i64) -> RecordBatch {
    record_batch!(
        ("day", Int32, (0..rows).map(|row| (row / 10) as i32).collect::<Vec<_>>()),
        ("price", Int64, (0..rows).map(|row| row * 7919 % 1000).collect::<Vec<_>>()),
        ("name", Utf8, (0..rows).map(|row| format!("item {}", row * 31 % 977)).collect::<Vec<_>>())
    )
    .unwrap()
}

fn options() -> Options {
    Options::default().with_chunk_rows(1024)
}

const NAMES: [&str; 3] = ["day", "price", "name"];

fn writer(store: &Arc<dyn ObjectStore>, path: &Path) -> ObjectWriter {
    ObjectWriter::try_new(store.clone(), path, &facts(1).schema(), options()).unwrap()
}

async fn write(store: &Arc<dyn ObjectStore>, path: &Path, batch: &RecordBatch) {
    let mut writer = writer(store, path);
    for start in (0..batch.num_rows()).step_by(700) {
        writer.write(&batch.slice(start, 700.min(batch.num_rows() - start))).await.unwrap();
    }
    writer.finish().await.unwrap();
    writer.finish().await.unwrap();
}

/// Writes objects and reads them in all ways.
async fn round_trip(store: Arc<dyn ObjectStore>) {
    let batch = facts(9000);
    let [first, second] = ["sales/2025/a", "sales/2026/05/b"].map(Path::from);
    write(&store, &first, &batch.slice(0, 3000)).await;
    write(&store, &second, &batch.slice(3000, 6000)).await;
    let file = File::open_object_async(store.clone(), &second).await.unwrap();
    assert_eq!((file.num_rows(), file.name()), (6000, Some("sales/2026/05/b")));
    let check = move || {
        let cpu = Engine::cpu();
        // Windows of a chunk are announced ahead of the reads.
        for file in [file.clone(), file.with_window_bytes(1)] {
            let all = file.scan().gather(&NAMES, &cpu).unwrap();
            assert_eq!(all, batch.slice(3000, 6000));
            let scan = file.scan().filter(col("day").between(500, 501));
            let found = scan.aggregate(&[count_rows(), sum(col("price"))], &cpu).unwrap();
            let prices: i64 = (5000..5020).map(|row| row * 7919 % 1000).sum();
            let expected =
                record_batch!(("count(*)", Int64, [20]), ("sum(price)", Int64, [prices])).unwrap();
            assert_eq!(found.columns(), expected.columns());
            assert_eq!(file.take(&[5999, 0], &cpu).unwrap().num_rows(), 2);
        }
        let days = Dataset::list_objects(&store, &Path::from("sales")).unwrap();
        assert_eq!(days.scan().gather(&NAMES, &cpu).unwrap(), batch);
        let days = Dataset::open_objects(&store, &[second, first]).unwrap();
        assert_eq!(days.take(&[6000], &cpu).unwrap(), batch.slice(0, 1));
        let none = Dataset::list_objects(&store, &Path::from("sal")).unwrap_err();
        assert!(none.to_string().contains("sal"), "{none}");
        let missing = File::open_object(store, &Path::from("sales/none")).unwrap_err();
        let Error::Io { place, source, .. } = &missing else { panic!("{missing}") };
        assert_eq!(place.file.as_deref(), Some("sales/none"));
        assert_eq!(source.kind(), std::io::ErrorKind::NotFound, "{missing}");
    };
    tokio::task::spawn_blocking(check).await.unwrap();
}

#[tokio::test]
async fn objects_in_memory_come_back() {
    round_trip(Arc::new(InMemory::new())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_in_a_folder_come_back() {
    let folder = tempfile::tempdir().unwrap();
    round_trip(Arc::new(
        object_store::local::LocalFileSystem::new_with_prefix(folder.path()).unwrap(),
    ))
    .await;
}

#[tokio::test]
async fn calls_within_a_task_do_not_wait_for_themselves() {
    // On the only thread of its runtime, and on the only one of a pool.
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let path = Path::from("facts");
    write(&store, &path, &facts(5000)).await;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let file = File::open_object(store, &path).unwrap();
    for in_pool in [false, true] {
        let count = || file.scan().filter(col("price").lt(500)).count(&Engine::cpu()).unwrap();
        let found = if in_pool { pool.install(count) } else { count() };
        assert!((2000..3000).contains(&found), "{found}");
    }
}

#[tokio::test]
async fn writers_that_fail_leave_no_object() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let path = Path::from("facts");
    let batch = facts(3000);
    let mut dropped = writer(&store, &path);
    dropped.write(&batch).await.unwrap();
    drop(dropped);
    let mut aborted = writer(&store, &path);
    aborted.write(&batch).await.unwrap();
    aborted.abort().await.unwrap();
    assert!(store.head(&path).await.is_err());
    // What is refused was not taken.
    let mut writer = writer(&store, &path);
    let other = batch.project(&[0]).unwrap();
    let error = writer.write(&other).await.unwrap_err();
    assert!(matches!(error, Error::Mismatch { .. }), "{error}");
    writer.write(&batch).await.unwrap();
    writer.finish().await.unwrap();
    assert!(writer.write(&batch).await.is_err());
    writer.abort().await.unwrap();
    let file = File::open_object_async(store, &path).await.unwrap();
    assert_eq!(file.num_rows(), 3000);
}

/// What a store does to requests of ranges.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    /// Fails those from this one on.
    From(usize),
    /// Fails some requests behind these, as many as that.
    Some(usize, usize),
    /// Fails the upload of this part.
    Part(usize),
    /// Fails to put the parts together.
    Complete,
    /// Gives half of the bytes.
    Short,
    /// Takes its time, some more than others.
    Slow,
}

impl Fault {
    /// Whether it fails the request of this number.
    fn fails(self, number: usize) -> bool {
        match self {
            Self::From(first) => number >= first,
            Self::Some(first, count) => (first..first + count).contains(&number),
            _ => false,
        }
    }
}

fn gone() -> object_store::Error {
    object_store::Error::Generic { store: "faulty", source: "the network is gone".into() }
}

/// An upload with faults.
#[derive(Debug)]
struct FaultyUpload {
    inner: Box<dyn MultipartUpload>,
    fault: Fault,
    parts: usize,
    aborted: Arc<AtomicUsize>,
}

#[async_trait::async_trait]
impl MultipartUpload for FaultyUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.parts += 1;
        match self.fault == Fault::Part(self.parts) {
            true => Box::pin(async { Err(gone()) }),
            false => self.inner.put_part(data),
        }
    }

    async fn complete(&mut self) -> object_store::Result<PutResult> {
        match self.fault {
            Fault::Complete => Err(gone()),
            Fault::Slow => {
                tokio::time::sleep(Duration::from_millis(300)).await;
                self.inner.complete().await
            }
            _ => self.inner.complete().await,
        }
    }

    async fn abort(&mut self) -> object_store::Result<()> {
        self.aborted.fetch_add(1, Ordering::SeqCst);
        self.inner.abort().await
    }
}

/// A store in memory with faults.
#[derive(Debug)]
struct Faulty {
    inner: InMemory,
    fault: Fault,
    requests: AtomicUsize,
    in_flight: AtomicUsize,
    most_in_flight: AtomicUsize,
    aborted: Arc<AtomicUsize>,
}

impl Faulty {
    async fn new(fault: Fault, path: &Path, batch: &RecordBatch) -> Arc<Self> {
        let inner: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        write(&inner, path, batch).await;
        let bytes = inner.get(path).await.unwrap().bytes().await.unwrap();
        let inner = InMemory::new();
        inner.put(path, bytes.into()).await.unwrap();
        let count = AtomicUsize::default;
        Arc::new(Self {
            inner,
            fault,
            requests: count(),
            in_flight: count(),
            most_in_flight: count(),
            aborted: Arc::default(),
        })
    }
}

impl std::fmt::Display for Faulty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a store with faults")
    }
}

#[async_trait::async_trait]
impl ObjectStore for Faulty {
    async fn get_opts(
        &self,
        path: &Path,
        mut options: GetOptions,
    ) -> object_store::Result<GetResult> {
        let Some(GetRange::Bounded(range)) = options.range.clone() else {
            return self.inner.get_opts(path, options).await;
        };
        let number = self.requests.fetch_add(1, Ordering::SeqCst);
        let now = self.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_in_flight.fetch_max(now, Ordering::SeqCst);
        match self.fault {
            Fault::From(_) | Fault::Some(..) if self.fault.fails(number) => {
                self.in_flight.fetch_sub(1, Ordering::SeqCst);
                return Err(gone());
            }
            Fault::Short => {
                let half: Range<u64> = range.start..range.start + (range.end - range.start) / 2 + 1;
                options.range = Some(GetRange::Bounded(half));
            }
            Fault::Slow => {
                tokio::time::sleep(Duration::from_millis(5 + 7 * (number as u64 % 5))).await;
            }
            Fault::From(_) | Fault::Some(..) | Fault::Part(_) | Fault::Complete => {}
        }
        let result = self.inner.get_opts(path, options).await;
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
        let result = result?;
        let (meta, range, attributes) =
            (result.meta.clone(), result.range.clone(), result.attributes.clone());
        let bytes = result.bytes().await?;
        let payload =
            GetResultPayload::Stream(Box::pin(futures::stream::once(async { Ok(bytes) })));
        Ok(GetResult { payload, meta, range, attributes })
    }

    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> object_store::Result<PutResult> {
        self.inner.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        let inner = self.inner.put_multipart_opts(path, options).await?;
        let (fault, aborted) = (self.fault, self.aborted.clone());
        Ok(Box::new(FaultyUpload { inner, fault, parts: 0, aborted }))
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(
        &self,
        from: &Path,
        to: &Path,
        options: CopyOptions,
    ) -> object_store::Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_a_store_are_errors_with_their_place() {
    let path = Path::from("facts");
    let batch = facts(20_000);
    for first in [0, 1, 2, 5] {
        let store = Faulty::new(Fault::From(first), &path, &batch).await;
        let opened = File::open_object(store, &path);
        let read = opened.and_then(|file| {
            assert!(first > 0, "the footer is read");
            file.with_window_bytes(1).scan().gather(&NAMES, &Engine::cpu())
        });
        let error = read.unwrap_err();
        let place = error.place().unwrap();
        assert!(error.to_string().contains("the network is gone"), "{error}");
        assert_eq!(place.file.as_deref(), Some("facts"), "{error}");
        assert_eq!(place.chunk.is_some(), first > 0, "{error}");
    }
    let store = Faulty::new(Fault::Short, &path, &batch).await;
    let error = File::open_object(store, &path).unwrap_err();
    assert!(error.to_string().contains("bytes came of bytes"), "{error}");
}

/// Objects with membership filters: their requests are in flight together, and their faults have a place.
#[tokio::test(flavor = "multi_thread")]
async fn filters_of_objects_are_asked() {
    let scattered = |row: i64| row.wrapping_mul(0x5851_f42d_4c95_7f2d);
    let ids: Vec<i64> = (0..20_000).map(scattered).collect();
    let batch = record_batch!(("id", Int64, ids), ("day", Int64, (0..20_000).collect::<Vec<_>>()));
    let batch = batch.unwrap();
    let (path, inner) = (Path::from("ids"), Arc::new(InMemory::new()));
    let store: Arc<dyn ObjectStore> = inner.clone();
    let writer = ObjectWriter::try_new(store.clone(), &path, &batch.schema(), options()).unwrap();
    assert!(writer.with_filters(&["none"]).is_err());
    let writer = ObjectWriter::try_new(store.clone(), &path, &batch.schema(), options()).unwrap();
    let mut writer = writer.with_filters(&["id"]).unwrap();
    writer.write(&batch).await.unwrap();
    writer.finish().await.unwrap();
    assert!(writer.with_filters(&["day"]).is_err());
    let bytes = inner.get(&path).await.unwrap().bytes().await.unwrap();
    for fault in [Fault::Slow, Fault::From(1)] {
        let store = Faulty::new(fault, &path, &facts(1)).await;
        store.inner.put(&path, bytes.clone().into()).await.unwrap();
        let file = File::open_object_async(store.clone(), &path).await.unwrap();
        let found = tokio::task::spawn_blocking(move || {
            let scan = file.scan().filter(col("id").eq(scattered(7000)));
            scan.gather(&["day"], &Engine::cpu())
        });
        match (fault, found.await.unwrap()) {
            (Fault::Slow, found) => {
                assert_eq!(found.unwrap(), record_batch!(("day", Int64, [7000_i64])).unwrap());
                // The footer; the filters of three messages; both columns of a chunk, maybe of two.
                let requests = store.requests.load(Ordering::SeqCst);
                assert!(requests <= 8, "{requests} requests");
            }
            (_, found) => {
                let error = found.unwrap_err();
                let place = error.place().unwrap();
                assert!(matches!(error, Error::Io { .. }), "{error}");
                assert_eq!(
                    (place.file.as_deref(), place.column.as_deref()),
                    (Some("ids"), Some("id"))
                );
                assert_eq!(place.chunk, Some(0));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_that_pass_are_forgotten() {
    let path = Path::from("facts");
    let batch = facts(20_000);
    let store = Faulty::new(Fault::Some(3, 30), &path, &batch).await;
    let file = File::open_object(store.clone(), &path).unwrap().with_window_bytes(1);
    // Requests that failed, and those that nobody read, are made again, each once.
    let mut tries = 0;
    while let Err(error) = file.scan().gather(&NAMES, &Engine::cpu()) {
        assert!(error.to_string().contains("the network is gone"), "{error}");
        tries += 1;
        assert!(tries < 40, "{tries}");
    }
    assert!(tries > 0);
    // An iterator that is dropped leaves nothing behind either.
    let mut batches = file.scan().batches(&["day"], &Engine::cpu()).unwrap();
    assert!(batches.next_batch().unwrap().is_some());
    drop(batches);
    let before = store.requests.load(Ordering::SeqCst);
    assert_eq!(file.scan().gather(&["day"], &Engine::cpu()).unwrap().num_rows(), 20_000);
    let requests = store.requests.load(Ordering::SeqCst) - before;
    assert!(requests <= file.num_chunks(), "{requests} requests of {} chunks", file.num_chunks());
}

#[tokio::test]
async fn uploads_that_fail_leave_neither_object_nor_parts() {
    let (path, batch) = (Path::from("other"), facts(20_000));
    for fault in [Fault::Part(1), Fault::Part(3), Fault::Complete] {
        let store = Faulty::new(fault, &Path::from("facts"), &batch).await;
        let dynamic: Arc<dyn ObjectStore> = store.clone();
        let mut writer = writer(&dynamic, &path).with_part_bytes(4096).with_batch_rows(1024);
        let mut failed = None;
        for start in (0..20_000).step_by(1000) {
            if let Err(error) = writer.write(&batch.slice(start, 1000)).await {
                failed = Some(error);
                break;
            }
        }
        let error = match failed {
            Some(error) => error,
            None => writer.finish().await.unwrap_err(),
        };
        assert!(error.to_string().contains("the network is gone"), "{fault:?}: {error}");
        assert_eq!(error.place().unwrap().file.as_deref(), Some("other"));
        let later = writer.write(&batch).await.unwrap_err();
        assert!(later.to_string().contains("cannot be continued"), "{later}");
        assert!(writer.finish().await.is_err());
        writer.abort().await.unwrap();
        assert!(store.head(&path).await.is_err());
    }
}

#[tokio::test]
async fn calls_that_are_dropped_go_on() {
    let (path, batch) = (Path::from("other"), facts(20_000));
    let store = Faulty::new(Fault::Slow, &Path::from("facts"), &batch).await;
    let dynamic: Arc<dyn ObjectStore> = store.clone();
    for finishes in [false, true] {
        let mut writer = writer(&dynamic, &path).with_part_bytes(4096);
        writer.write(&batch.slice(0, 10_000)).await.unwrap();
        let rest = batch.slice(10_000, 10_000);
        // It is polled once, which seldom is enough.
        let dropped = tokio::time::timeout(Duration::ZERO, writer.write(&rest)).await;
        assert!(dropped.is_err() || dropped.unwrap().is_ok());
        if !finishes {
            writer.abort().await.unwrap();
            assert!(store.head(&path).await.is_err());
            assert_eq!(store.aborted.load(Ordering::SeqCst), 1);
            continue;
        }
        match tokio::time::timeout(Duration::ZERO, writer.finish()).await {
            Ok(finished) => finished.unwrap(),
            Err(_) => writer.finish().await.unwrap(),
        }
        let file = File::open_object_async(dynamic.clone(), &path).await.unwrap();
        let rows = tokio::task::spawn_blocking(move || {
            file.scan().gather(&NAMES, &Engine::cpu()).unwrap()
        });
        assert_eq!(rows.await.unwrap(), batch);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_objects_open_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let local = object_store::local::LocalFileSystem::new_with_prefix(folder.path()).unwrap();
    let store: Arc<dyn ObjectStore> = Arc::new(local);
    let first = Path::from("days/0");
    write(&store, &first, &facts(10)).await;
    let bytes = store.get(&first).await.unwrap().bytes().await.unwrap();
    for day in 1..800 {
        store.put(&Path::from(format!("days/{day}")), bytes.clone().into()).await.unwrap();
    }
    store.put(&Path::from("days/_SUCCESS"), "".into()).await.unwrap();
    let opened = (0..800).map(|day| {
        let store = store.clone();
        async move { File::open_object_async(store, &Path::from(format!("days/{day}"))).await }
    });
    let files = futures::future::join_all(opened).await;
    assert!(files.iter().all(|file| file.as_ref().is_ok_and(|file| file.num_rows() == 10)));
    let days = move || Dataset::list_objects(&store, &Path::from("days")).unwrap().num_rows();
    assert_eq!(tokio::task::spawn_blocking(days).await.unwrap(), 8000);
}

#[test]
fn writers_and_files_may_be_shared() {
    fn shared<T: Send + Sync>() {}
    shared::<File>();
    shared::<Dataset>();
    shared::<lanepack::file::Writer<Vec<u8>>>();
    // Uploads of the crate object_store are not shared.
    fn sent<T: Send>() {}
    sent::<ObjectWriter>();
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_stores_have_several_requests_in_flight() {
    let path = Path::from("facts");
    let batch = facts(60_000);
    let store = Faulty::new(Fault::Slow, &path, &batch).await;
    let file = File::open_object(store.clone(), &path).unwrap().with_window_bytes(20_000);
    assert_eq!(file.scan().gather(&NAMES, &Engine::cpu()).unwrap(), batch);
    let most = store.most_in_flight.load(Ordering::SeqCst);
    assert!((2..=16).contains(&most), "{most} of {:?}", store.requests);
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_are_replaced_are_an_error() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let path = Path::from("facts");
    write(&store, &path, &facts(5000)).await;
    let file = File::open_object(store.clone(), &path).unwrap();
    write(&store, &path, &facts(5000)).await;
    let error = file.scan().gather(&NAMES, &Engine::cpu()).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
    let object = Object::open(store, &path).unwrap();
    assert_eq!(object.meta().size, object.len());
    assert_eq!(object.read_at(0..6).unwrap().as_slice(), b"ARROW1");
    assert!(object.read_at(3..3).unwrap().is_empty());
    assert!(object.read_at(object.len()..object.len() + 5).is_err());
}

/// A server with the interface of S3 (moto, of scripts/requirements.txt).
struct Server {
    process: std::process::Child,
    port: u16,
}

impl Server {
    /// Starts one; none where it is not installed and need not be.
    fn start() -> Option<Self> {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let python = std::env::var_os("LANEPACK_PYTHON").map(std::path::PathBuf::from);
        let python = python.unwrap_or_else(|| root.join(".venv/bin/python"));
        let program = python.with_file_name("moto_server");
        if !program.exists() {
            let why = format!("no moto_server beside {}", python.display());
            common::skip("LANEPACK_REQUIRE_PYTHON", &why);
            return None;
        }
        // A port that was free a moment ago.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let process = std::process::Command::new(program)
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { process, port };
        server.make_bucket();
        Some(server)
    }

    fn make_bucket(&self) {
        use std::io::{Read, Write};
        let request = "PUT /bucket HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\
                       Connection: close\r\n\r\n";
        for _ in 0..300 {
            if let Ok(mut stream) = std::net::TcpStream::connect(("127.0.0.1", self.port)) {
                stream.write_all(request.as_bytes()).unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).unwrap();
                assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("the server does not answer");
    }

    fn store(&self) -> Arc<dyn ObjectStore> {
        let builder = object_store::aws::AmazonS3Builder::new()
            .with_endpoint(format!("http://127.0.0.1:{}", self.port))
            .with_allow_http(true)
            .with_bucket_name("bucket")
            .with_region("us-east-1")
            .with_access_key_id("user")
            .with_secret_access_key("secret");
        Arc::new(builder.build().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_a_server_come_back() {
    let Some(server) = Server::start() else { return };
    round_trip(server.store()).await;
    // In parts: 16 MB that have no pattern.
    let store = server.store();
    let numbers = |row: u64| {
        let mixed = (row ^ row >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    };
    let batch =
        record_batch!(("x", UInt64, (0..2_000_000).map(numbers).collect::<Vec<_>>())).unwrap();
    let path = Path::from("large");
    let mut writer =
        ObjectWriter::try_new(store.clone(), &path, &batch.schema(), Options::default()).unwrap();
    writer = writer.with_batch_rows(131_072).with_batch_bytes(1 << 20);
    for start in (0..2_000_000).step_by(100_000) {
        writer.write(&batch.slice(start, 100_000)).await.unwrap();
        assert!(store.head(&path).await.is_err(), "it is not there before the end");
    }
    writer.finish().await.unwrap();
    let file = File::open_object_async(store.clone(), &path).await.unwrap();
    let expected = batch.clone();
    let read = move || {
        let total = file.scan().gather(&["x"], &Engine::cpu()).unwrap();
        assert!(total == expected, "2,000,000 numbers");
        file
    };
    let file = tokio::task::spawn_blocking(read).await.unwrap();
    // Replaced while it is open, by another object of the same size and name.
    let bytes = store.get(&path).await.unwrap().bytes().await.unwrap();
    let mut other = bytes.to_vec();
    let last = other.len() - 1;
    other[last] ^= 1;
    store.put(&path, other.into()).await.unwrap();
    let count = move || file.scan().filter(col("x").lt(1_u64 << 40)).count(&Engine::cpu());
    let error = tokio::task::spawn_blocking(count).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
}
