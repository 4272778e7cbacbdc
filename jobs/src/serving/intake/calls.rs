//! Submit, resubmit and resume for a server, which may be asked for the same again, and may be killed in the midst.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use prs_common::job::{
    Called, DEPLOYMENT_FILE, Deployed, Given, Invocation, JobText, Loaded, LocalPath, check_job_id,
    local_paths,
};
use prs_common::storage::{Reach, StorageErrorKind};
use prs_common::timestamp::now_us;
use prs_common::tree::{self, remove_tree};
use prs_common::{failpoint, layout};

use super::dry_run::DryRun;
use super::order::{Order, What};
use super::program::Program;
use super::staging::{SENT, STAGING, Staging, code_in};
use crate::blobs::{BlobError, Blobs, Listed};
use crate::endpoints;
use crate::failure::{AtWork, Failure};
use crate::homes::{self, Home, Whereabouts, registry, run_folder};
use crate::idempotency::{Begun, Held, Requests};
use crate::submit::code_choice::{Changes, CodeChoice};
use crate::submit::run::new_id;
use crate::submit::{self, Sent, Start};

/// What came with a request that a killed server left goes after so long.
const LEFT_FOR: Duration = Duration::from_hours(24);

/// A job that is handed in.
#[derive(Debug)]
pub struct Submission {
    /// The job file.
    pub text: String,
    /// Where it stands in the code that came along, so that its relative paths begin there: empty for the top, else a
    /// [valid key](prs_common::storage::is_valid_key).
    pub below: String,
    /// Settings in place of its own: key and value.
    pub set: Vec<(String, String)>,
    /// What the job is called.
    pub called: Called,
    /// What one run of a batch deployment is given, where the job file is that of one.
    pub invocation: Option<Invocation>,
    /// The id that the job is to have, where who hands it in chose one.
    pub id: Option<String>,
    /// Names of inputs that came along and that a deployment is called with; others take the place of what the file has.
    pub bound: Vec<String>,
    /// What came along.
    pub staging: Staging,
}

/// Where the parts of a submission are.
struct Places {
    set: Vec<(String, String)>,
    inputs: BTreeMap<String, PathBuf>,
    allowed: Vec<PathBuf>,
}

impl Submission {
    /// Where its parts are in `folder`, with the folders that its paths may lead into.
    fn places(&self, folder: &Path, allowed: &[PathBuf]) -> Places {
        let (mut set, mut allowed) = (self.set.clone(), allowed.to_vec());
        let mut inputs = self.staging.inputs(folder);
        for name in &self.bound {
            if inputs.remove(name).is_none() {
                continue;
            }
            let path = Staging::folder_of_input(name, folder);
            let is_file =
                set.iter().any(|(key, kind)| *key == format!("inputs.{name}.type") && kind == "uri_file");
            let only = self.staging.only_file(name).filter(|_| is_file);
            let path = only.map_or(path.clone(), |only| path.join(only));
            set.push((format!("inputs.{name}.path"), path.display().to_string()));
            allowed.push(path);
        }
        Places { set, inputs, allowed }
    }
}

/// A call of an endpoint.
#[derive(Debug, Clone, Default)]
pub struct Call {
    /// The endpoint.
    pub endpoint: String,
    /// The deployment; the default one, or the only one, without it.
    pub deployment: Option<String>,
    /// Settings and named inputs of this call: keys with their places, and values.
    pub set: Vec<(String, String)>,
    /// The data, and what else this call says.
    pub invocation: Invocation,
    /// What the job is called.
    pub called: Called,
    /// Inputs whose files were sent before, by their names.
    pub sent: BTreeMap<String, Vec<Listed>>,
}

/// What becomes of a job that is to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resumed {
    /// It does.
    GoesOn,
    /// It has not ended.
    IsActive,
    /// Nothing of it is missing.
    IsComplete,
}

/// A folder so deep that job files lead out of it by `..` as far as they do.
const DEEP: &str = "1/2/3/4/5/6/7/8";

