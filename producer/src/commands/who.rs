//! Who gives a command, as others read it: in the result of a canceled job (spec S13), in the list of tokens.

use prs_common::host_name;
use prs_common::job::{Called, Submitter};

/// `ana@lab`.
pub(super) fn who() -> String {
    let user = ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
    let id = rustix::process::getuid().as_raw();
    let user = user.or_else(|| name_of(id, &std::fs::read_to_string("/etc/passwd").ok()?));
    let user = user.unwrap_or_else(|| format!("user {id}"));
    format!("{user}@{}", host_name())
}

/// A job that is called as its file says, and handed in by who gives the command.
pub(super) fn signed() -> Called {
    Called { submitted_by: Some(Submitter { name: who(), id: None }), ..Called::default() }
}

/// The name of a user in the system's list of users.
fn name_of(id: u32, users: &str) -> Option<String> {
    let user = users.lines().map(|line| line.split(':')).find_map(|mut fields| {
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(id)).then_some(name)
    })?;
    Some(user.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_a_name() {
        let users = "root:x:0:0:root:/root:/bin/bash\nbroken\nana:x:1000:1000::/home/ana:/bin/sh\n";
        for (id, expected) in [(0, Some("root")), (1000, Some("ana")), (1, None)] {
            assert_eq!(name_of(id, users).as_deref(), expected, "{id}");
        }
    }
}
