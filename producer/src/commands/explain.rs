//! `explain`: what a key of a job file takes and means, as the table of keys has it.

use std::process::ExitCode;

use prs_common::job::keys::{self, Argument, Key, Start};
use prs_common::job::{Takes, nearest};
use serde::Serialize;

use crate::cli::{Explain, Format};
use crate::failure::{Code, Failure};
use crate::terminal::output;

/// What keys of a job file take and mean.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Explained {
    /// The keys of this name, or all of them.
    keys: Vec<ExplainedKey>,
}

/// A key.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ExplainedKey {
    /// Its name, with the mapping that has it in front, such as `inputs.path`.
    key: String,
    /// What it is for.
    meaning: &'static str,
    /// Its type and range, in words.
    takes: String,
    /// What holds without it: a value, or words that say it; `required` where it has to be given.
    default: String,
    /// What may set it.
    set_by: Vec<&'static str>,
    /// What the script has to do with it, where it has.
    argument: Option<String>,
    /// Where docs/job-file.md has more of it, a link seen from there.
    more: Option<&'static str>,
}

/// Explains one key, or lists all of them.
pub(super) fn explain(arguments: &Explain, format: Format) -> Result<ExitCode, Failure> {
    let keys = match &arguments.key {
        Some(name) => named(name)?,
        None => keys::all().collect(),
    };
    let keys: Vec<ExplainedKey> = keys.into_iter().map(|(name, key)| explained(name, key)).collect();
    match format {
        Format::Json => output::json(&Explained { keys })?,
        Format::Table if arguments.key.is_none() => {
            let keys: Vec<_> = keys.iter().map(|key| (key.key.as_str(), key.meaning.to_owned())).collect();
            output::pairs(&keys)?;
        }
        Format::Table => {
            for (at, key) in keys.into_iter().enumerate() {
                if at > 0 {
                    output::line("")?;
                }
                output::pairs(&pairs(key))?;
            }
        }
    }
    Ok(Code::Completed.into())
}

/// The key that `name` is the whole name of, else those that have it in some mapping.
fn named(name: &str) -> Result<Vec<(String, &'static Key)>, Failure> {
    // Messages say which input they mean: `inputs[0].path`.
    let name = match name.split_once('[').and_then(|(list, rest)| Some((list, rest.split_once(']')?.1))) {
        Some((list, rest)) => format!("{list}{rest}"),
        None => name.to_owned(),
    };
    let (mut whole, other): (Vec<_>, Vec<_>) = keys::all().partition(|(key, _)| *key == name);
    if whole.is_empty() {
        whole = other.into_iter().filter(|(_, key)| key.name == name).collect();
    }
    if !whole.is_empty() {
        return Ok(whole);
    }
    let all: Vec<String> = keys::all().map(|(key, _)| key).collect();
    let known: Vec<&str> = all.iter().map(String::as_str).collect();
    Err(Failure::wrong(match nearest(&name, &known) {
        Some(near) => format!("there is no key `{name}` in a job file: did you mean `{near}`?"),
        None => format!("there is no key `{name}` in a job file: prs explain lists those there are"),
    }))
}

fn explained(name: String, key: &'static Key) -> ExplainedKey {
    let starts = [(Start::Submission, ["submit --set", "resubmit --set"].as_slice())];
    let starts = starts.into_iter().chain([(Start::Resumption, ["resume --set"].as_slice())]);
    let options = starts.filter(|(start, _)| key.is_settable(*start)).flat_map(|(_, options)| options);
    ExplainedKey {
        meaning: key.meaning,
        takes: key.range(),
        default: key.default.to_string(),
        set_by: ["job file"].iter().chain(options).copied().collect(),
        argument: match key.argument {
            Argument::None => None,
            // What is not built is only reserved.
            Argument::Given if matches!(key.takes, Takes::NotYet(_)) => None,
            Argument::Given => Some(format!("the script gets it as --{name}")),
            Argument::Setting => Some(format!("it may be given as the argument --{name} of the script")),
            Argument::Both => {
                Some(format!("the script gets it as --{name}, which may be given among its arguments, too"))
            }
        },
        more: key.more,
        key: name,
    }
}

fn pairs(key: ExplainedKey) -> Vec<(&'static str, String)> {
    let rest =
        [("script", key.argument), ("more", key.more.map(|place| format!("docs/job-file.md: {place}")))];
    let pairs = [
        ("key", key.key),
        ("means", key.meaning.to_owned()),
        ("takes", key.takes),
        ("default", key.default),
        ("set by", key.set_by.join(", ")),
    ];
    pairs.into_iter().chain(rest.into_iter().filter_map(|(name, value)| Some((name, value?)))).collect()
}
