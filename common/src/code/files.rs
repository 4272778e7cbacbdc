//! Which files of a `source_directory` are code, so that they are packed and go along to the nodes.
//!
//! An ignore file in the folder says what stays behind, by the rules of `.gitignore`: `.prsignore`, else `.amlignore`,
//! else `.gitignore`. Version control, byte code, virtual environments, runs and the ignore files themselves are never
//! code. Links count as what they point to. Of a folder that stays behind no more than its list of names is read.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use walkdir::{DirEntry, WalkDir};

use super::error::{CodeError, MOST_FILES};

/// The ignore file that is written for prs.
pub const OWN_IGNORE_FILE: &str = ".prsignore";
/// Files that say what stays behind; the first that is there counts.
pub const IGNORE_FILES: [&str; 3] = [OWN_IGNORE_FILE, ".amlignore", ".gitignore"];
/// Names that are never code.
pub const NEVER_CODE: [&str; 7] =
    [".git", ".hg", ".svn", "__pycache__", ".venv", ".ipynb_checkpoints", "prs-runs"];
/// What only the folder of a Python environment has, of `venv` and of conda.
pub const ENVIRONMENT_MARKS: [&str; 2] = ["pyvenv.cfg", "conda-meta"];

/// Largest parts of a folder that is too large, as its refusal names them.
const NAMED: usize = 3;

/// The code in a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CodeFiles {
    /// What is packed, in the order of the walk.
    pub files: Vec<CodeFile>,
    /// The ignore file that was followed.
    pub ignore_file: Option<&'static str>,
    /// What it keeps out, below the folder; folders end with `/`.
    pub kept_out: Vec<String>,
}

/// A file of code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeFile {
    /// Its path below the folder.
    pub path: PathBuf,
    /// Bytes.
    pub size: u64,
}

impl CodeFiles {
    /// The code in `folder`, which is only looked at.
    ///
    /// # Errors
    /// There are more than [`MOST_FILES`], which shows as soon as one more was seen, or something cannot be read.
    pub fn find(folder: &Path) -> Result<Self, CodeError> {
        Self::find_within(MOST_FILES, folder)
    }

    fn find_within(most: usize, folder: &Path) -> Result<Self, CodeError> {
        let mut found = Self::default();
        let rules = match IGNORE_FILES.iter().find(|name| folder.join(name).is_file()) {
            Some(name) => {
                found.ignore_file = Some(name);
                IgnoreRules::of(&folder.join(name))?
            }
            None => IgnoreRules(Gitignore::empty()),
        };
        let below =
            |entry: &DirEntry| entry.path().strip_prefix(folder).map(Path::to_owned).unwrap_or_default();
        let (mut kept_out, mut files) = (Vec::new(), Vec::new());
        let is_wanted = |entry: &DirEntry| {
            if entry.depth() == 0 {
                return true;
            }
            if is_never_code(entry) {
                return false;
            }
            let (path, is_folder) = (below(entry), entry.file_type().is_dir());
            let is_kept_out = rules.keep_out(&path, is_folder);
            if is_kept_out {
                kept_out.push(format!("{}{}", path.display(), if is_folder { "/" } else { "" }));
            }
            !is_kept_out
        };
        let walk = WalkDir::new(folder).follow_links(true).sort_by_file_name();
        for entry in walk.into_iter().filter_entry(is_wanted) {
            let unusable =
                |path: &Path, reason: String| CodeError::Unusable { path: path.to_owned(), reason };
            let entry = match entry {
                Ok(entry) => entry,
                // Of a link that leads nowhere, or back, the walk tells before it asks what is wanted.
                Err(error) if is_kept_out(&error, folder, &rules) => continue,
                Err(error) => return Err(unusable(error.path().unwrap_or(folder), why_unusable(&error))),
            };
            let meta = entry.metadata().map_err(|error| unusable(entry.path(), error.to_string()))?;
            if meta.is_dir() {
                continue;
            }
            if !meta.is_file() {
                let reason = "neither a file nor a folder; it cannot go along with the code";
                return Err(unusable(entry.path(), reason.to_owned()));
            }
            files.push(CodeFile { path: below(&entry), size: meta.len() });
            if files.len() > most {
                let found = Self { files, ..found };
                return Err(found.too_large(folder));
            }
        }
        Ok(Self { files, kept_out, ..found })
    }

    /// All of it, bytes.
    pub fn size(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }

    /// Whether the file with this path below the folder is code.
    pub fn has(&self, path: &Path) -> bool {
        self.files.iter().any(|file| file.path == path)
    }

