//! The names of the columns where an MLTable says which records have them (dialects B.2).
//!
//! They are those of the first file that has any records, whatever the others say, or those of all files, which `survey`
//! has found; what an input without an MLTable does is left to the reader, which takes each file by itself, as pandas would.

use std::collections::HashSet;
use std::path::Path;

use prs_common::dataset::mltable::{Header, MlTable};
use prs_tabular::{Dialect, Names, Schema, SchemaError, first_fields};

/// Names columns, file after file.
pub(super) struct Headers {
    mode: Header,
    /// The first file, as the user named it, and its names.
    first: Option<(String, Vec<String>)>,
    /// A file that cannot be read, as the user named it: the names that are wanted are in it.
    lost: Option<String>,
    /// The columns of all files, where each has its own.
    all: Vec<String>,
}

impl Headers {
    /// `all` are the columns of all files, where each has its own.
    pub(super) fn new(table: &MlTable, all: Vec<String>) -> Self {
        Self { mode: table.header, first: None, lost: None, all }
    }

    /// The columns of the whole table, where a file with this schema has not all of them in their order.
    pub(super) fn all_of(&self, schema: &Schema) -> Option<Vec<String>> {
        let is_other = self.mode == Header::AllFilesDifferentHeaders
            && !schema.names.iter().eq(self.all.iter().cloned());
        is_other.then(|| self.all.clone())
    }

    /// Whether the first record of the next file is no data.
    pub(super) fn has_header(&self) -> bool {
        match self.mode {
            Header::NoHeader => false,
            Header::FromFirstFile => self.first.is_none() && self.lost.is_none(),
            Header::AllFilesSameHeaders | Header::AllFilesDifferentHeaders => true,
        }
    }

    /// The file `origin` cannot be read, or not what is left of it. Where the names stand in the first file alone, and are
    /// not known yet, nobody can tell them any more: the first record of the next file is data.
    pub(super) fn unreadable(&mut self, origin: &str) {
        if self.mode == Header::FromFirstFile && self.first.is_none() {
            self.lost.get_or_insert_with(|| origin.to_owned());
        }
    }

    /// Names the columns of the file at `path`, which the user knows as `origin`; or says why they do not fit.
    pub(super) fn name(
        &mut self,
        schema: &mut Schema,
        path: &Path,
        dialect: Dialect,
        origin: &str,
    ) -> Result<(), String> {
        let count = schema.names.len();
        if self.mode == Header::NoHeader {
            schema.names = Names::Header((1..=count).map(|number| format!("Column{number}")).collect());
            return Ok(());
        }
        if self.mode == Header::AllFilesDifferentHeaders {
            let names = names_of(path, dialect).map_err(|error| error.to_string())?;
            if let Some(new) = names.iter().find(|name| !self.all.contains(name)) {
                return Err(format!("it changed while it was planned: it has a column {new:?} now"));
            }
            schema.names = Names::Header(names);
            return Ok(());
        }
        if let Some(lost) = &self.lost {
            return Err(format!(
                "the names of the columns are in the first file, {lost}, which cannot be read: mend that file"
            ));
        }
        let (first, names) = if let Some(first) = &self.first {
            first
        } else {
            let names = names_of(path, dialect).map_err(|error| error.to_string())?;
            &*self.first.insert((origin.to_owned(), names))
        };
        if names.len() != count {
            let known = names.len();
            return Err(format!(
                "its first record has {count} fields, and the columns are the {known} of the first file, {first}: make it an \
                 input of its own"
            ));
        }
        schema.names = Names::Header(names.clone());
        Ok(())
    }
}

/// The names that the first record of the file at `path` gives its columns.
pub(super) fn names_of(path: &Path, dialect: Dialect) -> Result<Vec<String>, SchemaError> {
    first_fields(path, &dialect).map(unique)
}

/// Gives `Column` and a number to the nameless, counted from 1, and `_1`, `_2` and so on to those that are there already.
fn unique(names: Vec<String>) -> Vec<String> {
    let number = |(index, name): (usize, String)| {
        if name.is_empty() { format!("Column{}", index + 1) } else { name }
    };
    let names: Vec<String> = names.into_iter().enumerate().map(number).collect();
    let mut taken: HashSet<String> = names.iter().cloned().collect();
    let mut seen = HashSet::new();
    let mut unique = Vec::with_capacity(names.len());
    for name in names {
        if seen.insert(name.clone()) {
            unique.push(name);
            continue;
        }
        let free = (1..u64::MAX).map(|count| format!("{name}_{count}")).find(|free| !taken.contains(free));
        let free = free.expect("names are finitely many");
        taken.insert(free.clone());
        unique.push(free);
    }
    unique
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_unique() {
        for (given, expected) in [
            ("a,b", "a,b"),
            ("a,a,a", "a,a_1,a_2"),
            ("a,a,a_1", "a,a_2,a_1"),
            (",x,,", "Column1,x,Column3,Column4"),
            (",Column1", "Column1,Column1_1"),
        ] {
            let names = unique(given.split(',').map(str::to_owned).collect());
            assert_eq!(names.join(","), expected, "{given}");
        }
    }
}
