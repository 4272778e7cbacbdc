//! Links, mount points, hard links, sockets and files of other owners at the paths that prs removes, renames, makes and writes,
//! put there by the script and by a neighbour: what they lead to stays as it is.
//!
//! Each run has a mount namespace in which its own folder alone can be written. The canary tree lies in that folder, beside the
//! job, so that harm to it is possible, and seen. `PRS_FOREIGN_RUNS` runs [25], from the seed `PRS_FOREIGN_SEED` [1] on. A job
//! whose folders are taken away may fail; no command may hang or panic.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use prs_tests::harness::{Job, bin_dir, python};
use serde_json::{Value, json};

const PLANTER: &str = include_str!("foreign_trees/planter.py");
const SCRIPT: &str = include_str!("foreign_trees/script.py");
const DRIVE: &str = include_str!("foreign_trees/drive.py");
/// Runs side by side: most of one is waiting.
const AT_ONCE: usize = 4;
/// What is planted, and needs no right that a container may lack.
const KINDS: [&str; 12] = [
    "link",
    "file-link",
    "new-link",
    "hard-link",
    "hard-link-beside",
    "link-beside",
    "pipe",
    "socket",
    "gone",
    "empty-folder",
    "empty-file",
    "closed",
];

/// What is seen of a file or a folder: kind and mode, owner, size, time of change, content or what a link holds.
type Seen = (u32, u32, u32, u64, (i64, i64), Vec<u8>);

/// All of a tree that nobody may change.
fn tree(folder: &Path) -> BTreeMap<PathBuf, Seen> {
    let mut found = BTreeMap::new();
    let mut ahead = vec![folder.to_owned()];
    while let Some(path) = ahead.pop() {
        let meta = path.symlink_metadata().unwrap();
        let content = if meta.is_dir() {
            ahead.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            Vec::new()
        } else if meta.is_symlink() {
            fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
        } else {
            fs::read(&path).unwrap()
        };
        let size = if meta.is_dir() { 0 } else { meta.len() };
        let changed = (meta.mtime(), meta.mtime_nsec());
        found.insert(path, (meta.mode(), meta.uid(), meta.gid(), size, changed, content));
    }
    found
}

/// Names of the files of the canary tree, each of which has one.
fn links(folder: &Path) -> u64 {
    let files = tree(folder).into_keys().map(|path| path.symlink_metadata().unwrap());
    files.filter(|meta| !meta.is_dir()).map(|meta| meta.nlink()).sum()
}

/// Files, folders and links of others, some without permissions, some with the names that prs gives its own.
fn make_canary(canary: &Path) {
    for folder in ["deep/er", ".tmp", "output", "logs/sys", "segments", "closed"] {
        fs::create_dir_all(canary.join(folder)).unwrap();
    }
    let files = [
        "a",
        "deep/b",
        "deep/er/c",
        ".tmp/x",
        "output/rows.txt",
        "logs/readme.txt",
        "logs/sys/d",
        "closed/e",
        "segments/0001-00000-5f-00000000.seg",
        "job.json",
        ".lock",
        "cancel",
        "stack.txt",
        "readme.txt",
    ];
    for file in files {
        fs::write(canary.join(file), format!("{file} is of others\n").repeat(9)).unwrap();
    }
    symlink("deep", canary.join("link")).unwrap();
    fs::set_permissions(canary.join("a"), fs::Permissions::from_mode(0o604)).unwrap();
    fs::set_permissions(canary.join("deep/er"), fs::Permissions::from_mode(0o705)).unwrap();
    fs::set_permissions(canary.join("closed"), fs::Permissions::from_mode(0o500)).unwrap();
}

/// `bwrap` with a namespace in which `folder` alone can be written.
fn namespace(folder: &Path) -> Command {
    let mut bwrap = Command::new("bwrap");
    bwrap.args([
        "--die-with-parent",
        "--unshare-pid",
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
    ]);
    bwrap.arg("--bind").arg(folder).arg(folder).arg("--chdir").arg(folder).arg("--clearenv");
    if rustix::process::geteuid().is_root() {
        // To mount, and to give files to others.
        bwrap.args(["--cap-add", "ALL"]);
    }
    bwrap
}

