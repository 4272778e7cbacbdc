//! Tells the program which commit it is built from: `PRS_COMMIT`, or else what git says of this checkout.

#![allow(clippy::print_stdout, reason = "cargo reads what a build script prints")]

use std::path::Path;
use std::process::Command;

/// What a build from a bare copy of the sources says.
const UNKNOWN: &str = "unknown commit";

fn main() {
    println!("cargo::rerun-if-env-changed=PRS_COMMIT");
    let named = std::env::var("PRS_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = named.or_else(of_checkout).map_or(UNKNOWN.to_owned(), |commit| format!("commit {commit}"));
    println!("cargo::rustc-env=PRS_COMMIT={commit}");
}

/// The commit of the checkout that these sources are, and have cargo look again when another one is checked out.
fn of_checkout() -> Option<String> {
    // Sources that were copied below a checkout of something else are none of its commits.
    let top = git(&["rev-parse", "--show-toplevel"])?;
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?;
    if Path::new(&top).canonicalize().ok()? != sources.canonicalize().ok()? {
        return None;
    }
    // A branch lies in a file of its own or among the packed ones. A file that is not there would always seem changed.
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    for name in ["HEAD", "packed-refs"].into_iter().chain(branch.as_deref()) {
        if let Some(path) = git(&["rev-parse", "--path-format=absolute", "--git-path", name])
            && Path::new(&path).is_file()
        {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

/// What git answers; nothing where it is missing or refuses.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
    let answer = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    Some(answer.trim_end().to_owned()).filter(|answer| !answer.is_empty())
}
