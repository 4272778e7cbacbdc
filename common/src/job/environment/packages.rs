//! The Python of a job, as `job.json` has it: an interpreter, or packages of which each host makes an environment.
//!
//! Plain data, so that every node has it without a file of the submitting machine. What is in the files is read beside
//! this (`requirements`, `conda`); who builds the environment is the worker.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::hexadecimal;

/// What runs the script of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Environment {
    /// An interpreter: an absolute path, or a command to be found on `PATH`.
    Interpreter(String),
    /// The interpreter of an environment that is made of these.
    Packages(Box<Packages>),
}

impl Environment {
    /// The interpreter, where one is named.
    pub fn interpreter(&self) -> Option<&str> {
        match self {
            Self::Interpreter(named) => Some(named),
            Self::Packages(_) => None,
        }
    }

    /// The packages, where it has to be made of them.
    pub fn packages(&self) -> Option<&Packages> {
        match self {
            Self::Interpreter(_) => None,
            Self::Packages(packages) => Some(packages),
        }
    }
}

/// What an environment is made of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Packages {
    /// The version of Python, `X.Y`; the host's own where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub python: Option<String>,
    /// What is installed, one requirement each as pip writes them, sorted.
    pub requirements: Vec<String>,
    /// Options of the installer, one line each, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// Versions that hold for packages which something else asks for, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<String>,
    /// What the job file named, for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub from: String,
}

impl Packages {
    /// The name of the environment that they make with this version of Python, `X.Y`, on a host of this platform: the
    /// same for the same content, whatever the order and wherever it was read.
    pub fn key(&self, python: &str, platform: &str) -> String {
        let mut hash = Sha256::new();
        for part in [
            &[python.to_owned(), platform.to_owned()],
            &*self.options,
            &*self.requirements,
            &*self.constraints,
        ] {
            hash.update((part.len() as u64).to_le_bytes());
            for line in part {
                hash.update((line.len() as u64).to_le_bytes());
                hash.update(line);
            }
        }
        hexadecimal(&hash.finalize())
    }

    /// A requirements file that says the same, options first.
    pub fn requirements_file(&self) -> String {
        lines(self.options.iter().chain(&self.requirements))
    }

    /// A constraints file, where there are constraints.
    pub fn constraints_file(&self) -> Option<String> {
        (!self.constraints.is_empty()).then(|| lines(self.constraints.iter()))
    }

    /// Sorts what has no order, and leaves what is given twice once.
    pub(super) fn settle(&mut self) {
        for list in [&mut self.requirements, &mut self.constraints] {
            list.sort();
            list.dedup();
        }
    }
}

fn lines<'a>(lines: impl Iterator<Item = &'a String>) -> String {
    lines.fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "{line}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packages(requirements: &[&str]) -> Packages {
        let requirements = requirements.iter().map(|line| (*line).to_owned()).collect();
        let mut packages = Packages { requirements, ..Packages::default() };
        packages.settle();
        packages
    }

    #[test]
    fn the_key_is_that_of_the_content() {
        let key = |packages: &Packages| packages.key("3.11", "linux-x86_64");
        let one = packages(&["a", "b==1"]);
        assert_eq!(key(&one), key(&packages(&["b==1", "a", "a"])));
        assert_eq!(key(&one), key(&Packages { from: "requirements.txt".to_owned(), ..one.clone() }));
        let options = vec!["--pre".to_owned()];
        for other in [
            packages(&["a", "b==2"]),
            packages(&["ab==1"]),
            Packages { options: options.clone(), ..one.clone() },
            Packages { constraints: options, ..one.clone() },
        ] {
            assert_ne!(key(&one), key(&other), "{other:?}");
        }
        assert_ne!(key(&one), one.key("3.12", "linux-x86_64"));
        assert_ne!(key(&one), one.key("3.11", "linux-aarch64"));
    }

    #[test]
    fn an_interpreter_is_stored_as_text_and_packages_as_a_mapping() {
        let interpreter = Environment::Interpreter("python3".to_owned());
        assert_eq!(serde_json::to_string(&interpreter).unwrap(), "\"python3\"");
        let made = Environment::Packages(Box::new(packages(&["a"])));
        let stored = serde_json::to_string(&made).unwrap();
        assert_eq!(stored, r#"{"requirements":["a"]}"#);
        assert_eq!(serde_json::from_str::<Environment>(&stored).unwrap(), made);
    }
}
