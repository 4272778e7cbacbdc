//! From the words of a filter to its tree; or where, and why, it is none.
//!
//! ```text
//! expr    := and ("or" and)*      and := not ("and" not)*      not := "not" not | cmp
//! cmp     := "(" expr ")" | operand (("=="|"!="|"<"|"<="|">"|">=") operand)?
//! operand := col("NAME") | NAME | TEXT | ["-"]NUMBER | True|true|False|false | None|null
//!          | datetime(y, m, d[, H[, M[, S[, us]]]])
//! ```

use std::fmt;

use super::words::{Word, words};
use super::{Expression, Operand, Operator};

/// How deep parentheses and `not` may be nested.
const DEEPEST: usize = 16;

/// Where a text is no filter, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterError {
    /// The character, from 1.
    pub position: usize,
    /// What is wrong there.
    pub reason: String,
}

impl FilterError {
    /// Of the byte at `offset` of `text`.
    pub(super) fn new(text: &str, offset: usize, reason: impl Into<String>) -> Self {
        let position = text.get(..offset).map_or(0, |before| before.chars().count()) + 1;
        Self { position, reason: reason.into() }
    }
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at character {}: {}", self.position, self.reason)
    }
}

impl std::error::Error for FilterError {}

/// What a filter says.
///
/// # Errors
/// The first place where it is none.
pub fn parse(text: &str) -> Result<Expression, FilterError> {
    let words = words(text)?;
    let mut parser = Parser { text, words: &words, at: 0, depth: 0 };
    let expression = parser.or()?;
    match parser.word() {
        Word::End => Ok(expression),
        Word::Compare(_) => Err(parser.refuse("comparisons in a row: put `and` between two of them")),
        _ => Err(parser.refuse("`and`, `or` or the end is expected here")),
    }
}