/// Plays one run. Returns what was planted.
fn play(seed: u64) -> BTreeSet<String> {
    let job = Job::new(SCRIPT).with_files(6).with("process_count_per_node", 1 + seed % 2);
    let mut job = job.with("error_threshold", 2).with("run_max_try", 2);
    let at = |name: &str| job.path(name);
    for name in ["tmp", "home", "runtime", "aside", "side"] {
        fs::create_dir(at(name)).unwrap();
    }
    fs::set_permissions(at("runtime"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(at("side/model"), "model").unwrap();
    job.code("planter.py", PLANTER);
    let (canary, planted) = (at("canary"), at("planted"));
    let (drive, aside) = (at("drive.py"), at("aside"));
    fs::write(&drive, DRIVE).unwrap();
    make_canary(&canary);
    let before = tree(&canary);
    let names = links(&canary);
    let shown = |path: &Path| path.display().to_string();
    let roots = ["run", "run", "run", "run", "tmp", "home", "runtime"].map(|name| shown(&at(name))).join(":");
    let variables = [
        ("PRS_TEST_CANARY", shown(&canary)),
        ("PRS_TEST_ROOTS", roots),
        ("PRS_TEST_ASIDE", shown(&aside)),
        ("PRS_TEST_PLANTED", shown(&planted)),
        ("PRS_TEST_SEED", seed.to_string()),
        ("PRS_TEST_MARKS", shown(&at("marks"))),
        ("PYTHONDONTWRITEBYTECODE", "1".to_owned()),
    ];
    let (temporary, home, runtime) = (shown(&at("tmp")), shown(&at("home")), shown(&at("runtime")));
    let side = shown(&at("side"));
    job.set("environment_variables", json!(variables.iter().cloned().collect::<BTreeMap<_, _>>()));
    if seed.is_multiple_of(3) {
        job.set("side_inputs", json!({ "side": side }));
    }
    let file = job.write_job_file();
    let mut command = namespace(job.path("").as_path());
    let own = [
        ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
        ("TMPDIR", temporary),
        ("HOME", home),
        ("XDG_RUNTIME_DIR", runtime),
        ("XDG_CONFIG_HOME", "/dev/null".to_owned()),
        ("AZ_BATCHAI_GPU_COUNT_FOUND", "0".to_owned()),
        ("RUST_BACKTRACE", "1".to_owned()),
    ];
    for (name, value) in own.into_iter().chain(variables) {
        command.args(["--setenv", name, &value]);
    }
    command.arg(python()).arg(&drive).arg(bin_dir().join("prs")).arg(file).arg(job.run().path());
    let ended = command.arg(seed.to_string()).stdin(Stdio::null()).output();
    let ended = ended.expect("bwrap runs a job in a namespace of its own: make servers installs it");
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    let errors = String::from_utf8_lossy(&ended.stderr);
    let planted = fs::read_to_string(&planted).unwrap_or_default();
    let story = format!("seed {seed}\n{planted}{said}{errors}");
    assert!(ended.status.success(), "the namespace, or what drives the run, fails: {story}");
    let commands: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(commands.len(), 5, "{story}");
    for command in commands {
        let said = command["said"].as_str().unwrap();
        let code = command["code"].as_i64().unwrap();
        assert!(code >= 0 && !said.contains("panicked at") && !said.contains("ended by the test"), "{story}");
    }
    let after = tree(&canary);
    let changed = before.keys().chain(after.keys()).filter(|path| before.get(*path) != after.get(*path));
    let changed: BTreeSet<_> = changed.collect();
    assert!(changed.is_empty(), "{changed:?} changed: {story}");
    // Without the names that were planted, each has its own again.
    let kept = canary.file_name();
    for entry in fs::read_dir(job.path("")).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() && Some(&*entry.file_name()) != kept {
            open_all(&entry.path());
            fs::remove_dir_all(entry.path()).unwrap();
        }
    }
    assert_eq!(links(&canary), names, "a file of others has another name somewhere: {story}");
    let kind = |line: &str| serde_json::from_str::<(String, String)>(line).unwrap().0;
    planted.lines().map(kind).collect()
}

/// Gives this user all rights on the folders below one.
fn open_all(folder: &Path) {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            open_all(&entry.path());
        }
    }
}

#[test]
fn a_job_that_a_link_among_the_runs_leads_to_is_not_removed() {
    let job = Job::new("def run(mini_batch):\n    return mini_batch\n").with_files(2);
    job.completes();
    let (runs, run) = (job.path("runs"), job.run().path().display().to_string());
    fs::create_dir(&runs).unwrap();
    symlink(&run, runs.join("linked")).unwrap();
    let runs = runs.display().to_string();
    let refused = job.command(&["rm", "linked", "-y", "--runs", &runs]);
    refused.expect_code(2);
    assert!(refused.stderr.contains("is a link to"), "{}", refused.stderr);
    job.command(&["rm", "--state", "completed", "-y", "--runs", &runs]).expect_code(0);
    assert_eq!(job.run().rows().len(), 2);
    // The folder is named, whatever leads to it.
    job.command(&["rm", &format!("{runs}/linked"), "-y", "--runs", &runs]).expect_code(0);
    assert!(!job.run().path().exists());
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

#[test]
fn what_is_put_in_the_place_of_files_of_a_job_is_never_followed() {
    let first = setting("PRS_FOREIGN_SEED", 1);
    let runs = setting("PRS_FOREIGN_RUNS", 25);
    let (next, kinds) = (AtomicU64::new(first), Mutex::new(BTreeSet::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + runs {
                        break;
                    }
                    let planted = play(seed);
                    kinds.lock().unwrap_or_else(PoisonError::into_inner).extend(planted);
                }
            });
        }
    });
    let kinds = kinds.into_inner().unwrap();
    if runs >= 25 {
        let missing: Vec<_> = KINDS.iter().filter(|kind| !kinds.contains(**kind)).collect();
        assert!(missing.is_empty(), "{missing:?} were never planted, only {kinds:?}");
    }
}
