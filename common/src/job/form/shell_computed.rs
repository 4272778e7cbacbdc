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
    // The command with a letter for each value, and where its pieces begin.
    let (mut text, mut begins) = (String::new(), Vec::with_capacity(pieces.len()));
    for piece in pieces {
        begins.push(text.len());
        text.push_str(match piece {
            Piece::Text(text) => text,
            Piece::Value(..) => "?",
        });
    }
    let mut around = Around { text: &text, word: 0, before: Vec::new(), next_blank: 0, after: None };
    let mut is_inside = false;
    let mut found = Vec::with_capacity(pieces.len());
    for (piece, at) in pieces.iter().zip(begins) {
        found.push(match piece {
            Piece::Text(text) => {
                is_inside = match (text.rfind("[["), text.rfind("]]")) {
                    (Some(begins), Some(ends)) => begins > ends,
                    (Some(_), None) => true,
                    (None, Some(_)) => false,
                    (None, None) => is_inside,
                };
                None
            }
            Piece::Value(..) => {
                around.move_to(at);
                if around.is_looked_for(is_inside) {
                    Some(Computed::Name)
                } else {
                    (is_inside && around.is_beside_operator()).then_some(Computed::Number)
                }
            }
        });
    }
    found
}

/// The words around the one that a value is in. It moves forward, and looks at each word of a command a few times at most.
struct Around<'a> {
    text: &'a str,
    /// Where the word begins.
    word: usize,
    /// The words before it, the last first, as far as they say something.
    before: Vec<&'a str>,
    /// The first blank behind the word.
    next_blank: usize,
    /// The word behind that.
    after: Option<&'a str>,
}

impl Around<'_> {
    /// Looks around the value at this place, which is behind all that it was moved to.
    fn move_to(&mut self, at: usize) {
        let mut word = self.text[self.word..at].char_indices().rev();
        if let Some((blank, letter)) = word.find(|(_, letter)| letter.is_whitespace()) {
            self.word += blank + letter.len_utf8();
            let mut words = self.text[..self.word].split_whitespace().rev();
            self.before = words.next().into_iter().collect();
            self.before.extend(words.find(|word| *word != "!"));
        }
        if self.next_blank <= at {
            let rest = &self.text[at..];
            self.next_blank = at + rest.find(char::is_whitespace).unwrap_or(rest.len());
            self.after = self.text[self.next_blank..].split_whitespace().next();
        }
    }

    /// Whether the word is an operand of an operator that compares numbers.
    fn is_beside_operator(&self) -> bool {
        let is_operator = |word: &&str| OPERATORS.contains(word);
        self.before.first().is_some_and(is_operator) || self.after.as_ref().is_some_and(is_operator)
    }

    /// Whether the word is a variable that a test looks for: in `[[ ]]` with `is_inside`, else behind `[` or `test`.
    fn is_looked_for(&self, is_inside: bool) -> bool {
        let looks = self.before.first().is_some_and(|word| LOOKS.contains(word));
        looks && (is_inside || matches!(self.before.get(1), Some(&("[" | "test"))))
    }
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
