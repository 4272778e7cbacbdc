//! Which files stay, which go, and who waits for room.

use std::time::Duration;

use super::*;

fn cache(limit: u64) -> (Arc<Cache>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (Arc::new(Cache::new(folder.path().to_owned(), limit, 1)), folder)
}

fn wanted(names: &[(&str, u64)]) -> Vec<Wanted> {
    let wanted = |&(path, bytes): &(&str, u64)| Wanted { path: path.into(), bytes, object: path.to_owned() };
    names.iter().map(wanted).collect()
}

/// Pins files and puts those there that are missing.
async fn take(cache: &Arc<Cache>, names: &[(&str, u64)]) -> Pin {
    let pin = cache.pin(&wanted(names)).await.unwrap();
    for Pinned { path, ready, .. } in pin.entries() {
        let path = cache.path(path);
        ready
            .get_or_init(|| async {
                // Another file that goes takes an empty folder along.
                while std::fs::write(&path, "x").is_err() {
                    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
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
    (state.used, state.pinned)
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
async fn what_never_came_leaves_nothing() {
    let (cache, _folder) = cache(10);
    let pin = cache.pin(&wanted(&[("a", 4)])).await.unwrap();
    let again = cache.pin(&wanted(&[("a", 4)])).await.unwrap();
    assert_eq!(cache.state().pinned, 4);
    drop((pin, again));
    let state = cache.state();
    assert!(state.entries.is_empty() && state.idle.is_empty());
    assert_eq!((state.used, state.pinned), (0, 0));
}

#[tokio::test]
async fn what_nobody_needed_for_a_while_is_looked_at_anew() {
    let (cache, _folder) = cache(10);
    let pin = take(&cache, &[("a", 4)]).await;
    let seen = *pin.entries()[0].ready.get().unwrap();
    let meanwhile = cache.pin(&wanted(&[("a", 4)])).await.unwrap();
    assert!(meanwhile.entries()[0].ready.initialized());
    drop((pin, meanwhile));
    let pin = cache.pin(&wanted(&[("a", 4)])).await.unwrap();
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
    assert_eq!(cache.pin(&other()).await.unwrap_err(), Arc::from("a"));
    drop(pin);
    let pin = cache.pin(&other()).await.unwrap();
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
    assert_eq!(cache.state().pinned, 0);
    assert!(cache.state().used <= 10);
}

#[tokio::test]
async fn where_there_is_a_grain_a_file_takes_a_multiple_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Arc::new(Cache::new(folder.path().to_owned(), 40, 10));
    let pin = take(&cache, &[("empty", 0), ("one", 1), ("ten", 10)]).await;
    assert_eq!(held(&cache), (30, 30));
    cache.arrived("one", 11);
    assert_eq!(held(&cache), (40, 40));
    drop(pin);
    assert_eq!(held(&cache), (40, 0));
    drop(take(&cache, &[("next", 5)]).await);
    assert_eq!(there(&cache), ["next", "one", "ten"]);
}

#[tokio::test]
async fn what_has_no_room_at_once_is_not_waited_for() {
    let (cache, _folder) = cache(10);
    let pin = take(&cache, &[("a", 6)]).await;
    assert!(cache.pin_if_room(&wanted(&[("b", 5)])).unwrap().is_none());
    drop(pin);
    assert!(cache.pin_if_room(&wanted(&[("large", 11)])).unwrap().is_none(), "not even alone");
    let pin = cache.pin_if_room(&wanted(&[("b", 5)])).unwrap().unwrap();
    assert_eq!(held(&cache), (5, 5));
    drop(pin);
}

#[tokio::test]
async fn a_smaller_limit_lets_go_what_nobody_needs() {
    let (cache, _folder) = cache(10);
    let pin = take(&cache, &[("needed", 4)]).await;
    drop(take(&cache, &[("idle", 4)]).await);
    cache.set_limit(3);
    assert_eq!(there(&cache), ["needed"]);
    drop(pin);
    assert!(there(&cache).is_empty());
}
