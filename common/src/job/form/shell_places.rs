//! Where the placeholders of a command stand, as bash reads it: outside quotes, in double quotes, in single ones.
//!
//! When the command is run a value becomes a variable of the shell, which is named at its place so that the value is one
//! word, or a part of one, whatever characters it has (dialects K2). It is never a part of the text: where a place is told
//! wrongly, the text is wrong, and nothing of the value runs. Nothing else of the command is looked at; what bash makes of it
//! is bash's.

use std::collections::VecDeque;

/// A piece of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// Text as it is written.
    Text(&'a str),
    /// The value of an expression, at this place.
    Value(Quoting, &'a str),
}

/// How a value is to be quoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quoting {
    /// Outside quotes: as one word.
    Outside,
    /// Between `"` and `"`.
    Double,
    /// Between `'` and `'`.
    Single,
    /// Between `$'` and `'`.
    Escaped,
}

impl Quoting {
    /// The letter that `azureml_user.parallel_run.command` knows it by.
    pub(super) fn letter(self) -> char {
        match self {
            Self::Outside => 'o',
            Self::Double => 'd',
            Self::Single => 's',
            Self::Escaped => 'e',
        }
    }
}

/// What bash is inside of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    /// A command, and how many `(` are open in it where it ends with a `)`.
    Command(Option<u32>),
    Double,
    Single,
    Escaped,
    Backticks,
    Comment,
    /// `$(( ))` or `(( ))`, and how many `(` are open in it.
    Arithmetic(u32),
}

/// A here-document that begins at the next line.
#[derive(Debug, Clone, PartialEq, Eq)]
struct HereDocument {
    /// The line that ends it.
    end: String,
    /// Whether tabs before that are left out.
    is_indented: bool,
    /// Whether bash looks for variables in it.
    expands: bool,
}

impl HereDocument {
    /// What `<<` at the beginning of `rest` announces.
    fn announced(rest: &str) -> Option<Self> {
        let word = rest.strip_prefix("<<").filter(|word| !word.starts_with('<'))?;
        let (is_indented, word) = match word.strip_prefix('-') {
            Some(word) => (true, word),
            None => (false, word),
        };
        let word = word.trim_start_matches([' ', '\t']);
        let word = word.split(|letter: char| letter.is_whitespace() || ";&|()<>".contains(letter)).next()?;
        let end: String = word.chars().filter(|letter| !"'\"\\".contains(*letter)).collect();
        let expands = end.len() == word.len();
        (!end.is_empty()).then_some(Self { end, is_indented, expands })
    }

    /// Bytes of it at the beginning of `text`, with the line that ends it.
    fn length(&self, text: &str) -> usize {
        let mut length = 0;
        for line in text.split_inclusive('\n') {
            length += line.len();
            let line = line.strip_suffix('\n').unwrap_or(line);
            let line = if self.is_indented { line.trim_start_matches('\t') } else { line };
            if line == self.end {
                break;
            }
        }
        length
    }
}

