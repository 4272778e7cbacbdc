//! What lies in the place of a file or a folder is told, replaced or copied, and never followed.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

/// A folder to work in, `a`, beside one of others.
fn scene() -> (tempfile::TempDir, OpenFolder) {
    let scene = tempfile::tempdir().unwrap();
    fs::create_dir_all(scene.path().join("a/b/c")).unwrap();
    fs::create_dir_all(scene.path().join("others/c")).unwrap();
    fs::write(scene.path().join("others/c/file"), "of others").unwrap();
    let folder = OpenFolder::open(&scene.path().join("a")).unwrap();
    (scene, folder)
}

#[test]
fn no_step_goes_through_a_link_or_out() {
    let (scene, folder) = scene();
    symlink("../others", scene.path().join("a/link")).unwrap();
    assert!(folder.below(Path::new("b/c")).is_ok());
    for path in ["link", "link/c", "../others", "/tmp", "none"] {
        assert!(folder.below(Path::new(path)).is_err(), "{path}");
    }
    for path in ["link", "link/c/new", "../others/new"] {
        assert!(folder.make(Path::new(path)).is_err(), "{path}");
    }
    folder.make(Path::new("b/d/e")).unwrap();
    assert!(scene.path().join("a/b/d/e").is_dir());
    let files = [Path::new("link/c/file")];
    assert!(folder.for_each(files, |folder, name, _| folder.remove_file(name)).is_err());
    folder.remove_all("link".as_ref(), Path::new("link")).unwrap();
    assert_eq!(fs::read(scene.path().join("others/c/file")).unwrap(), b"of others");
    // Wherever its path leads by now, it is the folder that was opened.
    fs::rename(scene.path().join("a"), scene.path().join("moved")).unwrap();
    symlink("others", scene.path().join("a")).unwrap();
    fs::write(scene.path().join("moved/b/file"), "own").unwrap();
    let opened = folder.child("b".as_ref()).unwrap();
    assert_eq!(fs::read(opened.path_to("file".as_ref())).unwrap(), b"own");
    assert_eq!(io::read_to_string(opened.open_file("file".as_ref()).unwrap()).unwrap(), "own");
    assert!(folder.open_file("link".as_ref()).is_err() && folder.open_file("b".as_ref()).is_err());
    folder.child("b".as_ref()).unwrap().remove_all("c".as_ref(), Path::new("c")).unwrap();
    assert!(scene.path().join("others/c/file").is_file() && !scene.path().join("moved/b/c").exists());
}

#[test]
fn a_system_without_the_call_goes_the_same_way() {
    let (scene, folder) = scene();
    symlink("../others", scene.path().join("a/link")).unwrap();
    symlink("../../others/c/file", scene.path().join("a/b/file")).unwrap();
    fs::write(scene.path().join("a/b/c/own"), "own").unwrap();
    let opened = |path: &str, how: OFlags| {
        let path = Path::new(path);
        let how = how | OFlags::NOFOLLOW;
        open_step_by_step(folder.as_fd(), &names(path).unwrap(), how, Mode::empty()).map(File::from)
    };
    assert_eq!(io::read_to_string(opened("b/c/own", FILE).unwrap()).unwrap(), "own");
    assert!(opened("b/c", FOLDER).unwrap().metadata().unwrap().is_dir());
    for (path, how) in [("link", FOLDER), ("link/c", FOLDER), ("link/c/file", FILE), ("b/file", FILE)] {
        assert!(opened(path, how).is_err(), "{path}");
    }
    // Another file system is below.
    let root = OpenFolder::follow(Path::new("/")).unwrap();
    let proc = open_step_by_step(root.as_fd(), &["proc".as_ref()], FOLDER, Mode::empty()).unwrap_err();
    assert_eq!(proc.kind(), io::ErrorKind::CrossesDevices);
    assert_eq!(root.child("proc".as_ref()).unwrap_err().kind(), io::ErrorKind::CrossesDevices);
}

