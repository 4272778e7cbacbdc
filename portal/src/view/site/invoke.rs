//! The form that calls an endpoint: what the deployment takes, by its types.

use askama::Template;

use super::simple::rendered;
use super::{Chrome, Planned, Refused};

/// How an input is asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Asked {
    /// Data: what is registered, a URL, or files that come along.
    #[default]
    Data,
    /// One of some words.
    Choice,
    /// A number; the least that two differ by.
    Number(&'static str),
    /// Any text.
    Text,
}

/// An input of a call, or a setting of it.
#[derive(Debug, Clone, Default)]
pub struct AskedInput {
    /// Its name.
    pub name: String,
    /// What it is, in a word.
    pub kind: String,
    /// What its author says of it.
    pub description: String,
    /// How it is asked for.
    pub asked: Asked,
    /// What it is where nothing is given.
    pub default: Option<String>,
    /// The words of a choice.
    pub choices: Vec<String>,
    /// The least and the greatest number.
    pub bounds: (Option<String>, Option<String>),
    /// Whether a call without it is refused.
    pub is_required: bool,
    /// What was given before.
    pub value: String,
}

impl AskedInput {
    /// What the label says behind the name.
    fn says(&self) -> String {
        let mut says = Vec::new();
        if !self.kind.is_empty() {
            says.push(self.kind.clone());
        }
        if self.is_required {
            says.push("required".to_owned());
        }
        match (&self.bounds.0, &self.bounds.1) {
            (Some(least), Some(most)) => says.push(format!("{least} to {most}")),
            (Some(least), None) => says.push(format!("{least} or more")),
            (None, Some(most)) => says.push(format!("{most} or less")),
            (None, None) => {}
        }
        says.extend(self.default.iter().map(|default| format!("default {default}")));
        says.join(", ")
    }

    /// What holds where nothing is given; empty where nothing does.
    fn without(&self) -> &str {
        self.default.as_deref().unwrap_or_default()
    }

    fn is_data(&self) -> bool {
        self.asked == Asked::Data
    }

    fn is_choice(&self) -> bool {
        self.asked == Asked::Choice
    }

    fn step(&self) -> Option<&'static str> {
        match self.asked {
            Asked::Number(step) => Some(step),
            _ => None,
        }
    }
}

/// What else the form of a call has in its fields.
#[derive(Debug, Clone, Default)]
pub struct GivenCall {
    /// What the data of a model is: empty where they say it.
    pub data_type: String,
    /// Further settings, KEY=VALUE in lines.
    pub set: String,
    /// The id of the job.
    pub name: String,
    /// What experiment it is kept under.
    pub experiment: String,
}

/// The form.
#[derive(Debug, Template)]
#[template(path = "site/invoke.html")]
pub struct InvokePage<'a> {
    /// What stands around it.
    pub chrome: &'a Chrome,
    /// The endpoint.
    pub endpoint: &'a str,
    /// The names of its deployments.
    pub deployments: Vec<String>,
    /// The one that answers.
    pub deployment: &'a str,
    /// Whether that runs a model, which takes one input under any name.
    pub is_model: bool,
    /// What it takes.
    pub inputs: Vec<AskedInput>,
    /// The settings that one call may change, each with what the deployment says; none of a pipeline.
    pub settings: Vec<AskedInput>,
    /// Registered data: how a call names them, and what they are.
    pub registered: Vec<(String, String)>,
    /// What was given before.
    pub given: GivenCall,
    /// The key that makes one job of a form that is sent twice.
    pub key: &'a str,
    /// Why the call was refused; nothing where it was not.
    pub refused: Refused,
    /// What would run, where that was asked.
    pub planned: Option<Planned>,
}

impl InvokePage<'_> {
    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }

    /// Whether something is changed in what stands folded away.
    fn has_changes(&self) -> bool {
        let GivenCall { set, name, experiment, .. } = &self.given;
        self.settings.iter().map(|one| &one.value).chain([set, name, experiment]).any(|text| !text.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_asked_for_by_their_types_and_nothing_of_them_is_markup() {
        let chrome = Chrome::default();
        let input =
            |name: &str, asked: Asked| AskedInput { name: name.to_owned(), asked, ..AskedInput::default() };
        let inputs = vec![
            AskedInput { is_required: true, kind: "uri_folder".to_owned(), ..input("rows", Asked::Data) },
            AskedInput {
                default: Some("5".to_owned()),
                bounds: (Some("1".to_owned()), None),
                ..input("n", Asked::Number("1"))
            },
            AskedInput { choices: vec!["<b>".to_owned()], ..input("mode", Asked::Choice) },
            AskedInput {
                description: "<i>".to_owned(),
                value: "\"x".to_owned(),
                ..input("word", Asked::Text)
            },
        ];
        let page = InvokePage {
            chrome: &chrome,
            endpoint: "flow",
            deployments: vec!["one".to_owned(), "two".to_owned()],
            deployment: "two",
            is_model: false,
            inputs,
            settings: Vec::new(),
            registered: vec![("azureml:letters:1".to_owned(), "uri_folder".to_owned())],
            given: GivenCall::default(),
            key: "k",
            refused: Refused::default(),
            planned: None,
        };
        let html = page.html();
        for part in [
            "name=\"at.rows\" list=\"registered\"",
            "type=\"file\" name=\"file.rows\"",
            "name=\"value.n\" type=\"number\" step=\"1\" min=\"1\"",
            "1 or more, default 5",
            "placeholder=\"5\"",
            "uri_folder, required",
            "<option value=\"two\" selected>",
            "value=\"azureml:letters:1\"",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(!html.contains("<b>") && !html.contains("<i>") && !html.contains("\"\"x"), "{html}");
        assert!(!html.contains("<details class=\"folded\" open"), "{html}");
        let changed =
            InvokePage { given: GivenCall { set: "a=1".to_owned(), ..GivenCall::default() }, ..page };
        assert!(changed.html().contains("<details class=\"folded\" open"));
    }
}