    /// The bytes of what lies at `path` below the folder, a file or a folder.
    pub fn size_below(&self, path: &Path) -> u64 {
        self.files.iter().filter(|file| file.path.starts_with(path)).map(|file| file.size).sum()
    }

    /// Says that it is too much, as far as it was looked at.
    pub(super) fn too_large(&self, folder: &Path) -> CodeError {
        let biggest = self.biggest().into_iter().take(NAMED);
        let named = biggest.map(|(name, size)| format!("{name} {} MiB", size >> 20));
        let count = self.files.len();
        let named: Vec<_> = named.chain([format!("{count} files in all")]).collect();
        let ignore_file = self.ignore_file.unwrap_or(OWN_IGNORE_FILE);
        CodeError::TooLarge { path: folder.to_owned(), biggest: named.join(", "), ignore_file }
    }

    /// The files and folders of the folder itself with their bytes, the biggest first; folders end with `/`.
    pub fn biggest(&self) -> Vec<(String, u64)> {
        let mut sizes: BTreeMap<String, u64> = BTreeMap::new();
        for file in &self.files {
            let mut parts = file.path.components();
            let first = parts.next().map(|part| part.as_os_str().to_string_lossy().into_owned());
            let slash = if parts.next().is_some() { "/" } else { "" };
            *sizes.entry(format!("{}{slash}", first.unwrap_or_default())).or_default() += file.size;
        }
        let mut sizes: Vec<_> = sizes.into_iter().collect();
        sizes.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
        sizes
    }
}

/// Why the walk cannot look at something.
fn why_unusable(error: &walkdir::Error) -> String {
    let is_absent = error.io_error().is_some_and(|error| error.kind() == io::ErrorKind::NotFound);
    match error.path().map(fs::read_link) {
        Some(Ok(target)) if is_absent => {
            let target = target.display();
            format!("a broken link, to {target}: remove it, or name it in {OWN_IGNORE_FILE} or .amlignore")
        }
        _ => error.to_string(),
    }
}

/// Whether what cannot be looked at is no code by its name.
fn is_kept_out(error: &walkdir::Error, folder: &Path, rules: &IgnoreRules) -> bool {
    let Some(path) = error.path().and_then(|path| path.strip_prefix(folder).ok()) else { return false };
    path.file_name().is_some_and(|name| is_name_of_no_code(name, error.depth()))
        || [false, true].iter().any(|is_folder| rules.keep_out(path, *is_folder))
}

/// Whether a file or folder of this name, so deep below the folder, is never code.
fn is_name_of_no_code(name: &OsStr, depth: usize) -> bool {
    let name = name.to_str().unwrap_or_default();
    NEVER_CODE.contains(&name) || (depth == 1 && IGNORE_FILES.contains(&name))
}

fn is_never_code(entry: &DirEntry) -> bool {
    if is_name_of_no_code(entry.file_name(), entry.depth()) {
        return true;
    }
    entry.file_type().is_dir() && ENVIRONMENT_MARKS.iter().any(|mark| entry.path().join(mark).exists())
}

/// What an ignore file says.
#[derive(Debug)]
pub struct IgnoreRules(Gitignore);

impl IgnoreRules {
    fn of(file: &Path) -> Result<Self, CodeError> {
        let at = |source: io::Error| CodeError::Io { path: file.to_owned(), source };
        Self::parse(file, &fs::read_to_string(file).map_err(at)?)
    }

    /// Reads `text`, which is that of `file`.
    ///
    /// # Errors
    /// A line is no rule.
    pub fn parse(file: &Path, text: &str) -> Result<Self, CodeError> {
        read_rules(file, text).map(Self)
    }

    /// Whether they keep out what has this path below the folder of the ignore file. What is in a folder that is kept out need not be
    /// asked for.
    pub fn keep_out(&self, path: &Path, is_folder: bool) -> bool {
        self.0.matched(path, is_folder).is_ignore()
    }
}

