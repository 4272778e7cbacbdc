//! A job in a fresh folder: script, inputs, job file, and the commands on it.

use std::fmt::Write;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::processes::TOKEN;
use super::programs::{on_terminal, program, through};
use super::{Cgroup, Ended, Found, Live, RunFolder, having_token, python, reasons_of};
use crate::deadline::wait_for;

/// A module that every script can import.
const MARKS: &str = include_str!("marks.py");
/// How long killed processes may take to be gone.
const DYING: Duration = Duration::from_secs(10);

/// A job and its folder. Whatever it started is killed when it is dropped.
#[derive(Debug)]
pub struct Job {
    folder: TempDir,
    token: String,
    settings: Map<String, Value>,
    variables: Vec<(String, String)>,
    run: RunFolder,
    commands: AtomicU32,
}

impl Job {
    /// A job with this entry script and no input yet; nothing else but defaults.
    pub fn new(script: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("prs-").tempdir().unwrap();
        let path = folder.path();
        for name in ["code", "data", "marks"] {
            fs::create_dir(path.join(name)).unwrap();
        }
        fs::write(path.join("code/marks.py"), MARKS).unwrap();
        let token = path.file_name().unwrap().to_string_lossy().into_owned();
        let run = RunFolder::new(path.join("run"));
        let job = Self {
            token,
            settings: Map::new(),
            variables: Vec::new(),
            run,
            commands: AtomicU32::new(0),
            folder,
        };
        job.script(script);
        let marks = job.path("marks").display().to_string();
        job.with("name", "test-job")
            .with("entry_script", "main.py")
            .with("source_directory", "code")
            .with("environment", python().display().to_string())
            .with("environment_variables", json!({ "PRS_TEST_MARKS": marks }))
            .with("allow_reuse", false)
    }

