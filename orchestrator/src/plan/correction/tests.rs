//! Random corrections of random inputs: rows that are there stay, in their places, and the rest is that of the inputs as they are
//! now.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use prs_common::checksum::crc32c;
use prs_common::file_content::{Contents, FileContent, FileState, Reading, checksum as checksum_of};
use prs_common::file_version::unpack;
use prs_common::job::{InputKind, InputSource, MiniBatchSize, TabularOptions};

use super::super::stored::NotedPlan;
use super::*;
use crate::fixtures::Fixture;

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % end.max(1) as u64) as usize
    }
}

/// The form of an input.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Form {
    Csv,
    Lines,
    Files,
}

/// The records of each file.
type Tables = Vec<Vec<String>>;

impl Form {
    /// A record. A file has the number in its name and stands by that among others.
    fn record(self, number: usize, text: &str) -> String {
        match self {
            Self::Csv => format!("{number},\"{text}\n,\"\n"),
            Self::Lines => format!("{{\"n\": {number}, \"t\": \"{text}\"}}\n"),
            Self::Files => format!("{number:05} {text}\n"),
        }
    }

    fn write(self, folder: &Path, tables: &Tables) {
        for entry in fs::read_dir(folder).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        for (number, records) in tables.iter().enumerate() {
            match self {
                Self::Csv => {
                    fs::write(folder.join(format!("{number}.csv")), format!("n,t\n{}", records.concat()))
                }
                Self::Lines => fs::write(folder.join(format!("{number}.jsonl")), records.concat()),
                Self::Files => {
                    records.iter().try_for_each(|record| fs::write(folder.join(&record[..5]), record))
                }
            }
            .unwrap();
        }
    }
}

/// A job over tables, of a few records a mini-batch.
async fn fixture(form: Form, tables: &Tables) -> Fixture {
    let mut fixture = Fixture::new(0).await;
    let folder = fixture.inputs();
    form.write(&folder, tables);
    let spec = fixture.spec();
    spec.mini_batch_size = MiniBatchSize::Files(3);
    if form != Form::Files {
        spec.mini_batch_size = MiniBatchSize::Bytes(60);
        let input = &mut spec.inputs[0];
        (input.kind, input.source) =
            (InputKind::Tabular, InputSource::Paths(vec![folder.display().to_string()]));
        input.tabular = Some(TabularOptions::default());
    }
    fixture
}

/// The plan of the inputs as they are.
async fn natural(job: &JobContext) -> Vec<Bytes> {
    let mut bodies = Vec::new();
    let all = each(job, |batch| {
        bodies.extend(batch.bodies);
        true
    });
    all.await.unwrap();
    bodies
}

/// The bytes that a mini-batch is of, as they are now; its checksum is compared.
fn bytes_of(body: &Bytes) -> Vec<u8> {
    match MiniBatch::decode(body).unwrap().work {
        Work::Slice(slice) => {
            let bytes = fs::read(slice.key).unwrap()[slice.start as usize..slice.end as usize].to_vec();
            assert_eq!(crc32c(&bytes), slice.checksum);
            bytes
        }
        Work::Files { base, paths, versions, .. } => {
            assert_eq!(unpack(versions).count(), paths.len());
            paths.iter().flat_map(|path| fs::read(format!("{base}/{path}")).unwrap()).collect()
        }
        work => panic!("{work:?}"),
    }
}

/// The contents of the files of a mini-batch, as its process notes them.
fn contents_of(body: &Bytes) -> Contents {
    let mut contents = Contents::here();
    if let Work::Files { base, paths, .. } = MiniBatch::decode(body).unwrap().work {
        for path in paths {
            let path = Path::new(base).join(path);
            let state = FileState::at(&path).unwrap();
            let read = checksum_of(&path, &state, Reading::Cached).unwrap();
            contents.push(&FileContent::new(&state, read));
        }
    }
    contents
}

/// A job of which some mini-batches were done: their bytes then, by index.
struct Done {
    fixture: Fixture,
    /// The start that it is at, and the plan of that.
    job: JobContext,
    bodies: Vec<Bytes>,
    known: KnownChecksums,
    bytes: BTreeMap<MiniBatchIndex, Vec<u8>>,
    contents: BTreeMap<MiniBatchIndex, Box<Contents>>,
    end: MiniBatchIndex,
}

