//! What scripts for `az` say that has no meaning here, or another one.

use std::ffi::OsString;

use clap::Args;

/// What registers versions.
const ASSETS: [&str; 5] = ["dataset", "data", "model", "environment", "component"];
/// Options before a command that have a value behind them.
const WITH_VALUES: [&str; 4] = ["-o", "--output", "--query", "--color"];

/// Options of `az` that say where in Azure something is: here that is said by the servers.
#[derive(Debug, Args)]
pub(crate) struct OfAzure {
    /// Has no meaning here.
    #[arg(short = 'g', long, global = true, hide = true, value_name = "NAME")]
    resource_group: Option<String>,
    /// Has no meaning here.
    #[arg(short = 'w', long, global = true, hide = true, value_name = "NAME")]
    workspace_name: Option<String>,
    /// Has no meaning here.
    #[arg(long, global = true, hide = true, value_name = "ID")]
    subscription: Option<String>,
    /// Has no meaning here.
    #[arg(long, global = true, hide = true)]
    no_wait: bool,
    /// Another registry than that of the servers, or of the runs of this machine: there is none.
    #[arg(long, global = true, hide = true, value_name = "NAME")]
    pub(crate) registry_name: Option<String>,
}

impl OfAzure {
    /// The options that are given, of which the user is told that they change nothing.
    pub(crate) fn given(&self) -> Vec<&'static str> {
        let options = [
            ("--resource-group", self.resource_group.is_some()),
            ("--workspace-name", self.workspace_name.is_some()),
            ("--subscription", self.subscription.is_some()),
            ("--no-wait", self.no_wait),
        ];
        options.into_iter().filter_map(|(option, is_given)| is_given.then_some(option)).collect()
    }
}

/// The arguments of the program with `--version VERSION` in the place of `-v VERSION` where versions are registered: that is what `az`
/// calls it, and everywhere else it asks for more of the log.
pub(super) fn with_versions(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.collect();
    let mut at = 1;
    while let Some(word) =
        arguments.get(at).and_then(|word| word.to_str()).filter(|word| word.starts_with('-'))
    {
        at += if WITH_VALUES.contains(&word) { 2 } else { 1 };
    }
    if arguments.get(at).and_then(|word| word.to_str()).is_none_or(|word| !ASSETS.contains(&word)) {
        return arguments;
    }
    for at in at + 1..arguments.len() {
        let has_value = arguments.get(at + 1).is_some_and(|next| !next.as_encoded_bytes().starts_with(b"-"));
        if arguments[at] == "-v" && has_value {
            arguments[at] = "--version".into();
        }
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v_is_the_version_of_what_is_registered() {
        for (given, expected) in [
            ("prs model show -n x -v 3", "prs model show -n x --version 3"),
            (
                "prs -o json --query a -v data show -v 3 -n x",
                "prs -o json --query a -v data show --version 3 -n x",
            ),
            ("prs component create -v", "prs component create -v"),
            ("prs environment list -v -n x", "prs environment list -v -n x"),
            ("prs model list -vv", "prs model list -vv"),
            ("prs submit -v model", "prs submit -v model"),
            ("prs", "prs"),
            ("prs -o", "prs -o"),
        ] {
            let words = given.split(' ').map(OsString::from);
            let found: Vec<String> =
                with_versions(words).into_iter().map(|word| word.into_string().unwrap()).collect();
            assert_eq!(found.join(" "), expected);
        }
    }
}
