//! Parquet files of the DataFrames that mini-batches returned (spec E8).
//!
//! A *frame* is the rows of one mini-batch as an Arrow stream, its *header* their schema as text. [`unify`] finds the
//! columns that hold all frames, and [`FileWriter`] writes the frames one by one, with one of them in memory. The bytes of the
//! file depend on the frames and their order alone. Arrow's own crates read, convert and encode; what they lack is here:
//! which types go together, what pandas wants to know, and categories that keep their order.
//!
//! | file | duty |
//! |---|---|
//! | `header` | the schema of one frame |
//! | `types` | what type holds the values of two |
//! | `unify` | the schema of the file |
//! | `pandas` | what `pandas.read_parquet` needs besides the types |
//! | `conform` | the columns of a frame in the types of the file |
//! | `categories` | columns of categories |
//! | `file` | the file |
//! | `shown` | rows for people to read |

mod categories;
mod conform;
mod file;
mod header;
mod pandas;
mod shown;
#[cfg(test)]
mod tests;
mod types;
mod unify;

pub use super::misfit::Misfit;
pub use file::FileWriter;
pub use header::FrameSchema;
pub use shown::{Shown, shown};
pub use unify::{FileSchema, unify};

/// Whether this program writes Parquet files.
pub const IS_HERE: bool = true;

/// Why frames cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The header is none.
    #[error("the header of the rows cannot be read: {0}")]
    Header(String),
    /// A value that no column of the file can hold, or rows that are no frame.
    #[error(transparent)]
    Arrow(#[from] arrow_schema::ArrowError),
    /// The file cannot be made.
    #[error(transparent)]
    Parquet(#[from] ::parquet::errors::ParquetError),
    /// Pages of categories cannot be compressed.
    #[error("cannot compress a page: {0}")]
    Compress(#[from] std::io::Error),
}
