//! Error groups while they grow: which tries failed alike, whatever the order in which they come.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use prs_common::layout;
use prs_common::segment::{ErrorDetail, SegmentIndex, TryRecord, TryStatus};
use prs_common::source_line::SourceLine;
use prs_common::statistics::{
    Curve, ErrorExample, ErrorGroup, Errors, MOST_EXAMPLES, MOST_GROUPS, MOST_TRACEBACKS, cut, group_id,
};

use crate::job::error_pattern::pattern;

/// Groups that are told apart while they grow; beyond, the rarer half is only counted.
const MOST: usize = 2 * MOST_GROUPS;
/// Longest message, bytes.
const MESSAGE: usize = 500;
/// Longest other text, bytes.
const TEXT: usize = 120;
/// Longest name of a file, bytes.
const FILE: usize = 300;
/// Longest traceback, bytes.
const TRACEBACK: usize = 8 << 10;
/// Nodes that a group counts one by one.
const MOST_NODES: usize = 4_096;
/// Room that an encoded list takes beside its groups, bytes.
const MARGIN: usize = 64;

/// What makes tries fail alike.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Kind {
    status: TryStatus,
    category: String,
    /// File, function and line of the user's code, or what the messages have in common.
    cause: Result<(String, String, u32), String>,
}

/// A group while it grows.
#[derive(Debug)]
struct Group {
    id: String,
    status: TryStatus,
    category: String,
    frame: Option<SourceLine>,
    /// Message and traceback of the first example.
    message: String,
    traceback: String,
    /// What all messages begin and end with.
    start: String,
    end: String,
    tries: u64,
    lost: u64,
    items_lost: u64,
    first_us: u64,
    last_us: u64,
    curve: Curve,
    nodes: BTreeMap<u32, u64>,
    examples: BTreeMap<ExampleKey, ErrorExample>,
}

/// Which of two tries stands for the group: one whose items are missing, then the first.
type ExampleKey = (bool, u64, u64, u32, u32);

impl Group {
    fn rank(&self) -> (u64, u64, u64) {
        (self.items_lost, self.lost, self.tries)
    }
}

/// The groups of a job.
#[derive(Debug, Default)]
pub(super) struct ErrorGroups {
    origin_us: u64,
    groups: HashMap<Kind, Group>,
    other_groups: u64,
    other_tries: u64,
}

impl ErrorGroups {
    pub(super) fn new(origin_us: u64) -> Self {
        Self { origin_us, ..Self::default() }
    }

    /// Adds a try that failed, or lacks items.
    pub(super) fn add(
        &mut self,
        index: &SegmentIndex,
        record: &TryRecord,
        started_us: u64,
        is_outcome: bool,
    ) {
        let detail = index.error_of(record);
        let kind = kind(record, detail);
        if !self.groups.contains_key(&kind) && self.groups.len() >= MOST {
            self.forget_the_rare();
        }
        let origin_us = self.origin_us;
        let message = cut(&record.message, MESSAGE);
        let group =
            self.groups.entry(kind).or_insert_with_key(|kind| Group::new(kind, detail, message, origin_us));
        // What was carried over, or is put together of parts, is told once more, and was tried once.
        let is_own = !layout::is_carried(&index.key) && record.put_together().is_none();
        group.tries += u64::from(is_own);
        if is_outcome {
            group.lost += 1;
            group.items_lost += record.items.saturating_sub(record.succeeded);
        }
        (group.first_us, group.last_us) = (group.first_us.min(started_us), group.last_us.max(started_us));
        if is_own {
            group.curve.add(started_us);
        }
        if !is_own {
            // Its node has it already.
        } else if group.nodes.len() < MOST_NODES || group.nodes.contains_key(&index.node_id) {
            *group.nodes.entry(index.node_id).or_default() += 1;
        }
        let same = |one: (char, char)| one.0 == one.1;
        let common = group.start.chars().zip(message.chars()).take_while(|pair| same(*pair));
        group.start.truncate(common.map(|(each, _)| each.len_utf8()).sum());
        let common = group.end.chars().rev().zip(message.chars().rev()).take_while(|pair| same(*pair));
        let length: usize = common.map(|(each, _)| each.len_utf8()).sum();
        group.end.drain(..group.end.len() - length);

        let key = (!is_outcome, started_us, record.index, record.number, index.node_id);
        let is_wanted = group.examples.len() < MOST_EXAMPLES
            || group.examples.last_key_value().is_some_and(|(last, _)| key < *last);
        if !is_wanted {
            return;
        }
        if group.examples.first_key_value().is_none_or(|(first, _)| key < *first) {
            message.clone_into(&mut group.message);
            group.traceback =
                detail.map(|detail| cut(&detail.traceback, TRACEBACK).to_owned()).unwrap_or_default();
        }
        let process = index.processes.get(record.process as usize).map_or("", |process| &*process.name);
        let example = ErrorExample {
            index: record.index,
            number: record.number,
            node_id: index.node_id,
            process: cut(process, TEXT).to_owned(),
            detail: cut(&record.detail, TEXT).to_owned(),
            started_us,
            is_lost: is_outcome,
        };
        group.examples.insert(key, example);
        if group.examples.len() > MOST_EXAMPLES {
            group.examples.pop_last();
        }
    }

