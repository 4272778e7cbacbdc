//! Roles by the groups that a proxy or an identity provider names.

use std::str::FromStr;

use prs_jobs::tokens::Role;

/// Whose groups have which role. Empty, it gives nobody any.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RoleMap(Vec<(Role, String)>);

/// What stands for everybody who is known, in whatever group or none.
const EVERYBODY: &str = "*";
/// Roles, those that allow more first.
const BY_RANK: [Role; 5] = [Role::Admin, Role::Submit, Role::Read, Role::Invoke, Role::Metrics];

impl FromStr for RoleMap {
    type Err = String;

    /// `admin=prs-admins,submit=ml-*,read=*`.
    fn from_str(text: &str) -> Result<Self, String> {
        let entry = |entry: &str| {
            let (role, group) = entry
                .split_once('=')
                .ok_or_else(|| format!("{entry:?} is no ROLE=GROUP, such as admin=prs-admins"))?;
            let role = role.trim();
            let role = Role::parse(role).ok_or_else(|| {
                let known: Vec<&str> = Role::ALL.iter().map(|role| role.as_str()).collect();
                format!("{role:?} is no role; there are {}", known.join(", "))
            })?;
            match group.trim() {
                "" => Err(format!("{entry:?} names no group; * is everybody who is known")),
                group => Ok((role, group.to_owned())),
            }
        };
        text.split(',').map(|part| entry(part.trim())).collect::<Result<_, _>>().map(Self)
    }
}

impl RoleMap {
    /// Whether it gives nobody a role.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The role of a user in these groups: that which allows most, of all that fit.
    pub(crate) fn role_of(&self, groups: &[String]) -> Option<Role> {
        let fits = |pattern: &str| pattern == EVERYBODY || groups.iter().any(|group| is_like(group, pattern));
        let has = |role: &Role| self.0.iter().any(|(each, pattern)| each == role && fits(pattern));
        BY_RANK.into_iter().find(|role| has(role))
    }
}

/// Whether a name is of a pattern, in which `*` stands for any text.
fn is_like(name: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_of_whole_names() {
        for (name, pattern, expected) in [
            ("ml", "ml", true),
            ("ml-vision", "ml", false),
            ("ml-vision", "ml-*", true),
            ("ml-", "ml-*", true),
            ("xml-vision", "ml-*", false),
            ("a-team", "*-team", true),
            ("a-team-x", "*-team", false),
            ("a-b-c", "a*b*c", true),
            ("a-c", "a*b*c", false),
            ("ab", "a*ab", false),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(is_like(name, pattern), expected, "{name} {pattern}");
        }
    }

    #[test]
    fn the_role_is_the_highest_that_fits() {
        let map: RoleMap = "read=*, submit=ml-*,admin=prs-admins,submit=ops,invoke=apps".parse().unwrap();
        let role = |groups: &[&str]| {
            map.role_of(&groups.iter().map(|group| (*group).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(role(&[]), Some(Role::Read), "everybody who is known");
        assert_eq!(role(&["ml-vision", "apps"]), Some(Role::Submit));
        assert_eq!(role(&["ops"]), Some(Role::Submit));
        assert_eq!(role(&["ml-vision", "prs-admins"]), Some(Role::Admin));
        assert_eq!(role(&["prs-admins-of-test"]), Some(Role::Read));
        let map: RoleMap = "admin=prs-admins".parse().unwrap();
        assert_eq!((map.role_of(&[]), map.role_of(&["all".to_owned()])), (None, None));
        assert_eq!(RoleMap::default().role_of(&["prs-admins".to_owned()]), None);
    }

    #[test]
    fn what_is_no_map_is_refused() {
        for (text, says) in [
            ("", "no ROLE=GROUP"),
            ("admin", "no ROLE=GROUP"),
            ("boss=a", "no role; there are"),
            ("admin=", "names no group"),
            ("admin=a,,read=*", "no ROLE=GROUP"),
        ] {
            let why = text.parse::<RoleMap>().unwrap_err();
            assert!(why.contains(says), "{text}: {why}");
        }
    }
}
