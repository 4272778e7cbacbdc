//! What is done with jobs that were selected in the list: a question first, and then an answer for each of them.

use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::response::Html;
use prs_common::timestamp::format_us;
use prs_portal::text::counted;
use prs_portal::view::{SelectedPage, SelectedRow};
use url::form_urlencoded::parse;

use crate::api::change::{check_removal, is_gone, remove_seen};
use crate::api::jobs::begin_to_cancel;
use crate::api::once::to_the_end;
use crate::api::received::Change;
use crate::api::submit::{Key, resubmit_job, resume_job};
use crate::app::App;
use crate::auth::{May, MaySubmit, Principal, random_text};
use crate::http::params::Params;
use crate::problem::{Kind, Problem};

/// Jobs that may be selected at a time: those of a page.
const MOST: usize = 500;
/// Bytes of the form.
const BODY: usize = 256 << 10;

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Cancel,
    Resume,
    Resubmit,
    Delete,
}

impl Verb {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "cancel" => Self::Cancel,
            "resume" => Self::Resume,
            "resubmit" => Self::Resubmit,
            "delete" => Self::Delete,
            _ => return None,
        })
    }

    fn word(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Resume => "resume",
            Self::Resubmit => "resubmit",
            Self::Delete => "delete",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Cancel => "Cancel",
            Self::Resume => "Resume",
            Self::Resubmit => "Resubmit",
            Self::Delete => "Remove",
        }
    }

    fn says(self) -> &'static str {
        match self {
            Self::Cancel => {
                "What runs of them is stopped. What is done is kept, and resume goes on from there."
            }
            Self::Resume => {
                "Resume runs only what is missing or failed, in each job itself, with its own code."
            }
            Self::Resubmit => {
                "Resubmit runs everything again, each as a new job, with its own code and settings."
            }
            Self::Delete => "Their records, logs and rows go for good. Their outputs stay where they are.",
        }
    }
}

/// What the form says.
#[derive(Debug, Default)]
struct Selected {
    verb: String,
    jobs: Vec<String>,
    is_sure: bool,
    count: String,
    key: Option<String>,
}

impl Selected {
    fn read(body: &[u8]) -> Result<Self, Problem> {
        let mut selected = Self::default();
        for (name, value) in parse(body) {
            match &*name {
                "verb" => selected.verb = value.into_owned(),
                "job" if !selected.jobs.iter().any(|known| *known == value) => {
                    selected.jobs.push(value.into_owned());
                }
                "job" => {}
                "sure" => selected.is_sure = value == "yes",
                "count" => value.trim().clone_into(&mut selected.count),
                "idempotency_key" => selected.key = Some(value.into_owned()).filter(|key| !key.is_empty()),
                other => {
                    let detail = format!("The form has the field {other:?}, which is not known.");
                    return Err(Problem::new(Kind::BAD_REQUEST, detail));
                }
            }
        }
        if selected.jobs.len() > MOST {
            return Err(Problem::new(Kind::TOO_LARGE, format_args!("{MOST} jobs at a time are the most.")));
        }
        Ok(selected)
    }
}

/// `POST /selected`.
pub(super) async fn act(
    May(who): MaySubmit,
    State(app): State<App>,
    params: Params,
    request: Request,
) -> Result<Html<String>, Problem> {
    params.check(&[])?;
    let body = to_bytes(request.into_body(), BODY).await;
    let body = body.map_err(|_| Problem::new(Kind::TOO_LARGE, "The form is too large."))?;
    let selected = Selected::read(&body)?;
    let Some(verb) = Verb::parse(&selected.verb) else {
        let detail = "verb is none of cancel, resume, resubmit and delete.";
        return Err(Problem::new(Kind::BAD_REQUEST, detail));
    };
    let is_counted = verb != Verb::Delete || selected.count == selected.jobs.len().to_string();
    if !selected.is_sure || !is_counted || selected.jobs.is_empty() {
        let wrong = match (selected.jobs.is_empty(), selected.is_sure) {
            (true, _) => "No job is selected.",
            (_, true) => "What was typed is not the number of the jobs.",
            _ => "",
        };
        return Ok(question(&app, verb, &selected.jobs, wrong).await);
    }
    let mut rows = Vec::new();
    for (at, job_id) in selected.jobs.iter().enumerate() {
        // Each is a request of its own, and all of them come again where the form does.
        let key = selected.key.as_ref().map(|key| format!("{key}-{at}"));
        rows.push(match Box::pin(one(&app, &who, verb, job_id, key)).await {
            Ok((says, link)) => {
                SelectedRow { job_id: job_id.clone(), says, link, is_gone: verb == Verb::Delete }
            }
            Err(problem) => {
                SelectedRow { job_id: job_id.clone(), says: problem.detail, ..SelectedRow::default() }
            }
        });
    }
    let page = SelectedPage {
        chrome: &app.chrome,
        title: format!("{} {}", verb.title(), counted(rows.len() as u64, "job")),
        says: String::new(),
        verb: verb.word(),
        button: String::new(),
        rows,
        wrong: "",
        key: "",
        is_done: true,
    };
    Ok(Html(page.html()))
}