fn read_rules(file: &Path, text: &str) -> Result<Gitignore, CodeError> {
    let at = |source: io::Error| CodeError::Io { path: file.to_owned(), source };
    let mut rules = GitignoreBuilder::new("");
    for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        rules.add_line(None, line).map_err(|error| CodeError::Unusable {
            path: file.to_owned(),
            reason: format!("line {}: {error}", index + 1),
        })?;
    }
    rules.build().map_err(|error| at(io::Error::other(error)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        folder
    }

    fn names(found: &CodeFiles) -> Vec<String> {
        found.files.iter().map(|file| file.path.display().to_string()).collect()
    }

    #[test]
    fn what_is_never_code_stays_behind_whatever_the_rules_say() {
        let folder = folder(&[
            ("main.py", "1"),
            ("pkg/a.py", "12"),
            ("pkg/__pycache__/a.pyc", ""),
            ("pkg/prs-runs", ""),
            (".git/HEAD", ""),
            ("env/pyvenv.cfg", ""),
            ("env/lib/x.py", ""),
            ("conda/conda-meta/history", ""),
            ("pkg/.gitignore", "*.py"),
            (".prsignore", "!__pycache__\n!.git\n!env\n"),
        ]);
        symlink(folder.path().join("pkg"), folder.path().join("again")).unwrap();
        let found = CodeFiles::find(folder.path()).unwrap();
        assert_eq!(
            names(&found),
            ["again/.gitignore", "again/a.py", "main.py", "pkg/.gitignore", "pkg/a.py"],
            "an ignore file counts in the folder itself alone"
        );
        assert_eq!((found.ignore_file, found.kept_out.len()), (Some(".prsignore"), 0));
        assert_eq!((found.size(), found.size_below(Path::new("pkg"))), (13, 6));
        assert_eq!(found.biggest(), [("again/".into(), 6), ("pkg/".into(), 6), ("main.py".into(), 1)]);
        assert!(found.has(Path::new("pkg/a.py")) && !found.has(Path::new("pkg")));
    }

    #[test]
    fn rules_are_those_of_git() {
        let rules = "# data\n/data/\n*.bin\n!keep.bin\nlogs/**/old\n\\#x\n trailing \nbuild\n!build/in.py\n";
        let files = [
            "data/a",
            "pkg/data/a",
            "x.bin",
            "pkg/x.bin",
            "pkg/keep.bin",
            "logs/a/b/old",
            "logs/new",
            "#x",
            "build/in.py",
            "z.py",
        ];
        let mut all: Vec<_> = files.iter().map(|name| (*name, "x")).collect();
        all.push((".gitignore", rules));
        let found = CodeFiles::find(folder(&all).path()).unwrap();
        assert_eq!(names(&found), ["logs/new", "pkg/data/a", "pkg/keep.bin", "z.py"]);
        assert_eq!(found.kept_out, ["#x", "build/", "data/", "logs/a/b/old", "pkg/x.bin", "x.bin"]);
    }

    #[test]
    fn the_first_ignore_file_counts_alone() {
        let mut files = vec![("a", ""), ("b", ""), ("c", ""), (".gitignore", "a"), (".amlignore", "b")];
        let found = CodeFiles::find(folder(&files).path()).unwrap();
        assert_eq!((names(&found), found.ignore_file), (vec!["a".into(), "c".into()], Some(".amlignore")));
        files.push((".prsignore", "\u{feff}c\r\n"));
        let found = CodeFiles::find(folder(&files).path()).unwrap();
        assert_eq!((names(&found), found.ignore_file), (vec!["a".into(), "b".into()], Some(".prsignore")));
    }

    #[test]
    fn a_link_that_leads_nowhere_or_back_can_be_kept_out() {
        let folder = folder(&[("main.py", ""), ("data/a", "")]);
        symlink("gone", folder.path().join(".#main.py")).unwrap();
        symlink("gone", folder.path().join(".venv")).unwrap();
        symlink("gone", folder.path().join(".gitignore")).unwrap();
        symlink("..", folder.path().join("data/latest")).unwrap();
        let error = CodeFiles::find(folder.path()).unwrap_err().to_string();
        assert!(
            error.contains("/.#main.py: a broken link, to gone: remove it, or name it in .prsignore"),
            "{error}"
        );
        fs::write(folder.path().join(".prsignore"), ".#*\nlatest/\n").unwrap();
        assert_eq!(names(&CodeFiles::find(folder.path()).unwrap()), ["data/a", "main.py"]);
    }

    #[test]
    fn too_many_files_are_told_at_the_first_one_too_many() {
        let folder = folder(&[("a", ""), ("b", ""), ("c/d", ""), ("c/e", "")]);
        // Behind the fourth one nothing is looked at.
        symlink("gone", folder.path().join("z")).unwrap();
        let error = CodeFiles::find_within(3, folder.path()).unwrap_err().to_string();
        assert!(error.contains("4 files in all): exclude what is not code"), "{error}");
        assert!(matches!(CodeFiles::find(folder.path()), Err(CodeError::Unusable { .. })));
    }

    #[test]
    fn a_rule_that_cannot_be_read_is_told_with_its_line() {
        let error = CodeFiles::find(folder(&[(".prsignore", "a\n{b\n")]).path()).unwrap_err().to_string();
        assert!(error.contains(".prsignore: line 2: "), "{error}");
    }
}
