//! Inputs of JSON lines, plain and compressed: the rows of pandas, wherever the job runs, and nothing lost but bad lines.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;

use prs_tests::harness::{Fleet, Job, expected_by_python, says};
use serde_json::{Value, json};

/// Needs a value of every kind, nested ones too.
const SCORES: &str = r#"
def score(table):
    # The types are those that the whole file gives.
    types = "/".join(map(str, table.dtypes))
    table["types"] = types
    table["first"] = [tags[0] if tags else "" for tags in table.pop("tags")]
    table["place"] = [place["city"] for place in table.pop("place")]
    table["note"] = table["note"].fillna("none")
    table["half"] = table["value"] / 2
    return table[["id", "name", "first", "place", "note", "half", "ok", "count", "types"]]

def run(mini_batch):
    return score(mini_batch)
"#;

/// The result of [`SCORES`], made by pandas from whole files.
const EXPECTED: &str = r#"
import glob, json, sys
import pandas
sys.path.insert(0, "../code")
from main import score
for name in sorted(glob.glob("*")):
    with open(name, encoding="utf-8-sig") as file:
        table = pandas.DataFrame(map(json.loads, filter(str.strip, file)))
    sys.stdout.buffer.write(score(table).to_csv(sep=" ", header=False, index=False).encode())
"#;

fn lines(ids: std::ops::Range<u64>, end: &str) -> String {
    let mut text = String::new();
    for id in ids {
        let mut record = json!({
            "id": id,
            "name": format!("näme \"{id}\""),
            "count": if id % 100 == 7 { json!(null) } else { json!(id) },
            "value": id as f64 * 0.37,
            "ok": id % 2 == 0,
            "tags": if id % 3 == 0 { json!([]) } else { json!([format!("t{id}"), {"deep": null}]) },
            "place": { "city": format!("c{}", id % 7) },
        });
        if id % 50 == 49 {
            record["note"] = json!("seldom");
        }
        write!(text, "{record}{end}").unwrap();
    }
    text
}

/// Three files, one plain, two compressed, of which one is an array; [`EXPECTED`] reads the plain text of all below `plain`.
fn job() -> Job {
    let job = Job::new(SCORES)
        .with("inputs", json!([{ "type": "tabular", "path": "data" }]))
        .with("mini_batch_size", "2kb");
    fs::create_dir(job.path("plain")).unwrap();
    let plain = |name: &str, text: &str| fs::write(job.path("plain").join(name), text).unwrap();

    let text = format!("\u{feff}\n{}", lines(0..200, "\r\n\n"));
    plain("a", &text);
    job.data("a.jsonl", text);
    let text = lines(200..400, "\n");
    plain("b", &text);
    // One array, in another encoding, and compressed in a block that is filled up with zeros.
    let array = format!("\u{feff}[\n{}\n]\n", text.trim_end().replace('\n', ",\n"));
    let array: Vec<u8> = array.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&array).unwrap();
    job.data("b.json.gz", [gzip.finish().unwrap(), vec![0; 512]].concat());
    let (first, second) = (lines(400..500, "\n"), lines(500..600, "\n"));
    plain("c", &(first.clone() + second.trim_end()));
    let frames = [&first, second.trim_end()].map(|text| zstd::encode_all(text.as_bytes(), 1).unwrap());
    job.data("c.NDJSON.zst", frames.concat());
    job
}

#[test]
fn the_rows_are_those_of_pandas_here_and_on_a_fleet() {
    let here = job();
    let printed = here.completes();
    assert!(printed["mini_batches"]["succeeded"].as_u64().unwrap() > 20, "{printed}");
    assert_eq!(printed["items"]["succeeded"], 600);
    let result = here.run().result();
    let expected = expected_by_python(&here.path("plain"), EXPECTED);
    assert_eq!(String::from_utf8_lossy(&result), String::from_utf8_lossy(&expected));

    let fleet = Fleet::shared();
    let there = fleet.job(job()).with("compute_target", "json-lines").with("node_count", 2);
    let _workers = [(); 2].map(|()| fleet.worker(&there, &["--target", "json-lines"]));
    let printed = fleet.completes(&there);
    assert!(fleet.stored(printed["job_id"].as_str().unwrap()).result() == result);
}

/// Gives the ids.
const IDS: &str = "def run(mini_batch):\n    return list(mini_batch['id'])\n";

/// Lines of 10 bytes each, in mini-batches of ten: a number, from 100 on.
fn numbers(count: u64) -> String {
    (0..count).fold(String::new(), |text, number| text + &format!("{{\"id\":{}}}\n", 100 + number))
}

