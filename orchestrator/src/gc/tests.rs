//! What goes, what stays, and every order in which a collection and a submission may take their steps.

use std::time::{Duration, SystemTime};

use prs_common::layout;
use prs_common::storage::{PutMode, StorageErrorKind, StorageExt};
use tempfile::TempDir;

use super::*;
use crate::fixtures::{FaultyStorage, faulty_storage};
use crate::inputs::blob::digest;
use crate::inputs::manifest::{File, ManifestWriter, Source, Store};

/// The mark in place of the record of a job that is being removed.
const REMOVED: &str = "{\n  \"removed\": true,\n  \"start\": 1\n}";

struct TestStore {
    folder: TempDir,
    storage: Arc<dyn Storage>,
    faulty: Arc<FaultyStorage>,
}

impl TestStore {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let faulty = Arc::new(faulty_storage(folder.path()));
        Self { folder, storage: Arc::clone(&faulty) as _, faulty }
    }

    /// Makes what the job has as old as two hours.
    async fn age(&self, job_id: &str) {
        for object in self.storage.list_all(&format!("jobs/{job_id}/")).await.unwrap() {
            let file = std::fs::File::options().append(true).open(self.folder.path().join(object.key));
            file.unwrap().set_modified(SystemTime::now() - Duration::from_hours(2)).unwrap();
        }
    }

    async fn put(&self, key: &str, body: &'static str) {
        self.storage.put(key, body.into(), PutMode::Overwrite).await.unwrap();
    }

    /// Uploads a file, unless it is there.
    async fn upload(&self, content: &'static str) {
        if self.storage.head(&blob(content)).await.is_err() {
            self.put(&blob(content), content).await;
        }
    }

    async fn has(&self, content: &str) -> bool {
        self.storage.head(&blob(content)).await.is_ok()
    }

    /// Stores the listing of an input that is these files.
    async fn list(&self, job_id: &str, contents: &[&str]) {
        let job = job_storage(&*self.storage, job_id);
        let mut listing = ManifestWriter::create(&*job, &layout::manifest("data")).await.unwrap();
        let source = Source {
            store: Store::Shared,
            prefix: BLOBS.to_owned(),
            origin: "/data/".to_owned(),
            mixes: false,
        };
        for content in contents {
            let key = layout::blob(&digest(content.as_bytes()).unwrap());
            let file = File { relative: (*content).to_owned(), key, ..File::default() };
            listing.push(&source, file).await.unwrap();
        }
        listing.finish().await.unwrap();
    }

    /// A job that has these files as its input.
    async fn job(&self, job_id: &str, contents: &[&'static str]) {
        for content in contents {
            self.upload(content).await;
        }
        self.list(job_id, contents).await;
        self.put(&format!("jobs/{job_id}/job.json"), "{}").await;
        self.put(&format!("index/{job_id}"), "").await;
    }
}

fn blob(content: &str) -> String {
    format!("{BLOBS}{}", layout::blob(&digest(content.as_bytes()).unwrap()))
}

