//! Where the things of a job are: the keys below its prefix in storage, or its run folder (spec section 7).

/// The lock of the program that works in the folder of a run, embedded.
pub const RUN_LOCK: &str = ".lock";

/// The file by which a job claims the folder that it fills.
pub const CLAIM: &str = ".prs-claim";

/// The specification and, at the end, the result.
pub const JOB: &str = "job.json";
/// Archives of the user's code, by content.
pub const CODE: &str = "code/";
/// Committed rows, and nothing else: who follows a job lists them.
pub const SEGMENTS: &str = "segments/";
/// Files written by mini-batches, until they are published.
pub const FILES: &str = "files/";
/// Bundles of the tables of contents of segments.
pub const INDICES: &str = "indices/";
/// Segments that were damaged in storage, out of the way of the others.
pub const DAMAGED: &str = "damaged/";
/// Notes that nodes of the job leave for one another.
pub const NOTES: &str = "notes/";
/// Descriptors: those that are too long for the queue, and those of each start of the job; see [`noted_plan`].
pub const PLAN: &str = "plan/";
/// Plain copies of compressed inputs.
pub const PLAIN: &str = "plain/";
/// The result, when the job names no other place.
pub const OUTPUT: &str = "output/";
/// Says of a job that was removed that its result stays: nobody tidies it up. The object is empty.
pub const KEPT: &str = "kept";
/// The logs (spec section 5).
pub const LOGS: &str = "logs/";
/// Lists of the files that mini-batches brought to the output; see [`output_files`].
pub const OUTPUT_FILES: &str = "output-files/";
/// The list of failed mini-batches in the output (spec S11).
pub const FAILED_MINI_BATCHES: &str = "failed_mini_batches.jsonl";

/// Key of a segment. Keys sort by incarnation and, within a node, by age. `service` tells the services of one node
/// id apart: a ledger that was lost may give an id away again.
pub fn segment(incarnation: u32, node_id: u32, service: &str, number: u64) -> String {
    format!("{SEGMENTS}{}{number:08}.seg", writer(incarnation, node_id, service))
}

/// What the names of all segments of one service of a node begin with, and the ids of its tries.
pub fn writer(incarnation: u32, node_id: u32, service: &str) -> String {
    format!("{incarnation:04}-{node_id:05}-{service}-")
}

/// The service in the names of segments that carry outcomes of a former start over into the next one.
pub const CARRIED: &str = "carried";

/// Whether a segment holds outcomes that were carried over: each of its tries stands in a segment of a former start, too.
pub fn is_carried(segment: &str) -> bool {
    segment.rsplit('/').next().is_some_and(|name| name.split('-').nth(2) == Some(CARRIED))
}

/// Key of the bundle of the segments that this start of the job committed from the `first`-th (from 0) on.
pub fn bundle(incarnation: u32, first: u64) -> String {
    format!("{INDICES}{incarnation:04}-{first:010}.idx")
}

/// Start and first segment in the key of a bundle.
pub fn bundle_parts(key: &str) -> Option<(u32, u64)> {
    let (incarnation, first) = key.strip_prefix(INDICES)?.strip_suffix(".idx")?.split_once('-')?;
    Some((incarnation.parse().ok()?, first.parse().ok()?))
}

/// Whether `key` is that of a segment.
pub fn is_segment(key: &str) -> bool {
    key.strip_prefix(SEGMENTS)
        .is_some_and(|name| !name.contains('/') && name.rsplit_once('.').is_some_and(|(_, end)| end == "seg"))
}

/// Where the damaged segment `key` is set aside in the `round`-th round (from 1) of a start of its job.
pub fn damaged_segment(incarnation: u32, round: u32, key: &str) -> String {
    let name = key.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    format!("{DAMAGED}{incarnation:04}-{round:02}/{name}")
}

/// The start of the job and the round in which something was set aside under `key`.
pub fn round_of_damage(key: &str) -> Option<(u32, u32)> {
    let (incarnation, round) = key.strip_prefix(DAMAGED)?.split('/').next()?.split_once('-')?;
    Some((incarnation.parse().ok()?, round.parse().ok()?))
}

/// Key of a file that a mini-batch wrote, before it is published. `try_id` is unique in the job.
pub fn staged_file(try_id: &str, path: &str) -> String {
    format!("{FILES}{try_id}/{path}")
}

