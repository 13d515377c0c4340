//! Plans of scans on a GPU: steps and kernels are those of the scan, and nothing is scanned for them.

use arrow_array::{RecordBatch, record_batch};
use lanepack::scan::{
    GroupTableKind, KernelOrigin, Lookup, QueryPlan, Scan, col, count_distinct, count_rows, max,
    min, sum,
};
use lanepack::{Engine, Options, compress};

use super::staged::packed;
use super::{engines, without_compiler};

/// Facts of 6,000 rows, and a dimension with every third key.
fn facts() -> (RecordBatch, Lookup) {
    let rows = 0..6000_i64;
    let mixed = |row: i64| row.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64) >> 33 & 0x7fff_ffff;
    let batch = record_batch!(
        ("key", Int32, rows.clone().map(|row| (row * 7919 % 300) as i32).collect::<Vec<_>>()),
        ("day", Int32, rows.clone().map(|row| (row / 4) as i32).collect::<Vec<_>>()),
        ("price", Int64, rows.clone().map(|row| mixed(row) % 50_000).collect::<Vec<_>>()),
        ("name", Utf8, rows.map(|row| format!("item {}", row * 31 % 977)).collect::<Vec<_>>())
    );
    let dimension = record_batch!(
        ("id", Int32, (0..100).map(|row| row * 3).collect::<Vec<i32>>()),
        ("class", Utf8, (0..100).map(|row| format!("class {}", row % 5)).collect::<Vec<_>>()),
        ("city", Int32, (0..100).collect::<Vec<i32>>())
    );
    let options = Options::default().with_chunk_rows(1024);
    let lookup = Lookup::try_new(&dimension.unwrap(), "id").unwrap();
    (compress(&batch.unwrap(), &options).unwrap(), lookup)
}

fn texts(plan: &QueryPlan) -> Vec<&str> {
    plan.steps().iter().map(|step| step.text.as_str()).collect()
}

fn kernels(plan: &QueryPlan) -> Vec<&str> {
    plan.kernels().iter().map(|kernel| kernel.name.as_str()).collect()
}

#[test]
fn a_plan_has_the_kernel_that_the_scan_runs() {
    let (facts, lookup) = facts();
    for engine in engines() {
        let resident = engine.upload(&facts).unwrap();
        let scan = Scan::on_device(&resident)
            .join(col("key"), &lookup)
            .filter(col("price").lt(1000).and(col("class").eq("class 1")))
            .filter(col("day").gt_eq(1024 / 4 * 2));
        let aggregates = [sum(col("price")), count_rows()];
        let plan = scan.explain(&aggregates, &engine).unwrap();
        let joined = "key IN lookup id of 100 keys with class = \"class 1\"";
        let mut found = texts(&plan);
        // What keeps all rows of the lookup is tested last.
        assert_eq!(found[2..], [joined, "key IN lookup id of 100 keys"]);
        found.sort_unstable();
        assert_eq!(found[..2], ["day >= 512", "key IN lookup id of 100 keys"]);
        assert_eq!(found[2..], [joined, "price <= 999"]);
        let share = plan.steps()[2].share.unwrap();
        assert!((share - 0.2).abs() < 1e-9, "{share}");
        assert_eq!((plan.rows(), plan.chunks(), plan.chunks_skipped()), (6000, 6, 2));
        assert_eq!(plan.bytes_read(), plan.bytes_stored());
        assert_eq!(kernels(&plan), ["scan", "reduce_partials"]);
        let scan_kernel = &plan.kernels()[0];
        assert!(scan_kernel.threads.is_multiple_of(32), "{scan_kernel:?}");
        let is_emulated = plan.device().unwrap().name.contains("emulation");
        assert_eq!(scan_kernel.registers.is_none(), is_emulated, "{scan_kernel:?}");
        assert!(
            matches!(scan_kernel.origin, KernelOrigin::Cache | KernelOrigin::Compiled(_)),
            "{scan_kernel:?}"
        );
        let text = plan.to_string();
        assert!(text.contains("rows        6000 in 6 chunks, 2 excluded by bounds\n"), "{text}");

        // The kernel is there: neither the scan nor another plan compiles one.
        let expected = scan_of(&facts, &lookup).aggregate(&aggregates, &Engine::cpu()).unwrap();
        assert_eq!(scan.aggregate(&aggregates, &engine).unwrap(), expected);
        let again = scan.explain(&aggregates, &engine).unwrap();
        assert_eq!(again.kernels()[0].origin, KernelOrigin::Memory);

        // What lies in host memory goes up for a plan as for a scan.
        let uploaded = scan_of(&facts, &lookup).explain(&aggregates, &engine).unwrap();
        assert_eq!(texts(&uploaded), texts(&plan));
        assert_eq!(uploaded.kernels()[0].origin, KernelOrigin::Memory);
        assert!(uploaded.choice().is_some_and(|choice| !choice.cpu));
    }
}

