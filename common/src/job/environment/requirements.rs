//! Requirements files: each line as pip reads it, with the files that they include.
//!
//! What a line asks for is left to the installer. Refused is what means something on this machine alone (a folder, a wheel
//! in a folder), what would carry a password into the job's record, and options that are not known.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::super::fence;
use super::packages::Packages;
use super::secrets::{has_secret, has_token, refused};

/// Bytes beyond which a file is taken for something else.
const MOST_BYTES: u64 = 1 << 20;
/// Options that need no value.
const FLAGS: [&str; 4] = ["--no-index", "--pre", "--prefer-binary", "--require-hashes"];
/// Options whose value is a URL.
const URLS: [&str; 5] = ["-i", "--index-url", "--extra-index-url", "-f", "--find-links"];
/// Options with another value.
const OTHERS: [&str; 3] = ["--trusted-host", "--no-binary", "--only-binary"];
/// Endings of files that an installer takes.
const ARCHIVES: [&str; 4] = [".whl", ".tar.gz", ".zip", ".tar.bz2"];
/// What a private index asks for stays with the host that installs.
const ON_WORKERS: &str = "set it on the workers (UV_INDEX_URL, UV_FIND_LINKS, PIP_INDEX_URL, PIP_FIND_LINKS)";
/// The fault of a URL that holds a secret, and what helps.
const SECRET: &str = "the URL holds a password, which the job's record would keep: write ${NAME} (capital letters, digits and _) \
                      for a variable of the workers, and an @ in a path as %40";
/// The beginning of what has no use off Azure.
const OF_AZURE: &str = "azureml-";

/// Reads requirements into packages.
#[derive(Debug, Default)]
pub(super) struct Requirements {
    pub(super) packages: Packages,
    /// What was left out.
    pub(super) notes: Vec<String>,
    /// What cannot be had, with the remedy.
    pub(super) problems: Vec<String>,
    /// Packages that are installed although they are of Azure.
    keep: Vec<String>,
    /// Files that are being read, the outermost first.
    open: Vec<PathBuf>,
}

/// What the lines of a file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Requirements,
    Constraints,
}

impl Requirements {
    /// Reads on, and installs these packages although they are of Azure.
    pub(super) fn keeping(keep: Vec<String>) -> Self {
        Self { keep, ..Self::default() }
    }

    /// Reads a requirements file.
    pub(super) fn file(&mut self, path: &Path) {
        self.read(path, Kind::Requirements);
    }

    /// Takes one line; `place` is where it stands, and paths in it start from `folder`.
    pub(super) fn line(&mut self, line: &str, place: &str, folder: &Path) {
        self.take(line, place, folder, Kind::Requirements);
    }

    /// Takes one line that limits what others ask for.
    pub(super) fn constraint(&mut self, line: &str, place: &str, folder: &Path) {
        self.take(line, place, folder, Kind::Constraints);
    }

    fn read(&mut self, path: &Path, kind: Kind) {
        let shown = path.display().to_string();
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if self.open.contains(&path) {
            self.problems.push(format!("{shown} includes itself: remove the line"));
            return;
        }
        let text = match read_text(&path) {
            Ok(text) => text,
            Err(message) => return self.problems.push(format!("{shown}: {message}")),
        };
        let folder = path.parent().unwrap_or(Path::new("/")).to_owned();
        self.open.push(path);
        for (number, line) in logical_lines(&text) {
            self.take(&line, &format!("{shown}:{number}"), &folder, kind);
        }
        self.open.pop();
    }