#[test]
fn bad_lines_fail_their_mini_batches_and_nothing_else() {
    let job = Job::new(IDS).with("mini_batch_size", 100).with("run_max_try", 1).with("error_threshold", -1);
    let mut text = numbers(60);
    for (line, bad) in [(13, "{\"id\":113\n"), (25, "[12345678]"), (37, "{\"id\": 1x}")] {
        text.replace_range(line * 11..line * 11 + 10, &format!("{bad:10}"));
    }
    job.data("a.jsonl", &text);
    job.data("b.jsonl", [&numbers(20).into_bytes()[..], b"{\"id\":\"\xff\"}\n"].concat());
    let whole = zstd::encode_all(numbers(20_000).as_bytes(), 1).unwrap();
    job.data("c.jsonl.zst", &whole[..whole.len() / 2]);
    job.data("d.json", "{\n  \"id\": 1\n}\n");
    job.data("e.csv", "id\n7\n");
    let mut job = job;
    job.set("inputs", json!([{ "type": "tabular", "path": "data" }]));
    let printed = job.has_completed(&job.submit());
    let failed = job.run().failed_mini_batches();
    let message = |part: &str| {
        let is_it = |one: &&Value| one["tries"].to_string().contains(part);
        failed.iter().find(is_it).unwrap_or_else(|| panic!("{part}: {failed:?}"))["tries"].to_string()
    };
    assert!(message("data/a.jsonl: the line at byte 143 is not JSON").contains("mini-batch of bytes"));
    message("data/a.jsonl: the line at byte 275 holds no JSON object, but a value of type list");
    message("data/a.jsonl: the line at byte 407 is not JSON");
    message("data/b.jsonl: bad UTF-8 at byte 227");
    message("data/c.jsonl.zst");
    message("the compressed data is damaged");
    message(
        "data/d.json, byte 0: it is one JSON object over several lines: write an object a line, or one array of objects",
    );
    let rows = job.run().rows();
    assert_eq!(rows[..10], ["100", "101", "102", "103", "104", "105", "106", "107", "108", "109"]);
    assert_eq!(rows.last().unwrap(), "7");
    assert_eq!(printed["mini_batches"]["failed"], failed.len());

    let errors = job.command(&["errors", &job.run().path().display().to_string()]);
    says(&errors, 0, &["DataError: ", "data/a.jsonl: the line at byte 143 is not JSON"]);
}

#[test]
fn a_row_is_tried_by_its_number() {
    let job = Job::new("def run(mini_batch):\n    ids = list(mini_batch['id'])\n    if 150 in ids:\n        raise ValueError('150')\n    return ids\n")
        .with("mini_batch_size", 100)
        .with("run_max_try", 1)
        .with("error_threshold", -1)
        .with("inputs", json!([{ "type": "tabular", "path": "data" }]));
    job.data("t.jsonl", format!("\n{}", numbers(80).replace('\n', "\r\n\n")));
    let file = job.write_job_file().display().to_string();
    says(
        &job.command(&["try", &file, "--item", "t.jsonl:50"]),
        42,
        &["ValueError: 150", "t.jsonl:50 is row "],
    );
    let told = job.command(&["try", &file, "--item", "t.jsonl:72", "-o", "json"]).json();
    let first: u64 = told["first_rows"][0].as_str().unwrap().parse().unwrap();
    assert_eq!(first + told["row"].as_u64().unwrap(), 172, "{told}");
    says(&job.command(&["try", &file, "--item", "t.jsonl:80"]), 2, &["t.jsonl has 80 rows"]);
    job.submit().expect_code(0);
    let run = job.run().path().display().to_string();
    says(&job.command(&["try", &run, "--failed", "--item", "t.jsonl:50"]), 42, &["in the job it failed"]);
}

#[test]
fn what_only_delimited_text_has_is_refused() {
    let job = Job::new(IDS);
    job.data("a.txt", numbers(3));
    let mut job = job;
    let input = json!({ "type": "tabular", "path": "data", "format": "json_lines" });
    let mut with_header = input.clone();
    with_header["header"] = json!(false);
    job.set("inputs", json!([with_header]));
    job.is_refused(&["inputs[0].header: only delimited text has it", "format: delimited"]);
    job.set("inputs", json!([input]));
    job.completes();
    assert_eq!(job.run().rows(), ["100", "101", "102"]);
    let shown = job.command(&["show", &job.run().path().display().to_string()]);
    says(&shown, 0, &["format: json_lines"]);
}
