//! Slices of JSON lines: cut at line ends, looked into by the process that reads them.

use prs_common::dataset::mltable::MlTable;
use prs_common::job::{Infer, TabularOptions};
use prs_common::message_pack;
use prs_tabular::{LinesPart, LinesSchema, TableReader, split_lines_within};

use super::Slices;
use crate::plan::plain_text::PlainText;
use crate::plan::types_seen::CONVERT;

/// Cuts a file into slices of about `size` bytes; or says why the rest of it cannot be cut. A line that is too long is
/// left out, and told.
pub(super) fn plan(
    options: &TabularOptions,
    table: Option<&MlTable>,
    text: &PlainText,
    size: u64,
    slices: &mut Slices<'_, '_, '_>,
) -> Result<(), String> {
    let drops_invalid = table.is_some_and(|table| table.drops_invalid);
    let schema = match options.infer {
        Infer::Full => {
            LinesSchema::infer_file(&text.path, slices.taker.sink.stop).map_err(|error| error.to_string())?
        }
        Infer::Sampled => None,
    };
    let schema = schema.unwrap_or_default();
    for (name, kinds) in schema.names.iter().zip(&schema.kinds) {
        slices.taker.sink.types.note(name, kinds.type_name(), slices.name.origin, CONVERT);
    }
    let form = if drops_invalid { TableReader::ValidJsonLines } else { TableReader::JsonLines };
    let reader = message_pack::encode(&form(schema));
    let (mut skip, most, is_cut) = (slices.rows.skip, slices.rows.most, text.broken.is_some());
    let split = split_lines_within(&text.path, size, is_cut, &mut skip, most, |part| match part {
        LinesPart::Slice(slice) => slices.push_counted(&reader, slice),
        LinesPart::TooLong { start } => {
            slices.rows.most = slices.rows.most.saturating_sub(1);
            slices.next_record += 1;
            slices.unreadable(start, &format!("the line at byte {start} is longer than 4 GiB"))
        }
    });
    slices.rows.skip = skip;
    split.map_err(|error| error.to_string())
}
