//! Changes of what people say of a job, which change nothing of what it does: the name for people, the description, the tags, and until
//! when it is kept. They may be made while a program works on the job.

use std::collections::BTreeMap;

use prs_common::job::{JobSpec, Origin};
use prs_common::storage::StorageErrorKind;
use prs_common::timestamp::now_us;
use prs_orchestrator::job::record::Kept;

use crate::failure::Failure;
use crate::homes::JobHome;

/// How often others may write the record between reading and writing it.
const CONFLICTS: usize = 20;
/// Letters of a name for people, of a description, and of a tag and its value.
const MOST: (usize, usize, usize) = (255, 8_192, 256);
/// Tags of a job.
const MOST_TAGS: usize = 100;
/// What gave words that were changed.
const LATER: &str = "changed after it was handed in";

/// What is to be changed; what is nothing stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Words {
    /// The name for people; none of its own in place of it.
    pub display_name: Option<Option<String>>,
    /// Free text for people, or none.
    pub description: Option<Option<String>>,
    /// The tags that take the place of all that there are.
    pub tags: Option<BTreeMap<String, String>>,
    /// Single tags, beside those that there are; nothing removes one.
    pub tag: BTreeMap<String, Option<String>>,
    /// Until when it is kept, microseconds since the Unix epoch; nothing: until `rm` removes it.
    pub keep_until_us: Option<Option<u64>>,
}

impl Words {
    /// What `prs job update --set` says: keys and values. An empty value takes something away.
    ///
    /// # Errors
    /// A key is not known, or has a value that it cannot have.
    pub fn parse(set: &[(String, String)]) -> Result<Self, Failure> {
        let mut words = Self::default();
        for (key, value) in set {
            let given = Some(value.clone()).filter(|value| !value.is_empty());
            match key.as_str() {
                "display_name" => words.display_name = Some(given),
                "description" => words.description = Some(given),
                "keep_until" => words.keep_until_us = Some(given.as_deref().map(moment).transpose()?),
                key => match key.strip_prefix("tags.").filter(|tag| !tag.is_empty()) {
                    Some(tag) => drop(words.tag.insert(tag.to_owned(), given)),
                    None => {
                        return Err(Failure::wrong(format!(
                            "--set {key}: a job that was handed in takes display_name, description, tags.NAME and keep_until; other settings are for resubmit and resume"
                        )));
                    }
                },
            }
        }
        Ok(words)
    }

    /// Whether there is nothing to change.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What cannot be said, each with the key that it is about.
    pub fn problems(&self) -> Vec<(String, String)> {
        let mut problems = Vec::new();
        let mut check = |key: &str, text: &str, most: usize| {
            let count = text.chars().count();
            if count > most {
                problems.push((key.to_owned(), format!("it has {count} letters, and {most} are the most")));
            }
            if text.chars().any(|letter| letter.is_control() && !"\n\t".contains(letter)) {
                problems.push((key.to_owned(), "it has control characters".to_owned()));
            }
        };
        if let Some(Some(name)) = &self.display_name {
            check("display_name", name, MOST.0);
        }
        if let Some(Some(text)) = &self.description {
            check("description", text, MOST.1);
        }
        let single = self.tag.iter().map(|(tag, value)| (tag, value.as_deref().unwrap_or_default()));
        let all = self.tags.iter().flatten().map(|(tag, value)| (tag, value.as_str()));
        for (tag, value) in single.chain(all) {
            check(&format!("tags.{tag}"), tag, MOST.2);
            check(&format!("tags.{tag}"), value, MOST.2);
        }
        if self.tags.as_ref().is_some_and(|tags| tags.len() > MOST_TAGS) {
            problems.push(("tags".to_owned(), format!("a job has {MOST_TAGS} tags at most")));
        }
        if let Some(Some(until)) = self.keep_until_us
            && until <= now_us()
        {
            let why = "the time is over: prs rm removes a job at once".to_owned();
            problems.push(("keep_until".to_owned(), why));
        }
        problems
    }

