//! Why a Delta table is not read.

/// Why a Delta table is not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeltaError {
    /// There is no commit and no checkpoint.
    #[error("its folder _delta_log has no commit and no checkpoint: give the folder of a Delta table")]
    NoLog,
    /// The table does not have this version, or not any more.
    #[error(
        "there is no version {version}: the versions that its log tells are {first} to {last}; give one of these"
    )]
    NoVersion {
        /// What was asked for.
        version: u64,
        /// The first there is.
        first: u64,
        /// The last there is.
        last: u64,
    },
    /// A commit is missing.
    #[error(
        "its log has a gap: version {version} takes _delta_log/{missing}, which is not there: bring it back, or give a version \
         that does not need it"
    )]
    Gap {
        /// What was asked for.
        version: u64,
        /// The name of the commit.
        missing: String,
    },
    /// A checkpoint with sidecars or a name of its own.
    #[error(
        "version {0} takes a checkpoint of the form v2, which is not read: set delta.checkpointPolicy to classic, make a checkpoint, \
         and give a version from then on"
    )]
    V2Checkpoint(u64),
    /// A checkpoint, in a program that was built without Parquet.
    #[error("_delta_log/{0} is Parquet, and this build of prs has no Parquet (feature parquet)")]
    NoParquet(String),
    /// A file of the log that cannot be read.
    #[error(
        "_delta_log/{file}{place}: {reason}: bring back the file as it was written, or give a version that does not need it"
    )]
    Damaged {
        /// Its name.
        file: String,
        /// The line, as `, line 3`; empty for all of it.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The log lacks what every table says of itself.
    #[error(
        "its log up to version {version} has no {what}: it is not whole, so bring back the files that are missing"
    )]
    Lacks {
        /// The version.
        version: u64,
        /// The action.
        what: &'static str,
    },
    /// What the log says of the columns cannot be.
    #[error("its log says what cannot be of the columns: {0}")]
    Columns(String),
    /// Readers must have a version that is not known.
    #[error(
        "it is for readers of version {0} (minReaderVersion), and versions up to 3 are read: write it with an older protocol, or \
         write its rows as Parquet files, and give read_parquet"
    )]
    ReaderVersion(u64),
    /// Readers must know features that are not read.
    #[error("it is for readers with {names}, which {are} not read: {1}", names = .0.join(", "), are = if .0.len() == 1 { "is" } else { "are" })]
    Features(Vec<String>, &'static str),
    /// Columns have other names in the files.
    #[error(
        "it maps the names of its columns (columnMapping, delta.columnMapping.mode = {0}), which is not read: write it anew \
         without, as with CREATE TABLE ... TBLPROPERTIES ('delta.columnMapping.mode' = 'none') AS SELECT"
    )]
    ColumnMapping(String),
    /// Rows of files are deleted without the files being written anew.
    #[error(
        "{file} has deleted rows that are noted beside it (deletionVectors), which is not read, and {count} of its {all} files do: run \
         REORG TABLE ... APPLY (PURGE), and give the version that it makes"
    )]
    DeletionVectors {
        /// The first of them.
        file: String,
        /// How many.
        count: usize,
        /// Of how many.
        all: usize,
    },
    /// A file outside of the table.
    #[error(
        "its log names {0}, which is not below the folder of the table, as a shallow clone does: make a deep clone of it, and \
         give that"
    )]
    Elsewhere(String),
    /// A file that is no Parquet.
    #[error("its files are {0}, and Parquet alone is read: write it as Parquet")]
    Format(String),
}
