//! The distinct errors of a job as cards: what it was, what it cost, where, and a traceback.

use crate::chart::Curve;
use crate::text::times::{clock, day_and_clock, machine};
use crate::text::{counted, cut, plain};

use super::frames::{Piece, of_place, pieces};

/// Letters of a message, and of a line of code, that are shown.
const LETTERS: usize = 600;
/// Cards that stand in full, in front of the pictures.
const UNFOLDED: usize = 3;
/// Nodes that are named.
const MOST_NODES: usize = 6;

/// Tries that failed alike.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorFact {
    /// The id of their group; empty where they are of no mini-batch.
    pub group: String,
    /// How they ended: `RUN_EXCEPTION`, ...
    pub status: String,
    /// Class of the exception, or what stands for it.
    pub category: String,
    /// The message of the example.
    pub message: String,
    /// The message with `<...>` for what differs between the tries; empty where nothing does, or nobody compared them.
    pub pattern: String,
    /// Whether others have another message.
    pub messages_differ: bool,
    /// The line of the user's code: file, line and function, as `x.py:5 in run`; empty where none is known.
    pub place: String,
    /// What stands in that line.
    pub code: String,
    /// What it cost, in words.
    pub cost: String,
    /// So many tries.
    pub tries: u64,
    /// Mini-batches that it cost.
    pub lost: u64,
    /// Nodes that had it.
    pub nodes: Vec<u32>,
    /// When they had it, and how often; nothing where there are no statistics of it.
    pub times: Option<ErrorTimes>,
    /// One of the tries.
    pub example: ErrorPlace,
    /// Its traceback; empty where there is none.
    pub traceback: String,
    /// The lines around the place, each with its number; empty where nobody read the code.
    pub around: Vec<(u64, String)>,
    /// Some of the tries, those whose items are missing first; empty where there are no statistics of it.
    pub tried: Vec<ErrorTry>,
}

/// A try with an error, which stands for others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorTry {
    /// Its mini-batch.
    pub index: u64,
    /// Which try it was, from 1.
    pub number: u32,
    /// The node.
    pub node_id: u32,
    /// The process.
    pub process: String,
    /// What the mini-batch consists of.
    pub detail: String,
    /// When it began, microseconds since the Unix epoch.
    pub started_us: u64,
    /// Whether its mini-batch got no other try.
    pub is_lost: bool,
}

/// When and where tries with an error ran, as far as the statistics of the job tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorTimes {
    /// When the first and the last of them began, microseconds since the Unix epoch.
    pub first_and_last_us: (u64, u64),
    /// When the first bin of the curve begins, and seconds of a bin.
    pub bins_from_us: (u64, u32),
    /// How many began in each bin.
    pub bins: Vec<u64>,
    /// The nodes with most of them, and how many.
    pub nodes: Vec<(u32, u64)>,
    /// All nodes that had them.
    pub nodes_total: u64,
}

/// Where an error happened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorPlace {
    /// What ran, in words.
    pub what: String,
    /// The log that has it in full, below the folder of logs; empty where none has.
    pub log: String,
}

/// A card.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ErrorCard {
    pub(crate) group: String,
    pub(crate) category: String,
    pub(crate) message: String,
    pub(crate) rest: String,
    pub(crate) cost: String,
    pub(crate) when: Vec<When>,
    pub(crate) curve: Option<Curve>,
    pub(crate) place: String,
    pub(crate) code: String,
    /// The lines around the place: number, text, and whether it is that line. Where they are known, `code` is empty.
    pub(crate) around: Vec<(u64, String, bool)>,
    /// The command that runs a mini-batch with the error where one types it; empty where none is known.
    pub(crate) attempt: String,
    pub(crate) example: String,
    pub(crate) log: String,
    /// Where the place leads; empty where it leads nowhere.
    pub(crate) place_link: String,
    pub(crate) traceback: Vec<Piece>,
    /// The address of the traceback; empty where it stands in the card, or there is none.
    pub(crate) traceback_link: String,
    /// What the part is called that has the traceback alone; empty where the card has it, or leads to it.
    pub(crate) fold: String,
    /// Whether it cost mini-batches.
    pub(crate) lost: bool,
    pub(crate) is_open: bool,
}

