//! Words of a search field as parameters of the list of jobs: `state:failed by:alice nightly`.

/// The words that stand for a parameter, and what that is called.
const WORDS: [(&str, &str); 9] = [
    ("state", "state"),
    ("name", "name"),
    ("target", "target"),
    ("tag", "tag"),
    ("by", "submitted_by"),
    ("endpoint", "endpoint"),
    ("deployment", "deployment"),
    ("since", "since"),
    ("until", "until"),
];

/// The parameters that a search stands for; what is none of the words is looked for as it is, as `q`. A value in quotation marks may have
/// spaces in it. A word that stands twice counts as it stands last, but states and tags, of which there may be several.
pub(crate) fn words(text: &str) -> Vec<(String, String)> {
    let (mut found, mut rest): (Vec<(String, String)>, Vec<String>) = (Vec::new(), Vec::new());
    for part in parts(text) {
        let word = part.split_once(':').and_then(|(word, value)| {
            let known = WORDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(word))?;
            Some((known.1, value)).filter(|(_, value)| !value.is_empty())
        });
        match word {
            Some((name, value)) => {
                if !["state", "tag"].contains(&name) {
                    found.retain(|(each, _)| each != name);
                }
                found.push((name.to_owned(), value.to_owned()));
            }
            None => rest.push(part),
        }
    }
    if !rest.is_empty() {
        found.push(("q".to_owned(), rest.join(" ")));
    }
    found
}

/// What stands between spaces, but for those in quotation marks, which go.
fn parts(text: &str) -> Vec<String> {
    let (mut parts, mut part, mut is_quoted) = (Vec::new(), String::new(), false);
    for letter in text.chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            letter if letter.is_whitespace() && !is_quoted => parts.push(std::mem::take(&mut part)),
            letter => part.push(letter),
        }
    }
    parts.push(part);
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_parameters_and_the_rest_is_looked_for() {
        let table: [(&str, &[(&str, &str)]); 9] = [
            ("", &[]),
            ("nightly", &[("q", "nightly")]),
            ("state:failed", &[("state", "failed")]),
            ("state:failed state:running", &[("state", "failed"), ("state", "running")]),
            ("by:ana  since:2d rows 503", &[("submitted_by", "ana"), ("since", "2d"), ("q", "rows 503")]),
            ("by:ana by:ben", &[("submitted_by", "ben")]),
            ("tag:team:vision", &[("tag", "team:vision")]),
            ("name:\"my job\" \"a b\"", &[("name", "my job"), ("q", "a b")]),
            ("State:failed s3://x state:", &[("state", "failed"), ("q", "s3://x state:")]),
        ];
        for (text, expected) in table {
            let found = words(text);
            let found: Vec<_> = found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
