//! Passwords of those who install: one that is written out goes into no record, one that a variable holds on no screen.
//!
//! A line of a requirements file is looked at as a whole, for a password may hold what ends a URL. A revision
//! (`git+https://host/a.git@v1`) is not taken for one.

use std::borrow::Cow;
use std::fmt::Write;
use std::ops::Range;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::packages::Packages;

/// Stands in place of what is hidden.
const HIDDEN: &str = "****";
/// Bytes that Python writes with `%` in the user or the password of a URL.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Begins the scheme of a URL that names a repository.
const REPOSITORIES: [&str; 4] = ["git+", "hg+", "svn+", "bzr+"];
/// Words of a query that come before a secret.
const TOKENS: [&str; 8] =
    ["token", "password", "secret", "signature", "credential", "apikey", "api_key", "auth"];
/// Names of a query that are a secret's, written as a whole.
const TOKEN_NAMES: [&str; 3] = ["sig", "key", "pwd"];

/// Whether a line of a requirements file holds a URL with a user or a password that is written out, in any form.
pub(super) fn has_secret(line: &str) -> bool {
    urls(line).any(|url| url.secret(line).is_some())
}

/// A line of a requirements file as it may be shown where it was refused: without all that may be a secret.
pub(super) fn refused(line: &str) -> Cow<'_, str> {
    let Some(at) = line.rfind('@') else { return Cow::Borrowed(line) };
    let word = line[..at].rfind(char::is_whitespace).map_or(0, |blank| blank + 1);
    let start = match line[..at].find("//") {
        Some(slashes) => slashes + 2,
        None if line[word..at].contains([':', '=']) => word,
        None => return Cow::Borrowed(line),
    };
    Cow::Owned(format!("{}{HIDDEN}{}", &line[..start], &line[at..]))
}

/// Whether the query of a URL in the line has a name like that of a secret, with a value that is written out.
pub(super) fn has_token(line: &str) -> bool {
    let queries = line.split(char::is_whitespace).filter(|word| word.contains("://"));
    let mut pairs = queries
        .filter_map(|word| word.split_once('?'))
        .flat_map(|(_, query)| query.split(['&', ';', '#']))
        .filter_map(|pair| pair.split_once('='));
    pairs.any(|(name, value)| {
        let name = name.to_ascii_lowercase();
        let is_secret = TOKENS.iter().any(|word| name.contains(word)) || TOKEN_NAMES.contains(&&*name);
        is_secret && !value.is_empty() && !is_variable(value)
    })
}

/// A line that a program says, with what stands before the host of any URL hidden, but for `${NAME}` and `git`.
fn hide_users(line: &str) -> Cow<'_, str> {
    let mut shown = String::new();
    let mut copied = 0;
    for url in urls(line) {
        let blank = |character: char| character.is_whitespace() || "'\"`<>".contains(character);
        let rest = &line[url.rest.clone()];
        let end = url.rest.start + rest.find(blank).unwrap_or(rest.len());
        let word = Url { rest: url.rest.start..end, ..url };
        if let Some(secret) = word.secret(line) {
            shown.push_str(&line[copied..secret.start]);
            shown.push_str(HIDDEN);
            copied = secret.end;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(line);
    }
    shown.push_str(&line[copied..]);
    Cow::Owned(shown)
}

/// The names of the variables in `text`, which an installer puts in where it stands as `${NAME}`.
fn variables(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("${").filter_map(|(at, _)| {
        let rest = &text[at + 2..];
        rest.find('}').map(|end| &rest[..end]).filter(|name| is_name(name))
    })
}

/// A URL in a line.
struct Url {
    /// Whether a revision may stand behind its path.
    is_repository: bool,
    /// The text behind `://`, up to the next URL.
    rest: Range<usize>,
}

/// The URLs of a line, in their order.
fn urls(line: &str) -> impl Iterator<Item = Url> {
    let of_scheme = |character: char| character.is_ascii_alphanumeric() || "+.-".contains(character);
    let begin = move |at: usize| line[..at].trim_end_matches(of_scheme).len();
    line.match_indices("://").map(move |(at, _)| {
        let scheme = &line[begin(at)..at];
        let start = at + "://".len();
        let end = line[start..].find("://").map_or(line.len(), |next| begin(start + next).max(start));
        Url { is_repository: REPOSITORIES.iter().any(|kind| scheme.starts_with(kind)), rest: start..end }
    })
}

impl Url {
    /// Where in `line` what may be a secret is.
    fn secret(&self, line: &str) -> Option<Range<usize>> {
        let Range { mut start, end } = self.rest;
        if let Some((user, _)) = line[start..end].split_once('@').filter(|(user, _)| is_harmless(user)) {
            start += user.len() + 1;
        }
        let rest = &line[start..end];
        let at = rest.rfind('@')?;
        (!self.is_repository || !is_revision(&rest[..at], &rest[at + 1..])).then_some(start..start + at)
    }
}

