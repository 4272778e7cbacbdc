//! The numbers that sentences of attention are made of, from what is known of a job.

use prs_common::ledger::JobState;
use prs_common::statistics::{Bucket, Histogram, Live, NodeState, Nodes, Signs, SlowOn};

use super::pictures::bands;
use super::{Facts, nodes};
use crate::attention::{InitTrouble, Signals, SlowNode};
use crate::chart::BANDS;

/// A node that was heard of longer ago was not lost lately, microseconds.
const LATELY: u64 = 600_000_000;
/// What lasts shorter is no matter of slots that are idle, microseconds.
const IDLE_LONG: u64 = 300_000_000;

/// What needs a person, as the tries and the nodes of the job tell it.
pub fn signs(run: &Histogram, nodes: &Nodes, has_ended: bool, now_us: u64) -> Signs {
    let slow = nodes::slow(nodes);
    let lost = nodes.rows.iter().filter(|row| {
        row.state == NodeState::Lost && (has_ended || now_us.saturating_sub(row.heard_us) <= LATELY)
    });
    let slowest = slow.first().map(|one| SlowOn {
        node_id: one.node_id,
        factor: one.factor,
        // It is slow by the median of all of its tries.
        since_us: nodes.rows.iter().find(|row| row.node_id == one.node_id).map_or(0, |row| row.first_us),
    });
    Signs {
        is_known: true,
        run_p50_us: run.quantile_us(0.5).unwrap_or_default(),
        run_p99_us: run.quantile_us(0.99).unwrap_or_default(),
        slow_nodes: slow.len() as u64,
        slowest,
        lost_nodes: lost.clone().map(|row| row.of.max(1)).sum(),
        lost_us: lost.map(|row| row.heard_us).min().unwrap_or_default(),
    }
}

/// The same of a job whose orchestrator was an older prs, from what that published.
fn signs_of(facts: &Facts) -> Signs {
    let published = &facts.statistics;
    match &published.live {
        Some(live) if live.signs.is_known => live.signs.clone(),
        _ => {
            let (none, nobody) = (Histogram::default(), Nodes::default());
            let run = published.summary.as_ref().map_or(&none, |summary| &summary.run);
            let nodes = published.nodes.as_ref().unwrap_or(&nobody);
            signs(run, nodes, facts.state.is_final(), facts.now_us)
        }
    }
}

/// The numbers of the job. They are the same wherever it is looked at: what only some readers read is in none of them.
pub fn signals(facts: &Facts) -> Signals {
    let published = &facts.statistics;
    let has_ended = facts.state.is_final();
    // What an earlier start said is not of this one.
    let live = published.live.as_ref().filter(|live| has_ended || live.started_us >= facts.started_us);
    let signs = signs_of(facts);
    let since = |us: u64| facts.now_us.saturating_sub(us) as f64 / 1e6;
    let began = began(facts, &signs);
    let began_at = |code: &str| began.iter().find(|(of, _)| *of == code).map(|(_, us)| *us);
    let (scheduled, succeeded, failed) = facts.mini_batches;
    let wanted = u64::from(facts.spec.node_count);
    let nodes = match (&facts.fleet, live) {
        (Some(fleet), _) => (fleet.nodes, live.map_or(wanted, |live| live.nodes_wanted)),
        (None, Some(live)) => (live.nodes, live.nodes_wanted),
        (None, None) => (1, 1),
    };
    let is_waiting =
        |live: &Live| live.waiting > 0 && facts.now_us.saturating_sub(live.started_us) >= IDLE_LONG;
    let told = live.and_then(|live| live.top_errors.first()).filter(|_| !has_ended);
    let listed = facts.errors.first().map(|error| headline(&error.category, &error.message));
    let told = told.map(|error| headline(&error.category, &error.message));
    Signals {
        job: facts.called.clone(),
        has_ended,
        failure: facts.reason.clone().filter(|_| facts.state == JobState::Failed).unwrap_or_default(),
        target: facts.spec.compute_target.clone(),
        seconds: if has_ended { facts.seconds } else { since(facts.started_us) },
        nodes,
        fewer_for: began_at("fewer-nodes").map(since),
        workers: facts.fleet.as_ref().and_then(|fleet| fleet.workers.clone()),
        ends: facts.ends.clone(),
        missing: (facts.items.2, facts.mini_batches_missing.max(failed)),
        top_error: told.or(listed).unwrap_or_else(|| facts.seen_error.clone()),
        init: live.map_or_else(InitTrouble::default, |live| InitTrouble {
            failures: live.init.failures,
            error: live.init.error.clone(),
            is_ready: live.init.is_ready || live.tries > 0,
        }),
        thresholds: live.map_or_else(Vec::new, |live| {
            live.thresholds.iter().map(|one| (one.name.clone(), one.limit, one.used)).collect()
        }),
        quiet_for: live.filter(|live| live.last_outcome_us > 0).map(|live| since(live.last_outcome_us)),
        usual: (signs.run_p50_us as f64 / 1e6, signs.run_p99_us as f64 / 1e6),
        longest: live.map_or_else(Vec::new, |live| {
            live.running.iter().map(|row| (row.index, since(row.since_us))).collect()
        }),
        done: (succeeded + failed, scheduled),
        slow: signs
            .slowest
            .map(|one| (SlowNode { node_id: one.node_id, factor: one.factor }, signs.slow_nodes)),
        nodes_lost: signs.lost_nodes,
        tries: live.map_or((0, 0), |live| tries(live, has_ended)),
        waits: live.is_some_and(is_waiting),
        idle: live.map_or((0.0, ""), idle),
        // Of what was never published nothing is late.
        stale_for: live.filter(|_| !has_ended).map_or(0.0, |live| since(live.written_us)),
        away: facts.fleet.iter().flat_map(|fleet| &fleet.away).map(|(server, _)| server.clone()).collect(),
        notes: notes(facts),
        began,
    }
}

