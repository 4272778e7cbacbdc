//! The Lua scripts, one a verb. Each is atomic and safe to repeat. Those of a job touch its keys only, and answer nil
//! where it is not known; those of a target touch its keys, and look at the jobs that it has.
//!
//! What a script gets is written at its top. Numbers in Lua are doubles: exact up to 2^53.

use std::borrow::Cow;
use std::sync::LazyLock;

/// A script and its name on the server.
#[derive(Debug)]
pub(super) struct Script {
    /// The verb.
    pub(super) name: &'static str,
    pub(super) text: Cow<'static, str>,
    pub(super) hash: String,
}

impl Script {
    fn new(name: &'static str, text: impl Into<Cow<'static, str>>) -> Self {
        let text = text.into();
        let hash = redis::Script::new(&text).get_hash().to_owned();
        Self { name, text, hash }
    }
}

macro_rules! scripts {
    ($($name:ident = $file:literal;)+) => {
        $(pub(super) static $name: LazyLock<Script> =
            LazyLock::new(|| Script::new($file, include_str!(concat!("lua/", $file, ".lua"))));)+
    };
}

scripts! {
    CREATE = "create";
    STATE = "state";
    SET_STATE = "set_state";
    RESET = "reset";
    REMOVE = "remove";
    LOSE = "lose";
    CHECKPOINT = "checkpoint";
    PROGRESS = "progress";
    ENDED = "ended";
    COMMIT = "commit";
    SEGMENTS = "segments";
    RECORD_FAILURE = "record_failure";
    BEGIN = "begin";
    ABANDON = "abandon";
    NOTED_TRIES = "noted_tries";
    PASS_ON = "pass_on";
    WANT_COPIES = "want_copies";
    OPEN_COPIES = "open_copies";
    OFFER_COPY = "offer_copy";
    TAKE_COPY = "take_copy";
    PUBLISH_STATISTICS = "publish_statistics";
    STATISTICS = "statistics";
    JOIN = "join";
    HEARTBEAT = "heartbeat";
    LEAVE = "leave";
    NODES = "nodes";
    CONCLUDE = "conclude";
    NOTE_OBSTACLE = "note_obstacle";
    LEASE = "lease";
    RELEASE = "release";
    OFFER = "offer";
    WITHDRAW = "withdraw";
    OFFERS = "offers";
    IDLE = "idle";
    IDLE_WORKERS = "idle_workers";
    TARGETS = "targets";
    BEGIN_TO_FILL = "begin_to_fill";
    FILLED = "filled";
    BELONGS_TO = "belongs_to";
    FORMER_JOB = "former_job";
    RING = "ring";
    NOTE_HISTORY = "note_history";
    HISTORY = "history";
    NOTE_ASK = "note_ask";
    ASKS = "asks";
    DRAIN = "drain";
    DRAINING = "draining";
    RETIRE = "retire";
    NOTE_JOB = "note_job";
    FORGET_JOB = "forget_job";
    CHANGED_JOBS = "changed_jobs";
    KEEP_INDEX = "keep_index";
    FILL_INDEX = "fill_index";
    ENDED_JOBS = "ended_jobs";
    PROBE = "probe";
    CLOCK = "clock";
    ROOM = "room";
}

/// What `state`, `progress`, `nodes` and, where parts are named, `statistics` answer, in one call. A ledger that is full notes no reader, and
/// tells the rest.
/// KEYS: those of the job, its segments, its statistics, its nodes; ARGV: those of `statistics`.
pub(super) static LOOK: LazyLock<Script> = LazyLock::new(|| {
    let verb = |script: &Script| format!("(function(KEYS, ARGV)\n{}\nend)", script.text);
    let [state, progress, nodes, statistics] = [&*STATE, &*PROGRESS, &*NODES, &*STATISTICS].map(verb);
    let text = format!(
        "if redis.call('EXISTS', KEYS[1]) == 0 then return false end\n\
         local answers = {{ {state}(KEYS, ARGV), {progress}(KEYS, ARGV), {nodes}({{ KEYS[1], KEYS[4] }}, ARGV), {{}} }}\n\
         if #ARGV > 2 then\n\
         local is_noted, parts = pcall({statistics}, {{ KEYS[1], KEYS[3] }}, ARGV)\n\
         if is_noted then answers[4] = parts end\n\
         end\n\
         return answers\n"
    );
    Script::new("look", text)
});