/// Notes of what the job brings to its output, which tell its files there from those of others; see [`published`].
pub const PUBLISHED: &str = "notes/published/";

/// Key of the note that this start of the job is about to give a file with this checksum (SHA-256, in hexadecimal) the
/// name `name` in the output. The object is empty.
pub fn published(incarnation: u32, checksum: &str, name: &str) -> String {
    format!("{PUBLISHED}{incarnation:04}-{checksum}/{name}")
}

/// Start, checksum and name in the key of such a note.
pub fn published_parts(key: &str) -> Option<(u32, &str, &str)> {
    let (note, name) = key.strip_prefix(PUBLISHED)?.split_once('/')?;
    let (incarnation, checksum) = note.split_once('-')?;
    Some((incarnation.parse().ok()?, checksum, name))
}

/// Key of the note of the files of mini-batches that this start of the job is about to publish: an object with names and
/// staged files, of this checksum.
pub fn published_files(incarnation: u32, checksum: &str) -> String {
    format!("{PUBLISHED}{incarnation:04}-{checksum}.files")
}

/// The start in the key of such a note.
pub fn published_files_start(key: &str) -> Option<u32> {
    let note = key.strip_prefix(PUBLISHED)?.strip_suffix(".files").filter(|note| !note.contains('/'))?;
    note.split_once('-')?.0.parse().ok()
}

/// Key of the note that some start of the job has begun to deliver its output to a bucket. The object is empty.
pub const DELIVERY: &str = "notes/delivery";

/// Notes of what starts of the job listed; see [`listed`].
pub const LISTED: &str = "notes/listed/";

/// Key of the note of what this start of the job listed of local files: the sum that later jobs compare.
pub fn listed(incarnation: u32) -> String {
    format!("{LISTED}{incarnation:04}")
}

/// Key of the note of what this start of the job found in its inputs that a person should know.
pub fn plan_notes(incarnation: u32) -> String {
    format!("{NOTES}plan/{incarnation:04}")
}

/// Key of the note of a pipeline that the output of a step is at its own place.
pub fn delivered(step: &str, output: &str) -> String {
    format!("delivered/{step}/{output}")
}

/// Key of the list of the files of mini-batches that this start of the job brought to its output, with their sizes and
/// checksums. It stays with the job: a later one that is given the output needs it.
pub fn output_files(incarnation: u32) -> String {
    format!("{OUTPUT_FILES}{incarnation:04}.json")
}

/// Notes of the queues that the job has left; see [`left_queue`].
pub const LEFT_QUEUES: &str = "notes/queues/";

/// Key of the note that this start of the job has left its queue `number`. The object is empty.
pub fn left_queue(incarnation: u32, number: u32) -> String {
    format!("{LEFT_QUEUES}{incarnation:04}-{number:04}")
}

/// Start and number in the key of such a note.
pub fn left_queue_parts(key: &str) -> Option<(u32, u32)> {
    let (incarnation, number) = key.strip_prefix(LEFT_QUEUES)?.split_once('-')?;
    Some((incarnation.parse().ok()?, number.parse().ok()?))
}

/// Notes of the panics of orchestrators; see [`panic()`].
pub const PANICS: &str = "notes/panics/";

/// Key of the note of the `number`-th panic (from 1) while this start of the job was watched over. The object holds the
/// panic's words.
pub fn panic(incarnation: u32, number: usize) -> String {
    format!("{PANICS}{incarnation:04}-{number:04}")
}

/// The start in the key of such a note.
pub fn panic_start(key: &str) -> Option<u32> {
    let (incarnation, number) = key.strip_prefix(PANICS)?.split_once('-')?;
    number.parse::<u32>().ok()?;
    incarnation.parse().ok()
}

/// Key of a code archive with this checksum.
pub fn code_archive(checksum: &str) -> String {
    format!("{CODE}{checksum}.tar.gz")
}

/// The checksum that a code archive with this key is named by.
pub fn checksum_of_code(key: &str) -> &str {
    let name = key.strip_prefix(CODE).unwrap_or(key);
    name.strip_suffix(".tar.gz").unwrap_or(name)
}

/// Listings of the inputs.
pub const INPUTS: &str = "inputs/";