/// What the cards of a page that a server sends lead to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Served<'a> {
    /// The address of the code of the job.
    pub(crate) code: &'a str,
    /// What commands call the job.
    pub(crate) called: &'a str,
    /// The groups whose tracebacks stand in the page, where those of the others stand elsewhere; nothing where all stand in it that fit.
    pub(crate) opened: Option<&'a [&'a str]>,
}

impl Served<'_> {
    /// Whether the traceback of an error stands elsewhere.
    fn is_apart(&self, error: &ErrorFact) -> bool {
        let is_apart = |opened: &[&str]| !opened.contains(&&*error.group);
        !error.group.is_empty() && self.opened.is_some_and(is_apart)
    }
}

/// The cards of a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ErrorCards {
    pub(crate) cards: Vec<ErrorCard>,
    /// Those behind the first few, which would hide what follows.
    pub(crate) folded: Vec<ErrorCard>,
    /// What is left out; empty where nothing is.
    pub(crate) rest: String,
}

/// The cards of `errors`, `most` at most, with tracebacks as long as these need no more than `room` bytes of HTML.
pub(crate) fn cards(
    errors: &[ErrorFact],
    other_tries: u64,
    most: usize,
    mut room: usize,
    served: Option<Served<'_>>,
) -> ErrorCards {
    let mut without = 0;
    let mut cards = Vec::new();
    for (at, error) in errors.iter().take(most).enumerate() {
        let length = escaped_length(&error.traceback);
        let is_there = !error.traceback.is_empty();
        let is_apart = is_there && at > 0 && served.is_some_and(|served| served.is_apart(error));
        let fits = is_there && !is_apart && length <= room;
        if fits {
            room -= length;
        }
        without += usize::from(is_there && !is_apart && !fits);
        let card = card(error, fits, at == 0, served);
        let job = served.and_then(|served| served.code.strip_suffix("/code")).filter(|_| is_apart);
        let traceback_link = job.map(|job| format!("{job}/errors/{}", error.group)).unwrap_or_default();
        cards.push(ErrorCard { traceback_link, ..card });
    }
    let mut rest = Vec::new();
    if errors.len() > most {
        rest.push(format!("{most} of {} distinct errors", errors.len()));
    }
    if other_tries > 0 {
        rest.push(format!("{} with other errors are only counted", counted(other_tries, "try")));
    }
    if without > 0 {
        rest.push(format!("{} left out, which prs errors prints", counted(without as u64, "traceback")));
    }
    let rest = rest.join("; ");
    let folded = cards.split_off(cards.len().min(UNFOLDED));
    ErrorCards { cards, folded, rest: if rest.is_empty() { rest } else { format!("{rest}.") } }
}