#[test]
fn a_file_that_others_hold_is_copied() {
    let (scene, folder) = scene();
    let target = folder.child("b".as_ref()).unwrap();
    let at = |path: &str| scene.path().join(path);
    fs::write(at("a/own"), "own").unwrap();
    fs::hard_link(at("others/c/file"), at("a/held")).unwrap();
    fs::set_permissions(at("others/c/file"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("others/c/file", at("a/link")).unwrap();
    let of_own = folder.look_at("own".as_ref()).unwrap().unwrap();
    for name in ["own", "held"] {
        folder.move_file(name.as_ref(), &target, name.as_ref()).unwrap();
        assert!(!at("a").join(name).exists(), "{name}");
    }
    assert_eq!(target.look_at("own".as_ref()).unwrap(), Some(of_own));
    fs::write(at("a/b/held"), "changed").unwrap();
    assert_eq!(fs::read(at("others/c/file")).unwrap(), b"of others");
    assert_eq!(fs::metadata(at("a/b/held")).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(folder.move_file("link".as_ref(), &target, "link".as_ref()).is_err());
    assert!(at("a/link").is_symlink() && !at("a/b/link").is_symlink());
    let mut names: Vec<_> = target.entries().unwrap().into_iter().map(|(name, _)| name).collect();
    names.sort();
    assert_eq!(names, ["c", "held", "own"]);
}

#[test]
fn a_new_file_takes_the_name_and_nothing_else() {
    let (scene, folder) = scene();
    let at = |path: &str| scene.path().join(path);
    let others = || fs::read(at("others/c/file")).unwrap();
    for plant in [
        |from: &Path, to: &Path| fs::hard_link(from, to).unwrap(),
        |from: &Path, to: &Path| symlink(from, to).unwrap(),
        |from: &Path, to: &Path| symlink(from.with_file_name("none"), to).unwrap(),
    ] {
        for write in [
            |folder: &OpenFolder| folder.create("f".as_ref(), 0o644)?.write_all(b"own"),
            |folder: &OpenFolder| folder.append("f".as_ref())?.write_all(b"own"),
            |folder: &OpenFolder| folder.write_whole("f".as_ref(), b"own"),
        ] {
            plant(&at("others/c/file"), &at("a/f"));
            assert!(folder.open_to_write("f".as_ref()).is_err());
            write(&folder).unwrap();
            assert_eq!(fs::read(at("a/f")).unwrap(), b"own");
            assert!(!at("a/f").is_symlink() && others() == b"of others" && !at("others/c/none").exists());
            folder.append("f".as_ref()).unwrap().write_all(b"ed").unwrap();
            folder.open_to_write("f".as_ref()).unwrap().write_all(b"O").unwrap();
            assert_eq!(fs::read(at("a/f")).unwrap(), b"Owned");
            folder.remove_file("f".as_ref()).unwrap();
        }
    }
    // A folder makes no room, and a pipe is not waited for.
    rustix::fs::mkfifoat(&folder, "pipe", Mode::RWXU).unwrap();
    assert!(folder.create("b".as_ref(), 0o644).is_err() && folder.append("b".as_ref()).is_err());
    assert!(folder.append("pipe".as_ref()).is_err() && folder.open_file("pipe".as_ref()).is_err());
    folder.create("pipe".as_ref(), 0o644).unwrap();
    assert!(at("a/pipe").is_file() && fs::read_dir(at("others/c")).unwrap().count() == 1);
}

#[test]
fn rights_and_names_of_a_file_of_others_stay() {
    let (scene, folder) = scene();
    let at = |path: &str| scene.path().join(path);
    let mode = |path: &str| fs::metadata(at(path)).unwrap().permissions().mode() & 0o777;
    let before = mode("others/c/file");
    for name in ["changed", "moved", "linked"] {
        fs::hard_link(at("others/c/file"), at("a").join(name)).unwrap();
    }
    symlink("../others", at("a/link")).unwrap();
    folder.set_mode("changed".as_ref(), 0o400).unwrap();
    folder.set_mode("b".as_ref(), 0o711).unwrap();
    assert_eq!((mode("a/changed"), mode("a/b"), mode("others/c/file")), (0o400, 0o711, before));
    assert!(folder.set_mode("link".as_ref(), 0o700).is_err());
    let target = folder.child("b".as_ref()).unwrap();
    folder.rename("moved".as_ref(), &target, "moved".as_ref()).unwrap();
    folder.second_name("linked".as_ref(), &target, "linked".as_ref()).unwrap();
    folder.remove_file("linked".as_ref()).unwrap();
    let links = |path: &str| seen_at(&at(path)).links;
    assert_eq!([links("others/c/file"), links("a/b/moved"), links("a/b/linked")], [1; 3]);
    // Its own gets a second name, and a link is moved as one.
    folder.create("own".as_ref(), 0o644).unwrap();
    folder.second_name("own".as_ref(), &target, "own".as_ref()).unwrap();
    folder.rename("link".as_ref(), &target, "link".as_ref()).unwrap();
    assert_eq!((links("a/own"), fs::read_link(at("a/b/link")).unwrap()), (2, "../others".into()));
    assert!(folder.put_new("own".as_ref(), &target, "moved".as_ref()).is_err());
}

/// What is seen of the entry at `path`.
fn seen_at(path: &Path) -> Seen {
    let folder = OpenFolder::open(path.parent().unwrap()).unwrap();
    folder.look_at(path.file_name().unwrap()).unwrap().unwrap()
}
