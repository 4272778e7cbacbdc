//! Order against a plain sort of whole paths, globs, lists, and what is refused.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

/// A fresh folder with these files, each holding its own relative path.
fn folder_with(files: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in files {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file).unwrap();
    }
    folder
}

fn paths(folder: &TempDir, patterns: &[&str]) -> InputSource {
    let root = folder.path().to_str().unwrap();
    InputSource::Paths(patterns.iter().map(|pattern| format!("{root}/{pattern}")).collect())
}

fn list(source: &InputSource) -> Result<Vec<Entry>, ListingError> {
    Listing::open(source, ListingOptions::default())?.collect()
}

/// Absolute paths of the listing, relative to `folder`.
fn names(folder: &TempDir, source: &InputSource) -> Vec<String> {
    let entries = list(source).unwrap();
    let root = folder.path();
    entries
        .iter()
        .map(|entry| entry.path().strip_prefix(root).unwrap().to_str().unwrap().to_owned())
        .collect()
}

fn error(source: &InputSource) -> String {
    list(source).unwrap_err().to_string()
}

#[test]
fn order_is_bytewise_by_relative_path_not_by_folder() {
    let files = ["a.txt", "a/b", "a/z/1", "a0", "a-b", "a.b/c", "B", "é", "z", ".hidden", ".git/x"];
    let folder = folder_with(&files);
    let mut expected = files.map(str::to_owned);
    expected.sort();
    assert_eq!(
        names(&folder, &InputSource::Paths(vec![folder.path().to_str().unwrap().to_owned()])),
        expected
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn order_equals_a_plain_sort_of_whole_paths(
        tree in prop::collection::vec(prop::collection::vec("[-.!/0aé]{1,3}", 1..5), 1..40)
    ) {
        let folder = tempfile::tempdir().unwrap();
        for parts in tree {
            let relative: Vec<String> = parts
                .iter()
                .map(|part| part.replace('/', "0"))
                .filter(|part| part != "." && part != "..")
                .collect();
            let path = folder.path().join(relative.join("/"));
            // A name that is a folder already, or lies below a file, is not in the tree.
            if fs::create_dir_all(path.parent().unwrap()).is_ok() && !path.is_dir() {
                let _ = fs::write(path, "");
            }
        }
        let mut expected: Vec<String> = walkdir::WalkDir::new(folder.path())
            .into_iter()
            .map(Result::unwrap)
            .filter(|entry| entry.file_type().is_file())
            .map(|entry| entry.path().strip_prefix(folder.path()).unwrap().to_str().unwrap().to_owned())
            .collect();
        expected.sort();
        let root = InputSource::Paths(vec![folder.path().to_str().unwrap().to_owned()]);
        let listed = list(&root);
        if expected.is_empty() {
            prop_assert!(listed.is_err());
        } else {
            let listed: Vec<String> = listed.unwrap().into_iter().map(|entry| entry.relative).collect();
            prop_assert_eq!(listed, expected);
        }
    }
}

#[test]
fn base_and_relative_path_split_at_the_path_given() {
    let folder = folder_with(&["in/sub/x.csv"]);
    let root = folder.path().to_str().unwrap();
    for (pattern, base, relative) in [
        ("in", "in", "sub/x.csv"),
        ("in/", "in", "sub/x.csv"),
        ("in/sub/x.csv", "in/sub", "x.csv"),
        ("in/*/x.csv", "in", "sub/x.csv"),
        ("in/**/*.csv", "in", "sub/x.csv"),
        ("in/sub", "in/sub", "x.csv"),
        ("in/sub/*", "in/sub", "x.csv"),
    ] {
        let entries = list(&paths(&folder, &[pattern])).unwrap();
        assert_eq!(entries.len(), 1, "{pattern}");
        assert_eq!(*entries[0].base, format!("{root}/{base}"), "{pattern}");
        assert_eq!(entries[0].relative, relative, "{pattern}");
        assert_eq!(entries[0].state, None, "{pattern}");
    }
}

#[test]
fn paths_follow_each_other_in_the_order_given() {
    let folder = folder_with(&["b/2", "b/1", "a/9", "c.txt", "empty/sub/x"]);
    fs::remove_file(folder.path().join("empty/sub/x")).unwrap();
    assert_eq!(
        names(&folder, &paths(&folder, &["c.txt", "b", "empty", "a", "b/*"])),
        ["c.txt", "b/1", "b/2", "a/9", "b/1", "b/2"]
    );
}

#[test]
fn globs() {
    let files = ["a.csv", "b.txt", "d/a.csv", "d/e/a.csv", "d/.h.csv", "d2/x/a.csv", "x[1].csv"];
    let folder = folder_with(&files);
    for (pattern, expected) in [
        ("*.csv", &["a.csv", "x[1].csv"][..]),
        ("*/*.csv", &["d/.h.csv", "d/a.csv"]),
        ("**/*.csv", &["a.csv", "d/.h.csv", "d/a.csv", "d/e/a.csv", "d2/x/a.csv", "x[1].csv"]),
        ("d/**", &["d/.h.csv", "d/a.csv", "d/e/a.csv"]),
        ("d?/**/a.csv", &["d2/x/a.csv"]),
        ("[ab].*", &["a.csv", "b.txt"]),
        ("{a.csv,d/e/a.csv}", &["a.csv", "d/e/a.csv"]),
        ("{d,d2}/*/a.csv", &["d/e/a.csv", "d2/x/a.csv"]),
        ("*/{e,x}/*", &["d/e/a.csv", "d2/x/a.csv"]),
        ("x[1].csv", &["x[1].csv"]),
        ("x\\[1\\].csv", &["x[1].csv"]),
    ] {
        assert_eq!(names(&folder, &paths(&folder, &[pattern])), expected, "{pattern}");
    }
}

#[test]
fn folders_that_a_glob_begins_with_are_meant_by_their_names() {
    let files = [
        "run[12]/x/data/own.csv",
        "run1/x/data/other.csv",
        "{a,b}/own.csv",
        "a/x.csv",
        "*/own.csv",
        "c?/d/own",
    ];
    let folder = folder_with(&files);
    let table: [(&str, &[&str], &str); 6] = [
        ("run[12]/x/data/*.csv", &["run[12]/x/data/own.csv"], "own.csv"),
        ("run[12]/*/data/*.csv", &["run[12]/x/data/own.csv"], "x/data/own.csv"),
        // Nothing has this name.
        ("run[1]/x/data/*.csv", &["run1/x/data/other.csv"], "run1/x/data/other.csv"),
        ("{a,b}/*.csv", &["{a,b}/own.csv"], "own.csv"),
        ("*/*.csv", &["*/own.csv"], "own.csv"),
        ("c?/*/own", &["c?/d/own"], "d/own"),
    ];
    for (pattern, expected, relative) in table {
        let source = paths(&folder, &[pattern]);
        assert_eq!(names(&folder, &source), expected, "{pattern}");
        assert_eq!(list(&source).unwrap()[0].relative, relative, "{pattern}");
    }
}

fn input_of(folder: &TempDir, kind: InputKind, patterns: &[&str], ignore: &[&str]) -> Input {
    let mut input = Input::new("rows", kind, paths(folder, patterns));
    input.exclusions.ignore = ignore.iter().map(|glob| (*glob).to_owned()).collect();
    input.exclusions.outputs = vec![folder.path().join("in/own").to_str().unwrap().to_owned()];
    input
}

#[test]
fn what_is_no_data_is_left_out_of_a_folder_and_counted() {
    let files = [
        "in/a.csv",
        "in/_SUCCESS",
        "in/.a.csv.crc",
        "in/_delta_log/0.json",
        "in/_x.csv",
        "in/own/result.csv",
        "in/runs/one/job.json",
        "in/runs/one/.lock",
        "in/runs/one/output/r.csv",
        "in/job/job.json",
        "in/job/b.csv",
        "in/filling/.prs-claim",
        "in/filling/r.csv",
        "in/old/c.csv",
        "in/d.tmp",
    ];
    let folder = folder_with(&files);
    // What is left out need not be readable.
    symlink("nowhere", folder.path().join("in/runs/one/link")).unwrap();
    symlink("nowhere", folder.path().join("in/lost.tmp")).unwrap();
    let listed = |kind, patterns: &[&str], ignore: &[&str]| {
        let input = input_of(&folder, kind, patterns, ignore);
        let mut listing = Listing::of_input(&input, ListingOptions::default()).unwrap();
        let entries: Result<Vec<Entry>, _> = listing.by_ref().collect();
        let names =
            entries.map(|entries| entries.into_iter().map(|entry| entry.relative).collect::<Vec<_>>());
        (names.map_err(|error| error.to_string()), listing.left_out().to_string())
    };
    let ignore = ["*.tmp", "/old/"];
    let (names, left_out) = listed(InputKind::Tabular, &["in"], &ignore);
    assert_eq!(names.unwrap(), ["_x.csv", "a.csv", "job/b.csv", "job/job.json"]);
    assert_eq!(
        left_out,
        "1 folder of a run left out (runs/one): a path or glob that names it reads it; 2 folders of outputs left out (such \
         as filling): a path or glob that names it reads it; 3 entries that programs write beside tables left out (such as \
         .a.csv.crc): a glob or list that names it reads it; 3 entries that ignore names left out (such as d.tmp)"
    );
    // Files are files, also those of programs.
    let (names, _) = listed(InputKind::File, &["in"], &ignore);
    let expected =
        [".a.csv.crc", "_SUCCESS", "_delta_log/0.json", "_x.csv", "a.csv", "job/b.csv", "job/job.json"];
    assert_eq!(names.unwrap(), expected);
    // A glob takes what it names, and does not lead into runs by `**`.
    let (names, left_out) = listed(InputKind::Tabular, &["in/*"], &["*.tmp"]);
    assert_eq!(names.unwrap(), [".a.csv.crc", "_SUCCESS", "_x.csv", "a.csv"]);
    assert_eq!(left_out, "2 entries that ignore names left out (such as d.tmp)");
    let (names, _) = listed(InputKind::Tabular, &["in/**/*.csv"], &[]);
    assert_eq!(names.unwrap(), ["_x.csv", "a.csv", "job/b.csv", "old/c.csv"]);
    let (names, _) = listed(InputKind::Tabular, &["in/runs/*/output/*.csv", "in/filling/*.csv"], &[]);
    assert_eq!(names.unwrap(), ["one/output/r.csv", "r.csv"]);
    // So does a path.
    let (names, _) = listed(InputKind::Tabular, &["in/runs/one/output", "in/filling", "in/_SUCCESS"], &[]);
    assert_eq!(names.unwrap(), ["r.csv", "r.csv", "_SUCCESS"]);

    let (names, _) = listed(InputKind::File, &["in"], &[]);
    let error = names.unwrap_err();
    assert!(error.contains("in/lost.tmp is a broken link, to nowhere: remove it"), "{error}");
    let (names, _) = listed(InputKind::Tabular, &["in/own", "in/filling/*.none"], &[]);
    assert!(names.unwrap_err().contains("no file found"), "nothing is picked");
    let (names, _) = listed(InputKind::File, &["in/old"], &["*.csv"]);
    let error = names.unwrap_err();
    assert!(error.contains("in/old (1 entry that ignore names left out (c.csv)): an input needs"), "{error}");
}

#[test]
fn a_glob_reads_only_folders_that_can_hold_a_match() {
    let folder = folder_with(&["in/a/1.csv", "other/x/1.csv", "in/a/deep/er/2.csv"]);
    // A loop that any walk through it would refuse.
    symlink(folder.path().join("other"), folder.path().join("other/x/loop")).unwrap();
    symlink(folder.path().join("in/a"), folder.path().join("in/a/deep/loop")).unwrap();
    assert_eq!(names(&folder, &paths(&folder, &["i*/*/*.csv"])), ["in/a/1.csv"]);
    assert!(matches!(list(&paths(&folder, &["i*/**/*.csv"])), Err(ListingError::Cycle { .. })));
}

#[test]
fn a_glob_leaves_alone_what_it_does_not_pick() {
    let folder = folder_with(&["a.csv"]);
    symlink("nowhere", folder.path().join("dangling.txt")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, folder.path().join("pipe.txt"), 0o600.into()).unwrap();
    fs::write(folder.path().join(std::ffi::OsStr::from_bytes(b"\xFF.txt")), "").unwrap();
    assert_eq!(names(&folder, &paths(&folder, &["*.csv"])), ["a.csv"]);
    assert_eq!(names(&folder, &paths(&folder, &["**/*.csv"])), ["a.csv"]);
}

#[test]
fn nothing_found_is_an_error_that_names_the_pattern() {
    let folder = folder_with(&["a.csv"]);
    fs::create_dir_all(folder.path().join("empty/sub")).unwrap();
    let root = folder.path().to_str().unwrap();
    for (patterns, named) in [
        (&["empty"][..], format!("{root}/empty")),
        (&["*.tsv"], format!("{root}/*.tsv")),
        (&["a.csv", "*.tsv"], format!("{root}/*.tsv")),
        (&["*.tsv", "a.csv"], format!("{root}/*.tsv")),
        (&["empty", "empty/sub"], format!("{root}/empty, {root}/empty/sub")),
        (&["em*"], format!("{root}/em*")),
    ] {
        assert_eq!(
            error(&paths(&folder, patterns)),
            format!("no file found in {named}: an input needs at least one file")
        );
    }
}

#[test]
fn an_error_ends_the_listing() {
    let folder = folder_with(&["a/1", "b/1"]);
    rustix::fs::mkfifoat(rustix::fs::CWD, folder.path().join("b/pipe"), 0o600.into()).unwrap();
    let mut listing = Listing::open(&paths(&folder, &["a", "b"]), ListingOptions::default()).unwrap();
    let mut entries = Vec::new();
    assert!(listing.next_batch(10, &mut entries).is_err());
    assert_eq!(entries.len(), 1);
    assert_eq!(listing.next_batch(10, &mut entries).unwrap(), 0);
    assert!(listing.next().is_none());
}

#[test]
fn batches_join_to_the_whole() {
    let folder = folder_with(&["1", "2", "a/1", "a/2", "b"]);
    let source = paths(&folder, &["", "a"]);
    let whole = list(&source).unwrap();
    assert_eq!(whole.len(), 7);
    for size in 1..9 {
        let mut listing = Listing::open(&source, ListingOptions::default()).unwrap();
        let mut entries = Vec::new();
        while listing.next_batch(size, &mut entries).unwrap() == size {}
        assert_eq!(entries, whole, "batches of {size}");
    }
}

#[test]
fn links_are_followed_and_loops_refused() {
    let folder = folder_with(&["in/real/x", "elsewhere/y", "elsewhere/sub/z"]);
    symlink("../elsewhere", folder.path().join("in/link")).unwrap();
    symlink("real/x", folder.path().join("in/x")).unwrap();
    symlink("in", folder.path().join("input")).unwrap();
    let expected = ["in/link/sub/z", "in/link/y", "in/real/x", "in/x"];
    assert_eq!(names(&folder, &paths(&folder, &["in"])), expected);
    assert_eq!(
        names(&folder, &paths(&folder, &["input"])),
        expected.map(|path| path.replace("in/", "input/"))
    );

    symlink("..", folder.path().join("elsewhere/sub/up")).unwrap();
    let root = folder.path().to_str().unwrap();
    assert_eq!(
        error(&paths(&folder, &["in"])),
        format!(
            "{root}/in/link/sub/up is a symbolic link to {root}/in/link/, a folder that holds it: remove the link"
        )
    );
}

#[test]
fn refused_names_and_files_are_named() {
    let folder = folder_with(&["dangling/x", "pipe/x", "socket/x", "name/x"]);
    let root = folder.path().to_str().unwrap();
    symlink("nowhere", folder.path().join("dangling/link")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, folder.path().join("pipe/p"), 0o600.into()).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket/s")).unwrap();
    fs::write(folder.path().join(std::ffi::OsStr::from_bytes(b"name/\xFFy")), "").unwrap();
    for (input, expected) in [
        (
            "dangling",
            format!(
                "{root}/dangling/link is a broken link, to nowhere: remove it, or leave it out with ignore"
            ),
        ),
        ("pipe", format!("{root}/pipe/p is a named pipe: an input holds only files and folders")),
        ("pipe/p", format!("{root}/pipe/p is a named pipe: an input holds only files and folders")),
        ("socket", format!("{root}/socket/s is a socket: an input holds only files and folders")),
        ("name", format!("the name of {root}/name/\u{FFFD}y is not UTF-8: rename the file")),
        ("absent", format!("cannot read {root}/absent: No such file or directory (os error 2)")),
        ("absent/*", format!("cannot read {root}/absent/: No such file or directory (os error 2)")),
        ("[z-a]", format!("{root}/[z-a] is not a valid glob: invalid range; 'z' > 'a'")),
    ] {
        let source = paths(&folder, &[input]);
        assert_eq!(error(&source), expected, "{input}");
        // Whether `ignore` names what cannot be a file is not asked yet.
        if ["dangling", "pipe", "socket"].contains(&input) {
            probe(&source).unwrap();
        }
    }
    // Opening it would wait for who writes.
    let pipe = InputSource::List(folder.path().join("pipe/p"));
    assert!(error(&pipe).contains("pipe/p is a named pipe"));
}

#[test]
fn a_folder_that_cannot_be_read_is_named_with_the_reason() {
    let folder = folder_with(&["in/a", "in/shut/x"]);
    let shut = folder.path().join("in/shut");
    fs::set_permissions(&shut, fs::Permissions::from_mode(0o000)).unwrap();
    let listed = list(&paths(&folder, &["in"]));
    // The superuser reads every folder.
    let superuser = rustix::process::geteuid().is_root();
    fs::set_permissions(&shut, fs::Permissions::from_mode(0o700)).unwrap();
    match listed {
        Ok(entries) => assert!(superuser && entries.len() == 2),
        Err(error) => assert_eq!(
            error.to_string(),
            format!("cannot read {}/: Permission denied (os error 13)", shut.display())
        ),
    }
}

#[test]
fn versions_are_looked_up_where_asked_for() {
    let folder = folder_with(&["in/a", "in/bcd/e", "f"]);
    let options = ListingOptions { versions: true };
    let listing = Listing::open(&paths(&folder, &["in", "f", "in/*/e"]), options).unwrap();
    let entries: Vec<Entry> = listing.map(Result::unwrap).collect();
    let sizes: Vec<u64> = entries.iter().map(|entry| entry.state.unwrap().seen.version.size).collect();
    assert_eq!(sizes, [4, 8, 1, 8]);
    for entry in entries {
        let seen = FileState::of(&fs::metadata(entry.path()).unwrap());
        assert_eq!(entry.state, Some(seen));
    }
}

#[test]
fn a_file_that_goes_meanwhile_has_no_version() {
    let folder = folder_with(&["in/a", "in/b", "in/c"]);
    let mut listing = Listing::open(&paths(&folder, &["in"]), ListingOptions { versions: true }).unwrap();
    assert!(listing.next().unwrap().unwrap().state.is_some());
    fs::remove_file(folder.path().join("in/b")).unwrap();
    let gone = listing.next().unwrap().unwrap();
    assert_eq!((&*gone.relative, gone.state), ("b", None));
    assert!(listing.next().unwrap().unwrap().state.is_some());
}

#[test]
fn list_lines_are_taken_as_they_stand() {
    let folder = folder_with(&["lists/x"]);
    let root = folder.path().to_str().unwrap();
    let file = folder.path().join("lists/files.txt");
    fs::write(
        &file,
        "\u{FEFF}/abs/b\n\n  \nrel/a b \r\n/abs/a\n../up\ns3://bucket/key\n/abs/b\nfile:///of/url\n/no/end of line",
    )
    .unwrap();
    let entries = list(&InputSource::List(file)).unwrap();
    let relative: Vec<&str> = entries.iter().map(|entry| entry.relative.as_str()).collect();
    assert_eq!(
        relative,
        [
            "/abs/b",
            &format!("{root}/lists/rel/a b "),
            "/abs/a",
            &format!("{root}/lists/../up"),
            "s3://bucket/key",
            "/abs/b",
            "/of/url",
            "/no/end of line"
        ]
    );
    assert!(entries.iter().all(|entry| entry.base.is_empty() && entry.state.is_none()));
    assert_eq!(entries[0].path(), Path::new("/abs/b"));
}

#[test]
fn list_files_that_cannot_serve_are_named() {
    let folder = folder_with(&["x"]);
    let root = folder.path().to_str().unwrap();
    fs::write(folder.path().join("blank"), "\n \n").unwrap();
    fs::write(folder.path().join("latin"), b"/ok\n/caf\xE9\n").unwrap();
    for (file, expected) in [
        ("blank", format!("no file found in {root}/blank: an input needs at least one file")),
        ("latin", format!("{root}/latin: line 2 is not UTF-8")),
        ("absent", format!("cannot read {root}/absent: No such file or directory (os error 2)")),
        ("", format!("cannot read {root}/: Is a directory (os error 21)")),
    ] {
        assert_eq!(error(&InputSource::List(folder.path().join(file))), expected);
    }
}

/// Run by hand: `cargo test --release -p prs-common --lib -- --ignored --nocapture long_list`.
#[test]
#[ignore = "a measurement"]
fn long_list_speed() {
    use std::fmt::Write;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("list");
    let mut text = String::new();
    for index in 0..2_000_000 {
        writeln!(text, "/data/images/2024/08/batch_{:04}/image_{index:08}.jpg", index % 1000).unwrap();
    }
    fs::write(&file, text).unwrap();
    let source = InputSource::List(file);
    let mut bytes = 0;
    let start = std::time::Instant::now();
    let mut listing = Listing::open(&source, ListingOptions::default()).unwrap();
    listing.visit(usize::MAX, |entry| bytes += entry.relative.len()).unwrap();
    let visited = start.elapsed();
    let start = std::time::Instant::now();
    let mut listing = Listing::open(&source, ListingOptions::default()).unwrap();
    let mut entries = Vec::new();
    while listing.next_batch(1000, &mut entries).unwrap() > 0 {
        entries.clear();
    }
    println!("{bytes} bytes; visit {visited:?}, next_batch {:?}", start.elapsed());
}
