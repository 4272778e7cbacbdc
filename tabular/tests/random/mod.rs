//! Frames and texts made from a seed.

use std::collections::BTreeMap;

use serde::Serialize;

/// A small generator (splitmix64), so that a seed gives the same cases for ever.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.bits() % limit as u64) as usize
    }

    pub(crate) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    fn word(&mut self, parts: &[&str], longest: usize) -> String {
        (0..self.below(longest + 1)).map(|_| *self.pick(parts)).collect()
    }
}

/// A frame to write. Values are numbers in decimal, floats by their bits, or text.
#[derive(Serialize)]
pub(crate) struct Frame {
    pub(crate) columns: Vec<Column>,
    pub(crate) names: Option<Vec<String>>,
    pub(crate) separator: char,
    pub(crate) na_rep: String,
}

#[derive(Serialize)]
pub(crate) struct Column {
    pub(crate) kind: &'static str,
    pub(crate) values: Vec<Option<String>>,
}

const PARTS: [&str; 14] = ["a", "bc", " ", ",", "\"", "\n", "\r", "\r\n", "\t", "é", "日本", "😀", "-", "1"];
const SEPARATORS: [char; 12] = [' ', ' ', ' ', ',', ',', '\t', ';', '.', '-', ':', '1', 'u'];
const NA_REPS: [&str; 6] = ["", "", "NA", "n a", "\"x,\"", "a very long text for a value, which is missing"];
const KINDS: [&str; 18] = [
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
    "float64", "bool", "str", "times", "timems", "timeus", "timens", "category",
];

impl Frame {
    pub(crate) fn random(random: &mut Random) -> Self {
        let count = 1 + random.below(5);
        let rows = random.below(30);
        let columns: Vec<Column> = (0..count).map(|_| Column::random(random, rows)).collect();
        let named = random.one_in(3);
        Self {
            names: named.then(|| (0..count).map(|_| random.word(&PARTS, 4)).collect()),
            columns,
            separator: *random.pick(&SEPARATORS),
            na_rep: (*random.pick(&NA_REPS)).to_owned(),
        }
    }

    fn single(kind: &'static str, values: Vec<Option<String>>) -> Self {
        Self { columns: vec![Column { kind, values }], names: None, separator: ' ', na_rep: String::new() }
    }

    /// Floats of every magnitude.
    pub(crate) fn floats(random: &mut Random, kind: &'static str, count: usize) -> Self {
        Self::single(kind, (0..count).map(|_| float(random, kind)).map(Some).collect())
    }

    /// Powers of two and of ten, and their neighbours, where the shortest digits are hard to find.
    pub(crate) fn float_borders(kind: &'static str) -> Self {
        let mut bits = vec![];
        if kind == "float64" {
            let centers = (0..2047u64)
                .map(|exponent| exponent << 52)
                .chain((0..52).map(|bit| 1 << bit))
                .chain((-323..309).flat_map(|power| {
                    (1..10)
                        .map(move |digit| format!("{digit}e{power}").parse::<f64>().unwrap_or(1.0).to_bits())
                }));
            for center in centers {
                bits.extend([center.wrapping_sub(1), center, center + 1].map(|bits| bits & (u64::MAX >> 1)));
            }
        } else {
            let centers = (0..255u32)
                .map(|exponent| exponent << 23)
                .chain((0..23).map(|bit| 1 << bit))
                .chain((-45..39).flat_map(|power| {
                    (1..10)
                        .map(move |digit| format!("{digit}e{power}").parse::<f32>().unwrap_or(1.0).to_bits())
                }));
            for center in centers {
                bits.extend(
                    [center.wrapping_sub(1), center, center + 1]
                        .map(|bits| u64::from(bits & (u32::MAX >> 1))),
                );
            }
        }
        Self::single(kind, bits.into_iter().map(|bits| Some(bits.to_string())).collect())
    }

    /// More cells than pandas formats together, and a single time that is not midnight.
    pub(crate) fn times_over_several_chunks() -> Self {
        let column = |odd: usize| Column {
            kind: "times",
            values: (0..75_000)
                .map(|row| Some((row * 86_400 + usize::from(row == odd)).to_string()))
                .collect(),
        };
        Self { columns: vec![column(49_999), column(50_000)], ..Self::single("times", vec![]) }
    }
}

