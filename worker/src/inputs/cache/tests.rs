//! Which files stay, which go, and who waits for room.

use std::fs;
use std::time::Duration;

use super::*;

fn cache(limit: u64) -> (Arc<Cache>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (Arc::new(Cache::new(folder.path().to_owned(), limit, None).unwrap()), folder)
}

fn wanted(names: &[(&str, u64)]) -> Vec<Wanted> {
    let wanted = |&(path, bytes): &(&str, u64)| Wanted { path: path.into(), bytes, object: path.to_owned() };
    names.iter().map(wanted).collect()
}

/// Pins files and puts those there that are missing.
async fn take(cache: &Arc<Cache>, names: &[(&str, u64)]) -> Pin {
    let pin = cache.pin(&wanted(names), true).await.unwrap();
    for Pinned { path, ready, .. } in pin.entries() {
        let path = cache.path(path);
        ready
            .get_or_init(|| async {
                // Another file that goes takes an empty folder along.
                while fs::write(&path, "x").is_err() {
                    fs::create_dir_all(path.parent().unwrap()).unwrap();
                }
                SeenFile::at(&path).unwrap()
            })
            .await;
    }
    pin
}

fn there(cache: &Cache) -> Vec<String> {
    let mut names: Vec<String> = cache.state().entries.keys().map(ToString::to_string).collect();
    names.sort();
    assert!(names.iter().all(|name| cache.path(name).is_file()));
    names
}

/// Bytes used and pinned.
fn held(cache: &Cache) -> (u64, u64) {
    let state = cache.state();
    (state.disk.used, state.disk.pinned)
}

#[tokio::test]
async fn the_least_recently_used_go_first_and_pinned_ones_stay() {
    let (cache, folder) = cache(10);
    drop(take(&cache, &[("a/1", 4)]).await);
    drop(take(&cache, &[("b/1", 4)]).await);
    drop(take(&cache, &[("a/1", 4)]).await);
    let pin = take(&cache, &[("c", 4)]).await;
    assert_eq!(there(&cache), ["a/1", "c"]);
    assert!(!folder.path().join("b").exists());
    drop(take(&cache, &[("d", 6)]).await);
    assert_eq!(there(&cache), ["c", "d"]);
    drop(pin);
    assert_eq!(there(&cache), ["c", "d"]);
    assert_eq!(held(&cache), (10, 0));
}

#[tokio::test]
async fn what_is_larger_than_the_bound_is_there_alone() {
    let (cache, _folder) = cache(10);
    drop(take(&cache, &[("small", 4)]).await);
    let large = take(&cache, &[("large/1", 20), ("large/2", 20)]).await;
    assert_eq!(there(&cache), ["large/1", "large/2"]);
    let next = tokio::spawn({
        let cache = Arc::clone(&cache);
        async move { take(&cache, &[("next", 1)]).await }
    });
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert!(!next.is_finished());
    drop(large);
    let _next = next.await.unwrap();
    assert_eq!(there(&cache), ["next"]);
}

#[tokio::test]
async fn what_is_pinned_already_needs_no_room() {
    let (cache, _folder) = cache(10);
    let _large = take(&cache, &[("large", 20)]).await;
    let again = tokio::time::timeout(Duration::from_mins(1), take(&cache, &[("large", 20)])).await;
    again.expect("it is there");
}

#[tokio::test]
async fn what_never_came_leaves_nothing() {
    let (cache, _folder) = cache(10);
    let pin = cache.pin(&wanted(&[("a", 4)]), true).await.unwrap();
    let again = cache.pin(&wanted(&[("a", 4)]), true).await.unwrap();
    assert_eq!(cache.state().disk.pinned, 4);
    drop((pin, again));
    assert!(cache.state().entries.is_empty() && cache.state().disk.idle.is_empty());
    assert_eq!(held(&cache), (0, 0));
}

#[tokio::test]
async fn what_nobody_needed_for_a_while_is_looked_at_anew() {
    let (cache, _folder) = cache(10);
    let pin = take(&cache, &[("a", 4)]).await;
    let seen = *pin.entries()[0].ready.get().unwrap();
    let meanwhile = cache.pin(&wanted(&[("a", 4)]), true).await.unwrap();
    assert!(meanwhile.entries()[0].ready.initialized());
    drop((pin, meanwhile));
    let pin = cache.pin(&wanted(&[("a", 4)]), true).await.unwrap();
    assert!(pin.entries()[0].known == Some(seen) && !pin.entries()[0].ready.initialized());
    // Nobody found it to be whole: it goes.
    drop(pin);
    assert!(there(&cache).is_empty() && !cache.path("a").exists());
    assert_eq!(held(&cache), (0, 0));
}

#[tokio::test]
async fn sizes_that_were_not_known_count_once_they_are() {
    let (cache, _folder) = cache(10);
    drop(take(&cache, &[("known", 8)]).await);
    let pin = take(&cache, &[("unknown", 0)]).await;
    assert_eq!(there(&cache), ["known", "unknown"]);
    cache.arrived("unknown", 5);
    assert_eq!(there(&cache), ["unknown"]);
    drop(pin);
    assert_eq!(held(&cache), (5, 0));
}

#[tokio::test]
async fn one_path_is_a_copy_of_one_object() {
    let (cache, _folder) = cache(10);
    let other = || vec![Wanted { path: "a".into(), bytes: 1, object: "other".to_owned() }];
    let pin = take(&cache, &[("a", 4)]).await;
    assert_eq!(cache.pin(&other(), true).await.unwrap_err(), Arc::from("a"));
    drop(pin);
    let pin = cache.pin(&other(), true).await.unwrap();
    assert!(!cache.path("a").exists() && pin.entries()[0].known.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_with_little_room_all_get_their_turn() {
    let (cache, _folder) = cache(10);
    let tasks: Vec<_> = (0..64u64)
        .map(|number| {
            let cache = Arc::clone(&cache);
            tokio::spawn(async move {
                let names: Vec<String> = (0..3).map(|file| format!("f/{}", (number + file) % 16)).collect();
                let names: Vec<(&str, u64)> = names.iter().map(|name| (&**name, 1 + number % 4)).collect();
                for _ in 0..20 {
                    let pin = take(&cache, &names).await;
                    assert!(names.iter().all(|(name, _)| cache.path(name).is_file()));
                    drop(pin);
                }
            })
        })
        .collect();
    for task in tasks {
        tokio::time::timeout(Duration::from_mins(1), task).await.unwrap().unwrap();
    }
    assert_eq!(cache.state().disk.pinned, 0);
    assert!(cache.state().disk.used <= 10);
}

#[test]
fn memory_is_taken_in_pages() {
    for (bytes, in_memory) in [(0, 4_096), (1, 4_096), (4_096, 4_096), (4_097, 8_192)] {
        assert_eq!((Medium::Memory.taken_by(bytes), Medium::Disk.taken_by(bytes)), (in_memory, bytes));
    }
}
