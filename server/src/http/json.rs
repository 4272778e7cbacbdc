//! Bodies of JSON. What is nested deeper than any request needs is refused before it is read.

use serde::de::DeserializeOwned;

/// How deep objects and lists may be nested.
const DEEPEST: usize = 64;

/// What a body says, or why it cannot be read, in words without a period.
pub(crate) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    if let Some(line) = too_deep(body) {
        return Err(format!("objects and lists are nested deeper than {DEEPEST} at line {line}"));
    }
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

/// The line in which a text is nested too deep, from 1; nothing where it is not. What is no JSON is judged as far as it goes.
fn too_deep(body: &[u8]) -> Option<usize> {
    let (mut depth, mut line) = (0_usize, 1);
    let (mut is_text, mut is_escaped) = (false, false);
    for byte in body {
        match byte {
            b'\n' => line += 1,
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'{' | b'[' if !is_text => depth += 1,
            b'}' | b']' if !is_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEEPEST {
            return Some(line);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn what_is_nested_too_deep_is_not_read() {
        let nested = |open: &str, close: &str, times: usize| open.repeat(times) + "1" + &close.repeat(times);
        assert!(read::<Value>(nested("[", "]", 64).as_bytes()).is_ok());
        for (open, close, times) in [("[", "]", 65), ("{\"a\":", "}", 65), ("[{\"a\":", "}]", 33)] {
            let why = read::<Value>(nested(open, close, times).as_bytes()).unwrap_err();
            assert!(why.contains("deeper than 64 at line 1"), "{why}");
        }
        let why = read::<Value>(nested("[\n", "]", 5000).as_bytes()).unwrap_err();
        assert!(why.ends_with("at line 65"), "{why}");
        // Of texts nothing is nested, and beside each other nothing either.
        let text = format!("{{\"a\\\"{0}\": \"\\\\\", \"b\": \"{0}\"}}", "[".repeat(100));
        assert!(read::<Value>(text.as_bytes()).is_ok(), "{text}");
        assert!(read::<Value>(format!("[{}1]", "[[]],".repeat(100)).as_bytes()).is_ok());
        assert!(read::<Value>(b"]]]]{\"a\"").is_err());
    }
}