impl Column {
    fn random(random: &mut Random, rows: usize) -> Self {
        let kind = *random.pick(&KINDS);
        let missing = if random.one_in(2) { usize::MAX } else { 1 + random.below(4) };
        let precision = random.below(5);
        let values = (0..rows)
            .map(|_| {
                if missing != usize::MAX && random.one_in(missing) {
                    return None;
                }
                Some(match kind {
                    "int8" => (random.bits() as i8).to_string(),
                    "int16" => (random.bits() as i16).to_string(),
                    "int32" => (random.bits() as i32).to_string(),
                    "int64" => (random.bits() as i64 >> random.below(64)).to_string(),
                    "uint8" => (random.bits() as u8).to_string(),
                    "uint16" => (random.bits() as u16).to_string(),
                    "uint32" => (random.bits() as u32).to_string(),
                    "uint64" => (random.bits() >> random.below(64)).to_string(),
                    "float32" | "float64" => float(random, kind),
                    "bool" => random.one_in(2).to_string(),
                    "str" | "category" => random.word(&PARTS, 5),
                    _ => time(random, kind, precision).to_string(),
                })
            })
            .collect();
        Self { kind, values }
    }
}

fn float(random: &mut Random, kind: &str) -> String {
    let decimal = (random.bits() % 10_000_000_000) as f64 / 10f64.powi(random.below(12) as i32 - 1);
    let signed = if random.one_in(3) { -decimal } else { decimal };
    let any = random.one_in(2);
    if kind == "float64" {
        let bits = random.bits();
        let value = if any && !f64::from_bits(bits).is_nan() { bits } else { signed.to_bits() };
        value.to_string()
    } else {
        let bits = random.bits() as u32;
        let value = if any && !f32::from_bits(bits).is_nan() { bits } else { (signed as f32).to_bits() };
        value.to_string()
    }
}

/// A time of which the last parts may be zero.
fn time(random: &mut Random, kind: &str, precision: usize) -> i64 {
    let second: i64 = match kind {
        "times" => 1,
        "timems" => 1_000,
        "timeus" => 1_000_000,
        _ => 1_000_000_000,
    };
    // Within the years 1678 to 2261 for nanoseconds; far out for the others.
    let years = if kind == "timens" { 290 } else { 20_000 };
    let seconds = random.bits() as i64 % (years * 31_556_952);
    let fraction = random.bits() as i64 % second;
    match precision {
        0 => seconds.div_euclid(86_400) * 86_400 * second,
        1 => seconds * second,
        2 => seconds * second + fraction / 1_000_000 * 1_000_000,
        3 => seconds * second + fraction / 1_000 * 1_000,
        _ => seconds * second + fraction,
    }
}

/// A text to read.
#[derive(Serialize)]
pub(crate) struct Text {
    #[serde(rename = "text")]
    pub(crate) content: String,
    pub(crate) separator: char,
    pub(crate) header: bool,
    pub(crate) dtype: BTreeMap<String, String>,
    pub(crate) null_values: Option<Vec<String>>,
}

const NULL_VALUES: [&str; 16] =
    ["", "NA", "-", "x", "0", "7", "-1", "12.0", "1.5", "1e400", "inf", "true", "True", "a", " 1", "-0"];
const MISSING: [&str; 19] = [
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A",
    "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
];
const WORDS: [&str; 20] = [
    "x",
    "-",
    ".",
    "+",
    "1e",
    "0x10",
    "1_0",
    "--1",
    "+-1",
    "1 2",
    "inf ",
    "NAN",
    "+nan",
    " True",
    "none",
    "2020-01-01",
    "é",
    "infty",
    "1.5.5",
    "e5",
];
const NAMES: [&str; 9] = ["a", "a", "b", "", "a.1", "Unnamed: 0", "Unnamed: 1", "c d", "é\"x"];
const FIELD_PARTS: [&str; 9] = ["a", " ", ",", "\"", "\n", "\r\n", "\r", "é", "\t"];

