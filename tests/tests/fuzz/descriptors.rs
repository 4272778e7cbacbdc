//! Descriptors of mini-batches, as a queue brings them.

use prs_common::file_version::{FileVersion, PackedVersions, unpack};
use prs_common::mini_batch::{MiniBatch, ObjectRef, ObjectSource, SliceRef, StoreRef, Work, checksum, id_of};
use prs_tests::fuzz::{Target, kind_of};
use prs_tests::harness::Random;

/// A message.
pub(crate) struct Descriptors;

const TEXTS: [&str; 8] =
    ["", "/data", "a/b.csv", "s3://bucket/key", "..", "é\n", "files/x", "0123456789abcdef"];

fn text(random: &mut Random) -> &'static str {
    TEXTS[random.below(TEXTS.len() as u64) as usize]
}

impl Target for Descriptors {
    const WORDS: &'static [&'static [u8]] = &[
        b"\xa5Files",
        b"\xa5Slice",
        b"\xa7Objects",
        b"\xa6Stores",
        b"\xa6Stored",
        b"\xaaUnreadable",
        b"\xa5Local",
        b"\xa6Shared",
        b"\xa3Job",
        b"\xa3Url",
        b"\xc0",
        b"\x93",
        b"\x81",
        b"\xdd\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
    ];

    fn seed(&mut self, random: &mut Random) -> Vec<u8> {
        let versions: PackedVersions =
            std::iter::repeat_n(of_this_program(), random.below(3) as usize).collect();
        let stores = [StoreRef::Local, StoreRef::Shared, StoreRef::Job, StoreRef::Url(text(random))];
        let store = stores[random.below(4) as usize];
        let (start, end) = (random.below(1 << 40), random.below(1 << 40));
        let reader = text(random).as_bytes();
        let (key, origin, version, records) = (text(random), text(random), text(random), random.below(1000));
        let mut paths = || (0..random.below(5)).map(|_| text(random)).collect::<Vec<_>>();
        let (first, second) = (paths(), paths());
        let slice = SliceRef {
            store,
            key,
            origin,
            name_at: random.below(20) as u32,
            version,
            start,
            end,
            records,
            checksum: 7,
            reader,
            columns: reader,
            first_record: start,
            taken: None,
        };
        let work = match random.below(6) {
            0 => Work::Files { base: key, paths: first, versions: versions.as_bytes(), names: second },
            1 => Work::Slice(slice),
            2 => Work::Slices(vec![slice; random.below(4) as usize]),
            3 => Work::Objects {
                sources: first
                    .iter()
                    .map(|&prefix| ObjectSource {
                        number: 1,
                        store,
                        prefix,
                        origin,
                        is_listed: records % 2 == 0,
                    })
                    .collect(),
                files: second
                    .iter()
                    .map(|&relative| ObjectRef { source: 0, relative, key, size: Some(records), version })
                    .collect(),
            },
            4 => Work::Stored { key, items: records, checksum: 9 },
            _ => Work::Unreadable { origin, offset: start, reason: version },
        };
        let keys = if random.below(2) == 0 { &[][..] } else { reader };
        let is_group = !keys.is_empty() && random.below(2) == 0;
        let mini_batch = MiniBatch { index: random.below(1 << 33), input: 1, keys, is_group, work };
        let body = mini_batch.encode();
        assert_eq!(MiniBatch::decode(&body).unwrap(), mini_batch);
        body
    }

    fn check(&mut self, input: &[u8]) -> String {
        let (local, _) = (MiniBatch::is_local(input), checksum(input));
        let peeked = MiniBatch::peek_index(input);
        for version in unpack(input).take(1 << 16) {
            let _ = version.to_string();
        }
        let mini_batch = match MiniBatch::decode(input) {
            Ok(mini_batch) => mini_batch,
            Err(error) => return kind_of(error),
        };
        assert_eq!(peeked.unwrap(), mini_batch.index);
        let _ = mini_batch.item_names();
        let fetched = match &mini_batch.work {
            Work::Objects { .. } | Work::Stored { .. } => true,
            Work::Slice(slice) => slice.store != StoreRef::Local,
            Work::Slices(slices) => slices.iter().any(|slice| slice.store != StoreRef::Local),
            Work::Files { .. } | Work::Unreadable { .. } => false,
        };
        assert_eq!(local, !fetched, "{mini_batch:?}");
        let again = mini_batch.encode();
        assert_eq!(MiniBatch::is_local(&again), !fetched, "{mini_batch:?}");
        if let Work::Stored { checksum: stored, .. } = mini_batch.work {
            assert_eq!(checksum(&again), stored);
        }
        let _ = (mini_batch.items(), mini_batch.detail(), mini_batch.file_names(), id_of(mini_batch.index));
        assert_eq!(MiniBatch::decode(&again).unwrap(), mini_batch);
        kind_of(format!("{:?}", mini_batch.work).split(' ').next().unwrap_or_default())
    }
}

fn of_this_program() -> FileVersion {
    FileVersion::of(&std::fs::metadata(std::env::current_exe().unwrap()).unwrap())
}
