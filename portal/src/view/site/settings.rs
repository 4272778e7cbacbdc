//! What a job was told: its settings and where each comes from, who handed it in, and the jobs of its name before and after it.

use askama::Template;

use super::jobs::JobRow;
use super::simple::rendered;
use super::{Chrome, Tab, Tabs};
use crate::text::times::utc;
use crate::view::Facts;
use crate::view::settings::Settings;

/// The tab of the settings.
#[derive(Debug, Template)]
#[template(path = "site/settings.html")]
pub struct SettingsPage<'a> {
    chrome: &'a Chrome,
    tabs: Tabs<'a>,
    job_id: &'a str,
    title: &'a str,
    name: &'a str,
    yaml: &'a str,
    job: WithSettings,
    facts: Vec<Origin>,
    notes: &'a [String],
    jobs: Vec<JobRow>,
    may_submit: bool,
}

/// The settings, under the name that they have in the report.
#[derive(Debug)]
struct WithSettings {
    settings: Settings,
}

/// Something that a job comes from.
#[derive(Debug)]
struct Origin {
    what: &'static str,
    text: String,
    /// Its page; empty where it has none.
    link: String,
    /// The point in time that it is, for programs.
    at: Option<String>,
}

impl<'a> SettingsPage<'a> {
    /// The settings of a job, which may be a step of the pipeline `parent`; the job file that submits them again; and jobs of its name with
    /// the job itself among them, the newest first. `may_submit` says whether who looks may run it again.
    pub fn new(
        chrome: &'a Chrome,
        facts: &'a Facts,
        yaml: &'a str,
        (parent, jobs): (Option<&str>, Vec<JobRow>),
        may_submit: bool,
    ) -> Self {
        let spec = &facts.spec;
        Self {
            chrome,
            tabs: Tabs::of(facts, Tab::Settings),
            job_id: &facts.job_id,
            title: spec.display_name.as_deref().unwrap_or(&spec.name),
            name: &spec.name,
            yaml,
            job: WithSettings { settings: Settings::of(spec) },
            facts: origins(facts, parent),
            notes: &spec.notes,
            jobs,
            may_submit,
        }
    }

    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }
}

/// Who handed a job in, and what it belongs to.
fn origins(facts: &Facts, parent: Option<&str>) -> Vec<Origin> {
    let spec = &facts.spec;
    let origin = |what, text: &str, link: String| Origin { what, text: text.to_owned(), link, at: None };
    let mut origins = Vec::new();
    origins.extend(spec.submitted_by.iter().map(|by| origin("Submitted by", &by.name, String::new())));
    let (submitted, at) = utc(facts.submitted_us);
    origins.push(Origin { at: Some(at), ..origin("Submitted", &submitted, String::new()) });
    origins.extend(parent.map(|id| origin("Step of", id, format!("/jobs/{id}"))));
    origins
        .extend(spec.resubmitted_from.iter().map(|id| origin("Resubmitted from", id, format!("/jobs/{id}"))));
    origins.extend(spec.deployed.iter().map(|by| {
        let text = format!("{}, deployment {}, revision {}", by.endpoint, by.deployment, by.revision);
        origin("Call of", &text, format!("/endpoints/{}", by.endpoint))
    }));
    origins.extend(spec.experiment_name.iter().map(|name| origin("Experiment", name, String::new())));
    let tags = spec.tags.iter().map(|(key, value)| format!("{key}: {value}")).collect::<Vec<_>>().join(", ");
    if !tags.is_empty() {
        origins.push(origin("Tags", &tags, String::new()));
    }
    origins.push(origin("Version of prs", &facts.version, String::new()));
    origins
}

#[cfg(test)]
mod tests {
    use prs_common::job::Submitter;

    use super::*;
    use crate::view::tests::facts;

    #[test]
    fn who_handed_it_in_and_what_it_belongs_to_stand_before_the_settings() {
        let mut facts = facts("score");
        facts.spec.submitted_by = Some(Box::new(Submitter { name: "<alice>".to_owned(), id: None }));
        facts.spec.resubmitted_from = Some("former-1".to_owned());
        facts.spec.tags.insert("team".to_owned(), "vision".to_owned());
        facts.spec.notes = vec!["it has no environment".to_owned()];
        let rows = ["later", &facts.job_id].map(|id| JobRow { job_id: id.to_owned(), ..JobRow::default() });
        let chrome = Chrome::default();
        let html = SettingsPage::new(&chrome, &facts, "", (Some("flow-1"), rows.to_vec()), true).html();
        for part in [
            "&#60;alice&#62;",
            "href=\"/jobs/former-1\"",
            "href=\"/jobs/flow-1\"",
            "team: vision",
            "it has no environment",
            "/compare?a=later&amp;b=",
            "this job",
            "/resubmit\"",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        let html = SettingsPage::new(&chrome, &facts, "", (None, Vec::new()), false).html();
        assert!(!html.contains("/resubmit\"") && !html.contains("Step of"), "{html}");
    }
}
