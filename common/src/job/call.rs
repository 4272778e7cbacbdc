//! What a call of an endpoint gives by a file: inputs, outputs and the names of the job (dialects C.7), as `--set` has them.

use std::path::Path;

use super::error::{JobFileError, Problem};
use super::read_text;
use super::reader::Reader;
use super::validate::absolute;
use super::yaml::{self, Node, Value};

const KEYS: [&str; 5] = ["$schema", "inputs", "outputs", "name", "experiment_name"];

/// What a file says of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallFile {
    /// Inputs and outputs: keys with their places, and values.
    pub set: Vec<(String, String)>,
    /// The id of the job.
    pub name: Option<String>,
    /// What experiment it is kept under.
    pub experiment_name: Option<String>,
}

impl CallFile {
    /// Reads the file at `path`, from whose folder the paths in it start.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn read(path: &Path) -> Result<Self, JobFileError> {
        let failed = |problems| JobFileError::new(path, problems);
        let of_whole = |line, message| failed(vec![Problem { key: String::new(), line, message }]);
        let text = read_text(path).map_err(|message| of_whole(None, message))?;
        let document = yaml::parse(&text).map_err(|error| of_whole(error.line, error.message))?;
        let mut problems = Vec::new();
        let mut fields = Reader::of_mapping("", &document, &mut problems);
        fields.refuse_unknown(&KEYS, "a call of an endpoint");
        let name = fields.filled_text("name", "the id of the job");
        let experiment_name = fields.filled_text("experiment_name", "the name of an experiment");
        let here = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let folder = here.parent().unwrap_or(Path::new("/"));
        let mut set = Vec::new();
        for key in ["inputs", "outputs"] {
            if let Some(node) = document.get(key) {
                flatten(node, key, folder, &mut set, &mut problems);
            }
        }
        if problems.is_empty() { Ok(Self { set, name, experiment_name }) } else { Err(failed(problems)) }
    }
}

/// What `words` say of `inputs` or `outputs`, the `key`: each is a mapping in JSON, or one value as NAME.KEY=VALUE. Paths start from
/// `folder`.
///
/// # Errors
/// What is wrong with one of them.
pub fn call_words(key: &str, words: &[String], folder: &Path) -> Result<Vec<(String, String)>, String> {
    let mut set = Vec::new();
    for word in words {
        let mut problems = Vec::new();
        let (place, node) = if word.trim_start().starts_with('{') {
            let node = yaml::parse(word).map_err(|error| format!("--{key}: {}", error.message))?;
            (key.to_owned(), node)
        } else {
            let (place, value) =
                word.split_once('=').filter(|(place, _)| !place.is_empty()).ok_or_else(|| {
                    format!("--{key}: {word:?} is neither a mapping in JSON nor of the form NAME.KEY=VALUE")
                })?;
            (format!("{key}.{place}"), yaml::scalar(value))
        };
        flatten(&node, &place, folder, &mut set, &mut problems);
        if let Some(Problem { key: place, message, .. }) = problems.pop() {
            return Err(format!("--{key}: {place}: {message}"));
        }
    }
    Ok(set)
}

/// Puts what `node` says at `place` into `set`.
fn flatten(
    node: &Node,
    place: &str,
    folder: &Path,
    set: &mut Vec<(String, String)>,
    problems: &mut Vec<Problem>,
) {
    match &node.value {
        Value::Null => {}
        Value::Mapping(entries) => {
            for (key, value) in entries {
                flatten(value, &format!("{place}.{}", key.name), folder, set, problems);
            }
        }
        Value::Scalar { text, .. } => {
            let is_path = place.rsplit('.').next() == Some("path")
                && !text.contains("://")
                && !text.starts_with("azureml:");
            let text =
                if is_path { absolute(folder, text).to_string_lossy().into_owned() } else { text.clone() };
            set.push((place.to_owned(), text));
        }
        Value::Sequence(_) => {
            let message = "it is a list: give one path, or one value".to_owned();
            problems.push(Problem { key: place.to_owned(), line: node.line, message });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_the_same_as_a_file() {
        let read = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let set = call_words("inputs", &words, Path::new("/here"))?;
            Ok(set.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" "))
        };
        for (words, expected) in [
            (
                &[r#"{"data": {"type": "uri_file", "path": "a.csv"}, "mode": 3}"#][..],
                Ok("inputs.data.type=uri_file inputs.data.path=/here/a.csv inputs.mode=3"),
            ),
            (
                &["data.path=azureml:hearts@latest", "mode=a=b"],
                Ok("inputs.data.path=azureml:hearts@latest inputs.mode=a=b"),
            ),
            (&["data.path=s3://b/p", r#"{"x": null}"#], Ok("inputs.data.path=s3://b/p")),
            (
                &["data"],
                Err("--inputs: \"data\" is neither a mapping in JSON nor of the form NAME.KEY=VALUE"),
            ),
            (&[r#"{"a": [1]}"#], Err("--inputs: inputs.a: it is a list: give one path, or one value")),
        ] {
            assert_eq!(read(words), expected.map(str::to_owned).map_err(str::to_owned), "{words:?}");
        }
        assert!(read(&["{"]).unwrap_err().starts_with("--inputs: "));
    }

    #[test]
    fn paths_start_from_the_folder_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("call.yml");
        let read = |text: &str| {
            std::fs::write(&file, text).unwrap();
            CallFile::read(&file).map_err(|error| error.to_string())
        };
        let call = read(
            "inputs:\n  data: {type: uri_folder, path: images}\n  far: {path: s3://b/p}\n  mode: append\n\
             outputs: {score: {type: uri_file, path: ./out.csv}}\nname: job-1\n",
        )
        .unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let set = [
            ("inputs.data.type", "uri_folder".to_owned()),
            ("inputs.data.path", at("images")),
            ("inputs.far.path", "s3://b/p".to_owned()),
            ("inputs.mode", "append".to_owned()),
            ("outputs.score.type", "uri_file".to_owned()),
            ("outputs.score.path", at("out.csv")),
        ];
        assert_eq!(call.set, set.map(|(key, value)| (key.to_owned(), value)));
        assert_eq!(call.name.as_deref(), Some("job-1"));
        for (text, expected) in
            [("input: {}", "did you mean"), ("inputs: {a: [b]}", "inputs.a: it is a list"), ("[", "")]
        {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