fn nobody(by: &str) {
    panic!("it waits for {by}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_jobs_name_stays_and_the_rest_is_counted_before_it_goes() {
    let place = TestStore::new();
    place.job("a", &["one", "two"]).await;
    place.job("a0", &["two", "three"]).await;
    place.job("b", &["four"]).await;
    place.upload("five!").await;
    place.put("inputs/notes.txt", "not ours").await;
    place.list("killed", &["two"]).await;
    place.put("jobs/killed/code/x", "12345").await;
    place.put("jobs/stored/job.json", "{}").await;
    place.put("jobs/removed/job.json", REMOVED).await;
    place.age("removed").await;

    let all = Wanted::default();
    let left = |found: &Found| {
        found.leftovers.iter().map(|(id, left)| (id.clone(), left.objects)).collect::<Vec<_>>()
    };
    let (killed, removed) = (("killed".to_owned(), 2), ("removed".to_owned(), 1));
    let found = left(&look(&place.storage, &all).await.unwrap());
    assert!(!found.contains(&killed) && found.contains(&removed), "one may be at work: {found:?}");
    place.age("killed").await;
    let found = look(&place.storage, &all).await.unwrap();
    assert_eq!(found.inputs, Amount { objects: 1, bytes: 5 });
    assert_eq!(
        left(&found),
        [killed, removed],
        "a record without an entry in the list is a job all the same"
    );
    let young = Wanted { older: 3 * 3_600, ..Wanted::default() };
    assert_eq!(look(&place.storage, &young).await.unwrap(), Found::default());
    let without_b = Wanted { gone: HashSet::from(["b".to_owned()]), ..Wanted::default() };
    assert_eq!(look(&place.storage, &without_b).await.unwrap().inputs, Amount { objects: 2, bytes: 9 });

    assert_eq!(collect(&place.storage, &all, "here", &nobody).await.unwrap(), found);
    assert_eq!(look(&place.storage, &all).await.unwrap(), Found::default());
    for content in ["one", "two", "three", "four"] {
        assert!(place.has(content).await, "{content}");
    }
    assert!(place.storage.head("inputs/notes.txt").await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_job_whose_result_stays_the_rest_goes() {
    let place = TestStore::new();
    let at = |name: &str| format!("jobs/a/{name}");
    for name in ["kept", "output/rows.txt", "logs/late.txt", "job.json"] {
        place.put(&at(name), "x").await;
    }
    place.put(&at("job.json"), REMOVED).await;
    let all = Wanted::default();
    assert_eq!(collect(&place.storage, &all, "here", &nobody).await.unwrap(), Found::default());
    place.age("a").await;
    let found = collect(&place.storage, &all, "here", &nobody).await.unwrap();
    assert_eq!(found.leftovers[0].1.objects, 2);
    let left = place.storage.list_all("jobs/a/").await.unwrap();
    assert!(left.iter().map(|object| &*object.key).eq([at("kept"), at("output/rows.txt")]), "{left:?}");
    assert_eq!(look(&place.storage, &all).await.unwrap(), Found::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_is_about_to_name_stays_for_a_day() {
    let place = TestStore::new();
    for content in ["claimed", "forgotten"] {
        place.upload(content).await;
        claim(&*place.storage, &digest(content.as_bytes()).unwrap()).await.unwrap();
    }
    let all = Wanted::default();
    assert_eq!(collect(&place.storage, &all, "here", &nobody).await.unwrap(), Found::default());
    let old = format!("{}{}", layout::CLAIMS, layout::blob(&digest(&b"forgotten"[..]).unwrap()));
    let file = std::fs::File::options().append(true).open(place.folder.path().join(&old)).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(CLAIMED_FOR + 60)).unwrap();
    assert_eq!(look(&place.storage, &all).await.unwrap().inputs, Amount { objects: 1, bytes: 9 });
    collect(&place.storage, &all, "here", &nobody).await.unwrap();
    assert!(place.has("claimed").await && !place.has("forgotten").await);
    assert!(place.storage.head(&old).await.is_err(), "what holds no longer goes");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_goes_while_a_listing_cannot_be_read() {
    let place = TestStore::new();
    place.upload("one").await;
    place.put("jobs/a/job.json", "{}").await;
    place.put("jobs/a/inputs/data.manifest", "damaged").await;
    let error = collect(&place.storage, &Wanted::default(), "here", &nobody).await.unwrap_err().to_string();
    assert!(error.starts_with("job a: the listing inputs/data.manifest is damaged"), "{error}");
    assert!(place.has("one").await);
    until_quiet(&*place.storage, &nobody).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_collection_that_died_is_waited_for_and_then_taken_over() {
    let place = TestStore::new();
    place.upload("one").await;
    let mut dead = Collecting::begin(Arc::clone(&place.storage), "host-1", &nobody).await.unwrap();
    let began = tokio::time::Instant::now();
    let told = std::sync::Mutex::new(Vec::new());
    let quiet = until_quiet(&*place.storage, &|by| told.lock().unwrap().push(by.to_owned())).await.unwrap();
    assert!(began.elapsed() > mark::DEAD && began.elapsed() < 2 * mark::DEAD);
    assert_eq!(*told.lock().unwrap(), ["host-1"]);
    assert!(quiet.lasts(&*place.storage).await.unwrap());
    let removed = dead.remove(vec![blob("one")]).await;
    assert!(matches!(removed, Err(GcError::TakenOver)), "{removed:?}");
    assert!(place.has("one").await);
}

#[tokio::test(start_paused = true)]
async fn a_collection_that_lives_is_waited_for_to_its_end() {
    let place = TestStore::new();
    let mut working = Collecting::begin(Arc::clone(&place.storage), "host-1", &nobody).await.unwrap();
    let storage = Arc::clone(&place.storage);
    let waiting = tokio::spawn(async move { until_quiet(&*storage, &|_| ()).await });
    working.meanwhile(tokio::time::sleep(5 * mark::DEAD)).await.unwrap();
    assert!(!waiting.is_finished());
    working.end().await.unwrap();
    tokio::time::timeout(Duration::from_mins(1), waiting).await.unwrap().unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_collection_that_takes_many_short_steps_shows_that_it_lives() {
    let place = TestStore::new();
    let mut working = Collecting::begin(Arc::clone(&place.storage), "host-1", &nobody).await.unwrap();
    let storage = Arc::clone(&place.storage);
    let waiting = tokio::spawn(async move { until_quiet(&*storage, &|_| ()).await });
    for _ in 0..2 * mark::DEAD.as_secs() {
        working.meanwhile(tokio::time::sleep(Duration::from_secs(1))).await.unwrap();
    }
    assert!(!waiting.is_finished());
    working.end().await.unwrap();
}

async fn collect_all(place: &TestStore) -> Result<Found, GcError> {
    collect(&place.storage, &Wanted::default(), "here", &nobody).await
}

#[tokio::test(start_paused = true)]
async fn submissions_wait_after_a_removal_that_may_still_take_effect() {
    let place = TestStore::new();
    place.upload("one").await;
    place.faulty.fail("delete_all", 1, StorageErrorKind::Unavailable);
    let failed = collect_all(&place).await;
    assert!(matches!(failed, Err(GcError::Removal(_))), "{failed:?}");
    let began = tokio::time::Instant::now();
    until_quiet(&*place.storage, &|_| ()).await.unwrap();
    assert!(began.elapsed() > mark::DEAD);
    assert_eq!(collect_all(&place).await.unwrap().inputs.objects, 1);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_too_slow_ends_the_collection_before_it_removes_anything() {
    let place = TestStore::new();
    place.upload("one").await;
    place.faulty.slow_down(mark::PROMPT + Duration::from_secs(1));
    let failed = collect_all(&place).await;
    assert!(matches!(failed, Err(GcError::Slow)), "{failed:?}");
    assert!(place.has("one").await);
    // No removal was begun, so nobody has to wait.
    until_quiet(&*place.storage, &nobody).await.unwrap();
}

/// A submission of a job with one file, a step at a time.
#[derive(Default)]
struct Submission {
    step: usize,
    quiet: Option<Quiet>,
}

impl Submission {
    const STEPS: usize = 4;

    async fn step(&mut self, place: &TestStore) {
        match self.step {
            0 => {
                // One that has to wait takes this step later.
                let quiet = until_quiet(&*place.storage, &|_| ());
                let Ok(quiet) = tokio::time::timeout(Duration::from_millis(1), quiet).await else { return };
                self.quiet = Some(quiet.unwrap());
            }
            1 => place.upload("one").await,
            2 => place.list("new", &["one"]).await,
            _ => {
                if !self.quiet.take().unwrap().lasts(&*place.storage).await.unwrap() {
                    self.step = 0;
                    return;
                }
            }
        }
        self.step += 1;
    }
}

/// A collection, a step at a time.
#[derive(Default)]
struct Collection {
    step: usize,
    collecting: Option<Collecting>,
    named: Named,
}

impl Collection {
    const STEPS: usize = 4;

    async fn step(&mut self, place: &TestStore) {
        match self.step {
            0 => {
                let begun = Collecting::begin(Arc::clone(&place.storage), "gc", &nobody).await;
                self.collecting = Some(begun.unwrap());
            }
            1 => self.named = named_by_jobs(&place.storage, &Wanted::default(), &[]).await.unwrap(),
            2 => {
                let listed = place.storage.list_all(BLOBS).await.unwrap();
                let unnamed =
                    listed.into_iter().filter(|one| is_unnamed(one, &self.named, &Wanted::default()));
                let keys = unnamed.map(|object| object.key).collect();
                self.collecting.as_mut().unwrap().remove(keys).await.unwrap();
            }
            _ => self.collecting.take().unwrap().end().await.unwrap(),
        }
        self.step += 1;
    }
}

#[tokio::test(start_paused = true)]
async fn a_submission_has_its_files_in_whatever_order_both_take_their_steps() {
    const STEPS: usize = Submission::STEPS + Collection::STEPS;
    let orders = (0_u32..1 << STEPS).filter(|order| order.count_ones() as usize == Collection::STEPS);
    let mut removed = 0;
    for order in orders {
        let place = TestStore::new();
        // A former job had the file.
        place.upload("one").await;
        let (mut submission, mut collection) = (Submission::default(), Collection::default());
        for at in 0..STEPS {
            if order >> at & 1 == 1 {
                collection.step(&place).await;
                removed += u32::from(!place.has("one").await);
            } else if submission.step < Submission::STEPS {
                submission.step(&place).await;
            }
        }
        for _ in 0..2 * Submission::STEPS {
            if submission.step < Submission::STEPS {
                submission.step(&place).await;
            }
        }
        assert_eq!(submission.step, Submission::STEPS, "{order:08b}");
        assert!(place.has("one").await, "{order:08b}");
    }
    assert!(removed > 0, "no order removes anything, which proves nothing");
}
