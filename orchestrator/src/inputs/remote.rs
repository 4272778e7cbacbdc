//! The listing of a bucket or an HTTP server: what a URL of an input names, bytewise by key (spec D1).
//!
//! A URL is an object, where there is one of that name; else a folder, where anything is below it; else a glob, where it has a
//! wildcard, whose first folders are taken as they stand as far as there are any. Most HTTP servers list nothing: there it
//! is a file or an error.
//! Objects whose keys end with `/`, which some tools write to stand for folders, are no files.

use std::borrow::Cow;
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, future, stream};
use prs_common::dataset::http_url;
use prs_common::dataset::left_out::{LeftOut, Rules};
use prs_common::dataset::listing::PathPattern;
use prs_common::dataset::names;
use prs_common::dataset::remote::{self, RemotePath};
use prs_common::job::Input;
use prs_common::storage::{Listing, ObjectMeta, Storage, StorageErrorKind};

use super::resolve::ResolveCause;

/// Files that are given at a time.
const PAGE: usize = 1_000;

/// What a URL names, page by page.
pub(super) struct RemoteListing {
    url: RemotePath,
    /// What all keys begin with; the names below it are the relative ones.
    pub(super) prefix: String,
    /// The same as the user knows it.
    pub(super) origin: String,
    glob: Option<PathPattern>,
    /// By which some of it is left out.
    rules: Rules,
    pub(super) left_out: LeftOut,
    /// The folder or object that was left out last.
    last_left_out: String,
    objects: Listing,
    /// Objects that may turn out to be folders too: each is the beginning of the next.
    open: Vec<String>,
}

impl RemoteListing {
    /// Finds out what `url`, which `input` names, is.
    pub(super) async fn open(
        store: Arc<dyn Storage>,
        url: &RemotePath,
        input: &Input,
    ) -> Result<Self, ResolveCause> {
        let slashed = |key: &str| if key.is_empty() { String::new() } else { format!("{key}/") };
        let listing = |prefix: String| Self {
            origin: format!("{}/{prefix}", url.place()),
            objects: store.list_names(&format!("{prefix}{}", url.query())),
            prefix,
            url: url.clone(),
            glob: None,
            rules: Rules::of(input, false),
            left_out: LeftOut::default(),
            last_left_out: String::new(),
            open: Vec::new(),
        };
        let path = url.path();
        if path.is_empty() || path.ends_with('/') {
            return Ok(listing(path.to_owned()));
        }
        let is_glob = if url.is_http() { remote::is_glob(path) } else { PathPattern::is_glob(path) };
        match store.head(&url.key).await {
            Ok(object) => {
                let folder = path.rfind('/').map_or("", |slash| &path[..=slash]);
                let objects = stream::once(future::ready(Ok(object))).boxed();
                return Ok(Self { objects, rules: Rules::default(), ..listing(folder.to_owned()) });
            }
            Err(error) if error.kind == StorageErrorKind::NotFound && url.lists() => {}
            // A glob need not be a valid key.
            Err(error) if is_glob && error.kind == StorageErrorKind::InvalidKey => {}
            Err(error) => return Err(error.into()),
        }
        if !is_glob {
            return Ok(listing(slashed(path)));
        }
        let glob = format!("/{}", url.relative("", path));
        let mut base = PathPattern::fixed_part(&glob);
        if !url.is_http() {
            let is_folder = async |folder: &str| -> Result<bool, ResolveCause> {
                match store.list_names(&slashed(folder.trim_start_matches('/'))).try_next().await {
                    Ok(first) => Ok(first.is_some()),
                    // Who may list what the glob begins with may not be allowed to list this.
                    Err(error) if error.kind == StorageErrorKind::PermissionDenied => Ok(false),
                    Err(error) => Err(error.into()),
                }
            };
            if is_folder(path).await? {
                return Ok(listing(slashed(path)));
            }
            for folder in PathPattern::folders(&glob) {
                if !is_folder(folder).await? {
                    break;
                }
                base = folder;
            }
        }
        let pattern = PathPattern::below(base, &glob)?;
        let folder = base.trim_start_matches('/').to_owned();
        let folder = if url.is_http() { http_url::encoded_name(&folder) } else { folder };
        Ok(Self { glob: Some(pattern), rules: Rules::of(input, true), ..listing(slashed(&folder)) })
    }

