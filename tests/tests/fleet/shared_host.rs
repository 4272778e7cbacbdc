//! A host with other users: none of them sees what a job works with, or puts anything in its place.
//!
//! The other user is `nobody`, so these tests need the right to become another user.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use prs_tests::harness::{Ended, Fleet, HOLDS, Job, Live, another_user_reads, as_another_user};
use tempfile::TempDir;

/// Servers that are not there: what is refused is refused before they are needed.
const NOWHERE: [(&str, &str); 3] = [
    ("PRS_BROKER_URL", "amqp://127.0.0.1:1/%2f"),
    ("PRS_REDIS_URL", "redis://127.0.0.1:1"),
    ("PRS_STORAGE_URL", "file:///nowhere"),
];

/// A folder where everybody may make folders, as `/tmp` is.
fn shared_folder() -> TempDir {
    let folder = tempfile::Builder::new().prefix("prs-shared-").tempdir().unwrap();
    set_mode(folder.path(), 0o1777);
    folder
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Every file below `folder`.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found
}

/// The folders of workers in `folder`.
fn workers_in(folder: &Path) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries.filter(|path| text(path).contains("/prs-worker-")).collect()
}

#[track_caller]
fn is_refused(ended: &Ended, parts: &[&str]) {
    ended.expect_code(2);
    for part in parts {
        assert!(ended.stderr.contains(part), "{part:?} is not said:\n{}", ended.stderr);
    }
}

/// Starts a worker that need not reach any server.
fn lone_worker(fleet: &Fleet, job: &Job, arguments: &[&str], temporary: Option<&Path>) -> Live {
    let variables = NOWHERE.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let temporary = temporary.map(|folder| ("TMPDIR".to_owned(), text(folder).to_owned()));
    fleet.worker_anywhere(job, arguments, &variables.chain(temporary).collect::<Vec<_>>())
}

#[test]
fn a_work_folder_that_others_could_change_is_refused() {
    let (fleet, shared) = (Fleet::shared(), shared_folder());
    let job = Job::new(HOLDS);
    let at = |name: &str| shared.path().join(name);
    as_another_user(&format!("cd {} && mkdir -m 777 first && mkdir -m 755 second", shared.path().display()))
        .unwrap();
    as_another_user(&format!("ln -s /root {0}/third; mkdir -p {0}/fourth/below", shared.path().display()))
        .unwrap();
    fs::create_dir(at("open")).unwrap();
    set_mode(&at("open"), 0o777);
    symlink("open", at("link")).unwrap();
    for (name, parts) in [
        ("first", ["belongs to another user (65534", "name a folder of your own"]),
        ("second", ["belongs to another user (65534", "name a folder of your own"]),
        ("third", ["is a link", "name the folder it leads to"]),
        ("fourth/below/new", ["belongs to user 65534", "name a folder elsewhere"]),
        ("open", ["is writable by other users (mode 0777)", "chmod go-w"]),
        ("open/new", ["is writable by everybody (mode 0777)", "name a folder elsewhere"]),
        ("link", ["is a link", "name the folder it leads to"]),
        (".", ["is writable by other users (mode 1777)", "name a folder below it"]),
    ] {
        let ended = lone_worker(fleet, &job, &["--work-dir", text(&at(name))], None).wait();
        is_refused(&ended, &parts);
        assert!(ended.stderr.contains("cannot use the work folder"), "{}", ended.stderr);
        assert!(!at("open/new").exists() && !at("fourth/below/new").exists());
    }
    // Neither does the temporary folder serve when everybody can move what is in it.
    let ended = lone_worker(fleet, &job, &[], Some(&at("open"))).wait();
    is_refused(&ended, &["is writable by everybody", "open"]);
    // What cannot be made is told the same way.
    fs::write(at("file"), "").unwrap();
    let ended = lone_worker(fleet, &job, &["--work-dir", text(&at("file/below"))], None).wait();
    is_refused(&ended, &["cannot use the work folder", "Not a directory"]);
    let ended = lone_worker(fleet, &job, &["--work-dir", "/proc/prs/work"], None).wait();
    is_refused(&ended, &["cannot use the work folder", "/proc/prs"]);
}

