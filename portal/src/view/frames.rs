//! Tracebacks whose frames lead to the code of the job.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::text::{Run, runs};

/// What the paths of files have in them that are no code of a job.
const FOREIGN: [&str; 5] = ["/site-packages/", "/dist-packages/", "/lib/python", "azureml_user/", "<"];

/// A piece of a traceback.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Piece {
    /// Classes of the stylesheet; empty for plain text.
    pub(crate) class: String,
    pub(crate) text: String,
    /// Where it leads; empty for what leads nowhere.
    pub(crate) link: String,
}

/// The pieces of a traceback. `code` is the address of the code of the job; without it nothing leads anywhere.
pub(crate) fn pieces(traceback: &str, code: Option<&str>) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for Run { class, text } in runs(traceback) {
        let plain = |text: &str| Piece { class: class.clone(), text: text.to_owned(), link: String::new() };
        let mut begin = 0;
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            if let Some(code) = code
                && let Some((from, to, path, number)) = frame(line)
            {
                if at + from > begin {
                    pieces.push(plain(&text[begin..at + from]));
                }
                let link = address(code, path, number);
                pieces.push(Piece { class: class.clone(), text: line[from..to].to_owned(), link });
                begin = at + to;
            }
            at += line.len();
        }
        if begin < text.len() {
            pieces.push(plain(&text[begin..]));
        }
    }
    pieces
}

/// The address of a line of the code; what a frame calls the file is found there.
fn address(code: &str, path: &str, line: u64) -> String {
    format!("{code}?frame={}&line={line}", utf8_percent_encode(path, NON_ALPHANUMERIC))
}

/// The address of the place that `place` names, as `x.py:5 in run`; empty where it names none.
pub(crate) fn of_place(place: &str, code: Option<&str>) -> String {
    let file_and_line = place.split(" in ").next().unwrap_or_default();
    let found = file_and_line.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok()?)));
    match (found, code) {
        (Some((file, line)), Some(code)) if is_of_job(file) => address(code, file, line),
        _ => String::new(),
    }
}

fn is_of_job(path: &str) -> bool {
    !path.is_empty() && !FOREIGN.iter().any(|foreign| path.contains(foreign))
}

/// How far a line is indented that begins a frame of code that is not the job's; nothing of any other line.
pub(crate) fn foreign(line: &str) -> Option<usize> {
    let (from, _, path, _) = any_frame(line)?;
    (!is_of_job(path)).then_some(from)
}

/// Where in `line` the place of a frame of the job stands, the file and the number of the line.
fn frame(line: &str) -> Option<(usize, usize, &str, u64)> {
    any_frame(line).filter(|(_, _, path, _)| is_of_job(path))
}

/// The same of any frame.
fn any_frame(line: &str) -> Option<(usize, usize, &str, u64)> {
    let from = line.len() - line.trim_start().len();
    let rest = line[from..].strip_prefix("File \"")?;
    let (path, behind) = rest.split_once("\", line ")?;
    let digits = behind.len() - behind.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
    let number = behind[..digits].parse().ok()?;
    let to = line.len() - behind.len() + digits;
    Some((from, to, path, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACEBACK: &str = "Traceback (most recent call last):\n  File \"/home/ana/my code/flaky.py\", line 5, in run\n    raise X\n  File \"/usr/lib/python3.11/json.py\", line 7, in loads\nValueError: a\n";

    #[test]
    fn frames_of_the_job_lead_to_its_code() {
        let found = pieces(TRACEBACK, Some("/jobs/j/code"));
        let texts: String = found.iter().map(|piece| piece.text.as_str()).collect();
        assert_eq!(texts, TRACEBACK);
        let links: Vec<_> = found.iter().filter(|piece| !piece.link.is_empty()).collect();
        assert_eq!(links.len(), 1);
        assert_eq!(links[0].text, "File \"/home/ana/my code/flaky.py\", line 5");
        assert_eq!(links[0].link, "/jobs/j/code?frame=%2Fhome%2Fana%2Fmy%20code%2Fflaky%2Epy&line=5");
        let foreign: Vec<_> = TRACEBACK.lines().map(foreign).collect();
        assert_eq!(foreign, [None, None, None, Some(2), None]);
        assert!(pieces(TRACEBACK, None).iter().all(|piece| piece.link.is_empty()));
    }

    #[test]
    fn a_place_leads_there_too() {
        let code = Some("/jobs/j/code");
        assert_eq!(of_place("code/x.py:5 in run", code), "/jobs/j/code?frame=code%2Fx%2Epy&line=5");
        for place in ["", "x.py", "x.py:a in run", "<string>:1", "/a/site-packages/b.py:3 in c"] {
            assert_eq!(of_place(place, code), "", "{place}");
        }
        assert_eq!(of_place("x.py:5 in run", None), "");
    }
}
