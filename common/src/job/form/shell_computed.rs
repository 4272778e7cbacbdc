//! Values of a command that bash would compute with: those compared by `-eq` and its like in `[[ ]]`, and names of variables
//! that `-v` looks for.
//!
//! There bash takes text for expressions: it looks names up, and runs what stands in the index of one. A whole number is
//! compared as it is, as on Azure, and a plain name is looked for; anything else is refused before the job runs. In `[ ]` and
//! `test` bash compares numbers alone, and of these only names are checked here.

use super::shell_places::Piece;

/// Operators that compare numbers.
const OPERATORS: [&str; 6] = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];

/// Operators that look for a variable.
const LOOKS: [&str; 2] = ["-v", "-R"];

/// What a value of a command has to be, for bash would compute with any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Computed {
    /// A whole number, which `[[ ]]` compares.
    Number,
    /// The name of a variable, which a test looks for.
    Name,
}

/// What each of `pieces` has to be; nothing of what may be anything.
pub(super) fn computed(pieces: &[Piece<'_>]) -> Vec<Option<Computed>> {
    let mut is_inside = false;
    let wanted = |at: usize, inside: bool| {
        let Piece::Value(..) = pieces[at] else { return None };
        if is_looked_for(&pieces[..at], inside) {
            return Some(Computed::Name);
        }
        let is_number = inside && (follows_operator(&pieces[..at]) || precedes_operator(&pieces[at + 1..]));
        is_number.then_some(Computed::Number)
    };
    let mut found = Vec::with_capacity(pieces.len());
    for (at, piece) in pieces.iter().enumerate() {
        if let Piece::Text(text) = piece {
            is_inside = match (text.rfind("[["), text.rfind("]]")) {
                (Some(begins), Some(ends)) => begins > ends,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => is_inside,
            };
        }
        found.push(wanted(at, is_inside));
    }
    found
}

/// Whether the word that continues after `pieces` is an operand: an operator stands before it.
fn follows_operator(pieces: &[Piece<'_>]) -> bool {
    let mut in_word = true;
    for piece in pieces.iter().rev() {
        let Piece::Text(text) = piece else { continue };
        // Behind the last blank the word itself begins.
        let before = if in_word {
            match text.rfind(char::is_whitespace) {
                Some(blank) => &text[..blank],
                None => continue,
            }
        } else {
            text
        };
        in_word = false;
        if let Some(word) = before.split_whitespace().next_back() {
            return OPERATORS.contains(&word);
        }
    }
    false
}

/// Whether the word that `pieces` go on with comes before an operator.
fn precedes_operator(pieces: &[Piece<'_>]) -> bool {
    let mut in_word = true;
    for piece in pieces {
        let Piece::Text(text) = piece else { continue };
        let behind = if in_word {
            match text.find(char::is_whitespace) {
                Some(blank) => &text[blank..],
                None => continue,
            }
        } else {
            text
        };
        in_word = false;
        if let Some(word) = behind.split_whitespace().next() {
            return OPERATORS.contains(&word);
        }
    }
    false
}

/// Whether the word that continues after `pieces` is a variable that a test looks for: in `[[ ]]` with `is_inside`, else behind
/// `[` or `test`.
fn is_looked_for(pieces: &[Piece<'_>], is_inside: bool) -> bool {
    let text = |piece: &Piece<'_>| match *piece {
        Piece::Text(text) => text.to_owned(),
        Piece::Value(..) => "?".to_owned(),
    };
    let text: String = pieces.iter().map(text).collect();
    // Behind the last blank the word itself begins.
    let Some((before, _)) = text.rsplit_once(char::is_whitespace) else { return false };
    let mut words = before.split_whitespace().rev();
    let looks = words.next().is_some_and(|word| LOOKS.contains(&word));
    looks && (is_inside || matches!(words.find(|word| *word != "!"), Some("[" | "test")))
}

/// Whether `value` is a name of a variable.
pub(super) fn is_name(value: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    value.bytes().next().is_some_and(is_letter)
        && value.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit())
}

/// Whether `value` is a whole number, which bash takes as it is.
pub(super) fn is_whole(value: &str) -> bool {
    let digits = value.trim();
    let digits = digits.strip_prefix(['-', '+']).unwrap_or(digits);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::super::shell_places::pieces;
    use super::*;

    #[test]
    fn what_bash_computes_with_is_told_from_the_rest() {
        let (number, name) = (Some(Computed::Number), Some(Computed::Name));
        for (command, expected) in [
            ("[[ ${{n}} -eq 3 ]]", &[number][..]),
            ("[[ \"${{n}}\" -gt ${{m}} ]] && echo ${{x}}", &[number, number, None]),
            ("[[ 3 -le '${{n}}' ]]", &[number]),
            ("[[ ${{x}} == a && 1 -ne ${{n}} ]]", &[None, number]),
            ("[[ a${{n}}+1 -lt 9 ]]", &[number]),
            ("[[ ${{n}}${{m}} -lt 9 ]]", &[number, number]),
            ("[[ ${{n}} = 3 ]]; echo -eq ${{x}}", &[None, None]),
            ("[ ${{n}} -eq 3 ] || test ${{n}} -eq 3", &[None, None]),
            ("if [[ -f ${{x}} ]]; then echo ${{x}}; fi; [[ 1 -ge\n ${{n}} ]]", &[None, None, number]),
            ("[[ -v ${{x}} && ! -v \"a${{x}}\" ]]; grep -v ${{x}} file", &[name, name, None]),
            ("[ -v '${{x}}' ] || test ! -v ${{x}}; test -R ${{x}}", &[name, name, name]),
            ("${{x}} -v ${{x}}", &[None, None]),
        ] {
            let pieces = pieces(command).unwrap();
            let values = pieces.iter().zip(computed(&pieces));
            let found: Vec<Option<Computed>> =
                values.filter_map(|(piece, is)| matches!(piece, Piece::Value(..)).then_some(is)).collect();
            assert_eq!(found, expected, "{command}");
        }
    }

    #[test]
    fn a_name_is_plain() {
        for (value, is) in
            [("a", true), ("_B2", true), ("", false), ("2a", false), ("a[$(id)]", false), ("\u{e4}", false)]
        {
            assert_eq!(is_name(value), is, "{value:?}");
        }
    }

    #[test]
    fn a_number_is_taken_as_it_is() {
        for (value, is) in [
            ("3", true),
            (" -12 ", true),
            ("+0", true),
            ("", false),
            ("-", false),
            ("a[$(id)]", false),
            ("1.5", false),
        ] {
            assert_eq!(is_whole(value), is, "{value:?}");
        }
    }
}