/// Whether what stands before an `@` is a host and a path, and what stands behind it a revision.
fn is_revision(before: &str, revision: &str) -> bool {
    let Some((host, path)) = before.split_once('/') else { return false };
    let is_host = match host.split_once(':') {
        Some((_, port)) => port.bytes().all(|byte| byte.is_ascii_digit()),
        None => true,
    };
    let revision = revision.split(['#', ' ', '\t']).next().unwrap_or_default();
    // A password may hold a `/`, and then the host stands behind the `@`.
    let is_name = !revision.contains('/') || path.strip_suffix(".git").is_some();
    is_host && is_name && !before.contains('@') && !revision.contains(':')
}

/// Whether a user in front of a host tells nothing: a variable, two, or the user that everybody is.
fn is_harmless(user: &str) -> bool {
    match user.split_once(':') {
        Some((name, password)) => is_variable(name) && is_variable(password),
        None => user == "git" || is_variable(user),
    }
}

fn is_variable(text: &str) -> bool {
    text.strip_prefix("${").and_then(|text| text.strip_suffix('}')).is_some_and(is_name)
}

/// Whether pip and uv take it for the name of a variable.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Values that an installer is given by the variables of its host, which nothing that it says shows.
#[derive(Debug, Default)]
pub struct Secrets {
    /// Each way to write a value, the longest first, with the name of its variable.
    written: Vec<(String, String)>,
}

impl Secrets {
    /// The values of the variables that the packages name, as `value` tells them.
    pub fn of(packages: &Packages, value: impl Fn(&str) -> Option<String>) -> Self {
        let lines = [&packages.options, &packages.requirements, &packages.constraints].into_iter().flatten();
        let mut written = Vec::new();
        for name in lines.flat_map(|line| variables(line)) {
            let Some(value) = value(name) else { continue };
            let decoded = percent_decode_str(&value).decode_utf8_lossy().into_owned();
            let ways = [
                utf8_percent_encode(&value, ENCODED).to_string(),
                value.replace('\\', "\\\\"),
                value.replace(char::is_control, " "),
                decoded,
                value,
            ];
            // A value of several lines is said in several.
            let lines = ways.iter().flat_map(|way| way.lines()).filter(|line| !line.trim().is_empty());
            written.extend(lines.map(|line| (line.to_owned(), name.to_owned())));
        }
        written.sort_by(|(one, of_one), (other, of_other)| {
            other.len().cmp(&one.len()).then_with(|| (one, of_one).cmp(&(other, of_other)))
        });
        written.dedup();
        Self { written }
    }

