//! The jobs of a folder or of a fleet, in an order, as far as they are asked for.

use std::cmp::Reverse;
use std::time::Duration;

use prs_common::job::Deployed;
use prs_common::ledger::JobState;
use prs_common::timestamp::{format_us, now_us};

use crate::failure::Failure;
use crate::homes::naming::Id;
use crate::homes::{self, Seen, Whereabouts, look_at_all};
use crate::records::{Job, Jobs};

/// Which jobs are asked for.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Jobs at most.
    pub limit: Option<usize>,
    /// Those in one of these states; in any where there is none.
    pub states: Vec<JobState>,
    /// Those of this name.
    pub name: Option<String>,
    /// Those submitted within this time.
    pub since: Option<Duration>,
    /// The jobs of the steps of this pipeline, in place of all others.
    pub parent: Option<String>,
    /// Calls of this endpoint.
    pub endpoint: Option<String>,
    /// Calls that this deployment answered.
    pub deployment: Option<String>,
    /// What comes first.
    pub order: Order,
}

impl Wanted {
    /// Whether records have to be read to know what is asked for.
    fn is_of_records(&self) -> bool {
        !self.states.is_empty()
            || self.order != Order::Time
            || self.endpoint.is_some()
            || self.deployment.is_some()
    }

    /// Whether the job answers a call that is asked for.
    fn is_called(&self, deployed: Option<&Deployed>) -> bool {
        let fits = |wanted: &Option<String>, name: fn(&Deployed) -> &str| {
            let is = |wanted: &String| deployed.is_some_and(|it| name(it).eq_ignore_ascii_case(wanted));
            wanted.as_ref().is_none_or(is)
        };
        fits(&self.endpoint, |it| &it.endpoint) && fits(&self.deployment, |it| &it.deployment)
    }
}

/// The order of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// The newest first.
    #[default]
    Time,
    /// By name; of one name the newest first.
    Name,
    /// By state; of one state the newest first.
    State,
}

/// Jobs, and how many more there are.
#[derive(Debug)]
pub struct Listed {
    /// The jobs.
    pub jobs: Vec<Seen>,
    /// Jobs beyond the number that was asked for.
    pub left_out: usize,
}

impl Listed {
    /// The same for programs.
    pub fn record(&self) -> Jobs {
        let jobs = self.jobs.iter().map(|seen| Job::seen(seen).into()).collect();
        Jobs { jobs, left_out: self.left_out as u64 }
    }
}

/// Looks at the jobs that are asked for. What their ids tell is not looked at.
pub async fn list(wanted: &Wanted, whereabouts: &Whereabouts) -> Result<Listed, Failure> {
    let Wanted { limit, states, name, since, parent, order, .. } = wanted;
    let homes = match parent {
        Some(parent) => homes::steps_of(parent, whereabouts).await?,
        None => homes::all(whereabouts).await?,
    };
    let mut known = Vec::with_capacity(homes.len());
    for home in homes {
        known.push((home.id().await, home));
    }
    let since = since.map_or(0, |since| now_us().saturating_sub(since.as_micros() as u64));
    let day_and_time = (since > 0).then(|| digits(since));
    known.retain(|(id, _)| fits(id.as_ref(), name.as_deref(), day_and_time.as_deref()));
    known.sort_by_cached_key(|(id, _)| Reverse(id.as_ref().map(|id| id.submitted.clone())));
    let mut left_out = 0;
    if let Some(wanted) = limit.filter(|_| !wanted.is_of_records()) {
        left_out = known.len().saturating_sub(wanted);
        // Of the jobs of one second the records know the order.
        let last = known.get(wanted.saturating_sub(1)).and_then(|(id, _)| id.clone());
        let same_second = |id: &Option<Id>| {
            id.as_ref().zip(last.as_ref()).is_some_and(|(one, last)| one.submitted == last.submitted)
        };
        let beyond = known.iter().skip(wanted).take_while(|(id, _)| same_second(id)).count();
        known.truncate(wanted + beyond);
    }
    let mut jobs =
        look_at_all(known.into_iter().map(|(_, home)| home).collect(), &*whereabouts.caller).await?;
    jobs.retain(|Seen { record, result, .. }| {
        record.submitted_us >= since
            && (states.is_empty() || states.contains(&result.state))
            && wanted.is_called(record.spec.deployed.as_deref())
    });
    jobs.sort_by(|one, other| {
        let key = |seen: &Seen| match order {
            Order::Time => String::new(),
            Order::Name => seen.result.name.clone(),
            Order::State => seen.result.state.as_str().to_owned(),
        };
        key(one).cmp(&key(other)).then(other.record.submitted_us.cmp(&one.record.submitted_us))
    });
    if let Some(wanted) = *limit {
        left_out = left_out.max(jobs.len().saturating_sub(wanted));
        jobs.truncate(wanted);
    }
    Ok(Listed { jobs, left_out })
}

/// Whether a job with this id may be one that is asked for.
fn fits(id: Option<&Id>, name: Option<&str>, since: Option<&str>) -> bool {
    let Some(id) = id else { return name.is_none() && since.is_none() };
    name.is_none_or(|name| id.name == name) && since.is_none_or(|since| &*id.submitted >= since)
}

/// A moment as ids have it.
fn digits(us: u64) -> String {
    format_us(us)[..19].chars().filter(char::is_ascii_digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_tell_name_and_time() {
        let id = Id::parse("rows-20261121-210310-fe8c");
        let table = [
            (None, None, true),
            (Some("rows"), None, true),
            (Some("row"), None, false),
            (None, Some("20261121210310"), true),
            (None, Some("20261121210311"), false),
        ];
        for (name, since, expected) in table {
            assert_eq!(fits(id.as_ref(), name, since), expected, "{name:?} {since:?}");
        }
        assert!(fits(None, None, None) && !fits(None, Some("rows"), None) && !fits(None, None, Some("2")));
        assert_eq!(digits(1_795_381_390_000_000), "20261122210310");
    }
}
