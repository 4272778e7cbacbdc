//! Places of the server's own disk, which no problem names: who asks over HTTP knows what is in them by other names.

use std::env::temp_dir;
use std::path::{Path, PathBuf};

use prs_jobs::Whereabouts;

use super::Problem;

/// What folders of prs in the temporary folder are called, to begin with.
const TEMPORARY: &str = "prs-";

/// Places, and what stands for each; what is within others comes first.
#[derive(Debug, Default)]
pub(crate) struct Places(Vec<(String, &'static str)>);

impl Places {
    /// Those of a server in front of jobs there.
    pub(crate) fn new(whereabouts: &Whereabouts) -> Self {
        let mut places = Vec::new();
        let runs = std::path::absolute(&whereabouts.runs).unwrap_or_else(|_| whereabouts.runs.clone());
        let resolved = runs.canonicalize().ok().filter(|resolved| *resolved != runs);
        for runs in resolved.into_iter().chain([runs]) {
            places.push((text(&runs.join(".registry")), "the registry"));
            places.push((text(&runs), "the folder of the runs"));
        }
        let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
        places.extend(cache.map(|cache| (text(&cache.join("prs")), "the cache of the server")));
        Self(places)
    }

    /// A text that names none of them.
    pub(crate) fn hide(&self, shown: &str) -> String {
        let mut shown = shown.replace(&format!("{}/{TEMPORARY}", text(&temp_dir())), TEMPORARY);
        for (place, words) in &self.0 {
            shown = shown.replace(&format!("{place}/"), "").replace(place, words);
        }
        shown
    }

    /// The same problem, which names none of them.
    pub(crate) fn without(&self, mut problem: Problem) -> Problem {
        problem.detail = self.hide(&problem.detail);
        for error in &mut problem.errors {
            error.detail = self.hide(&error.detail);
        }
        problem
    }
}

fn text(path: &Path) -> String {
    path.display().to_string().trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_of_the_server_is_told_in_words() {
        let places = [("/srv/runs/.registry", "the registry"), ("/srv/runs", "the folder of the runs")];
        let places = Places(places.map(|(place, words)| (place.to_owned(), words)).into());
        let temporary = format!("{}/prs-model-x1/MLmodel is not there", text(&temp_dir()));
        for (text, expected) in [
            (
                "endpoint x does not exist in /srv/runs/.registry: y",
                "endpoint x does not exist in the registry: y",
            ),
            ("/srv/runs/.registry/a.json: no", "a.json: no"),
            ("there is nothing in /srv/runs", "there is nothing in the folder of the runs"),
            ("/srv/runs/words-1/job.json is damaged", "words-1/job.json is damaged"),
            ("the path /etc/passwd", "the path /etc/passwd"),
            (&temporary, "prs-model-x1/MLmodel is not there"),
        ] {
            assert_eq!(places.hide(text), expected);
        }
    }
}
