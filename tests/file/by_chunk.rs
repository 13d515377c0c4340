//! Files that the CPU scans chunk by chunk, and in windows: what threads do together is what one does, and what is
//! announced to a source is read or given up.

use lanepack::file::Dataset;
use lanepack::scan::Expr;

use super::*;

/// Knows what was announced and has not been read or given up.
#[derive(Debug)]
struct Announced {
    bytes: Buffer,
    is_local: bool,
    fails_from: AtomicU64,
    open: Mutex<Vec<Range<u64>>>,
    announced: AtomicUsize,
}

impl Announced {
    fn new(bytes: &[u8], is_local: bool) -> Arc<Self> {
        let (bytes, fails_from) = (Buffer::from(bytes), u64::MAX.into());
        let (open, announced) = Default::default();
        Arc::new(Self { bytes, is_local, fails_from, open, announced })
    }

    fn close(&self, range: &Range<u64>) -> bool {
        let mut open = self.open.lock().unwrap();
        let place = open.iter().position(|one| one == range);
        place.map(|place| open.remove(place)).is_some()
    }
}

impl ReadAt for Announced {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, range: Range<u64>) -> Result<Buffer, Error> {
        self.close(&range);
        if range.end < self.len() && range.start >= self.fails_from.load(Ordering::Relaxed) {
            return Err(std::io::Error::other("gone").into());
        }
        self.bytes.read_at(range)
    }

    fn is_local(&self) -> bool {
        self.is_local
    }

    fn will_read(&self, range: Range<u64>) {
        self.announced.fetch_add(1, Ordering::Relaxed);
        self.open.lock().unwrap().push(range);
    }

    fn will_not_read(&self, range: Range<u64>) {
        self.close(&range);
    }
}

fn filter() -> Expr {
    col("day").gt_eq(60).and(col("name").not_eq("item 31"))
}

#[test]
fn what_is_announced_is_read_or_given_up() {
    let bytes = file_of(&[facts()], &options());
    let source = Announced::new(&bytes, false);
    let file = File::from_source(source.clone()).unwrap().with_window_bytes(1);
    let cpu = Engine::cpu();
    for _ in 0..20 {
        assert!(file.scan().filter(filter()).count(&cpu).unwrap() > 0);
        assert!(source.announced.swap(0, Ordering::Relaxed) > 8);
        assert_eq!(*source.open.lock().unwrap(), []);
    }
    for from in (0..bytes.len()).step_by(bytes.len() / 30) {
        source.fails_from.store(from as u64, Ordering::Relaxed);
        let counted = file.scan().filter(filter()).count(&cpu);
        let batches = file.scan().filter(filter()).batches(&["price"], &cpu).unwrap();
        let gathered: Result<Vec<_>, _> = batches.collect();
        assert_eq!(*source.open.lock().unwrap(), [], "{counted:?} {gathered:?}");
    }
}

#[test]
fn pools_of_any_number_of_threads_give_the_same() {
    let bytes = file_of(&[facts()], &options());
    let packed = compress(&facts(), &options()).unwrap();
    let asked = [count_rows(), sum(col("price")), max(col("name")), count_distinct(col("shop"))];
    let all = |scan: Scan<'_>| {
        let (scan, cpu) = (scan.filter(filter()), Engine::cpu());
        let groups = scan.clone().group_by([col("shop")]);
        [
            scan.aggregate(&asked, &cpu).unwrap(),
            groups.aggregate(&asked[..3], &cpu).unwrap(),
            scan.gather(&["name", "price"], &cpu).unwrap(),
        ]
    };
    let expected = all(Scan::new(&packed));
    for is_local in [true, false] {
        let file = File::from_source(Announced::new(&bytes, is_local)).unwrap();
        for file in [file.clone(), file.with_window_bytes(1)] {
            for threads in [1, 2, 7] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                assert_eq!(pool.install(|| all(file.scan())), expected);
                // Calls of several threads of a pool at a time, from the inside.
                pool.scope(|scope| {
                    for _ in 0..5 {
                        scope.spawn(|_| assert_eq!(all(file.scan()), expected));
                    }
                });
            }
            assert_eq!(all(file.scan()), expected);
        }
    }
}

#[test]
fn errors_name_file_column_and_chunk() {
    let bytes = file_of(&[facts()], &options());
    let source = Announced::new(&bytes, true);
    let file = File::from_source(source.clone()).unwrap().with_name("facts");
    for from in (0..bytes.len()).step_by(bytes.len() / 30) {
        source.fails_from.store(from as u64, Ordering::Relaxed);
        // Of several chunks that cannot be read the first one is named, whoever came first.
        let errors: Vec<String> = (0..5)
            .filter_map(|_| file.scan().aggregate(&[sum(col("shop"))], &Engine::cpu()).err())
            .map(|error| error.to_string())
            .collect();
        assert!(errors.iter().all(|error| *error == errors[0]), "{errors:?}");
        if let Some(error) = errors.first() {
            assert_eq!(errors.len(), 5);
            assert!(error.starts_with("file \"facts\": column \"shop\", chunk "), "{error}");
        }
    }
}

