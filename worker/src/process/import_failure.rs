//! What is said about a script that cannot be used on a host: the cause, the line, the interpreter, the remedy.

use std::fmt::Write;
use std::path::Path;

use prs_common::end_reason::EndReason;
use prs_common::source_line::SourceLine;
use prs_common::wire::{ErrorInfo, Stage};

/// Packages whose name on the package index is not that of the module.
const PACKAGES: [(&str, &str); 10] = [
    ("PIL", "pillow"),
    ("azureml", "azureml-core"),
    ("bs4", "beautifulsoup4"),
    ("cv2", "opencv-python-headless"),
    ("dateutil", "python-dateutil"),
    ("dotenv", "python-dotenv"),
    ("jwt", "PyJWT"),
    ("skimage", "scikit-image"),
    ("sklearn", "scikit-learn"),
    ("yaml", "PyYAML"),
];

/// A script that no process of a host can use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ImportFailure<'a> {
    /// What happened.
    pub(crate) error: &'a ErrorInfo,
    /// Where, in the user's code.
    pub(crate) line: Option<&'a SourceLine>,
    /// The interpreter.
    pub(crate) python: &'a Path,
    /// Its version; empty where it is not known.
    pub(crate) version: &'a str,
    /// Why it is this one.
    pub(crate) found: &'a str,
    /// What its environment was made of, where it was made for the job.
    pub(crate) made_of: Option<&'a str>,
    /// Which host it is, where there are several.
    pub(crate) host: Option<&'a str>,
}

impl ImportFailure<'_> {
    /// The cause in one line.
    pub(crate) fn cause(&self) -> String {
        let ErrorInfo { category, message, .. } = self.error;
        let error = format!("{category}: {}", message.trim_end());
        let reason = match self.error.stage {
            Stage::Import => EndReason::CannotImport { error },
            _ => EndReason::CannotInit { error },
        };
        reason.to_string()
    }

    /// All there is to say, the cause in the first line.
    pub(crate) fn explain(&self) -> String {
        let mut text = self.cause();
        if let Some(line) = self.line {
            let _ = write!(text, "\n  line         {line}");
            if !line.text.is_empty() {
                let _ = write!(text, "    {}", line.text);
            }
        }
        let version =
            if self.version.is_empty() { String::new() } else { format!("Python {}, ", self.version) };
        let _ = write!(text, "\n  interpreter  {} ({version}{})", self.python.display(), self.found);
        if let Some(host) = self.host {
            let _ = write!(text, "\n  host         {host}");
        }
        if let Some(module) = self.missing_module() {
            let package =
                PACKAGES.iter().find(|(name, _)| *name == module).map_or(module, |(_, package)| package);
            let _ = match self.made_of {
                Some(made_of) if package.starts_with("azureml-") => {
                    write!(text, "\n  remedy       {}", keep_of_azure(package, made_of))
                }
                Some(made_of) => write!(
                    text,
                    "\n  remedy       add {package} to {}",
                    if made_of.is_empty() { "the requirements of environment" } else { made_of }
                ),
                None => write!(
                    text,
                    "\n  remedy       {} -m pip install {package}\n               or name an interpreter that has it: environment: /path/to/bin/python",
                    self.python.display()
                ),
            };
        }
        text
    }

    /// The module that is not installed, as it is imported. An error of prs's own has no traceback, and names the remedy.
    fn missing_module(&self) -> Option<&str> {
        if self.error.category != "ModuleNotFoundError" || self.error.traceback.is_empty() {
            return None;
        }
        // Of `No module named 'a.b'; 'a' is not a package` the user has a file `a.py`.
        let name = self.error.message.strip_prefix("No module named '")?.strip_suffix('\'')?;
        name.split('.').next().filter(|name| !name.is_empty() && !name.contains('\''))
    }
}

