//! The growth of the result: when an assembly begins, and what becomes of one that cannot go on.

use std::time::{Duration, Instant};

use super::FinalizeError;
use super::assembly::{Assembly, Written};
use super::form::Form;
use super::rows::BATCH;
use crate::JobContext;
use crate::segments::catalog::Catalog;

/// Least time between an assembly that failed and the next one. One that took longer is waited for as long again: each
/// begins with the first row.
const LEAST_PAUSE: Duration = Duration::from_secs(5);

/// The result of a job, as far as it has grown.
#[derive(Debug, Default)]
pub(crate) struct Growth {
    assembly: Option<Assembly>,
    /// When the assembly began.
    began: Option<Instant>,
    /// When the next one may begin.
    not_before: Option<Instant>,
}

impl Growth {
    /// Takes in what has been committed since the last call. The error is that of an assembly that failed: another one
    /// begins later, at the end of the job at the latest, and what is wrong then decides.
    pub(crate) async fn grow(&mut self, job: &JobContext, catalog: &Catalog) -> Result<(), FinalizeError> {
        if let Some(failed) = self.assembly.take_if(|assembly| !assembly.is_of_use(job, catalog)) {
            let now = Instant::now();
            let took = self.began.map_or(Duration::ZERO, |began| now - began);
            let is_parquet = matches!(failed.form(), Form::Parquet(_));
            if let Some(error) = failed.failure().await {
                self.not_before = Some(now + took.max(LEAST_PAUSE));
                return Err(error);
            }
            // Columns that changed may change again; a header does so no more than a few times.
            self.not_before = is_parquet.then(|| now + took);
        }
        if self.assembly.is_none()
            && catalog.prefix.bytes >= BATCH
            && self.not_before.is_none_or(|time| time <= Instant::now())
            && Form::of(job, catalog).is_known()
        {
            self.assembly = Some(Assembly::begin(job, catalog));
            self.began = Some(Instant::now());
        }
        if let Some(assembly) = &mut self.assembly {
            assembly.feed(catalog);
        }
        Ok(())
    }

