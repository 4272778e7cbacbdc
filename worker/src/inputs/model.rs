//! The folder that `AZUREML_MODEL_DIR` names: one entry, the model of the job under its own name (dialects D.2).
//!
//! It is a link: no process has a copy of its own. What stands there is brought with the side inputs.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use prs_common::dataset::remote::is_remote;
use prs_common::job::{InputSource, JobSpec, SideInput};
use prs_common::tree;

use super::side::SidePaths;

/// The file that has paths by the names that scripts may ask for, as JSON; see `azureml.core.model` among the stand-ins.
const BY_NAME: &str = "PRS_MODELS";

/// Puts the model of a job, where it has one, into the scratch folder of a node. `side_paths` says where it is; where
/// nothing was brought it is looked for where the job file says.
///
/// # Errors
/// The link cannot be made.
pub(crate) fn place(spec: &JobSpec, side_paths: &SidePaths, folder: &Path) -> io::Result<()> {
    let by_name = by_name(spec, side_paths, folder);
    if !by_name.is_empty() {
        let by_name = serde_json::to_vec(&by_name).expect("it is a mapping of texts");
        tree::make_folders(folder)?;
        tree::write(by_name_file(folder), by_name)?;
    }
    let Some(model) = &spec.model else { return Ok(()) };
    let own = own_folder(folder);
    tree::make_folders(&own)?;
    let path = match (side_paths.get(SideInput::MODEL), &model.source) {
        (Some(path), _) => path.clone(),
        (None, InputSource::Paths(_)) => model.named(),
        (None, _) => return Ok(()),
    };
    match tree::link(path, own.join(model.base_name())) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// The file with the paths by name: there may be more of them than an environment takes.
fn by_name_file(folder: &Path) -> PathBuf {
    folder.join("models.json")
}

fn own_folder(folder: &Path) -> PathBuf {
    folder.join("model")
}

/// The variables by which scripts find the model, and side inputs by their names.
pub(crate) fn variables(
    spec: &JobSpec,
    side_paths: &SidePaths,
    folder: &Path,
) -> Vec<(&'static str, String)> {
    let mut variables = Vec::new();
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    if spec.model.is_some() {
        variables.push(("AZUREML_MODEL_DIR", text(own_folder(folder))));
    }
    if !by_name(spec, side_paths, folder).is_empty() {
        variables.push((BY_NAME, text(by_name_file(folder))));
    }
    variables
}

/// Paths of the model and of side inputs by the names that scripts may ask for.
fn by_name(spec: &JobSpec, side_paths: &SidePaths, folder: &Path) -> BTreeMap<String, String> {
    let side_inputs = side_paths.iter().filter(|(name, path)| *name != SideInput::MODEL && !is_remote(path));
    let mut by_name: BTreeMap<String, String> =
        side_inputs.map(|(name, path)| (name.clone(), path.clone())).collect();
    if let Some(model) = &spec.model {
        let own = own_folder(folder);
        let path = own.join(model.base_name()).to_string_lossy().into_owned();
        let registered =
            spec.named_data.iter().filter(|named| named.is_model).map(|named| named.name.clone());
        by_name.extend(names(model).chain(registered).map(|name| (name, path.clone())));
    }
    by_name
}

/// The names of a model: that of its file or folder, and of a file without what it ends with.
pub(crate) fn names(model: &SideInput) -> impl Iterator<Item = String> {
    let name = model.base_name();
    let stem = Path::new(&name).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    [Some(name), stem].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use prs_common::job::InputMode;

    use super::*;

    #[test]
    fn the_folder_has_one_entry_of_the_name_of_the_model() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out/mnist.pkl");
        fs::create_dir(folder.path().join("out")).unwrap();
        fs::write(&path, "weights").unwrap();
        let (none, path) = (SidePaths::new(), path.display().to_string());
        let mut spec = JobSpec::new("job", "/", "x.py", Vec::new());
        place(&spec, &none, folder.path()).unwrap();
        assert!(variables(&spec, &none, folder.path()).is_empty());
        let source = InputSource::Paths(vec![path.clone()]);
        spec.model = Some(SideInput::new(SideInput::MODEL, source, InputMode::Upload));
        let side_paths = SidePaths::from([
            (SideInput::MODEL.to_owned(), path),
            ("table".to_owned(), "/side/table.csv".to_owned()),
            ("far".to_owned(), "s3://bucket/far".to_owned()),
        ]);
        for side_paths in [&none, &side_paths] {
            place(&spec, side_paths, folder.path()).unwrap();
        }
        let variables = variables(&spec, &side_paths, folder.path());
        let entries: Vec<_> =
            fs::read_dir(&variables[0].1).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(entries, ["mnist.pkl"]);
        assert_eq!(fs::read_to_string(Path::new(&variables[0].1).join("mnist.pkl")).unwrap(), "weights");
        let by_name = fs::read(&variables[1].1).unwrap();
        let by_name: BTreeMap<String, String> = serde_json::from_slice(&by_name).unwrap();
        assert_eq!(by_name.keys().collect::<Vec<_>>(), ["mnist", "mnist.pkl", "table"]);
        assert_eq!(by_name["table"], "/side/table.csv");
    }
}
