//! Descriptors of a plan in the job's storage, as they were published: a later start tells by them of which bytes the
//! mini-batches were that have rows already.
//!
//! Every start notes its plan, where inputs may change. What it has not noted when it is killed, the last second of it at most, is
//! not known later.
//! Where inputs were corrected between two starts, the plan is made once, by whoever resumes the job, and everyone who
//! publishes or audits it reads it here.

mod noted;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use prs_common::checksum::crc32c;
use prs_common::job::shuffle::ShuffleStage;
use prs_common::job::{InputSource, JobSpec};
use prs_common::layout;
use prs_common::message_pack;
use prs_common::mini_batch::{MiniBatch, MiniBatchIndex, checksum, fingerprint};
use prs_common::storage::{PutMode, Storage, StorageError, StorageErrorKind, StorageExt};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;

use super::{Batch, LARGEST_BATCH, PlanEnd};
use crate::job::corrected_plan::{CorrectedPlan, ORDER, PlanOrder, damaged};

pub(crate) use self::noted::NotedPlan;

/// Bytes of descriptors in one object, before they are compressed.
const PART: usize = 4 << 20;
/// Compression that costs nearly nothing; descriptors of one plan are alike.
const LEVEL: i32 = 1;

/// Whether a later start of a job with these settings may find other inputs: those that are listed when it runs. What was listed
/// when it was submitted stays, and so does what a shuffle has put together.
pub(super) fn may_change(spec: &JobSpec) -> bool {
    let is_listed = |source: &InputSource| matches!(source, InputSource::Paths(_) | InputSource::List(_));
    let is_given = matches!(spec.shuffle, Some(ShuffleStage::Group | ShuffleStage::Run));
    !is_given && spec.inputs.iter().any(|input| is_listed(&input.source))
}

/// Stores the plan of the start `start`, whose mini-batches have these descriptors, in input order, and what was `found` at its
/// end. Nothing that another program stores for that start is written over.
pub(super) async fn store(
    storage: &dyn Storage,
    start: u32,
    (bodies, end): (&[Bytes], MiniBatchIndex),
    found: &PlanEnd,
) -> Result<CorrectedPlan, StorageError> {
    let order = PlanOrder::of(bodies, end).encode();
    let found = message_pack::encode(found);
    let content = content(bodies.iter().map(|body| &**body).chain([&*order, &*found]));
    let mut plan = CorrectedPlan { start, content, parts: 0, order: crc32c(&order) };
    for part in cut(bodies) {
        put_part(storage, plan.key(&part_name(plan.parts)), part.to_vec()).await?;
        plan.parts += 1;
    }
    storage.put(&plan.key(FOUND), found.into(), PutMode::Overwrite).await?;
    storage.put(&plan.key(ORDER), order.into(), PutMode::Overwrite).await?;
    Ok(plan)
}

/// What was found at the end of `plan`.
pub(super) async fn found(plan: CorrectedPlan, storage: &dyn Storage) -> Result<PlanEnd, StorageError> {
    let key = plan.key(FOUND);
    let object = storage.get(&key).await?;
    message_pack::decode(&object).map_err(|_| damaged(storage, key))
}

/// Name of the object with what was found at the end of a plan.
const FOUND: &str = "found";

fn part_name(part: u32) -> String {
    format!("{part:06}")
}

/// The beginning of the checksum (SHA-256) of all of these.
fn content<'a>(all: impl Iterator<Item = &'a [u8]>) -> u64 {
    let mut hasher = Sha256::new();
    for one in all {
        hasher.update((one.len() as u64).to_le_bytes());
        hasher.update(one);
    }
    hasher.finalize().iter().take(8).fold(0, |begun, byte| begun << 8 | u64::from(*byte))
}