    fn take(&mut self, line: &str, place: &str, folder: &Path, kind: Kind) {
        let line = without_comment(line).trim();
        if line.is_empty() {
            return;
        }
        if has_secret(line) {
            let index = if line.starts_with('-') { format!(", or {ON_WORKERS}") } else { String::new() };
            return self.problems.push(format!("{place}: {}: {SECRET}{index}", refused(line)));
        }
        if has_token(line) {
            self.notes.push(format!(
                "{place}: the query of a URL looks like a token, which the job's record keeps: write ${{NAME}} for a variable of \
                 the workers"
            ));
        }
        if line.starts_with('-') {
            return self.option(line, place, folder);
        }
        if let Err(message) = check(line) {
            return self.problems.push(format!("{place}: {message}"));
        }
        let name = normal(name_of(line));
        if kind == Kind::Constraints {
            self.packages.constraints.push(line.to_owned());
        } else if name.starts_with(OF_AZURE) && !self.keep.iter().any(|kept| normal(kept) == name) {
            self.notes.push(format!("{line} is left out: it has no use outside Azure (`keep` installs it)"));
        } else {
            self.packages.requirements.push(line.to_owned());
        }
    }

    fn option(&mut self, line: &str, place: &str, folder: &Path) {
        let (name, value) = split_option(line);
        let shown = refused(line);
        let mut refuse = |message: String| self.problems.push(format!("{place}: {message}"));
        match name {
            "-r" | "--requirement" | "-c" | "--constraint" if value.contains("://") => {
                refuse(format!("{name} {}: give a file of this machine", refused(value)));
            }
            "-r" | "--requirement" => self.read(&folder.join(value), Kind::Requirements),
            "-c" | "--constraint" => self.read(&folder.join(value), Kind::Constraints),
            "-e" | "--editable" => refuse(format!(
                "{shown}: an editable package is a folder of this machine, which other hosts do not have: put its \
                 modules into source_directory, or name a package of an index"
            )),
            _ if FLAGS.contains(&name) && value.is_empty() => self.packages.options.push(name.to_owned()),
            _ if URLS.contains(&name) && !value.is_empty() => {
                if value.contains("://") && !value.starts_with("file:") {
                    self.packages.options.push(format!("{name} {value}"));
                } else {
                    refuse(format!(
                        "{shown}: a path of this machine, which other hosts do not have: {ON_WORKERS}"
                    ));
                }
            }
            _ if OTHERS.contains(&name) && value.contains('@') => {
                refuse(format!(
                    "{shown}: a host or a package has no @: the job's record would keep what stands before it"
                ));
            }
            _ if OTHERS.contains(&name) && !value.is_empty() => {
                self.packages.options.push(format!("{name} {value}"));
            }
            _ => refuse(format!(
                "{shown}: the option is not supported: there are -r, -c, {}, {}, {}",
                FLAGS.join(", "),
                URLS.join(", "),
                OTHERS.join(", ")
            )),
        }
    }
}

/// The name of an option, and its value: `-r x`, `-rx`, `--requirement x`, `--requirement=x`.
fn split_option(line: &str) -> (&str, &str) {
    let at = match line.strip_prefix("--") {
        Some(long) => long.find(['=', ' ', '\t']).map(|at| at + 2),
        None => line.char_indices().nth(2).map(|(at, _)| at),
    };
    let (name, value) = line.split_at(at.unwrap_or(line.len()));
    (name, value.trim_start_matches('=').trim())
}

/// What is wrong with a requirement.
fn check(line: &str) -> Result<(), String> {
    if line.contains("://") {
        return if line.contains("file:") { Err(of_this_machine(line)) } else { Ok(()) };
    }
    let first = line.split([';', ' ', '[', '=', '<', '>', '!', '~', '@']).next().unwrap_or_default();
    let is_path =
        first.starts_with('.') || first.contains('/') || ARCHIVES.iter().any(|end| first.ends_with(end));
    if is_path || line.contains("file:") {
        return Err(of_this_machine(line));
    }
    let rest = line[name_of(line).len()..].trim_start();
    if name_of(line).is_empty()
        || !rest.is_empty() && !rest.starts_with(['[', '=', '<', '>', '!', '~', '@', ';', '(', '-'])
    {
        return Err(format!(
            "{:?} is not a requirement: give a package and its version, such as numpy==2.1",
            refused(line)
        ));
    }
    Ok(())
}

