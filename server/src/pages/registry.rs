//! The registry: names of a kind, versions of a name, and a version with who uses it, which is archived and deleted here.

use axum::Form;
use axum::extract::{Path, State};
use axum::response::{Html, IntoResponse, Redirect, Response};
use prs_common::dataset::http_url::shown;
use prs_common::registry::{AssetVersion, Edit, Edited, Kind as AssetKind};
use prs_jobs::assets;
use prs_portal::text::bytes;
use prs_portal::view::{DeletePage, NameRow, Refused, RegistryPage, VersionPage, VersionRow, VersionsPage};
use serde::Deserialize;

use super::job::in_address;
use super::submit::said;
use crate::api::outputs::files;
use crate::api::registry::{
    KINDS, delete_version, kind_of, names, problem, store, tag_of, used_by, versions_page, which, word_of,
};
use crate::app::App;
use crate::auth::{May, MayAdmin, MayRead, MaySubmit, Principal, Role};
use crate::http::params::Params;
use crate::problem::{Kind, Problem};

/// Files on a page.
const FILES: usize = 100;

/// The word for a kind as people read it.
fn title_of(kind: AssetKind) -> &'static str {
    match kind {
        AssetKind::Data => "Data",
        AssetKind::Model => "Models",
        AssetKind::Environment => "Environments",
        AssetKind::Component => "Components",
    }
}

/// A moment for people and for programs.
fn moment(text: &str) -> (String, String) {
    (
        format!("{} UTC", text.get(..16).unwrap_or(text).replace('T', " ")),
        format!("{}Z", text.get(..23).unwrap_or(text)),
    )
}

/// `GET /registry/{kind}`.
pub(super) async fn list(
    _: MayRead,
    State(app): State<App>,
    Path(word): Path<String>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&["q", "archived", "cursor"])?;
    let kind = kind_of(&word)?;
    let (found, cursor) = names(&app, kind, &params).await?;
    let row = |one: prs_jobs::records::RegisteredName| NameRow {
        name: one.name,
        description: one.description.unwrap_or_default(),
        latest: one.latest.unwrap_or_default(),
        kind: one.kind,
        versions: one.versions,
        created: moment(&one.created_at),
    };
    let next = cursor.map(|cursor| {
        let query = params.without(&["cursor"]);
        format!("/registry/{word}?{query}{}cursor={cursor}", if query.is_empty() { "" } else { "&" })
    });
    let page = RegistryPage {
        chrome: &app.chrome,
        kinds: KINDS.iter().map(|(word, each)| (*word, title_of(*each), *each == kind)).collect(),
        word: &word,
        title: title_of(kind),
        command: kind.command(),
        query: params.one("q")?.unwrap_or_default(),
        archived: params.flag("archived")?,
        names: found.into_iter().map(row).collect(),
        next: next.unwrap_or_default(),
    };
    Ok(Html(page.html()))
}

fn version_row(one: &AssetVersion, is_latest: bool) -> VersionRow {
    let labels = is_latest.then(|| "@latest".to_owned()).into_iter();
    let labels = labels.chain(one.labels.iter().map(|label| format!("@{label}")));
    VersionRow {
        version: one.version.clone(),
        kind: one.kind.as_str(),
        labels: labels.collect::<Vec<_>>().join(" "),
        description: one.about.description.clone().unwrap_or_default(),
        by: one.created_by.clone().unwrap_or_default(),
        created: moment(&one.created),
        archived: one.archived,
    }
}

/// `GET /registry/{kind}/{name}`.
pub(super) async fn versions(
    _: MayRead,
    State(app): State<App>,
    Path((word, name)): Path<(String, String)>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&["cursor"])?;
    let kind = kind_of(&word)?;
    let found = versions_page(&app, kind, &name, &params).await?;
    let is_latest = |one: &AssetVersion| found.latest.as_ref() == Some(&one.version);
    let next = found.next_cursor.as_ref().map(|cursor| format!("/registry/{word}/{name}?cursor={cursor}"));
    let page = VersionsPage {
        chrome: &app.chrome,
        kind: (&word, title_of(kind)),
        name: &name,
        versions: found.value.iter().map(|one| version_row(one, is_latest(one))).collect(),
        next: next.unwrap_or_default(),
    };
    Ok(Html(page.html()))
}

/// The page about a version.
async fn page(
    app: &App,
    who: &Principal,
    (kind, name, version): (AssetKind, &str, &str),
    refused: Refused,
) -> Result<Html<String>, Problem> {
    let found = assets::find(kind, name, &which(version), &app.whereabouts).await;
    let (one, is_latest) = found.map_err(|failure| problem(&failure))?;
    let used = used_by(app, &one).await?;
    let (listed, has_more_files, why_no_files) = match store(app, (kind, name, &one.version)).await {
        Ok(storage) => {
            let (listed, has_more) = files(&*storage, "", "", FILES).await?;
            (listed, has_more, String::new())
        }
        Err(problem) if problem.kind == Kind::REFUSED => (Vec::new(), false, problem.detail),
        Err(problem) => return Err(problem),
    };
    let word = word_of(kind);
    let address = |path: &str| {
        let path = in_address(path);
        format!("/api/v1/registry/{word}/{name}/versions/{}/files/{path}", one.version)
    };
    let pairs = |of: &str, texts: &std::collections::BTreeMap<String, String>| {
        texts.iter().map(|(key, value)| (format!("{of} {key}"), value.clone())).collect::<Vec<_>>()
    };
    let mut facts = pairs("Tag", &one.about.tags);
    facts.extend(pairs("Property", &one.about.properties));
    facts.extend(one.about.stage.clone().map(|stage| ("Stage".to_owned(), stage)));
    if !one.about.flavors.is_empty() {
        let flavors: Vec<&str> = one.about.flavors.keys().map(String::as_str).collect();
        facts.push(("Flavors".to_owned(), flavors.join(", ")));
    }
    let from_job = one.given.strip_prefix("azureml://jobs/").and_then(|rest| rest.split('/').next());
    let page = VersionPage {
        chrome: &app.chrome,
        kind: (word, title_of(kind)),
        name,
        row: version_row(&one, is_latest),
        reference: format!("azureml:{}:{}", one.name, one.version),
        path: shown(&one.path).into_owned(),
        given: shown(&one.given).into_owned(),
        from_job: from_job.unwrap_or_default().to_owned(),
        facts,
        files: listed
            .iter()
            .map(|file| (file.path.clone(), bytes(file.bytes), address(&file.path)))
            .collect(),
        has_more_files,
        why_no_files,
        deployments: used.used.deployments.into_iter().map(|one| (one.endpoint, one.deployment)).collect(),
        components: used.used.components.into_iter().map(|one| (one.name, one.version)).collect(),
        jobs: used.jobs.into_iter().map(|one| (one.job_id, one.state)).collect(),
        jobs_total: used.jobs_total,
        may_change: who.role.allows(Role::Submit),
        may_delete: who.role.allows(Role::Admin),
        tag: tag_of(&one),
        refused,
    };
    Ok(Html(page.html()))
}