#[test]
fn no_other_user_reads_what_a_job_works_with_on_a_fleet() {
    let fleet = Fleet::shared();
    let (temporary, readable) = (shared_folder(), shared_folder());
    set_mode(readable.path(), 0o755);
    let in_memory = tempfile::Builder::new().prefix("prs-test-").tempdir_in("/dev/shm").unwrap();
    set_mode(in_memory.path(), 0o755);
    let named = in_memory.path().join("prs");
    let places: [(&str, &Path, Vec<&str>); 3] = [
        ("shared-host-a", temporary.path(), vec![]),
        ("shared-host-b", readable.path(), vec!["--work-dir", text(readable.path())]),
        ("shared-host-c", &named, vec!["--work-dir", text(&named)]),
    ];
    for (target, place, arguments) in places {
        let job = fleet.job(Job::new(HOLDS)).with_files(4).with("compute_target", target);
        let mut submit = fleet.start_submit(&job, &[]);
        let variables = [("TMPDIR".to_owned(), text(temporary.path()).to_owned())];
        let arguments = [&["--target", target], &arguments[..]].concat();
        let worker = fleet.worker_anywhere(&job, &arguments, &variables);
        submit.wait_until("a mini-batch that is held", || !job.marks("held").is_empty());
        let mut files = files(place);
        // Small inputs lie there, those of other tests as well.
        for worker in workers_in(Path::new("/dev/shm")) {
            files.extend(self::files(&worker));
        }
        for part in ["/code/main.py", "/inputs/", ".stdout.txt", "/process.py"] {
            assert!(files.iter().any(|file| text(file).contains(part)), "{part} is not in {files:?}");
        }
        let read: Vec<_> = files.iter().filter(|file| another_user_reads(file)).collect();
        assert!(read.is_empty(), "another user reads {read:?}");
        for place in [place, Path::new("/dev/shm")] {
            let listed = as_another_user(&format!("ls {}/prs-worker-*/*", place.display()));
            assert_eq!(listed, None, "another user sees the names of the files");
        }
        job.mark("go");
        submit.wait().expect_code(0);
        let [own] = workers_in(place).into_iter().collect::<Vec<_>>().try_into().unwrap();
        assert_eq!(fs::metadata(&own).unwrap().mode() & 0o777, 0o700);
        drop(worker);
    }
}

#[test]
fn a_worker_removes_what_killed_workers_left_and_no_more() {
    let (fleet, shared) = (Fleet::shared(), shared_folder());
    let job = fleet.job(Job::new(HOLDS));
    let named = shared.path().join("named");
    let named_arguments = ["--target", "leftovers", "--work-dir", text(&named)];
    for (place, arguments) in [(shared.path(), &named_arguments[..2]), (&named, &named_arguments[..])] {
        let variables = [("TMPDIR".to_owned(), text(shared.path()).to_owned())];
        let start = || {
            let mut worker = fleet.worker_anywhere(&job, arguments, &variables);
            worker.wait_until_said("the worker is ready");
            worker
        };
        let foreign = format!("{}/prs-worker-0123456789abcdef", shared.path().display());
        as_another_user(&format!("mkdir -p {foreign}")).unwrap();
        let theirs = workers_in(place);
        let killed = start();
        let left = &workers_in(place) - &theirs;
        assert_eq!(left.len(), 1, "{left:?}");
        let left = left.into_iter().next().unwrap();
        // As a job would leave it.
        fs::create_dir_all(left.join("job/closed/below")).unwrap();
        symlink("/etc", left.join("job/link")).unwrap();
        set_mode(&left.join("job/closed"), 0o000);
        assert!(killed.kill());
        assert!(left.exists(), "there is nothing to test");

        let mut living = start();
        let present = workers_in(place);
        assert!(!left.exists() && present.is_superset(&theirs), "{present:?}");
        // Two at once, beside the living one.
        let [mut second, mut third] = [(); 2].map(|()| fleet.worker_anywhere(&job, arguments, &variables));
        for worker in [&mut second, &mut third] {
            worker.wait_until_said("the worker is ready");
        }
        let all = workers_in(place);
        assert!(all.is_superset(&present) && all.len() == present.len() + 2, "{present:?}, then {all:?}");
        assert!(!living.has_ended());
        for mut worker in [living, second, third] {
            worker.interrupt();
            worker.wait().expect_code(0);
        }
        assert_eq!(workers_in(place), theirs, "a worker takes its folder with it");
    }
}

fn run(job: &Job) -> &Path {
    job.run().path()
}