/// Notes of the job file, and that columns of its inputs have other types here than there.
fn notes(facts: &Facts) -> Vec<String> {
    let mut notes = facts.spec.notes.clone();
    if let [first, rest @ ..] = &*facts.types_differ {
        let more = rest.len();
        let more = if more == 0 { String::new() } else { format!(" ({more} more in job_result.txt)") };
        notes.push(format!("{first}{more}"));
    }
    notes
}

/// When what sentences are about began, microseconds since the Unix epoch, as far as that is known; what the timeline tells begins with a
/// bucket of it.
fn began(facts: &Facts, signs: &Signs) -> Vec<(&'static str, u64)> {
    // Half of all runs are short from the first one on.
    let mut began = vec![
        ("note", facts.submitted_us),
        ("no-worker", facts.started_us),
        ("tiny-mini-batches", facts.started_us),
    ];
    began.extend(facts.ended_us.map(|us| ("failed", us)));
    began.extend(signs.slowest.iter().map(|one| ("slow-node", one.since_us)));
    began.push(("losing-nodes", signs.lost_us));
    let away = facts.fleet.as_ref().and_then(|fleet| fleet.away.as_ref()?.1);
    began.extend(away.map(|us| ("server-away", us)));
    let Some(live) = &facts.statistics.live else { return began };
    // The limit that the sentence names.
    let near =
        live.thresholds.iter().find(|limit| limit.is_near() && limit.used <= limit.limit.unsigned_abs());
    began.extend(near.map(|limit| ("threshold-near", limit.near_us)));
    began.extend([("orchestrator-away", live.written_us), ("stalled", live.last_outcome_us)]);
    began.extend(live.running.first().map(|one| ("stragglers", one.since_us)));
    let (timeline, wanted) = (&live.timeline, live.nodes_wanted);
    let first = |is_so: fn(&Bucket) -> bool| timeline.buckets().iter().position(is_so);
    // From where on it has been so in every bucket up to the last.
    let lately = |is_so: &dyn Fn(&Bucket) -> bool| {
        let buckets = timeline.buckets();
        let before = buckets.iter().rposition(|bucket| !is_so(bucket)).map_or(0, |at| at + 1);
        (before < buckets.len()).then_some(before)
    };
    let of_timeline = [
        // No process is ready since there are nodes.
        ("init-failing", first(|bucket| bucket.looks > 0 && bucket.nodes > 0)),
        ("data-missing", first(|bucket| bucket.failed > 0)),
        ("retry-storm", lately(&|bucket| bucket.failed_tries > 0)),
        ("fewer-nodes", lately(&|bucket| bucket.looks == 0 || bucket.nodes < wanted)),
        ("idle-slots", lately(&|bucket| bucket.waiting > 0 && bucket.idle_us() * 10 > bucket.slots_us * 3)),
    ];
    began.extend(of_timeline.into_iter().filter_map(|(code, at)| Some((code, timeline.start_us(at?)))));
    began.retain(|(_, us)| *us > 0);
    began
}

