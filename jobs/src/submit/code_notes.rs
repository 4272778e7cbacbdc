//! What the author of a job should know of the code that is packed: that it is large, that it holds inputs, and what an
//! ignore file that was written for something else keeps out.

use std::path::{Component, Path, PathBuf};

use prs_common::code::files::{CodeFiles, OWN_IGNORE_FILE as OWN};
use prs_common::job::{InputSource, JobSpec, script_below};

use crate::caller::Caller;
use crate::failure::Failure;
use crate::names;
use crate::paths::shown;

/// More than this is told, bytes.
const LARGE: u64 = 20 << 20;
/// Inputs in it of more than this are, bytes.
const LARGE_INPUTS: u64 = 1 << 20;
/// Parts that are named.
const NAMED: usize = 3;

/// Says what there is to say of the `code` of a job, and refuses code without its entry script.
pub fn check(spec: &JobSpec, code: &CodeFiles, caller: &dyn Caller) -> Result<(), Failure> {
    check_script(spec, code)?;
    for note in [on_size(spec, code), on_what_is_kept_out(code)].into_iter().flatten() {
        caller.note(&format_args!("note: {note}"));
    }
    Ok(())
}

fn check_script(spec: &JobSpec, code: &CodeFiles) -> Result<(), Failure> {
    let source = &spec.source_directory;
    let script = script_below(source, &spec.entry_script);
    let below = script.as_deref().and_then(|script| script.strip_prefix(source).ok());
    match (below, code.ignore_file) {
        (Some(below), Some(ignore_file)) if !code.has(below) => Err(Failure::wrong(format!(
            "{} keeps the entry script {} out of the code: write a {} that does not",
            shown(&source.join(ignore_file)),
            spec.entry_script,
            shown(&source.join(OWN))
        ))),
        _ => Ok(()),
    }
}

fn on_size(spec: &JobSpec, code: &CodeFiles) -> Option<String> {
    let source = &spec.source_directory;
    let inputs = spec.sources().filter_map(|named| match named {
        InputSource::Paths(paths) => {
            Some(paths.iter().map(Path::new).filter_map(|path| path.strip_prefix(source).ok()))
        }
        _ => None,
    });
    let inputs = inputs.flatten().map(without_glob).map(|path| {
        let size = code.size_below(&path);
        (path, size)
    });
    let inputs = inputs.filter(|(path, size)| *size > LARGE_INPUTS && *path != Path::new(""));
    let inputs: Vec<String> = inputs.map(|(path, _)| path.display().to_string()).collect();
    if code.size() <= LARGE && inputs.is_empty() {
        return None;
    }
    let biggest = code.biggest().into_iter().take(NAMED);
    let biggest = biggest.map(|(name, size)| format!("{name} {}", bytes(size))).collect::<Vec<_>>();
    let with_inputs = match inputs.as_slice() {
        [] => String::new(),
        inputs => format!(", with inputs in {}", inputs.join(", ")),
    };
    Some(format!(
        "the job takes {} of source_directory along ({}){with_inputs}: move the code into a folder of its own, or exclude what is not code with {}",
        bytes(code.size()),
        biggest.join(", "),
        shown(&source.join(code.ignore_file.unwrap_or(OWN)))
    ))
}

/// An amount of bytes, for people.
fn bytes(count: u64) -> String {
    let mut amount = count as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if amount < 1024.0 {
            return if unit == "B" { format!("{count} B") } else { format!("{amount:.2} {unit}") };
        }
        amount /= 1024.0;
    }
    format!("{amount:.2} TiB")
}

/// The folder that a glob looks through; any other path as it is.
fn without_glob(path: &Path) -> PathBuf {
    let is_plain = |part: &Component<'_>| !part.as_os_str().to_string_lossy().contains(['*', '?', '[']);
    path.components().take_while(is_plain).collect()
}

/// A file that only git was meant to read may keep out what the script needs.
fn on_what_is_kept_out(code: &CodeFiles) -> Option<String> {
    let ignore_file = code.ignore_file.filter(|name| *name != OWN && !code.kept_out.is_empty())?;
    let named = names::first(&code.kept_out, NAMED);
    Some(format!("{ignore_file} keeps {named} out of the code; a {OWN} beside it takes precedence"))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use prs_common::code::files::CodeFile;
    use prs_common::job::{Input, InputKind};

    use super::*;

    fn code(files: &[(&str, u64)]) -> CodeFiles {
        let file = |(path, size): &(&str, u64)| CodeFile { path: PathBuf::from(path), size: *size };
        CodeFiles { files: files.iter().map(file).collect(), ..CodeFiles::default() }
    }

    fn job(input: &str) -> JobSpec {
        let input = Input::new("data", InputKind::File, InputSource::Paths(vec![input.to_owned()]));
        JobSpec::new("job-1", "/code", "main.py", vec![input])
    }

    #[test]
    fn large_code_and_inputs_in_it_are_told() {
        let mib = 1 << 20;
        let little = code(&[("main.py", mib), ("data/a", mib)]);
        assert_eq!(on_size(&job("/code/data"), &little), None);
        assert_eq!(
            on_size(&job("/code"), &code(&[("main.py", 20 * mib)])),
            None,
            "an input may be the folder itself"
        );
        let large = code(&[
            ("main.py", 1024),
            ("data/a", 30 * mib),
            ("data/b/c", 30 * mib),
            ("venv/x", mib),
            ("m", 2 * mib),
        ]);
        assert_eq!(
            on_size(&job("/elsewhere"), &large).unwrap(),
            "the job takes 63.00 MiB of source_directory along (data/ 60.00 MiB, m 2.00 MiB, venv/ 1.00 MiB): move the code into a \
             folder of its own, or exclude what is not code with /code/.prsignore"
        );
        let inputs = code(&[("main.py", 1024), ("data/in/a", 2 * mib)]);
        let told = on_size(&job("/code/data/in"), &inputs).unwrap();
        assert!(told.contains("(data/ 2.00 MiB, main.py 1.00 KiB), with inputs in data/in: move"), "{told}");
    }

    #[test]
    fn what_a_file_for_git_keeps_out_is_told() {
        let with = |ignore_file, kept_out: &[&str]| {
            let kept_out = kept_out.iter().map(|name| (*name).to_owned()).collect();
            on_what_is_kept_out(&CodeFiles { ignore_file, kept_out, ..CodeFiles::default() })
        };
        assert_eq!(with(None, &[]), None);
        assert_eq!(with(Some(".gitignore"), &[]), None);
        assert_eq!(with(Some(".prsignore"), &["data/"]), None);
        assert_eq!(
            with(Some(".gitignore"), &["a/", "b/", "c", "d"]).unwrap(),
            ".gitignore keeps a/, b/, c and 1 more out of the code; a .prsignore beside it takes precedence"
        );
    }
}
