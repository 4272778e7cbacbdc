use std::io::Write;
use std::path::PathBuf;

use prs_common::dataset::mltable::{Header, MlTable, Window};
use prs_common::job::{Infer, InputKind, InputSource, MiniBatchSize};
use prs_common::message_pack;
use prs_common::mini_batch::{MiniBatch, Work};
use prs_common::queue::QueueOptions;
use prs_common::storage::StorageExt;
use prs_tabular::TableReader;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::fixtures::Fixture;
use crate::inputs::listed::{self, Listed};
use crate::plan::PlanEnd;
use crate::plan::schedule::{Assignment, Scheduled, schedule};

const TEXT: &str = "a,b\n1,2\n3,4\n";

/// A job over a compressed table that every host has.
async fn compressed() -> (Fixture, PathBuf) {
    let mut fixture = Fixture::new(0).await;
    let file = fixture.inputs().join("t.csv.gz");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(TEXT.as_bytes()).unwrap();
    std::fs::write(&file, gzip.finish().unwrap()).unwrap();
    let spec = fixture.spec();
    spec.mini_batch_size = MiniBatchSize::Bytes(4);
    let input = &mut spec.inputs[0];
    (input.kind, input.source) = (InputKind::Tabular, InputSource::Paths(vec![file.display().to_string()]));
    input.tabular = Some(TabularOptions::default());
    fixture.job.queue.declare(&fixture.job.queue_name(), QueueOptions::default()).await.unwrap();
    (fixture, file)
}

#[tokio::test]
async fn other_hosts_find_the_plain_copy_of_a_file_in_storage() {
    let (fixture, file) = compressed().await;
    let assignment = || Assignment { again: true, ..Assignment::default() };
    let stop = CancellationToken::new();
    let mut plans = Vec::new();
    for owner in ["a", "b"] {
        assert_eq!(schedule(&fixture.job, owner, assignment(), &stop).await, Scheduled::Complete);
        let mut waiting = fixture.job.queue.consume(&fixture.job.queue_name(), 10).await.unwrap();
        let mut bodies: Vec<_> = waiting.next(10).await.iter().map(|one| one.body.clone()).collect();
        bodies.sort();
        plans.push(bodies);
        fixture.job.queue.delete(&fixture.job.queue_name()).await.unwrap();
        fixture.job.queue.declare(&fixture.job.queue_name(), QueueOptions::default()).await.unwrap();
    }
    assert_eq!(plans[0].len(), 2);
    assert_eq!(plans[0], plans[1]);
    for body in &plans[0] {
        let MiniBatch { work, .. } = MiniBatch::decode(body).unwrap();
        let Work::Slice(SliceRef { store: StoreRef::Job, key, origin, .. }) = work else {
            panic!("{work:?}")
        };
        assert_eq!(origin, file.display().to_string());
        assert_eq!(fixture.storage.get(key).await.unwrap(), TEXT);
    }
}

#[tokio::test]
async fn a_file_that_is_no_parquet_has_none_of_its_settings() {
    let (mut fixture, _file) = compressed().await;
    fixture.spec().inputs[0].tabular =
        Some(TabularOptions { columns: Some(vec!["a".to_owned()]), ..TabularOptions::default() });
    let assignment = Assignment { again: true, ..Assignment::default() };
    let stop = CancellationToken::new();
    assert_eq!(schedule(&fixture.job, "a", assignment, &stop).await, Scheduled::Complete);
    let mut waiting = fixture.job.queue.consume(&fixture.job.queue_name(), 10).await.unwrap();
    let bodies = waiting.next(10).await;
    assert_eq!(bodies.len(), 1);
    let MiniBatch { work, .. } = MiniBatch::decode(&bodies[0].body).unwrap();
    let Work::Unreadable { reason, .. } = work else { panic!("{work:?}") };
    assert_eq!(reason, NO_PARQUET);
}

/// The input of `fixture` as a table of delimited text.
fn table_of(fixture: &mut Fixture, table: MlTable) {
    let spec = fixture.spec();
    spec.mini_batch_size = MiniBatchSize::Bytes(1 << 20);
    let input = &mut spec.inputs[0];
    input.kind = InputKind::Tabular;
    let has_header = table.header == Header::AllFilesSameHeaders;
    input.tabular = Some(TabularOptions {
        format: Some(TableFormat::Delimited),
        has_header,
        ..TabularOptions::default()
    });
    input.mltable = Some(Box::new(table));
}

