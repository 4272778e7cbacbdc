//! The forms in which what is registered or stored elsewhere is named (dialects, "References"), taken apart. Nothing is
//! looked up here.

use crate::registry::{Kind, Which, check_name, check_version};

/// Schemes of Azure's stores, which prs does not read.
const STORES: [&str; 5] = ["wasbs", "wasb", "abfss", "abfs", "adl"];
/// What an ARM id, or the long form of `azureml://`, calls what is registered.
const KINDS: [(&str, Kind); 5] = [
    ("data", Kind::Data),
    ("datasets", Kind::Data),
    ("models", Kind::Model),
    ("environments", Kind::Environment),
    ("components", Kind::Component),
];
/// What else it may name.
const OTHERS: [&str; 3] = ["codes", "computes", "jobs"];
const FORMS: &str = "give azureml:NAME:VERSION or azureml:NAME@latest";

/// What a reference names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reference<'a> {
    /// Something registered.
    Asset {
        /// What it is, where the form says it.
        kind: Option<Kind>,
        /// Its name.
        name: String,
        /// The version.
        which: Which,
    },
    /// A path in a datastore.
    Datastore {
        /// Its name.
        name: &'a str,
        /// What follows `paths/`.
        path: &'a str,
    },
    /// Something in a registry of Azure.
    OfAzure {
        /// The registry.
        registry: &'a str,
    },
    /// An output of a job.
    JobOutput(OutputRef),
    /// Something that prs has no registry of.
    Other(&'a str),
    /// In a store of Azure, by its scheme.
    Store(&'a str),
}

/// What is registered, and which version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AssetRef {
    /// What it is.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// The version.
    pub which: Which,
}

/// An output of a job of prs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutputRef {
    /// The job.
    pub job: String,
    /// The output; `default` is all of it.
    pub output: String,
    /// What of it, without a `/` at either end; empty for the whole.
    pub path: String,
}

impl<'a> Reference<'a> {
    /// What `text` names; nothing where it is no reference.
    ///
    /// # Errors
    /// It begins as a reference does, and is none; with the forms.
    pub(super) fn parse(text: &'a str) -> Option<Result<Self, String>> {
        let text = text.trim();
        if let Some((scheme, _)) = text.split_once("://") {
            let store = STORES.iter().find(|store| store.eq_ignore_ascii_case(scheme));
            if let Some(store) = store {
                return Some(Ok(Self::Store(store)));
            }
        }
        if let Some(rest) = text.strip_prefix("azureml://") {
            return Some(of_uri(rest).ok_or_else(|| {
                "it is no reference that prs knows: give azureml://datastores/NAME/paths/PATH, \
                 azureml://.../data/NAME/versions/VERSION, or azureml:NAME:VERSION"
                    .to_owned()
            }));
        }
        let id = text.strip_prefix("azureml:").unwrap_or(text);
        if id.starts_with("/subscriptions/") {
            return Some(of_uri(id.trim_start_matches('/')).ok_or_else(|| {
                format!("the id does not end in the name and the version of what is registered: {FORMS}")
            }));
        }
        text.strip_prefix("azureml:").map(short)
    }
}

/// `NAME:VERSION` or `NAME@LABEL`.
fn short<'a>(text: &str) -> Result<Reference<'a>, String> {
    let (name, which) = if let Some((name, label)) = text.split_once('@') {
        (name, Which::Label(label.to_owned()))
    } else if let Some((name, version)) = text.split_once(':') {
        (name, Which::Version(version.to_owned()))
    } else {
        return Err(format!("azureml:{text} does not say which version: {FORMS}"));
    };
    let (Which::Version(version) | Which::Label(version)) = &which;
    check_name(Kind::Data, name)
        .map_err(|message| message.replace(" of data", ""))
        .and_then(|()| check_version(version))
        .map_err(|message| format!("{message}: {FORMS}"))?;
    Ok(Reference::Asset { kind: None, name: name.to_owned(), which })
}

/// What follows `azureml://`, or an ARM id: the last parts count, what is before them is not checked.
fn of_uri(rest: &str) -> Option<Reference<'_>> {
    if let Some(after) = rest.strip_prefix("registries/") {
        return Some(Reference::OfAzure {
            registry: after.split('/').next().filter(|name| !name.is_empty())?,
        });
    }
    if let Some(after) = rest.strip_prefix("datastores/").or_else(|| Some(rest.split_once("/datastores/")?.1))
    {
        let (name, path) =
            after.split_once("/paths/").or_else(|| Some((after.strip_suffix("/paths")?, "")))?;
        return (!name.is_empty() && !name.contains('/')).then_some(Reference::Datastore { name, path });
    }
    let parts: Vec<&str> = rest.trim_end_matches('/').split('/').collect();
    if let ["jobs", job, "outputs", output, below @ ..] = &parts[..] {
        let path = match below {
            [] | ["paths"] => String::new(),
            ["paths", path @ ..] => path.join("/"),
            _ => return None,
        };
        let (job, output) = ((*job).to_owned(), (*output).to_owned());
        return (!job.is_empty() && !output.is_empty()).then_some(Reference::JobOutput(OutputRef {
            job,
            output,
            path,
        }));
    }
    let (kind, name, which) = match parts[..] {
        [.., kind, name, "versions", "labels", label] | [.., kind, name, "labels", label] => {
            (kind, name, Some(Which::Label(label.to_owned())))
        }
        [.., kind, name, "versions", version] => (kind, name, Some(Which::Version(version.to_owned()))),
        [.., kind, name] => (kind, name, None),
        _ => return None,
    };
    if let Some(other) = OTHERS.iter().find(|other| other.eq_ignore_ascii_case(kind)) {
        return Some(Reference::Other(other));
    }
    let (_, kind) = KINDS.iter().find(|(word, _)| word.eq_ignore_ascii_case(kind))?;
    let (Which::Version(version) | Which::Label(version)) = which.as_ref()?;
    if check_name(*kind, name).is_err() || check_version(version).is_err() {
        return None;
    }
    Some(Reference::Asset { kind: Some(*kind), name: name.to_owned(), which: which? })
}

