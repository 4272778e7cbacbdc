//! What needs a person, in sentences, each with what to do. Pure functions of the numbers of a job.

use crate::chart::round_up;
use crate::text::times::duration;
use crate::text::{count, counted, cut, percent};

/// Sentences on a page, at most.
pub const MOST: usize = 8;
/// Tries of a node from which its median says something.
const ENOUGH_TRIES: u64 = 20;
/// The list of what runs, below the page of a job.
const RUNNING: &str = "mini-batches?state=running";
/// Letters of an error that are shown.
const LETTERS: usize = 240;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Something is not as it should be.
    Warning,
    /// The job failed, or data is missing, or nothing moves.
    Error,
}

/// A sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attention {
    /// What it is about, for programs.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What is the matter.
    pub text: String,
    /// A command that helps; empty where none does.
    pub command: String,
    /// The part of the page of the job that has more; empty where none has.
    pub part: &'static str,
    /// The page that has more: below that of the job, or from the root on; empty where that is the page of the job itself.
    pub path: String,
    /// When that began, microseconds since the Unix epoch; nothing where it is not known.
    pub since_us: Option<u64>,
}

/// The words of [`Attention::code`] and [`Attention::part`].
const WORDS: [&str; 21] = [
    "failed",
    "init-failing",
    "no-worker",
    "stalled",
    "data-missing",
    "orchestrator-away",
    "server-away",
    "threshold-near",
    "losing-nodes",
    "retry-storm",
    "slow-node",
    "stragglers",
    "fewer-nodes",
    "idle-slots",
    "tiny-mini-batches",
    "note",
    "errors",
    "running",
    "nodes",
    "shares",
    "durations",
];

/// A word of [`Attention::code`] or [`Attention::part`] that was written down; nothing where there is no such word.
pub fn known_word(word: &str) -> Option<&'static str> {
    WORDS.into_iter().find(|known| *known == word)
}

impl Attention {
    /// The address that has more about the job with this id.
    pub fn link(&self, job_id: &str) -> String {
        match (&*self.path, self.part) {
            ("", "") => format!("/jobs/{job_id}"),
            ("", part) => format!("/jobs/{job_id}#{part}"),
            (path, _) if path.starts_with('/') => path.to_owned(),
            (path, _) => format!("/jobs/{job_id}/{path}"),
        }
    }
}

/// A node whose `run()` takes longer than that of the others.
#[derive(Debug, Clone, PartialEq)]
pub struct SlowNode {
    /// Its id in the job.
    pub node_id: u32,
    /// How many times as long as the median of all nodes.
    pub factor: f64,
}

/// Workers of the compute target of a job that no node serves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Workers {
    /// Those with nothing to do, one that is about to serve the job among them.
    pub idle: u64,
    /// Those with other jobs.
    pub busy: u64,
    /// How many serve other targets, by the names of these; some of them.
    pub elsewhere: Vec<(String, u64)>,
}

/// Failures before `run()` could be called.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InitTrouble {
    /// How many.
    pub failures: u64,
    /// The last error, in one line.
    pub error: String,
    /// Whether a process ever became ready.
    pub is_ready: bool,
}

