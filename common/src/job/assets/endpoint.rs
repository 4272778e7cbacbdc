//! What the file of a batch endpoint says, and `--set` beside or without it (dialects C.1).

use std::collections::BTreeMap;
use std::path::Path;

use super::super::error::{JobFileError, Problem};
use super::super::form::apply_settings;
use super::super::read_text;
use super::super::reader::Reader;
use super::super::yaml::{self, Node, Value};
use super::texts;

const KEYS: [&str; 10] = [
    "$schema",
    "name",
    "description",
    "tags",
    "properties",
    "auth_mode",
    "defaults",
    "identity",
    "location",
    "public_network_access",
];
/// Keys that change nothing here.
const NO_MEANING: [&str; 3] = ["identity", "location", "public_network_access"];
/// Keys that an endpoint may change later.
const CHANGEABLE: &str = "description, tags, defaults.deployment_name";

/// What is said of an endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EndpointFile {
    /// The name.
    pub name: Option<String>,
    /// A text for people.
    pub description: Option<String>,
    /// What people tell endpoints apart by.
    pub tags: BTreeMap<String, String>,
    /// What else is kept with it.
    pub properties: BTreeMap<String, String>,
    /// The deployment that answers a call that names none.
    pub default_deployment: Option<String>,
    /// What its author should know of.
    pub notes: Vec<String>,
}

impl EndpointFile {
    /// Reads the file at `path`, or nothing but `set`, which counts before it: keys with their places, and values. Where
    /// `is_change`, it holds what another endpoint is changed by.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn read(
        path: Option<&Path>,
        set: &[(String, String)],
        is_change: bool,
    ) -> Result<Self, JobFileError> {
        let mut problems = Vec::new();
        let mut document = Node { line: Some(1), value: Value::Mapping(Vec::new()) };
        if let Some(path) = path {
            let mut of_whole = |line, message: String| {
                let message = message.replace("a job file", "a file of an endpoint");
                problems.push(Problem { key: String::new(), line, message });
            };
            match read_text(path).map(|text| yaml::parse(&text)) {
                Err(message) => of_whole(None, message),
                Ok(Err(error)) => of_whole(error.line, error.message),
                Ok(Ok(read)) => document = read,
            }
        }
        apply_settings(&mut document, set, &mut problems);
        let path = path.unwrap_or(Path::new("the command line"));
        let mut read = Self::default();
        if problems.is_empty() {
            read = Self::understand(&document, path, is_change, &mut problems);
        }
        if problems.is_empty() { Ok(read) } else { Err(JobFileError::new(path, problems)) }
    }

    fn understand(document: &Node, file: &Path, is_change: bool, problems: &mut Vec<Problem>) -> Self {
        let mut fields = Reader::of_mapping("", document, problems);
        fields.refuse_unknown(&KEYS, "a batch endpoint");
        let mut read = Self {
            name: fields.filled_text("name", "the name of the endpoint"),
            description: fields.text("description"),
            tags: texts(&mut fields, "tags"),
            ..Self::default()
        };
        if is_change {
            for key in ["properties", "auth_mode"] {
                if let Some(setting) = fields.get(key) {
                    let message = format!("an endpoint does not change but for {CHANGEABLE}: leave it out");
                    fields.refuse(&setting, message);
                }
            }
        } else {
            read.properties = texts(&mut fields, "properties");
        }
        for key in NO_MEANING.iter().copied().chain((!is_change).then_some("auth_mode")) {
            let Some(setting) = fields.get(key) else { continue };
            let given = setting.value.as_text().unwrap_or_default();
            if key == "auth_mode" && !given.eq_ignore_ascii_case("aad_token") {
                let message =
                    format!("{given:?} is not how a caller shows who it is: give aad_token, or nothing");
                fields.refuse(&setting, message);
                continue;
            }
            let message = if key == "auth_mode" {
                "callers show a token of prs; ignored"
            } else {
                "has no meaning here; ignored"
            };
            let note = Problem { key: setting.shown, line: setting.line, message: message.to_owned() };
            read.notes.push(note.in_file(file));
        }
        for setting in fields.nested("defaults", &["deployment_name"]) {
            match setting.value.as_text().map(str::trim).filter(|name| !name.is_empty()) {
                Some(name) => read.default_deployment = Some(name.to_owned()),
                None => fields.refuse(&setting, "it is no text: give the name of a deployment"),
            }
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, set: &[(&str, &str)], is_change: bool) -> Result<EndpointFile, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("endpoint.yml");
        std::fs::write(&file, text).unwrap();
        let set: Vec<_> = set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        EndpointFile::read(Some(&file), &set, is_change).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_of_azure_is_read() {
        let text = "$schema: https://azuremlschemas.azureedge.net/latest/batchEndpoint.schema.json\nname: heart\n\
                    description: of hearts\nauth_mode: aad_token\nlocation: westeurope\ntags: {team: vision}\n";
        let set = [("tags.stage", "test"), ("defaults.deployment_name", "xgb")];
        let read = read(text, &set, false).unwrap();
        assert_eq!((read.name.as_deref(), read.default_deployment.as_deref()), (Some("heart"), Some("xgb")));
        assert_eq!((&*read.tags["team"], &*read.tags["stage"]), ("vision", "test"));
        let [auth, location] = &read.notes[..] else { panic!("{:?}", read.notes) };
        assert!(location.contains("location") || auth.contains("location"), "{auth} {location}");
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, is_change, expected) in [
            ("nam: heart", false, "did you mean"),
            ("auth_mode: key", false, "aad_token"),
            ("defaults: {deployment_nam: x}", false, "deployment_nam"),
            ("defaults: {deployment_name: [x]}", false, "give the name of a deployment"),
            ("properties: {a: b}", true, "does not change but for description"),
        ] {
            let error = read(text, &[], is_change).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
