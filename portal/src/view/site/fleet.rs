//! The fleet: are there enough workers, what waits and since when, who is sick, who is busy with what. And one target, and one
//! worker.

use askama::Template;

use super::simple::rendered;
use super::{Chrome, ServerRow};
use crate::chart::{Figure, Workers};
use crate::text::times::{duration, utc};
use crate::text::{bytes, count, counted};
use crate::view::header::Chip;

/// A compute target.
#[derive(Debug, Clone, Default)]
pub struct TargetRow {
    /// Its name.
    pub target: String,
    /// Nodes that its jobs can use now.
    pub wanted: u64,
    /// Nodes that serve its jobs.
    pub live: u64,
    /// Workers without a job.
    pub idle: u64,
    /// Workers that are missing.
    pub needed: u64,
    /// Mini-batches that wait.
    pub waiting: u64,
    /// Jobs that have not ended.
    pub jobs: u64,
    /// Of these, jobs that nobody watches over.
    pub unwatched: u64,
    /// How long the job that waits longest for a node has been waiting, seconds; 0 where none does.
    pub oldest_wait_seconds: f64,
    /// How long ago an autoscaler asked for its figures, seconds; nothing where none did.
    pub asked_seconds: Option<f64>,
    /// Versions of prs that its workers have, with how many have each.
    pub versions: Vec<(String, u64)>,
}

impl TargetRow {
    fn waits(&self) -> String {
        if self.oldest_wait_seconds > 0.0 { duration(self.oldest_wait_seconds) } else { String::new() }
    }

    fn has_versions(&self) -> String {
        let each = self.versions.iter().map(|(version, workers)| format!("{version} ({workers})"));
        each.collect::<Vec<_>>().join(", ")
    }

    /// What needs a person; empty where nothing does.
    fn says(&self) -> String {
        if self.wanted > 0 && self.live + self.idle == 0 {
            let asked =
                self.asked_seconds.map(|ago| format!(" An autoscaler last asked {} ago.", duration(ago)));
            let asked = asked.unwrap_or_default();
            return format!("No worker.{asked} Start one: prs worker --target {}", self.target);
        }
        if self.unwatched > 0 && self.live > 0 {
            let jobs = counted(self.unwatched, "job");
            return format!("Nobody watches over {jobs}: see the logs of the workers");
        }
        if self.needed > 0 {
            return format!("{} more could work", counted(self.needed, "worker"));
        }
        String::new()
    }
}

/// A worker.
#[derive(Debug, Clone, Default)]
pub struct WorkerRow {
    /// Its name.
    pub worker: String,
    /// What it is at: `idle`, `serving`, `draining` or `silent`.
    pub state: &'static str,
    /// Its host, and the address of that.
    pub host: String,
    /// Address of the host.
    pub ip: String,
    /// Its targets, or that of its job.
    pub targets: String,
    /// Processes that have a mini-batch under way, and those it runs or may run.
    pub slots: (u32, u32),
    /// GPUs.
    pub gpus: u32,
    /// The interpreter.
    pub python: String,
    /// The job that it serves; empty where it is idle.
    pub job: String,
    /// Which node of that it is.
    pub node_id: Option<u32>,
    /// Why it was asked to leave; empty where nobody did.
    pub drain_reason: String,
    /// Version of prs.
    pub version: String,
    /// Bytes of memory that it has, with all that it started; nothing where it is idle.
    pub memory: Option<u64>,
    /// CPU time, percent of one core, and the mean of its GPUs, percent; the same.
    pub load: (Option<u32>, Option<u32>),
    /// The servers that do not answer it.
    pub unavailable: String,
    /// Since when it serves its job, or runs; empty where that is not known.
    pub since: String,
    /// How long ago it was heard of, seconds.
    pub seen_seconds: f64,
}

impl WorkerRow {
    fn chip(&self) -> Chip {
        let (family, word) = match self.state {
            "serving" => ("active", "serving"),
            "draining" => ("warn", "draining"),
            "silent" => ("bad", "silent"),
            _ => ("neutral", "idle"),
        };
        Chip { family, word }
    }

    fn seen(&self) -> String {
        format!("{} ago", duration(self.seen_seconds))
    }

    fn has_memory(&self) -> String {
        self.memory.map(bytes).unwrap_or_default()
    }

    /// Since when, for people and for programs.
    fn began(&self) -> Option<(String, String)> {
        let (to_minutes, to_seconds) = (self.since.get(5..16)?, self.since.get(..19)?);
        Some((format!("{} UTC", to_minutes.replace('T', " ")), format!("{to_seconds}Z")))
    }

