//! YAML that nobody would write as a job file: aliases of aliases, depth, tags, blocks, keys of every kind.

use std::fmt::Write;

use prs_tests::fuzz::Target;
use prs_tests::harness::Random;

use crate::job_files::JobFiles;

/// A file in place of a job file.
#[derive(Default)]
pub(crate) struct Yaml(JobFiles);

impl Target for Yaml {
    const LONGEST: usize = 128 << 10;
    const WORDS: &'static [&'static [u8]] = &[
        b"&a ",
        b"&b ",
        b"*a",
        b"*b",
        b"*a, *a, *a, *a, *a, *a, *a, *a",
        b"<<: *a",
        b"!!map ",
        b"!!seq ",
        b"!!str ",
        b"!!int ",
        b"!!float ",
        b"!!null ",
        b"!!binary ",
        b"!x ",
        b"!<tag:x> ",
        b"%YAML 1.2\n",
        b"%TAG ! x\n",
        b"---\n",
        b"...\n",
        b"? ",
        b": ",
        b"- ",
        b"|\n",
        b"|2-\n",
        b">+\n",
        b"\"",
        b"'",
        b"\\u0000",
        b"\\x",
        b"[",
        b"]",
        b"{",
        b"}",
        b",",
        b"#",
        b"\n",
        b"\r",
        b"\t",
        b" ",
        b"~",
        b"null",
        b".inf",
        b".nan",
        b"0o7",
        b"1_0",
        b"2001-01-01",
        b"\xc2\x85",
        b"\xe2\x80\xa8",
        b"\xef\xbb\xbf",
    ];

    fn seed(&mut self, random: &mut Random) -> Vec<u8> {
        let mut text = match random.below(4) {
            0 => laughs(random),
            1 => deep(random),
            2 => "name: a\n? [b, {c: d}]\n: e\nf: |\n  g\n   h\ni: >-\n  j\n\n  k\nl: !!str 1\n".to_owned(),
            _ => String::new(),
        };
        for number in 0..random.below(6) {
            let _ = write!(text, "k{number}: ");
            value(random, &mut text, 2);
            text.push('\n');
        }
        text.into_bytes()
    }

    fn check(&mut self, input: &[u8]) -> String {
        self.0.load(input).map_or_else(|problem| problem, |_| "a job".to_owned())
    }
}

/// A few lines that stand for very many values.
fn laughs(random: &mut Random) -> String {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..2 + random.below(12) {
        let alias = format!("*a{}", level - 1);
        let aliases = vec![&*alias; 1 + random.below(10) as usize].join(", ");
        let _ = writeln!(text, "a{level}: &a{level} [{aliases}]");
    }
    text
}

fn deep(random: &mut Random) -> String {
    let (open, close) =
        [("[", "]"), ("{a: ", "}"), ("- ", ""), ("? ", ""), ("!!seq [", "]")][random.below(5) as usize];
    let depth = 1 << random.below(13);
    format!("k:\n  {}1{}\n", open.repeat(depth), close.repeat(depth))
}

/// A value in the style of flows.
fn value(random: &mut Random, text: &mut String, depth: u32) {
    match random.below(if depth == 0 { 4 } else { 6 }) {
        0 => *text += ["1", "-2.5e3", "~", "true", "0x1F", ".inf"][random.below(6) as usize],
        1 => *text += ["plain", "'single'", "\"dou\\nble\"", "é", "a b"][random.below(5) as usize],
        2 => *text += ["&x 1", "&y [1]", "!!str 1", "!!int 'x'"][random.below(4) as usize],
        3 => *text += "\"\\u00e9\\t\"",
        kind => {
            let (open, close) = if kind == 4 { ('[', ']') } else { ('{', '}') };
            text.push(open);
            for number in 0..random.below(4) {
                if kind == 5 {
                    let _ = write!(text, "k{number}: ");
                }
                value(random, text, depth - 1);
                *text += ", ";
            }
            text.push(close);
        }
    }
}