/// What the plan has of each file, and the sum of its listing.
async fn planned(fixture: &mut Fixture) -> (Vec<String>, Option<Listed>) {
    let describe = |work: Work<'_>| match work {
        Work::Unreadable { reason, .. } => reason.to_owned(),
        Work::Slice(slice) => format!("{} records", slice.records),
        work => panic!("{work:?}"),
    };
    let (planned, end) = planned_as(fixture, describe).await;
    (planned, end.listed)
}

/// The columns that each mini-batch of a plan has.
async fn columns_of(fixture: &mut Fixture) -> Vec<Vec<String>> {
    let columns = |work: Work<'_>| {
        let Work::Slice(slice) = work else { panic!("{work:?}") };
        match message_pack::decode(slice.reader).unwrap() {
            TableReader::Delimited(_, schema) => schema.names.iter().collect(),
            TableReader::DelimitedOf(_, _, all) => all,
            reader => panic!("{reader:?}"),
        }
    };
    planned_as(fixture, columns).await.0
}

/// What `describe` says of each mini-batch of a plan, and its end.
async fn planned_as<T: Send + 'static>(
    fixture: &mut Fixture,
    describe: impl Fn(Work<'_>) -> T + Send + 'static,
) -> (Vec<T>, PlanEnd) {
    let (spec, work, stores) = (fixture.spec().clone(), fixture.job.work.clone(), fixture.job.inputs.clone());
    let handle = tokio::runtime::Handle::current();
    let planning = tokio::task::spawn_blocking(move || {
        let context = PlanContext { work: &work, stores: &stores, handle: &handle, is_shared: false };
        let mut planned = Vec::new();
        let end = crate::plan::plan(&spec, &context, &|| false, &mut |batch| {
            planned.extend(batch.bodies.iter().map(|body| describe(MiniBatch::decode(body).unwrap().work)));
            ControlFlow::Continue(())
        });
        (planned, end.unwrap())
    });
    planning.await.unwrap()
}

#[tokio::test]
async fn columns_with_several_types_are_told_with_their_files() {
    let many = "1\n".repeat(1 << 20);
    let one_late = format!("n,a\n{}x,1\n{0}", "1,1\n".repeat(300_000));
    let delimited = TabularOptions { format: Some(TableFormat::Delimited), ..TabularOptions::default() };
    let sampled = TabularOptions { infer: Infer::Sampled, ..delimited.clone() };
    let declared = TabularOptions { dtype: vec![("n".to_owned(), "str".to_owned())], ..sampled.clone() };
    let lines = TabularOptions { format: Some(TableFormat::JsonLines), ..TabularOptions::default() };
    let table: [(TabularOptions, &[&str], &[&str]); 6] = [
        (delimited.clone(), &["n\n1\n", "n\n2\n", "n\n"], &[]),
        (delimited, &["n,a\n1,1\n", "n,a\n1.5,1\n"], &["float64 in", "give its dtype"]),
        (sampled.clone(), &[&one_late], &["column \"n\" is int64 in the sample of", "and str in all of it"]),
        (sampled, &[&format!("n\n{many}")], &[]),
        (declared, &[&one_late], &[]),
        (
            lines,
            &["{\"n\":1}\n{\"n\":2}\n", "{\"n\":null}\n{\"n\":1}"],
            &["int64 in", "float64 in", "astype"],
        ),
    ];
    for (options, files, told) in table {
        let mut fixture = Fixture::new(0).await;
        table_of(&mut fixture, MlTable::default());
        let folder = fixture.inputs();
        let input = &mut fixture.spec().inputs[0];
        (input.mltable, input.tabular) = (None, Some(options));
        for (number, text) in files.iter().enumerate() {
            std::fs::write(folder.join(format!("{number}.txt")), text).unwrap();
        }
        let (_, end) = planned_as(&mut fixture, |_| ()).await;
        let notes = end.notes.types_differ;
        assert_eq!(notes.len(), usize::from(!told.is_empty()), "{notes:?}");
        for words in told {
            assert!(notes[0].contains(words), "{notes:?}");
        }
    }
}