#[test]
fn parts_of_a_file_are_scanned_apart() {
    let bytes = file_of(&[facts()], &options());
    let file = File::from_bytes(Buffer::from(bytes.as_slice())).unwrap();
    let dataset = Dataset::try_new(vec![file.clone(), file.clone()]).unwrap();
    let (cpu, chunks) = (Engine::cpu(), file.num_chunks());
    assert!(chunks > 4);
    let rows = file.statistics("day").unwrap().rows;
    let all = file.scan().filter(filter()).mask(&cpu).unwrap();
    let mut at = 0;
    for (start, end) in [(0, 1), (1, 1), (1, 4), (4, chunks - 1), (chunks - 1, usize::MAX)] {
        let within = start..end.min(chunks);
        let len: usize = rows.values()[within].iter().map(|rows| *rows as usize).sum();
        let expected = all.slice(at, len);
        let part = file.scan_chunks(start..end).filter(filter());
        assert_eq!(part.mask(&cpu).unwrap(), expected);
        assert_eq!(part.count(&cpu).unwrap(), expected.true_count());
        let numbers: Vec<u64> =
            expected.values().set_indices().map(|row| (at + row) as u64).collect();
        let taken = file.take_columns(&numbers, &["name"], &cpu).unwrap();
        assert_eq!(part.gather(&["name"], &cpu).unwrap(), taken);
        assert_eq!(
            part.clone().limit(3).gather(&["name"], &cpu).unwrap(),
            taken.slice(0, 3.min(taken.num_rows()))
        );
        let reads = part.chunk_reads(&["name"]).unwrap();
        assert!(reads.iter().all(|(chunk, bytes)| (start..end).contains(chunk) && *bytes > 0));
        let of_reads: usize = reads
            .iter()
            .map(|(chunk, _)| {
                file.scan_chunks(*chunk..chunk + 1).filter(filter()).count(&cpu).unwrap()
            })
            .sum();
        assert_eq!(of_reads, taken.num_rows());
        // The same chunks of the second of two files.
        let second = dataset.scan_chunks(chunks + start..end.saturating_add(chunks));
        assert_eq!(second.filter(filter()).mask(&cpu).unwrap(), expected);
        at += len;
    }
    assert_eq!(at, file.num_rows());
    assert_eq!(file.scan_chunks(chunks..chunks + 7).count(&cpu).unwrap(), 0);
    let none = file.scan_chunks(9..9).aggregate(&[count_rows(), sum(col("price"))], &cpu).unwrap();
    assert_eq!((none.num_rows(), none.column(1).null_count()), (1, 1));
}

#[test]
fn scans_say_what_they_will_read() {
    let bytes = file_of(&[facts()], &options());
    let file = File::from_bytes(Buffer::from(bytes.as_slice())).unwrap();
    let [names, days] = ["name", "day"].map(|name| file.statistics(name).unwrap().bytes);
    let reads = file.scan().filter(col("day").gt_eq(700)).chunk_reads(&["name"]).unwrap();
    let expected: Vec<(usize, u64)> =
        (6..9).map(|chunk| (chunk, names.value(chunk) + days.value(chunk))).collect();
    assert_eq!(reads, expected);
    assert_eq!(file.chunk_rows()[8], 9000 - 8 * 1024);
    let packed = compress(&facts(), &options()).unwrap();
    assert!(Scan::new(&packed).chunk_reads(&["name"]).is_err());
}

#[test]
fn a_filter_is_checked_without_reading() {
    let bytes = file_of(&[facts()], &options());
    let source = Announced::new(&bytes, true);
    let file = File::from_source(source.clone()).unwrap();
    source.fails_from.store(0, Ordering::Relaxed);
    assert!(file.scan().filter(filter()).check().is_ok());
    // The last one could pass 128 bits.
    let large = (0..6).fold(col("shop"), |product, _| product * i64::MAX);
    for wrong in [col("nobody").eq(1), col("day").eq("never"), col("name"), large.gt(5)] {
        assert!(file.scan().filter(wrong).check().is_err());
    }
    assert!(file.scan().count(&Engine::cpu()).is_ok());
    assert!(file.scan().gather(&["name"], &Engine::cpu()).is_err());
}
