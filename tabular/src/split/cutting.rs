//! Cuts a file into slices.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::path::Path;

use super::{BLOCK, Slice, SplitError, Splitter};

/// A file that is being cut into slices.
#[derive(Debug)]
pub struct Cutting {
    pub(crate) file: File,
    pub(crate) splitter: Splitter,
    /// Slices that were found and not handed over.
    pub(crate) found: Vec<Slice>,
}

impl Cutting {
    /// The file at `path` with a splitter that has seen nothing yet.
    pub fn new(path: &Path, splitter: Splitter) -> io::Result<Self> {
        Ok(Self { file: File::open(path)?, splitter, found: Vec::new() })
    }

    /// Hands every slice to `on_slice` as soon as its end is known, until that says stop.
    pub fn go_on(&mut self, mut on_slice: impl FnMut(Slice) -> ControlFlow<()>) -> Result<(), SplitError> {
        let Self { file, splitter, found } = self;
        if found.drain(..).try_for_each(&mut on_slice).is_break() {
            return Ok(());
        }
        file.seek(SeekFrom::Start(splitter.fed()))?;
        let mut block = vec![0; BLOCK];
        loop {
            let read = match file.read(&mut block) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            splitter.feed(&block[..read], found);
            if found.drain(..).try_for_each(&mut on_slice).is_break() {
                return Ok(());
            }
        }
        splitter.end(found)?;
        // A caller that stops here stops at the end.
        let _ = found.drain(..).try_for_each(&mut on_slice);
        Ok(())
    }

    /// Records that are still to be left out.
    pub fn left_to_skip(&self) -> u64 {
        self.splitter.left_to_skip()
    }
}