/// The card of an error.
pub(crate) fn card(
    error: &ErrorFact,
    has_traceback: bool,
    is_open: bool,
    served: Option<Served<'_>>,
) -> ErrorCard {
    let code = served.map(|served| served.code);
    let here = line_of(&error.place);
    let around = error
        .around
        .iter()
        .map(|(number, text)| (*number, plain(&cut(text, LETTERS)), Some(*number) == here));
    let around: Vec<_> = around.collect();
    let own = error.message.trim_end();
    let message = if error.pattern.is_empty() { own } else { error.pattern.trim_end() };
    let (first, rest) = message.split_once('\n').unwrap_or((message, ""));
    let example = match (&*error.pattern, own.lines().next()) {
        ("", _) | (_, None) => error.example.what.clone(),
        (_, Some(own)) => format!("\u{201c}{}\u{201d}, {}", plain(own), error.example.what),
    };
    let mut cost = vec![error.cost.clone()];
    let nodes = error.times.as_ref().map(counted_nodes);
    let nodes = nodes.filter(|nodes| !nodes.is_empty()).unwrap_or_else(|| on_nodes(&error.nodes));
    if !nodes.is_empty() {
        cost.push(nodes);
    }
    if error.messages_differ && error.pattern.is_empty() {
        cost.push("other messages differ".to_owned());
    }
    ErrorCard {
        group: error.group.clone(),
        category: cut(&error.category, 120),
        message: plain(&cut(first, LETTERS)),
        rest: plain(&cut(rest, LETTERS)),
        cost: cost.join(" \u{b7} "),
        when: error.times.as_ref().map(when).unwrap_or_default(),
        curve: error.times.as_ref().and_then(|times| {
            let (from_us, step_s) = times.bins_from_us;
            Curve::new(from_us, step_s, &times.bins)
        }),
        place: error.place.clone(),
        code: if around.is_empty() { cut(error.code.trim(), LETTERS) } else { String::new() },
        around,
        attempt: match (served, error.tried.first()) {
            (Some(served), Some(one)) => {
                format!("prs try {} --mini-batch {} --pdb", served.called, one.index)
            }
            _ => String::new(),
        },
        example: cut(&example, LETTERS),
        log: error.example.log.clone(),
        place_link: of_place(&error.place, code),
        traceback: if has_traceback { pieces(error.traceback.trim_end(), code) } else { Vec::new() },
        traceback_link: String::new(),
        fold: String::new(),
        lost: error.lost > 0,
        is_open,
    }
}

/// The line that a place such as `x.py:5 in run` names.
fn line_of(place: &str) -> Option<u64> {
    place.split(" in ").next()?.rsplit_once(':')?.1.parse().ok()
}

fn on_nodes(nodes: &[u32]) -> String {
    named_nodes(nodes.iter().map(u32::to_string), nodes.len())
}

/// The nodes, each with its tries where there are several.
fn counted_nodes(times: &ErrorTimes) -> String {
    let [(only, _)] = times.nodes[..] else {
        let named = times.nodes.iter().map(|(node_id, tries)| format!("{node_id} ({tries})"));
        return named_nodes(named, times.nodes_total as usize);
    };
    named_nodes(std::iter::once(only.to_string()), times.nodes_total as usize)
}

fn named_nodes(nodes: impl Iterator<Item = String>, all: usize) -> String {
    let named: Vec<String> = nodes.take(MOST_NODES).collect();
    if named.is_empty() {
        return String::new();
    }
    let more = all.saturating_sub(named.len());
    let what = if all == 1 { "node" } else { "nodes" };
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{what} {}{more}", named.join(", "))
}

/// A point in time, with the word before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct When {
    pub(crate) word: &'static str,
    /// For people, and for programs.
    pub(crate) time: (String, String),
}

/// When it happened.
pub(crate) fn when(times: &ErrorTimes) -> Vec<When> {
    let (first, last) = times.first_and_last_us;
    let at = |word, us, shown: String| When { word, time: (shown, machine(us)) };
    if first == last {
        return vec![at("at", first, format!("{} UTC", day_and_clock(first)))];
    }
    let (first_day, last_day) = (day_and_clock(first), day_and_clock(last));
    let shown = if first_day[..10] == last_day[..10] { clock(last) } else { last_day };
    vec![at("from", first, first_day), at("to", last, format!("{shown} UTC"))]
}

