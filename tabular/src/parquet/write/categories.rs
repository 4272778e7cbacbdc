//! A column of categories: a column chunk whose dictionary has all categories in their order.
//!
//! The order is that of the frames, and means something where pandas has an ordered categorical; categories without a row
//! are kept too. `parquet` numbers the values as they come, so the pages are encoded here: a dictionary page, then data
//! pages of definition levels and numbers, both in the hybrid of run lengths and packed bits.

use std::collections::HashMap;

use ::parquet::basic::{Compression, Encoding, PageType, ZstdLevel};
use ::parquet::column::page::{CompressedPage, Page, PageWriter};
use ::parquet::column::writer::ColumnCloseResult;
use ::parquet::file::metadata::{ColumnChunkMetaData, PageEncodingStats};
use ::parquet::file::statistics::Statistics;
use ::parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use ::parquet::schema::types::ColumnDescPtr;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType};
use bytes::Bytes;

use super::FrameError;

/// Rows of a data page.
const PAGE_ROWS: usize = 1 << 16;
/// Equal numbers in a row that are written as a run.
const RUN: usize = 8;

/// The chunk of one row group.
#[derive(Debug, Default)]
pub(super) struct Categories {
    numbers: HashMap<String, u32>,
    /// The categories, each behind its length.
    dictionary: Vec<u8>,
    /// Of the rows of the open page: 1, or 0 for null.
    levels: Vec<u32>,
    /// Of its rows that are not null: the number of the category.
    codes: Vec<u32>,
    pages: Vec<(Page, usize)>,
    rows: usize,
    nulls: u64,
}

impl Categories {
    /// Adds the rows of an array of categories.
    pub(super) fn add(&mut self, array: &ArrayRef) -> Result<(), FrameError> {
        let Some(array) = array.as_any_dictionary_opt() else {
            let error = format!("{} are no categories", array.data_type());
            return Err(ArrowError::SchemaError(error).into());
        };
        let values = cast(array.values(), &DataType::LargeUtf8)?;
        let numbers: Vec<Option<u32>> =
            values.as_string::<i64>().iter().map(|value| value.map(|value| self.number(value))).collect();
        let keys = cast(array.keys(), &DataType::Int64)?;
        for key in keys.as_primitive::<arrow_array::types::Int64Type>() {
            let number = key.and_then(|key| numbers.get(key as usize).copied().flatten());
            self.levels.push(u32::from(number.is_some()));
            self.nulls += u64::from(number.is_none());
            self.codes.extend(number);
            self.rows += 1;
            if self.levels.len() == PAGE_ROWS {
                self.close_page()?;
            }
        }
        Ok(())
    }

    fn number(&mut self, value: &str) -> u32 {
        if let Some(number) = self.numbers.get(value) {
            return *number;
        }
        let number = self.numbers.len() as u32;
        self.numbers.insert(value.to_owned(), number);
        self.dictionary.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.dictionary.extend_from_slice(value.as_bytes());
        number
    }

    fn close_page(&mut self) -> Result<(), FrameError> {
        let mut page = vec![0; 4];
        hybrid(&self.levels, 1, &mut page);
        let levels = (page.len() - 4) as u32;
        page[..4].copy_from_slice(&levels.to_le_bytes());
        let width = width_of(self.numbers.len());
        page.push(width as u8);
        hybrid(&self.codes, width, &mut page);
        let compressed = Page::DataPage {
            buf: compress(&page)?,
            num_values: self.levels.len() as u32,
            encoding: Encoding::RLE_DICTIONARY,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        self.pages.push((compressed, page.len()));
        self.levels.clear();
        self.codes.clear();
        Ok(())
    }

    /// The chunk, and what the file says of it.
    pub(super) fn close(mut self, column: &ColumnDescPtr) -> Result<(Bytes, ColumnCloseResult), FrameError> {
        if !self.levels.is_empty() || self.pages.is_empty() {
            self.close_page()?;
        }
        let dictionary = Page::DictionaryPage {
            buf: compress(&self.dictionary)?,
            num_values: self.numbers.len() as u32,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        };
        let data_pages = self.pages.len() as i32;
        let mut chunk = TrackedWrite::new(Vec::new());
        let (mut uncompressed, mut data_offset) = (0, 0);
        for (page, size) in std::iter::once((dictionary, self.dictionary.len())).chain(self.pages) {
            let is_dictionary = page.is_dictionary_page();
            let written =
                SerializedPageWriter::new(&mut chunk).write_page(CompressedPage::new(page, size))?;
            uncompressed += written.uncompressed_size as i64;
            if is_dictionary {
                data_offset = written.bytes_written as i64;
            }
        }
        let chunk = chunk.into_inner()?;
        let stats = |page_type, encoding, count| PageEncodingStats { page_type, encoding, count };
        let metadata = ColumnChunkMetaData::builder(column.clone())
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_encodings(vec![Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY])
            .set_page_encoding_stats(vec![
                stats(PageType::DICTIONARY_PAGE, Encoding::PLAIN, 1),
                stats(PageType::DATA_PAGE, Encoding::RLE_DICTIONARY, data_pages),
            ])
            .set_num_values(self.rows as i64)
            .set_total_compressed_size(chunk.len() as i64)
            .set_total_uncompressed_size(uncompressed)
            .set_dictionary_page_offset(Some(0))
            .set_data_page_offset(data_offset)
            .set_statistics(Statistics::byte_array(None, None, None, Some(self.nulls), false))
            .build()?;
        let close = ColumnCloseResult {
            bytes_written: chunk.len() as u64,
            rows_written: self.rows as u64,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        Ok((chunk.into(), close))
    }
}

fn compress(page: &[u8]) -> Result<Bytes, FrameError> {
    Ok(zstd::bulk::compress(page, ZstdLevel::default().compression_level())?.into())
}

/// Bits of the numbers of so many categories.
fn width_of(categories: usize) -> u32 {
    (usize::BITS - categories.saturating_sub(1).leading_zeros()).max(1)
}

/// Appends `values` of `width` bits each, as runs and as packed groups of eight.
fn hybrid(values: &[u32], width: u32, out: &mut Vec<u8>) {
    let mut at = 0;
    while at < values.len() {
        let run = run_at(values, at);
        if run >= RUN {
            varint((run as u64) << 1, out);
            out.extend_from_slice(&values[at].to_le_bytes()[..width.div_ceil(8) as usize]);
            at += run;
            continue;
        }
        let start = at;
        at += 8;
        while at < values.len() && run_at(values, at) < RUN {
            at += 8;
        }
        at = at.min(values.len());
        let groups = (at - start).div_ceil(8);
        varint((groups as u64) << 1 | 1, out);
        pack(&values[start..at], width, groups, out);
    }
}

/// Equal values from `at` on.
fn run_at(values: &[u32], at: usize) -> usize {
    values[at..].iter().take_while(|value| **value == values[at]).count()
}

/// Appends groups of eight values, each in `width` bits, the lowest first; what is missing of the last is 0.
fn pack(values: &[u32], width: u32, groups: usize, out: &mut Vec<u8>) {
    let (mut bits, mut held) = (0u64, 0);
    for at in 0..groups * 8 {
        bits |= u64::from(values.get(at).copied().unwrap_or_default()) << held;
        held += width;
        while held >= 8 {
            out.push(bits as u8);
            bits >>= 8;
            held -= 8;
        }
    }
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