/// Sends the descriptors of `plan`, in input order, piece by piece, until nobody wants more.
pub(super) async fn send(
    plan: CorrectedPlan,
    storage: Arc<dyn Storage>,
    pieces: mpsc::Sender<Batch>,
) -> Result<(), StorageError> {
    let mut first = 0;
    for part in 0..plan.parts {
        let bodies = get_part(&storage, plan.key(&part_name(part))).await?;
        for bodies in bodies.chunks(LARGEST_BATCH) {
            let mut batch = Batch { first, ..Batch::default() };
            for body in bodies {
                let read = MiniBatch::decode(body);
                let read = read.map_err(|_| damaged(&*storage, plan.key(ORDER)))?;
                batch.items += read.items();
                let added = fingerprint(read.index, checksum(body));
                batch.descriptors = batch.descriptors.wrapping_add(added);
                batch.indexes.push(read.index);
                batch.bodies.push(body.clone());
            }
            first += bodies.len() as u64;
            if pieces.send(batch).await.is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Notes of former starts on their plans: the descriptors of each mini-batch, the newest last.
#[derive(Debug, Default)]
pub(in crate::plan) struct FormerPlans {
    pub(in crate::plan) bodies: BTreeMap<MiniBatchIndex, Vec<Bytes>>,
}

impl FormerPlans {
    /// Reads those of the starts up to `last`, and behind them `corrected`, the plan that the last of them had where inputs were
    /// corrected: it has the descriptors of all mini-batches with rows then. One that is damaged says nothing, and a plan that no
    /// start had is none of them.
    pub(in crate::plan) async fn read(
        storage: &Arc<dyn Storage>,
        last: u32,
        corrected: Option<CorrectedPlan>,
    ) -> Result<Self, StorageError> {
        let mut found = Self::default();
        for start in 1..=last {
            for part in 0.. {
                if !found.take_in(get_part(storage, layout::noted_plan(start, part)).await)? {
                    break;
                }
            }
        }
        if let Some(plan) = corrected {
            for part in 0..plan.parts {
                found.take_in(get_part(storage, plan.key(&part_name(part))).await)?;
            }
        }
        Ok(found)
    }

    /// Takes in a part; false where there is none.
    fn take_in(&mut self, part: Result<Vec<Bytes>, StorageError>) -> Result<bool, StorageError> {
        match part {
            Ok(bodies) => bodies.into_iter().for_each(|body| self.add(body)),
            Err(error) if error.kind == StorageErrorKind::NotFound => return Ok(false),
            Err(error) if error.kind == StorageErrorKind::Damaged => {
                tracing::warn!(%error, "what it says of a former start is not known");
            }
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    fn add(&mut self, body: Bytes) {
        let Ok(index) = MiniBatch::peek_index(&body) else { return };
        let known = self.bodies.entry(index).or_default();
        known.retain(|known| *known != body);
        known.push(body);
    }
}

/// The descriptors of one object each.
fn cut(bodies: &[Bytes]) -> impl Iterator<Item = &[Bytes]> {
    let mut rest = bodies;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let full = rest.iter().position(|body| {
            bytes += body.len();
            bytes >= PART
        });
        let (part, later) = rest.split_at(full.map_or(rest.len(), |at| at + 1));
        rest = later;
        (!part.is_empty()).then_some(part)
    })
}

/// Layout of an object: the CRC32C of the rest; compressed, each descriptor behind its length, both as `u32`, little-endian.
fn encode(bodies: &[Bytes]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(bodies.iter().map(|body| body.len() + 4).sum());
    for body in bodies {
        plain.extend_from_slice(&(body.len() as u32).to_le_bytes());
        plain.extend_from_slice(body);
    }
    let packed = zstd::bulk::compress(&plain, LEVEL).expect("memory holds what it held before");
    let mut object = crc32c(&packed).to_le_bytes().to_vec();
    object.extend_from_slice(&packed);
    object
}

fn decode(object: &[u8]) -> Option<Vec<Bytes>> {
    let (sum, packed) = object.split_first_chunk()?;
    if u32::from_le_bytes(*sum) != crc32c(packed) {
        return None;
    }
    let mut plain = Bytes::from(zstd::decode_all(packed).ok()?);
    let mut bodies = Vec::new();
    while !plain.is_empty() {
        let length = u32::from_le_bytes(*plain.first_chunk()?) as usize;
        if plain.len() - 4 < length {
            return None;
        }
        let _ = plain.split_to(4);
        bodies.push(plain.split_to(length));
    }
    Some(bodies)
}

async fn put_part(storage: &dyn Storage, key: String, bodies: Vec<Bytes>) -> Result<(), StorageError> {
    let encoded = tokio::task::spawn_blocking(move || encode(&bodies)).await;
    let object = encoded.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
    storage.put(&key, object.into(), PutMode::Overwrite).await.map(drop)
}

async fn get_part(storage: &Arc<dyn Storage>, key: String) -> Result<Vec<Bytes>, StorageError> {
    let object = storage.get(&key).await?;
    decode(&object).ok_or_else(|| damaged(&**storage, key))
}
