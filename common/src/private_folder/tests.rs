//! Which folders are taken, and what is said of the others.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

const OWN: u32 = 1000;

fn trusted() -> Trusted {
    Trusted { own: OWN, groups: vec![OWN, 50], system: 65534 }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_folder_belongs_to_this_user_alone() {
    let table = [
        (OWN, OWN, 0o700, true),
        (OWN, OWN, 0o755, true),
        (OWN, 7, 0o2750, true),
        (OWN, OWN, 0o775, false),
        (OWN, OWN, 0o757, false),
        (OWN, OWN, 0o1777, false),
        (0, 0, 0o755, false),
        (65534, 0, 0o700, false),
    ];
    for (owner, group, mode, is_fine) in table {
        let refused = trusted().refuse(Facts { owner, group, mode });
        assert_eq!(refused.is_none(), is_fine, "{owner} {group} {mode:o}: {refused:?}");
    }
}

#[test]
fn no_other_user_can_replace_what_is_below_a_folder() {
    let table = [
        (0, 0, 0o755, None),
        (0, 0, 0o1777, None),
        (OWN, 7, 0o1775, None),
        (65534, 65534, 0o755, None),
        (OWN, 50, 0o775, None),
        (OWN, 7, 0o755, None),
        (OWN, 7, 0o775, Some(Above::OfGroup { group: 7, mode: 0o775 })),
        (OWN, 50, 0o777, Some(Above::OfEverybody { mode: 0o777 })),
        (1001, 50, 0o755, Some(Above::Foreign { owner: 1001 })),
        (1001, 50, 0o1777, Some(Above::Foreign { owner: 1001 })),
    ];
    for (owner, group, mode, expected) in table {
        let refused = trusted().refuse_above(Facts { owner, group, mode });
        assert_eq!(refused, expected, "{owner} {group} {mode:o}");
    }
}

#[test]
fn what_is_made_is_for_this_user_alone_and_what_was_there_stays_as_it_is() {
    let above = tempfile::tempdir().unwrap();
    let path = above.path().join("a/b");
    let made = PrivateFolder::make(&path).unwrap();
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o700, 0o700));
    assert_eq!(made.path(), path.canonicalize().unwrap());
    assert!(made.is_there() && !made.is_open_to_others());

    set_mode(&path, 0o755);
    let again = PrivateFolder::make(&path).unwrap();
    assert!(again.is_open_to_others());
    assert_eq!(mode(&path), 0o755);
    assert_eq!(mode(again.make_below("own").unwrap().path()), 0o700);
    let fresh = PrivateFolder::fresh(above.path(), "new-").unwrap();
    assert_eq!(mode(fresh.path()), 0o700);
    assert!(fresh.path().file_name().unwrap().to_str().unwrap().starts_with("new-"));

    fs::remove_dir_all(&path).unwrap();
    assert!(!again.is_there());
    let gone = again.make_below("own").unwrap_err();
    assert_eq!(gone.io_kind(), Some(io::ErrorKind::NotFound));
    assert_eq!(PrivateFolder::open(&path).unwrap_err().io_kind(), Some(io::ErrorKind::NotFound));
}

#[test]
fn two_make_the_same_folder_at_once() {
    let above = tempfile::tempdir().unwrap();
    for round in 0..20 {
        let path = above.path().join(format!("{round}/a/b"));
        std::thread::scope(|scope| {
            let makers: Vec<_> = (0..4).map(|_| scope.spawn(|| PrivateFolder::make(&path))).collect();
            for made in makers {
                assert!(made.join().unwrap().unwrap().is_there());
            }
        });
    }
}

#[test]
fn what_is_refused_says_why_and_what_to_do() {
    let above = tempfile::tempdir().unwrap();
    let at = |name: &str| above.path().join(name);
    fs::create_dir(at("open")).unwrap();
    set_mode(&at("open"), 0o777);
    fs::create_dir(at("shared")).unwrap();
    set_mode(&at("shared"), 0o1777);
    fs::create_dir(at("real")).unwrap();
    symlink("real", at("link")).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    fs::write(at("file"), "").unwrap();
    let table = [
        ("open", "writable by other users (mode 0777)", "chmod go-w"),
        ("shared", "writable by other users (mode 1777)", "name a folder below it"),
        ("open/below", "is writable by everybody (mode 0777)", "name a folder elsewhere"),
        ("link", "is a link", "name the folder it leads to"),
        ("dangling", "is a link", "name the folder it leads to"),
        ("dangling/below", "is a link", "name the folder it leads to"),
        ("file", "is not a folder", ""),
        ("file/below", "Not a directory", ""),
    ];
    for (name, why, remedy) in table {
        let refused = PrivateFolder::make(&at(name)).unwrap_err().to_string();
        assert!(refused.contains(why) && refused.contains(remedy), "{name}: {refused}");
    }
    // A link on the way is only another name, and a sticky folder keeps what is in it.
    let below = PrivateFolder::make(&at("link/below")).unwrap();
    assert_eq!(below.path(), at("real/below").canonicalize().unwrap());
    PrivateFolder::make(&at("shared/below")).unwrap();
    PrivateFolder::make(&at("real/../real")).unwrap();
    assert!(PrivateFolder::make(Path::new("/")).is_err());
}