/// `GET /registry/{kind}/{name}/{version}`.
pub(super) async fn version(
    May(who): MayRead,
    State(app): State<App>,
    Path((word, name, version)): Path<(String, String, String)>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&[])?;
    page(&app, &who, (kind_of(&word)?, &name, &version), Refused::default()).await
}

/// What the form sends that archives a version, or restores it.
#[derive(Debug, Deserialize)]
pub(super) struct Archive {
    tag: String,
    archived: bool,
}

/// `POST /registry/{kind}/{name}/{version}/archive`.
pub(super) async fn archive(
    May(who): MaySubmit,
    State(app): State<App>,
    Path((word, name, version)): Path<(String, String, String)>,
    Form(fields): Form<Archive>,
) -> Result<Response, Problem> {
    let kind = kind_of(&word)?;
    let decide = |there: &AssetVersion| {
        // Who presses twice has what they wanted.
        let is_seen = tag_of(there) == fields.tag || there.archived == fields.archived;
        is_seen.then(|| {
            Edit::Change(Edited {
                about: there.about.clone(),
                labels: there.labels.clone(),
                archived: fields.archived,
            })
        })
    };
    let changed = assets::edit(kind, &name, &version, decide, &app.whereabouts).await;
    if changed.map_err(|failure| problem(&failure))?.is_none() {
        let says = "It was changed meanwhile: this is what it is now.".to_owned();
        let refused = Refused { says, problems: Vec::new() };
        return Ok(page(&app, &who, (kind, &name, &version), refused).await?.into_response());
    }
    tracing::info!(
        kind = kind.noun(),
        name,
        version,
        who = who.name,
        archived = fields.archived,
        "a version is changed"
    );
    Ok(Redirect::to(&format!("/registry/{word}/{name}/{version}")).into_response())
}

/// The question before a version goes.
fn question(app: &App, (word, name, version): (&str, &str, &str), refused: Refused) -> Html<String> {
    let page = DeletePage {
        chrome: &app.chrome,
        title: &format!("Delete version {version} of {name}?"),
        says: "Lists and job files do not find it any more, and no other version gets its number. Jobs that began with it keep its files. A version that something uses stays.",
        name: &format!("{name}:{version}"),
        action: &format!("/registry/{word}/{name}/{version}/delete"),
        back: &format!("/registry/{word}/{name}/{version}"),
        refused,
    };
    Html(page.html())
}

/// `GET /registry/{kind}/{name}/{version}/delete`.
pub(super) async fn ask_to_delete(
    _: MayAdmin,
    State(app): State<App>,
    Path((word, name, version)): Path<(String, String, String)>,
) -> Result<Html<String>, Problem> {
    let found = assets::find(kind_of(&word)?, &name, &which(&version), &app.whereabouts).await;
    found.map_err(|failure| problem(&failure))?;
    Ok(question(&app, (&word, &name, &version), Refused::default()))
}

/// What the form sends that deletes something.
#[derive(Debug, Deserialize)]
pub(super) struct Typed {
    #[serde(default)]
    pub(super) typed: String,
}

impl Typed {
    /// Why nothing is deleted, where that is not named; nothing where it is.
    pub(super) fn refused(&self, name: &str) -> Option<Refused> {
        let is_named = self.typed.trim().eq_ignore_ascii_case(name);
        let says = format!("{:?} is not {name}: nothing was deleted.", self.typed.trim());
        (!is_named).then(|| Refused { says, problems: Vec::new() })
    }
}

/// `POST /registry/{kind}/{name}/{version}/delete`.
pub(super) async fn delete(
    May(who): MayAdmin,
    State(app): State<App>,
    Path((word, name, version)): Path<(String, String, String)>,
    Form(typed): Form<Typed>,
) -> Result<Response, Problem> {
    let meant = (&*word, &*name, &*version);
    if let Some(refused) = typed.refused(&format!("{name}:{version}")) {
        return Ok(question(&app, meant, refused).into_response());
    }
    match delete_version(&app, &who, (kind_of(&word)?, &name, &version), None).await {
        Ok(()) => Ok(Redirect::to(&format!("/registry/{word}")).into_response()),
        // Who presses twice has what they wanted.
        Err(problem) if problem.kind.status == 404 => {
            Ok(Redirect::to(&format!("/registry/{word}")).into_response())
        }
        Err(problem) => Ok(question(&app, meant, said(&app, problem)?).into_response()),
    }
}
