//! What the holder of a token may do.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A role, in the order of what is at stake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Role {
    /// Read figures about the fleet: a scraper, an autoscaler.
    Metrics,
    /// Invoke the endpoints that the token names, and see what came of it.
    Invoke,
    /// See everything: all jobs, logs, outputs, what is registered.
    Read,
    /// Run code: submit, cancel and resume jobs, register, deploy.
    Submit,
    /// All of it, tokens and removal too.
    Admin,
}

impl Role {
    /// All roles, in their order.
    pub const ALL: [Self; 5] = [Self::Metrics, Self::Invoke, Self::Read, Self::Submit, Self::Admin];

    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Metrics => "metrics",
            Self::Invoke => "invoke",
            Self::Read => "read",
            Self::Submit => "submit",
            Self::Admin => "admin",
        }
    }

    /// The role of this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == word)
    }

    /// Whether it may do what `needed` may. The order alone does not tell: who reads everything starts nothing, and who
    /// invokes sees no figures of the fleet.
    pub fn allows(self, needed: Self) -> bool {
        match needed {
            Self::Metrics => matches!(self, Self::Metrics | Self::Read | Self::Submit | Self::Admin),
            Self::Invoke => matches!(self, Self::Invoke | Self::Submit | Self::Admin),
            Self::Read => matches!(self, Self::Read | Self::Submit | Self::Admin),
            Self::Submit => matches!(self, Self::Submit | Self::Admin),
            Self::Admin => self == Self::Admin,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_allows_what_the_table_says() {
        use Role::{Admin, Invoke, Metrics, Read, Submit};
        let table: [(Role, &[Role]); 5] = [
            (Metrics, &[Metrics]),
            (Invoke, &[Invoke]),
            (Read, &[Metrics, Read]),
            (Submit, &[Metrics, Invoke, Read, Submit]),
            (Admin, &Role::ALL),
        ];
        for (role, expected) in table {
            let allowed: Vec<_> = Role::ALL.into_iter().filter(|needed| role.allows(*needed)).collect();
            assert_eq!(allowed, expected, "{role}");
            assert_eq!(Role::parse(role.as_str()), Some(role));
            assert_eq!(serde_json::to_value(role).unwrap(), role.as_str());
        }
        assert!(Role::ALL.is_sorted() && Role::parse("root").is_none());
    }
}
