//! Values of environment variables that nobody is shown: those of variables whose names speak of secrets.

use std::collections::BTreeMap;

use serde_json::Value;

/// The key of the variables of a job.
const VARIABLES: &str = "environment_variables";
/// What such a name has in it.
const WORDS: [&str; 5] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL"];
/// What is shown in place of such a value.
const HIDDEN: &str = "***";

/// Hides the values of such variables in `settings`, wherever these have variables.
pub fn hide_secrets(settings: &mut Value) {
    match settings {
        Value::Array(items) => items.iter_mut().for_each(hide_secrets),
        Value::Object(entries) => {
            for (key, value) in entries {
                match value {
                    Value::Object(variables) if key == VARIABLES => {
                        let secrets = variables.iter_mut().filter(|(name, _)| is_secret(name));
                        secrets.for_each(|(_, value)| *value = Value::from(HIDDEN));
                    }
                    value => hide_secrets(value),
                }
            }
        }
        _ => {}
    }
}

/// Hides the values of such variables among these.
pub fn hide_secret_variables(variables: &mut BTreeMap<String, String>) {
    let secrets = variables.iter_mut().filter(|(name, _)| is_secret(name));
    secrets.for_each(|(_, value)| HIDDEN.clone_into(value));
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    WORDS.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_hidden_wherever_variables_stand() {
        let mut settings = json!({
            "key": "shown",
            "environment_variables": { "API_KEY": "a", "api_token": "b", "MODEL": "shown" },
            "jobs": [{ "environment_variables": { "DB_PASSWORD": 7 } }],
        });
        hide_secrets(&mut settings);
        let expected = json!({
            "key": "shown",
            "environment_variables": { "API_KEY": "***", "api_token": "***", "MODEL": "shown" },
            "jobs": [{ "environment_variables": { "DB_PASSWORD": "***" } }],
        });
        assert_eq!(settings, expected);
    }
}
