//! What comes is what was planned, or it is told by its key: damage on the way, in a store, in the cache; objects that
//! are replaced.

use std::os::unix::fs::MetadataExt;

use prs_common::file_version::{FileVersion, SeenFile, unpack};

use super::*;

/// What a process would be told of a mini-batch that cannot run.
fn reason(body: &[u8]) -> String {
    let MiniBatch { work, .. } = MiniBatch::decode(body).unwrap();
    let Work::Unreadable { origin, reason, .. } = work else { panic!("{work:?}") };
    format!("{origin}: {reason}")
}

/// The files of a mini-batch that can.
fn contents(body: &[u8]) -> Vec<Vec<u8>> {
    seen(body, Path::new("/")).2.into_iter().map(|(_, bytes)| bytes).collect()
}

/// Uploads a small and a large file, and plans them: the blobs' paths and the descriptor.
async fn uploaded(fleet: &Fleet) -> (Vec<PathBuf>, Bytes) {
    fleet.write("in/large", vec![7; 3 << 20]);
    fleet.write("in/small", "small");
    let spec = job(vec![input(InputKind::File, paths(&[fleet.path("in")]))], MiniBatchSize::Files(2));
    let bodies = fleet.plan(&fleet.resolve(&spec, Where::Fleet).await, "work").await;
    let Work::Objects { sources, files } = MiniBatch::decode(&bodies[0]).unwrap().work else { panic!() };
    let blobs = files.iter().map(|file| fleet.path("storage").join(sources[0].key(file))).collect();
    (blobs, bodies[0].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_that_is_damaged_on_the_way_is_read_again() {
    let fleet = Fleet::new();
    let (_, body) = uploaded(&fleet).await;
    // Whichever file they meet, it is read once more than that.
    fleet.shared.damages.store(2, Ordering::Relaxed);
    let ready = fleet.localizer("cache", 100 << 20).localize(&body).await.unwrap();
    assert!(contents(&ready.local) == [vec![7; 3 << 20], b"small".to_vec()]);
    assert_eq!(fleet.shared.damages.load(Ordering::Relaxed), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_that_is_damaged_fails_its_mini_batch_and_is_named() {
    let fleet = Fleet::new();
    let (blobs, body) = uploaded(&fleet).await;
    for (number, blob) in blobs.iter().enumerate() {
        let whole = fs::read(blob).unwrap();
        fs::write(blob, flipped(&whole, whole.len() - 1)).unwrap();
        let localizer = fleet.localizer(&format!("cache-{number}"), 100 << 20);
        let ready = localizer.localize(&body).await.unwrap();
        let told = reason(&ready.local);
        assert!(told.starts_with(&fleet.path("in").display().to_string()), "{told}");
        assert!(
            told.contains(&format!("{} is damaged: it does not hold what its name says", blob.display()))
        );
        assert_eq!(ready.planned, body);
        fs::write(blob, whole).unwrap();
        assert_eq!(contents(&localizer.localize(&body).await.unwrap().local).len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_whose_blob_is_damaged_is_not_planned() {
    let fleet = Fleet::new();
    fleet.write("in/t.csv", "a,b\n1,2\n3,4\n");
    let spec = job(vec![input(InputKind::Tabular, paths(&[fleet.path("in")]))], MiniBatchSize::Bytes(4));
    let resolved = fleet.resolve(&spec, Where::Fleet).await;
    let whole = fleet.plan(&resolved, "work").await;
    assert_eq!(whole.len(), 2);
    fleet.shared.damages.store(2, Ordering::Relaxed);
    assert_eq!(fleet.plan(&resolved, "work").await, whole, "on the way, damage passes");
    let key = fleet.shared.list_all("inputs/").await.unwrap().remove(0).key;
    let blob = fleet.path("storage").join(&key);
    fs::write(&blob, "a,b\n1,2\n3,5\n").unwrap();
    let bodies = fleet.plan(&resolved, "work").await;
    assert_eq!(bodies.len(), 1);
    let told = reason(&bodies[0]);
    assert!(told.contains(&key) && told.contains("damaged: it does not hold what its name says"), "{told}");
    // It was planned before: a slice of it alone is found, too.
    let localizer = fleet.localizer("cache", 1 << 20);
    assert_eq!(contents(&localizer.localize(&whole[0]).await.unwrap().local), [b"1,2\n"]);
    let told = reason(&localizer.localize(&whole[1]).await.unwrap().local);
    assert!(told.contains(&key) && told.contains("its bytes 8-12 are not those that were planned"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stored_descriptor_that_is_damaged_fails_its_mini_batch_and_is_named() {
    let fleet = Fleet::new();
    fleet.write("buckets/named/in/a", "x");
    let many: Vec<&str> = vec!["a"; 40_000];
    let planned = body(5, pictures_in(StoreRef::Url("s3://named"), &many, Some(1)));
    let mut sent = vec![planned.clone()];
    store_long(&**fleet.stores.job(), &mut sent).await.unwrap();
    let stored = fleet.path("storage/jobs/job-1/plan/0000000005");
    let whole = fs::read(&stored).unwrap();
    let localizer = fleet.localizer("cache", 100);
    for place in [0, whole.len() / 2, whole.len() - 1] {
        fs::write(&stored, flipped(&whole, place)).unwrap();
        let ready = localizer.localize(&sent[0]).await.unwrap();
        let told = reason(&ready.local);
        assert!(told.contains("plan/0000000005: the descriptor of the mini-batch is damaged"), "{told}");
        assert_eq!(mini_batch::checksum(&ready.planned), mini_batch::checksum(&planned));
    }
    fs::write(&stored, &whole).unwrap();
    assert!(localizer.localize(&sent[0]).await.unwrap().planned == planned);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stored_descriptor_names_what_the_inputs_name() {
    let fleet = Fleet::new();
    fleet.write("buckets/other/in/a", "secret");
    let many: Vec<&str> = vec!["a"; 40_000];
    let foreign = |index| body(index, pictures_in(StoreRef::Url("s3://other"), &many, Some(1)));
    let own = |index| body(index, pictures_in(StoreRef::Url("s3://named"), &many, Some(1)));
    let mut sent = vec![foreign(5), own(6)];
    store_long(&**fleet.stores.job(), &mut sent).await.unwrap();
    let localizer = fleet.localizer("cache", 100);
    let told = reason(&localizer.localize(&sent[0]).await.unwrap().local);
    assert!(told.contains("plan/0000000005: it names s3://other"), "{told}");
    // The descriptor of another mini-batch, with its checksum.
    let (key, checksum) = ("plan/0000000006", mini_batch::checksum(&own(6)));
    let message = body(7, Work::Stored { key, items: 1, checksum });
    let told = reason(&localizer.localize(&message).await.unwrap().local);
    assert!(told.contains("it names another mini-batch"), "{told}");
    assert!(!fleet.path("cache/pictures.2").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_is_replaced_fails_its_mini_batch() {
    let fleet = Fleet::new();
    let remote = |url: &str| InputSource::Remote(vec![url.to_owned()]);
    for (name, content) in [("a", "one".into()), ("b", vec![1; 3 << 20])] {
        fleet.write(&format!("buckets/pictures/{name}"), content);
    }
    fleet.write("buckets/tables/x.csv", "a,b\n1,2\n3,4\n");
    let files = job(vec![input(InputKind::File, remote("s3://pictures"))], MiniBatchSize::Files(1));
    let files = fleet.plan(&fleet.resolve(&files, Where::Fleet).await, "work").await;
    let tables = job(vec![input(InputKind::Tabular, remote("s3://tables"))], MiniBatchSize::Bytes(4));
    let tables = fleet.plan(&fleet.resolve(&tables, Where::Fleet).await, "work").await;
    let localizer = fleet.localizer("cache", 100 << 20);
    assert_eq!(contents(&localizer.localize(&tables[0]).await.unwrap().local), [b"1,2\n"]);
    // Of the same size, so that nothing but the version tells.
    for (name, content) in [("pictures/a", "two".into()), ("pictures/b", vec![2; 3 << 20])] {
        fleet.write(&format!("buckets/{name}"), content);
    }
    fleet.write("buckets/tables/x.csv", "a,b\n1,2\n3,5\n");
    for (body, name) in [(&files[0], "pictures/a"), (&files[1], "pictures/b"), (&tables[1], "tables/x.csv")] {
        let told = reason(&localizer.localize(body).await.unwrap().local);
        let expected = format!("s3://{name}: it changed since it was planned: the object was replaced");
        assert!(told.starts_with(&expected), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_is_told_what_came() {
    let fleet = Fleet::new();
    let (_, body) = uploaded(&fleet).await;
    let ready = fleet.localizer("cache", 100 << 20).localize(&body).await.unwrap();
    let Work::Files { base, paths, versions, .. } = MiniBatch::decode(&ready.local).unwrap().work else {
        panic!()
    };
    let there = paths.iter().map(|path| SeenFile::at(&Path::new(base).join(path)).unwrap().version);
    assert_eq!(unpack(versions).collect::<Vec<FileVersion>>(), there.collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_damaged_in_the_cache_is_fetched_again() {
    let fleet = Fleet::new();
    let (_, body) = uploaded(&fleet).await;
    let localizer = fleet.localizer("cache", 100 << 20);
    let run = async || contents(&localizer.localize(&body).await.unwrap().local);
    let whole = run().await;
    let cached = files_below(&fleet.path("cache"));
    let cached: Vec<PathBuf> = cached.into_keys().map(|name| fleet.path("cache").join(name)).collect();
    assert_eq!(cached.len(), 2);
    for file in &cached {
        let reads = fleet.shared.reads.load(Ordering::Relaxed);
        fs::write(file, "damaged").unwrap();
        assert!(run().await == whole);
        fs::remove_file(file).unwrap();
        assert!(run().await == whole);
        assert!(run().await == whole);
        assert_eq!(fleet.shared.reads.load(Ordering::Relaxed), reads + 2, "{}", file.display());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slice_that_is_damaged_in_the_cache_is_fetched_again() {
    let fleet = Fleet::new();
    fleet.write("storage/table", "1,2\n3,4\n");
    let slice = Work::Slice(SliceRef {
        store: StoreRef::Shared,
        key: "table",
        origin: "/in/t.csv.gz",
        name_at: 4,
        version: "",
        start: 4,
        end: 8,
        records: 1,
        checksum: crc32c(b"3,4\n"),
        reader: &[1],
        columns: &[],
        first_record: 0,
        taken: None,
    });
    let body = body(0, slice);
    let localizer = fleet.localizer("cache", 1 << 20);
    let run = async || contents(&localizer.localize(&body).await.unwrap().local);
    assert_eq!(run().await, [b"3,4\n"]);
    let file = fleet.path("cache").join(files_below(&fleet.path("cache")).into_keys().next().unwrap());
    // Neither its size nor its time tells.
    let meta = fs::metadata(&file).unwrap();
    let open = fs::File::options().write(true).open(&file).unwrap();
    open.write_all_at(b"9", 6).unwrap();
    open.set_modified(meta.modified().unwrap()).unwrap();
    drop(open);
    assert_eq!(fs::metadata(&file).unwrap().mtime_nsec(), meta.mtime_nsec());
    assert_eq!(run().await, [b"3,4\n"]);
    assert_eq!(fleet.shared.reads.load(Ordering::Relaxed), 2);
    assert_eq!(run().await, [b"3,4\n"]);
    assert_eq!(fleet.shared.reads.load(Ordering::Relaxed), 2);
}
