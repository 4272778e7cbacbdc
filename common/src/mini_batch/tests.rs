//! Descriptors keep what they say.

use super::*;

fn pictures() -> Work<'static> {
    let source = |number, store| ObjectSource {
        number,
        store,
        prefix: "in/",
        origin: "s3://b/in/",
        is_listed: store == StoreRef::Shared,
    };
    Work::Objects {
        sources: vec![source(0, StoreRef::Url("s3://b")), source(7, StoreRef::Shared)],
        files: vec![
            ObjectRef { source: 0, relative: "a/1.png", key: "", size: None, version: "\"5f\"-3" },
            ObjectRef { source: 1, relative: "b.png", key: "ab/abcd", size: Some(1 << 40), version: "" },
        ],
    }
}

fn slice<'a>(store: StoreRef<'a>, key: &'a str, origin: &'a str, name_at: u32) -> Work<'a> {
    let (start, end, records, checksum) = (10, 1 << 40, 3, 0x9abc_def0);
    let (version, reader) = ("100-1", &[1, 2, 3]);
    Work::Slice(SliceRef {
        store,
        key,
        origin,
        name_at,
        version,
        start,
        end,
        records,
        checksum,
        reader,
        columns: &[7],
        first_record: 1 << 40,
        taken: Some((3, 1 << 40)),
    })
}

fn every_kind() -> [(Work<'static>, bool); 8] {
    let part = |store| match slice(store, "/in/x", "/in/x", 4) {
        Work::Slice(slice) => slice,
        _ => unreachable!(),
    };
    let origin = "/in/x.csv.gz";
    [
        (
            Work::Files {
                base: "/data",
                paths: vec!["a/1.png", "b.png"],
                versions: &[7; 19],
                names: vec!["x"],
            },
            true,
        ),
        (slice(StoreRef::Local, "/cache/x.csv", origin, 4), true),
        (Work::Unreadable { origin, offset: 3, reason: "gone" }, true),
        (pictures(), false),
        (slice(StoreRef::Job, "plain/0-1", origin, 4), false),
        (Work::Slices(vec![part(StoreRef::Local), part(StoreRef::Local)]), true),
        (Work::Slices(vec![part(StoreRef::Local), part(StoreRef::Shared)]), false),
        (Work::Stored { key: "plan/7", items: 12, checksum: 0x9abc_def0 }, false),
    ]
}

#[test]
fn descriptors_survive_the_wire_and_borrow_from_it() {
    for index in [7, 1 << 40] {
        for (work, is_local) in every_kind() {
            let (keys, is_group) = if index == 7 { (&[][..], false) } else { (&[1, 2][..], is_local) };
            let mini_batch = MiniBatch { index, input: 300, keys, is_group, work };
            let body = mini_batch.encode();
            assert_eq!(MiniBatch::decode(&body).unwrap(), mini_batch);
            assert_eq!(MiniBatch::peek_index(&body).unwrap(), index);
            assert_eq!(MiniBatch::is_local(&body), is_local, "{mini_batch:?}");
        }
    }
    assert!(!MiniBatch::is_local(b"") && !MiniBatch::is_local(b"\x93\x01"));
    assert_eq!(id_of(7), "mb-0000000007");
}

#[test]
fn a_descriptor_says_first_where_its_data_is_and_is_held_to_it() {
    for (work, is_local) in every_kind() {
        let mini_batch = MiniBatch::new(7, 3, work);
        let work = rmp_serde::to_vec(&mini_batch.work).unwrap();
        let forged = |location| {
            let head = rmp_serde::to_vec(&Head { location, index: 7, input: 3, keys: &[], is_group: false })
                .unwrap();
            [head, work.clone()].concat()
        };
        for location in [Location::Local, Location::Stores, Location::Stored] {
            let body = forged(location);
            assert_eq!(MiniBatch::is_local(&body), location == Location::Local);
            let is_so = location == mini_batch.work.location();
            assert_eq!(MiniBatch::decode(&body).is_ok(), is_so, "{location:?} {mini_batch:?}");
        }
        assert_eq!(MiniBatch::is_local(&mini_batch.encode()), is_local);
    }
}

#[test]
fn objects_are_told_by_the_names_the_user_knows() {
    let mini_batch = MiniBatch::new(1, 0, pictures());
    assert_eq!(mini_batch.items(), 2);
    assert_eq!(mini_batch.detail(), "a/1.png and 1 more");
    assert_eq!(mini_batch.file_names(), ["s3://b/in/a/1.png", "s3://b/in/b.png"]);
    assert_eq!(mini_batch.item_names(), ["a/1.png", "s3://b/in/b.png"]);
    let Work::Objects { sources, files } = mini_batch.work else { unreachable!() };
    assert_eq!(sources[0].key(&files[0]), "in/a/1.png");
    assert_eq!(sources[1].key(&files[1]), "in/ab/abcd");
}

#[test]
fn a_listed_file_is_named_by_its_absolute_path() {
    let paths = vec!["/in/./a.png", "/in/../b.png", "s3://b/./c.png"];
    let work = Work::Files { base: "", paths, versions: &[], names: Vec::new() };
    let names = MiniBatch::new(0, 0, work).item_names();
    assert_eq!(names, ["/in/a.png", "/b.png", "s3://b/./c.png"]);
}

#[test]
fn a_slice_is_named_by_its_file_below_the_dataset() {
    for (origin, name_at, expected) in [
        ("/in/x.csv.gz", 4, "x.csv.gz"),
        ("/in/x.csv.gz", 0, "/in/x.csv.gz"),
        ("/in/x.csv.gz", 99, "/in/x.csv.gz"),
        ("/in/./y/../x.csv", 0, "/in/x.csv"),
    ] {
        let work = slice(StoreRef::Local, "/x", origin, name_at);
        assert_eq!(MiniBatch::new(0, 0, work).item_names(), [expected]);
    }
}

#[test]
fn a_stored_descriptor_and_its_message_have_one_checksum() {
    let whole = MiniBatch::new(7, 0, pictures()).encode();
    let work = Work::Stored { key: "plan/7", items: 2, checksum: checksum(&whole) };
    let message = MiniBatch::new(7, 0, work).encode();
    assert_eq!(checksum(&message), checksum(&whole));
    assert_eq!(checksum(&whole), crc32c(&whole));
    let nonsense = [message.as_slice(), b"x"].concat();
    assert_eq!(checksum(&nonsense[1..]), crc32c(&nonsense[1..]));
}

#[test]
fn sums_of_fingerprints_tell_plans_apart() {
    let sum = |plan: &[(u64, u32)]| {
        plan.iter().fold(0u64, |sum, &(index, checksum)| sum.wrapping_add(fingerprint(index, checksum)))
    };
    let plan = [(0, 7), (1, 7), (2, 9)];
    assert_eq!(sum(&plan), sum(&[(2, 9), (0, 7), (1, 7)]));
    for other in [[(0, 7), (1, 9), (2, 7)], [(0, 7), (1, 7), (3, 9)], [(0, 7), (1, 7), (2, 8)]] {
        assert_ne!(sum(&plan), sum(&other), "{other:?}");
    }
}
