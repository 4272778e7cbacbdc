//! URLs of a job that a request hands in to a server: those that it may not use are told before anything is asked of them.
//!
//! What a list or a table names is not known here; the stores themselves refuse it when it is read
//! ([`open_within`](crate::storage::open_within)).

use std::collections::HashSet;

use super::error::{JobFileError, Problem};
use super::text::Places;
use super::yaml::Node;
use super::{JobSpec, Loaded};
use crate::dataset::input::InputSource;
use crate::storage::{Reach, Use};

/// What of `loaded` is not within `reach`, each once; with its key in the `document`, where that has it.
pub(super) fn problems(loaded: &mut Loaded, reach: &Reach, document: Option<&Node>) -> Vec<Problem> {
    let mut refused: Vec<(String, String)> = Vec::new();
    let mut seen = HashSet::new();
    let mut check = |url: &str, usage: Use| {
        let Err(message) = reach.check(url, usage) else { return };
        if seen.insert((url.to_owned(), message.clone())) {
            refused.push((url.to_owned(), message));
        }
    };
    if let Loaded::Pipeline(loaded) = loaded {
        for place in loaded.pipeline.places.iter().filter(|place| place.to.contains("://")) {
            check(&place.to, Use::Write);
        }
    }
    loaded.each_spec(|spec| {
        for url in urls(spec) {
            check(url, Use::Read);
        }
        if let Some(place) = &spec.deliver_to {
            check(place, Use::Write);
        }
    });
    let places = Places::of(document, refused.iter().map(|(url, _)| &**url));
    let mut told = HashSet::new();
    let problems = refused.iter().map(|(url, message)| {
        let (key, line) = places.get(url).unwrap_or_default();
        Problem { key, line, message: message.clone() }
    });
    problems.filter(|problem| told.insert((problem.key.clone(), problem.message.clone()))).collect()
}

/// The URLs that a job names.
fn urls(spec: &JobSpec) -> impl Iterator<Item = &str> {
    let named = spec.sources().map(|source| match source {
        InputSource::Manifest { named: Some(named), .. } => &**named,
        source => source,
    });
    let remote = named.flat_map(|source| match source {
        InputSource::Remote(urls) => urls.as_slice(),
        InputSource::Paths(_)
        | InputSource::List(_)
        | InputSource::Manifest { .. }
        | InputSource::Output(_)
        | InputSource::OneItem => &[],
    });
    remote.map(String::as_str)
}

impl JobSpec {
    /// Has a job that was checked before use the places of `reach` alone.
    ///
    /// # Errors
    /// It names another one.
    pub fn keep_within(&mut self, reach: &Reach) -> Result<(), JobFileError> {
        let places = self.deliver_to.iter().map(|place| (&**place, Use::Write));
        let all = urls(self).map(|url| (url, Use::Read)).chain(places);
        let wrong = all.filter_map(|(url, usage)| reach.check(url, usage).err());
        let problem = |message| Problem { key: String::new(), line: None, message };
        let problems: Vec<Problem> = wrong.map(problem).collect();
        if !problems.is_empty() {
            return Err(JobFileError::new("the job", problems));
        }
        self.reach = Some(Box::new(reach.clone()));
        Ok(())
    }
}
