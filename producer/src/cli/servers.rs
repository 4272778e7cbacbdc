//! Which servers a command uses: options, variables and the profiles of the configuration.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use prs_common::config::{Choice, ConfigError, NamesOfFile, Options, choose, find_password_variables, names};
use prs_common::job::{ConfiguredNames, Names};
use prs_common::servers::{ConnectError, ServerUrls};
use prs_common::storage::S3Options;
use prs_jobs::Whereabouts;
use prs_jobs::homes::run_folder::RUNS;

use crate::failure::Failure;
use crate::progress::Screen;

/// Heading of the servers.
const FLEET: &str = "Fleet";

/// The servers of a fleet.
#[derive(Debug, Clone, Args)]
pub(crate) struct FleetServers {
    /// RabbitMQ, as in `amqp://user:password@host/vhost` [env: `PRS_BROKER_URL`].
    #[arg(long, value_name = "URL", help_heading = FLEET)]
    broker: Option<String>,
    /// Redis, as in `redis://user:password@host/0` [env: `PRS_REDIS_URL`].
    #[arg(long, value_name = "URL", help_heading = FLEET)]
    redis: Option<String>,
    /// Object storage, as in `s3://bucket/prefix` or `file:///shared/folder` [env: `PRS_STORAGE_URL`].
    #[arg(long, value_name = "URL", help_heading = FLEET)]
    storage: Option<String>,
    /// Servers that a configuration file has under this name [env: `PRS_PROFILE`].
    #[arg(long, value_name = "NAME", help_heading = FLEET)]
    pub(super) profile: Option<String>,
    /// Configuration file, in place of prs.yaml here and ~/.config/prs/config.yaml [env: `PRS_CONFIG`].
    #[arg(long, value_name = "FILE", help_heading = FLEET)]
    pub(super) config: Option<PathBuf>,
    /// What names in job files stand for, once the configuration is read.
    #[arg(skip)]
    names: ConfiguredNames,
}

/// The servers of a fleet, or this machine.
#[derive(Debug, Clone, Args)]
pub(crate) struct Servers {
    #[command(flatten)]
    pub(super) fleet: FleetServers,
    /// Use no fleet, whatever variables and configuration files say.
    #[arg(long, help_heading = FLEET, conflicts_with_all = ["broker", "redis", "storage", "profile", "config"])]
    pub(super) local: bool,
}

impl FleetServers {
    /// What options, variables and configuration files together say.
    pub(crate) fn choose(&self) -> Result<Choice, ConfigError> {
        let Self { broker, redis, storage, profile, config, .. } = self.clone();
        let options = Options { broker, redis, storage, profile, config };
        choose(&options, &|name| std::env::var(name).ok())
    }

    /// Puts what is used in the place of what was given. From here on buckets are reached as the profile says. Gives back
    /// what the user should know.
    pub(crate) fn settle(&mut self) -> Result<Vec<String>, ConfigError> {
        self.find_passwords();
        let Choice { broker, redis, storage, s3, names, notes, .. } = self.choose()?;
        [self.broker, self.redis, self.storage] =
            [broker, redis, storage].map(|server| server.map(|server| server.url));
        s3.set();
        self.take_names(&names);
        Ok(notes)
    }

    fn take_names(&mut self, names: &NamesOfFile) {
        S3Options::set_for_buckets(names.buckets());
        self.names = names.configured();
    }

    /// What names in job files stand for.
    pub(crate) fn names(&self) -> Names {
        let storage = self.storage.clone().filter(|url| !url.is_empty());
        Names::new(self.names.clone(), storage)
    }

    /// Has scripts not get the variables with passwords.
    fn find_passwords(&self) {
        find_password_variables(self.config.as_deref(), &|name| std::env::var(name).ok());
    }

    /// All three, or an error that names what is missing.
    pub(crate) fn urls(&self) -> Result<ServerUrls, ConnectError> {
        ServerUrls::all(self.broker.clone(), self.redis.clone(), self.storage.clone())
    }

    /// The same; nothing where none is named. An empty URL names none.
    pub(crate) fn urls_if_any(&self) -> Result<Option<ServerUrls>, ConnectError> {
        let Self { broker, redis, storage, .. } = self;
        if [broker, redis, storage].into_iter().flatten().all(String::is_empty) {
            return Ok(None);
        }
        self.urls().map(Some)
    }
}

impl Servers {
    /// As [`FleetServers::choose`]; nothing with `--local`.
    pub(crate) fn choose(&self) -> Result<Option<Choice>, ConfigError> {
        (!self.local).then(|| self.fleet.choose()).transpose()
    }

    /// All profiles, and what is used of them: nothing with `--local`.
    pub(crate) fn choose_to_show(&self) -> Result<Choice, ConfigError> {
        let choice = self.fleet.choose()?;
        if !self.local {
            return Ok(choice);
        }
        Ok(Choice { profile: None, broker: None, redis: None, storage: None, notes: Vec::new(), ..choice })
    }

    /// As [`FleetServers::settle`]; with `--local` nothing is used.
    pub(crate) fn settle(&mut self) -> Result<Vec<String>, ConfigError> {
        if !self.local {
            return self.fleet.settle();
        }
        self.fleet.find_passwords();
        // A file that cannot be used may be the reason for --local.
        match names(None, &|name| std::env::var(name).ok()) {
            Ok(names) => {
                self.fleet.take_names(&names);
                Ok(Vec::new())
            }
            Err(error) => Ok(vec![format!("{error}; what it says of names is not used")]),
        }
    }

    /// What names in job files stand for.
    pub(crate) fn names(&self) -> Names {
        self.fleet.names()
    }

    /// As [`FleetServers::urls_if_any`].
    pub(crate) fn urls_if_any(&self) -> Result<Option<ServerUrls>, ConnectError> {
        self.fleet.urls_if_any()
    }

    /// Where jobs are with these servers, or with the folder `runs`, which no fleet has; the terminal listens to calls there.
    pub(crate) fn whereabouts(&self, runs: Option<&Path>) -> Result<Whereabouts, Failure> {
        let urls = self.urls_if_any()?;
        if urls.is_some() && runs.is_some() {
            return Err(not_on_a_fleet("--runs"));
        }
        let runs = runs.unwrap_or(Path::new(RUNS)).to_owned();
        Ok(Whereabouts::new(urls, runs, self.names(), Arc::new(Screen)))
    }
}

/// The refusal of an option that names a folder of runs.
pub(crate) fn not_on_a_fleet(option: &str) -> Failure {
    Failure::wrong(format!(
        "{option} is for jobs of this machine; on a fleet everything lies in the storage: leave it out, or add --local, which uses no fleet whatever variables and profiles say"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_servers_are_no_fleet() {
        let servers = |broker: Option<&str>, redis: Option<&str>, storage: Option<&str>| {
            let [broker, redis, storage] = [broker, redis, storage].map(|url| url.map(str::to_owned));
            FleetServers {
                broker,
                redis,
                storage,
                profile: None,
                config: None,
                names: ConfiguredNames::default(),
            }
        };
        assert!(servers(None, Some(""), None).urls_if_any().unwrap().is_none());
        assert!(servers(None, None, None).urls().is_err());
        assert!(servers(Some("x"), Some(""), None).urls_if_any().is_err());
        assert!(servers(Some("x"), Some("x"), Some("x")).urls_if_any().unwrap().is_some());
    }
}
