//! Versions and their content in a folder: who may create what, what `@latest` means, and what damage does.

use std::fs;
use std::path::Path;

use super::*;
use crate::storage::LocalStorage;

fn new(name: &str, path: &Path) -> NewAsset {
    NewAsset {
        name: name.to_owned(),
        version: None,
        kind: AssetType::UriFolder,
        source: NewSource::Local(Local { path: path.to_owned(), keeps_name: false }),
        given: "./data".to_owned(),
        about: About::default(),
        created_by: None,
        uses: Vec::new(),
    }
}

fn at(url: &str) -> NewSource {
    NewSource::Url(url.to_owned())
}

struct Room {
    folder: tempfile::TempDir,
    registry: Registry,
}

impl Room {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let registry = Registry::new(Arc::new(LocalStorage::new(folder.path().join("registry"))));
        Self { folder, registry }
    }

    fn write(&self, name: &str, text: &str) -> std::path::PathBuf {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    async fn create(&self, new: &NewAsset) -> Result<AssetVersion, RegistryError> {
        self.registry.create(new, &|_| {}).await
    }
}

fn latest() -> Which {
    Which::Label("latest".to_owned())
}

fn version(text: &str) -> Which {
    Which::Version(text.to_owned())
}

#[tokio::test]
async fn versions_keep_what_they_held() {
    let room = Room::new();
    room.write("data/a.csv", "1");
    room.write("data/deep/b.csv", "2");
    let data = room.folder.path().join("data");
    let first = room.create(&new("iris", &data)).await.unwrap();
    assert_eq!((&*first.version, first.archived), ("1", false));
    let held = |path: &str, name: &str| fs::read_to_string(Path::new(path).join(name)).unwrap();
    assert_eq!((held(&first.path, "a.csv"), held(&first.path, "deep/b.csv")), ("1".into(), "2".into()));
    room.write("data/a.csv", "changed");
    let second = room.create(&new("iris", &data)).await.unwrap();
    assert_eq!(second.version, "2");
    assert_eq!(
        (held(&second.path, "a.csv"), held(&second.path, "deep/b.csv")),
        ("changed".into(), "2".into())
    );
    assert_eq!(held(&first.path, "a.csv"), "1");
    // The same content, whatever its name, is there once.
    let third = room.create(&new("other", &data)).await.unwrap();
    assert_eq!((third.path, third.content), (second.path, second.content));
    // A file keeps its name.
    let file = NewAsset { kind: AssetType::UriFile, ..new("one", &room.write("x/one.csv", "3")) };
    let file = room.create(&file).await.unwrap();
    assert!(file.path.ends_with("/one.csv"), "{}", file.path);
    assert_eq!(fs::read_to_string(&file.path).unwrap(), "3");
}

#[tokio::test]
async fn content_that_was_cut_short_is_completed() {
    let room = Room::new();
    room.write("data/a.csv", "1");
    let data = room.folder.path().join("data");
    let made = room.create(&new("iris", &data)).await.unwrap();
    let files = Path::new(&made.path);
    fs::remove_file(files.parent().unwrap().join("index.json")).unwrap();
    fs::write(files.join("a.csv"), "cut").unwrap();
    let again = room.create(&new("iris", &data)).await.unwrap();
    assert_eq!((again.path.clone(), &*again.version), (made.path, "2"));
    assert_eq!(fs::read_to_string(Path::new(&again.path).join("a.csv")).unwrap(), "1");
}

#[tokio::test]
async fn a_version_is_created_once_whoever_creates_at_the_same_time() {
    let room = Room::new();
    let makes = (0..12).map(|number| {
        let registry = room.registry.clone();
        tokio::spawn(async move {
            let given =
                NewAsset { source: at(&format!("s3://bucket/{number}/")), ..new("iris", Path::new("")) };
            registry.create(&given, &|_| {}).await.unwrap()
        })
    });
    let mut made = Vec::new();
    for one in makes.collect::<Vec<_>>() {
        made.push(one.await.unwrap());
    }
    let mut numbers: Vec<u64> = made.iter().map(|one| one.version.parse().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=12).collect::<Vec<_>>());
    for one in made {
        assert_eq!(
            room.registry.find(Kind::Data, "iris", &version(&one.version)).await.unwrap().path,
            one.path
        );
    }
    // One version that both name is given to one of them.
    let named =
        NewAsset { version: Some("a".into()), source: at("s3://bucket/a/"), ..new("iris", Path::new("")) };
    let (one, other) = tokio::join!(room.create(&named), room.create(&named));
    let refused = [one.err(), other.err()].into_iter().flatten().collect::<Vec<_>>();
    assert!(matches!(&refused[..], [error] if error.to_string().contains("is there already")), "{refused:?}");
}

#[tokio::test]
async fn latest_is_the_one_created_last_that_is_not_archived() {
    let room = Room::new();
    for name in ["7", "3", "b"] {
        let given = NewAsset {
            version: Some(name.into()),
            source: at("s3://bucket/x/"),
            ..new("iris", Path::new(""))
        };
        room.create(&given).await.unwrap();
    }
    let found = async || room.registry.find(Kind::Data, "iris", &latest()).await.map(|one| one.version);
    assert_eq!(found().await.unwrap(), "b");
    room.registry.set_archived(Kind::Data, "iris", Some("b"), true).await.unwrap();
    assert_eq!(found().await.unwrap(), "3");
    assert!(
        room.registry.find(Kind::Data, "iris", &version("b")).await.unwrap().archived,
        "who names it gets it"
    );
    let next = NewAsset { source: at("s3://bucket/x/"), ..new("iris", Path::new("")) };
    assert_eq!(room.create(&next).await.unwrap().version, "8");
    room.registry.set_archived(Kind::Data, "iris", None, true).await.unwrap();
    let error = found().await.unwrap_err().to_string();
    assert!(
        error.contains("all versions of data iris are archived") && error.contains("8 (archived), b"),
        "{error}"
    );
    room.registry.set_archived(Kind::Data, "iris", Some("7"), false).await.unwrap();
    assert_eq!(found().await.unwrap(), "7");
}