/// The pieces of `command`.
///
/// # Errors
/// An expression without an end, and one at a place where no value can be quoted.
pub(super) fn pieces(command: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut open = vec![Inside::Command(None)];
    let (mut from, mut at) = (0, 0);
    // A `#` begins a comment where a word may begin.
    let mut begins_word = true;
    let mut documents: VecDeque<HereDocument> = VecDeque::new();
    // Where the here-document that was begun ends, and whether bash looks for variables in it.
    let mut document = (0, false);
    while let Some(letter) = command[at..].chars().next() {
        let rest = &command[at..];
        let inside = *open.last().unwrap_or(&Inside::Command(None));
        if let Some(expression) = rest.strip_prefix("${{") {
            let (name, _) = expression
                .split_once("}}")
                .ok_or_else(|| format!("`${{{{{expression}` has no end: close it with }}}}"))?;
            let place = match inside {
                _ if at < document.0 && document.1 => Some(Quoting::Double),
                _ if at < document.0 => {
                    return Err(format!(
                        "${{{{{name}}}}} stands in a here-document whose word is quoted, where bash puts nothing in: \
                         write the word without quotes"
                    ));
                }
                Inside::Arithmetic(_) => {
                    return Err(format!(
                        "${{{{{name}}}}} stands in (( )), where bash would compute with it: give it to a variable \
                         before, and check that it is a number"
                    ));
                }
                Inside::Command(_) => Some(Quoting::Outside),
                Inside::Double => Some(Quoting::Double),
                Inside::Single => Some(Quoting::Single),
                Inside::Escaped => Some(Quoting::Escaped),
                // bash reads no comment: what stands there is left out.
                Inside::Comment => None,
                Inside::Backticks => {
                    return Err(format!(
                        "${{{{{name}}}}} stands between backticks, where a value cannot be quoted: write $( ) in their place"
                    ));
                }
            };
            pieces.push(Piece::Text(&command[from..at]));
            pieces.extend(place.map(|place| Piece::Value(place, name.trim())));
            at += name.len() + "${{}}".len();
            from = at;
            begins_word = false;
            continue;
        }
        let mut length = letter.len_utf8();
        if at < document.0 {
            at += length;
            continue;
        }
        let starts_word = begins_word;
        begins_word = letter.is_whitespace() || ";&|()".contains(letter);
        match (inside, letter) {
            (Inside::Comment, '\n')
            | (Inside::Single | Inside::Escaped, '\'')
            | (Inside::Double, '"')
            | (Inside::Backticks, '`')
            | (Inside::Command(Some(0)) | Inside::Arithmetic(0), ')') => {
                open.pop();
            }
            (Inside::Comment | Inside::Single, _) => {}
            (_, '\\') => {
                length += rest[1..].chars().next().map_or(0, char::len_utf8);
                // bash takes both away before it looks for words.
                begins_word = starts_word && rest[1..].starts_with('\n');
            }
            (Inside::Command(_), '\n') if !documents.is_empty() => {
                let begin = at + 1;
                let expands = documents.iter().all(|one| one.expands);
                let end = documents.drain(..).fold(begin, |end, one| end + one.length(&command[end..]));
                document = (end, expands);
            }
            (Inside::Command(_), '<') if rest.starts_with("<<<") => length = 3,
            (Inside::Command(_), '<') if rest.starts_with("<<") => {
                documents.extend(HereDocument::announced(rest));
                length = 2;
            }
            (Inside::Command(_) | Inside::Double, '$') if rest.starts_with("$((") => {
                length = 3;
                open.push(Inside::Arithmetic(1));
            }
            (Inside::Command(_), '(') if starts_word && rest.starts_with("((") => {
                length = 2;
                open.push(Inside::Arithmetic(1));
            }
            (Inside::Arithmetic(count), '(' | ')') => {
                open.pop();
                open.push(Inside::Arithmetic(if letter == '(' { count + 1 } else { count - 1 }));
            }
            (Inside::Command(_) | Inside::Double, '`') => open.push(Inside::Backticks),
            (Inside::Command(_) | Inside::Double, '$') if rest.starts_with("$(") => {
                length = 2;
                open.push(Inside::Command(Some(0)));
                begins_word = true;
            }
            (Inside::Command(_), '$') if rest.starts_with("$'") => {
                length = 2;
                open.push(Inside::Escaped);
            }
            (Inside::Command(_), '\'') => open.push(Inside::Single),
            (Inside::Command(_), '"') => open.push(Inside::Double),
            (Inside::Command(_), '#') if starts_word => open.push(Inside::Comment),
            (Inside::Command(Some(count)), '(' | ')') => {
                let count = if letter == '(' { count + 1 } else { count - 1 };
                open.pop();
                open.push(Inside::Command(Some(count)));
            }
            _ => {}
        }
        at += length;
    }
    pieces.push(Piece::Text(&command[from..]));
    pieces.retain(|piece| *piece != Piece::Text(""));
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// What `azureml_user.parallel_run.command` makes of a command, every expression of which has this value.
    fn assembled(pieces: &[Piece<'_>], value: &str) -> String {
        let reference = |place: Quoting| match place {
            Quoting::Outside => "\"${_prs_0}\"",
            Quoting::Double => "${_prs_0}",
            Quoting::Single => "'\"${_prs_0}\"'",
            Quoting::Escaped => "'\"${_prs_0}\"$'",
        };
        let texts = pieces.iter().map(|piece| match piece {
            Piece::Text(text) => *text,
            Piece::Value(place, _) => reference(*place),
        });
        let assignment = format!("_prs_0='{}'\n", value.replace('\'', "'\\''"));
        assignment + &texts.collect::<Vec<_>>().concat()
    }

    #[test]
    fn bash_gets_every_value_as_it_is() {
        let values = [
            "plain",
            "two words",
            "",
            "it's",
            "a\"b",
            "$HOME",
            "`id`",
            "$(id)",
            "\\",
            "\\\\n",
            "a\nb",
            "*",
            "; exit 3",
            "# no",
            "${x}",
            "!!",
            "é'\"\\$`",
            "--flag",
            "'",
            "\"",
            "\\'",
            "a\\",
        ];
        // Each prints the value between brackets, somehow.
        let commands = [
            "printf '[%s]' ${{x}}",
            "printf '[%s]' \"${{ x }}\"",
            "printf '[%s]' '${{x}}'",
            "printf '[%s]' $'${{x}}'",
            "printf '[%s]' \"a\"${{x}} | sed -z 's/^.a/[/'",
            "# don't \"\nprintf '[%s]' ${{x}} # it's ${{x}}",
            "y=\"$(printf %s \"${{x}}\"; printf '(')\"; printf '[%s]' \"${y%(}\"",
            "y=$( (printf '%s' ${{x}}); printf . ); printf '[%s]' \"${y%.}\"",
            "echo \\\" >/dev/null; printf \"[%s]\" \"\"'${{x}}'",
            "bash -c 'printf \"[%s]\" \"$1\"' - \"${{x}}\"",
            "[ a#b = a#b ] && printf '[%s]' ${{x}}",
            "y=\"$(cat <<EOF\nit's (\n${{x}}.\nEOF\n)\"; y=${y#*(?}; printf '[%s]' \"${y%.}\"",
            "cat <<'EOF' >/dev/null\nit's\nEOF\nprintf '[%s]' ${{x}}",
            "cat <<-EOF >/dev/null; printf '[%s]' ${{x}}\n\tdon't\n\tEOF\n",
            "cat >/dev/null <<<\"it's\"; printf '[%s]' ${{x}}",
            "printf '[%s' \\\n# it's a note\nprintf '%s]' ${{x}}",
            "printf '[%s]' ${{x}}; echo $(( (1 + 2) * 3 )) >/dev/null; (( 1 )) && true",
        ];
        for command in commands {
            for value in values {
                let pieces = pieces(command).unwrap();
                let text = assembled(&pieces, value);
                let out = Command::new("/bin/bash").args(["-c", &text]).output().unwrap();
                let printed = String::from_utf8_lossy(&out.stdout);
                assert_eq!(printed, format!("[{value}]"), "{command} with {value:?}: {text}");
            }
        }
    }

    #[test]
    fn pieces_are_the_whole_command() {
        let text = "a ${{inputs.x}} b\"${{ outputs.y }}\"";
        let expected = [
            Piece::Text("a "),
            Piece::Value(Quoting::Outside, "inputs.x"),
            Piece::Text(" b\""),
            Piece::Value(Quoting::Double, "outputs.y"),
            Piece::Text("\""),
        ];
        assert_eq!(pieces(text).unwrap(), expected);
        assert!(pieces("a ${{x").unwrap_err().contains("has no end"));
        assert!(pieces("a `b ${{x}}`").unwrap_err().contains("write $( )"));
        assert!(pieces("a $(( ${{x}} + 1 ))").unwrap_err().contains("compute with it"));
        assert!(pieces("(( ${{x}} + 1 ))").unwrap_err().contains("compute with it"));
        assert!(pieces("cat <<'E'\n${{x}}\nE").unwrap_err().contains("without quotes"));
    }

    /// Where the place is told wrongly, bash runs nothing of a value all the same.
    #[test]
    fn bash_runs_nothing_of_a_value() {
        for command in [
            "\"$(case a in a) printf %s ${{x}};; esac)\"",
            "y=b; \"$(echo ${y%)*} ${{x}})\"",
            "\"${z:-\"${{x}}\"}\"",
            "echo \"${PWD//'\"'/_}\" ${{x}}",
            "cat <<EOF\n$(echo ${{x}})\nEOF",
            "echo ${y:-'${{x}}'} \"'${{x}}'\"",
        ] {
            for value in
                ["$(touch ran)", "; touch ran; ", "`touch ran`", "' ; touch ran ; '", "\" ; touch ran ; \""]
            {
                let folder = tempfile::tempdir().unwrap();
                let text = assembled(&pieces(command).unwrap(), value);
                Command::new("/bin/bash").args(["-c", &text]).current_dir(folder.path()).output().unwrap();
                assert!(!folder.path().join("ran").exists(), "{command} with {value:?}: {text}");
            }
        }
    }
}