    /// Says them of a job.
    fn put_on(&self, spec: &mut JobSpec) {
        let changed = [
            ("display_name", self.display_name.is_some()),
            ("description", self.description.is_some()),
            ("tags", self.tags.is_some() || !self.tag.is_empty()),
        ];
        let changed = changed.into_iter().filter(|(_, is_changed)| *is_changed);
        spec.origins.extend(changed.map(|(key, _)| (key.to_owned(), Origin::of(LATER))));
        if let Some(name) = &self.display_name {
            spec.display_name.clone_from(name);
        }
        if let Some(description) = &self.description {
            spec.description.clone_from(description);
        }
        if let Some(tags) = &self.tags {
            spec.tags.clone_from(tags);
        }
        for (tag, value) in &self.tag {
            match value {
                Some(value) => drop(spec.tags.insert(tag.clone(), value.clone())),
                None => drop(spec.tags.remove(tag)),
            }
        }
    }
}

/// A moment, microseconds since the Unix epoch.
fn moment(text: &str) -> Result<u64, Failure> {
    let at = text.parse::<jiff::Timestamp>().ok().and_then(|at| u64::try_from(at.as_microsecond()).ok());
    at.ok_or_else(|| {
        Failure::wrong(format!("keep_until: {text:?} is no moment such as 2027-01-31T12:00:00Z, in RFC 3339"))
    })
}

/// Changes what people say of a job.
///
/// # Errors
/// What is said cannot be said, there is no such job any more, or its storage fails.
pub async fn update(home: &dyn JobHome, words: &Words) -> Result<(), Failure> {
    if let Some((key, why)) = words.problems().first() {
        return Err(Failure::wrong(format!("{key}: {why}")));
    }
    let mut again = 0..CONFLICTS;
    loop {
        let mut record = home.record().await?;
        record.change_words(|spec| words.put_on(spec));
        if record.spec.tags.len() > MOST_TAGS {
            return Err(Failure::wrong(format!("tags: a job has {MOST_TAGS} tags at most")));
        }
        if let Some(until_us) = words.keep_until_us {
            record.kept = Some(Kept { until_us });
        }
        match record.write(&**home.storage()).await {
            // A worker of the job wrote meanwhile; or it is being removed, which the next look tells.
            Err(error) if is_conflict(error.kind) && again.next().is_some() => {}
            written => return written.map_err(home.cannot("store what is said of the job")),
        }
    }
}

fn is_conflict(kind: StorageErrorKind) -> bool {
    matches!(kind, StorageErrorKind::Changed | StorageErrorKind::NotFound | StorageErrorKind::AlreadyExists)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(pairs: &[(&str, &str)]) -> Result<Words, Failure> {
        let own: Vec<_> = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Words::parse(&own)
    }

    #[test]
    fn keys_and_values_are_words_about_a_job() {
        let words = set(&[
            ("display_name", "nightly"),
            ("description", ""),
            ("tags.team", "vision"),
            ("tags.old", ""),
            ("keep_until", "2100-01-01T00:00:00Z"),
        ]);
        let words = words.unwrap();
        assert_eq!(words.display_name, Some(Some("nightly".to_owned())));
        assert_eq!(words.description, Some(None));
        assert_eq!(words.keep_until_us, Some(Some(4_102_444_800_000_000)));
        let mut spec = JobSpec::new("job", "/", "main.py", Vec::new());
        spec.tags =
            [("old", "1"), ("kept", "2")].map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        words.put_on(&mut spec);
        assert_eq!(spec.tags.keys().collect::<Vec<_>>(), ["kept", "team"]);
        assert!(words.problems().is_empty() && !words.is_empty() && set(&[]).unwrap().is_empty());
        for (key, value) in [("node_count", "2"), ("tags.", "x"), ("tags", "x"), ("keep_until", "soon")] {
            assert!(set(&[(key, value)]).is_err(), "{key}");
        }
    }

    #[test]
    fn what_cannot_be_said_is_told_with_its_key() {
        for (words, key) in [
            (Words { display_name: Some(Some("x".repeat(256))), ..Words::default() }, "display_name"),
            (Words { description: Some(Some("a\0b".to_owned())), ..Words::default() }, "description"),
            (Words { tags: Some([("t".to_owned(), "x".repeat(257))].into()), ..Words::default() }, "tags.t"),
            (Words { keep_until_us: Some(Some(1)), ..Words::default() }, "keep_until"),
        ] {
            let problems = words.problems();
            assert_eq!((problems.len(), problems[0].0.as_str()), (1, key), "{problems:?}");
        }
    }
}
