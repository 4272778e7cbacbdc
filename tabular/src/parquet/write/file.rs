//! The file: frames come one by one, bytes go out as row groups are full.
//!
//! A row group ends behind the batch that fills it. In memory are one frame, which is at most 2 GiB, one batch of its rows, the
//! encoded columns of the open row group, and what was written of the frame.

use std::io::Cursor;
use std::sync::Arc;

use ::parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use ::parquet::arrow::{ArrowSchemaConverter, add_encoded_arrow_schema_to_metadata};
use ::parquet::basic::{Compression, ZstdLevel};
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::{EnabledStatistics, WriterProperties};
use ::parquet::file::writer::SerializedFileWriter;
use arrow_array::cast::AsArray;
use arrow_array::{AnyDictionaryArray, Array, ArrayRef, RecordBatch, new_null_array};
use arrow_cast::cast;
use arrow_ipc::reader::StreamReader;
use arrow_schema::DataType;
use bytes::Bytes;

use super::FrameError;
use super::categories::Categories;
use super::conform::conform;
use super::types::is_text;
use super::unify::FileSchema;

/// A row group with so many rows is closed.
const MOST_ROWS: usize = 1 << 20;
/// A row group with so many bytes of rows is closed.
const MOST_BYTES: usize = 64 << 20;

/// A file that is being written.
pub struct FileWriter {
    schema: FileSchema,
    file: SerializedFileWriter<Vec<u8>>,
    columns: ArrowRowGroupWriterFactory,
    /// The open row group.
    group: Option<Group>,
    /// Row groups before it.
    groups: usize,
}

/// A row group that is being filled.
struct Group {
    /// The leaves of the columns, in their order.
    leaves: Vec<Leaf>,
    rows: usize,
    bytes: usize,
}

enum Leaf {
    Plain(Box<ArrowColumnWriter>),
    Categories(Box<Categories>),
}

impl FileWriter {
    /// Begins a file.
    pub fn new(schema: FileSchema) -> Result<Self, FrameError> {
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .set_key_value_metadata(Some(vec![KeyValue::new("pandas".to_owned(), schema.pandas.clone())]))
            .build();
        add_encoded_arrow_schema_to_metadata(&schema.schema, &mut properties);
        let columns = ArrowSchemaConverter::new().convert(&schema.schema)?;
        let file = SerializedFileWriter::new(Vec::new(), columns.root_schema_ptr(), Arc::new(properties))?;
        let columns = ArrowRowGroupWriterFactory::new(&file, Arc::clone(&schema.schema));
        Ok(Self { schema, file, columns, group: None, groups: 0 })
    }

    /// Adds the rows of a frame, an Arrow stream, or of several, one behind the other.
    pub fn add(&mut self, frames: Bytes) -> Result<(), FrameError> {
        let mut frames = Cursor::new(frames);
        loop {
            self.add_frame(&mut frames)?;
            if frames.position() >= frames.get_ref().len() as u64 {
                return Ok(());
            }
        }
    }

    fn add_frame(&mut self, frame: &mut Cursor<Bytes>) -> Result<(), FrameError> {
        for batch in StreamReader::try_new(frame, None)? {
            self.add_batch(&batch?)?;
            if self.group.as_ref().is_some_and(|group| group.rows >= MOST_ROWS || group.bytes >= MOST_BYTES) {
                self.close_group()?;
            }
        }
        Ok(())
    }

    fn add_batch(&mut self, batch: &RecordBatch) -> Result<(), FrameError> {
        if self.group.is_none() {
            self.group = Some(self.open_group()?);
        }
        let Some(group) = &mut self.group else { return Ok(()) };
        let mut leaves = group.leaves.iter_mut();
        for (field, order) in self.schema.schema.fields().iter().zip(&self.schema.orders) {
            let wanted = field.data_type();
            let column = match batch.column_by_name(field.name()) {
                Some(column) if column.logical_null_count() < column.len() => match wanted {
                    DataType::Dictionary(..) => Arc::clone(column),
                    _ => conform(column, wanted)?,
                },
                // Categories without a row are kept.
                Some(column) if is_categorical(wanted) && has_categories_of(column, order.as_deref()) => {
                    Arc::clone(column)
                }
                // Of any type: there is no value to convert.
                _ => new_null_array(wanted, batch.num_rows()),
            };
            group.bytes += column.to_data().get_slice_memory_size()?;
            if is_categorical(wanted) {
                if let Some(Leaf::Categories(categories)) = leaves.next() {
                    categories.add(&column)?;
                }
                continue;
            }
            for values in compute_leaves(field, &column)? {
                if let Some(Leaf::Plain(writer)) = leaves.next() {
                    writer.write(&values)?;
                }
            }
        }
        group.rows += batch.num_rows();
        Ok(())
    }

    fn open_group(&self) -> Result<Group, FrameError> {
        let writers = self.columns.create_column_writers(self.groups)?;
        let columns = self.file.schema_descr();
        let fields = self.schema.schema.fields();
        let is_categories = |leaf: usize| {
            let field = &fields[columns.get_column_root_idx(leaf)];
            is_categorical(field.data_type())
        };
        let leaves = writers.into_iter().enumerate().map(|(leaf, writer)| {
            if is_categories(leaf) { Leaf::Categories(Box::default()) } else { Leaf::Plain(Box::new(writer)) }
        });
        Ok(Group { leaves: leaves.collect(), rows: 0, bytes: 0 })
    }

    fn close_group(&mut self) -> Result<(), FrameError> {
        let Some(group) = self.group.take() else { return Ok(()) };
        let columns = self.file.schema_descr().columns().to_vec();
        let mut written = self.file.next_row_group()?;
        for (leaf, column) in group.leaves.into_iter().zip(&columns) {
            match leaf {
                Leaf::Plain(writer) => writer.close()?.append_to_row_group(&mut written)?,
                Leaf::Categories(categories) => {
                    let (chunk, close) = categories.close(column)?;
                    written.append_column(&chunk, close)?;
                }
            }
        }
        written.close()?;
        self.groups += 1;
        Ok(())
    }

    /// The bytes of the file that were not taken yet, as far as they are known.
    pub fn take_written(&mut self) -> Result<Bytes, FrameError> {
        self.file.flush()?;
        Ok(std::mem::take(self.file.inner_mut()).into())
    }

    /// Ends the file; gives the bytes that were not taken yet.
    pub fn finish(mut self) -> Result<Bytes, FrameError> {
        self.close_group()?;
        Ok(self.file.into_inner()?.into())
    }
}

fn is_categorical(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Dictionary(..))
}

/// Whether the categories of a column without values belong to those of the file: texts, and where an order means something,
/// in this one.
fn has_categories_of(column: &ArrayRef, order: Option<&str>) -> bool {
    let Some(values) = column.as_any_dictionary_opt().map(AnyDictionaryArray::values) else { return false };
    if !is_text(values.data_type()) {
        return false;
    }
    let Some(order) = order else { return true };
    let Ok(values) = cast(values, &DataType::LargeUtf8) else { return false };
    let own: Vec<&str> = values.as_string::<i64>().iter().flatten().collect();
    own.join(" < ") == order
}
