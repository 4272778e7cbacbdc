//! Batch endpoints: how they are called, which deployment answers, and a form that calls one.

use askama::Template;

use super::simple::rendered;
use super::{Chrome, Refused};

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

/// A deployment.
#[derive(Debug, Clone, Default)]
pub struct DeploymentRow {
    /// Its name.
    pub name: String,
    /// `model` or `pipeline`.
    pub runs: &'static str,
    /// Whether it answers calls that name none.
    pub is_default: bool,
    /// How often it was created or changed.
    pub revision: u64,
    /// Since when this revision is there: UTC, for people and for programs.
    pub since: (String, String),
    /// What it is made of, as JSON.
    pub definition: String,
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
    /// Where it is called.
    pub scoring_uri: &'a str,
    /// Its deployments, in the order of their creation.
    pub deployments: Vec<DeploymentRow>,
    /// Whether the reader may call it.
    pub may_call: bool,
    /// The key of the form.
    pub key: &'a str,
    /// What was given before.
    pub given: GivenCall,
    /// Why the call was refused; nothing where it was not.
    pub refused: Refused,
}

/// What the form of a call has in its fields.
#[derive(Debug, Clone, Default)]
pub struct GivenCall {
    /// The deployment; empty for the default.
    pub deployment: String,
    /// The data.
    pub input: String,
    /// Settings and further inputs, KEY=VALUE in lines.
    pub set: String,
}

impl EndpointPage<'_> {
    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
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
            runs: "model",
            is_default: true,
            definition: "{\"a\": \"<b>\"}".to_owned(),
            ..DeploymentRow::default()
        };
        let page = EndpointPage {
            chrome: &chrome,
            name: "heart",
            description: "<i>of hearts</i>",
            scoring_uri: "http://h/endpoints/heart/jobs",
            deployments: vec![row],
            may_call: true,
            key: "k",
            given: GivenCall { input: "\"x\"".to_owned(), ..GivenCall::default() },
            refused: Refused::default(),
        };
        let html = page.html();
        assert!(
            html.contains("http://h/endpoints/heart/jobs") && html.contains("prs invoke heart"),
            "{html}"
        );
        assert!(!html.contains("<i>of") && !html.contains("<b>") && !html.contains("\"\"x"), "{html}");
        let read_only = EndpointPage { may_call: false, ..page }.html();
        assert!(!read_only.contains("<form class=\"fields\""), "{read_only}");
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
