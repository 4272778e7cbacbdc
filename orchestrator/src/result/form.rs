//! What the result begins with, or is made by, as far as the outcomes tell: a header, or the columns of a Parquet file.
//!
//! An assembly that began with another one is of no use.

use std::sync::Arc;

use prs_common::job::OutputFormat;
use prs_tabular::parquet::write::FileSchema;

use crate::JobContext;
use crate::segments::catalog::Catalog;
use crate::segments::schemas::Schemas;

/// The form of a result.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Form {
    /// Rows as they are, behind a header where there is one.
    Text(Option<String>),
    /// A Parquet file with these columns; nothing is known of them without rows.
    Parquet(Option<Arc<FileSchema>>),
}

impl Form {
    /// What is known of it.
    pub(super) fn of(job: &JobContext, catalog: &Catalog) -> Self {
        if job.spec.output_format.is_some_and(OutputFormat::is_parquet) {
            // Of all outcomes that were followed, also behind a hole: the sooner the columns are known, the better.
            return Self::Parquet(catalog.schemas.as_ref().and_then(Schemas::unified));
        }
        let header = catalog.headers.first().filter(|(index, _)| (*index as usize) < catalog.prefix.end);
        Self::Text(header.map(|(_, header)| header.clone()))
    }

    /// Whether a result can be begun.
    pub(super) fn is_known(&self) -> bool {
        *self != Self::Parquet(None)
    }
}
