//! Paths that name each change and no more: what is the same over many columns costs one step.

use std::fmt::Write;

use super::scale::coordinate;

/// The area below steps of one unit's width, from the left. Values are heights, to a tenth; `height` is that of the picture.
pub(crate) fn steps(values: impl Iterator<Item = f64>, height: f64) -> String {
    let mut path = String::new();
    let (mut at, mut begin) = (0_usize, 0);
    let mut last: Option<String> = None;
    for value in values {
        let y = coordinate(((height - value.clamp(0.0, height)) * 10.0).round() / 10.0);
        if last.as_ref() != Some(&y) {
            match last {
                None => {
                    let _ = write!(path, "M0 {}V{y}", coordinate(height));
                }
                Some(_) => {
                    let _ = write!(path, "h{}V{y}", at - begin);
                }
            }
            (last, begin) = (Some(y), at);
        }
        at += 1;
    }
    if last.is_some() {
        let _ = write!(path, "h{}V{}z", at - begin, coordinate(height));
    }
    path
}

/// One rectangle for each run of columns that `is_in` takes, in a row that begins at `y` and is `height` high; they are
/// added to `path`.
pub(crate) fn row(path: &mut String, columns: usize, is_in: impl Fn(usize) -> bool, y: usize, height: usize) {
    let (mut at, mut last) = (0, None);
    while at < columns {
        let end = (at..columns).find(|column| !is_in(*column)).unwrap_or(columns);
        if end > at {
            // From the lower left corner of the one before; what is filled needs no last side.
            let _ = match last.replace(at) {
                None => write!(path, "M{at} {y}"),
                Some(last) => write!(path, "m{}-{height}", at - last),
            };
            let _ = write!(path, "h{}v{height}h-{}", end - at, end - at);
        }
        at = end.max(at) + 1;
    }
}

/// One line for each run of columns that `is_in` takes, in a row whose middle is at `middle`: drawn as wide as the row is high, it is
/// the same as a rectangle and takes half the text. They are added to `path`.
pub(crate) fn lines(path: &mut String, columns: usize, is_in: impl Fn(usize) -> bool, middle: f64) {
    let (mut at, mut last) = (0, None);
    while at < columns {
        let end = (at..columns).find(|column| !is_in(*column)).unwrap_or(columns);
        if end > at {
            let _ = match last.replace(end) {
                None => write!(path, "M{at} {}", coordinate(middle)),
                Some(last) => write!(path, "m{} 0", at - last),
            };
            let _ = write!(path, "h{}", end - at);
        }
        at = end.max(at) + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_the_same_height_are_one() {
        for (values, expected) in [
            (&[][..], ""),
            (&[1.0], "M0 10V9h1V10z"),
            (&[1.0, 1.04, 0.97], "M0 10V9h3V10z"),
            (&[1.0, 2.5, 99.0, -3.0], "M0 10V9h1V7.5h1V0h1V10h1V10z"),
        ] {
            assert_eq!(steps(values.iter().copied(), 10.0), expected);
        }
    }

    #[test]
    fn runs_of_columns_are_one_line() {
        for (columns, expected) in
            [("....", ""), ("####", "M0 7.5h4"), ("#..##", "M0 7.5h1m2 0h2"), (".#", "M1 7.5h1")]
        {
            let mut path = String::new();
            lines(&mut path, columns.len(), |at| columns.as_bytes()[at] == b'#', 7.5);
            assert_eq!(path, expected, "{columns}");
        }
    }

    #[test]
    fn runs_of_columns_are_one_rectangle() {
        for (columns, expected) in [
            ("....", ""),
            ("####", "M0 3h4v9h-4"),
            ("#..##", "M0 3h1v9h-1m3-9h2v9h-2"),
            (".#", "M1 3h1v9h-1"),
        ] {
            let mut path = String::new();
            row(&mut path, columns.len(), |at| columns.as_bytes()[at] == b'#', 3, 9);
            assert_eq!(path, expected, "{columns}");
        }
    }
}