fn of_this_machine(line: &str) -> String {
    format!(
        "{}: a file or folder of this machine, which other hosts do not have: put its modules into source_directory, \
         or name a package of an index",
        refused(line)
    )
}

/// The package that a requirement names; nothing where it begins with none.
pub(super) fn name_of(line: &str) -> &str {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    let name = &line[..line.find(|character| !plain(character)).unwrap_or(line.len())];
    if name.starts_with(|first: char| first.is_ascii_alphanumeric()) { name } else { "" }
}

/// A name as indexes compare them.
pub(super) fn normal(name: &str) -> String {
    name.to_ascii_lowercase().replace(['_', '.'], "-")
}

/// A line without its comment.
fn without_comment(line: &str) -> &str {
    let begins = |(at, _): &(usize, &str)| *at == 0 || line[..*at].ends_with([' ', '\t']);
    line.match_indices('#').find(begins).map_or(line, |(at, _)| &line[..at])
}

/// The lines of a file, those that `\` continues as one, each with its number.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut continues = false;
    for (index, line) in text.lines().enumerate() {
        let (part, goes_on) = line.strip_suffix('\\').map_or((line, false), |part| (part, true));
        match lines.last_mut().filter(|_| continues) {
            Some((_, whole)) => whole.push_str(part),
            None => lines.push((index + 1, part.to_owned())),
        }
        continues = goes_on;
    }
    lines
}

