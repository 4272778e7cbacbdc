//! The cost of hostile input: what reads foreign text or archives does work in proportion to their size.
//!
//! Work is counted in bytes and blocks that are allocated, for times say little on a busy machine. Eight times as much of
//! anything takes nine times as much work at most, whether it is taken or refused. A program of its own, for the counting
//! allocator sees every thread.

#![allow(clippy::unwrap_used, reason = "a step of a test that fails is a panic")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it needs by path")]

mod forms;

use std::alloc::System;
use std::fmt::Write;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use forms::Options;
use prs_common::code::archive;
use prs_common::code::files::{CodeFiles, IgnoreRules};
use prs_common::job::{Given, JobText, RunsOn, load_given, local_paths};
use prs_jobs::blobs::read_manifest;
use prs_jobs::intake::unpack::unpack;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tempfile::TempDir;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// How many times as much there is the second time.
const MORE: usize = 8;
/// How many times as much work that may take.
const MOST: usize = 9;
/// Of something small, as an entry of a list.
const MANY: usize = 200;
/// Of something large, as a step of a pipeline or a file.
const FEW: usize = 100;

/// Makes so many of something in a folder, and gives what reads them.
type Prepare<'a> = &'a dyn Fn(&Path, usize) -> Box<dyn FnOnce()>;

/// A reader, with so many of something that it reads the first time, and what makes these in a folder.
struct Reader {
    name: &'static str,
    count: usize,
    prepare: fn(&Path, usize) -> Box<dyn FnOnce()>,
}

/// A folder with a script and an input.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("main.py"), "").unwrap();
    fs::create_dir(folder.path().join("data")).unwrap();
    fs::write(folder.path().join("data/a.csv"), "a,b\n1,2\n").unwrap();
    folder
}

/// Bytes and blocks that `run` allocates.
fn work(run: impl FnOnce()) -> [usize; 2] {
    let region = Region::new(ALLOCATOR);
    run();
    let done = region.change();
    [done.bytes_allocated, done.allocations + done.reallocations]
}

#[test]
fn work_grows_no_faster_than_what_is_read() {
    let mut wrong = String::new();
    let mut check = |name: &str, count: usize, prepare: Prepare<'_>| {
        let [once, more] = [count, MORE * count].map(|count| {
            let folder = folder();
            work(prepare(folder.path(), count))
        });
        for (what, once, more) in [("bytes", once[0], more[0]), ("blocks", once[1], more[1])] {
            if more > MOST * once {
                let _ =
                    writeln!(wrong, "{name}: {once} {what} for {count}, and {more} for {MORE} times as much");
            }
        }
    };
    // What is made once, such as tables of patterns, does not count.
    work(job_of("entry_script: main.py\n".to_owned(), Vec::new(), folder().path()));
    for form in forms::FORMS.iter().copied().flatten() {
        let count = if form.is_large { FEW } else { MANY };
        check(form.name, count, &|folder, count| {
            let (text, overrides) = (form.make)(folder, count);
            job_of(text, overrides, folder)
        });
    }
    for Reader { name, count, prepare } in READERS {
        check(name, *count, prepare);
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Reads the text of a job as a server gets it, and looks for what has to come along with it.
fn job_of(text: String, overrides: Options, folder: &Path) -> Box<dyn FnOnce()> {
    let folder = folder.to_owned();
    Box::new(move || {
        let text =
            JobText { text: &text, folder: &folder, root: &folder, allowed: &[], sent: None, reach: None };
        let given = || Given { overrides: &overrides, text: Some(text), ..Given::default() };
        black_box(local_paths(RunsOn::Workers, given()).len());
        black_box(load_given(RunsOn::Workers, Path::new(""), given()).is_ok());
    })
}

/// Makes `count` small files in the folder of this name.
fn files(folder: &Path, name: &str, count: usize) -> PathBuf {
    let made = folder.join(name);
    fs::create_dir(&made).unwrap();
    for number in 0..count {
        fs::write(made.join(format!("f{number}")), "x").unwrap();
    }
    made
}

/// A tar.gz with so many small files.
fn tar(count: usize) -> Vec<u8> {
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for number in 0..count {
        let mut header = tar::Header::new_gnu();
        header.set_size(1);
        header.set_mode(0o644);
        builder.append_data(&mut header, format!("f{number}"), &b"x"[..]).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

const READERS: &[Reader] = &[
    Reader {
        name: "code that is packed",
        count: FEW,
        prepare: |folder, count| {
            let code = files(folder, "code", count);
            Box::new(move || drop(archive::pack(&code).unwrap()))
        },
    },
    Reader {
        name: "code with an ignore file",
        count: FEW,
        prepare: |folder, count| {
            let code = files(folder, "code", 10);
            fs::write(code.join(".prsignore"), lines(count, |line| format!("/a{line}/*.bin"))).unwrap();
            Box::new(move || drop(CodeFiles::find(&code).unwrap()))
        },
    },
    Reader {
        name: "paths that an ignore file may keep out",
        count: MANY,
        prepare: |_, count| {
            let rules = IgnoreRules::parse(Path::new(".gitignore"), "*.bin\n/data/\n!keep.bin\n").unwrap();
            Box::new(move || {
                for number in 0..count {
                    black_box(rules.keep_out(Path::new(&format!("a/b{number}.bin")), false));
                }
            })
        },
    },
    Reader {
        name: "an archive of code that a node unpacks",
        count: FEW,
        prepare: |folder, count| {
            let (body, folder) = (tar(count), folder.join("out"));
            Box::new(move || {
                black_box(archive::sizes(&body).unwrap().len() + archive::files(&body).unwrap().len());
                archive::unpack(&body, &folder).unwrap();
            })
        },
    },
    Reader {
        name: "an archive that comes with a request",
        count: FEW,
        prepare: |folder, count| {
            let (path, out) = (folder.join("code.tar.gz"), folder.join("out"));
            fs::create_dir(&out).unwrap();
            fs::write(&path, tar(count)).unwrap();
            Box::new(move || unpack(&path, &out).unwrap())
        },
    },
    Reader {
        name: "a manifest",
        count: MANY,
        prepare: |_, count| {
            let text = lines(count, |number| {
                format!("{{\"path\": \"d/f{number}\", \"bytes\": 1, \"sha256\": \"{number:064x}\"}}")
            });
            Box::new(move || drop(read_manifest(&text).unwrap()))
        },
    },
];

/// Lines, one for each number below `count`.
fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).fold(String::new(), |mut lines, number| {
        lines.push_str(&line(number));
        lines.push('\n');
        lines
    })
}