fn scan_of<'a>(facts: &'a RecordBatch, lookup: &Lookup) -> Scan<'a> {
    Scan::new(facts)
        .join(col("key"), lookup)
        .filter(col("price").lt(1000).and(col("class").eq("class 1")))
        .filter(col("day").gt_eq(512))
}

#[test]
fn a_test_of_one_column_has_a_kernel_of_lanepack() {
    let (facts, _) = facts();
    for engine in engines() {
        let resident = engine.upload(&facts).unwrap();
        let scan = Scan::on_device(&resident).filter(col("price").lt(1000));
        let plan = scan.explain(&[], &engine).unwrap();
        assert_eq!(texts(&plan), ["price <= 999"]);
        assert_eq!(kernels(&plan), ["select_64"]);
        assert_eq!(plan.kernels()[0].origin, KernelOrigin::BuiltIn);
        let none = Scan::on_device(&resident).filter(col("price").lt(-1)).explain(&[], &engine);
        assert_eq!(none.unwrap().chunks_skipped(), 6);
    }
}

#[test]
fn bounds_exclude_the_chunks_that_the_cpu_skips() {
    let (facts, lookup) = facts();
    let early = record_batch!(("first", Int32, (40..50).collect::<Vec<i32>>())).unwrap();
    let early = Lookup::try_new(&early, "first").unwrap();
    for engine in engines() {
        let resident = engine.upload(&facts).unwrap();
        for (filter, skipped) in [
            (col("day").lt(256), 5),
            (!col("day").lt(256), 1),
            (col("day").lt(256).or(col("day").gt(1400)), 4),
            (col("day").lt(256).and(col("day").gt(1400)), 6),
            (col("name").gt("zebra"), 6),
            (col("day").is_null(), 6),
            (col("price").gt(col("day") + 1_000_000), 0),
        ] {
            for plan in [
                Scan::new(&facts).filter(filter.clone()).explain(&[], &Engine::cpu()),
                Scan::on_device(&resident).filter(filter.clone()).explain(&[], &engine),
            ] {
                assert_eq!(plan.unwrap().chunks_skipped(), skipped, "{filter}");
            }
        }
        let scan = |scan: Scan<'_>, engine: &Engine| {
            let scan = scan.join(col("key"), &lookup).semi_join(col("day"), &early);
            scan.explain(&[], engine).unwrap().chunks_skipped()
        };
        assert_eq!(scan(Scan::new(&facts), &Engine::cpu()), 5);
        assert_eq!(scan(Scan::on_device(&resident), &engine), 5);
        // Vectors of which the lookup has no key leave no rows.
        let rows = |scan: Scan<'_>, engine: &Engine| {
            scan.semi_join(col("day"), &early).aggregate(&[count_rows(), sum(col("day"))], engine)
        };
        let expected = rows(Scan::new(&facts), &Engine::cpu()).unwrap();
        assert_eq!(rows(Scan::on_device(&resident), &engine).unwrap(), expected);
    }
}