/// `name`, seen from `folder`, with `..` taken away; nothing where it is not relative.
fn below(folder: &Path, name: &str) -> Option<PathBuf> {
    let mut path = folder.to_owned();
    for part in Path::new(name).components() {
        match part {
            Component::Normal(part) => path.push(part),
            Component::CurDir => {}
            Component::ParentDir => {
                path.pop();
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    (!name.contains('\0') && !name.is_empty()).then_some(path)
}

/// Where jobs are handed in.
#[derive(Debug, Clone)]
pub struct Desk {
    whereabouts: Whereabouts,
    requests: Requests,
    /// Runs the jobs of this machine.
    program: Program,
    /// Folders of this machine that the paths of jobs may lead into.
    allowed: Vec<PathBuf>,
}

/// Does `work`, and tells other servers meanwhile that the request is being worked on.
async fn kept<T>(
    held: &mut Option<Box<Held>>,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    match held {
        Some(held) => held.keep(work).await,
        None => work.await,
    }
}

async fn pick(held: &mut Option<Box<Held>>, id: &str, before: Option<u32>) -> Result<(), Failure> {
    match held {
        Some(held) => held.pick(id, before).await,
        None => Ok(()),
    }
}

impl Desk {
    /// For the jobs there. `program` runs those of this machine; their paths, and those of jobs for a fleet, may lead into what
    /// comes along, and into `allowed`.
    ///
    /// # Errors
    /// The storage cannot be used.
    pub async fn open(
        whereabouts: &Whereabouts,
        program: Program,
        allowed: Vec<PathBuf>,
    ) -> Result<Self, Failure> {
        let requests = Requests::open(whereabouts).await?;
        let runs = std::path::absolute(&whereabouts.runs)
            .context("there is no current folder")
            .map_err(Failure::usage)?;
        let mut whereabouts = whereabouts.clone();
        whereabouts.runs = runs;
        Ok(Self { whereabouts, requests, program, allowed })
    }

    /// What programs send before they hand in what needs it.
    ///
    /// # Errors
    /// The storage cannot be used.
    pub async fn blobs(&self) -> Result<Blobs, Failure> {
        Blobs::open(&self.whereabouts).await
    }

    /// Begins a request, as [`Requests::begin`] does.
    ///
    /// # Errors
    /// The store fails.
    pub async fn begin(&self, scope: &str, key: &str, fingerprint: &str) -> Result<Begun, Failure> {
        self.requests.begin(scope, key, fingerprint).await
    }

    /// Folders of this machine that the paths of what is sent may lead into.
    pub fn allowed(&self) -> &[PathBuf] {
        &self.allowed
    }

    /// A folder for what comes with a request.
    ///
    /// # Errors
    /// There can be none.
    pub fn staging(&self) -> Result<Staging, Failure> {
        Staging::make(&self.whereabouts)
    }

    /// Goes on with what servers left that are gone: on this machine jobs that no program has taken up, and what came with requests
    /// that were never done.
    pub async fn tidy(&self) {
        if let Err(failure) = self.requests.sweep().await {
            tracing::debug!(%failure, "old requests are removed later");
        }
        if self.whereabouts.urls.is_some() {
            return;
        }
        self.program.take_up_all(&self.whereabouts.runs).await;
        let Ok(registry) = registry::folder_of_runs(&self.whereabouts.runs) else { return };
        let entries = fs::read_dir(registry.join(STAGING)).into_iter().flatten().flatten();
        for entry in entries {
            let modified = entry.metadata().and_then(|entry| entry.modified()).ok();
            let age = modified.and_then(|modified| SystemTime::now().duration_since(modified).ok());
            if age.is_some_and(|age| age > LEFT_FOR)
                && let Err(error) = remove_tree(entry.path())
            {
                tracing::debug!(%error, "what came with a former request is left behind");
            }
        }
    }

    fn reach(&self) -> Option<Reach> {
        self.whereabouts.reach.as_deref().cloned()
    }

    /// Reads the job file of a submission.
    async fn load(&self, submission: &Submission) -> Result<Loaded, Failure> {
        let Submission { text, below, called, invocation, staging, .. } = submission;
        let root = staging.code();
        let code = root.join(below);
        let Places { set, inputs, allowed } = submission.places(staging.path(), &self.allowed);
        let reach = self.whereabouts.reach.as_deref();
        let text =
            JobText { text, folder: &code, root: &root, allowed: &allowed, sent: Some(&inputs), reach };
        let names = self.whereabouts.names.anew();
        let given = Given {
            overrides: &set,
            invocation: invocation.as_ref(),
            names: Some(&names),
            text: Some(text),
            called: Some(called),
            ..Given::default()
        };
        let runs_on = self.whereabouts.runs_on();
        let loaded = Box::pin(registry::load(runs_on, Path::new(""), given, &self.whereabouts)).await;
        loaded.map_err(|failure| failure.without(staging.path()))
    }

    /// Whether there is a job with this id.
    ///
    /// # Errors
    /// The storage does not say.
    pub async fn has_job(&self, id: &str) -> Result<bool, Failure> {
        if check_job_id(id).is_err() {
            return Ok(false);
        }
        if self.whereabouts.urls.is_none() {
            return Ok(self.run(id).symlink_metadata().is_ok());
        }
        let home = homes::of_id(id, &self.whereabouts).await?;
        match home.storage().head(layout::JOB).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind == StorageErrorKind::NotFound => Ok(false),
            Err(error) => Err(Failure::server(error)),
        }
    }

    /// What a call of an endpoint hands in, for who has the token `called_by`; `came` has inputs that came along.
    ///
    /// # Errors
    /// No deployment answers, or the registry fails.
    pub async fn call(
        &self,
        call: Call,
        came: Option<Staging>,
        called_by: Option<String>,
    ) -> Result<Submission, Failure> {
        let Call { endpoint, deployment, set, invocation, called, sent } = call;
        let routed = endpoints::route(&endpoint, deployment.as_deref(), &self.whereabouts).await?;
        let archive = endpoints::archive_of(&routed.registry, &routed.deployment).await?;
        let mut staging = came.map_or_else(|| self.staging(), Ok)?;
        let bound = sent.keys().cloned().chain(staging.inputs(Path::new("")).into_keys()).collect();
        let file = staging.file();
        tree::write(&file, &archive).with_context(|| format!("cannot write {}", file.display()))?;
        staging.take_code(&file)?;
        if !sent.is_empty() {
            let blobs = self.blobs().await?;
            for (name, files) in &sent {
                staging.take_manifest(&blobs, name, files).await.map_err(BlobError::failure)?;
            }
        }
        let path = staging.code().join(DEPLOYMENT_FILE);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let called = Called { deployed: Some(Deployed { called_by, ..routed.deployed }), ..called };
        let id = invocation.job_name.clone();
        let invocation = Some(Invocation { is_deployment: true, ..invocation });
        Ok(Submission { text, below: String::new(), set, called, invocation, id, bound, staging })
    }

    /// The local paths that the job file `text` leads to with the settings `set`: what is to be sent with it. `files` are texts that it
    /// refers to, such as components, by their paths from its folder; what is not among them leads to nothing further.
    ///
    /// # Errors
    /// A path of `files` is none, or the registry fails.
    pub async fn local_paths(
        &self,
        text: &str,
        set: &[(String, String)],
        files: &BTreeMap<String, String>,
    ) -> Result<Vec<LocalPath>, Failure> {
        let staging = self.staging()?;
        // Deep enough for paths that begin with `..`.
        let root = staging.code();
        let folder = root.join(DEEP);
        tree::make_folders(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        for (name, text) in files {
            let Some(path) = below(&folder, name).filter(|path| path.starts_with(&root)) else {
                return Err(Failure::wrong(format!("{name:?} is no path from the folder of the job file")));
            };
            let write = || {
                tree::make_folders(path.parent().unwrap_or(&root))?;
                tree::write(&path, text)
            };
            write().map_err(|error| Failure::wrong(format!("{name:?} cannot be: {error}")))?;
        }
        let text =
            JobText { text, folder: &folder, root: &root, allowed: &self.allowed, sent: None, reach: None };
        let names = self.whereabouts.names.anew();
        let given = Given { overrides: set, names: Some(&names), text: Some(text), ..Given::default() };
        let mut opened = None;
        loop {
            let found = local_paths(self.whereabouts.runs_on(), given);
            if !registry::look_up(&names, &mut opened, &self.whereabouts).await? {
                return Ok(found);
            }
        }
    }

    /// What would run of a job. Nothing of it is kept.
    ///
    /// # Errors
    /// The job is refused.
    pub async fn dry_run(&self, submission: Submission) -> Result<DryRun, Failure> {
        let loaded = self.load(&submission).await?;
        let folder = submission.staging.path().to_owned();
        DryRun::of(loaded, folder.clone()).await.map_err(|failure| failure.without(&folder))
    }

    /// Hands a job in, and gives its id.
    ///
    /// # Errors
    /// The job is refused, or a server fails.
    pub async fn submit(
        &self,
        submission: Submission,
        held: &mut Option<Box<Held>>,
    ) -> Result<String, Failure> {
        let picked = held.as_ref().and_then(|held| held.job_id()).map(str::to_owned);
        if let Some(id) = &picked
            && kept(held, Box::pin(self.go_on(id))).await?
        {
            return Ok(id.clone());
        }
        let loaded = kept(held, Box::pin(self.load(&submission))).await?;
        let name = match &loaded {
            Loaded::Job(spec) => &spec.name,
            Loaded::Pipeline(loaded) => &loaded.spec.name,
        };
        let is_named = submission.id.is_some();
        let id = picked.or_else(|| submission.id.clone()).unwrap_or_else(|| self.new_id(name));
        pick(held, &id, None).await?;
        let is_here = self.whereabouts.urls.is_none();
        let folder = if is_here { self.run(&id) } else { submission.staging.path().to_owned() };
        let Places { set, inputs, allowed } = submission.places(&folder, &self.allowed);
        let Submission { text, below, called, invocation, staging, .. } = submission;
        if is_here {
            let invocation = invocation.map(Box::new);
            let what = What::Submit { text, below, set, called, invocation, inputs, allowed };
            kept(held, Box::pin(self.run_here(staging, &id, what))).await?;
            return Ok(id);
        }
        let root = staging.code();
        let code = root.join(below);
        let reach = self.whereabouts.reach.as_deref();
        let text = JobText {
            text: &text,
            folder: &code,
            root: &root,
            allowed: &allowed,
            sent: Some(&inputs),
            reach,
        };
        let names = self.whereabouts.names.anew();
        let given = Given {
            overrides: &set,
            invocation: invocation.as_ref(),
            names: Some(&names),
            called: Some(&called),
            ..Given::default()
        };
        let start = Start { is_picked: !is_named, ..self.start(&id) };
        let handed_in = kept(held, Box::pin(submit::submit_text(text, given, &start))).await;
        handed_in.map_err(|failure| failure.without(staging.path()))?;
        Ok(id)
    }

    /// Runs the former job `former` again as a new one, and gives the id of that.
    ///
    /// # Errors
    /// There is no such job, the settings are refused, or a server fails.
    pub async fn resubmit(
        &self,
        former: &str,
        set: Vec<(String, String)>,
        called: Called,
        staging: Option<Staging>,
        held: &mut Option<Box<Held>>,
    ) -> Result<String, Failure> {
        let picked = held.as_ref().and_then(|held| held.job_id()).map(str::to_owned);
        if let Some(id) = &picked
            && kept(held, Box::pin(self.go_on(id))).await?
        {
            return Ok(id.clone());
        }
        let home = homes::of_id(former, &self.whereabouts).await?;
        let record = home.record().await?;
        home.check_runs_alone(&record)?;
        let name = called.name.clone().unwrap_or_else(|| record.as_given().spec.name);
        let id = picked.unwrap_or_else(|| self.new_id(&name));
        pick(held, &id, None).await?;
        if self.whereabouts.urls.is_some() {
            let start = self.start(&id);
            let (code, inputs) = match &staging {
                Some(staging) => (staging.has_code().then(|| staging.code()), staging.inputs(staging.path())),
                None => (None, BTreeMap::new()),
            };
            let came = Sent { code: code.as_ref(), inputs: &inputs };
            let again = kept(held, Box::pin(submit::resubmit(former, &set, &called, came, &start))).await;
            again.map_err(|failure| match &staging {
                Some(staging) => failure.without(staging.path()),
                None => failure,
            })?;
            return Ok(id);
        }
        let former = folder_of(&home)?.display().to_string();
        let staging = staging.map_or_else(|| self.staging(), Ok)?;
        let (has_code, inputs) = (staging.has_code(), staging.inputs(&self.run(&id)));
        let what = What::Resubmit { former, set, called, has_code, inputs };
        kept(held, Box::pin(self.run_here(staging, &id, what))).await?;
        Ok(id)
    }

    /// Goes on with the job `id`, with its own code or with that which came along.
    ///
    /// # Errors
    /// There is no such job, settings or code are refused, or a server fails.
    pub async fn resume(
        &self,
        id: &str,
        set: Vec<(String, String)>,
        only_group: Option<String>,
        staging: Option<Staging>,
        held: &mut Option<Box<Held>>,
    ) -> Result<Resumed, Failure> {
        let home = homes::of_id(id, &self.whereabouts).await?;
        let seen = home.look().await?;
        let start = seen.record.incarnation;
        if held.as_ref().and_then(|held| held.before()).is_some_and(|before| before < start) {
            // A server that is gone has begun it.
            kept(held, Box::pin(self.go_on(id))).await?;
            return Ok(Resumed::GoesOn);
        }
        let is_final = seen.result.state.is_final();
        let is_served =
            self.whereabouts.urls.is_none() || homes::active_ids(&self.whereabouts).await?.contains(id);
        if !is_final && is_served {
            return Ok(Resumed::IsActive);
        }
        if seen.record.is_done_with() {
            return Ok(Resumed::IsComplete);
        }
        pick(held, id, Some(start)).await?;
        let came = staging.as_ref().filter(|staging| staging.has_code());
        if self.whereabouts.urls.is_some() {
            let code = came.map(Staging::code);
            let resumed =
                kept(held, Box::pin(self.resume_on(id, &set, code.as_deref(), only_group.as_deref()))).await;
            return match resumed {
                Ok(()) => Ok(Resumed::GoesOn),
                // Another request was first.
                Err(failure) if failure.cause::<AtWork>().is_some() => Ok(Resumed::IsActive),
                Err(failure) => Err(match &staging {
                    Some(staging) => failure.without(staging.path()),
                    None => failure,
                }),
            };
        }
        let folder = folder_of(&home)?.to_owned();
        // Beside what came before, which a former start is known by. Another request may be here at the same moment.
        let own = folder.join(SENT).join(format!("start-{}-{:x}", start + 1, now_us()));
        let code = own.with_extension("code");
        if let Some(came) = came {
            came.move_code(&code)?;
        }
        let what = What::Resume { set, code: came.map(|_| code.clone()), only_group };
        let (order, file) =
            (Order { folder, job_id: id.to_owned(), reach: self.reach(), what }, own.with_extension("json"));
        order.write(&file)?;
        let resumed = kept(held, Box::pin(self.program.run(&file, &order.folder))).await;
        let _ = tree::remove_file(&file);
        if let Err(failure) = resumed {
            if failure.is_usage() && came.is_some() {
                let _ = remove_tree(&code);
            }
            // Another request was first.
            if failure.cause::<AtWork>().is_some() || run_folder::is_locked(&order.folder) {
                return Ok(Resumed::IsActive);
            }
            return Err(failure.without(&code).without(&order.folder));
        }
        Ok(Resumed::GoesOn)
    }

    async fn resume_on(
        &self,
        id: &str,
        set: &[(String, String)],
        code: Option<&Path>,
        only_group: Option<&str>,
    ) -> Result<(), Failure> {
        let changes = Changes {
            name: id,
            set,
            code: Some(CodeChoice::Old),
            sent: code,
            only_group,
            ask: &|_, _| Ok(None),
            whereabouts: &self.whereabouts,
        };
        Box::pin(submit::resume(&changes, true)).await.map(drop)
    }

    /// Goes on with what a server began that is gone; false where nothing is there of the job.
    async fn go_on(&self, id: &str) -> Result<bool, Failure> {
        if self.whereabouts.urls.is_none() {
            let run = self.run(id);
            if !run.exists() {
                return Ok(false);
            }
            self.program.take_up(&run).await?;
            return Ok(true);
        }
        if !self.has_job(id).await? {
            return Ok(false);
        }
        let seen = homes::of_id(id, &self.whereabouts).await?.look().await?;
        if !seen.result.state.is_final() && !homes::active_ids(&self.whereabouts).await?.contains(id) {
            // Its record was stored, and workers do not know of it.
            self.resume_on(id, &[], None, None).await?;
        }
        Ok(true)
    }

    /// Runs a new job of this machine in a program of its own.
    async fn run_here(&self, staging: Staging, id: &str, what: What) -> Result<(), Failure> {
        let run = self.run(id);
        let order = Order { folder: run.clone(), job_id: id.to_owned(), reach: self.reach(), what };
        order.write(&Order::file_in(staging.path()))?;
        if !staging.become_run(&run)? {
            return Err(Failure::wrong(format!("there is a job {id} already: send it again")));
        }
        failpoint::pass("handed_in");
        let taken_up = self.program.take_up(&run).await;
        taken_up.map_err(|failure| failure.without(&code_in(&run)).without(&run))
    }

    /// The id of a new job, which none has.
    fn new_id(&self, name: &str) -> String {
        loop {
            let id = new_id(name);
            if self.whereabouts.urls.is_some() || !self.run(&id).exists() {
                return id;
            }
            std::thread::yield_now();
        }
    }

    /// The folder of a run of this machine.
    fn run(&self, id: &str) -> PathBuf {
        self.whereabouts.runs.join(id)
    }

    fn start<'a>(&'a self, id: &'a str) -> Start<'a> {
        Start { whereabouts: &self.whereabouts, run_dir: None, id: Some(id), is_picked: true, detach: true }
    }
}

fn folder_of(home: &Home) -> Result<&Path, Failure> {
    home.run_folder().context("the job is not on this machine").map_err(Failure::from)
}