struct Parser<'a> {
    text: &'a str,
    words: &'a [(usize, Word)],
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn word(&self) -> &Word {
        // The last word is the end, which nothing takes.
        &self.words[self.at].1
    }

    fn take(&mut self, word: &Word) -> bool {
        let is_next = self.word() == word;
        self.at += usize::from(is_next);
        is_next
    }

    /// What is wrong with the next word.
    fn refuse(&self, reason: impl Into<String>) -> FilterError {
        FilterError::new(self.text, self.words[self.at].0, reason)
    }

    fn or(&mut self) -> Result<Expression, FilterError> {
        let mut either = vec![self.and()?];
        while self.take(&Word::Or) {
            either.push(self.and()?);
        }
        Ok(one_or(either, Expression::Or))
    }

    fn and(&mut self) -> Result<Expression, FilterError> {
        let mut all = vec![self.not()?];
        while self.take(&Word::And) {
            all.push(self.not()?);
        }
        Ok(one_or(all, Expression::And))
    }

    fn not(&mut self) -> Result<Expression, FilterError> {
        if !self.take(&Word::Not) {
            return self.comparison();
        }
        Ok(Expression::Not(Box::new(self.nested(Self::not)?)))
    }

    fn nested(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<Expression, FilterError>,
    ) -> Result<Expression, FilterError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.refuse(format!("nested more than {DEEPEST} deep: write two filters")));
        }
        let expression = inner(self)?;
        self.depth -= 1;
        Ok(expression)
    }

    fn comparison(&mut self) -> Result<Expression, FilterError> {
        if self.take(&Word::Open) {
            let expression = self.nested(Self::or)?;
            if !self.take(&Word::Close) {
                return Err(self.refuse("`)` is expected here"));
            }
            return Ok(expression);
        }
        let left_at = self.at;
        let left = self.operand()?;
        let &Word::Compare(operator) = self.word() else {
            return match left {
                Operand::Column(_) | Operand::Boolean(_) => Ok(Expression::IsTrue(left)),
                _ => {
                    self.at = left_at;
                    Err(self
                        .refuse("a value by itself is neither true nor false: compare it, as in NAME == 1"))
                }
            };
        };
        self.at += 1;
        let right = self.operand()?;
        if [&left, &right].into_iter().any(|side| *side == Operand::Null)
            && !matches!(operator, Operator::Equal | Operator::NotEqual)
        {
            self.at = left_at;
            return Err(self.refuse("None is compared with == and != alone"));
        }
        if ![&left, &right].into_iter().any(|side| matches!(side, Operand::Column(_))) {
            self.at = left_at;
            return Err(
                self.refuse("two values are compared: one of them has to be a column, as in col(\"NAME\")")
            );
        }
        Ok(Expression::Compare(left, operator, right))
    }

    fn operand(&mut self) -> Result<Operand, FilterError> {
        let at = self.at;
        let operand =
            match self.word().clone() {
                Word::Text(text) => Operand::Text(text),
                Word::Number(number) => Operand::Number(number),
                Word::Minus => {
                    self.at += 1;
                    let Word::Number(number) = self.word() else {
                        return Err(self.refuse("a number is expected behind `-`"));
                    };
                    Operand::Number(format!("-{number}"))
                }
                Word::Name(name) => {
                    let calls = self.words[at + 1].1 == Word::Open;
                    match &*name {
                        "col" if calls => return self.column(),
                        "datetime" if calls => return self.datetime(),
                        _ if calls => {
                            return Err(self
                                .refuse(format!("there is no function {name}: there are col and datetime")));
                        }
                        "True" | "true" => Operand::Boolean(true),
                        "False" | "false" => Operand::Boolean(false),
                        "None" | "null" => Operand::Null,
                        _ => Operand::Column(name),
                    }
                }
                _ => {
                    return Err(self
                        .refuse("a column, text in quotes, a number, True, False or None is expected here"));
                }
            };
        self.at += 1;
        Ok(operand)
    }

    fn column(&mut self) -> Result<Operand, FilterError> {
        self.at += 2;
        let Word::Text(name) = self.word().clone() else {
            return Err(self.refuse("the name of a column in quotes is expected here"));
        };
        self.at += 1;
        if !self.take(&Word::Close) {
            return Err(self.refuse("`)` is expected here"));
        }
        Ok(Operand::Column(name))
    }

    fn datetime(&mut self) -> Result<Operand, FilterError> {
        let begin = self.at;
        self.at += 2;
        let mut parts: Vec<u32> = Vec::new();
        loop {
            let part = match self.word() {
                Word::Number(number) => number.parse().ok(),
                _ => None,
            };
            parts.push(part.ok_or_else(|| self.refuse("a whole number is expected here"))?);
            self.at += 1;
            if !self.take(&Word::Comma) {
                break;
            }
        }
        if !self.take(&Word::Close) {
            return Err(self.refuse("`)` is expected here"));
        }
        let count = parts.len();
        parts.resize(count.max(7), 0);
        let &[year, month, day, hour, minute, second, microsecond] = &*parts else {
            self.at = begin;
            return Err(self.refuse(
                "datetime takes 3 to 7 numbers: year, month, day, hour, minute, second, microsecond",
            ));
        };
        let is_time = hour < 24 && minute < 60 && second < 60 && microsecond < 1_000_000;
        if count < 3 || !is_time || !(1..=9999).contains(&year) || !(1..=days(year, month)).contains(&day) {
            self.at = begin;
            return Err(self.refuse(
                "this is no point in time: give year, month, day and, where needed, hour, minute, second, microsecond",
            ));
        }
        Ok(Operand::Datetime(parts))
    }
}

/// How many days a month has; none where there is no such month.
fn days(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    }
}