    /// The next files; none at the end.
    pub(super) async fn next(&mut self) -> Result<Vec<ObjectMeta>, ResolveCause> {
        let mut files = Vec::new();
        while files.len() < PAGE {
            let Some(object) = self.objects.try_next().await? else { break };
            let path = if self.url.is_http() { http_url::path_of(&object.key) } else { object.key.as_str() };
            if !path.ends_with('/') && self.picks(&object.key) && !self.leaves_out(&object.key) {
                self.check(&object)?;
                files.push(object);
            }
        }
        Ok(files)
    }

    /// Whether the URL is a glob, which must name something.
    pub(super) fn is_glob(&self) -> bool {
        self.glob.is_some()
    }

    fn relative<'a>(&self, key: &'a str) -> Cow<'a, str> {
        self.url.relative(&self.prefix, key)
    }

    fn picks(&self, key: &str) -> bool {
        self.glob.as_ref().is_none_or(|glob| glob.picks(&self.relative(key)))
    }

    /// Whether the rules of the input leave the object out, which is counted with its folder.
    fn leaves_out(&mut self, key: &str) -> bool {
        let relative = self.relative(key).into_owned();
        let Some((reason, path)) = self.rules.reason_of_file(&self.origin, &relative) else { return false };
        if path != self.last_left_out {
            self.left_out.add(reason, path);
            path.clone_into(&mut self.last_left_out);
        }
        true
    }

    /// Refuses what could not be a file of a node beside the files before it.
    fn check(&mut self, object: &ObjectMeta) -> Result<(), ResolveCause> {
        let relative = self.relative(&object.key);
        let refused = |reason: &str| Err(ResolveCause::name(&format!("{}{relative}", self.origin), reason));
        if let Some(reason) = names::unusable(&relative) {
            return refused(reason);
        }
        if object.key.contains('\\') && !self.url.is_http() {
            return refused("the name has a backslash");
        }
        // In bytewise order everything between `a` and `a/b` begins with `a` too.
        while self.open.last().is_some_and(|open| !relative.starts_with(&**open)) {
            self.open.pop();
        }
        let is_folder = |open: &&String| relative.as_bytes().get(open.len()) == Some(&b'/');
        if let Some(both) = self.open.iter().find(is_folder) {
            return refused(&format!("{both} is an object, and cannot be a folder on a node as well"));
        }
        let relative = relative.into_owned();
        self.open.push(relative);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prs_common::job::{InputKind, InputSource, TabularOptions};
    use prs_common::storage::fixtures::{Hooked, Hooks};
    use prs_common::storage::{LocalStorage, PutMode};

    use super::*;

    /// What a bucket that lists any names has.
    #[derive(Debug)]
    struct Names(Vec<&'static str>);

    impl Hooks for Names {
        fn listed(&self, prefix: &str) -> Option<Vec<ObjectMeta>> {
            let object = |key: &&str| ObjectMeta { key: (*key).into(), size: 1, ..ObjectMeta::default() };
            Some(self.0.iter().filter(|key| key.starts_with(prefix)).map(object).collect())
        }
    }

    async fn list(store: Arc<dyn Storage>, url: &str) -> Result<(String, Vec<String>), String> {
        let url = RemotePath::parse(url).unwrap();
        let source = InputSource::Remote(Vec::new());
        let tabular = Some(TabularOptions::default());
        let input = Input { kind: InputKind::Tabular, tabular, ..Input::new("in", InputKind::File, source) };
        let listing = RemoteListing::open(store, &url, &input).await;
        let mut listing = listing.map_err(|error| error.to_string())?;
        let mut seen = Vec::new();
        loop {
            let page = listing.next().await.map_err(|error| error.to_string())?;
            if page.is_empty() {
                return Ok((listing.origin.clone(), seen));
            }
            seen.extend(page.iter().map(|object| listing.relative(&object.key).into_owned()));
        }
    }

    #[tokio::test]
    async fn a_url_is_an_object_a_glob_or_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let store: Arc<dyn Storage> = Arc::new(LocalStorage::new(folder.path()));
        for key in [
            "a.csv",
            "in/a.csv",
            "in/b.csv",
            "in/deep/c.csv",
            "in/x[1].txt",
            "in/.hidden",
            "into/d.csv",
            "[DE] x/a.csv",
            "[DE] x/b/c.csv",
            "D x/other.csv",
            "E x/b/other.csv",
            "spark/_SUCCESS",
            "spark/part.csv",
            "spark/day=1/part.csv",
            "spark/_temporary/0/part.csv",
            "spark/_temporary/1/part.csv",
        ] {
            store.put(key, "x".into(), PutMode::Overwrite).await.unwrap();
        }
        let table: [(&str, &str, &[&str]); 16] = [
            ("s3://bucket/in", "in/", &[".hidden", "a.csv", "b.csv", "deep/c.csv", "x[1].txt"]),
            ("s3://bucket/in/", "in/", &[".hidden", "a.csv", "b.csv", "deep/c.csv", "x[1].txt"]),
            ("s3://bucket/in/b.csv", "in/", &["b.csv"]),
            ("s3://bucket/a.csv", "", &["a.csv"]),
            ("s3://bucket/in/*.csv", "in/", &["a.csv", "b.csv"]),
            ("s3://bucket/in/**/*.csv", "in/", &["a.csv", "b.csv", "deep/c.csv"]),
            ("s3://bucket/*.csv", "", &["a.csv"]),
            ("s3://bucket/in/x[1].txt", "in/", &["x[1].txt"]),
            ("s3://bucket/absent", "absent/", &[]),
            ("s3://bucket/spark", "spark/", &["day=1/part.csv", "part.csv"]),
            ("s3://bucket/spark/*", "spark/", &["_SUCCESS", "part.csv"]),
            ("s3://bucket/spark/_SUCCESS", "spark/", &["_SUCCESS"]),
            ("s3://bucket/[DE] x", "[DE] x/", &["a.csv", "b/c.csv"]),
            ("s3://bucket/[DE] x/*.csv", "[DE] x/", &["a.csv"]),
            ("s3://bucket/[DE] x/b/*.csv", "[DE] x/b/", &["c.csv"]),
            ("s3://bucket/[DF] x/*.csv", "", &["D x/other.csv"]),
        ];
        for (url, origin, expected) in table {
            let (seen_origin, seen) = list(Arc::clone(&store), url).await.unwrap();
            assert_eq!(
                (seen_origin, seen),
                (format!("s3://bucket/{origin}"), expected.iter().map(|&name| name.to_owned()).collect()),
                "{url}"
            );
        }
    }

    #[tokio::test]
    async fn names_that_lead_out_of_a_folder_are_refused_by_name() {
        let long: &'static str = Box::leak(format!("in/{}", "x".repeat(256)).into_boxed_str());
        let table: [(&[&'static str], Result<usize, &str>); 10] = [
            (&["in/", "in/a", "in/b/", "in/b/c", "in/d"], Ok(3)),
            (&["in/a", "in/a-b", "in/a.b", "in/ab"], Ok(4)),
            (&["in/a", "in/../../etc/passwd"], Err("s3://bucket/in/../../etc/passwd: the name has a part")),
            (&["in//a"], Err("s3://bucket/in//a: the name has an empty part")),
            (&["in/a\nb"], Err(r"s3://bucket/in/a\nb: the name has a control character")),
            (&["in/a\0"], Err("control character")),
            (&["in/win\\a"], Err(r"s3://bucket/in/win\\a: the name has a backslash")),
            (&[long], Err("longer than 255")),
            (
                &["in/a", "in/a-b", "in/a/b"],
                Err("s3://bucket/in/a/b: a is an object, and cannot be a folder"),
            ),
            (&["in/a", "in/ab", "in/b"], Ok(3)),
        ];
        for (names, expected) in table {
            let bucket = Hooked::new(LocalStorage::new("/nowhere"), Names(names.to_vec()));
            let seen = list(Arc::new(bucket), "s3://bucket/in").await;
            match expected {
                Ok(count) => assert_eq!(seen.map(|(_, seen)| seen.len()), Ok(count), "{names:?}"),
                Err(says) => {
                    let error = seen.unwrap_err();
                    assert!(error.contains(says), "{names:?}: {error}");
                }
            }
        }
    }
}