    /// Writes what is missing. The catalog has every outcome of the job.
    pub(crate) async fn finish(
        &mut self,
        job: &JobContext,
        catalog: &Catalog,
    ) -> Result<Written, FinalizeError> {
        let grown = self.assembly.take().filter(|assembly| assembly.is_of_use(job, catalog));
        if let Some(assembly) = grown {
            match assembly.finish(catalog).await {
                Ok(written) => return Ok(written),
                // A fault that has passed since is none.
                Err(error) => tracing::warn!(job = job.id, %error, "the result is assembled anew"),
            }
        }
        Assembly::begin(job, catalog).finish(catalog).await
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use prs_common::hexadecimal;
    use prs_common::ledger::JobLedger;
    use prs_common::segment::read_index;
    use prs_common::storage::{ObjectMeta, StorageErrorKind, StorageExt};
    use sha2::{Digest, Sha256};

    use super::*;
    use crate::fixtures::Fixture;
    use crate::report::processed_mini_batches::ProcessedMiniBatches;
    use crate::report::try_table::TryTable;

    /// Two of them are more than a batch.
    const LENGTH: usize = BATCH as usize * 2 / 3;

    fn rows(index: u64) -> Bytes {
        vec![b'a' + index as u8; LENGTH].into()
    }

    async fn fixture() -> Fixture {
        let mut fixture = Fixture::new(6).await;
        fixture.rows = rows;
        fixture
    }

    /// The catalog of all that was committed.
    async fn catalog(fixture: &Fixture) -> Box<Catalog> {
        let report = ProcessedMiniBatches::create(&fixture.job.logs.join("report")).unwrap();
        let tries = TryTable::create(&fixture.job.logs, 1).unwrap();
        let mut catalog = Box::new(Catalog::new(&fixture.job, 0, (report, Some(tries))));
        for segment in fixture.ledger.segments(0, 100).await.unwrap() {
            let (key, size) = (segment.key.clone(), segment.size);
            let object = ObjectMeta { key, size, ..ObjectMeta::default() };
            let read = read_index(&*fixture.storage, &object).await.unwrap();
            catalog = catalog.take_in(segment, read.index).await;
        }
        catalog
    }

    /// Finishes the result and checks it.
    async fn gives(growth: &mut Growth, fixture: &Fixture, catalog: &Catalog, header: &str, indexes: &[u64]) {
        let written = growth.finish(&fixture.job, catalog).await.unwrap();
        let mut expected = header.as_bytes().to_vec();
        expected.extend(indexes.iter().flat_map(|index| rows(*index)));
        assert_eq!(written.bytes, expected.len() as u64);
        assert_eq!(written.sha256, hexadecimal(&Sha256::digest(&expected)));
        written.upload.finish().await.unwrap();
        let name = &fixture.job.spec.append_row_file_name;
        assert!(fixture.job.output.get(name).await.unwrap() == expected);
        fixture.job.output.delete(name).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_result_grows_with_its_contiguous_prefix() {
        let mut fixture = fixture().await;
        let mut growth = Growth::default();
        // Enough rows, and a hole before them; then one that fills it; then the rest.
        for (indexes, grows) in [(vec![1, 2, 5], false), (vec![0], true), (vec![4, 3], true)] {
            fixture.succeed(indexes).await;
            growth.grow(&fixture.job, &*catalog(&fixture).await).await.unwrap();
            assert_eq!(growth.assembly.is_some(), grows);
        }
        let catalog = catalog(&fixture).await;
        gives(&mut growth, &fixture, &catalog, "", &[0, 1, 2, 3, 4, 5]).await;
        // What was finished is gone: the next attempt begins anew.
        gives(&mut growth, &fixture, &catalog, "", &[0, 1, 2, 3, 4, 5]).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_header_that_comes_late_is_at_the_beginning() {
        let mut fixture = fixture().await;
        fixture.succeed([0, 1]).await;
        let mut growth = Growth::default();
        growth.grow(&fixture.job, &*catalog(&fixture).await).await.unwrap();
        fixture.succeed([3]).await;
        let mut catalog = catalog(&fixture).await;
        catalog.headers.add(1, 3, "a b\n".to_owned(), true);
        growth.grow(&fixture.job, &catalog).await.unwrap();
        assert_eq!(growth.assembly.as_ref().unwrap().form(), &Form::Text(None), "2 may bring another one");
        catalog.headers.add(1, 1, "a b\n".to_owned(), true);
        growth.grow(&fixture.job, &catalog).await.unwrap();
        assert_eq!(growth.assembly.as_ref().unwrap().form(), &Form::Text(Some("a b\n".to_owned())));
        gives(&mut growth, &fixture, &catalog, "a b\n", &[0, 1]).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_assembly_that_failed_is_begun_anew() {
        let mut fixture = fixture().await;
        fixture.succeed([0, 1]).await;
        let catalog = catalog(&fixture).await;
        fixture.storage.fail("get segments/", 1, StorageErrorKind::Unavailable);
        let mut growth = Growth::default();
        let error = loop {
            match growth.grow(&fixture.job, &catalog).await {
                Ok(()) => tokio::time::sleep(Duration::from_millis(5)).await,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, FinalizeError::Storage(_)), "{error}");
        growth.grow(&fixture.job, &catalog).await.unwrap();
        assert!(growth.assembly.is_none(), "not at once");
        gives(&mut growth, &fixture, &catalog, "", &[0, 1]).await;

        // One that fails at the end, too.
        growth = Growth::default();
        fixture.storage.fail("get segments/", 1, StorageErrorKind::Unavailable);
        growth.grow(&fixture.job, &catalog).await.unwrap();
        gives(&mut growth, &fixture, &catalog, "", &[0, 1]).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_result_that_is_dropped_leaves_nothing() {
        let mut fixture = fixture().await;
        fixture.succeed([0, 1, 2]).await;
        let mut growth = Growth::default();
        growth.grow(&fixture.job, &*catalog(&fixture).await).await.unwrap();
        drop(growth);
        let folder = fixture.job.output.uri("");
        let left =
            || walkdir::WalkDir::new(&folder).into_iter().flatten().filter(|one| one.file_type().is_file());
        while left().count() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
