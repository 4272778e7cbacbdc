//! What programs wrote for a terminal, for a page: colours become classes, a line that was written over shows its last
//! state, and control characters become visible. Everything else that a terminal would do is dropped.

/// Text of one look.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Run {
    /// Classes of the stylesheet, separated by blanks; empty for plain text.
    pub class: String,
    /// The text.
    pub text: String,
}

/// The look that escape sequences chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Look {
    bold: bool,
    /// 0 to 15; nothing for the colour of text.
    colour: Option<u8>,
}

impl Look {
    fn class(self) -> String {
        let colour = self.colour.map(|colour| format!("ansi-{}", colour % 8));
        let bold = self.bold.then(|| "ansi-bold".to_owned());
        colour.into_iter().chain(bold).collect::<Vec<_>>().join(" ")
    }

    /// Follows the parameters of a sequence that ends in `m`.
    fn follow(&mut self, parameters: &str) {
        let mut codes = parameters.split([';', ':']).map(|code| code.parse::<u16>().unwrap_or(0));
        while let Some(code) = codes.next() {
            match code {
                0 => *self = Self::default(),
                1 => self.bold = true,
                22 => self.bold = false,
                30..=37 => self.colour = Some((code - 30) as u8),
                90..=97 => self.colour = Some((code - 90 + 8) as u8),
                39 => self.colour = None,
                38 | 48 => {
                    // 5;N is one of 256 colours, 2;R;G;B any: only the first sixteen are ours.
                    let taken = match codes.next() {
                        Some(5) => codes.next(),
                        Some(2) => codes.by_ref().take(3).last().and(None),
                        _ => None,
                    };
                    if code == 38 {
                        self.colour = taken.filter(|colour| *colour < 16).map(|colour| colour as u8);
                    }
                }
                _ => {}
            }
        }
    }
}

/// The text without what a terminal would make of it.
pub fn plain(text: &str) -> String {
    runs(text).into_iter().map(|run| run.text).collect()
}

/// The text in runs of one look each.
pub fn runs(text: &str) -> Vec<Run> {
    let mut lines: Vec<Vec<(Look, char)>> = vec![Vec::new()];
    let mut look = Look::default();
    let (mut column, mut letters) = (0, text.chars().peekable());
    while let Some(letter) = letters.next() {
        let line = lines.last_mut().expect("there is a first line");
        match letter {
            '\n' => {
                lines.push(Vec::new());
                column = 0;
            }
            '\r' => column = 0,
            '\u{1b}' => match letters.next() {
                Some('[') => {
                    let mut parameters = String::new();
                    let end = letters.by_ref().find(|letter| {
                        let ends = ('\u{40}'..='\u{7e}').contains(letter);
                        if !ends {
                            parameters.push(*letter);
                        }
                        ends
                    });
                    match end {
                        Some('m') => look.follow(&parameters),
                        // Erase: from here to the end of the line, or the whole line.
                        Some('K') if parameters == "2" => line.clear(),
                        Some('K') => line.truncate(column),
                        _ => {}
                    }
                }
                // A title or a link: up to the bell, or the string terminator.
                Some(']') => {
                    while let Some(letter) = letters.next() {
                        if letter == '\u{7}' || (letter == '\u{1b}' && letters.next_if_eq(&'\\').is_some()) {
                            break;
                        }
                    }
                }
                _ => {}
            },
            letter => {
                let shown = (look, visible(letter));
                while line.len() < column {
                    line.push((Look::default(), ' '));
                }
                match line.get_mut(column) {
                    Some(former) => *former = shown,
                    None => line.push(shown),
                }
                column += 1;
            }
        }
    }
    let mut runs: Vec<Run> = Vec::new();
    let mut last = None;
    for (at, line) in lines.into_iter().enumerate() {
        let newline = (at > 0).then_some((last.unwrap_or_default(), '\n'));
        for (look, letter) in newline.into_iter().chain(line) {
            match runs.last_mut().filter(|_| last == Some(look)) {
                Some(run) => run.text.push(letter),
                None => runs.push(Run { class: look.class(), text: letter.to_string() }),
            }
            last = Some(look);
        }
    }
    runs
}

/// A control character as its picture; one that turns the direction of text as a mark.
fn visible(letter: char) -> char {
    match letter {
        '\t' => '\t',
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(letter)).unwrap_or('\u{fffd}'),
        '\u{7f}' => '\u{2421}',
        '\u{80}'..='\u{9f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' => {
            '\u{fffd}'
        }
        letter => letter,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(text: &str) -> Vec<(String, String)> {
        runs(text).into_iter().map(|run| (run.class, run.text)).collect()
    }

    #[test]
    fn colours_become_classes_and_the_rest_goes() {
        let table: [(&str, &[(&str, &str)]); 11] = [
            ("plain", &[("", "plain")]),
            ("a\u{1b}[31mb\u{1b}[0mc", &[("", "a"), ("ansi-1", "b"), ("", "c")]),
            ("\u{1b}[1;92mx\u{1b}[22my", &[("ansi-2 ansi-bold", "x"), ("ansi-2", "y")]),
            ("\u{1b}[38;5;4mx\u{1b}[38;5;200my", &[("ansi-4", "x"), ("", "y")]),
            ("\u{1b}[38;2;1;2;3mx", &[("", "x")]),
            ("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{7}", &[("", "link")]),
            ("\u{1b}[2J\u{1b}[10;2Hx", &[("", "x")]),
            ("10 %\r20 %\r\nx", &[("", "20 %\nx")]),
            ("long\rab", &[("", "abng")]),
            ("long\r\u{1b}[Kab", &[("", "ab")]),
            ("a\0\u{202e}b\u{7f}\tc", &[("", "a\u{2400}\u{fffd}b\u{2421}\tc")]),
        ];
        for (text, expected) in table {
            let expected: Vec<_> =
                expected.iter().map(|(class, text)| ((*class).to_owned(), (*text).to_owned())).collect();
            assert_eq!(shown(text), expected, "{text:?}");
        }
        assert_eq!(shown(""), []);
        // A sequence that never ends swallows no more than what follows it.
        assert_eq!(shown("a\u{1b}"), [(String::new(), "a".to_owned())]);
        assert_eq!(shown("a\u{1b}]0;title"), [(String::new(), "a".to_owned())]);
    }

    proptest! {
        #[test]
        fn nothing_that_a_terminal_obeys_gets_through(text in "[\\PC\u{1b}\\[\\]0-9;mK\r\n\u{7}\u{8}\u{9b}]{0,60}") {
            for run in runs(&text) {
                prop_assert!(run.text.chars().all(|letter| !letter.is_control() || letter == '\n' || letter == '\t'));
                prop_assert!(run.class.chars().all(|letter| letter.is_ascii_alphanumeric() || " -".contains(letter)));
            }
        }
    }
}