/// An error in one line.
pub(crate) fn headline(category: &str, message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    let line = if first.is_empty() { category.to_owned() } else { format!("{category}: {first}") };
    crate::text::runs(&line).into_iter().map(|run| run.text).collect()
}

/// The buckets of the last five minutes.
fn recent(live: &Live) -> &[Bucket] {
    let buckets = live.timeline.buckets();
    let most = (300 / live.timeline.step_s().max(1)).max(1) as usize;
    &buckets[buckets.len().saturating_sub(most)..]
}

/// Tries that failed, and all: of the last five minutes, or of the whole job that has ended.
fn tries(live: &Live, has_ended: bool) -> (u64, u64) {
    if has_ended {
        return (live.failed_tries, live.tries);
    }
    let sum = |of: fn(&Bucket) -> u64| recent(live).iter().map(of).sum::<u64>();
    let failed = sum(|bucket| bucket.failed_tries);
    (failed, failed + sum(|bucket| bucket.succeeded))
}

/// Which part of the last five minutes slots were idle, and what took most of the rest but `run()`.
fn idle(live: &Live) -> (f64, &'static str) {
    let mut sums = [0_u64; 6];
    for bucket in recent(live) {
        for (sum, more) in sums.iter_mut().zip(bands(bucket)) {
            *sum += more;
        }
    }
    let total: u64 = sums.iter().sum();
    if total == 0 {
        return (0.0, "");
    }
    let largest = (2..5).max_by_key(|band| sums[*band]).filter(|band| sums[*band] > 0);
    (sums[5] as f64 / total as f64, largest.map_or("", |band| BANDS[band].1))
}

#[cfg(test)]
mod tests {
    use prs_common::statistics::{NodeRow, Threshold};

    use super::*;
    use crate::attention::Workers;
    use crate::view::FleetFact;
    use crate::view::tests::{NOON, facts};

    fn since(facts: &Facts, code: &str) -> Option<u64> {
        began(facts, &signs_of(facts)).into_iter().find(|(of, _)| *of == code).map(|(_, us)| us)
    }

    #[test]
    fn what_a_sentence_is_about_began_as_far_as_that_is_known() {
        let mut facts = facts("score");
        let codes = ["init-failing", "threshold-near", "slow-node"];
        assert!(codes.iter().all(|code| since(&facts, code).is_none()));
        assert_eq!(since(&facts, "tiny-mini-batches"), Some(NOON));
        let row = |node_id, median_us, first_us| NodeRow {
            node_id,
            median_us,
            first_us,
            tries: 20,
            of: 1,
            ..NodeRow::default()
        };
        let rows = vec![row(0, 10, 1), row(1, 10, 2), row(2, 11, 3), row(3, 90, NOON + 7)];
        facts.statistics.nodes = Some(Nodes { rows, written_us: 0 });
        let mut live = Live { timeline: prs_common::statistics::Timeline::new(NOON), ..Live::default() };
        *live.timeline.at(NOON) = Bucket { looks: 1, ..Bucket::default() };
        *live.timeline.at(NOON + 2_000_000) = Bucket { looks: 1, nodes: 1, ..Bucket::default() };
        let limit = |used, near_us| Threshold { name: "error_threshold".into(), limit: 10, used, near_us };
        live.thresholds = vec![limit(8, 0), limit(9, NOON + 9)];
        facts.statistics.live = Some(live);
        assert_eq!(codes.map(|code| since(&facts, code)), [NOON + 2_000_000, NOON + 9, NOON + 7].map(Some));
        // An older prs noted no time of limits.
        facts.statistics.live.as_mut().unwrap().thresholds = vec![limit(9, 0)];
        assert_eq!(since(&facts, "threshold-near"), None);
    }

