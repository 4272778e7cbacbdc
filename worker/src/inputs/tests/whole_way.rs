//! The whole way of inputs, from what the user names to files of a node.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn local_descriptors_pass_untouched() {
    let fleet = Fleet::new();
    let localizer = fleet.localizer("cache", 10);
    let files = Work::Files { base: "/absent", paths: vec!["a", "b"], versions: &[], names: Vec::new() };
    let body: Bytes = MiniBatch::new(3, 0, files).encode().into();
    let ready = localizer.localize(&body).await.unwrap();
    assert_eq!(ready.local.as_ptr(), body.as_ptr());
    assert_eq!(ready.planned.as_ptr(), body.as_ptr());
    let nonsense = Bytes::from_static(b"nonsense");
    assert_eq!(localizer.localize(&nonsense).await.unwrap().local, nonsense);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_sees_what_the_host_of_the_files_sees() {
    let fleet = Fleet::new();
    for number in 0..25 {
        fleet.write(&format!("in/tree/{}/ü {number:02}.png", number % 3), format!("picture {}", number % 7));
    }
    fleet.write("in/tree/.hidden", "");
    fleet.write("in/single.png", vec![1; 9 << 20]);
    let rows = (0..2_000).map(|id| format!("{id},\"some name, {id}\"\n"));
    let text: String = std::iter::once("id,name\n".to_owned()).chain(rows).collect();
    fleet.write("in/tables/a.csv", &text);
    fleet.write("in/tables/b.csv.gz", gzip(text.replace("some", "any other").as_bytes()));
    let broken = gzip(text.as_bytes());
    fleet.write("in/tables/c.csv.gz", &broken[..broken.len() - 9]);
    fleet.write("in/tables/d.csv", "id,name\n1,\"open\n");
    fleet.write("in/tables/e.csv", "\n");
    let files = job(
        vec![input(InputKind::File, paths(&[fleet.path("in/tree"), fleet.path("in/single.png")]))],
        MiniBatchSize::Files(4),
    );
    let tables =
        job(vec![input(InputKind::Tabular, paths(&[fleet.path("in/tables")]))], MiniBatchSize::Bytes(5_000));
    for (spec, least) in [(files, 8), (tables, 20)] {
        let here = fleet.plan(&spec, "here").await;
        assert!(here.len() >= least, "{}", here.len());
        let resolved = fleet.resolve(&spec, Where::Fleet).await;
        assert_eq!(fleet.resolve(&resolved, Where::Fleet).await, resolved);
        assert_eq!(fleet.resolve(&spec, Where::Fleet).await, resolved);
        let there = fleet.plan(&resolved, "there").await;
        assert_eq!(fleet.plan(&resolved, "elsewhere").await, there);
        assert_eq!(there.len(), here.len());

        let localizer = fleet.localizer("cache", 1 << 20);
        for (here, there) in here.iter().zip(&there) {
            let (as_planned, theirs) = (MiniBatch::decode(here).unwrap(), MiniBatch::decode(there).unwrap());
            assert_eq!(theirs.items(), as_planned.items());
            assert_eq!(theirs.detail(), as_planned.detail());
            assert_eq!(theirs.file_names(), as_planned.file_names());
            let ready = localizer.localize(there).await.unwrap();
            assert_eq!(ready.planned, there);
            assert!(MiniBatch::is_local(&ready.local));
            assert_eq!(seen(&ready.local, Path::new("/")), seen(here, &fleet.path("here")));
        }
        fs::remove_dir_all(fleet.path("cache")).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn buckets_are_read_where_they_are() {
    let fleet = Fleet::new();
    for number in 0..7 {
        fleet.write(&format!("buckets/pictures/in/{number}/a.png"), format!("picture {number}"));
    }
    fleet.write("buckets/tables/x.csv", "a,b\n1,2\n3,4\n");
    fleet.write("buckets/tables/y.csv.gz", gzip(b"a,b\n5,6\n"));
    let remote = |url: &str| InputSource::Remote(vec![url.to_owned()]);
    let localizer = fleet.localizer("cache", 1 << 20);
    for runs in [Where::Embedded, Where::Fleet] {
        let spec = job(vec![input(InputKind::File, remote("s3://pictures/in"))], MiniBatchSize::Files(5));
        let bodies = fleet.plan(&fleet.resolve(&spec, runs).await, "work").await;
        assert_eq!(bodies.len(), 2);
        let names = MiniBatch::decode(&bodies[1]).unwrap().file_names();
        assert_eq!(names, ["s3://pictures/in/5/a.png", "s3://pictures/in/6/a.png"]);
        let ready = localizer.localize(&bodies[1]).await.unwrap();
        let expected = [5, 6].map(|number| (String::new(), format!("picture {number}").into_bytes()));
        assert_eq!(seen(&ready.local, Path::new("/")).2, expected);

        let spec = job(vec![input(InputKind::Tabular, remote("s3://tables"))], MiniBatchSize::Bytes(4));
        let bodies = fleet.plan(&fleet.resolve(&spec, runs).await, "work").await;
        let mut rows = Vec::new();
        for body in &bodies {
            let ready = localizer.localize(body).await.unwrap();
            rows.extend(seen(&ready.local, Path::new("/")).2.into_iter().map(|(_, bytes)| bytes));
        }
        assert_eq!(rows, [&b"1,2\n"[..], b"3,4\n", b"5,6\n"]);
    }
    let spec = job(vec![input(InputKind::Tabular, remote("s3://tables/*.csv"))], MiniBatchSize::Bytes(4));
    let resolved = fleet.resolve(&spec, Where::Fleet).await;
    fleet.write("buckets/tables/x.csv", "a,b\n1,2\n3,5\n");
    let bodies = fleet.plan(&resolved, "work").await;
    assert_eq!(
        seen(&bodies[0], Path::new("/")).2[0].0,
        "s3://tables/x.csv 0 it changed since it was planned: another object has its name now; submit the job again as \
         a new one"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_names_files_here_and_in_buckets() {
    let fleet = Fleet::new();
    fleet.write("in/a.txt", "a");
    fleet.write("in/sub/b.txt", "b");
    fleet.write("buckets/letters/in/c.txt", "c");
    fleet.write("buckets/others/d.txt", "d");
    fleet.write(
        "in/list.txt",
        "s3://letters/in/c.txt\nsub/../a.txt\ns3://others/d.txt\nsub/b.txt\ns3://others/absent\n",
    );
    let source = InputSource::List(fleet.path("in/list.txt"));
    let spec = job(vec![input(InputKind::File, source)], MiniBatchSize::Files(4));
    let localizer = fleet.localizer("cache", 1 << 20);
    for runs in [Where::Embedded, Where::Fleet] {
        let bodies = fleet.plan(&fleet.resolve(&spec, runs).await, "work").await;
        assert_eq!(bodies.len(), 2);
        let ready = localizer.localize(&bodies[0]).await.unwrap();
        let contents: Vec<Vec<u8>> =
            seen(&ready.local, Path::new("/")).2.into_iter().map(|(_, bytes)| bytes).collect();
        assert_eq!(contents, [b"c", b"a", b"d", b"b"]);
        let gone = localizer.localize(&bodies[1]).await.unwrap();
        let told = &seen(&gone.local, Path::new("/")).2[0].0;
        assert!(told.starts_with("s3://others/absent 0 it is not there any more: "), "{told}");
        assert_eq!(gone.planned, bodies[1]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_download_serves_all_who_need_the_file() {
    let fleet = Fleet::new();
    fleet.write("storage/in/a", "x");
    let localizer = fleet.localizer("cache", 100);
    let body = body(0, pictures(&["a"], None));
    let all: Vec<_> = (0..50).map(|_| localizer.localize(&body)).collect();
    let all = try_join_all(all).await.unwrap();
    assert_eq!(fleet.shared.reads.load(Ordering::Relaxed), 1);
    let file = fleet.path("cache/pictures.2/a");
    assert_eq!(fs::read(&file).unwrap(), b"x");
    drop(all);
    assert!(file.exists());
    localizer.localize(&body).await.unwrap();
    assert_eq!(fleet.shared.reads.load(Ordering::Relaxed), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_had_fails_the_mini_batch_and_what_may_come_later_does_not() {
    let fleet = Fleet::new();
    fleet.write("storage/in/a", "four");
    fleet.write("storage/in/b/c", "x");
    let localizer = fleet.localizer("cache", 100);
    let reason = async |work: Work<'_>| {
        let ready = localizer.localize(&body(7, work)).await?;
        let (index, input, seen) = seen(&ready.local, Path::new("/"));
        assert_eq!((index, input), (7, 1));
        Ok::<String, StorageError>(seen[0].0.clone())
    };
    let long = "x".repeat(256);
    for (names, size, says) in [
        (
            &["a"][..],
            Some(5),
            "/data/a 0 it changed since it was planned: it had 5 bytes and has 4 now; submit the job again as a new one",
        ),
        (&["a", "absent"], None, "/data/absent 0 it is not there any more: "),
        (&["../../escaped"], None, "/data/../../escaped 0 the name has a part `.` or `..`"),
        (&["a", "/etc/passwd"], None, "/data//etc/passwd 0 the name has an empty part"),
        (&["a\0b"], None, "the name has a control character"),
        (&[&*long], None, "longer than 255 bytes"),
    ] {
        let told = reason(pictures(names, size)).await.unwrap();
        assert!(told.contains(says), "{told}");
    }
    fleet.shared.fail(Some(StorageErrorKind::PermissionDenied));
    let told = reason(pictures(&["b/c"], None)).await.unwrap();
    assert_eq!(told, "/data/b/c 0 the store refuses access: told to fail");
    fleet.shared.fail(Some(StorageErrorKind::Unavailable));
    assert!(reason(pictures(&["b/c"], None)).await.unwrap_err().is_retryable());
    fleet.shared.fail(None);
    let ready = localizer.localize(&body(7, pictures(&["a", "b/c"], None))).await.unwrap();
    assert_eq!(seen(&ready.local, Path::new("/")).2[1].1, b"x");
    let there: Vec<String> = files_below(&fleet.path("cache")).into_keys().collect();
    assert_eq!(there, ["pictures.2/a", "pictures.2/b/c"]);
    assert!(!fleet.path("escaped").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slice_lies_at_its_own_place() {
    let fleet = Fleet::new();
    let text: Vec<u8> = (0..20_000_000u32).map(|at| (at / 7) as u8).collect();
    fleet.write("storage/table", &text);
    let slice = |start, end| {
        let (store, key, origin, version) = (StoreRef::Shared, "table", "/in/t.csv.gz", "5");
        let checksum = crc32c(&text[start as usize..text.len().min(end as usize)]);
        let work = Work::Slice(SliceRef {
            store,
            key,
            origin,
            name_at: 4,
            version,
            start,
            end,
            records: 1,
            checksum,
            reader: &[1],
            columns: &[],
            first_record: 0,
            taken: None,
        });
        body(start, work)
    };
    let localizer = fleet.localizer("cache", 1 << 20);
    for (start, end) in [(0, 10), (10_000_000, 20_000_000), (10, 10)] {
        let ready = localizer.localize(&slice(start, end)).await.unwrap();
        let seen = seen(&ready.local, Path::new("/")).2;
        assert!(seen[0].0.starts_with("/in/t.csv.gz "));
        assert!(seen[0].1 == text[start as usize..end as usize]);
    }
    let cut = localizer.localize(&slice(19_999_990, 20_000_010)).await.unwrap();
    let told = &seen(&cut.local, Path::new("/")).2[0].0;
    assert!(
        told.contains("it changed since it was planned: it had at least 20000010 bytes and has 20000000 now"),
        "{told}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn long_descriptors_are_read_first() {
    let fleet = Fleet::new();
    fleet.write("buckets/named/in/a", "x");
    let many: Vec<&str> = vec!["a"; 40_000];
    let planned = body(5, pictures_in(StoreRef::Url("s3://named"), &many, Some(1)));
    let mut sent = vec![planned.clone()];
    store_long(&**fleet.stores.job(), &mut sent).await.unwrap();
    assert!(sent[0].len() < 100 && planned.len() > 64 << 10);
    let localizer = fleet.localizer("cache", 100);
    let ready = localizer.localize(&sent[0]).await.unwrap();
    assert!(ready.planned == planned);
    assert_eq!(MiniBatch::decode(&ready.local).unwrap().items(), 40_000);
    fleet.stores.job().delete("plan/0000000005").await.unwrap();
    let lost = localizer.localize(&sent[0]).await.unwrap();
    assert!(
        seen(&lost.local, Path::new("/")).2[0]
            .0
            .contains("the descriptor of the mini-batch: it is not there any more: ")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_folder_stays_within_its_bound() {
    let fleet = Fleet::new();
    for number in 0..200 {
        fleet.write(&format!("storage/in/{}/{number}", number % 9), vec![7; 100]);
    }
    let localizer = fleet.localizer("cache", 2_000);
    let tasks = (0..40u64).map(|task| {
        let localizer = localizer.clone();
        let folder = fleet.path("cache");
        tokio::spawn(async move {
            for step in 0..10 {
                let names: Vec<String> = (0..5)
                    .map(|file| (task * 37 + step * 11 + file) % 200)
                    .map(|number| format!("{}/{number}", number % 9))
                    .collect();
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let ready = localizer.localize(&body(task, pictures(&names, Some(100)))).await.unwrap();
                let seen = seen(&ready.local, Path::new("/")).2;
                assert!(seen.len() == 5 && seen.iter().all(|(_, bytes)| bytes.len() == 100), "{seen:?}");
                assert!(folder.exists());
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        tokio::time::timeout(std::time::Duration::from_mins(1), task).await.unwrap().unwrap();
    }
    let left = files_below(&fleet.path("cache"));
    assert!(left.values().sum::<u64>() <= 2_000, "{left:?}");
    let large: Vec<String> = (0..200).map(|number| format!("{}/{number}", number % 9)).collect();
    let large: Vec<&str> = large.iter().map(String::as_str).collect();
    let ready = localizer.localize(&body(0, pictures(&large, Some(100)))).await.unwrap();
    assert_eq!(seen(&ready.local, Path::new("/")).2.len(), 200);
    drop(ready);
    assert!(files_below(&fleet.path("cache")).values().sum::<u64>() <= 2_000);
}
