//! Logs of Delta tables: a commit and a checkpoint, cut, or with a bit that is another. What is read of them are files below
//! the folder of the table, in order, each with a value for each partition column.

use prs_tabular::delta::{Replay, commit_name};
use prs_tests::fuzz::{Target, kind_of};
use prs_tests::harness::Random;

/// What the log of a table has, as Spark writes it: a commit, and its checkpoint.
const WRITTEN: [&[u8]; 2] = [include_bytes!("delta_logs/commit"), include_bytes!("delta_logs/checkpoint")];

/// A byte that says which of both it is, and the file.
pub(crate) struct DeltaLogs;

impl Target for DeltaLogs {
    const LONGEST: usize = 16 << 10;
    const WORDS: &'static [&'static [u8]] = &[
        b"{\"remove\":{\"path\":\"a%20b\"}}\n",
        b"\"deletionVector\":{\"storageType\":\"u\",\"pathOrInlineDv\":\"x\"}",
        b"\"readerFeatures\":[\"x\"]",
        b"\"partitionValues\":{}",
        b"s3://b/a",
        b"%",
        b"null",
        b"\x19\xfc\xff\xff\xff\xff\x0f",
        b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"\x16\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    ];

    fn seed(&mut self, random: &mut Random) -> Vec<u8> {
        let which = random.below(2) as u8;
        [&[which], WRITTEN[usize::from(which)]].concat()
    }

    fn check(&mut self, input: &[u8]) -> String {
        let Some((&which, bytes)) = input.split_first() else { return "nothing".to_owned() };
        let commit = commit_name(7);
        let name = if which % 2 == 0 { &*commit } else { "00000000000000000007.checkpoint.parquet" };
        let mut replay = Replay::default();
        let bytes = bytes.to_vec();
        if let Err(error) = replay.add(name, bytes.into()) {
            return kind_of(error);
        }
        let snapshot = match replay.finish(7) {
            Ok(snapshot) => snapshot,
            Err(error) => return kind_of(error),
        };
        let keys = snapshot.columns.iter().filter(|column| column.is_partition).count();
        assert!(
            snapshot.files.iter().all(|file| file.partition.len() == keys && !file.path.starts_with('/'))
        );
        assert!(snapshot.files.windows(2).all(|pair| pair[0].path < pair[1].path));
        format!("{} files", snapshot.files.len())
    }
}