#[test]
fn a_run_folder_that_others_could_change_is_refused() {
    let shared = shared_folder();
    let at = |name: &str| shared.path().join(name);
    let script =
        "import os\ndef run(mini_batch):\n    return [os.path.basename(path) for path in mini_batch]\n";
    let job = Job::new(script).with_files(4).with_run_folder(at("run"));
    as_another_user(&format!("mkdir -m 777 {}", at("run").display())).unwrap();
    is_refused(&job.submit(), &["cannot use the run folder", "belongs to another user (65534"]);
    assert_eq!(files(&at("run")), Vec::<PathBuf>::new(), "nothing is put there");

    // A former run, in all the states that others can bring it into.
    let ours = Job::new(script).with_files(4).with_run_folder(at("ours"));
    ours.completes();
    let status = |job: &Job| job.command(&["status", text(run(job)), "-o", "json"]).json()["state"].clone();
    let refused_with = |job: &Job, parts: &[&str]| {
        let before = files(run(job));
        for command in ["resume", "resubmit"] {
            is_refused(&job.command(&[command, text(run(job))]), parts);
        }
        assert_eq!(files(run(job)), before);
        for command in ["show", "logs", "result"] {
            job.command(&[command, text(run(job))]).expect_code(0);
        }
        assert_eq!(status(job), "completed", "what only reads may");
    };
    set_mode(run(&ours), 0o777);
    refused_with(&ours, &["is writable by other users (mode 0777)", "chmod go-w"]);
    set_mode(run(&ours), 0o755);
    set_mode(&run(&ours).join("code"), 0o775);
    is_refused(&ours.resume(), &["code is writable by other users (mode 0775)"]);
    set_mode(&run(&ours).join("code"), 0o755);
    ours.resume().expect_code(0);

    symlink("ours", at("link")).unwrap();
    let linked = Job::new(script).with_files(4).with_run_folder(at("link"));
    refused_with(&linked, &["is a link", "name the folder it leads to"]);
    std::os::unix::fs::chown(run(&ours), Some(65534), None).unwrap();
    refused_with(&ours, &["belongs to another user (65534"]);
    // Nor is a folder safe above which others can move things.
    let below = Job::new(script).with_files(4).with_run_folder(at("ours/below"));
    is_refused(&below.submit(), &["belongs to user 65534", "name a folder elsewhere"]);
    assert!(!at("ours/below").exists());
}

#[test]
fn no_other_user_reads_what_a_run_works_with() {
    let shared = shared_folder();
    let readable = shared.path().join("readable");
    fs::create_dir(&readable).unwrap();
    for place in [shared.path().join("private"), readable.clone()] {
        let job = Job::new(HOLDS).with_files(4).with_run_folder(&place);
        let mut submit = job.start_submit(&[]);
        submit.wait_until("a mini-batch that is held", || !job.marks("held").is_empty());
        let readable_ones = |files: Vec<PathBuf>| -> Vec<_> {
            files.into_iter().filter(|file| another_user_reads(file)).collect()
        };
        let seen = files(&place);
        assert!(seen.iter().any(|file| text(file).ends_with("/code/main.py")), "{seen:?}");
        // What the user lets others look into has no more to see than the settings, and which run fills the output.
        let expected: Vec<_> = if place == readable {
            [".lock", "job.json", "output/.prs-claim"].map(|name| place.join(name)).into()
        } else {
            Vec::new()
        };
        let read: BTreeSet<_> = readable_ones(seen).into_iter().collect();
        assert_eq!(read, expected.into_iter().collect());
        job.mark("go");
        job.has_completed(&submit.wait());
        let read = readable_ones(files(&place));
        let is_open = read.contains(&place.join("output/parallel_run_step.txt"));
        assert_eq!(is_open, place == readable, "the result is for whom the folder is: {read:?}");
        assert!(!read.iter().any(|file| text(file).contains("/logs/")), "{read:?}");
    }
    // The folder of all runs is made for this user alone, and the output is as the user's umask says.
    let job = Job::new(HOLDS).with_files(2).with("output", "place");
    let file = job.write_job_file().display().to_string();
    job.mark("go");
    job.command(&["submit", &file]).expect_code(0);
    let mode = |name: &str| fs::metadata(job.path(name)).unwrap().mode() & 0o777;
    assert_eq!(mode("prs-runs"), 0o700);
    assert!(another_user_reads(&job.path("place/parallel_run_step.txt")));
}

#[test]
fn a_folder_for_a_while_is_for_its_user_alone() {
    let shared = shared_folder();
    let job = Job::new(HOLDS).with_files(2).with_own_variable("TMPDIR", text(shared.path()));
    let file = job.write_job_file().display().to_string();
    job.command(&["validate", &file]).expect_code(0);
    assert_eq!(fs::read_dir(shared.path()).unwrap().count(), 0, "it goes with the command");
    set_mode(shared.path(), 0o777);
    let ended = job.command(&["validate", &file]);
    ended.expect_code(42);
    assert!(ended.stderr.contains("is writable by everybody (mode 0777)"), "{}", ended.stderr);
}