impl Done {
    async fn new(form: Form, tables: &Tables, random: &mut Random) -> Self {
        let fixture = fixture(form, tables).await;
        let (job, bodies) = (fixture.job.clone(), natural(&fixture.job).await);
        let (known, bytes) = (KnownChecksums::new(), BTreeMap::new());
        let contents = BTreeMap::new();
        let mut done = Self { fixture, job, bodies, known, bytes, contents, end: 0 };
        done.run(random).await;
        done
    }

    /// Notes the plan, and ends about half of what is left of it.
    async fn run(&mut self, random: &mut Random) {
        if self.job.corrected.is_none() {
            let mut noted = NotedPlan::of(&self.job).unwrap();
            self.bodies.chunks(3).for_each(|bodies| noted.add(bodies));
            noted.finish().await;
        }
        for body in self.bodies.clone() {
            self.end = self.end.max(MiniBatch::peek_index(&body).unwrap() + 1);
            if random.below(2) == 0 {
                self.end(&body);
            }
        }
    }

    fn end(&mut self, body: &Bytes) {
        let index = MiniBatch::peek_index(body).unwrap();
        if !self.bytes.contains_key(&index) {
            self.known.resize(self.known.len().max(index as usize + 1), 0);
            self.known[index as usize] = checksum(body);
            self.bytes.insert(index, bytes_of(body));
            self.contents.insert(index, Box::new(contents_of(body)));
        }
    }

    /// The files of mini-batches that are done get the time of change that they had.
    fn restore_times(&self) {
        let is_done = |body: &&Bytes| self.bytes.contains_key(&MiniBatch::peek_index(body).unwrap());
        for body in self.bodies.iter().filter(is_done) {
            let Work::Files { base, paths, versions, .. } = MiniBatch::decode(body).unwrap().work else {
                panic!()
            };
            for (path, version) in paths.iter().zip(unpack(versions)) {
                let since = std::time::Duration::new(version.seconds as u64, version.nanoseconds);
                if let Ok(file) = fs::File::options().append(true).open(format!("{base}/{path}")) {
                    file.set_modified(std::time::UNIX_EPOCH + since).unwrap();
                }
            }
        }
    }

    /// Goes on: the plan is that of the next start. Whether it was corrected is said.
    async fn resume(&mut self) -> Result<bool, CorrectionError> {
        let job = JobContext { incarnation: self.job.incarnation + 1, ..self.job.clone() };
        let Self { known, end, contents, .. } = self;
        let known = WithRows { checksums: known.clone(), contents: contents.clone(), end: *end };
        let corrected = match look(&job, known).await? {
            Inputs::AsTheyWere => {
                (self.bodies, self.job) = (natural(&job).await, job);
                return Ok(false);
            }
            Inputs::Corrected(corrected) => corrected,
        };
        let plan = corrected.store(&*job.storage, job.incarnation).await.unwrap();
        self.job = JobContext { corrected: Some(plan), known_order: Arc::default(), ..job };
        let order = self.job.order().await.unwrap().unwrap();
        let (mut pieces, _reader) = plan_aside(&self.job, &CancellationToken::new());
        self.bodies.clear();
        while let Some(piece) = pieces.recv().await {
            for (index, body) in piece.into_indexed() {
                assert_eq!(MiniBatch::peek_index(&body).unwrap(), index);
                let position = self.bodies.len();
                assert_eq!((order.position(index), order.index_at(position)), (Some(position), Some(index)));
                self.bodies.push(body);
            }
        }
        Ok(true)
    }

    /// The records, by file and place, of mini-batches that are done.
    fn records(&self, tables: &Tables) -> BTreeSet<(usize, usize)> {
        let mut of_done = BTreeSet::new();
        for (file, records) in tables.iter().enumerate() {
            for (at, record) in records.iter().enumerate() {
                let is_in =
                    |bytes: &Vec<u8>| bytes.windows(record.len()).any(|part| part == record.as_bytes());
                if self.bytes.values().any(is_in) {
                    of_done.insert((file, at));
                }
            }
        }
        of_done
    }
}

fn tables(form: Form, random: &mut Random) -> Tables {
    let mut number = 0;
    let mut record = |random: &mut Random| {
        number += 1_000;
        form.record(number, &format!("r{number:04}{}", "x".repeat(random.below(20))))
    };
    (0..=random.below(3)).map(|_| (0..random.below(30)).map(|_| record(random)).collect()).collect()
}