    /// Counts the rarer half of the groups among the others.
    fn forget_the_rare(&mut self) {
        let mut ranks: Vec<_> = self.groups.values().map(|group| (group.rank(), group.id.clone())).collect();
        ranks.sort_unstable();
        let least = ranks[ranks.len() / 2].clone();
        self.groups.retain(|_, group| {
            let stays = (group.rank(), &*group.id) >= (least.0, &*least.1);
            if !stays {
                self.other_groups += 1;
                self.other_tries += group.tries;
            }
            stays
        });
    }

    /// How many groups there are.
    pub(super) fn count(&self) -> u64 {
        self.groups.len() as u64 + self.other_groups
    }

    /// The groups that cost most, without their tracebacks.
    pub(super) fn top(&self, most: usize) -> Vec<ErrorGroup> {
        self.ranked().into_iter().take(most).map(Group::published).collect()
    }

    /// All of them, as far as there is room.
    pub(super) fn published(&self, written_us: u64, room: usize) -> Errors {
        let ranked = self.ranked();
        let mut errors = Errors {
            written_us,
            other_groups: self.other_groups,
            other_tries: self.other_tries,
            groups: Vec::new(),
        };
        let mut used = MARGIN;
        for group in &ranked {
            let published = group.published();
            let size = rmp_size(&published);
            if errors.groups.len() < MOST_GROUPS && used + size <= room {
                used += size;
                errors.groups.push(published);
            } else {
                errors.other_groups += 1;
                errors.other_tries += group.tries;
            }
        }
        for (published, group) in errors.groups.iter_mut().zip(&ranked).take(MOST_TRACEBACKS) {
            // A longer text has a longer head.
            let size = group.traceback.len() + 5;
            if used + size <= room {
                used += size;
                published.traceback.clone_from(&group.traceback);
            }
        }
        errors
    }

    fn ranked(&self) -> Vec<&Group> {
        let mut ranked: Vec<_> = self.groups.values().collect();
        ranked.sort_by_cached_key(|group| (Reverse(group.rank()), group.id.clone()));
        ranked
    }
}

/// How long a value is in an encoding, bytes.
pub(super) fn rmp_size<T: serde::Serialize>(value: &T) -> usize {
    prs_common::message_pack::encode(value).len()
}

impl Group {
    fn new(kind: &Kind, detail: Option<&ErrorDetail>, message: &str, origin_us: u64) -> Self {
        let frame = detail.and_then(|detail| detail.frame.clone());
        let pattern = kind.cause.as_ref().err().map_or("", |pattern| &**pattern);
        Self {
            id: group_id(kind.status.as_str(), &kind.category, frame.as_ref(), pattern),
            status: kind.status,
            category: kind.category.clone(),
            frame,
            message: String::new(),
            traceback: String::new(),
            start: message.to_owned(),
            end: message.to_owned(),
            tries: 0,
            lost: 0,
            items_lost: 0,
            first_us: u64::MAX,
            last_us: 0,
            curve: Curve::new(origin_us),
            nodes: BTreeMap::new(),
            examples: BTreeMap::new(),
        }
    }

    fn published(&self) -> ErrorGroup {
        let mut nodes: Vec<_> = self.nodes.iter().map(|(node, tries)| (*node, *tries)).collect();
        let nodes_total = nodes.len() as u64;
        nodes.sort_by_key(|(node, tries)| (Reverse(*tries), *node));
        nodes.truncate(ErrorGroup::MOST_NODES);
        let frame = self.frame.clone().unwrap_or_default();
        ErrorGroup {
            id: self.id.clone(),
            status: self.status.as_str().to_owned(),
            category: cut(&self.category, TEXT).to_owned(),
            message: self.message.clone(),
            common_start: self.start.len() as u32,
            common_end: self.end.len() as u32,
            file: cut(&frame.file, FILE).to_owned(),
            line: frame.line,
            function: cut(&frame.function, TEXT).to_owned(),
            text: cut(&frame.text, TEXT).to_owned(),
            traceback: String::new(),
            tries: self.tries,
            mini_batches_lost: self.lost,
            items_lost: self.items_lost,
            first_us: self.first_us,
            last_us: self.last_us,
            curve: self.curve.clone(),
            nodes,
            nodes_total,
            examples: self.examples.values().cloned().collect(),
        }
    }
}

/// The id of the group of tries that ended so, with this message.
pub fn group_id_of(status: &str, category: &str, frame: Option<&SourceLine>, message: &str) -> String {
    let pattern = if frame.is_none() { pattern_of(message) } else { String::new() };
    group_id(status, category, frame, &pattern)
}

/// What the message of an error that comes from no line of the user's code has in common with others.
fn pattern_of(message: &str) -> String {
    pattern(cut(message.lines().next().unwrap_or_default(), MESSAGE))
}

fn kind(record: &TryRecord, detail: Option<&ErrorDetail>) -> Kind {
    let frame = detail.and_then(|detail| detail.frame.as_ref());
    let cause = frame
        .map(|frame| (frame.file.clone(), frame.function.clone(), frame.line))
        .ok_or_else(|| pattern_of(&record.message));
    Kind { status: record.error_status(), category: record.category.clone(), cause }
}
