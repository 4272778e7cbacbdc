//! Texts of a field that are missing values: those of `pandas.read_csv`, or those that a job gives in their place.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::value::{self, Kind};

/// The texts that pandas takes for missing values.
const OF_PANDAS: [&str; 19] = [
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A",
    "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
];

/// The texts that are missing values, whatever the type of their column.
///
/// They mean what `na_values` with `keep_default_na=False` means to `pandas.read_csv`: a text that is a number stands for that
/// number in a column of floats, however it is written there. pandas leaves other spellings of it alone where all numbers of the
/// column are whole; here they are missing too.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Option<Vec<String>>", into = "Option<Vec<String>>")]
pub struct NullValues(Option<Given>);

#[derive(Debug, Clone, PartialEq)]
struct Given {
    texts: Vec<String>,
    /// The texts, and for a whole number among them its usual spellings.
    words: HashSet<Vec<u8>>,
    /// The numbers among them.
    numbers: Vec<f64>,
    /// Whether one of them is a number or a truth value to who does not know them.
    hide_values: bool,
}

impl NullValues {
    /// The texts `given`, or else those of pandas, and those that are `added`.
    pub fn new(given: Option<&[String]>, added: &[String]) -> Self {
        match given {
            None if added.is_empty() => Self::default(),
            None => Self::only(OF_PANDAS.iter().map(|&text| text.to_owned()).chain(added.to_vec()).collect()),
            Some(given) => Self::only([given, added].concat()),
        }
    }

    fn only(texts: Vec<String>) -> Self {
        let mut words: HashSet<Vec<u8>> = texts.iter().map(|text| text.clone().into_bytes()).collect();
        let numbers: Vec<f64> = texts.iter().filter_map(|text| value::float(text.as_bytes())).collect();
        for whole in numbers.iter().filter(|number| number.fract() == 0.0) {
            // Zero has no sign here.
            let whole = whole + 0.0;
            words.extend([format!("{whole:.0}").into_bytes(), format!("{whole:.1}").into_bytes()]);
        }
        let pandas = Self::default();
        let is_value = |word: &Vec<u8>| !matches!(pandas.kind(word), Kind::Missing | Kind::Text);
        let hide_values = words.iter().any(is_value);
        Self(Some(Given { texts, words, numbers, hide_values }))
    }

    /// Whether they are those of pandas.
    pub fn are_usual(&self) -> bool {
        self.0.is_none()
    }

    /// Whether a field with this text, without quotes, is missing.
    #[inline]
    pub(crate) fn contain(&self, text: &[u8]) -> bool {
        match &self.0 {
            None => value::is_missing(text),
            Some(given) => given.words.contains(text),
        }
    }

    /// Whether a field that reads like a number or a truth value may be missing: the texts come first then.
    #[inline]
    pub(crate) fn hide_values(&self) -> bool {
        self.0.as_ref().is_some_and(|given| given.hide_values)
    }

    /// Whether a field of a column of floats is missing that has this value.
    #[inline]
    pub(crate) fn contain_number(&self, number: f64) -> bool {
        self.0.as_ref().is_some_and(|given| given.numbers.contains(&number))
    }

    /// Tells what a field, already without quotes, could be.
    pub(crate) fn kind(&self, text: &[u8]) -> Kind {
        if self.contain(text) { Kind::Missing } else { value::kind(text) }
    }
}

impl From<Option<Vec<String>>> for NullValues {
    fn from(texts: Option<Vec<String>>) -> Self {
        texts.map(Self::only).unwrap_or_default()
    }
}

impl From<NullValues> for Option<Vec<String>> {
    fn from(values: NullValues) -> Self {
        values.0.map(|given| given.texts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_texts_stand_in_place_of_those_of_pandas() {
        type Texts = &'static [&'static str];
        let texts = |texts: Texts| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let table: [(Option<Texts>, Texts, Texts, Texts); 8] = [
            (None, &[], &OF_PANDAS, &["-999", "na", "-", "missing"]),
            (Some(&[]), &[], &[], &OF_PANDAS),
            (Some(&[""]), &[], &[""], &["NA", "null"]),
            (Some(&["-"]), &["n.a."], &["-", "n.a."], &["", "NA", "-0", "--"]),
            (Some(&["-999"]), &[], &["-999", "-999.0"], &["", "-999.00", "999"]),
            (Some(&["0.0"]), &[], &["0", "0.0"], &["-0", "00", ""]),
            (None, &["1e3"], &["1e3", "1000", "1000.0", "NA", ""], &["1E3"]),
            (None, &["-"], &OF_PANDAS, &["--"]),
        ];
        for (given, added, missing, kept) in table {
            let given = given.map(texts);
            let values = NullValues::new(given.as_deref(), &texts(added));
            for text in missing {
                assert!(values.contain(text.as_bytes()), "{text:?} of {values:?}");
            }
            for text in kept {
                assert!(!values.contain(text.as_bytes()), "{text:?} of {values:?}");
            }
            let json = serde_json::to_string(&values).unwrap();
            assert_eq!(serde_json::from_str::<NullValues>(&json).unwrap(), values, "{json}");
        }
        assert!(!NullValues::new(None, &texts(&["-"])).hide_values());
    }

    #[test]
    fn a_text_that_is_a_value_hides_it() {
        for (text, number) in [
            ("-999", Some(-999.0)),
            ("inf", Some(f64::INFINITY)),
            ("true", None),
            ("1e400", Some(f64::INFINITY)),
        ] {
            let values = NullValues::only(vec![text.to_owned()]);
            assert!(values.hide_values(), "{text}");
            assert!(number.is_none_or(|number| values.contain_number(number)), "{text}");
        }
        let values = NullValues::only(["", "-", "n/a", "1.#IND", "0x10"].map(str::to_owned).to_vec());
        assert!(!values.hide_values() && !values.contain_number(0.0));
    }
}