/// Changes records that are not `kept`; and adds, so far `apart` in number, and removes some.
fn correct(
    form: Form,
    tables: &Tables,
    kept: &BTreeSet<(usize, usize)>,
    apart: usize,
    random: &mut Random,
) -> Tables {
    let mut corrected = Tables::new();
    for (file, records) in tables.iter().enumerate() {
        let mut now = Vec::new();
        for (at, record) in records.iter().enumerate() {
            let number = match form {
                Form::Files => record[..5].parse::<usize>().unwrap(),
                Form::Csv | Form::Lines => 1_000,
            };
            let fresh = |random: &mut Random, number: usize, length: usize| {
                let text = format!("c{:06}{}", random.below(1_000_000), "y".repeat(length));
                form.record(number, &text)
            };
            // Between two records of one mini-batch that is done nothing can come.
            let is_apart = !kept.contains(&(file, at)) && (at == 0 || !kept.contains(&(file, at - 1)));
            match random.below(8) {
                _ if kept.contains(&(file, at)) => now.push(record.clone()),
                0 => now.push(fresh(random, number, 0)),
                1 => now.push(fresh(random, number, 30)),
                2 => {}
                3 if is_apart => {
                    now.extend([
                        fresh(random, number - apart, 5),
                        record.clone(),
                        fresh(random, number + apart, 1),
                    ]);
                }
                _ => now.push(record.clone()),
            }
        }
        corrected.push(now);
    }
    corrected
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_rows_keeps_its_place_and_the_rest_is_that_of_the_corrected_inputs() {
    let (mut again, mut kept) = (0, 0);
    for seed in 0..45 {
        let mut random = Random(seed);
        let form = [Form::Csv, Form::Lines, Form::Files][seed as usize % 3];
        let mut tables = tables(form, &mut random);
        let mut done = Done::new(form, &tables, &mut random).await;
        // Names that nothing has yet.
        for apart in [200, 40, 8] {
            tables = correct(form, &tables, &done.records(&tables), apart, &mut random);
            form.write(&done.fixture.inputs(), &tables);
            // Files that have rows are written anew, with the same content.
            if form == Form::Files && random.below(2) == 0 {
                done.restore_times();
            }
            again += usize::from(done.resume().await.unwrap_or_else(|error| panic!("seed {seed}: {error}")));
            let mut rows = Vec::new();
            let mut indexes = BTreeSet::new();
            for body in &done.bodies {
                let index = MiniBatch::peek_index(body).unwrap();
                assert!(indexes.insert(index), "seed {seed}: {index} twice");
                if let Some(bytes) = done.bytes.get(&index) {
                    assert_eq!(checksum(body), done.known[index as usize], "seed {seed}");
                    kept += 1;
                    rows.extend_from_slice(bytes);
                } else {
                    rows.extend(bytes_of(body));
                }
            }
            assert_eq!(String::from_utf8(rows).unwrap(), tables.concat().concat(), "seed {seed} {form:?}");
            assert!(done.bytes.keys().all(|index| indexes.contains(index)), "seed {seed}: rows are lost");
            done.run(&mut random).await;
        }
    }
    assert!(again > 40 && kept > 200, "{again} {kept}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_what_changed_stop_the_job_by_file_and_mini_batch() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let form = [Form::Csv, Form::Lines, Form::Files][seed as usize % 3];
        let mut records = tables(form, &mut random);
        records[0].insert(0, form.record(0, "first"));
        let mut done = Done::new(form, &records, &mut random).await;
        done.end(&done.bodies[0].clone());
        let mut told = String::from("0");
        match (form, random.below(3)) {
            (_, 0) => records[0][0] = form.record(0, "other"),
            (_, 1) => records[0][0] = form.record(0, "a longer one"),
            (Form::Files, _) => drop(records[0].remove(0)),
            // The types of its columns are others.
            (Form::Csv, _) => {
                records[0].push("word,t\n".to_owned());
                told = "n is str and was int64".to_owned();
            }
            (Form::Lines, _) => {
                records[0].push("{\"n\": 0.5, \"t\": \"\"}".to_owned());
                told = "n is float64 and was int64".to_owned();
            }
        }
        form.write(&done.fixture.inputs(), &records);
        if form == Form::Files && random.below(2) == 0 {
            done.restore_times();
        }
        let error = done.resume().await.unwrap_err().to_string();
        assert!(
            error.contains("the job has rows of what they were") && error.contains(&told),
            "seed {seed}: {error}"
        );
        assert!(done.job.storage.list_all("plan/0002/").await.unwrap().is_empty(), "nothing is written");
    }
}