    /// A line that the installer says, with `${NAME}` in place of a value, and without what stands before the host of any URL.
    pub fn hide(&self, line: &str) -> String {
        let mut shown = String::with_capacity(line.len());
        let mut rest = line;
        while let Some(first) = rest.chars().next() {
            if let Some((value, name)) = self.written.iter().find(|(value, _)| rest.starts_with(value)) {
                let _ = write!(shown, "${{{name}}}");
                rest = &rest[value.len()..];
            } else {
                shown.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
        match hide_users(&shown) {
            Cow::Borrowed(_) => shown,
            Cow::Owned(hidden) => hidden,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_written_out_is_a_secret_in_any_form() {
        for line in [
            "a @ https://me:hush@h/a.whl",
            "a @ https://hush@h/a.whl",
            "a @ https://${U}:hush@h/a.whl",
            "a @ https://${U}hush@h/a.whl",
            "a @ https://hush${U}@h/a.whl",
            "a @ https://${U}:${T}:hush@h/a.whl",
            "a @ https://${U}@hush@h/a.whl",
            "a @ https://git:hush@h/a.whl",
            "a @ https://me:hu/sh@h/a.whl",
            "a @ https://me:hu#sh@h/a.whl",
            "a @ https://me:hu?sh@h/a.whl",
            "a @ https://me:hu sh@h/a.whl",
            "a @ https://me:hu://sh@h/a.whl",
            "a @ https://h/hush@b/a.whl",
            "a @ git+https://me:hush@h/a.git@v1",
            "a @ git+https://hush@h/a.git@v1",
            "a @ git+https://me:hu/sh@h/a.git",
            "a @ git+https://hu/sh@h/a.git",
            "a @ git+https://${T}@hush@h/a.git",
            "git+ssh://git:hush@h/a.git",
            "git+ssh://git@me:hush@h/a.git",
            "--index-url https://h/s --extra-index-url https://me:hush@h/s",
            "--index-url https://${U}@h/s --extra-index-url https://me:hush@h/s",
            "--find-links https://${hush}@h/s",
        ] {
            assert!(has_secret(line), "{line}");
            let shown = refused(line);
            assert!(!["hush", "hu/", "hu#", "hu?", "hu "].iter().any(|part| shown.contains(part)), "{shown}");
        }
        for line in [
            "a @ https://h/a.whl",
            "a @ https://h/a%40b.whl#sha256=ab",
            "a @ https://${TOKEN}@h/a.whl ; python_version < '3.12'",
            "a @ git+https://h/a.git@v1#egg=a",
            "a @ git+https://h:8443/a@v1",
            "git+https://h/a.git@feature/x",
            "git+ssh://git@h/a@v1",
            "a @ git+https://${U}:${T}@h/a.git@v1",
            "--index-url https://${U}:${T_1}@h/s --extra-index-url https://${U}@h/s",
        ] {
            assert!(!has_secret(line), "{line}");
        }
        assert_eq!(refused("-e git+https://me:hush@h/a"), "-e git+https://****@h/a");
        assert_eq!(refused("-i me:hush@h/a"), "-i ****@h/a");
        assert_eq!(refused("a@ b"), "a@ b");
    }

    #[test]
    fn a_query_that_looks_like_a_token_is_known_by_its_name() {
        for (line, expected) in [
            ("a @ https://h/a.whl?sig=x", true),
            ("a @ https://h/a.whl?v=1&access_token=x", true),
            ("a @ https://h/a.whl?X-Amz-Signature=x#sha256=y", true),
            ("a @ https://h/a.whl?token=${T}", false),
            ("a @ https://h/a.whl?token=", false),
            ("a @ https://h/a.whl?v=1#sha256=x", false),
            ("a @ https://h/a.whl", false),
        ] {
            assert_eq!(has_token(line), expected, "{line}");
        }
    }

    #[test]
    fn nothing_that_an_installer_says_shows_a_value_or_a_user() {
        let packages = Packages {
            requirements: vec![
                "x @ https://${U}:${T}@h/x.whl".to_owned(),
                "y @ git+https://${NONE}@h/y".to_owned(),
            ],
            options: vec!["--index-url https://${I}@h/s".to_owned()],
            ..Packages::default()
        };
        let value = |name: &str| match name {
            "U" => Some("me"),
            "T" => Some("me/p@ss wörd\\"),
            "I" => Some("a%2Fb\nsecond line"),
            _ => None,
        };
        let secrets = Secrets::of(&packages, |name| value(name).map(str::to_owned));
        for (said, expected) in [
            ("Collecting x @ https://me:****@h/x.whl", "Collecting x @ https://****@h/x.whl"),
            ("Collecting https://me:me/p@ss wörd\\@h/x.whl", "Collecting https://${U}:${T}@h/x.whl"),
            ("'me/p@ss wörd\\\\'", "'${T}'"),
            ("me%2Fp%40ss%20w%C3%B6rd%5C", "${T}"),
            ("a/b", "${I}"),
            ("and a%2Fb, second line", "and ${I}, ${I}"),
            ("git clone https://tok@h/y /tmp/y@z", "git clone https://****@h/y /tmp/y@z"),
            (
                "Cloning git+https://h/a.git@v1 'https://u:p@h/'",
                "Cloning git+https://h/a.git@v1 'https://****@h/'",
            ),
            ("https://${U}@h and git+ssh://git@h/a@v1", "https://${U}@h and git+ssh://git@h/a@v1"),
            ("Successfully installed x-1.0", "Successfully installed x-1.0"),
        ] {
            assert_eq!(secrets.hide(said), expected);
        }
    }

    proptest! {
        #[test]
        fn no_value_is_left_in_a_line(
            values in prop::collection::vec("[a-zé@/:%$ {}]{1,6}[0-9]{8}", 1..4),
            said in prop::collection::vec((0usize..4, "[a-z@:/ ]{0,9}(https://)?"), 0..9),
        ) {
            let names = ["A", "B", "C"];
            let requirements = names.map(|name| format!("x @ https://${{{name}}}@h/x")).into();
            let packages = Packages { requirements, ..Packages::default() };
            let value = |name: &str| values.get(names.iter().position(|known| *known == name)?).cloned();
            let line: String = said
                .into_iter()
                .map(|(value, text)| text + values.get(value).map_or("", String::as_str))
                .collect();
            let shown = Secrets::of(&packages, value).hide(&line);
            for value in &values {
                prop_assert!(!shown.contains(value.as_str()), "{} {}", shown, value);
            }
        }
    }
}
