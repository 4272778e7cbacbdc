//! Which variables bring passwords of RabbitMQ and Redis, or a token of a server. Scripts do not get them.

use std::path::Path;
use std::sync::OnceLock;

use super::choice::read_files;
use super::file::ConfigFile;
use super::url;

/// Those that name the servers themselves, and the token that `prs serve` enters.
const SECRETS: [&str; 3] = ["PRS_BROKER_URL", "PRS_REDIS_URL", "PRS_TOKEN"];

static REFERRED: OnceLock<Vec<String>> = OnceLock::new();

/// Looks through the configuration files that [`super::choose`] reads, `config` among the options. All profiles count, not
/// only the one that is used; files that cannot be read have none. Only the first call counts.
pub fn find_password_variables(config: Option<&Path>, variable: &dyn Fn(&str) -> Option<String>) {
    let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
    let files = read_files(config, &variable).map(|(files, _)| files).unwrap_or_default();
    let _ = REFERRED.set(referred(&files, &variable));
}

/// Names of the variables that bring passwords, as far as [`find_password_variables`] has found them.
pub fn password_variables() -> impl Iterator<Item = &'static str> {
    SECRETS.into_iter().chain(REFERRED.get().into_iter().flatten().map(String::as_str))
}

fn referred(files: &[ConfigFile], variable: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let profiles = files.iter().flat_map(|file| &file.profiles);
    let servers = profiles.flat_map(|profile| [&profile.broker, &profile.redis]).flatten();
    servers.flat_map(|url| url::password_variables(&url.text, variable)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn every_profile_counts_and_what_brings_no_password_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prs.yaml");
        let text = "profiles:\n  a: {broker: 'amqp://${USER}:${ONE}@${HOST}', redis: '${TWO}', storage: '${PLACE}'}\n  \
                    b: {broker: 'amqp://me:${THREE}@h', redis: 'redis://${HOST}'}\n";
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let file = ConfigFile::read(&path).unwrap().unwrap();
        let value = |name: &str| match name {
            "USER" => Some("me@example.org".to_owned()),
            "TWO" => Some("redis://:hush@h".to_owned()),
            "HOST" => Some("h".to_owned()),
            _ => None,
        };
        assert_eq!(referred(&[file], &value), ["ONE", "TWO", "THREE"]);
    }
}
