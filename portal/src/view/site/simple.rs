//! Pages with one thing on them: a problem, a login, a question.

use askama::Template;

use super::Chrome;

/// A page as text.
pub(crate) fn rendered(page: &impl Template) -> String {
    page.render().expect("writing to memory does not fail, and no filter of the page does")
}

/// Something went wrong.
#[derive(Debug, Template)]
#[template(path = "site/problem.html")]
pub struct ProblemPage<'a> {
    /// What stands around it.
    pub chrome: &'a Chrome,
    /// What it is, in a few words.
    pub title: &'a str,
    /// What it was this time; empty on the page that explains the kind.
    pub detail: &'a str,
    /// What to do next.
    pub hint: Option<&'a str>,
    /// What such a problem means; empty where the page itself says it.
    pub meaning: &'a str,
    /// The number of the request; empty where there was none.
    pub request_id: &'a str,
    /// Jobs that may be meant by an id that no job has.
    pub near: Vec<String>,
}

impl ProblemPage<'_> {
    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }
}

/// All kinds of problems.
#[derive(Debug, Template)]
#[template(path = "site/problems.html")]
pub struct ProblemsPage<'a> {
    /// What stands around it.
    pub chrome: &'a Chrome,
    /// The end of the address, the status and the title of each.
    pub kinds: Vec<(&'a str, u16, &'a str)>,
}

impl ProblemsPage<'_> {
    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }
}

/// Who is there?
#[derive(Debug, Template)]
#[template(path = "site/login.html")]
pub struct LoginPage<'a> {
    /// What stands around it.
    pub chrome: &'a Chrome,
    /// The code of the link that led here; empty where none did.
    pub code: &'a str,
    /// Where to go behind it, an address of this server.
    pub next: &'a str,
    /// What was wrong with the last try; empty before the first.
    pub wrong: &'a str,
    /// Whether links log browsers in, too.
    pub has_links: bool,
    /// An identity provider that signs people in, too: its name, and the address that leads there.
    pub provider: Option<(&'a str, &'a str)>,
}

impl LoginPage<'_> {
    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }
}

/// A question before something is done that cannot be undone.
#[derive(Debug, Template)]
#[template(path = "site/confirm.html")]
pub struct ConfirmPage<'a> {
    /// What stands around it.
    pub chrome: &'a Chrome,
    /// What is about to be done, in a few words.
    pub title: &'a str,
    /// What will happen then.
    pub says: &'a str,
    /// The word on the button.
    pub button: &'a str,
    /// The address that does it.
    pub action: &'a str,
    /// The address that leads back.
    pub back: &'a str,
}

impl ConfirmPage<'_> {
    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }
}

/// The question before a job is removed, which wants its id.
#[derive(Debug, Template)]
#[template(path = "site/remove.html")]
pub struct RemovePage<'a> {
    /// What stands around it.
    pub chrome: &'a Chrome,
    /// Id of the job.
    pub job_id: &'a str,
    /// What was wrong with the last answer; empty before the first.
    pub wrong: &'a str,
}

impl RemovePage<'_> {
    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }
}

/// The addresses of the API.
#[derive(Debug, Template)]
#[template(path = "site/api.html")]
pub struct ApiPage<'a> {
    /// What stands around it.
    pub chrome: &'a Chrome,
    /// The address of this server.
    pub url: &'a str,
    /// Of each: the method, the path, the least role, what it does, and its parameters with what each takes.
    pub routes: Vec<ApiRoute<'a>>,
}

/// An address of the API.
pub type ApiRoute<'a> = (String, &'a str, &'a str, &'a str, Vec<(&'a str, &'a str)>);

impl ApiPage<'_> {
    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }
}

/// How pages look to one reader.
#[derive(Debug, Template)]
#[template(path = "site/display.html")]
pub struct DisplayPage<'a> {
    /// What stands around it.
    pub chrome: &'a Chrome,
    /// The colours: `system`, `light` or `dark`.
    pub theme: &'a str,
    /// Whose clock: `local` or `utc`.
    pub zone: &'a str,
    /// Whether single letters are keys: `on` or `off`.
    pub keys: &'a str,
    /// Where to go behind it, an address of this server.
    pub next: &'a str,
}

impl DisplayPage<'_> {
    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }
}

/// The keys, and what each does.
pub(crate) const KEYS: [(&str, &str); 17] = [
    ("/", "search"),
    ("g j", "jobs"),
    ("g f", "fleet"),
    ("g e", "endpoints"),
    ("1 \u{2026} 8", "the tabs of a job"),
    ("j k", "the next row of a table, and the one before"),
    ("x", "mark the row"),
    ("Enter", "open it"),
    ("[ ]", "older and newer: the next page and the one before, the windows of a log"),
    ("< >", "the first window of a log, and the last"),
    ("e", "the next error in a log"),
    ("f", "follow a log that grows"),
    ("p", "pause and go on"),
    ("c", "copy the address of what is shown"),
    ("?", "this page"),
    ("\u{2190} \u{2191} \u{2192} \u{2193} Home End", "in a picture: walk it, with what is there read out"),
    ("Enter", "in a picture: open what is there"),
];

/// Help.
#[derive(Debug, Template)]
#[template(path = "site/help.html")]
pub struct HelpPage<'a> {
    /// What stands around it.
    pub chrome: &'a Chrome,
    /// The address of this server.
    pub url: &'a str,
}

impl HelpPage<'_> {
    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }
}
