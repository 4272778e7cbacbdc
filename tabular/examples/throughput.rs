//! How fast delimited text is split, read and written, on one core.
//!
//! `cargo run --release -p prs-tabular --example throughput [ROWS] [FILE]` makes a text of 3,200,000 rows
//! (about 300 MB) with nine columns: whole numbers, a date, numbers with a point, and words, some in quotes
//! with commas and quotes; or takes FILE. It splits it, finds its types, reads its slices of 1 MiB, and
//! writes them with a comma and with a space between the fields. Every step runs three times and the best
//! counts; MB are of the text.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use prs_tabular::{Batch, Dialect, InferMode, Schema, Slice, Splitter, WriteOptions, Writer, read};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

#[expect(clippy::print_stdout, reason = "the figures are what the program is for")]
fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let rows = arguments.next().map_or(Ok(3_200_000), |rows| rows.parse())?;
    let text = match arguments.next() {
        Some(file) => std::fs::read(Path::new(&file))?,
        None => generate(rows)?,
    };
    let megabytes = text.len() as f64 / 1e6;
    let report = |step: &str, time: Duration| {
        println!("{step:<24} {:>7.3} s {:>8.0} MB/s", time.as_secs_f64(), megabytes / time.as_secs_f64());
    };
    println!("text: {megabytes:.0} MB");

    let dialect = Dialect::default();
    let (slices, time) = best(|| split(&text, dialect))?;
    report("split", time);
    let unquoted = text.iter().map(|&byte| if byte == b'"' { b'_' } else { byte }).collect::<Vec<_>>();
    report("split, no quotes", best(|| split(&unquoted, dialect))?.1);
    let source = || std::io::Cursor::new(&text);
    let (schema, time) = best(|| Ok(Schema::infer(&mut source(), dialect, InferMode::Sampled)?))?;
    report("types from a sample", time);
    let (full, time) = best(|| Ok(Schema::infer(&mut source(), dialect, InferMode::Full)?))?;
    report("types from all", time);
    println!("types: {:?}, by sample the same: {}", full.types, full.types == schema.types);

    let slice = |slice: &Slice| &text[slice.start as usize..slice.end as usize];
    let (records, time) = best(|| {
        let mut records = 0;
        for part in &slices {
            records += read(slice(part), &dialect, &schema)?.records;
        }
        Ok(records)
    })?;
    report("read", time);
    println!("records: {records}");

    for separator in [b',', b' '] {
        let writer = Writer::new(&WriteOptions { separator, ..WriteOptions::default() })?;
        let mut out = Vec::new();
        let mut fastest = Duration::MAX;
        for _ in 0..3 {
            let mut time = Duration::ZERO;
            for part in &slices {
                let Batch { columns, .. } = read(slice(part), &dialect, &schema)?;
                out.clear();
                let start = Instant::now();
                writer.write(&columns, &mut out)?;
                time += start.elapsed();
            }
            fastest = fastest.min(time);
        }
        report(&format!("write, by {:?}", char::from(separator)), fastest);
    }
    Ok(())
}

fn best<T>(mut step: impl FnMut() -> Outcome<T>) -> Outcome<(T, Duration)> {
    let mut fastest = Duration::MAX;
    let mut result = None;
    for _ in 0..3 {
        let start = Instant::now();
        result = Some(step()?);
        fastest = fastest.min(start.elapsed());
    }
    Ok((result.ok_or("no step was run")?, fastest))
}

fn split(text: &[u8], dialect: Dialect) -> Outcome<Vec<Slice>> {
    let mut splitter = Splitter::new(dialect, 1 << 20);
    let mut slices = vec![];
    for block in text.chunks(1 << 20) {
        splitter.feed(block, &mut slices);
    }
    splitter.finish(&mut slices)?;
    Ok(slices)
}

/// A text that is the same every time.
fn generate(rows: u64) -> Outcome<Vec<u8>> {
    let words = ["amber", "birch", "cedar", "dune", "elm", "fjord", "grove", "heath"];
    let mut text = String::from("id,day,customer,amount,rate,score,city,note,flag\n");
    let mut state = 1u64;
    for id in 0..rows {
        // A linear congruential generator will do.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let bits = state >> 16;
        let word = |shift: u32| words[(bits >> shift) as usize % words.len()];
        writeln!(
            text,
            "{id},2024-{:02}-{:02},{},{:.2},{:.6},{},{} {},\"{}, {} \"\"{}\"\" of {}\",{}",
            bits % 12 + 1,
            bits % 28 + 1,
            bits % 1_000_000,
            (bits % 10_000_000) as f64 / 100.0,
            (bits % 1_000_003) as f64 / 1_000_003.0,
            (bits % 9_999_991) as f64 / 9_999_991.0 * 100.0 - 50.0,
            word(3),
            word(7),
            word(11),
            word(13),
            word(17),
            word(19),
            bits % 2,
        )?;
    }
    Ok(text.into_bytes())
}
