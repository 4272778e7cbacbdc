//! URLs of servers as a configuration file writes them: with references to variables (`${NAME}`), passwords from files,
//! and how they are shown.

use std::fmt::Write;
use std::ops::Range;

/// What stands for a password that is not shown.
const MASK: &str = "***";
/// How the parameter begins that is the password of a socket.
const OF_SOCKET: &str = "pass=";

/// A reference to a variable.
struct Reference {
    name: String,
    /// Where it stands, with its braces.
    at: Range<usize>,
}

/// The references in `text`. Fails with what is wrong with one of them.
fn references(text: &str) -> Result<Vec<Reference>, String> {
    let mut found: Vec<Reference> = Vec::new();
    let mut from = 0;
    while let Some(start) = text[from..].find("${").map(|at| from + at) {
        let Some(end) = text[start..].find('}').map(|at| start + at) else {
            return Err("a reference ${NAME} lacks its closing brace".to_owned());
        };
        let name = &text[start + 2..end];
        let fits = |(index, byte): (usize, u8)| {
            byte == b'_' || byte.is_ascii_alphabetic() || (index > 0 && byte.is_ascii_digit())
        };
        if name.is_empty() || !name.bytes().enumerate().all(fits) {
            return Err(format!("${{{name}}} names no variable: write ${{NAME}}"));
        }
        found.push(Reference { name: name.to_owned(), at: start..end + 1 });
        from = end + 1;
    }
    Ok(found)
}

/// What is wrong with the references in `text`.
pub(super) fn check_references(text: &str) -> Result<(), String> {
    references(text).map(drop)
}

/// `text` with the values of the variables it refers to. Values that stand for a user or a password are percent-encoded,
/// all others are taken as they are. Fails with what is wrong.
pub(super) fn expand(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let encoded = user_and_password(text).or_else(|| password(text));
    let mut expanded = String::new();
    let mut from = 0;
    for Reference { name, at } in references(text)? {
        let value = variable(&name).filter(|value| !value.is_empty());
        let value = value.ok_or_else(|| format!("the variable {name} is not set: set it"))?;
        expanded.push_str(&text[from..at.start]);
        if encoded.as_ref().is_some_and(|part| part.contains(&at.start)) {
            expanded.push_str(&percent_encode(&value));
        } else {
            expanded.push_str(&value);
        }
        from = at.end;
    }
    expanded.push_str(&text[from..]);
    Ok(expanded)
}

/// The variables that bring `text` a password: where that stands, or together with the user.
pub(super) fn password_variables(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let (user, password) = (user_and_password(text), password(text));
    let stands_in = |part: &Option<Range<usize>>, reference: &Reference| {
        part.as_ref().is_some_and(|part| part.contains(&reference.at.start))
    };
    let brings = |reference: &Reference| {
        let names_user = || variable(&reference.name).is_some_and(|value| value.contains('@'));
        stands_in(&password, reference) || (!stands_in(&user, reference) && names_user())
    };
    let found = references(text).unwrap_or_default().into_iter().filter(brings);
    found.map(|reference| reference.name).collect()
}

/// Whether the password of `url` itself stands in it, not only a reference to it.
pub(super) fn holds_password(url: &str) -> bool {
    let Some(password) = password(url) else { return false };
    let written = &url[password];
    let referred = references(written).unwrap_or_default();
    referred.iter().map(|reference| reference.at.len()).sum::<usize>() < written.len()
}

/// Whether `url` has a password, written or referred to.
pub(super) fn has_password(url: &str) -> bool {
    password(url).is_some_and(|password| !password.is_empty())
}

/// `url` as it may be shown: `***` in place of a password that stands in it.
pub fn without_password(url: &str) -> String {
    let mut shown = url.to_owned();
    if holds_password(url)
        && let Some(password) = password(url)
    {
        shown.replace_range(password, MASK);
    }
    shown
}

/// `url`, which has none, with this password.
pub(super) fn with_password(url: &str, password: &str) -> String {
    let mut with = url.to_owned();
    let password = percent_encode(password);
    if is_socket(url) {
        let joint = if url.contains('?') { '&' } else { '?' };
        return format!("{url}{joint}{OF_SOCKET}{password}");
    }
    match user_and_password(url) {
        Some(user) => with.insert_str(user.end, &format!(":{password}")),
        None => with.insert_str(after_scheme(url), &format!(":{password}@")),
    }
    with
}

/// Why no password can be put into the URL of a server; nothing where one can.
pub(super) fn unfit_for_password(url: &str) -> Option<&'static str> {
    if has_password(url) {
        return Some("the URL has a password too: keep one");
    }
    let is_broker = url.starts_with("amqp");
    (is_broker && !has_user(url)).then_some("the URL names no user: write amqp://USER@HOST/VHOST")
}

