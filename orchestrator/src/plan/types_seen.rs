//! Columns of an input that have other types in one file than in another, or in the sample of a file than in all of it: a script
//! may stumble over them, so they are told beside the result.

use std::collections::BTreeMap;

/// Columns that are compared, at most: what is kept does not grow with the number of files.
const MOST_COLUMNS: usize = 10_000;
/// Columns that are told, at most.
const MOST_TOLD: usize = 20;

/// What gives a column of delimited text one type.
pub(super) const GIVE_DTYPE: &str = "give its dtype";
/// What gives one to a column of JSON lines.
pub(super) const CONVERT: &str = "convert it in the script (astype)";

/// A column of the files so far.
#[derive(Debug)]
struct Column {
    /// Its types, each with how many files have it, and the first of them.
    types: Vec<(&'static str, u64, String)>,
    /// What gives it one.
    remedy: &'static str,
}

/// The types of the columns of the files so far.
#[derive(Debug, Default)]
pub(super) struct TypesSeen {
    columns: BTreeMap<String, Column>,
    /// Columns whose sample says something else than all of a file, with the sentence of the first such file.
    samples: BTreeMap<String, String>,
}

impl TypesSeen {
    /// Notes that `column` has this type in the file `origin`, and what would give it another one.
    pub(super) fn note(&mut self, column: &str, of_type: &'static str, origin: &str, remedy: &'static str) {
        if let Some(Column { types, .. }) = self.columns.get_mut(column) {
            match types.iter_mut().find(|(known, ..)| *known == of_type) {
                Some((_, files, _)) => *files += 1,
                None => types.push((of_type, 1, origin.to_owned())),
            }
        } else if self.columns.len() < MOST_COLUMNS {
            let types = vec![(of_type, 1, origin.to_owned())];
            self.columns.insert(column.to_owned(), Column { types, remedy });
        }
    }

    /// Notes that all of the file `origin` makes another type of `column` than its sample, which mini-batches are read by.
    pub(super) fn note_sample(&mut self, column: &str, (sampled, whole): (&str, &str), origin: &str) {
        if self.samples.len() < MOST_COLUMNS {
            self.samples.entry(column.to_owned()).or_insert_with(|| {
                format!(
                    "column {column:?} is {sampled} in the sample of {origin} and {whole} in all of it, so mini-batches differ: \
                     give its dtype, or leave out infer: sampled"
                )
            });
        }
    }

    /// What there is to tell of the input that is called so.
    pub(super) fn sentences(&self, input: &str) -> Vec<String> {
        let differing = self.columns.iter().filter(|(_, column)| column.types.len() > 1);
        let differing = differing.map(|(column, Column { types, remedy })| {
            let in_files = types.iter().map(|(of_type, files, first)| match files {
                1 => format!("{of_type} in {first}"),
                files => format!("{of_type} in {first} and {} more", files - 1),
            });
            let in_files = in_files.collect::<Vec<_>>().join(", ");
            format!("column {column:?} is {in_files}: {remedy} to have it the same in all files")
        });
        let all: Vec<String> = self.samples.values().cloned().chain(differing).collect();
        let more = all.len().saturating_sub(MOST_TOLD);
        let rest = (more > 0).then(|| format!("types differ in {more} more columns"));
        all.into_iter().take(MOST_TOLD).chain(rest).map(|told| format!("{input}: {told}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_several_types_are_told_with_their_files() {
        let mut seen = TypesSeen::default();
        for (column, of_type, origin) in [
            ("id", "int64", "a.csv"),
            ("qty", "int64", "a.csv"),
            ("id", "int64", "b.csv"),
            ("qty", "float64", "b.csv"),
            ("qty", "int64", "c.csv"),
            ("id", "int64", "c.csv"),
        ] {
            seen.note(column, of_type, origin, GIVE_DTYPE);
        }
        seen.note_sample("zip", ("int64", "str"), "b.csv");
        seen.note_sample("zip", ("int64", "str"), "c.csv");
        assert_eq!(
            seen.sentences("sales"),
            [
                "sales: column \"zip\" is int64 in the sample of b.csv and str in all of it, so mini-batches differ: give its \
                 dtype, or leave out infer: sampled",
                "sales: column \"qty\" is int64 in a.csv and 1 more, float64 in b.csv: give its dtype to have it the same in \
                 all files",
            ]
        );
        assert!(TypesSeen::default().sentences("sales").is_empty());
    }

    #[test]
    fn of_many_columns_some_are_told() {
        let mut seen = TypesSeen::default();
        for column in 0..MOST_COLUMNS + 7 {
            seen.note(&column.to_string(), "int64", "a.csv", CONVERT);
            seen.note(&column.to_string(), "str", "b.csv", CONVERT);
        }
        let told = seen.sentences("sales");
        assert_eq!(told.len(), MOST_TOLD + 1);
        assert_eq!(told[MOST_TOLD], "sales: types differ in 9980 more columns");
    }
}
