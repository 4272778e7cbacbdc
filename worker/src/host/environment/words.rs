//! What an installer says when it fails: the package that it is about, and what helps, as pure functions.

/// Lines that are told of what it said last.
pub(super) const LAST_LINES: usize = 40;

/// What stands before the name of the package at fault, in the words of uv and of pip; the most telling first.
const BEFORE: [&str; 11] = [
    "No matching distribution found for ",
    "Could not find a version that satisfies the requirement ",
    "there is no version of ",
    "there are no versions of ",
    "only the following versions of ",
    "Failed building wheel for ",
    "Failed to build ",
    "Failed to download and build ",
    "Failed to download ",
    "Failed to fetch ",
    "Invalid requirement: ",
];
/// What stands behind it.
const BEHIND: [&str; 3] = [
    " was not found in the package registry",
    " was not found in the provided package locations",
    " was not found in the cache",
];
/// What is said where the index cannot be reached.
const NO_NETWORK: [&str; 9] = [
    "dns error",
    "failed to lookup address",
    "Temporary failure in name resolution",
    "Name or service not known",
    "Network is unreachable",
    "No route to host",
    "Failed to establish a new connection",
    "Connection refused",
    "tcp connect error",
];

/// The package that made the installer fail, where it says so.
pub(super) fn package(lines: &[String]) -> Option<String> {
    let of_line = |line: &String, before: &str| {
        let rest = &line[line.find(before)? + before.len()..];
        clean(rest.split_whitespace().next()?)
    };
    let named = BEFORE.iter().find_map(|before| lines.iter().find_map(|line| of_line(line, before)));
    named.or_else(|| {
        let found = |behind: &&str| {
            lines.iter().find_map(|line| clean(line[..line.find(behind)?].split_whitespace().next_back()?))
        };
        BEHIND.iter().find_map(found)
    })
}

/// The name in a word of an installer.
fn clean(word: &str) -> Option<String> {
    let word = word.trim_matches(|character: char| "`'\"(),:;.".contains(character));
    (!word.is_empty() && !word.contains("://")).then(|| word.to_owned())
}

/// What helps against it.
pub(super) fn remedy(lines: &[String], from: &str) -> String {
    let says = |words: &[&str]| lines.iter().any(|line| words.iter().any(|word| line.contains(word)));
    if says(&NO_NETWORK) {
        return "this host does not reach the package index: give it the network, or name an index that it reaches \
                (UV_INDEX_URL, PIP_INDEX_URL) or a folder of wheels (UV_FIND_LINKS, PIP_FIND_LINKS) in the environment \
                of the worker; or name an interpreter that has the packages: environment: /path/to/bin/python"
            .to_owned();
    }
    if says(&["ensurepip is not", "No module named venv", "No module named ensurepip", "No module named pip"])
    {
        return "install uv on this host, or the part of Python that makes environments (python3-venv on Debian and Ubuntu)"
            .to_owned();
    }
    if says(&["No interpreter found for"]) {
        return format!(
            "install that Python on this host, or a newer uv, which may know where to fetch it; or ask for another version in \
             {from}"
        );
    }
    if says(&["No space left on device"]) {
        return "make room on the disk of the cache folder, or name another one in XDG_CACHE_HOME".to_owned();
    }
    format!("correct the package, or its version, in {from}; or name an interpreter that has the packages")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_is_found_in_the_words_of_pip_and_of_uv() {
        for (said, expected) in [
            (
                "ERROR: Could not find a version that satisfies the requirement nosuch==1 (from versions: none)\n\
                 ERROR: No matching distribution found for nosuch==1",
                Some("nosuch==1"),
            ),
            (
                "  × No solution found when resolving dependencies:\n  ╰─▶ Because nosuch was not found in the package \
                 registry and you require nosuch, we can conclude that your requirements are unsatisfiable.",
                Some("nosuch"),
            ),
            (
                "  ╰─▶ Because there is no version of numpy==99 and you require numpy==99, we can conclude",
                Some("numpy==99"),
            ),
            (
                "  × Failed to build `broken==1.0`\n  ├─▶ The build backend returned an error",
                Some("broken==1.0"),
            ),
            ("  ERROR: Failed building wheel for broken", Some("broken")),
            ("error: something else", None),
        ] {
            let lines: Vec<String> = said.lines().map(str::to_owned).collect();
            assert_eq!(package(&lines).as_deref(), expected, "{said}");
        }
    }

    #[test]
    fn a_host_without_a_network_is_told_so() {
        let lines = ["error: client error (Connect): dns error: failed to lookup address".to_owned()];
        assert!(remedy(&lines, "r.txt").contains("does not reach the package index"));
        assert!(remedy(&["x".to_owned()], "r.txt").contains("in r.txt"));
        let full = ["OSError: [Errno 28] No space left on device".to_owned()];
        assert!(remedy(&full, "r.txt").contains("make room"));
    }
}
