//! The numbers that sentences of attention are made of, from what is known of a job.

use prs_common::ledger::JobState;
use prs_common::statistics::{Bucket, Live, NodeState, Nodes};

use super::pictures::bands;
use super::{Facts, nodes};
use crate::attention::{InitTrouble, Signals};
use crate::chart::BANDS;

/// The numbers of the job.
pub fn signals(facts: &Facts) -> Signals {
    let published = &facts.statistics;
    let has_ended = facts.state.is_final();
    let live = published.live.as_ref();
    let usual = published.summary.as_ref().map_or((0.0, 0.0), |summary| {
        let share = |share: f64| summary.run.quantile_us(share).map_or(0.0, |us| us as f64 / 1e6);
        (share(0.5), share(0.99))
    });
    let lost = published.nodes.as_ref().map_or(0, |nodes| {
        nodes.rows.iter().filter(|row| row.state == NodeState::Lost).map(|row| row.of.max(1)).sum()
    });
    let since = |us: u64| facts.now_us.saturating_sub(us) as f64 / 1e6;
    let (scheduled, succeeded, failed) = facts.mini_batches;
    Signals {
        job: facts.called.clone(),
        has_ended,
        failure: facts.reason.clone().filter(|_| facts.state == JobState::Failed).unwrap_or_default(),
        target: facts.spec.compute_target.clone(),
        seconds: facts.seconds,
        nodes: live.map_or((1, 1), |live| (live.nodes, live.nodes_wanted)),
        // Of how long they were fewer only the present is known: a job that began long ago has had the time.
        fewer_for: facts.seconds,
        missing: (facts.items.2, facts.mini_batches_missing.max(failed)),
        top_error: facts
            .errors
            .first()
            .map(|error| headline(&error.category, &error.message))
            .unwrap_or_default(),
        init: live.map_or_else(InitTrouble::default, |live| InitTrouble {
            failures: live.init.failures,
            error: live.init.error.clone(),
            is_ready: live.init.is_ready || live.tries > 0,
        }),
        thresholds: live.map_or_else(Vec::new, |live| {
            live.thresholds.iter().map(|one| (one.name.clone(), one.limit, one.used)).collect()
        }),
        quiet_for: live.filter(|live| live.last_outcome_us > 0).map(|live| since(live.last_outcome_us)),
        usual,
        longest: live.map_or_else(Vec::new, |live| {
            live.running.iter().map(|row| (row.index, since(row.since_us))).collect()
        }),
        done: (succeeded + failed, scheduled),
        slow: published.nodes.as_ref().map(nodes::slow).unwrap_or_default(),
        nodes_lost: lost,
        tries: live.map_or((0, 0), |live| tries(live, has_ended)),
        waits: live.is_some_and(|live| live.waiting > 0),
        idle: live.map_or((0.0, ""), idle),
        stale_for: live.map_or(0.0, |live| since(live.written_us)),
        away: Vec::new(),
        notes: facts.spec.notes.clone(),
        began: began(facts),
    }
}

/// When what sentences are about began, microseconds since the Unix epoch, as far as that is known; what the timeline tells begins with a
/// bucket of it.
fn began(facts: &Facts) -> Vec<(&'static str, u64)> {
    // Half of all runs are short from the first one on.
    let mut began = vec![
        ("note", facts.submitted_us),
        ("no-worker", facts.started_us),
        ("tiny-mini-batches", facts.started_us),
    ];
    began.extend(facts.ended_us.map(|us| ("failed", us)));
    began.extend(facts.statistics.nodes.as_ref().and_then(slowest_since).map(|us| ("slow-node", us)));
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
        ("losing-nodes", first(|bucket| bucket.node_losses > 0)),
        ("retry-storm", lately(&|bucket| bucket.failed_tries > 0)),
        ("fewer-nodes", lately(&|bucket| bucket.looks > 0 && bucket.nodes < wanted)),
        ("idle-slots", lately(&|bucket| bucket.waiting > 0 && bucket.idle_us() * 10 > bucket.slots_us * 3)),
    ];
    began.extend(of_timeline.into_iter().filter_map(|(code, at)| Some((code, timeline.start_us(at?)))));
    began.retain(|(_, us)| *us > 0);
    began
}

/// When the slowest node began its first try: it is slow by the median of all of them.
fn slowest_since(of: &Nodes) -> Option<u64> {
    let slowest = nodes::slow(of).into_iter().next()?;
    let row = of.rows.iter().find(|row| nodes::name(row) == slowest.name)?;
    Some(row.first_us)
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
    use crate::view::tests::{NOON, facts};

    fn since(facts: &Facts, code: &str) -> Option<u64> {
        began(facts).into_iter().find(|(of, _)| *of == code).map(|(_, us)| us)
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
}