fn one_or(mut all: Vec<Expression>, of: impl FnOnce(Vec<Expression>) -> Expression) -> Expression {
    match all.pop() {
        Some(one) if all.is_empty() => one,
        last => {
            all.extend(last);
            of(all)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use Expression::{And, Compare, IsTrue, Not, Or};

    fn column(name: &str) -> Operand {
        Operand::Column(name.to_owned())
    }

    fn number(text: &str) -> Operand {
        Operand::Number(text.to_owned())
    }

    fn text(text: &str) -> Operand {
        Operand::Text(text.to_owned())
    }

    #[test]
    fn filters_are_read() {
        use Operator::{Equal, Greater, GreaterOrEqual, Less, NotEqual};
        let a = || Compare(column("a"), Equal, number("1"));
        let b = || IsTrue(column("b"));
        let c = || IsTrue(column("c"));
        for (given, expected) in [
            (
                "col(\"temperature\") > 32 and col(\"location\") == \"UK\"",
                And(vec![
                    Compare(column("temperature"), Greater, number("32")),
                    Compare(column("location"), Equal, text("UK")),
                ]),
            ),
            ("col('Age') > 0", Compare(column("Age"), Greater, number("0"))),
            ("col(\"FBI Code\") == \"11\"", Compare(column("FBI Code"), Equal, text("11"))),
            ("col(\"x\") != \"None\"", Compare(column("x"), NotEqual, text("None"))),
            (
                "feature_1 == \"5\" and target > \"0.5\"",
                And(vec![
                    Compare(column("feature_1"), Equal, text("5")),
                    Compare(column("target"), Greater, text("0.5")),
                ]),
            ),
            (
                "PartitionDate >= datetime(2023, 1, 2, 3)",
                Compare(
                    column("PartitionDate"),
                    GreaterOrEqual,
                    Operand::Datetime(vec![2023, 1, 2, 3, 0, 0, 0]),
                ),
            ),
            ("a == 1 or b and c", Or(vec![a(), And(vec![b(), c()])])),
            ("(a == 1 or b) and c", And(vec![Or(vec![a(), b()]), c()])),
            ("a==1||b&&c", Or(vec![a(), And(vec![b(), c()])])),
            ("(a==1)|(b)&(c)", Or(vec![a(), And(vec![b(), c()])])),
            ("not b and c", And(vec![Not(Box::new(b())), c()])),
            ("!~not b", Not(Box::new(Not(Box::new(Not(Box::new(b()))))))),
            ("-1.5e-3 < a", Compare(number("-1.5e-3"), Less, column("a"))),
            ("a == None", Compare(column("a"), Equal, Operand::Null)),
            ("null != a", Compare(Operand::Null, NotEqual, column("a"))),
            ("a == true", Compare(column("a"), Equal, Operand::Boolean(true))),
            ("False", IsTrue(Operand::Boolean(false))),
            ("a != b", Compare(column("a"), NotEqual, column("b"))),
            (r#"a == 'it\'s "x" \d'"#, Compare(column("a"), Equal, text(r#"it's "x" \d"#))),
            ("größe == .5", Compare(column("größe"), Equal, number(".5"))),
            ("col == 1", Compare(column("col"), Equal, number("1"))),
            ("((a == 1))", a()),
        ] {
            assert_eq!(parse(given), Ok(expected), "{given}");
        }
    }

    #[test]
    fn what_is_no_filter_is_refused_with_its_place() {
        for (given, position, says) in [
            ("", 1, "is expected here"),
            ("a ==", 5, "a column, text in quotes, a number"),
            ("a = 1", 3, "compare with =="),
            ("a == 1 b", 8, "`and`, `or` or the end"),
            ("1 < a < 5", 7, "put `and` between"),
            ("(a == 1", 8, "`)` is expected"),
            ("a == 1)", 7, "`and`, `or` or the end"),
            ("ü == 'x", 6, "not closed"),
            ("a == 1x", 6, "\"1\" is no number"),
            ("a == .", 6, "no number"),
            ("len(a) > 1", 1, "there is no function len"),
            ("col(a) > 1", 5, "in quotes"),
            ("col('a' > 1", 9, "`)`"),
            ("a + 1 > 2", 3, "'+' has no meaning"),
            ("5", 1, "neither true nor false"),
            ("a and 'x'", 7, "neither true nor false"),
            ("a < None", 1, "== and != alone"),
            ("1 == 1", 1, "has to be a column"),
            ("a > datetime(2023, 13, 1)", 5, "no point in time"),
            ("a > datetime(2023, 2, 29)", 5, "no point in time"),
            ("a > datetime(2023, 2)", 5, "no point in time"),
            ("a > datetime(2023, 2, 1, 0, 0, 0, 0, 0)", 5, "3 to 7 numbers"),
            ("a > datetime(2023, -1)", 20, "a whole number"),
            ("a > -b", 6, "behind `-`"),
            ("a in ['x']", 6, "'[' has no meaning"),
            ("a in 'x'", 3, "`and`, `or`"),
            ("__import__('os')", 1, "there is no function"),
        ] {
            let error = parse(given).unwrap_err();
            assert!(error.position == position && error.reason.contains(says), "{given}: {error}");
        }
        let deep = format!("{}a{}", "(".repeat(1_000), ")".repeat(1_000));
        assert!(parse(&deep).unwrap_err().reason.contains("deep"));
        assert!(parse(&"not ".repeat(1_000)).unwrap_err().reason.contains("deep"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_at_a_place_in_it(
            given in "(a|b |col\\('x'\\)|==|<|1|'t'|\"|\\(|\\)| and | or |not |-|,|datetime\\(|ü|.){0,12}"
        ) {
            if let Err(error) = parse(&given) {
                prop_assert!((1..=given.chars().count() + 1).contains(&error.position), "{error}");
            }
        }
    }
}