#[tokio::test]
async fn names_that_are_lost_with_the_first_file_are_not_those_of_the_next() {
    for (header, bad, is_lost) in [
        (Header::FromFirstFile, Some("a.csv.gz"), true),
        (Header::FromFirstFile, Some("b.csv.gz"), false),
        (Header::FromFirstFile, None, false),
        (Header::AllFilesSameHeaders, Some("a.csv.gz"), false),
        (Header::NoHeader, Some("a.csv.gz"), false),
    ] {
        let mut fixture = Fixture::new(0).await;
        table_of(&mut fixture, MlTable { header, ..MlTable::default() });
        let folder = fixture.inputs();
        // An empty file has no names to lose.
        std::fs::write(folder.join("0.csv"), "").unwrap();
        for name in ["a.csv", "c.csv", "d.csv"] {
            std::fs::write(folder.join(name), TEXT).unwrap();
        }
        if let Some(bad) = bad {
            let _ = std::fs::remove_file(folder.join(bad.trim_end_matches(".gz")));
            std::fs::write(folder.join(bad), b"\x1f\x8bno more").unwrap();
        }
        let (made, _) = planned(&mut fixture).await;
        let lost = made.iter().filter(|one| one.contains("the names of the columns are in the first file"));
        let lost: Vec<_> = lost.collect();
        assert_eq!(lost.len(), if is_lost { 2 } else { 0 }, "{header:?} {bad:?}: {made:?}");
        assert!(lost.iter().all(|one| one.contains("/a.csv.gz, which cannot be read")), "{made:?}");
    }
}

#[tokio::test]
async fn the_sum_of_a_listing_has_the_files_behind_a_satisfied_take() {
    let mut fixture = Fixture::new(0).await;
    let window = Window { skip: 1, take: Some(2) };
    table_of(&mut fixture, MlTable { window, ..MlTable::default() });
    for name in ["a.csv", "b.csv", "c.csv", "d.csv"] {
        let file = std::fs::File::create(fixture.inputs().join(name)).unwrap();
        (&file).write_all(TEXT.as_bytes()).unwrap();
        let long_ago = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        file.set_modified(long_ago).unwrap();
    }
    let (made, listed) = planned(&mut fixture).await;
    assert_eq!(made, ["1 records", "1 records"]);
    let (mut listed, now) = (listed.unwrap(), listed::list(fixture.spec(), &|| false).unwrap().unwrap());
    assert!(!listed.asks_for_contents(&now), "not all of them were read");
    listed.contents = now.contents;
    assert_eq!(listed, now);
}

#[tokio::test]
async fn columns_of_files_behind_a_satisfied_take_are_none_of_the_table() {
    for (skip, take, expected) in [
        (0, None, "a,b,c,d"),
        (0, Some(1), "a"),
        (0, Some(2), "a"),
        (0, Some(3), "a,b"),
        (1, Some(1), "a"),
        (1, Some(2), "a,b"),
        (2, Some(1), "a,b"),
        (5, Some(1), "a,b,c"),
        (0, Some(8), "a,b,c,d"),
        (0, Some(9), "a,b,c,d"),
    ] {
        let mut fixture = Fixture::new(0).await;
        let window = Window { skip, take };
        let header = Header::AllFilesDifferentHeaders;
        table_of(&mut fixture, MlTable { header, window, ..MlTable::default() });
        for name in ["a", "b", "c", "d"] {
            std::fs::write(fixture.inputs().join(format!("{name}.csv")), format!("{name}\n1\n2\n")).unwrap();
        }
        let columns = columns_of(&mut fixture).await;
        let expected: Vec<_> = expected.split(',').collect();
        assert!(
            !columns.is_empty() && columns.iter().all(|one| *one == expected),
            "{skip} {take:?}: {columns:?}"
        );
    }
}

#[tokio::test]
async fn a_host_without_scratch_leaves_the_plan_to_another() {
    let (fixture, _file) = compressed().await;
    std::fs::create_dir_all(fixture.job.work.parent().unwrap()).unwrap();
    std::fs::write(&fixture.job.work, "a file").unwrap();
    let ended = schedule(&fixture.job, "a", Assignment::default(), &CancellationToken::new()).await;
    assert!(matches!(ended, Scheduled::Unable { .. }), "{ended:?}");
    assert_eq!(fixture.job.ledger.progress().await.unwrap().conclusion, None);
}