impl Text {
    pub(crate) fn random(random: &mut Random) -> Self {
        let separator = *random.pick(&[',', ',', ',', '\t', ' ', ';', '|']);
        let header = !random.one_in(3);
        let columns = 1 + random.below(4);
        let line_end = *random.pick(&["\n", "\n", "\r\n", "\r"]);
        let mut text = String::from(if random.one_in(8) { "\u{feff}" } else { "" });
        let mut line = |random: &mut Random, fields: Vec<String>, last: bool| {
            // Blank lines; pandas loses an empty first field after one that ends with a lone `\r`.
            while line_end != "\r" && random.one_in(10) {
                text += *random
                    .pick(&["", "", " ", "\t  "].map(|blank| if separator == ',' { blank } else { "" }));
                text += line_end;
            }
            text += &fields.join(&separator.to_string());
            if !last {
                text += line_end;
            }
        };
        let mut dtype = BTreeMap::new();
        if header {
            let names = (0..columns).map(|_| *random.pick(&NAMES)).collect::<Vec<_>>();
            let fields = names.iter().map(|name| quoted(random, name, columns, separator)).collect();
            line(random, fields, false);
        } else if random.one_in(3) {
            dtype.insert(random.below(columns).to_string(), "str".to_owned());
        }
        let kinds: Vec<usize> = (0..columns).map(|_| random.below(10)).collect();
        // Of a number in a column of whole numbers pandas knows the one spelling alone.
        let is_spelt = |word: &&str| !kinds.contains(&2) || word.trim().parse::<f64>().is_err();
        let words: Vec<&str> = NULL_VALUES.into_iter().filter(is_spelt).collect();
        let null_values: Option<Vec<String>> = random
            .one_in(3)
            .then(|| (0..random.below(5)).map(|_| (*random.pick(&words)).to_owned()).collect());
        let rows = 1 + random.below(12);
        for row in 0..rows {
            let fields = kinds
                .iter()
                .map(|&kind| {
                    let value = match &null_values {
                        Some(words) if !words.is_empty() && random.one_in(6) => random.pick(words).clone(),
                        _ => field(random, kind),
                    };
                    quoted(random, &value, columns, separator)
                })
                .collect();
            let last = row + 1 == rows && random.one_in(3);
            line(random, fields, last);
        }
        Self { content: text, separator, header, dtype, null_values }
    }
}

/// A value as a field: in quotes if it must be, and sometimes when it need not.
fn quoted(random: &mut Random, value: &str, columns: usize, separator: char) -> String {
    let special = value.contains(['"', '\n', '\r', separator]) || value.trim().is_empty() && columns == 1;
    if special || random.one_in(4) {
        let text = format!("\"{}\"", value.replace('"', "\"\""));
        // Text may go on after the closing quote.
        if random.one_in(30) { text + "z" } else { text }
    } else {
        value.to_owned()
    }
}

/// A value of a column that mostly holds one kind.
fn field(random: &mut Random, kind: usize) -> String {
    let integer = |random: &mut Random| (random.bits() as i64 >> random.below(64)).to_string();
    let number = |random: &mut Random| {
        let digits = random.bits() >> random.below(64);
        let point = format!("{digits}.{}", random.bits() >> random.below(64));
        match random.below(5) {
            0 => format!("{:e}", f64::from_bits(random.bits() >> 2)),
            1 => format!(" {point} "),
            2 => format!("-{point}"),
            3 => (*random.pick(&["inf", "-Infinity", "+INF", ".5", "5.", "1e400", "-1E-400"])).to_owned(),
            _ => point,
        }
    };
    let missing = match kind {
        1 | 3 => random.one_in(6),
        6 => random.one_in(4),
        8 => true,
        _ => false,
    };
    if missing {
        return (*random.pick(&MISSING)).to_owned();
    }
    match kind {
        0 | 1 => integer(random),
        2 => format!("{}{}", random.pick(&["", "+", " ", "\t"]), random.bits() >> random.below(64)),
        4 if random.one_in(2) => integer(random),
        3 | 4 => number(random),
        5 => (*random.pick(&["True", "False", "TRUE", "false", "tRuE"])).to_owned(),
        6 => (*random.pick(&["True", "False"])).to_owned(),
        7 if random.one_in(30) => (*random.pick(&WORDS)).to_owned(),
        7 => random.below(1000).to_string(),
        _ => random.word(&FIELD_PARTS, 6),
    }
}
