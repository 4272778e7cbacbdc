//! Small files in memory: where they lie, what becomes of them, and what happens when there is no room.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use tokio::time::timeout;

use super::*;
use crate::host::memory_folder::MemoryFolder;

/// A tmpfs; unmounted when dropped.
struct Memory {
    folder: TempDir,
}

impl Memory {
    fn of(size: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size},mode=1777"), "tmpfs"]).arg(folder.path());
        let mounted = mount.output().unwrap();
        let why = String::from_utf8_lossy(&mounted.stderr);
        assert!(mounted.status.success(), "this is tested on a tmpfs, which root can mount: {why}");
        Self { folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    /// Fills it to the last byte.
    fn fill(&self) -> PathBuf {
        let path = self.path().join("ballast");
        let mut file = fs::File::create(&path).unwrap();
        for size in [1 << 16, 1 << 10, 1] {
            while file.write_all(&vec![7; size]).is_ok() {}
        }
        path
    }

    /// The folders of programs in it.
    fn folders(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.is_dir()).collect()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.folder.path()).status();
    }
}

/// A localizer with so many bytes on the disk and in memory together, and of these so many in memory.
fn localizer(fleet: &Fleet, memory: &Memory, limit: u64, in_memory: u64) -> Localizer {
    let folder = fleet.path("cache");
    fs::create_dir_all(&folder).unwrap();
    let (stores, spec, folder) =
        (fleet.stores.clone(), Arc::new(with_a_bucket()), folder.canonicalize().unwrap());
    let memory = MemoryFolder::open_in(&memory.path(), in_memory);
    Localizer::with_memory(stores, spec, folder, limit, memory, InputPlace::own, Metrics::default()).unwrap()
}

/// Whether the bytes of a file that is seen at `path` lie in memory.
fn lies_in(memory: &Memory, path: &Path) -> bool {
    assert!(path.starts_with(memory.path()), "all files are seen in one tree: {}", path.display());
    path.canonicalize().unwrap().starts_with(memory.path())
}

