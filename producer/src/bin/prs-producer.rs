//! `prs-producer`: another name of `prs`, for scripts that call it by its former name.

#[path = "../other_name.rs"]
mod other_name;

fn main() -> std::process::ExitCode {
    other_name::run("prs-producer")
}
