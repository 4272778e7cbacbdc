//! Bodies of requests that say what is to be registered: a file as JSON or YAML, or a form with it and an archive of code.

use std::path::PathBuf;

use axum::body::to_bytes;
use axum::extract::Request;
use prs_common::hexadecimal;
use prs_jobs::Failure;
use prs_jobs::intake::Staging;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::received::{
    FORM_TYPE, Form, Parts, check_plain, media_type, refused_as, save, text, too_large, unknown, unusable,
    wrong_type,
};
use super::uploads;
use crate::app::App;
use crate::http::json;
use crate::http::rates::Sizes;
use crate::problem::{Kind, Problem};

/// Media types of YAML.
const YAML: [&str; 4] = ["application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"];
const TAKES: &str = "application/json, application/yaml or multipart/form-data";

/// A file of something that is to be registered, as it was sent.
#[derive(Debug)]
pub(crate) struct AssetText {
    /// What stands in it.
    pub(crate) text: String,
    /// What came along: its paths begin in the code.
    pub(crate) staging: Staging,
    /// What tells it from other requests.
    pub(crate) fingerprint: String,
    /// How it came.
    form: Form,
}

impl AssetText {
    /// Reads the body of a request.
    /// `called` is what a folder is called that was sent before, and whether that is data.
    pub(crate) async fn receive(app: &App, request: Request, called: (&str, bool)) -> Result<Self, Problem> {
        check_plain(request.headers())?;
        let kind = media_type(request.headers()).to_ascii_lowercase();
        let mut staging = app.desk.staging().map_err(|failure| Problem::of(&failure, Kind::INTERNAL))?;
        if kind == FORM_TYPE {
            return Self::in_form(staging, request).await;
        }
        let is_yaml = YAML.contains(&&*kind);
        if kind != "application/json" && !is_yaml {
            return Err(wrong_type(TAKES));
        }
        let sizes = Sizes::of(request.extensions());
        let most = if is_yaml { sizes.yaml } else { sizes.json };
        let body = to_bytes(request.into_body(), most).await.map_err(|_| too_large(most))?;
        let wrong =
            |why: String| Problem::new(Kind::BAD_REQUEST, format_args!("The body cannot be read: {why}."));
        let body = String::from_utf8(body.to_vec()).map_err(|_| wrong("it is not UTF-8".to_owned()))?;
        if is_yaml {
            let fingerprint = hexadecimal(&Sha256::digest(&body));
            return Ok(Self { text: body, staging, fingerprint, form: Form::Text });
        }
        let mut value: Value = json::read(body.as_bytes()).map_err(wrong)?;
        if !value.is_object() {
            return Err(wrong("it is no object".to_owned()));
        }
        // The same however it is written. JSON is YAML.
        let fingerprint = hexadecimal(&Sha256::digest(value.to_string()));
        uploads::take_all(app, &mut staging, &mut value, called).await?;
        Ok(Self { text: value.to_string(), staging, fingerprint, form: Form::Whole })
    }

    /// What a request says in other words than a file has them, with what came along.
    pub(crate) fn of(document: &Value, staging: Staging) -> Self {
        let text = document.to_string();
        let fingerprint = hexadecimal(&Sha256::digest(&text));
        Self { text, staging, fingerprint, form: Form::Whole }
    }

    async fn in_form(mut staging: Staging, request: Request) -> Result<Self, Problem> {
        let mut parts = Parts::of(request).await?;
        let mut file_text = None;
        loop {
            let file = staging.file();
            let Some((name, part)) = parts.next().await? else { break };
            let digest = match &*name {
                "code" => {
                    let (_, digest) = save(part, &file).await?;
                    let taken = tokio::task::block_in_place(|| staging.take_code(&file));
                    taken.map_err(|failure| unusable(&failure, &name))?;
                    digest
                }
                "file" => {
                    let text = text(part).await?;
                    let digest = Sha256::digest(&text).to_vec();
                    file_text = Some(text);
                    digest
                }
                _ => return Err(unknown(&name, "file, code")),
            };
            parts.note(&name, &digest);
        }
        let text = file_text.ok_or_else(|| {
            Problem::new(Kind::BAD_REQUEST, "The form has no field file: send the text of the YAML file.")
        })?;
        Ok(Self { text, staging, fingerprint: parts.fingerprint(), form: Form::Text })
    }

    /// Where the file would be.
    pub(crate) fn path(&self) -> PathBuf {
        self.staging.code().join("the file")
    }

    /// The folders that its local paths may lead into.
    pub(crate) fn fence(&self, app: &App) -> Vec<PathBuf> {
        [&[self.staging.path().to_owned()], app.desk.allowed()].concat()
    }

    /// What it is to who sent it that it is refused, as a file of `noun`. No folder of the server is named.
    pub(crate) fn refused(&self, failure: &Failure, kind: &'static Kind, noun: &str) -> Problem {
        let folders = [self.staging.code(), self.staging.path().to_owned()];
        let folders = folders.map(|folder| folder.display().to_string());
        let shown = |text: &str| {
            folders.iter().fold(text.to_owned(), |text, folder| {
                text.replace(&format!("{folder}/"), "").replace(folder, ".")
            })
        };
        let mut problem = refused_as(failure, Some(self.form), kind, noun);
        problem.detail = shown(&problem.detail);
        for error in &mut problem.errors {
            error.detail = shown(&error.detail);
        }
        problem
    }
}
