//! Batch endpoints: how they are called, which deployment answers, whether calls succeed, and how long they take.

use askama::Template;

use super::jobs::JobRow;
use super::simple::rendered;
use super::{Chrome, Refused};
use crate::text::count;
use crate::text::times::duration;

/// An endpoint in the list.
#[derive(Debug, Clone, Default)]
pub struct EndpointRow {
    /// Its name.
    pub name: String,
    /// What people say of it.
    pub description: String,
    /// The deployment that answers a call that names none; empty where none was chosen.
    pub default: String,
    /// The names of its deployments.
    pub deployments: String,
    /// When it was created: UTC, for people and for programs.
    pub created: (String, String),
}

/// The endpoints as a page.
#[derive(Debug, Template)]
#[template(path = "site/endpoints.html")]
pub struct EndpointsPage<'a> {
    /// What stands around it.
    pub chrome: &'a Chrome,
    /// The endpoints, by name.
    pub endpoints: Vec<EndpointRow>,
    /// Whether the reader may create one.
    pub may_create: bool,
    /// The name and the description of one that was refused.
    pub given: (String, String),
    /// Why it was refused; nothing where none was.
    pub refused: Refused,
}

impl EndpointsPage<'_> {
    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }
}

/// A form that changes what is said of an endpoint.
#[derive(Debug, Template)]
#[template(path = "site/endpoint_edit.html")]
pub struct EndpointEditPage<'a> {
    /// What stands around it.
    pub chrome: &'a Chrome,
    /// Its name.
    pub name: &'a str,
    /// The tag of what is changed.
    pub tag: &'a str,
    /// What people say of it.
    pub description: &'a str,
    /// Its tags, KEY=VALUE in lines.
    pub tags: &'a str,
    /// The names of its deployments.
    pub deployments: Vec<String>,
    /// The default one; empty for none.
    pub default: &'a str,
    /// Why the change was refused; nothing where it was not.
    pub refused: Refused,
}

impl EndpointEditPage<'_> {
    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }
}

/// What jobs of a deployment say of it.
#[derive(Debug, Clone, Default)]
pub struct CallsOf {
    /// The newest.
    pub last: Option<JobRow>,
    /// Those of the last 24 hours that completed, and that failed.
    pub succeeded: u64,
    /// Those that failed.
    pub failed: u64,
    /// Seconds that half of those took at most which completed.
    pub median_seconds: Option<f64>,
}

/// A deployment.
#[derive(Debug, Clone, Default)]
pub struct DeploymentRow {
    /// Its name.
    pub name: String,
    /// Whether it answers calls that name none.
    pub is_default: bool,
    /// How often it was created or changed.
    pub revision: u64,
    /// Since when this revision is there: UTC, for people and for programs.
    pub since: (String, String),
    /// Whether it runs a model, or else a pipeline.
    pub is_model: bool,
    /// The model or the component that it runs, as its file names it.
    pub runs: String,
    /// The page of that; empty where it is not registered.
    pub runs_at: String,
    /// Its environment; empty where the model has it, or the steps.
    pub environment: String,
    /// Nodes of a job; empty of a pipeline, as the next ones.
    pub nodes: String,
    /// Processes of a node.
    pub processes: String,
    /// Files in a mini-batch.
    pub mini_batch_size: String,
    /// What its jobs say of it.
    pub calls: CallsOf,
    /// What it is made of, as JSON.
    pub definition: String,
}

impl DeploymentRow {
    fn environment(&self) -> &str {
        match (&*self.environment, self.is_model) {
            ("", true) => "from the model",
            ("", false) => "of its steps",
            (environment, _) => environment,
        }
    }

    fn slots(&self) -> String {
        if self.is_model { format!("{} \u{d7} {}", self.nodes, self.processes) } else { String::new() }
    }

    /// Completed, failed, and half of the times, of 24 hours.
    fn day(&self) -> String {
        let CallsOf { succeeded, failed, median_seconds, .. } = &self.calls;
        if succeeded + failed == 0 {
            return "\u{2013}".to_owned();
        }
        let median = median_seconds.map(|seconds| format!(" / p50 {}", duration(seconds)));
        format!("{} / {}{}", count(*succeeded), count(*failed), median.unwrap_or_default())
    }
}