    fn codes(facts: &Facts) -> Vec<&'static str> {
        crate::attention::attention(&signals(facts)).into_iter().map(|said| said.code).collect()
    }

    /// A job that runs for two minutes, of which the orchestrator said nothing yet.
    fn young() -> Facts {
        let mut facts = facts("score");
        (facts.state, facts.ended_us, facts.complete) = (JobState::Queued, None, false);
        facts.mini_batches = (0, 0, 0);
        facts.items = (0, 0, 0);
        facts.now_us = NOON + 120_000_000;
        facts
    }

    #[test]
    fn columns_of_several_types_are_one_note() {
        let mut facts = young();
        facts.types_differ = vec!["sales: column \"qty\" differs".to_owned(), "another".to_owned()];
        let said = crate::attention::attention(&signals(&facts));
        assert_eq!(said.len(), 1);
        assert_eq!(said[0].text, "sales: column \"qty\" differs (1 more in job_result.txt)");
    }

    #[test]
    fn what_the_ledger_knows_is_said_without_any_statistics() {
        let mut facts = young();
        assert_eq!(codes(&facts), [""; 0], "a job of this machine");
        let fleet = |nodes, workers| Some(FleetFact { nodes, workers, away: None });
        facts.fleet = fleet(0, Some(Workers::default()));
        assert_eq!(codes(&facts), ["no-worker"]);
        facts.fleet = fleet(0, Some(Workers { busy: 3, ..Workers::default() }));
        assert_eq!(codes(&facts), ["fewer-nodes"]);
        facts.fleet = fleet(1, None);
        assert_eq!(codes(&facts), [""; 0]);
        facts.fleet = fleet(0, Some(Workers::default()));
        facts.now_us = NOON + 9_000_000;
        assert_eq!(codes(&facts), [""; 0], "it is too young");
        facts.fleet =
            Some(FleetFact { nodes: 1, away: Some(("Redis".to_owned(), Some(NOON + 7))), workers: None });
        assert_eq!(codes(&facts), ["server-away"]);
        assert_eq!(
            signals(&facts).began.iter().find(|(code, _)| *code == "server-away"),
            Some(&("server-away", NOON + 7))
        );
    }

    #[test]
    fn what_has_lasted_for_a_moment_only_is_not_said() {
        let second = 1_000_000;
        let look = |nodes, idle| Bucket {
            looks: 1,
            nodes,
            waiting: 9,
            slots_us: 4 * second,
            busy_us: if idle { second } else { 4 * second },
            ..Bucket::default()
        };
        let of = |seconds: u64, fewer_since: u64, idle: bool| {
            let mut facts = young();
            facts.now_us = NOON + seconds * second;
            facts.spec.node_count = 4;
            let mut live = Live {
                started_us: NOON,
                written_us: facts.now_us,
                last_outcome_us: facts.now_us,
                nodes: 4,
                nodes_wanted: 4,
                waiting: 9,
                timeline: prs_common::statistics::Timeline::new(NOON),
                ..Live::default()
            };
            for at in 0..seconds {
                let nodes = if at >= fewer_since { 2 } else { 4 };
                *live.timeline.at(NOON + at * second) = look(nodes, idle);
                live.nodes = nodes;
            }
            facts.statistics.live = Some(live);
            codes(&facts)
        };
        assert_eq!(of(200, 100, false), ["fewer-nodes"]);
        assert_eq!(of(200, 150, false), [""; 0], "for 50 s");
        assert_eq!(of(200, 500, true), [""; 0], "the job is young");
        assert_eq!(of(310, 500, true), ["idle-slots"]);
    }

    #[test]
    fn nodes_that_were_lost_long_ago_are_told_at_the_end_alone() {
        let row =
            |node_id, state, heard_us| NodeRow { node_id, state, heard_us, of: 1, ..NodeRow::default() };
        let rows = vec![
            row(0, NodeState::Lost, NOON),
            row(1, NodeState::Lost, NOON + 700_000_000),
            row(2, NodeState::Left, NOON + 700_000_000),
        ];
        let nodes = Nodes { rows, written_us: 0 };
        let of = |has_ended| signs(&Histogram::default(), &nodes, has_ended, NOON + 800_000_000);
        assert_eq!((of(false).lost_nodes, of(false).lost_us), (1, NOON + 700_000_000));
        assert_eq!((of(true).lost_nodes, of(true).lost_us), (2, NOON));
    }
}
