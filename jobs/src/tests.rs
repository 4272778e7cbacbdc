//! The calls, made by a caller that is no terminal.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use prs_common::job::{JobSpec, Names};
use prs_common::ledger::JobState;
use prs_common::registry::{Kind, Which};
use prs_common::storage::{LocalStorage, PutMode, Storage};
use prs_orchestrator::JobRecord;

use crate::homes::{self, naming};
use crate::list::{Wanted, list};
use crate::{Caller, FailureKind, Whereabouts, logs, remove, result, show};

/// Remembers what it hears.
#[derive(Debug, Default)]
struct Remembering(Mutex<Vec<String>>);

impl Remembering {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Caller for Remembering {
    fn note(&self, text: &dyn Display) {
        self.0.lock().unwrap().push(format!("note: {text}"));
    }
    fn error(&self, text: &dyn Display) {
        self.0.lock().unwrap().push(format!("error: {text}"));
    }
}

fn here(runs: PathBuf) -> (Arc<Remembering>, Whereabouts) {
    let caller = Arc::new(Remembering::default());
    (Arc::clone(&caller), Whereabouts::new(None, runs, Names::default(), caller))
}

/// A job of this machine whose program is gone; with a log.
async fn interrupted(runs: &Path, id: &str, submitted_us: u64) {
    let storage = LocalStorage::new(runs.join(id));
    let spec = JobSpec::new("words", "/code", "main.py", vec![]);
    let fresh = JobRecord::new(id.to_owned(), "code/x.tar.gz".to_owned(), spec);
    assert!(JobRecord { submitted_us, ..fresh }.create(&storage).await.unwrap());
    let key = "logs/user/stdout/0/process000.stdout.txt";
    storage.put(key, "one\ntwo\n".into(), PutMode::Overwrite).await.unwrap();
}

#[tokio::test]
async fn what_is_not_there_is_told_from_what_is_wrong() {
    let runs = tempfile::tempdir().unwrap();
    let (_, whereabouts) = here(runs.path().to_owned());
    let kind = |failure: crate::Failure| {
        assert!(failure.is_usage(), "{failure}");
        failure.kind
    };
    let absent = homes::find(FIRST, &whereabouts).await.unwrap_err();
    assert!(absent.to_string().starts_with("there is no job"), "{absent}");
    assert_eq!(kind(absent), FailureKind::NotFound);
    assert_eq!(kind(naming::resolve("@latest", &whereabouts).await.unwrap_err()), FailureKind::NotFound);
    assert_eq!(kind(naming::resolve("@oldest", &whereabouts).await.unwrap_err()), FailureKind::Usage);

    interrupted(runs.path(), FIRST, 1_795_262_400_000_000).await;
    let home = homes::find(FIRST, &whereabouts).await.unwrap();
    assert_eq!(kind(logs::find(&*home, "x").await.err().unwrap()), FailureKind::NotFound);
    std::fs::remove_file(runs.path().join(FIRST).join("job.json")).unwrap();
    assert_eq!(kind(home.look().await.unwrap_err()), FailureKind::NotFound);

    let registry = homes::registry::open(&whereabouts).await.unwrap();
    let absent = registry.find(Kind::Data, "iris", &Which::Version("1".into())).await.unwrap_err();
    assert_eq!(kind(homes::registry::failure(absent)), FailureKind::NotFound);
    let wrong = registry.find(Kind::Data, "a/b", &Which::Version("1".into())).await.unwrap_err();
    assert_eq!(kind(homes::registry::failure(wrong)), FailureKind::Usage);
}

const FIRST: &str = "words-20261121-120000-1a2b";
const SECOND: &str = "words-20261122-120000-3c4d";

#[tokio::test]
async fn a_caller_that_is_no_terminal_looks_at_jobs_and_removes_them() {
    let runs = tempfile::tempdir().unwrap();
    let (caller, whereabouts) = here(runs.path().to_owned());
    interrupted(runs.path(), FIRST, 1_795_262_400_000_000).await;
    interrupted(runs.path(), SECOND, 1_795_348_800_000_000).await;
    std::fs::create_dir(runs.path().join("broken")).unwrap();
    std::fs::write(runs.path().join("broken/job.json"), "{}").unwrap();

    let wanted = Wanted { states: vec![JobState::Failed], limit: Some(1), ..Wanted::default() };
    let listed = list(&wanted, &whereabouts).await.unwrap();
    let ids: Vec<_> = listed.jobs.iter().map(|seen| &*seen.result.job_id).collect();
    assert_eq!((ids, listed.left_out), (vec![SECOND], 1));
    let said = caller.take();
    assert!(said.len() == 1 && said[0].starts_with("error: ") && said[0].contains("broken"), "{said:?}");

    // A folder that is not where commands look by themselves is named whole.
    let place = runs.path().canonicalize().unwrap().join(SECOND).display().to_string();
    assert_eq!(naming::resolve("words", &whereabouts).await.unwrap(), place);
    assert_eq!(caller.take(), [format!("note: words is {place}")]);

    let home = homes::find(SECOND, &whereabouts).await.unwrap();
    let found = logs::list(&*home).await.unwrap();
    assert_eq!(found.iter().map(|log| log.bytes).collect::<Vec<_>>(), [8]);
    let log = logs::find(&*home, "0/process000.stdout").await.unwrap();
    assert_eq!(&*log.read(4, 2).await.unwrap(), b"tw");
    let lines = Mutex::new(Vec::new());
    let tell = |name: &str, line: &str| lines.lock().unwrap().push(format!("{name}: {line}"));
    logs::LogTail::new(Arc::clone(home.storage())).from_the_beginning().finish(&tell).await;
    assert_eq!(*lines.lock().unwrap(), ["0/process000.stdout: one", "0/process000.stdout: two"]);

    let text = show::show(SECOND, &whereabouts).await.unwrap().text();
    assert!(text.contains("name: words\n"), "{text}");
    let refused = result::result(&*home, None).await.unwrap_err();
    assert!(refused.is_usage() && refused.to_string().contains("has no result: failed"), "{refused}");
    let refused = home.cancel("ana").await.unwrap_err();
    assert_eq!(refused.kind, FailureKind::Usage, "{refused}");

    let chosen = remove::named(&[SECOND.to_owned()], &whereabouts).await.unwrap();
    let removed = remove::remove(remove::weigh(chosen).await.unwrap()).await.unwrap();
    assert!(removed.len() == 1 && removed[0].job_id == place && removed[0].bytes > 0, "{removed:?}");
    assert!(!runs.path().join(SECOND).exists() && runs.path().join(FIRST).exists());
    assert_eq!(caller.take(), [""; 0], "nothing else was said");
}
