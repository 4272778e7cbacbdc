//! The types that columns have in several files, for rows of them that are put together in groups.
//!
//! Which type comes of them is not decided here: a process has pandas put a row of each together, as `pandas.concat` does with
//! the files.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::{ColumnType, LinesSchema, Schema};

/// Names of columns, each with its types, as `azureml_user.parallel_run.column_types` has them: names of dtypes, `~` and
/// letters for [`Kinds`](crate::Kinds), or a category in JSON. An empty text stands for a file without the column.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ColumnTypes(pub Vec<(String, Vec<String>)>);

impl ColumnTypes {
    /// No such column.
    const ABSENT: &str = "";

    /// Those of one file, each with its type.
    pub fn new(columns: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(columns.into_iter().map(|(name, of_type)| (name, vec![of_type])).collect())
    }

    /// Those of delimited text, of which these are wanted.
    pub(crate) fn of_text(schema: &Schema, all: Vec<String>) -> Self {
        let known: HashMap<String, ColumnType> =
            schema.names.iter().zip(schema.types.iter().copied()).collect();
        Self::new(all.into_iter().map(|name| {
            // A column that another file has alone holds nothing here, and has no type of its own.
            let of_type = known.get(&name).map_or("object", |of_type| of_type.name());
            (name, of_type.to_owned())
        }))
    }

    /// Those of JSON lines; nothing where they are not known.
    pub(crate) fn of_lines(schema: &LinesSchema) -> Option<Self> {
        let columns = schema.names.iter().zip(&schema.kinds);
        let described = columns.map(|(name, kinds)| {
            let of_type = match kinds.type_name() {
                // It may depend on the order of the values, and on the pandas.
                "object" => format!("~{}", kinds.as_str()),
                known => known.to_owned(),
            };
            (name.clone(), of_type)
        });
        (!schema.names.is_empty()).then(|| Self::new(described))
    }

    /// In words, in which columns another file differs; without one, the two may still be read by other rules.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let of = |columns: &[(String, Vec<String>)]| -> HashMap<String, String> {
            columns.iter().map(|(name, types)| (name.clone(), types.join(" or "))).collect()
        };
        let (before, after) = (of(&self.0), of(&other.0));
        let mut told: Vec<String> = self
            .0
            .iter()
            .filter_map(|(name, _)| match (&before[name], after.get(name)) {
                (was, Some(is)) if was == is => None,
                (was, Some(is)) => Some(format!("{name} is {is} and was {was}")),
                (_, None) => Some(format!("{name} is gone")),
            })
            .collect();
        let added = other.0.iter().filter(|(name, _)| !before.contains_key(name));
        told.extend(added.map(|(name, _)| format!("{name} is new")));
        if told.is_empty() && !self.0.iter().map(|(name, _)| name).eq(other.0.iter().map(|(name, _)| name)) {
            told.push("they are in another order".to_owned());
        }
        told
    }

    /// Those of several files, in their order.
    pub fn together<'a>(files: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut together = Vec::<(String, Vec<String>)>::new();
        let mut places = HashMap::<&str, usize>::new();
        // For each column, the last file that has it, from 1 on.
        let mut last = Vec::new();
        let mut count = 0;
        for (number, Self(columns)) in (1..).zip(files) {
            count = number;
            for (name, types) in columns {
                let at = *places.entry(name).or_insert(together.len());
                if at == together.len() {
                    let before = if number > 1 { vec![Self::ABSENT.to_owned()] } else { Vec::new() };
                    together.push((name.clone(), before));
                    last.push(number);
                } else {
                    if last[at] + 1 < number {
                        note(&mut together[at].1, Self::ABSENT);
                    }
                    last[at] = number;
                }
                for of_type in types {
                    note(&mut together[at].1, of_type);
                }
            }
        }
        for ((_, types), last) in together.iter_mut().zip(last) {
            if last < count {
                note(types, Self::ABSENT);
            }
        }
        Self(together)
    }
}

fn note(types: &mut Vec<String>, of_type: &str) {
    if types.iter().all(|known| known != of_type) {
        types.push(of_type.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dialect, InferMode};

    fn types(columns: &[(&str, &[&str])]) -> ColumnTypes {
        let owned = |types: &[&str]| types.iter().map(|one| (*one).to_owned()).collect();
        ColumnTypes(columns.iter().map(|(name, types)| ((*name).to_owned(), owned(types))).collect())
    }

    #[test]
    fn columns_have_the_types_of_all_files_and_say_where_one_lacks_them() {
        let files = [
            types(&[("a", &["int64"]), ("b", &["str"]), ("c", &["bool"])]),
            types(&[("b", &["str"]), ("a", &["float64"])]),
            types(&[("d", &["int64"]), ("a", &["int64"]), ("c", &["bool"])]),
        ];
        let together = ColumnTypes::together(&files);
        let expected = types(&[
            ("a", &["int64", "float64"]),
            ("b", &["str", ""]),
            ("c", &["bool", ""]),
            ("d", &["", "int64"]),
        ]);
        assert_eq!(together, expected);
        assert_eq!(ColumnTypes::together(&files[..1]), files[0]);
        assert_eq!(ColumnTypes::together([]), ColumnTypes::default());
    }

    #[test]
    fn texts_know_their_types() {
        let dialect = Dialect::new(b',', true).unwrap();
        let mut text = std::io::Cursor::new("a,b,c\n1,x,True\n2,y,\n");
        let schema = Schema::infer(&mut text, dialect, InferMode::Full).unwrap();
        let plain = types(&[("a", &["int64"]), ("b", &["str"]), ("c", &["object"])]);
        assert_eq!(ColumnTypes::of_text(&schema, schema.names.iter().collect()), plain);
        let all = ["z", "b"].map(str::to_owned).to_vec();
        let some = types(&[("z", &["object"]), ("b", &["str"])]);
        assert_eq!(ColumnTypes::of_text(&schema, all), some);
        assert_eq!(ColumnTypes::of_lines(&LinesSchema::default()), None);
    }
}