    fn has_slots(&self) -> String {
        if self.job.is_empty() {
            self.slots.1.to_string()
        } else {
            format!("{}/{}", self.slots.0, self.slots.1)
        }
    }
}

/// A link of a filter, with how many workers it shows.
#[derive(Debug, Clone, Default)]
pub struct WorkerFilter {
    /// The word.
    pub name: String,
    /// How many workers.
    pub count: u64,
    /// The address.
    pub link: String,
    /// Whether it is in use.
    pub is_shown: bool,
}

/// Workers of a page, as all pages list them.
#[derive(Debug, Clone, Default)]
pub struct WorkerList {
    /// Those of this page.
    pub rows: Vec<WorkerRow>,
    /// How many fit the filters.
    pub total: u64,
    /// By state.
    pub filters: Vec<WorkerFilter>,
    /// What is searched for.
    pub query: String,
    /// The target whose workers are shown; empty for all.
    pub target: String,
    /// The state that is shown; empty for all.
    pub state: String,
    /// The address of the first page, and of the next one; empty where it is this one, or there is none.
    pub pages: (String, String),
}

impl WorkerList {
    fn shown(&self) -> String {
        let all = counted(self.total, "worker");
        let here = self.rows.len() as u64;
        if here < self.total { format!("{} of {all}", count(here)) } else { all }
    }

    /// The figure of all workers by state; empty where there are none.
    fn picture(&self) -> String {
        let by_state: Vec<(&str, u64)> =
            self.filters.iter().map(|filter| (filter.name.as_str(), filter.count)).collect();
        Workers::figure(&by_state).map(|figure| rendered(&figure)).unwrap_or_default()
    }
}

/// The fleet as a page, or one target of it.
#[derive(Debug, Template)]
#[template(path = "site/fleet.html", blocks = ["rows"])]
pub struct FleetPage<'a> {
    /// What stands around it.
    pub chrome: &'a Chrome,
    /// The target that the page is about; empty where it is about all.
    pub target: &'a str,
    /// The servers behind this one; none on the page of a target.
    pub servers: Vec<ServerRow>,
    /// The targets, by name.
    pub targets: Vec<TargetRow>,
    /// What targets wanted and had over the last day; those of the page.
    pub history: Vec<Figure>,
    /// How many targets have no picture here.
    pub history_left_out: u64,
    /// The workers.
    pub workers: WorkerList,
    /// Whether who looks may ask workers to leave.
    pub may_drain: bool,
    /// The address of what is kept new.
    pub rows_address: String,
    /// When they were seen, microseconds since the Unix epoch.
    pub at_us: u64,
}

impl FleetPage<'_> {
    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }

    /// What is kept new alone.
    pub fn rows_html(&self) -> String {
        rendered(&self.as_rows())
    }

    fn as_of(&self) -> (String, String) {
        utc(self.at_us)
    }

    /// Where the filters lead.
    fn address(&self) -> String {
        if self.target.is_empty() { "/fleet".to_owned() } else { format!("/fleet/{}", self.target) }
    }
}

/// A worker as a page.
#[derive(Debug, Template)]
#[template(path = "site/worker.html")]
pub struct WorkerPage<'a> {
    /// What stands around it.
    pub chrome: &'a Chrome,
    /// The worker.
    pub worker: WorkerRow,
    /// Whether who looks may ask it to leave.
    pub may_drain: bool,
    /// When it was seen, microseconds since the Unix epoch.
    pub at_us: u64,
}