/// Key of the listing of the input `name`, in the job's storage.
pub fn manifest(name: &str) -> String {
    format!("{INPUTS}{name}.manifest")
}

/// What the keys of uploaded files begin with, in the storage that the jobs of a fleet share.
pub const BLOBS: &str = "inputs/";

/// What begins the keys of objects that say which uploaded files a request is about to name; the rest is as of the file.
pub const CLAIMS: &str = "uploads/";

/// The rest of the key of an uploaded file with this checksum (SHA-256, in hexadecimal).
pub fn blob(checksum: &str) -> String {
    format!("{}/{checksum}", checksum.get(..2).unwrap_or_default())
}

/// Key of a descriptor that is too long for a message.
pub fn stored_descriptor(index: u64) -> String {
    format!("{PLAN}{index:010}")
}

/// Key of the `part`-th object with the descriptors of the plan of this start of the job.
pub fn noted_plan(start: u32, part: u32) -> String {
    format!("{PLAN}{start:04}/{part:06}")
}

/// Key of an object of a plan that was made before this start because inputs were corrected. It is named by its `content`,
/// too: another program that is about to begin that start has a plan of its own.
pub fn corrected_plan(start: u32, content: u64, name: &str) -> String {
    format!("{PLAN}{start:04}-{content:016x}/{name}")
}

/// Key of the plain copy of a compressed file: number `file` of the input at `position`.
pub fn plain_copy(position: u32, file: u64) -> String {
    format!("{PLAIN}{position}-{file:06}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_told_from_staged_files() {
        assert!(is_segment(&segment(1, 0, "5f", 7)));
        assert!(!is_segment(&staged_file("1-0-7", "a.seg")));
        let aside = damaged_segment(2, 11, &segment(1, 0, "5f", 7));
        assert!(!is_segment(&aside) && aside.ends_with("/0001-00000-5f-00000007.seg"), "{aside}");
        assert_eq!(round_of_damage(&aside), Some((2, 11)));
        assert_eq!(damaged_segment(1, 1, SEGMENTS), "damaged/0001-01/segments");
    }

    #[test]
    fn bundles_say_where_they_begin() {
        for (incarnation, first) in [(1, 0), (12, 512), (3, 99_999_999_488)] {
            assert_eq!(bundle_parts(&bundle(incarnation, first)), Some((incarnation, first)));
        }
        for other in ["indices/x-1.idx", "indices/1-1", "indices/1.idx", "segments/1-1.idx"] {
            assert_eq!(bundle_parts(other), None, "{other}");
        }
    }

    #[test]
    fn notes_of_queues_that_were_left_say_it_in_their_keys() {
        assert_eq!(left_queue_parts(&left_queue(2, 13)), Some((2, 13)));
        assert_eq!(left_queue_parts("notes/queues/x"), None);
        assert!(left_queue(1, 0).starts_with(NOTES) && !is_segment(&left_queue(1, 0)));
    }

    #[test]
    fn notes_of_panics_say_their_start_in_their_keys() {
        assert_eq!(panic_start(&panic(2, 10)), Some(2));
        assert_eq!(panic_start("notes/panics/x"), None);
        assert!(panic(1, 2) < panic(1, 10) && panic(1, 1).starts_with(NOTES) && !is_segment(&panic(1, 1)));
    }

    #[test]
    fn notes_of_what_is_published_say_it_in_their_keys() {
        let (own, files) = (published(3, "5f", "rows.files"), published_files(12, "5f"));
        assert_eq!(published_parts(&own), Some((3, "5f", "rows.files")));
        assert_eq!(published_files_start(&files), Some(12));
        assert_eq!((published_parts(&files), published_files_start(&own)), (None, None));
        assert!(own.starts_with(NOTES) && !is_segment(&published(1, "5f", "a.seg")));
    }

    #[test]
    fn a_listing_of_segments_lists_nothing_else() {
        let others = [
            staged_file("1-0-7", "a.seg"),
            damaged_segment(2, 11, &segment(1, 0, "5f", 7)),
            published(1, "5f", "rows"),
            published_files(1, "5f"),
            left_queue(1, 0),
            bundle(1, 0),
            panic(1, 1),
        ];
        for other in others {
            assert!(!other.starts_with(SEGMENTS), "{other}");
        }
    }
}