/// The paths that a script sees.
fn files(ready: &Localized) -> Vec<PathBuf> {
    let MiniBatch { work: Work::Files { base, paths, .. }, .. } = MiniBatch::decode(&ready.local).unwrap()
    else {
        panic!("it has files")
    };
    paths.iter().map(|path| Path::new(base).join(path)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn small_files_lie_in_memory_under_their_names_and_go_with_the_job() {
    let (fleet, memory) = (Fleet::new(), Memory::of("16m"));
    fleet.write("storage/in/sub/a b.png", "small");
    fleet.write("storage/in/empty", "");
    for name in ["large", "sub/large"] {
        fleet.write(&format!("storage/in/{name}"), vec![1; (1 << 20) + 1]);
    }
    let localizer = localizer(&fleet, &memory, 64 << 20, 4 << 20);
    let ready = localizer.localize(&body(0, pictures(&["sub/a b.png", "empty"], None))).await.unwrap();
    let paths = files(&ready);
    assert!(paths.iter().all(|path| lies_in(&memory, path)), "{paths:?}");
    assert!(
        paths[0].ends_with("pictures.2/sub/a b.png") && paths[1].ends_with("pictures.2/empty"),
        "{paths:?}"
    );
    assert_eq!(fs::read(&paths[0]).unwrap(), b"small");
    assert_eq!(fs::read(&paths[1]).unwrap(), b"");
    let folders = memory.folders();
    assert_eq!(folders.len(), 1);
    assert_eq!(fs::metadata(&folders[0]).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(localizer.inner.cache.limit(), 60 << 20, "the room of both is what was given");

    // Where the bytes of a file lie does not show in its path.
    let mixed = localizer.localize(&body(1, pictures(&["empty", "large", "sub/large"], None))).await.unwrap();
    let seen = files(&mixed);
    assert_eq!(seen[0], paths[1]);
    assert_eq!([0, 1, 2].map(|file| lies_in(&memory, &seen[file])), [true, false, false]);
    assert_eq!(seen[1], memory.folders()[0].join("inputs/pictures.2/large"));
    assert!(seen[2].canonicalize().unwrap().ends_with("cache/pictures.2/sub/large"));
    assert!(fs::read(&seen[1]).unwrap() == fs::read(&seen[2]).unwrap());
    // It is fetched once, as on the disk.
    let so_far = fleet.shared.reads.load(Ordering::Relaxed);
    let again = localizer.localize(&body(0, pictures(&["sub/a b.png"], None))).await.unwrap();
    assert_eq!(fleet.shared.reads.load(Ordering::Relaxed), so_far);
    drop((ready, mixed, again, localizer));
    assert!(memory.folders().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_memory_costs_the_disk_and_no_mini_batch() {
    let (fleet, memory) = (Fleet::new(), Memory::of("16m"));
    for number in 0..8 {
        fleet.write(&format!("storage/in/{number}"), vec![b'0' + number; 100_000]);
    }
    let localizer = localizer(&fleet, &memory, 64 << 20, 4 << 20);
    let localize = async |number: u8| {
        let name = number.to_string();
        let ready = localizer.localize(&body(u64::from(number), pictures(&[&name], None))).await.unwrap();
        let path = files(&ready).remove(0);
        assert_eq!(fs::read(&path).unwrap(), vec![b'0' + number; 100_000], "{}", path.display());
        (ready, lies_in(&memory, &path))
    };
    let (first, is_in_memory) = localize(0).await;
    assert!(is_in_memory);
    let ballast = memory.fill();
    let (second, is_in_memory) = localize(1).await;
    assert!(!is_in_memory, "others have taken the memory");
    let (memory_limit, disk_limit) = (2 << 20, 62 << 20);
    assert_eq!(localizer.inner.cache.limit(), disk_limit);
    fs::remove_file(ballast).unwrap();
    let (third, is_in_memory) = localize(2).await;
    assert!(is_in_memory, "there is room again");

    // All of it given up, one half after another.
    let ballast = memory.fill();
    let mut kept = vec![first, second, third];
    for number in 3..8 {
        let (ready, is_in_memory) = localize(number).await;
        assert!(!is_in_memory);
        kept.push(ready);
    }
    assert_eq!(localizer.inner.cache.limit(), disk_limit + memory_limit);
    fs::remove_file(ballast).unwrap();
    drop(kept);
    assert!(!localize(7).await.1);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_is_in_memory_than_is_allowed_and_nobody_waits_for_it() {
    let (fleet, memory) = (Fleet::new(), Memory::of("16m"));
    let mut kept = Vec::new();
    let localizer = localizer(&fleet, &memory, 64 << 20, 2 << 20);
    let mut in_memory = 0;
    for number in 0..8 {
        let name = number.to_string();
        fleet.write(&format!("storage/in/{name}"), vec![1; 500 << 10]);
        let ready = localizer.localize(&body(number, pictures(&[&name], None))).await.unwrap();
        in_memory += usize::from(lies_in(&memory, &files(&ready)[0]));
        kept.push(ready);
    }
    assert_eq!(in_memory, 4);
    // Those that nobody needs make room for others.
    kept.clear();
    for number in 8..16 {
        let name = number.to_string();
        fleet.write(&format!("storage/in/{name}"), vec![1; 500 << 10]);
        let ready = localizer.localize(&body(number, pictures(&[&name], None))).await.unwrap();
        assert!(lies_in(&memory, &files(&ready)[0]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slices_in_memory_are_those_on_the_disk() {
    let (fleet, memory) = (Fleet::new(), Memory::of("16m"));
    let rows = (0..2_000).map(|id| format!("{id},\"some name, {id}\"\n"));
    let text: String = std::iter::once("id,name\n".to_owned()).chain(rows).collect();
    fleet.write("in/tables/a.csv", &text);
    let tables =
        job(vec![input(InputKind::Tabular, paths(&[fleet.path("in/tables")]))], MiniBatchSize::Bytes(5_000));
    let resolved = fleet.resolve(&tables, Where::Fleet).await;
    let bodies = fleet.plan(&resolved, "there").await;
    assert!(bodies.len() > 5);
    let (on_disk, in_memory) =
        (fleet.localizer("disk", 1 << 20), localizer(&fleet, &memory, 64 << 20, 4 << 20));
    for body in &bodies {
        let (one, other) = (on_disk.localize(body).await.unwrap(), in_memory.localize(body).await.unwrap());
        let MiniBatch { work: Work::Slice(slice), .. } = MiniBatch::decode(&other.local).unwrap() else {
            panic!("it is a slice")
        };
        assert!(Path::new(slice.key).starts_with(memory.path()), "{slice:?}");
        assert_eq!(seen(&one.local, Path::new("/")), seen(&other.local, Path::new("/")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_killed_programs_left_in_memory_goes_with_the_next_one() {
    let (fleet, memory) = (Fleet::new(), Memory::of("16m"));
    fleet.write("storage/in/a", "small");
    let left = memory.path().join("prs-worker-0123456789abcdef");
    fs::create_dir_all(left.join("inputs/pictures.2")).unwrap();
    fs::write(left.join("inputs/pictures.2/a"), "left").unwrap();
    let localizer = localizer(&fleet, &memory, 64 << 20, 4 << 20);
    let _ready = localizer.localize(&body(0, pictures(&["a"], None))).await.unwrap();
    assert!(!left.exists() && memory.folders().len() == 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_memory_gives_up_what_is_idle_there_and_nothing_on_the_disk() {
    let (fleet, memory) = (Fleet::new(), Memory::of("16m"));
    for name in ["small", "next"] {
        fleet.write(&format!("storage/in/{name}"), vec![1; 500 << 10]);
    }
    fleet.write("storage/in/large", vec![1; (1 << 20) + 1]);
    let localizer = localizer(&fleet, &memory, 64 << 20, 4 << 20);
    let localize = async |name| {
        let ready = localizer.localize(&body(0, pictures(&[name], None))).await.unwrap();
        lies_in(&memory, &files(&ready)[0])
    };
    assert_eq!([localize("small").await, localize("large").await], [true, false]);
    let _ballast = memory.fill();
    assert!(localize("next").await, "it has the room of what nobody needs");
    let so_far = fleet.shared.reads.load(Ordering::Relaxed);
    assert!(!localize("large").await);
    assert_eq!(fleet.shared.reads.load(Ordering::Relaxed), so_far, "it is fetched once");
    assert_eq!(localizer.inner.cache.limit(), 60 << 20, "no limit is changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_on_the_disk_need_no_room_in_memory_whatever_their_names() {
    let (fleet, memory) = (Fleet::new(), Memory::of("16m"));
    let names = ["n".repeat(200), format!("{}x", "d/".repeat(60)), "folder/".repeat(12) + "table.csv"];
    let names = names.each_ref().map(String::as_str);
    for (number, name) in (0..).zip(names) {
        fleet.write(&format!("storage/in/{name}"), vec![number; (1 << 20) + 1]);
    }
    let localizer = localizer(&fleet, &memory, 64 << 20, 4 << 20);
    let _ballast = memory.fill();
    let ready = localizer.localize(&body(0, pictures(&names, None))).await.unwrap();
    for ((number, name), path) in (0..).zip(names).zip(files(&ready)) {
        assert!(path.ends_with(name) && !lies_in(&memory, &path), "{}", path.display());
        assert!(fs::read(&path).unwrap() == vec![number; (1 << 20) + 1]);
    }
    drop(ready);
    localizer.inner.cache.evict_idle(Medium::Disk);
    assert!(files_below(&fleet.path("cache")).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_the_disk_who_needs_only_memory() {
    let (fleet, memory) = (Fleet::new(), Memory::of("16m"));
    for (name, bytes) in [("large", 3 << 20), ("larger", 3 << 20), ("small", 1)] {
        fleet.write(&format!("storage/in/{name}"), vec![1; bytes]);
    }
    let localizer = localizer(&fleet, &memory, 8 << 20, 4 << 20);
    let localize = async |name| localizer.localize(&body(0, pictures(&[name], None))).await.unwrap();
    let large = localize("large").await;
    let mut waits = std::pin::pin!(localize("larger"));
    assert!(timeout(Duration::from_millis(50), &mut waits).await.is_err(), "the disk has no room for it");
    timeout(Duration::from_mins(1), localize("small")).await.expect("it needs no room on the disk");
    drop(large);
    waits.await;
}
