//! What becomes of the inputs of a job when it is submitted.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::{Arc, Mutex};

use prs_common::job::InputKind;
use prs_common::storage::{LocalStorage, Storage, StorageExt};

use super::*;

/// Stores in a folder, and a listener to the progress.
struct Inputs {
    folder: tempfile::TempDir,
    stores: InputStores,
    heard: Mutex<Vec<InputProgress>>,
    wants_totals: bool,
}

impl Inputs {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let shared: Arc<dyn Storage> = Arc::new(LocalStorage::new(folder.path().join("storage")));
        let job = shared.below("jobs/job-1");
        let buckets = folder.path().join("buckets");
        let open = move |url: String, _| -> BoxFuture<'static, _> {
            let bucket = buckets.join(url.trim_start_matches("s3://"));
            let store: Arc<dyn Storage> = Arc::new(LocalStorage::new(bucket));
            Box::pin(std::future::ready(Ok(store)))
        };
        let stores = InputStores::new(shared, job, Arc::new(open));
        Self { folder, stores, heard: Mutex::default(), wants_totals: true }
    }

    fn path(&self, relative: &str) -> String {
        self.folder.path().join(relative).display().to_string()
    }

    async fn resolve(
        &self,
        source: InputSource,
        mode: InputMode,
        runs: Where,
    ) -> Result<InputSource, ResolveError> {
        let input = Input { mode, ..Input::new("data", InputKind::File, source) };
        let spec = JobSpec::new("job-1", "/code", "main.py", vec![input]);
        let hear = |name: &str, progress| {
            assert_eq!(name, "data");
            self.heard.lock().unwrap().push(progress);
        };
        let audience = Audience { tell: &hear, wants_totals: self.wants_totals };
        resolve(spec, &self.stores, runs, audience).await.map(|spec| spec.inputs[0].source.clone())
    }

    async fn upload(&self, source: InputSource) -> Result<InputSource, ResolveError> {
        self.resolve(source, InputMode::Upload, Where::Fleet).await
    }
}

#[tokio::test]
async fn what_every_node_has_stays_as_it_is() {
    let inputs = Inputs::new(&[("in/a", "x"), ("in/list", "a\n")]);
    let paths = InputSource::Paths(vec![inputs.path("in")]);
    let list = InputSource::List(inputs.path("in/list").into());
    for source in [paths, list] {
        for (mode, runs) in [
            (InputMode::Direct, Where::Fleet),
            (InputMode::Upload, Where::Embedded),
            (InputMode::Direct, Where::Embedded),
        ] {
            assert_eq!(inputs.resolve(source.clone(), mode, runs).await.unwrap(), source);
        }
    }
    assert!(!inputs.folder.path().join("storage").exists());
}

#[tokio::test]
async fn an_upload_tells_how_far_it_is_and_sends_nothing_twice() {
    let mut inputs = Inputs::new(&[("in/a", "one"), ("in/b/c", "three"), ("in/d", "one"), ("in/.e", "")]);
    let source = InputSource::Paths(vec![inputs.path("in")]);
    let resolved = inputs.upload(source.clone()).await.unwrap();
    let InputSource::Manifest { key, label, files, bytes, .. } = &resolved else { panic!("{resolved:?}") };
    assert_eq!((key.as_str(), *files, *bytes), ("inputs/data.manifest", 4, 11));
    assert_eq!(*label, inputs.path("in"));
    let heard = std::mem::take(&mut *inputs.heard.lock().unwrap());
    let total = InputProgress { files_total: Some(4), bytes_total: Some(11), ..InputProgress::default() };
    assert_eq!(heard.first(), Some(&total));
    assert_eq!(heard.last(), Some(&InputProgress { files: 4, bytes: 11, ..total }));
    let blobs = inputs.stores.shared().list_all("inputs/").await.unwrap();
    assert_eq!(blobs.len(), 3);
    inputs.wants_totals = false;
    assert_eq!(inputs.upload(source).await.unwrap(), resolved);
    assert_eq!(inputs.stores.shared().list_all("inputs/").await.unwrap(), blobs);
    let heard = inputs.heard.lock().unwrap();
    assert_eq!(heard.last(), Some(&InputProgress { files: 4, bytes: 11, ..InputProgress::default() }));
}

#[tokio::test]
async fn what_is_left_out_is_neither_uploaded_nor_forgotten() {
    let inputs =
        Inputs::new(&[("in/a.csv", "x"), ("in/_SUCCESS", ""), ("in/out/a.csv", "former"), ("in/b.tmp", "x")]);
    let source = InputSource::Paths(vec![inputs.path("in")]);
    let mut input = Input::new("rows", InputKind::Tabular, source.clone());
    input.exclusions.ignore = vec!["*.tmp".to_owned()];
    let mut spec = JobSpec::new("job-1", "/code", "main.py", vec![input]);
    spec.output = Some(inputs.path("in/out").into());
    let side_input = SideInput::new("whole", source, InputMode::Upload);
    spec.side_inputs = vec![side_input];
    let spec = resolve(spec, &inputs.stores, Where::Fleet, Audience::NONE).await.unwrap();
    let InputSource::Manifest { files, left_out, .. } = &spec.inputs[0].source else { panic!("{spec:?}") };
    assert_eq!(
        (*files, left_out.to_string()),
        (
            1,
            "1 folder of an output left out (out): a path or glob that names it reads it; 1 entry that programs write beside \
             tables left out (_SUCCESS): a glob or list that names it reads it; 1 entry that ignore names left out (b.tmp)"
                .to_owned()
        )
    );
    // What the script itself knows by name is whole.
    let InputSource::Manifest { files, .. } = &spec.side_inputs[0].source else { panic!("{spec:?}") };
    assert_eq!(*files, 4);
}

#[tokio::test]
async fn what_cannot_be_uploaded_is_told_by_its_name() {
    let inputs = Inputs::new(&[
        ("in/a", "x"),
        ("tab/a\tb", "x"),
        ("list", "in/a\nin/absent\n"),
        ("web", "in/a\nftp://user:secret@host/x\n"),
        ("prefix", "s3://bucket/in/\n"),
        ("empty/list", "\n"),
    ]);
    symlink("nowhere", inputs.path("in/link")).unwrap();
    let list = |name: &str| InputSource::List(inputs.path(name).into());
    for (source, says) in [
        (InputSource::Paths(vec![inputs.path("in")]), "link is a broken link, to nowhere"),
        (InputSource::Paths(vec![inputs.path("tab")]), r"tab/a\tb: the name has a control character"),
        (list("list"), "in/absent: No such file"),
        (list("web"), "ftp://: not supported yet"),
        (list("prefix"), "s3://bucket/in/: the name has an empty part"),
        (list("empty/list"), "no file found in"),
        (InputSource::Remote(vec!["s3://bucket/absent".to_owned()]), "no file found in s3://bucket/absent"),
        (InputSource::Remote(vec!["s3://bucket/*.csv".to_owned()]), "no file found in s3://bucket/*.csv"),
    ] {
        let error = inputs.upload(source).await.unwrap_err();
        let told = error.to_string();
        assert!(told.starts_with("input data: ") && told.contains(says), "{told}");
        assert!(!told.contains("secret") && !error.is_retryable());
    }
    assert!(inputs.stores.job().list_all("").await.unwrap().is_empty());
}