/// Whether `url` names a user.
fn has_user(url: &str) -> bool {
    user_and_password(url).is_some_and(|part| !part.is_empty() && !url[part].starts_with(':'))
}

/// Whether it is a socket of this host, whose password is a parameter.
fn is_socket(url: &str) -> bool {
    url.starts_with("unix://")
}

fn after_scheme(url: &str) -> usize {
    url.find("://").map_or(0, |at| at + 3)
}

/// What stands before the last `@`: in a URL that is not well formed all of that may be secret.
fn user_and_password(url: &str) -> Option<Range<usize>> {
    let (start, end) = (after_scheme(url), url.rfind('@')?);
    (start <= end && !is_socket(url)).then_some(start..end)
}

fn password(url: &str) -> Option<Range<usize>> {
    if is_socket(url) {
        let parameters = url.find('?')? + 1;
        let mut at = parameters;
        let found = url[parameters..].split('&').find_map(|parameter| {
            let start = at;
            at += parameter.len() + 1;
            parameter.starts_with(OF_SOCKET).then_some(start + OF_SOCKET.len()..start + parameter.len())
        });
        return found;
    }
    let part = user_and_password(url)?;
    let colon = part.start + url[part.clone()].find(':')?;
    Some(colon + 1..part.end)
}

fn percent_encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(byte.into());
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_replaced_and_encoded_where_a_password_stands() {
        let variable = |name: &str| match name {
            "PW" => Some("a/b@c:d %".to_owned()),
            "HOST" => Some("mq:5672".to_owned()),
            "URL" => Some("amqp://u:p%2f@h/v".to_owned()),
            _ => None,
        };
        for (text, expected) in [
            ("amqp://u:${PW}@${HOST}/v", Ok("amqp://u:a%2Fb%40c%3Ad%20%25@mq:5672/v")),
            ("redis://:${PW}@h", Ok("redis://:a%2Fb%40c%3Ad%20%25@h")),
            ("${URL}", Ok("amqp://u:p%2f@h/v")),
            ("unix:///r.sock?pass=${PW}", Ok("unix:///r.sock?pass=a%2Fb%40c%3Ad%20%25")),
            ("s3://b/$x", Ok("s3://b/$x")),
            ("redis://${NONE}", Err("the variable NONE is not set: set it")),
            ("redis://${A", Err("a reference ${NAME} lacks its closing brace")),
            ("redis://${1A}", Err("${1A} names no variable: write ${NAME}")),
        ] {
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(expand(text, &variable), expected, "{text}");
        }
    }

    #[test]
    fn passwords_are_not_shown() {
        for (url, shown, held) in [
            ("amqp://u:secret@h/v", "amqp://u:***@h/v", true),
            ("amqp://u:sec@ret@h/v", "amqp://u:***@h/v", true),
            ("amqp://u:sec/ret@h/v", "amqp://u:***@h/v", true),
            ("amqp://u:a${PW}@h/v", "amqp://u:***@h/v", true),
            ("amqp://u:${PW}@h/v", "amqp://u:${PW}@h/v", false),
            ("redis://:secret@h", "redis://:***@h", true),
            ("redis://u@h:6379/0", "redis://u@h:6379/0", false),
            ("s3://bucket/prefix", "s3://bucket/prefix", false),
            ("unix:///run/r.sock?db=1&pass=secret&user=u", "unix:///run/r.sock?db=1&pass=***&user=u", true),
            ("unix:///run/r@x.sock?pass=${PW}", "unix:///run/r@x.sock?pass=${PW}", false),
        ] {
            assert_eq!((without_password(url).as_str(), holds_password(url)), (shown, held), "{url}");
        }
    }

    #[test]
    fn a_password_finds_its_place() {
        for (url, expected) in [
            ("amqp://u@h/v", "amqp://u:p%40@h/v"),
            ("redis://h/0", "redis://:p%40@h/0"),
            ("redis://u@h/0", "redis://u:p%40@h/0"),
            ("unix:///run/r.sock", "unix:///run/r.sock?pass=p%40"),
            ("unix:///run/r.sock?db=1", "unix:///run/r.sock?db=1&pass=p%40"),
        ] {
            assert_eq!(with_password(url, "p@"), expected);
        }
        assert!(has_user("amqp://u@h") && !has_user("amqp://h") && !has_user("amqp://:p@h"));
        assert!(has_password("amqp://u:${PW}@h") && !has_password("amqp://u@h:5672"));
    }
}