/// The question before it is done.
async fn question(app: &App, verb: Verb, jobs: &[String], wrong: &str) -> Html<String> {
    let mut rows = Vec::new();
    for job_id in jobs {
        let says = match app.seen(job_id).await {
            Ok((_, seen)) => {
                format!("{}, submitted {}", seen.result.state.as_str(), format_us(seen.record.submitted_us))
            }
            Err(problem) => problem.detail,
        };
        rows.push(SelectedRow { job_id: job_id.clone(), says, ..SelectedRow::default() });
    }
    let what = format!("{} {}", verb.title(), counted(rows.len() as u64, "job"));
    let page = SelectedPage {
        chrome: &app.chrome,
        title: format!("{what}?"),
        says: verb.says().to_owned(),
        verb: verb.word(),
        button: what,
        rows,
        wrong,
        key: &random_text::<16>(),
        is_done: false,
    };
    Html(page.html())
}

/// Removes a job, and leaves its output.
async fn remove(app: &App, who: &Principal, job_id: &str) -> Result<(), Problem> {
    let (home, seen) = app.seen(job_id).await?;
    check_removal(app, who, (&home, &seen), true).await?;
    remove_seen(app, home, true).await
}

/// Does it with one job: what became of that, and the id of the job that came of it.
async fn one(
    app: &App,
    who: &Principal,
    verb: Verb,
    job_id: &str,
    key: Option<String>,
) -> Result<(String, String), Problem> {
    let (shared, caller, id) = (app.clone(), who.clone(), job_id.to_owned());
    match verb {
        Verb::Cancel => {
            begin_to_cancel(app, job_id, &who.name, "").await?;
            Ok(("It is being canceled.".to_owned(), String::new()))
        }
        Verb::Delete => {
            // Who presses twice has what they wanted.
            let removed = Box::pin(remove(app, who, job_id)).await;
            removed.or_else(|problem| if is_gone(&problem) { Ok(()) } else { Err(problem) })?;
            Ok(("It is removed.".to_owned(), String::new()))
        }
        Verb::Resume => {
            let change = Change::default();
            to_the_end(move || resume_job(shared, caller, Key::OfPage(key), id, change)).await?;
            Ok(("It goes on.".to_owned(), String::new()))
        }
        Verb::Resubmit => {
            let change = Change::default();
            let made = to_the_end(move || resubmit_job(shared, caller, Key::OfPage(key), id, change)).await?;
            Ok(("It runs again as".to_owned(), made.job_id))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_names_jobs_once_and_a_verb() {
        let selected = Selected::read(b"verb=cancel&job=a&job=b&job=a&sure=yes").unwrap();
        assert_eq!(
            (selected.jobs.as_slice(), selected.is_sure),
            (&["a".to_owned(), "b".to_owned()][..], true)
        );
        assert_eq!(Verb::parse(&selected.verb), Some(Verb::Cancel));
        for verb in [Verb::Cancel, Verb::Resume, Verb::Resubmit, Verb::Delete] {
            assert_eq!(Verb::parse(verb.word()), Some(verb));
        }
        assert!(Verb::parse("odd").is_none() && Selected::read(b"x=1").is_err());
    }
}