#[test]
fn groups_are_in_shared_memory_in_gpu_memory_or_the_cpus() {
    let (facts, lookup) = facts();
    for engine in engines() {
        let resident = engine.upload(&facts).unwrap();
        let plan = |keys: &[&str]| {
            let groups = Scan::on_device(&resident)
                .join(col("key"), &lookup)
                .group_by(keys.iter().map(|key| col(*key)));
            groups.explain(&[sum(col("price"))], &engine).unwrap()
        };
        let found = plan(&["class"]);
        let groups = found.groups().unwrap();
        assert_eq!(groups.keys, [("class".to_owned(), 5)]);
        assert_eq!((groups.numbers, groups.table), (5, GroupTableKind::SharedMemory));
        assert_eq!(
            (texts(&found), kernels(&found)),
            (vec!["key IN lookup id of 100 keys"], vec!["scan"])
        );

        let found = plan(&["class", "day"]);
        let groups = found.groups().unwrap();
        assert_eq!((groups.numbers, groups.table), (7500, GroupTableKind::DeviceMemory));

        let found = plan(&["price", "day", "city"]);
        assert_eq!(found.groups().unwrap().table, GroupTableKind::DeviceHashed);
        assert_eq!(kernels(&found), ["scan", "list_groups", "gather_groups"]);

        // Least strings are the CPU's: the GPU finds the rows.
        let groups = Scan::on_device(&resident).join(col("key"), &lookup).group_by([col("class")]);
        let found = groups.explain(&[min(col("name"))], &engine).unwrap();
        assert_eq!(found.groups().unwrap().table, GroupTableKind::HostIndexed);
        assert_eq!((texts(&found).len(), kernels(&found)), (1, vec!["scan"]));

        // Distinct values are those of more groups.
        let aggregates = [count_rows(), count_distinct(col("day"))];
        let found = groups.explain(&aggregates, &engine).unwrap();
        assert_eq!((found.passes(), kernels(&found)), (2, vec!["scan", "scan"]));
        assert_eq!((texts(&found).len(), found.groups().unwrap().numbers), (1, 5));
        let scan = Scan::on_device(&resident).filter(col("price").lt(1000));
        let found = scan.explain(&aggregates, &engine).unwrap();
        assert_eq!((found.passes(), texts(&found)), (2, vec!["price <= 999"]));
        assert_eq!(kernels(&found), ["scan", "reduce_partials", "scan"]);
    }
}

#[test]
fn what_has_no_kernel_of_its_own_is_planned_as_it_is_done() {
    let (facts, lookup) = facts();
    // Without a compiler test by test.
    if let Some(engine) = without_compiler() {
        let resident = engine.upload(&facts).unwrap();
        let filter = col("price").lt(1000).and((!col("day").eq(7)).or(col("name").eq("item 3")));
        let scan = Scan::on_device(&resident).join(col("key"), &lookup).filter(filter);
        let plan = scan.explain(&[], &engine).unwrap();
        let found = texts(&plan);
        assert!(found.contains(&"one of") && found.contains(&"name = \"item 3\""), "{found:?}");
        assert!(kernels(&plan).contains(&"probe_keys"), "{:?}", kernels(&plan));
        assert!(plan.kernels().iter().all(|kernel| kernel.origin == KernelOrigin::BuiltIn));
        assert!(scan.explain(&[sum(col("price"))], &engine).is_err(), "as aggregates");
        let groups = scan.group_by([col("class")]).explain(&[count_rows()], &engine).unwrap();
        assert_eq!(groups.groups().unwrap().table, GroupTableKind::HostIndexed);
    }
    for engine in engines() {
        let resident = engine.upload(&facts).unwrap();
        // Least strings are the CPU's, of rows that the GPU finds.
        let scan = Scan::on_device(&resident).filter(col("price").lt(1000));
        let plan = scan.explain(&[min(col("name")), max(col("price"))], &engine).unwrap();
        assert_eq!(kernels(&plan), ["select_64", "scan", "reduce_partials"]);
        assert_eq!(texts(&plan), ["price <= 999"]);

        // Columns that are decoded first go in parts.
        let staged = engine.upload(&packed(0, 20_000, 4096)).unwrap();
        let scan = Scan::on_device(&staged).filter(col("word").gt(0).and(col("small").lt(50)));
        let plan = scan.explain(&[], &engine).unwrap();
        assert_eq!(texts(&plan).len(), 2, "{plan}");
        let is_emulated = plan.device().unwrap().name.contains("emulation");
        assert_eq!(plan.stages() > 1, is_emulated, "{plan}");
        assert_eq!(kernels(&plan), ["scan"]);
    }
}
