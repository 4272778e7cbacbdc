//! `prs-worker`: another name of `prs worker`.

#[path = "../other_name.rs"]
mod other_name;

fn main() -> std::process::ExitCode {
    other_name::run("prs-worker")
}
