//! Paths that a request may name: of logs, files of output, code. One with `..`, a backslash or a NUL in it, however they are written,
//! wants to lead out of where it is looked for.

use percent_encoding::percent_decode_str;

use crate::problem::{Kind, Problem};

/// Refuses an address whose path, as it stands there, is such a one.
pub(crate) fn check_address(path: &str) -> Result<(), Problem> {
    let decoded: Vec<u8> = percent_decode_str(path).collect();
    check(&decoded)
}

/// Refuses a path that is such a one.
pub(crate) fn check(path: &[u8]) -> Result<(), Problem> {
    let leads_out = path.split(|byte| *byte == b'/').any(|part| part == b".." || part == b".");
    if leads_out || path.iter().any(|byte| matches!(byte, b'\\' | 0)) {
        return Err(Problem::new(
            Kind::BAD_REQUEST,
            "A path has no part . or .., no backslash and no NUL, however they are written.",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_leads_out_of_its_folder() {
        for (path, expected) in [
            ("/api/v1/jobs/a/logs/sys/node/0.txt", true),
            ("/api/v1/jobs/a/logs/..txt", true),
            ("/api/v1/jobs/a/logs/a%20b...txt", true),
            ("/api/v1/jobs/a/logs/%ff", true),
            ("/api/v1/jobs/a/logs/../../b", false),
            ("/api/v1/jobs/a/logs/%2e%2e/b", false),
            ("/api/v1/jobs/a/logs/x/%2E%2e", false),
            ("/api/v1/jobs/a/logs/..%2fb", false),
            ("/api/v1/jobs/a/logs/./b", false),
            ("/api/v1/jobs/a/logs/a%5Cb", false),
            ("/api/v1/jobs/a/logs/a%00", false),
        ] {
            assert_eq!(check_address(path).is_ok(), expected, "{path}");
        }
    }
}