/// The name of a compute in whichever form it is given.
pub(super) fn compute_name(text: &str) -> &str {
    let text = text.trim();
    let id = text.strip_prefix("azureml:").unwrap_or(text);
    match id.rsplit_once("/computes/") {
        Some((_, name)) => name.trim_end_matches('/'),
        None => id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_taken_apart() {
        let asset = |kind, name: &str, which| Reference::Asset { kind, name: name.to_owned(), which };
        let short = |name, which| asset(None, name, which);
        let data = |name, which| asset(Some(Kind::Data), name, which);
        let (version, label) =
            (|text: &str| Which::Version(text.to_owned()), |text: &str| Which::Label(text.to_owned()));
        let workspace = "subscriptions/s/resourcegroups/g/workspaces/w";
        let long = format!("azureml://{workspace}/data/iris/versions/3");
        let store = format!("azureml://{workspace}/datastores/blob/paths/a/b c/");
        let arm =
            "/subscriptions/s/resourceGroups/g/providers/Microsoft.MachineLearningServices/workspaces/w";
        let (dataset, model) =
            (format!("{arm}/datasets/iris/versions/3"), format!("azureml:{arm}/models/m/versions/1"));
        let of_job = |output: &str, path: &str| {
            let (job, output, path) = ("j-1".to_owned(), output.to_owned(), path.to_owned());
            Reference::JobOutput(OutputRef { job, output, path })
        };
        let in_store = |name, path| Reference::Datastore { name, path };
        for (text, expected) in [
            ("azureml:iris:3", short("iris", version("3"))),
            (" azureml:My_iris.v-1@latest ", short("My_iris.v-1", label("latest"))),
            (&long, data("iris", version("3"))),
            (
                "azureml://locations/l/workspaces/w/data/iris/versions/labels/latest",
                data("iris", label("latest")),
            ),
            (&dataset, data("iris", version("3"))),
            ("azureml://datastores/blob/paths/a/b.csv", in_store("blob", "a/b.csv")),
            (&store, in_store("blob", "a/b c/")),
            ("azureml://datastores/blob/paths", in_store("blob", "")),
            (&model, asset(Some(Kind::Model), "m", version("1"))),
            (
                "azureml://w/environments/e/labels/latest",
                asset(Some(Kind::Environment), "e", label("latest")),
            ),
            ("azureml://w/components/c/versions/2", asset(Some(Kind::Component), "c", version("2"))),
            ("azureml://w/codes/c/versions/2", Reference::Other("codes")),
            (
                "azureml://registries/azureml/models/m/labels/latest",
                Reference::OfAzure { registry: "azureml" },
            ),
            ("azureml://jobs/j-1/outputs/default/paths/x/y/", of_job("default", "x/y")),
            ("azureml://jobs/j-1/outputs/model", of_job("model", "")),
            ("WASBS://c@a.blob.core.windows.net/x", Reference::Store("wasbs")),
            ("abfss://c@a.dfs.core.windows.net/x", Reference::Store("abfss")),
        ] {
            assert_eq!(Reference::parse(text), Some(Ok(expected)), "{text}");
        }
        for text in ["./data", "/data", "s3://bucket/x", "https://host/x", "C:\\x", "", "azure:x:1"] {
            assert_eq!(Reference::parse(text), None, "{text}");
        }
        for text in [
            "azureml:iris",
            "azureml:",
            "azureml:../x:1",
            "azureml:iris@",
            "azureml://x",
            "azureml://jobs/j/outputs/o/x",
            "azureml://data/iris",
            "/subscriptions/s/x",
        ] {
            assert!(Reference::parse(text).is_some_and(|parsed| parsed.is_err()), "{text}");
        }
    }

    #[test]
    fn a_compute_has_one_name_in_all_forms() {
        for text in ["cpu-cluster", "azureml:cpu-cluster", " azureml:/subscriptions/s/computes/cpu-cluster/"]
        {
            assert_eq!(compute_name(text), "cpu-cluster", "{text}");
        }
    }
}