/// How long text is as HTML, bytes.
fn escaped_length(text: &str) -> usize {
    text.bytes().map(|byte| if matches!(byte, b'<' | b'>' | b'&' | b'"' | b'\'') { 5 } else { 1 }).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(when: &[When]) -> String {
        when.iter().map(|one| format!("{} {}", one.word, one.time.0)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_card_shows_the_lines_around_the_place_and_how_to_run_it_here() {
        let error = ErrorFact {
            place: "x.py:5 in run".into(),
            code: "raise X".into(),
            around: vec![(4, "def run(batch):".into()), (5, "    raise X\u{7}".into())],
            tried: vec![ErrorTry { index: 17, ..ErrorTry::default() }],
            ..error("")
        };
        let served = Served { code: "/jobs/j/code", called: "j", opened: None };
        let found = card(&error, false, false, Some(served));
        assert_eq!(
            found.around,
            [(4, "def run(batch):".to_owned(), false), (5, "    raise X\u{2407}".to_owned(), true)]
        );
        assert_eq!((&*found.code, &*found.attempt), ("", "prs try j --mini-batch 17 --pdb"));
        let found = card(&ErrorFact { around: Vec::new(), ..error }, false, false, None);
        assert_eq!((&*found.code, &*found.attempt), ("raise X", ""));
    }

    #[test]
    fn messages_that_differ_are_shown_by_what_they_share() {
        let error = ErrorFact {
            message: "no row 17 in t".into(),
            pattern: "no row <...> in t".into(),
            messages_differ: true,
            example: ErrorPlace { what: "mini-batch 3".into(), ..ErrorPlace::default() },
            ..error("")
        };
        let found = card(&error, false, false, None);
        assert_eq!(
            (&*found.message, &*found.example),
            ("no row <...> in t", "\u{201c}no row 17 in t\u{201d}, mini-batch 3")
        );
        assert!(!found.cost.contains("differ"), "{}", found.cost);
    }

    fn error(traceback: &str) -> ErrorFact {
        ErrorFact {
            category: "ValueError".into(),
            message: "bad\u{1b}[31m\nworse".into(),
            cost: "3 tries failed, nothing lost".into(),
            nodes: (0..9).collect(),
            traceback: traceback.into(),
            ..ErrorFact::default()
        }
    }

    #[test]
    fn cards_say_what_is_left_out() {
        let errors = [error("a<b"), error("0123456789"), error("x")];
        let found = cards(&errors, 7, 2, 12, None);
        assert_eq!(found.cards.len(), 2);
        assert_eq!(
            found.rest,
            "2 of 3 distinct errors; 7 tries with other errors are only counted; 1 traceback left out, which prs errors prints."
        );
        let first = &found.cards[0];
        assert_eq!((&*first.message, &*first.rest, first.is_open), ("bad", "worse", true));
        assert_eq!(first.cost, "3 tries failed, nothing lost \u{b7} nodes 0, 1, 2, 3, 4, 5 and 3 more");
        assert_eq!(first.traceback[0].text, "a<b");
        assert!(found.cards[1].traceback.is_empty() && !found.cards[1].is_open);
        assert!(first.when.is_empty() && first.curve.is_none());
        assert_eq!(cards(&[], 0, 2, 12, None), ErrorCards::default());
    }

    #[test]
    fn cards_say_when_and_on_which_nodes() {
        // 2025-11-21 23:59:50 UTC.
        let late = 1_763_769_590_000_000;
        let times = ErrorTimes {
            first_and_last_us: (late, late + 20_000_000),
            bins_from_us: (late, 1),
            bins: vec![3, 0, 1],
            nodes: vec![(3, 40), (203, 14)],
            nodes_total: 5,
        };
        let table = [
            (
                times.clone(),
                "nodes 3 (40), 203 (14) and 3 more",
                "from 2025-11-21 23:59:50 to 2025-11-22 00:00:10 UTC",
            ),
            (
                ErrorTimes {
                    nodes: vec![(3, 4)],
                    nodes_total: 1,
                    first_and_last_us: (late, late),
                    ..times.clone()
                },
                "node 3",
                "at 2025-11-21 23:59:50 UTC",
            ),
            (
                ErrorTimes { first_and_last_us: (late, late + 2_000_000), nodes: vec![], ..times },
                "nodes 0, 1, 2, 3, 4, 5 and 3 more",
                "from 2025-11-21 23:59:50 to 23:59:52 UTC",
            ),
        ];
        for (times, nodes, when) in table {
            let error = ErrorFact { times: Some(times), ..error("") };
            let card = &cards(&[error], 0, 1, 0, None).cards[0];
            assert_eq!((card.cost.rsplit(" \u{b7} ").next(), &*said(&card.when)), (Some(nodes), when));
            assert!(card.curve.is_some());
        }
    }
}
