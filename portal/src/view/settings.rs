//! The settings of a job as they were understood, with those that differ from the defaults first. Nothing secret: of
//! environment variables only the names, of addresses neither user nor query.

use prs_common::job::JobSpec;
use prs_common::job::keys::{Fallback, JOB, Key};
use serde_json::Value;

use crate::text::cut;

/// Letters of a value that are shown.
const LETTERS: usize = 300;

/// A setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    /// The default, where the value is another one.
    pub(crate) default: Option<String>,
    /// What gave it, in words; empty where nothing is known of that.
    pub(crate) origin: String,
}

/// The settings: those that differ from the defaults, and the others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) changed: Vec<Setting>,
    pub(crate) defaults: Vec<Setting>,
    /// Whether it is known what gave them.
    pub(crate) has_origins: bool,
}

impl Settings {
    pub(crate) fn of(spec: &JobSpec) -> Self {
        let stored = spec.stored();
        let mut settings = Self { has_origins: !spec.origins.is_empty(), ..Self::default() };
        for key in JOB.keys {
            let Some(value) = value(spec, key, stored.get(key.name)) else { continue };
            let value = cut(&value, LETTERS);
            let origin = spec.origins.get(key.name).map(|origin| without_secrets(&origin.to_string()));
            let origin = cut(&origin.unwrap_or_default(), LETTERS);
            match key.default {
                Fallback::Value(default) if default == value => {
                    settings.defaults.push(Setting { name: key.name, value, default: None, origin });
                }
                Fallback::Value(default) => {
                    settings.changed.push(Setting {
                        name: key.name,
                        value,
                        default: Some(default.to_owned()),
                        origin,
                    });
                }
                Fallback::Required | Fallback::Says(_) => {
                    settings.changed.push(Setting { name: key.name, value, default: None, origin });
                }
            }
        }
        settings
    }
}

/// The value of a key as people read it; nothing where it has none.
fn value(spec: &JobSpec, key: &Key, stored: Option<&Value>) -> Option<String> {
    Some(match key.name {
        "mini_batch_size" => spec.mini_batch_size.amount().to_string(),
        "inputs" => {
            lines(spec.inputs.iter().map(|input| format!("{}: {}", input.name, input.source.label())))
        }
        "side_inputs" => {
            lines(spec.side_inputs.iter().map(|side| format!("{}: {}", side.name, side.source.label())))
        }
        "model" => without_secrets(&spec.model.as_ref()?.source.label()),
        "environment_variables" => {
            lines(spec.environment_variables.keys().map(|name| format!("{name}: (not shown)")))
        }
        _ => match key.takes.written(stored?)? {
            Value::String(text) => without_secrets(&text),
            Value::Array(items) => lines(items.iter().map(scalar)),
            Value::Object(entries) => {
                lines(entries.iter().map(|(name, value)| format!("{name}: {}", scalar(value))))
            }
            other => scalar(&other),
        },
    })
    .filter(|value| !value.is_empty())
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        // Job files write 100, and the record has 100.0.
        Value::Number(number) => number.to_string().trim_end_matches(".0").to_owned(),
        other => other.to_string(),
    }
}

fn lines(entries: impl Iterator<Item = String>) -> String {
    entries.map(|entry| without_secrets(&entry)).collect::<Vec<_>>().join("\n")
}

/// Text whose addresses have neither user nor query: both may be keys to something.
fn without_secrets(text: &str) -> String {
    let words = text.split_inclusive(char::is_whitespace).map(|word| {
        let Some((scheme, rest)) = word.split_once("://") else { return word.to_owned() };
        let blank = word.len() - word.trim_end().len();
        let blank = &word[word.len() - blank..];
        let rest = rest.trim_end();
        let (path, query) = rest.split_once('?').map_or((rest, ""), |(path, _)| (path, "?\u{2026}"));
        let (host, below) = path.split_once('/').map_or((path, None), |(host, below)| (host, Some(below)));
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        let below = below.map(|below| format!("/{below}")).unwrap_or_default();
        format!("{scheme}://{host}{below}{query}{blank}")
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use prs_common::job::Origin;

    use super::*;

    #[test]
    fn no_secret_is_shown() {
        for (text, expected) in [
            ("plain text", "plain text"),
            ("https://h/a.csv?sig=s3cret", "https://h/a.csv?\u{2026}"),
            ("x: https://u:p@h/a b", "x: https://h/a b"),
            ("s3://bucket/a@b", "s3://bucket/a@b"),
        ] {
            assert_eq!(without_secrets(text), expected);
        }
        let mut spec = JobSpec::new("score", "/code", "score.py", Vec::new());
        spec.environment_variables.insert("TOKEN".into(), "s3cret".into());
        spec.arguments = vec!["--url".into(), "https://h/?key=s3cret".into()];
        let settings = Settings::of(&spec);
        assert!(!format!("{settings:?}").contains("s3cret"));
        assert!(settings.changed.iter().any(|setting| setting.value == "TOKEN: (not shown)"));
    }

    #[test]
    fn settings_say_what_gave_them() {
        let mut spec = JobSpec::new("score", "/code", "score.py", Vec::new());
        assert!(!Settings::of(&spec).has_origins, "an older prs loaded it");
        let line = |line, key: Option<&str>| Origin {
            by: "score.yml".into(),
            line: Some(line),
            key: key.map(str::to_owned),
        };
        spec.run_max_try = 7;
        spec.origins.insert("name".into(), line(1, None));
        spec.origins.insert("run_max_try".into(), Origin::of("--set run_max_try"));
        spec.origins.insert("error_threshold".into(), line(4, Some("task.error_threshold")));
        let Settings { changed, defaults, has_origins } = Settings::of(&spec);
        let of =
            |all: &[Setting], name: &str| all.iter().find(|one| one.name == name).unwrap().origin.clone();
        assert!(has_origins);
        assert_eq!(
            (of(&changed, "name"), of(&changed, "run_max_try")),
            ("score.yml:1".into(), "--set run_max_try".into())
        );
        // One that says the default says it all the same.
        assert_eq!(of(&defaults, "error_threshold"), "score.yml:4, as task.error_threshold");
        assert_eq!(
            (of(&changed, "entry_script"), of(&defaults, "node_count")),
            (String::new(), String::new())
        );
    }

    #[test]
    fn what_differs_from_the_defaults_stands_apart() {
        let mut spec = JobSpec::new("score", "/code", "score.py", Vec::new());
        spec.run_max_try = 7;
        let Settings { changed, defaults, .. } = Settings::of(&spec);
        let tries = changed.iter().find(|setting| setting.name == "run_max_try").unwrap();
        assert_eq!((&*tries.value, tries.default.as_deref()), ("7", Some("3")));
        assert!(defaults.iter().any(|setting| setting.name == "error_threshold"));
        assert!(changed.iter().any(|setting| setting.name == "entry_script"));
    }
}
