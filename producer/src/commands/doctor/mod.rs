//! `doctor`: whether this machine, and the fleet that is configured, have what prs needs.
//!
//! | module | duty |
//! |---|---|
//! | `machine` | the interpreter and its packages, folders, memory |
//! | `servers` | RabbitMQ, Redis and the storage: reachable, and with the rights that prs needs |
//!
//! Everything that is written to find out is removed again; the broker keeps the queue of dead letters, which every fleet
//! has.

mod machine;
mod servers;

use std::process::ExitCode;

use prs_common::config::Choice;
use prs_common::servers::ConnectError;
use serde::Serialize;

use crate::cli::{Doctor, Format};
use crate::failure::{Code, Failure};
use crate::terminal::output;

/// What is wrong, if anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum Verdict {
    /// All is well.
    Ok,
    /// Some jobs will miss it.
    Warn,
    /// No job can run.
    Fail,
}

/// What is looked at; it decides about the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    Machine,
    Server,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Check {
    /// What was looked at.
    name: &'static str,
    /// How it is.
    verdict: Verdict,
    /// What was found.
    finding: String,
    /// What to do; null where all is well.
    remedy: Option<String>,
    #[serde(skip)]
    subject: Subject,
}

impl Check {
    /// What was found on this machine, and what to do where not all is well.
    fn new(
        name: &'static str,
        verdict: Verdict,
        finding: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let remedy = (verdict != Verdict::Ok).then(|| remedy.into());
        Self { name, verdict, finding: finding.into(), remedy, subject: Subject::Machine }
    }
}

/// What a machine, and the servers of a fleet, lack.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Diagnosis {
    /// The worst of the checks.
    verdict: Verdict,
    /// Everything that was looked at.
    checks: Vec<Check>,
}

/// Looks at everything, and prints what it found.
pub(super) async fn doctor(arguments: &Doctor, format: Format) -> Result<ExitCode, Failure> {
    let mut checks = Vec::new();
    let choice = arguments.servers.choose().map_err(Failure::usage)?;
    checks.extend(choice.as_ref().map(configuration));
    checks.extend(machine::look(arguments.environment.as_deref()).await);
    let mut servers = arguments.servers.clone();
    servers.settle().map_err(Failure::usage)?;
    match servers.urls_if_any() {
        Ok(Some(urls)) => checks.extend(Box::pin(servers::look(&urls)).await),
        Ok(None) => {}
        Err(error) => {
            let remedy = match error {
                ConnectError::Absent => "use a program that was built with it, or add --local",
                _ => "name all three, or none",
            };
            checks.push(Check::new("servers", Verdict::Fail, error.to_string(), remedy));
        }
    }
    let report = Diagnosis { verdict: worst(&checks), checks };
    output::print(format, &report, text)?;
    Ok(code(&report.checks).into())
}

fn worst(checks: &[Check]) -> Verdict {
    checks.iter().map(|check| check.verdict).max().unwrap_or(Verdict::Ok)
}

/// A server that fails counts first: the machine may be in order without the fleet.
fn code(checks: &[Check]) -> Code {
    let fails =
        |subject| checks.iter().any(|check| check.subject == subject && check.verdict == Verdict::Fail);
    match (fails(Subject::Server), fails(Subject::Machine)) {
        (true, _) => Code::CannotConnect,
        (false, true) => Code::Usage,
        (false, false) => Code::Completed,
    }
}

/// Which servers are used, and why.
fn configuration(choice: &Choice) -> Check {
    let named: Vec<String> =
        [("broker", &choice.broker), ("redis", &choice.redis), ("storage", &choice.storage)]
            .into_iter()
            .filter_map(|(name, server)| Some(format!("{name} from {}", server.as_ref()?.source)))
            .collect();
    let servers =
        if named.is_empty() { "no fleet: jobs run on this machine".to_owned() } else { named.join(", ") };
    let finding = match &choice.profile {
        Some(profile) => format!("{servers}; profile {} of {}", profile.name, profile.file.display()),
        None => servers,
    };
    let verdict = if choice.notes.is_empty() { Verdict::Ok } else { Verdict::Warn };
    Check::new("configuration", verdict, finding, choice.notes.join("; "))
}

fn text(report: &Diagnosis) -> String {
    let width = report.checks.iter().map(|check| check.name.len()).max().unwrap_or_default();
    let indent = " ".repeat(width + 8);
    let mut lines = Vec::new();
    for Check { name, verdict, finding, remedy, .. } in &report.checks {
        let verdict = match verdict {
            Verdict::Ok => "ok",
            Verdict::Warn => "warn",
            Verdict::Fail => "fail",
        };
        lines
            .push(format!("{verdict:<4}  {name:<width$}  {}", finding.replace('\n', &format!("\n{indent}"))));
        lines.extend(remedy.iter().map(|remedy| format!("{indent}remedy: {remedy}")));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_finding_decides() {
        let check = |subject, verdict| Check { subject, ..Check::new("x", verdict, "found", "remedy") };
        let table = [
            (vec![], Verdict::Ok, Code::Completed),
            (vec![check(Subject::Machine, Verdict::Warn)], Verdict::Warn, Code::Completed),
            (vec![check(Subject::Machine, Verdict::Fail)], Verdict::Fail, Code::Usage),
            (
                vec![check(Subject::Machine, Verdict::Fail), check(Subject::Server, Verdict::Fail)],
                Verdict::Fail,
                Code::CannotConnect,
            ),
        ];
        for (checks, verdict, expected) in table {
            assert_eq!((worst(&checks), code(&checks)), (verdict, expected));
        }
    }

    #[test]
    fn findings_stand_below_one_another() {
        let checks = vec![
            Check::new("memory", Verdict::Ok, "much", ""),
            Check::new("redis", Verdict::Fail, "a\nb", "start it"),
        ];
        let report = Diagnosis { verdict: Verdict::Fail, checks };
        let expected = "\
ok    memory  much
fail  redis   a
              b
              remedy: start it
";
        assert_eq!(text(&report), expected);
    }
}