/// The text of a file that is to be short.
pub(super) fn read_text(path: &Path) -> Result<String, String> {
    let unreadable = |error: std::io::Error| format!("it cannot be read: {error}");
    if !fence::pass(path, &path.display().to_string()) {
        return Err("it is not among what came with the job".to_owned());
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(format!("it is larger than {MOST_BYTES} bytes: give a requirements or conda file"));
    }
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text: save it as UTF-8".to_owned())?;
    Ok(text.strip_prefix('\u{FEFF}').map(str::to_owned).unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> Requirements {
        let mut read = Requirements::default();
        for line in lines {
            read.line(line, "f:1", Path::new("/no/such/folder"));
        }
        read
    }

    #[test]
    fn lines_that_are_taken() {
        for (line, taken) in [
            ("numpy==2.1", "numpy==2.1"),
            ("  numpy >= 1.0 , <2 # why", "numpy >= 1.0 , <2"),
            ("a[x,y]~=1.0; python_version < '3.12'", "a[x,y]~=1.0; python_version < '3.12'"),
            ("a @ https://example.org/a.whl#sha256=ab", "a @ https://example.org/a.whl#sha256=ab"),
            ("git+https://example.org/a.git@v1", "git+https://example.org/a.git@v1"),
            ("git+ssh://git@example.org/a.git", "git+ssh://git@example.org/a.git"),
            ("a @ https://${TOKEN}@example.org/a.whl", "a @ https://${TOKEN}@example.org/a.whl"),
            ("a==1 --hash=sha256:ab", "a==1 --hash=sha256:ab"),
        ] {
            let read = read(&[line]);
            assert_eq!(
                (read.packages.requirements, read.problems),
                (vec![taken.to_owned()], vec![]),
                "{line}"
            );
        }
        for (line, option) in [
            ("--pre", "--pre"),
            ("-ihttps://example.org/simple", "-i https://example.org/simple"),
            ("--extra-index-url=https://example.org/simple", "--extra-index-url https://example.org/simple"),
            ("--index-url https://${USER}:${TOKEN}@h/s", "--index-url https://${USER}:${TOKEN}@h/s"),
            ("--only-binary :all:", "--only-binary :all:"),
        ] {
            let read = read(&[line]);
            assert_eq!((read.packages.options, read.problems), (vec![option.to_owned()], vec![]), "{line}");
        }
        assert!(read(&["", "# all", "   "]).packages.requirements.is_empty());
    }

    #[test]
    fn lines_that_are_refused() {
        for (line, part) in [
            ("-e .", "an editable package is a folder of this machine"),
            ("./package", "a file or folder of this machine"),
            ("../package", "a file or folder of this machine"),
            ("/opt/package", "a file or folder of this machine"),
            ("wheels/a-1.0-py3-none-any.whl", "a file or folder of this machine"),
            ("a-1.0.tar.gz", "a file or folder of this machine"),
            ("a @ file:///opt/a.whl", "a file or folder of this machine"),
            ("--find-links wheels", "a path of this machine"),
            (
                "--index-url https://me:hush@example.org/s",
                "--index-url https://****@example.org/s: the URL holds a",
            ),
            ("-i https://h/s --find-links https://me:hush@h", "****@h: the URL holds a password"),
            (
                "a @ https://me:hush@example.org/a.whl",
                "a @ https://****@example.org/a.whl: the URL holds a password",
            ),
            ("a @ git+https://h/a@b.git@hush@v1", "write ${NAME}"),
            ("-e git+https://me:hush@example.org/a", "the URL holds a password"),
            ("-e me:hush@example.org:a", "an editable package"),
            ("-i me:hush@example.org/s", "a path of this machine"),
            ("-r https://me:hush@example.org/r.txt", "the URL holds a password"),
            (
                "--trusted-host me:hush@example.org",
                "--trusted-host ****@example.org: a host or a package has no @",
            ),
            ("=me:hush@example.org", "is not a requirement"),
            ("--config-settings x", "the option is not supported"),
            ("--index-url", "the option is not supported"),
            ("numpy pandas", "is not a requirement"),
            ("=1.0", "is not a requirement"),
            ("-r https://example.org/r.txt", "give a file of this machine"),
            ("-r absent.txt", "it cannot be read: No such file"),
        ] {
            let read = read(&[line]);
            assert!(
                read.problems.len() == 1 && read.problems[0].contains(part),
                "{line}: {:?}",
                read.problems
            );
            assert!(!read.problems[0].contains("hush"), "{line}");
            assert!(read.packages.requirements.is_empty() && read.packages.options.is_empty(), "{line}");
        }
    }

    #[test]
    fn a_token_in_a_query_is_taken_with_a_note() {
        let read = read(&["a @ https://h/a.whl?token=hush"]);
        assert_eq!((read.packages.requirements.len(), read.problems.len()), (1, 0));
        assert!(
            read.notes[0].contains("looks like a token") && !read.notes[0].contains("hush"),
            "{:?}",
            read.notes
        );
    }

    #[test]
    fn what_is_of_azure_is_left_out_unless_it_is_kept() {
        let lines = ["azureml_core==1.5", "AzureML-Defaults", "azure-ai-ml", "mltable"];
        let left = read(&lines);
        assert_eq!(
            (left.packages.requirements, left.notes.len()),
            (vec!["azure-ai-ml".into(), "mltable".into()], 2)
        );
        let mut kept = Requirements::keeping(vec!["azureml-core".to_owned()]);
        for line in lines {
            kept.line(line, "f:1", Path::new("/"));
        }
        assert_eq!((kept.packages.requirements.len(), kept.notes.len()), (3, 1));
    }

    #[test]
    fn files_include_others_beside_them_and_not_themselves() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        std::fs::create_dir(folder.path().join("more")).unwrap();
        write("requirements.txt", "\u{FEFF}b\n-r more/other.txt\n-c more/limits.txt\na \\\n  ==1.0\n");
        write("more/other.txt", "c\n--requirement third.txt\n");
        write("more/third.txt", "d\n");
        write("more/limits.txt", "e<2\n");
        let mut read = Requirements::default();
        read.file(&folder.path().join("requirements.txt"));
        assert_eq!(read.problems, [""; 0]);
        assert_eq!(read.packages.requirements, ["b", "c", "d", "a   ==1.0"]);
        assert_eq!(read.packages.constraints, ["e<2"]);
        write("more/third.txt", "-r ../requirements.txt\n");
        let mut read = Requirements::default();
        read.file(&folder.path().join("requirements.txt"));
        assert!(
            read.problems.len() == 1 && read.problems[0].contains("includes itself"),
            "{:?}",
            read.problems
        );
    }
}