impl WorkerPage<'_> {
    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }

    fn as_of(&self) -> (String, String) {
        utc(self.at_us)
    }

    /// What is known of it: names and texts.
    fn facts(&self) -> Vec<(&'static str, String)> {
        let of = &self.worker;
        let or_none = |text: &str| if text.is_empty() { "none".to_owned() } else { text.to_owned() };
        vec![
            ("Host", format!("{} ({})", of.host, of.ip)),
            ("Target", of.targets.clone()),
            ("Slots", of.has_slots()),
            ("GPUs", of.gpus.to_string()),
            ("Python", or_none(&of.python)),
            ("Version", of.version.clone()),
            ("Since", of.began().map(|(text, _)| text).unwrap_or_default()),
            ("Memory", of.has_memory()),
            ("CPU", of.load.0.map(|percent| format!("{percent} % of one core")).unwrap_or_default()),
            ("GPUs are busy", of.load.1.map(|percent| format!("{percent} %")).unwrap_or_default()),
            ("Does not reach", of.unavailable.clone()),
            ("Last seen", of.seen()),
        ]
        .into_iter()
        .filter(|(_, text)| !text.is_empty())
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_says_what_it_lacks() {
        let target = TargetRow { target: "gpu".to_owned(), wanted: 4, needed: 4, ..TargetRow::default() };
        assert_eq!(target.says(), "No worker. Start one: prs worker --target gpu");
        let asked = TargetRow { asked_seconds: Some(4.0), ..target.clone() };
        assert_eq!(
            asked.says(),
            "No worker. An autoscaler last asked 4\u{202f}s ago. Start one: prs worker --target gpu"
        );
        let some = TargetRow { live: 3, needed: 1, ..target.clone() };
        assert_eq!(some.says(), "1 worker more could work");
        assert!(TargetRow { live: 3, unwatched: 2, ..target.clone() }.says().contains("over 2 jobs"));
        assert_eq!(TargetRow { live: 4, needed: 0, ..target }.says(), "");
    }

    fn page(chrome: &Chrome, rows: Vec<WorkerRow>, total: u64) -> FleetPage<'_> {
        let of = |name: &str, count| WorkerFilter { name: name.to_owned(), count, ..WorkerFilter::default() };
        let filters = vec![of("all", total), of("serving", total - 1), of("silent", 1)];
        FleetPage {
            chrome,
            target: "",
            servers: vec![ServerRow {
                dependency: "ledger",
                latency_seconds: Some(0.004),
                is_reachable: true,
                ..ServerRow::default()
            }],
            targets: vec!["default", "gpu"]
                .into_iter()
                .map(|name| TargetRow { target: name.to_owned(), ..TargetRow::default() })
                .collect(),
            history: Vec::new(),
            history_left_out: 0,
            workers: WorkerList { rows, total, filters, ..WorkerList::default() },
            may_drain: true,
            rows_address: "/fleet?part=rows".to_owned(),
            at_us: 0,
        }
    }

    #[test]
    fn names_are_no_markup() {
        let chrome = Chrome::default();
        let worker = WorkerRow {
            worker: "<b>w</b>".to_owned(),
            job: "a\"b".to_owned(),
            drain_reason: "<i>".to_owned(),
            ..WorkerRow::default()
        };
        let html = page(&chrome, vec![worker.clone()], 7).html();
        assert!(!html.contains("<b>w") && !html.contains("a\"b"), "{html}");
        assert!(html.contains("1 of 7 workers"), "{html}");
        let html = WorkerPage { chrome: &chrome, worker, may_drain: true, at_us: 0 }.html();
        assert!(!html.contains("<b>w") && !html.contains("a\"b") && !html.contains("<i>"), "{html}");
    }

    /// 500 workers: 50 of them on a page of 50 KB at most.
    #[test]
    fn the_page_of_a_large_fleet_stays_small() {
        let chrome = Chrome::default();
        let row = |at: usize| WorkerRow {
            worker: format!("node-{at:03}-4711-1f2e3d4c"),
            state: "serving",
            host: format!("node-{at:03}.example.org"),
            ip: "192.0.2.7".to_owned(),
            targets: "default".to_owned(),
            slots: (8, 8),
            job: "score-20261121-120000-1a2b".to_owned(),
            version: "0.2.0".to_owned(),
            memory: Some(3_100_000_000),
            since: "2026-11-21T12:00:00.000000Z".to_owned(),
            unavailable: if at == 0 { "storage" } else { "" }.to_owned(),
            ..WorkerRow::default()
        };
        let mut page = page(&chrome, (0..50).map(row).collect(), 500);
        let steps: Vec<_> = (0..288)
            .map(|at| {
                let (wanted, live, idle) = (at * 7 % 13, at % 5, at % 3);
                Some(crate::chart::WantedStep { wanted, live, idle, waiting: at })
            })
            .collect();
        page.history.extend(crate::chart::Wanted::figure("wanted", "default", 0, 300, &steps));
        let html = page.html();
        assert!(html.len() <= 50 << 10, "{}", html.len());
        for part in
            ["<td class=\"n\">3.1\u{202f}GB", "<time datetime=\"2026-11-21T12:00:00Z\">", "without storage"]
        {
            assert!(html.contains(part), "{part}");
        }
        assert!(html.contains("500 workers: 499 serving, 1 silent"));
        assert!(
            html.contains("ledger</a> ok 4\u{202f}ms") && html.contains("<option value=\"gpu\">"),
            "{html}"
        );
    }
}