/// How an environment gets a package of Azure: those are left out of what it is made of, unless the job keeps them.
fn keep_of_azure(package: &str, made_of: &str) -> String {
    let end = Path::new(made_of).extension().and_then(|end| end.to_str()).map(str::to_ascii_lowercase);
    let key = match end.as_deref() {
        Some("txt" | "in") => "requirements",
        Some("yml" | "yaml") => "conda_file",
        _ => return format!("list {package} in environment, and write keep: [{package}] there"),
    };
    format!("list {package} in {made_of}, and write environment: {{{key}: {made_of}, keep: [{package}]}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(category: &str, message: &str, traceback: &str) -> ErrorInfo {
        ErrorInfo {
            stage: Stage::Import,
            category: category.into(),
            message: message.into(),
            traceback: traceback.into(),
            frame: None,
        }
    }

    #[test]
    fn the_cause_comes_first_and_the_remedy_last() {
        let line = SourceLine {
            file: "code/score.py".into(),
            line: 2,
            function: String::new(),
            text: "import sklearn.svm".into(),
        };
        let error = failure("ModuleNotFoundError", "No module named 'sklearn'", "Traceback");
        let told = ImportFailure {
            error: &error,
            line: Some(&line),
            python: Path::new("/usr/bin/python3"),
            version: "3.11.7",
            found: "python3 on PATH, for no virtual environment is active",
            made_of: None,
            host: Some("worker-1 (192.0.2.7)"),
        };
        let expected = "\
the script cannot be imported: ModuleNotFoundError: No module named 'sklearn'
  line         code/score.py:2    import sklearn.svm
  interpreter  /usr/bin/python3 (Python 3.11.7, python3 on PATH, for no virtual environment is active)
  host         worker-1 (192.0.2.7)
  remedy       /usr/bin/python3 -m pip install scikit-learn
               or name an interpreter that has it: environment: /path/to/bin/python";
        assert_eq!(told.explain(), expected);
        let made = ImportFailure { made_of: Some("conda.yml"), ..told }.explain();
        assert!(made.ends_with("\n  remedy       add scikit-learn to conda.yml"), "{made}");
    }

    #[test]
    fn a_package_of_azure_is_to_be_kept() {
        let error = failure("ModuleNotFoundError", "No module named 'azureml.train'", "T");
        for (made_of, expected) in [
            (
                "r.txt",
                "list azureml-core in r.txt, and write environment: {requirements: r.txt, keep: [azureml-core]}",
            ),
            (
                "e/c.yml",
                "list azureml-core in e/c.yml, and write environment: {conda_file: e/c.yml, keep: [azureml-core]}",
            ),
            ("", "list azureml-core in environment, and write keep: [azureml-core] there"),
        ] {
            let told = ImportFailure {
                error: &error,
                line: None,
                python: Path::new("/py"),
                version: "",
                found: "x",
                made_of: Some(made_of),
                host: None,
            };
            let told = told.explain();
            assert!(told.ends_with(&format!("\n  remedy       {expected}")), "{told}");
        }
    }

    #[test]
    fn a_remedy_is_named_only_where_it_is_known() {
        let remedy = |error: &ErrorInfo| {
            let python = Path::new("/py");
            let told = ImportFailure {
                error,
                line: None,
                python,
                version: "",
                found: "x",
                made_of: None,
                host: None,
            };
            told.explain()
                .split("remedy")
                .nth(1)
                .map(|rest| rest.lines().next().unwrap_or_default().trim().to_owned())
        };
        let table = [
            (failure("ModuleNotFoundError", "No module named 'a.b'", "T"), Some("/py -m pip install a")),
            (failure("ModuleNotFoundError", "No module named 'a.b'; 'a' is not a package", "T"), None),
            (
                failure("ModuleNotFoundError", "the job's environment has no pandas; install it there", ""),
                None,
            ),
            (failure("ImportError", "cannot import name 'x' from 'os'", "T"), None),
            (failure("SyntaxError", "expected ':' (score.py, line 1)", "T"), None),
        ];
        for (error, expected) in table {
            assert_eq!(remedy(&error).as_deref(), expected, "{}", error.message);
        }
        let init =
            ErrorInfo { stage: Stage::Init, ..failure("ModuleNotFoundError", "No module named 'a'", "T") };
        let told = ImportFailure {
            error: &init,
            line: None,
            python: Path::new("/py"),
            version: "",
            found: "x",
            made_of: None,
            host: None,
        };
        assert_eq!(told.cause(), "init() failed: ModuleNotFoundError: No module named 'a'");
    }
}