#[tokio::test]
async fn what_is_not_there_is_refused_with_what_is() {
    let room = Room::new();
    let found = async |name: &str, which: Which| {
        room.registry.find(Kind::Data, name, &which).await.unwrap_err().to_string()
    };
    assert!(found("iris", latest()).await.contains("prs dataset create"));
    let given = NewAsset { source: at("s3://bucket/x/"), ..new("iris", Path::new("")) };
    room.create(&given).await.unwrap();
    assert!(found("irsi", latest()).await.contains("did you mean iris?"));
    assert!(found("iris", version("2")).await.contains("there is no version 2 of data iris; there are: 1"));
    assert!(found("iris", Which::Label("prod".into())).await.contains("no label \"prod\""));
    assert!(found("../x", latest()).await.contains("is not a name of data"));
    let other = NewAsset { kind: AssetType::UriFile, ..given.clone() };
    assert!(room.create(&other).await.unwrap_err().to_string().contains("is of type uri_folder"));
    let bad = NewAsset { version: Some("a/b".into()), ..given };
    assert!(room.create(&bad).await.unwrap_err().to_string().contains("is not a version"));
    let absent = new("iris", Path::new("/nowhere/at/all"));
    assert!(room.create(&absent).await.unwrap_err().to_string().contains("/nowhere/at/all"));
}

#[tokio::test]
async fn a_damaged_entry_is_named_and_hides_no_other() {
    let room = Room::new();
    let given = |name| NewAsset { source: at("s3://bucket/x/"), ..new(name, Path::new("")) };
    room.create(&given("good")).await.unwrap();
    room.create(&given("bad")).await.unwrap();
    let object = room.folder.path().join("registry/data/bad.json");
    let whole = fs::read(&object).unwrap();
    for content in [
        &whole[..whole.len() / 2],
        b"",
        b"no json",
        b"{}",
        &fs::read(object.with_file_name("good.json")).unwrap(),
    ] {
        fs::write(&object, content).unwrap();
        let error = room.registry.find(Kind::Data, "bad", &latest()).await.unwrap_err();
        assert!(matches!(error, RegistryError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains("registry/data/bad.json"), "{error}");
        // Nothing is written over it.
        assert!(matches!(room.create(&given("bad")).await, Err(RegistryError::Damaged { .. })));
        let (all, damaged) = room.registry.list(Kind::Data).await.unwrap();
        assert_eq!((all.len(), &*all[0][0].name, damaged.len()), (1, "good", 1));
    }
}

fn model(path: &Path) -> NewAsset {
    NewAsset {
        kind: AssetType::CustomModel,
        source: NewSource::Local(Local { path: path.to_owned(), keeps_name: path.is_dir() }),
        ..new("mnist", path)
    }
}

#[tokio::test]
async fn a_model_keeps_the_name_of_its_folder_or_file() {
    let room = Room::new();
    room.write("out/model/weights.pt", "1");
    let folder = room.folder.path().join("out/model");
    let first = room.create(&model(&folder)).await.unwrap();
    assert!(first.path.ends_with("/files/model/"), "{}", first.path);
    assert_eq!(fs::read_to_string(Path::new(&first.path).join("weights.pt")).unwrap(), "1");
    let (_, key, names) = room.registry.objects(Kind::Model, "mnist", "1").await.unwrap();
    assert!(key.ends_with("/files/model/") && names == ["weights.pt"], "{key} {names:?}");
    let file = room.create(&model(&room.write("out/model.pkl", "2"))).await.unwrap();
    assert!(file.path.ends_with("/files/model.pkl"), "{}", file.path);
    let (name, body) = room.registry.file(Kind::Model, "mnist", "2").await.unwrap();
    assert_eq!((&*name, &*body), ("model.pkl", b"2".as_slice()));
    // Names of another kind are other names.
    assert!(room.registry.find(Kind::Data, "mnist", &latest()).await.is_err());
    assert!(room.registry.list(Kind::Data).await.unwrap().0.is_empty());
}

#[tokio::test]
async fn a_version_with_the_same_content_stays_as_it_is() {
    let room = Room::new();
    let one = NewAsset { version: Some("a".into()), ..model(&room.write("model.pkl", "1")) };
    let first = room.create(&one).await.unwrap();
    room.registry.update(Kind::Model, "mnist", "a", |about| about.stage = Some("old".into())).await.unwrap();
    let again = room.create(&one).await.unwrap();
    assert_eq!((&again.content, again.about.stage.as_deref()), (&first.content, Some("old")));
    assert_eq!(room.registry.versions(Kind::Model, "mnist").await.unwrap().len(), 1);
    room.write("model.pkl", "2");
    let error = room.create(&one).await.unwrap_err().to_string();
    assert!(error.contains("version a of model mnist is there already with other content"), "{error}");
    // The same bytes as another type are another version.
    room.write("model.pkl", "1");
    let other = NewAsset { kind: AssetType::TritonModel, ..one };
    assert!(room.create(&other).await.is_err());
    let other = room.create(&NewAsset { version: None, ..other }).await.unwrap();
    assert_eq!((&*other.version, other.kind), ("1", AssetType::TritonModel));
    assert_eq!(
        room.registry.find(Kind::Model, "mnist", &version("a")).await.unwrap().kind,
        AssetType::CustomModel
    );
}
