//! `profiles`: the profiles of the configuration, which servers are used, and why.

use std::collections::BTreeMap;
use std::process::ExitCode;

use prs_common::config::{Choice, ConfigValue, Profile, ProfileInUse, Server, without_password};
use prs_common::storage::S3Options;
use serde::Serialize;

use crate::cli::{Format, Servers};
use crate::failure::{Code, Failure};
use crate::terminal::output;

/// The profiles of the configuration, and what is used of them. Passwords that stand in a URL are masked.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ProfilesView {
    /// All profiles, in the order of the files.
    profiles: Vec<ProfileView>,
    /// What commands use here.
    used: UsedView,
}

/// A profile.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ProfileView {
    /// Its name.
    name: String,
    /// The configuration file that has it.
    file: String,
    /// RabbitMQ, as the file writes it.
    broker: Option<String>,
    /// Redis, as the file writes it.
    redis: Option<String>,
    /// Object storage, as the file writes it.
    storage: Option<String>,
    /// What the profile says of buckets, by its keys.
    s3: BTreeMap<&'static str, String>,
    /// Whether it is the one that is used here.
    is_used: bool,
}

/// What commands use.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct UsedView {
    /// The profile; null where none is used.
    profile: Option<String>,
    /// Who names the profile.
    named_by: Option<String>,
    /// RabbitMQ; null without a fleet, as the others.
    broker: Option<ServerView>,
    /// Redis.
    redis: Option<ServerView>,
    /// Object storage.
    storage: Option<ServerView>,
}

/// A server.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ServerView {
    /// Its URL.
    url: String,
    /// Who names it: an option, a variable or a profile.
    from: String,
}

/// Lists the profiles. Connects to nothing.
pub(super) fn profiles(servers: &Servers, format: Format) -> Result<ExitCode, Failure> {
    let choice = servers.choose_to_show().map_err(Failure::usage)?;
    for note in &choice.notes {
        output::note(format_args!("note: {note}"));
    }
    let view = ProfilesView { profiles: views(&choice), used: used(&choice) };
    output::print(format, &view, |view| text(view, &choice))?;
    Ok(Code::Completed.into())
}

fn views(choice: &Choice) -> Vec<ProfileView> {
    let of_file =
        choice.files.iter().flat_map(|file| file.profiles.iter().map(move |profile| (file, profile)));
    let is_used = |in_use: &ProfileInUse, file, name| in_use.file == file && in_use.name == name;
    of_file
        .map(|(file, profile)| ProfileView {
            name: profile.name.clone(),
            file: file.path.display().to_string(),
            broker: written(profile.broker.as_ref(), profile.broker_password_file.as_ref()),
            redis: written(profile.redis.as_ref(), profile.redis_password_file.as_ref()),
            storage: written(profile.storage.as_ref(), None),
            s3: of_buckets(profile),
            is_used: choice.profile.as_ref().is_some_and(|used| is_used(used, &*file.path, &*profile.name)),
        })
        .collect()
}

/// A URL as the file writes it, without its password.
fn written(url: Option<&ConfigValue>, password_file: Option<&ConfigValue>) -> Option<String> {
    let shown = without_password(&url?.text);
    Some(match password_file {
        Some(file) => format!("{shown} (password in {})", file.text),
        None => shown,
    })
}

fn of_buckets(profile: &Profile) -> BTreeMap<&'static str, String> {
    let S3Options { endpoint, region, aws_profile, virtual_host, certificates, .. } = &profile.s3;
    let values = [
        ("endpoint", endpoint.clone()),
        ("region", region.clone()),
        ("aws_profile", aws_profile.clone()),
        ("virtual_host", virtual_host.map(|is| is.to_string())),
        ("ca_bundle", certificates.as_ref().map(|file| file.display().to_string())),
    ];
    values.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

fn used(choice: &Choice) -> UsedView {
    let server = |server: &Option<Server>| {
        let Server { url, source } = server.as_ref()?;
        Some(ServerView { url: without_password(url), from: source.to_string() })
    };
    UsedView {
        profile: choice.profile.as_ref().map(|profile| profile.name.clone()),
        named_by: choice.profile.as_ref().map(|profile| profile.named_by.clone()),
        broker: server(&choice.broker),
        redis: server(&choice.redis),
        storage: server(&choice.storage),
    }
}

fn text(view: &ProfilesView, choice: &Choice) -> String {
    let mut lines = Vec::new();
    for profile in &view.profiles {
        let mark = if profile.is_used { "*" } else { " " };
        lines.push(format!("{mark} {}  ({})", profile.name, profile.file));
        let servers = [("broker", &profile.broker), ("redis", &profile.redis), ("storage", &profile.storage)];
        for (key, url) in servers {
            lines.extend(url.iter().map(|url| format!("    {key:<8} {url}")));
        }
        let buckets: Vec<String> = profile.s3.iter().map(|(key, value)| format!("{key} {value}")).collect();
        if !buckets.is_empty() {
            lines.push(format!("    {:<8} {}", "s3", buckets.join(", ")));
        }
    }
    if view.profiles.is_empty() {
        let looked = choice.files.iter().map(|file| &file.path).chain(&choice.absent);
        let looked: Vec<String> = looked.map(|path| path.display().to_string()).collect();
        lines.push(format!("no profiles; looked into {}", looked.join(" and ")));
    }
    let used = &view.used;
    lines.push(match (&used.profile, &used.named_by) {
        (Some(name), Some(named_by)) => format!("used here: profile {name}, named by {named_by}"),
        _ => "used here: no profile".to_owned(),
    });
    let servers = [("broker", &used.broker), ("redis", &used.redis), ("storage", &used.storage)];
    let named = servers.iter().filter_map(|(key, server)| Some((key, server.as_ref()?)));
    let named: Vec<String> =
        named.map(|(key, server)| format!("    {key:<8} {}  (from {})", server.url, server.from)).collect();
    if named.is_empty() {
        lines.push("    no servers: jobs run on this machine".to_owned());
    }
    lines.extend(named);
    lines.join("\n") + "\n"
}