/// An endpoint as a page.
#[derive(Debug, Template)]
#[template(path = "site/endpoint.html")]
pub struct EndpointPage<'a> {
    /// What stands around it.
    pub chrome: &'a Chrome,
    /// Its name.
    pub name: &'a str,
    /// What people say of it.
    pub description: &'a str,
    /// The address of the server.
    pub url: &'a str,
    /// Where it is called.
    pub scoring_uri: &'a str,
    /// Its deployments, in the order of their creation.
    pub deployments: Vec<DeploymentRow>,
    /// Its newest jobs, each with the deployment that answered.
    pub jobs: Vec<(JobRow, String)>,
    /// Whether the reader may call it.
    pub may_call: bool,
}

impl EndpointPage<'_> {
    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }

    fn has_default(&self) -> bool {
        self.deployments.iter().any(|row| row.is_default)
    }

    /// How it is called: by what, and the lines.
    fn calls(&self) -> Vec<(&'static str, String)> {
        let Self { name, url, scoring_uri, .. } = self;
        vec![
            ("prs", format!("prs invoke {name} --input azureml:NAME:VERSION")),
            (
                "As az has it",
                format!("prs endpoint invoke --name {name} --input azureml:NAME:VERSION --query name -o tsv"),
            ),
            (
                "curl",
                format!(
                    "curl -H \"Authorization: Bearer $TOKEN\" -H 'Content-Type: application/json' {scoring_uri} -d '{{\"properties\": {{\"InputData\": {{\"data\": {{\"JobInputType\": \"UriFolder\", \"Uri\": \"s3://bucket/data/\"}}}}}}}}'"
                ),
            ),
            ("Python", format!("prs.connect(\"{url}\").invoke(\"{name}\", \"azureml:NAME:VERSION\").wait()")),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_says_how_it_is_called_and_nothing_of_it_is_markup() {
        let chrome = Chrome::default();
        let row = DeploymentRow {
            name: "xgb".to_owned(),
            is_model: true,
            is_default: true,
            nodes: "2".to_owned(),
            processes: "4".to_owned(),
            runs: "azureml:heart:2".to_owned(),
            runs_at: "/registry/models/heart/2".to_owned(),
            calls: CallsOf { succeeded: 40, failed: 1, median_seconds: Some(31.0), ..CallsOf::default() },
            definition: "{\"a\": \"<b>\"}".to_owned(),
            ..DeploymentRow::default()
        };
        let page = EndpointPage {
            chrome: &chrome,
            name: "heart",
            description: "<i>of hearts</i>",
            scoring_uri: "http://h/endpoints/heart/jobs",
            url: "http://h",
            deployments: vec![row],
            jobs: vec![(JobRow { title: "<u>".to_owned(), ..JobRow::default() }, "xgb".to_owned())],
            may_call: true,
        };
        let html = page.html();
        for part in [
            "http://h/endpoints/heart/jobs",
            "prs invoke heart",
            "prs.connect(",
            "href=\"/registry/models/heart/2\"",
            "2 \u{d7} 4",
            "40 / 1 / p50 31\u{202f}s",
            "from the model",
            "/endpoints/heart/invoke\"",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(!html.contains("<i>of") && !html.contains("<b>") && !html.contains("<u>"), "{html}");
        let read_only = EndpointPage { may_call: false, ..page }.html();
        assert!(!read_only.contains("heart/invoke\"") && !read_only.contains("heart/delete"), "{read_only}");
        let none = EndpointsPage {
            chrome: &chrome,
            endpoints: Vec::new(),
            may_create: true,
            given: ("<x".to_owned(), String::new()),
            refused: Refused::default(),
        };
        let (html, reader) = (none.html(), EndpointsPage { may_create: false, ..none }.html());
        assert!(html.contains("prs endpoint create") && !html.contains("\"<x"), "{html}");
        assert!(
            html.contains("action=\"/endpoints\"") && !reader.contains("action=\"/endpoints\""),
            "{reader}"
        );
    }
}
