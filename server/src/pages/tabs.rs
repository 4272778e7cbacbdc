//! What pages of a job have in common that show little of it: the job as it stands, and what there is to count on its tabs.

use axum::response::Html;
use prs_common::statistics::{Live, Nodes, Part};
use prs_jobs::Failure;
use prs_jobs::homes::{self, Home, Seen};
use prs_jobs::looks::brief;
use prs_jobs::report;
use prs_orchestrator::JobRecord;
use prs_portal::view::{JobKind, Published, StepsPage, Tab, TabCounts, Tabs};

use crate::app::App;
use crate::problem::{Kind, Problem};

/// The parts of the statistics that tabs count in.
pub(super) const ON_TABS: [&str; 2] = [Live::NAME, Nodes::NAME];

/// A job of which a page is made.
#[derive(Debug)]
pub(super) struct OnTabs {
    pub(super) seen: Seen,
    /// Where it stands, its nodes, and the parts of the statistics that were asked for.
    pub(super) published: Published,
    counts: TabCounts,
}

impl OnTabs {
    /// The job with this id.
    pub(super) async fn of_id(app: &App, id: &str) -> Result<(Home, Self), Problem> {
        let home = app.home(id).await?;
        let record = home.record().await.map_err(|failure| refused(&failure))?;
        let kind = kind_of(&record);
        let found = Self::of(&home, record, kind, &[]).await?;
        Ok((home, found))
    }

    /// The job with this id, or where steps prepare it, what of it nodes ran last; with `more` parts of its statistics.
    pub(super) async fn at_work(app: &App, id: &str, more: &[&'static str]) -> Result<(Home, Self), Problem> {
        let home = Box::pin(app.home(id)).await?;
        let record = home.record().await.map_err(|failure| refused(&failure))?;
        let kind = kind_of(&record);
        let home = Box::pin(homes::at_work_of(home, &record, id, &app.whereabouts))
            .await
            .map_err(|failure| refused(&failure))?;
        let is_prepared = kind == JobKind::Prepared;
        let record =
            if is_prepared { home.record().await.map_err(|failure| refused(&failure))? } else { record };
        let found = Self::of(&home, record, kind, more).await?;
        Ok((home, found))
    }

    async fn of(
        home: &Home,
        record: JobRecord,
        kind: JobKind,
        more: &[&'static str],
    ) -> Result<Self, Problem> {
        let names = [&ON_TABS, more].concat();
        let (seen, published) = brief(&**home, record, &names).await.map_err(|failure| refused(&failure))?;
        let counts = TabCounts::new(kind, errors(&seen, &published), &published);
        Ok(Self { seen, published, counts })
    }

    /// Whether its steps have the mini-batches, and it has none.
    pub(super) fn is_pipeline(&self) -> bool {
        self.counts.kind == JobKind::Pipeline
    }

    /// Its tabs on the page of one of them.
    pub(super) fn tabs<'a>(&self, job_id: &'a str, tab: Tab) -> Tabs<'a> {
        Tabs { job_id, tab, counts: self.counts }
    }

    /// What people call it.
    pub(super) fn title(&self) -> &str {
        let spec = &self.seen.record.spec;
        spec.display_name.as_deref().unwrap_or(&spec.name)
    }
}

/// The page of a pipeline in the place of a tab that its steps have.
pub(super) async fn of_steps(app: &App, id: &str, tab: Tab) -> Result<Html<String>, Problem> {
    let home = app.home(id).await?;
    let found = report::facts(&*home, &app.whereabouts, &ON_TABS, false, Some(("/jobs/", ""))).await;
    let (_, facts) = found.map_err(|failure| refused(&failure))?;
    Ok(Html(StepsPage::new(&app.chrome, &facts, tab).html()))
}

fn refused(failure: &Failure) -> Problem {
    Problem::of(failure, Kind::REFUSED)
}

fn kind_of(record: &JobRecord) -> JobKind {
    JobKind::new(record.pipeline.is_some(), record.main_step().is_some())
}

/// The distinct errors of the job; while it runs, of its tries as far as its orchestrator has told, and of `init()` the last.
fn errors(seen: &Seen, published: &Published) -> u64 {
    if seen.result.state.is_final() {
        return seen.result.findings.distinct_errors;
    }
    let live = published.live.as_ref().filter(|live| live.incarnation == seen.record.incarnation);
    live.map_or(0, |live| live.distinct_errors + u64::from(live.init.failures > 0))
}