    /// Sets a key of the job file.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.set(key, value);
        self
    }

    /// Sets a key of the job file.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.settings.insert(key.to_owned(), value.into());
    }

    /// Sets a variable for the script's processes.
    #[must_use]
    pub fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.settings["environment_variables"][name] = json!(value);
        self
    }

    /// Sets a variable of the commands' own environment.
    #[must_use]
    pub fn with_own_variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Gives its servers a folder of its own to tell programs of their user of themselves.
    #[must_use]
    pub fn with_runtime_folder(self) -> Self {
        let folder = self.path("runtime");
        fs::create_dir(&folder).expect("a folder for servers");
        self.with_own_variable("XDG_RUNTIME_DIR", &folder.display().to_string())
    }

    /// The variables that its commands are started with.
    pub fn own_variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Puts the run folder elsewhere.
    #[must_use]
    pub fn with_run_folder(mut self, path: impl Into<PathBuf>) -> Self {
        self.run = RunFolder::new(path);
        self
    }

    /// `count` files named `0000.txt`, ... that hold `item 0`, ...; the job's file input, two in a mini-batch.
    #[must_use]
    pub fn with_files(self, count: usize) -> Self {
        for number in 0..count {
            self.data(&format!("{number:04}.txt"), format!("item {number}"));
        }
        self.with("inputs", json!([{ "type": "file", "path": "data" }])).with("mini_batch_size", 2)
    }

    /// Files of text with a header `id,name,value`, one for each number of rows; the job's tabular input.
    #[must_use]
    pub fn with_tables(self, rows: &[usize]) -> Self {
        let mut id = 0;
        for (file, rows) in rows.iter().enumerate() {
            let mut text = "id,name,value\n".to_owned();
            for _ in 0..*rows {
                writeln!(text, "{id},\"name, {id}\",{}.5", id * 7 % 1_000).unwrap();
                id += 1;
            }
            self.data(&format!("{file:03}.csv"), text);
        }
        self.with("inputs", json!([{ "type": "tabular", "path": "data/*.csv" }]))
    }

    /// (Re)writes the entry script.
    pub fn script(&self, text: &str) {
        self.code("main.py", text);
    }

    /// Writes a file beside the entry script.
    pub fn code(&self, name: &str, text: &str) {
        write(&self.path("code").join(name), text);
    }

    /// Writes a file of the input.
    pub fn data(&self, name: &str, content: impl AsRef<[u8]>) {
        write(&self.path("data").join(name), content);
    }

    /// A path below the job's own folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The folder of the run.
    pub fn run(&self) -> &RunFolder {
        &self.run
    }

    /// The lines that the script wrote under this name with `marks.mark`.
    pub fn marks(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.path("marks").join(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Makes a mark that the script can wait for.
    pub fn mark(&self, name: &str) {
        write(&self.path("marks").join(name), "");
    }

    /// Takes a mark away.
    pub fn unmark(&self, name: &str) {
        fs::remove_file(self.path("marks").join(name)).unwrap();
    }

    /// Writes the job file and returns its path. Unless the job says otherwise, two processes of this machine run it; one where
    /// it reads tables, since every such process imports pandas, and one on each node of a fleet.
    pub fn write_job_file(&self) -> PathBuf {
        let path = self.path("job.yml");
        let is_of_fleet = self.own_variables().any(|(name, _)| name == "PRS_BROKER_URL");
        let mut settings = self.settings.clone();
        let inputs = settings.get("inputs").and_then(Value::as_array);
        let is_table = |input: &Value| input["type"] == "tabular" || input["type"] == "mltable";
        let reads_tables = inputs.is_some_and(|inputs| inputs.iter().any(is_table));
        let processes = if is_of_fleet || reads_tables { 1 } else { 2 };
        settings.entry("process_count_per_node").or_insert_with(|| json!(processes));
        let lines = settings.iter().map(|(key, value)| format!("{key}: {value}\n"));
        write(&path, lines.collect::<String>());
        path
    }

    /// Starts `prs` with these arguments in the job's folder.
    pub fn start(&self, arguments: &[&str]) -> Live {
        self.start_reading(arguments, Stdio::null())
    }

    /// The same, with this on its standard input, to its end.
    pub fn command_with_input(&self, arguments: &[&str], input: &str) -> Ended {
        let path = self.path(&format!("command-{}.in", self.commands.load(Ordering::Relaxed)));
        write(&path, input);
        self.start_reading(arguments, Stdio::from(File::open(path).unwrap())).wait()
    }

    fn start_reading(&self, arguments: &[&str], input: Stdio) -> Live {
        let mut command = program("prs");
        command.args(arguments);
        self.start_command(command, input)
    }

    fn start_command(&self, mut command: Command, input: Stdio) -> Live {
        command.current_dir(self.folder.path()).env(TOKEN, &self.token);
        command.envs(self.variables.iter().cloned()).stdin(input);
        let name = format!("command-{}", self.commands.fetch_add(1, Ordering::Relaxed));
        Live::start(command, self.folder.path(), &name)
    }

    /// Starts `prs` with these arguments in the job's folder, on a terminal of so many columns. What that shows is
    /// the standard output of the answer.
    pub fn start_on_terminal(&self, columns: u32, arguments: &[&str]) -> Live {
        let mut command = on_terminal(columns, &program("prs"));
        command.args(arguments).current_dir(self.folder.path()).env(TOKEN, &self.token);
        command.env("TERM", "xterm-256color").envs(self.variables.iter().cloned()).stdin(Stdio::null());
        let name = format!("command-{}", self.commands.fetch_add(1, Ordering::Relaxed));
        Live::start(command, self.folder.path(), &name)
    }

    /// Starts `submit -o json` into the run folder, with further arguments.
    pub fn start_submit(&self, more: &[&str]) -> Live {
        let file = self.write_job_file();
        let (file, run) = (file.display().to_string(), self.run.path().display().to_string());
        self.start(&[&["submit", &file, "--run-dir", &run, "-o", "json"], more].concat())
    }

    /// The same by a shell that ignores signals of these names, as `nohup` does.
    pub fn start_submit_ignoring(&self, names: &str) -> Live {
        let file = self.write_job_file();
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("trap '' {names}; exec \"$@\""), "sh"]);
        let mut command = through(shell, &program("prs"));
        command.arg("submit").arg(file).arg("--run-dir").arg(self.run.path()).args(["-o", "json"]);
        self.start_command(command, Stdio::null())
    }

    /// Submits in `group`, and waits.
    pub fn submit_in(&self, group: &Cgroup) -> Ended {
        let file = self.write_job_file();
        let mut command = through(group.starter(), &program("prs"));
        command.arg("submit").arg(file).arg("--run-dir").arg(self.run.path()).args(["-o", "json"]);
        self.start_command(command, Stdio::null()).wait()
    }

    /// Starts `resume -o json` of the run folder.
    pub fn start_resume(&self) -> Live {
        self.start(&["resume", &self.run.path().display().to_string(), "-o", "json"])
    }

    /// Runs `prs` with these arguments to its end.
    pub fn command(&self, arguments: &[&str]) -> Ended {
        self.start(arguments).wait()
    }

    /// The same, with this variable in its environment.
    pub fn command_with_variable(&self, arguments: &[&str], (name, value): (&str, &str)) -> Ended {
        let mut command = program("prs");
        command.args(arguments).env(name, value);
        self.start_command(command, Stdio::null()).wait()
    }

    /// Submits and waits.
    pub fn submit(&self) -> Ended {
        self.start_submit(&[]).wait()
    }

    /// Resumes and waits.
    pub fn resume(&self) -> Ended {
        self.start_resume().wait()
    }

    /// Submits; the job must complete. Returns the object that is printed.
    #[track_caller]
    pub fn completes(&self) -> Value {
        self.has_completed(&self.submit())
    }

    /// Asserts that `ended` is a job that completed, in every place that tells; items may be missing, and then every such
    /// place says that, too.
    #[track_caller]
    pub fn has_completed(&self, ended: &Ended) -> Value {
        assert!(matches!(ended.code, Some(0 | 10)), "{}\n{}", ended.stderr, self.run.story());
        let result = ended.expect_completed();
        assert_eq!((&result["state"], &result["reason"]), (&json!("completed"), &Value::Null));
        let first_line = self.run.first_line();
        if result["complete"] == true {
            assert_eq!(first_line, "completed");
        } else {
            assert!(first_line.starts_with("completed: ") && first_line.contains("missing"), "{first_line}");
        }
        assert_eq!(ended.stderr.contains("exit code 10"), ended.code == Some(10), "{}", ended.stderr);
        self.has_left_nothing();
        result
    }

    /// Submits; the job must fail with a reason that has all of `parts`. Returns the object that is printed.
    #[track_caller]
    pub fn fails(&self, parts: &[&str]) -> Value {
        self.has_failed(&self.submit(), parts)
    }

    /// Asserts that `ended` is a job that failed, in every place that tells.
    #[track_caller]
    pub fn has_failed(&self, ended: &Ended, parts: &[&str]) -> Value {
        assert_eq!(ended.code, Some(42), "{}\n{}\n{}", ended.stdout, ended.stderr, self.run.story());
        let result = ended.json();
        assert_eq!(result["state"], "failed");
        let reason = result["reason"].as_str().expect("a reason").trim();
        for part in parts {
            assert!(reason.contains(part), "{part:?} is not in the reason: {reason}\n{}", self.run.story());
        }
        assert!(!reasons_of(reason).is_empty(), "docs/messages.md does not explain {reason:?}");
        let report = self.run.text("logs/job_result.txt");
        let begins = format!("failed: {}\n\n", reason.replace('\n', "\n  "));
        assert!(report.starts_with(&begins), "the same reason everywhere:\n{reason}\n{report}");
        self.has_left_nothing();
        result
    }

    /// Asserts that `ended` is a start that failed, with a reason that has all of `parts`, of a job that a start before it
    /// completed: that stands. Returns the object that is printed.
    #[track_caller]
    pub fn has_failed_again(&self, ended: &Ended, parts: &[&str]) -> Value {
        assert_eq!(ended.code, Some(42), "{}\n{}\n{}", ended.stdout, ended.stderr, self.run.story());
        let result = ended.json();
        let last = &result["last_start"];
        assert_eq!((&result["state"], &last["state"]), (&json!("completed"), &json!("failed")));
        let reason = last["reason"].as_str().expect("a reason").trim();
        for part in parts {
            assert!(reason.contains(part), "{part:?} is not in the reason: {reason}\n{}", self.run.story());
        }
        assert!(!reasons_of(reason).is_empty(), "docs/messages.md does not explain {reason:?}");
        let told =
            format!("\nlast start    start {} failed: {}", last["start"], reason.lines().next().unwrap());
        assert!(
            self.run.text("logs/job_result.txt").contains(&told),
            "{}",
            self.run.text("logs/job_result.txt")
        );
        self.has_left_nothing();
        result
    }

    /// Submits; it must be refused, with all of `parts` on standard error, before anything is made.
    #[track_caller]
    pub fn is_refused(&self, parts: &[&str]) -> Ended {
        let ended = self.submit();
        ended.expect_code(2);
        for part in parts {
            assert!(ended.stderr.contains(part), "{part:?} is not said:\n{}", ended.stderr);
        }
        ended.has_no_data();
        assert!(!self.run.path().exists(), "nothing was run, and yet there are {:?}", self.run.files(""));
        // What ends a check whose program was killed hears of the end of both by itself.
        self.soon_leaves_nothing();
        ended
    }

    /// What all processes of the job have in their environment.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The processes that are running.
    pub fn processes(&self) -> Vec<Found> {
        having_token(&self.token)
    }

    /// The processes that host the script at the moment.
    pub fn script_processes(&self) -> Vec<Found> {
        self.processes().into_iter().filter(Found::hosts_the_script).collect()
    }

    /// Asserts that no process is left.
    #[track_caller]
    pub fn has_left_nothing(&self) {
        let left = self.processes();
        assert!(left.is_empty(), "processes are left behind: {left:#?}");
    }

    /// Waits until no process is left: after `kill -9` of the program they have to notice by themselves.
    #[track_caller]
    pub fn soon_leaves_nothing(&self) {
        let mut left = Vec::new();
        wait_for("the end of all processes", DYING, || {
            left = self.processes();
            left.is_empty().then_some(())
        });
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        for _ in 0..100 {
            let left = self.processes();
            if left.is_empty() {
                return;
            }
            for process in left {
                process.kill();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn write(path: &Path, content: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().expect("a file in a folder")).unwrap();
    fs::write(path, content).unwrap();
}
