//! Mini-batches of a file dataset whose files are objects: so many files each, in the order of the manifest
//! (spec D1). The boundaries are those that the same files on disk would have.

use prs_common::job::Input;
use prs_common::mini_batch::{ObjectRef, Work};

use super::path_columns::{self, PathName};
use super::{PlanError, Sink};
use crate::inputs::manifest::{File, ManifestError, ManifestReader, ObjectReader, Source};

/// Plans one input with `size` files a mini-batch; files of different base folders never share one.
pub(super) fn plan(
    mut manifest: ManifestReader<ObjectReader>,
    input: &Input,
    position: u32,
    size: u64,
    sink: &mut Sink<'_>,
) -> Result<(), PlanError> {
    let failed = |source: ManifestError| PlanError::Manifest { input: input.name.clone(), source };
    let mut group: Vec<File> = Vec::new();
    let mut name = PathName::default();
    while let Some(files) = manifest.next_block().map_err(failed)? {
        let sources = manifest.sources();
        for file in files {
            if let Some(format) = &input.partition_format {
                name.of_object(&sources[file.source as usize], &file);
                if let Err(mismatch) = name.columns(format) {
                    path_columns::hand_over_bad(&name, &mismatch, position, sink);
                    continue;
                }
            }
            let apart = |first: &File| !share(sources, first.source, file.source);
            if group.len() as u64 >= size || group.first().is_some_and(apart) {
                hand_over(&mut group, sources, &[], position, sink);
            }
            group.push(file);
        }
        if sink.is_stopped() {
            return Ok(());
        }
    }
    hand_over(&mut group, manifest.sources(), &[], position, sink);
    Ok(())
}

/// Whether files of two sources may be in one mini-batch.
fn share(sources: &[Source], one: u32, other: u32) -> bool {
    one == other || (sources[one as usize].mixes && sources[other as usize].mixes)
}

/// Plans the mini-batch of these files, which have the `keys` in common.
pub(super) fn hand_over(
    group: &mut Vec<File>,
    sources: &[Source],
    keys: &[u8],
    position: u32,
    sink: &mut Sink<'_>,
) {
    if !group.is_empty() && !sink.stopped {
        let mut numbers: Vec<u32> = Vec::new();
        let files = group.iter().map(|file| {
            let known = numbers.iter().position(|&number| number == file.source);
            let source = known.unwrap_or_else(|| {
                numbers.push(file.source);
                numbers.len() - 1
            });
            let File { relative, key, size, version, .. } = file;
            ObjectRef { source: source as u32, relative, key, size: *size, version }
        });
        let files = files.collect();
        let sources = numbers.iter().map(|&number| sources[number as usize].describe(number)).collect();
        // The sink remembers that it was stopped.
        let _ = sink.push_with(position, keys, Work::Objects { sources, files });
    }
    group.clear();
}