/// The numbers that the sentences are made of. What is not known is zero, empty or nothing, and gives no sentence.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Signals {
    /// What commands call the job.
    pub job: String,
    /// Whether it has ended.
    pub has_ended: bool,
    /// Why it failed, in words; empty where it did not.
    pub failure: String,
    /// The workers that it waits for.
    pub target: String,
    /// Seconds since this start of it.
    pub seconds: f64,
    /// Nodes that serve it, and that it asks for.
    pub nodes: (u64, u64),
    /// Seconds for which they were fewer; nothing where they are not, or nobody knows since when.
    pub fewer_for: Option<f64>,
    /// Who else could serve it; nothing where nobody asked.
    pub workers: Option<Workers>,
    /// How it is decided that it ends, where that is no result; empty where it is not.
    pub ends: String,
    /// Items, and mini-batches, that will be missing from the result.
    pub missing: (u64, u64),
    /// The error that costs most, in one line.
    pub top_error: String,
    /// Failures before `run()`.
    pub init: InitTrouble,
    /// Limits: name, limit, what counts so far. A limit below zero is none.
    pub thresholds: Vec<(String, i64, u64)>,
    /// Seconds since something ended last; nothing where that is not known.
    pub quiet_for: Option<f64>,
    /// What 50 and 99 of 100 runs took at most, seconds; 0 where that is not known.
    pub usual: (f64, f64),
    /// Mini-batches that run longest, with their seconds.
    pub longest: Vec<(u64, f64)>,
    /// Mini-batches with an outcome, and all that are planned.
    pub done: (u64, u64),
    /// The slowest of the nodes that are far slower than the others, and how many these are.
    pub slow: Option<(SlowNode, u64)>,
    /// Nodes that were lost; while the job runs, in the last ten minutes.
    pub nodes_lost: u64,
    /// Tries that failed, and all; while the job runs, in the last five minutes.
    pub tries: (u64, u64),
    /// Whether mini-batches wait, and have for five minutes.
    pub waits: bool,
    /// Part of the time of slots that was idle in the last five minutes, 0 to 1, and what took the most of the rest but
    /// `run()`.
    pub idle: (f64, &'static str),
    /// Seconds since the statistics were written, while the job runs.
    pub stale_for: f64,
    /// Servers that nodes cannot reach.
    pub away: Vec<String>,
    /// Notes of the job file.
    pub notes: Vec<String>,
    /// When what a sentence is about began, microseconds since the Unix epoch, by the code of the sentence.
    pub began: Vec<(&'static str, u64)>,
}

/// Which nodes are far slower than the others: of enough tries, at 1.5 times the median of medians, and beyond what their
/// spread explains. Each with the median of its `run()`, seconds, and its tries; the slowest first.
pub fn slow_nodes(nodes: &[(u32, f64, u64)]) -> Vec<SlowNode> {
    let known: Vec<&(u32, f64, u64)> =
        nodes.iter().filter(|(_, median, tries)| *tries >= ENOUGH_TRIES && *median > 0.0).collect();
    if known.len() < 3 {
        return Vec::new();
    }
    let middle = median(known.iter().map(|(_, median, _)| *median));
    let spread = 1.4826 * median(known.iter().map(|(_, median, _)| (median - middle).abs()));
    let is_slow = |median: f64| median > 1.5 * middle && median > middle + 3.0 * spread;
    let mut slow: Vec<SlowNode> = known
        .into_iter()
        .filter(|(_, median, _)| is_slow(*median))
        .map(|(node_id, median, _)| SlowNode { node_id: *node_id, factor: median / middle })
        .collect();
    slow.sort_by(|one, other| other.factor.total_cmp(&one.factor));
    slow
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// The sentences, the worst first.
pub fn attention(of: &Signals) -> Vec<Attention> {
    let rules: [fn(&Signals) -> Option<Attention>; 16] = [
        failed,
        ends,
        init_failing,
        no_worker,
        stalled,
        data_missing,
        orchestrator_away,
        server_away,
        threshold_near,
        losing_nodes,
        retry_storm,
        slow_node,
        stragglers,
        fewer_nodes,
        idle_slots,
        tiny_mini_batches,
    ];
    let mut all: Vec<Attention> = rules.iter().filter_map(|rule| rule(of)).collect();
    all.extend(of.notes.iter().map(|note| says("note", Severity::Note, cut(note, LETTERS), "", "")));
    all.sort_by_key(|one| std::cmp::Reverse(one.severity));
    all.truncate(MOST);
    for one in &mut all {
        one.since_us = of.began.iter().find(|(code, _)| *code == one.code).map(|(_, us)| *us);
    }
    all
}

fn says(
    code: &'static str,
    severity: Severity,
    text: String,
    command: impl Into<String>,
    part: &'static str,
) -> Attention {
    // What has a page of its own, and what is a part of that of the job.
    let path = if ["errors", "nodes"].contains(&part) { part.to_owned() } else { String::new() };
    Attention { code, severity, text, command: command.into(), part, path, since_us: None }
}

impl Attention {
    fn at(self, path: impl Into<String>) -> Self {
        Self { path: path.into(), ..self }
    }
}

fn ends(of: &Signals) -> Option<Attention> {
    if of.has_ended || of.ends.is_empty() {
        return None;
    }
    let text = format!("It is decided that the job {}", cut(&of.ends, LETTERS));
    Some(says("note", Severity::Warning, text, format!("prs status {}", of.job), ""))
}

fn failed(of: &Signals) -> Option<Attention> {
    if of.failure.is_empty() {
        return None;
    }
    let text = cut(of.failure.trim(), 2 * LETTERS);
    Some(says("failed", Severity::Error, text, format!("prs resume {}", of.job), "errors"))
}

fn init_failing(of: &Signals) -> Option<Attention> {
    let InitTrouble { failures, error, is_ready } = &of.init;
    if *failures == 0 || *is_ready || !of.failure.is_empty() {
        return None;
    }
    let why = if error.is_empty() { String::new() } else { format!(": {}", cut(error, LETTERS)) };
    let text = format!("No process is ready: init() or the import failed {}{why}", times(*failures));
    Some(says("init-failing", Severity::Error, text, format!("prs errors {}", of.job), "errors"))
}

fn no_worker(of: &Signals) -> Option<Attention> {
    if of.has_ended || of.nodes.0 > 0 || of.seconds <= 10.0 || !of.ends.is_empty() {
        return None;
    }
    let (target, command) = (&of.target, format!("prs worker --target {}", of.target));
    let page = format!("/fleet/{target}");
    let long = duration(of.seconds);
    let Some(workers) = &of.workers else {
        let text =
            format!("No node serves the job for {long}; it wants workers of the compute target {target}");
        return Some(says("no-worker", Severity::Warning, text, command, "").at(page));
    };
    match (workers.idle, workers.busy) {
        (0, 0) => {
            let text = format!(
                "No worker serves the compute target {target} for {long}{}",
                elsewhere(&workers.elsewhere)
            );
            Some(says("no-worker", Severity::Error, text, command, "").at(page))
        }
        (0, 1) => {
            let text = format!("The one worker of the compute target {target} is busy with another job");
            Some(says("fewer-nodes", Severity::Warning, text, command, "").at(page))
        }
        (0, busy) => {
            let text = format!(
                "All {} workers of the compute target {target} are busy with other jobs",
                count(busy)
            );
            Some(says("fewer-nodes", Severity::Warning, text, command, "").at(page))
        }
        (idle, _) if of.seconds > 60.0 => {
            let is = if idle == 1 { "is" } else { "are" };
            let text = format!(
                "No node serves the job for {long}, and {} of the compute target {target} {is} idle: see its log",
                counted(idle, "worker")
            );
            Some(says("fewer-nodes", Severity::Warning, text, "prs workers", "").at(page))
        }
        _ => None,
    }
}

/// ` (3 workers serve gpu)`; nothing where there are none.
fn elsewhere(targets: &[(String, u64)]) -> String {
    let serve = |workers: u64| if workers == 1 { "serves" } else { "serve" };
    let of = |(target, workers): &(String, u64)| {
        format!("{} {} {target}", counted(*workers, "worker"), serve(*workers))
    };
    let told: Vec<String> = targets.iter().map(of).collect();
    if told.is_empty() { String::new() } else { format!(" ({})", told.join(", ")) }
}

fn stalled(of: &Signals) -> Option<Attention> {
    let quiet = of.quiet_for.filter(|quiet| *quiet > (5.0 * of.usual.1).max(60.0))?;
    if of.has_ended || of.nodes.0 == 0 {
        return None;
    }
    let oldest = match of.longest.first() {
        Some((index, seconds)) => format!("; mini-batch {index} runs since {}", duration(*seconds)),
        None => String::new(),
    };
    let text = format!("Nothing has ended for {}{oldest}", duration(quiet));
    let said = says("stalled", Severity::Error, text, format!("prs logs {} --follow", of.job), "running");
    let page = of.longest.first().map_or(RUNNING.to_owned(), |(index, _)| format!("mini-batches/{index}"));
    Some(said.at(page))
}

fn data_missing(of: &Signals) -> Option<Attention> {
    let (items, mini_batches) = of.missing;
    if items == 0 && mini_batches == 0 {
        return None;
    }
    let what = if items > 0 { counted(items, "item") } else { counted(mini_batches, "mini-batch") };
    let single = items == 1 || (items == 0 && mini_batches == 1);
    let are = match (of.has_ended, single) {
        (true, true) => "is missing",
        (true, false) => "are missing",
        (false, _) => "will be missing",
    };
    let why =
        if of.top_error.is_empty() { String::new() } else { format!(": {}", cut(&of.top_error, LETTERS)) };
    let text = format!("{what} {are} from the result{why}");
    Some(says("data-missing", Severity::Error, text, format!("prs try {} --failed --pdb", of.job), "errors"))
}

fn orchestrator_away(of: &Signals) -> Option<Attention> {
    if of.has_ended || of.stale_for <= 10.0 {
        return None;
    }
    let text = format!(
        "Nobody has watched over the job for {}; the next node takes over within 3 s, where there is one",
        duration(of.stale_for)
    );
    Some(says("orchestrator-away", Severity::Warning, text, format!("prs status {}", of.job), ""))
}

fn server_away(of: &Signals) -> Option<Attention> {
    if of.has_ended || of.away.is_empty() {
        return None;
    }
    let text = format!("Not reachable for some nodes: {}; what is done is kept", of.away.join(", "));
    Some(says("server-away", Severity::Warning, text, "prs doctor", ""))
}

fn threshold_near(of: &Signals) -> Option<Attention> {
    let is_near = |(_, limit, used): &&(String, i64, u64)| {
        *limit > 0 && *used as f64 > 0.8 * *limit as f64 && *used <= limit.unsigned_abs()
    };
    let (name, limit, used) = of.thresholds.iter().find(is_near).filter(|_| !of.has_ended)?;
    let (used, limit) = (count(*used), count(limit.unsigned_abs()));
    let text = format!("{name} is nearly reached: {used} of {limit}; beyond it the job ends");
    Some(says("threshold-near", Severity::Warning, text, "", "errors"))
}

fn losing_nodes(of: &Signals) -> Option<Attention> {
    if of.nodes_lost <= 3 {
        return None;
    }
    let text = format!(
        "{} were lost: killed for memory, or their hosts or network went; no try of the script was blamed",
        counted(of.nodes_lost, "node")
    );
    Some(says("losing-nodes", Severity::Warning, text, "prs workers", "nodes"))
}

fn retry_storm(of: &Signals) -> Option<Attention> {
    let (failed, all) = of.tries;
    if all < 20 || failed * 5 <= all {
        return None;
    }
    let why = if of.top_error.is_empty() {
        String::new()
    } else {
        format!("; most: {}", cut(&of.top_error, LETTERS))
    };
    let text =
        format!("{} of the tries failed ({} of {}){why}", percent(failed, all), count(failed), count(all));
    Some(says("retry-storm", Severity::Warning, text, format!("prs errors {}", of.job), "errors"))
}

fn slow_node(of: &Signals) -> Option<Attention> {
    let (slowest, all) = of.slow.as_ref()?;
    let others = match all.saturating_sub(1) {
        0 => String::new(),
        more => format!(", and {} more {} slow", count(more), if more == 1 { "is" } else { "are" }),
    };
    let SlowNode { node_id, factor } = slowest;
    let text = format!("node {node_id} is {factor:.1} times slower than the others{others}");
    Some(says("slow-node", Severity::Warning, text, "", "nodes").at(format!("nodes/{node_id}")))
}

fn stragglers(of: &Signals) -> Option<Attention> {
    let (done, all) = of.done;
    let p99 = of.usual.1;
    if of.has_ended || p99 <= 0.0 || done >= all || (done as f64) < 0.95 * all as f64 {
        return None;
    }
    let late = of.longest.iter().filter(|(_, seconds)| *seconds > 3.0 * p99).count() as u64;
    let (_, longest) = of.longest.first().filter(|_| late > 0)?;
    let runs = if late == 1 { "runs" } else { "run" };
    let text = format!(
        "{} {runs} up to {:.0} times as long as 99 % of the others",
        counted(late, "mini-batch"),
        longest / p99
    );
    Some(says("stragglers", Severity::Warning, text, "", "running").at(RUNNING))
}

fn fewer_nodes(of: &Signals) -> Option<Attention> {
    let (live, wanted) = of.nodes;
    let long = of.fewer_for.filter(|long| *long >= 60.0)?;
    if of.has_ended || live == 0 || live >= wanted {
        return None;
    }
    // Whether other workers are busy, or there are none, a look at each page would have to ask.
    let text = format!("{} of {} nodes serve the job for {}", count(live), count(wanted), duration(long));
    Some(says("fewer-nodes", Severity::Note, text, "prs workers", "nodes"))
}

fn idle_slots(of: &Signals) -> Option<Attention> {
    let (idle, cause) = of.idle;
    if of.has_ended || !of.waits || idle <= 0.3 {
        return None;
    }
    let cause =
        if cause.is_empty() { String::new() } else { format!("; after run() most time goes to {cause}") };
    let text = format!(
        "Slots are idle {} of the time while mini-batches wait{cause}",
        percent((idle * 1e3) as u64, 1_000)
    );
    Some(says("idle-slots", Severity::Note, text, "", "shares"))
}

fn tiny_mini_batches(of: &Signals) -> Option<Attention> {
    let (p50, all) = (of.usual.0, of.done.1);
    if p50 <= 0.0 || p50 >= 0.005 || all <= 100_000 {
        return None;
    }
    // A tenth of a second each is long enough for the overhead to vanish.
    let factor = round_up(0.1 / p50);
    let text = format!(
        "Half of the mini-batches take {} or less: a mini_batch_size {} times as large costs less overhead",
        duration(p50),
        count(factor as u64)
    );
    Some(says("tiny-mini-batches", Severity::Note, text, "prs explain mini_batch_size", "durations"))
}

fn times(number: u64) -> String {
    if number == 1 { "once".to_owned() } else { format!("{} times", count(number)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job that runs as it should.
    fn running() -> Signals {
        Signals {
            job: "score-1".into(),
            target: "default".into(),
            seconds: 600.0,
            nodes: (4, 4),
            quiet_for: Some(1.0),
            usual: (0.2, 0.9),
            done: (500, 1_000),
            tries: (0, 500),
            waits: true,
            ..Signals::default()
        }
    }

    fn codes(of: &Signals) -> Vec<&'static str> {
        attention(of).into_iter().map(|one| one.code).collect()
    }

    #[test]
    fn each_rule_speaks_when_it_should_and_at_no_other_time() {
        type Change = fn(&mut Signals);
        let table: [(&str, Change, Change); 20] = [
            ("failed", |of| of.failure = "why".into(), |of| of.failure.clear()),
            ("no-worker", |of| of.nodes = (0, 4), |of| (of.nodes, of.seconds) = ((0, 4), 9.0)),
            (
                "no-worker",
                |of| (of.nodes, of.workers) = ((0, 4), Some(Workers::default())),
                |of| (of.nodes, of.seconds, of.workers) = ((0, 4), 9.0, Some(Workers::default())),
            ),
            (
                "fewer-nodes",
                |of| (of.nodes, of.workers) = ((0, 4), Some(Workers { busy: 2, ..Workers::default() })),
                |of| (of.nodes, of.workers) = ((1, 1), Some(Workers { busy: 2, ..Workers::default() })),
            ),
            (
                "fewer-nodes",
                |of| (of.nodes, of.workers) = ((0, 4), Some(Workers { idle: 1, ..Workers::default() })),
                |of| {
                    of.workers = Some(Workers { idle: 1, busy: 1, ..Workers::default() });
                    (of.nodes, of.seconds) = ((0, 4), 59.0);
                },
            ),
            (
                "fewer-nodes",
                |of| (of.nodes, of.fewer_for) = ((2, 4), Some(61.0)),
                |of| (of.nodes, of.fewer_for) = ((2, 4), Some(59.0)),
            ),
            ("note", |of| of.ends = "ends as failed: no room".into(), |of| of.ends.clear()),
            ("data-missing", |of| of.missing = (20, 4), |of| of.missing = (0, 0)),
            (
                "init-failing",
                |of| of.init.failures = 3,
                |of| (of.init.failures, of.init.is_ready) = (3, true),
            ),
            (
                "threshold-near",
                |of| of.thresholds = vec![("error_threshold".into(), 100, 81)],
                |of| of.thresholds = vec![("a".into(), 100, 80), ("b".into(), -1, 99), ("c".into(), 0, 0)],
            ),
            ("stalled", |of| of.quiet_for = Some(61.0), |of| (of.quiet_for, of.usual.1) = (Some(61.0), 20.0)),
            (
                "stragglers",
                |of| (of.done, of.longest) = ((960, 1_000), vec![(7, 3.0)]),
                |of| (of.done, of.longest) = ((960, 1_000), vec![(7, 2.0)]),
            ),
            (
                "slow-node",
                |of| of.slow = Some((SlowNode { node_id: 17, factor: 3.1 }, 1)),
                |of| of.slow = None,
            ),
            ("losing-nodes", |of| of.nodes_lost = 4, |of| of.nodes_lost = 3),
            ("retry-storm", |of| of.tries = (21, 100), |of| of.tries = (20, 100)),
            (
                "tiny-mini-batches",
                |of| (of.usual.0, of.done) = (0.004, (10, 100_001)),
                |of| (of.usual.0, of.done) = (0.005, (10, 100_001)),
            ),
            (
                "idle-slots",
                |of| of.idle = (0.31, "loading data"),
                |of| (of.idle, of.waits) = ((0.31, ""), false),
            ),
            ("orchestrator-away", |of| of.stale_for = 10.5, |of| of.stale_for = 9.0),
            ("server-away", |of| of.away = vec!["storage".into()], |of| of.away.clear()),
            ("note", |of| of.notes = vec!["a".into()], |of| of.notes.clear()),
        ];
        assert_eq!(codes(&running()), Vec::<&str>::new());
        for (code, speaks, is_silent) in table {
            let mut of = running();
            speaks(&mut of);
            assert_eq!(codes(&of), [code]);
            let mut of = running();
            is_silent(&mut of);
            assert_eq!(codes(&of), Vec::<&str>::new(), "{code}");
        }
    }

    #[test]
    fn a_sentence_leads_to_what_it_is_about() {
        type Change = fn(&mut Signals);
        let table: [(Change, &str); 9] = [
            (|of| of.slow = Some((SlowNode { node_id: 17, factor: 3.1 }, 3)), "/jobs/j/nodes/17"),
            (|of| (of.quiet_for, of.longest) = (Some(70.0), vec![(7, 70.0)]), "/jobs/j/mini-batches/7"),
            (|of| of.quiet_for = Some(70.0), "/jobs/j/mini-batches?state=running"),
            (
                |of| (of.done, of.longest) = ((960, 1_000), vec![(7, 3.0)]),
                "/jobs/j/mini-batches?state=running",
            ),
            (|of| of.missing = (1, 1), "/jobs/j/errors"),
            (|of| of.nodes_lost = 4, "/jobs/j/nodes"),
            (|of| (of.nodes, of.workers) = ((0, 1), Some(Workers::default())), "/fleet/default"),
            (|of| of.idle = (0.5, ""), "/jobs/j#shares"),
            (|of| of.notes = vec!["a".into()], "/jobs/j"),
        ];
        for (change, expected) in table {
            let mut of = running();
            change(&mut of);
            assert_eq!(attention(&of)[0].link("j"), expected);
        }
        let mut of = running();
        let elsewhere = vec![("gpu".to_owned(), 3), ("big".to_owned(), 1)];
        (of.nodes, of.workers) = ((0, 1), Some(Workers { elsewhere, ..Workers::default() }));
        let said = &attention(&of)[0].text;
        assert!(said.ends_with("(3 workers serve gpu, 1 worker serves big)"), "{said}");
    }

    #[test]
    fn a_sentence_says_since_when_it_is_so() {
        let mut of = running();
        (of.missing, of.notes, of.began) =
            ((1, 1), vec!["a".into()], vec![("data-missing", 7), ("stalled", 9)]);
        let since: Vec<_> = attention(&of).into_iter().map(|one| (one.code, one.since_us)).collect();
        assert_eq!(since, [("data-missing", Some(7)), ("note", None)]);
    }

    #[test]
    fn of_a_job_that_has_ended_only_what_remains_is_said() {
        let of = Signals {
            has_ended: true,
            nodes: (0, 4),
            fewer_for: Some(900.0),
            workers: Some(Workers::default()),
            ends: "ends as failed".into(),
            quiet_for: Some(900.0),
            stale_for: 900.0,
            away: vec!["storage".into()],
            thresholds: vec![("error_threshold".into(), 100, 90)],
            longest: vec![(1, 900.0)],
            idle: (0.9, ""),
            missing: (20, 4),
            top_error: "ValueError: no".into(),
            ..running()
        };
        let all = attention(&of);
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].text, "20 items are missing from the result: ValueError: no");
        let one = Signals { missing: (1, 1), top_error: String::new(), ..of.clone() };
        assert_eq!(attention(&one)[0].text, "1 item is missing from the result");
        let unread = Signals { missing: (0, 2), has_ended: false, nodes: (4, 4), ..one };
        assert!(
            attention(&unread).iter().any(|one| one.text == "2 mini-batches will be missing from the result")
        );
    }

    #[test]
    fn the_worst_stands_first_and_there_are_no_more_than_eight() {
        let mut of = running();
        of.notes = (0..9).map(|number| format!("note {number}")).collect();
        (of.missing, of.nodes_lost) = ((1, 1), 9);
        let all = attention(&of);
        assert_eq!(all.len(), MOST);
        assert_eq!(codes(&of)[..3], ["data-missing", "losing-nodes", "note"]);
    }

    #[test]
    fn a_slow_node_is_slow_beyond_the_spread_of_the_others() {
        let nodes = |medians: &[f64], tries: u64| -> Vec<(u32, f64, u64)> {
            medians.iter().enumerate().map(|(at, median)| (at as u32, *median, tries)).collect()
        };
        for (medians, tries, expected) in [
            (&[0.2, 0.21, 0.19, 0.62][..], 20, &[3][..]),
            (&[0.2, 0.21, 0.19, 0.62], 19, &[]),
            (&[0.2, 0.21, 0.19, 0.29], 20, &[]),
            // Beyond 1.5 times the median, but the others differ as much.
            (&[0.1, 0.2, 0.3, 0.4, 0.5], 20, &[]),
            (&[0.2, 0.9], 20, &[]),
            (&[1.0, 1.0, 1.0, 4.0, 9.0], 20, &[4, 3]),
            (&[], 20, &[]),
        ] {
            let slow: Vec<_> =
                slow_nodes(&nodes(medians, tries)).into_iter().map(|slow| slow.node_id).collect();
            assert_eq!(slow, expected, "{medians:?}");
        }
    }
}
