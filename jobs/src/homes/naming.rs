//! What a job may be called: its id, the beginning of its id, its name, `@latest`, `@failed`.
//!
//! The id of a job begins with its name and the moment of its submission, so no record needs to be read to find a job by
//! these.

use std::path::Path;

use prs_common::ledger::JobState;
use prs_common::timestamp::format_us;
use prs_orchestrator::JobRecord;

use super::home::Home;
use super::run_folder;
use crate::failure::Failure;
use crate::homes::Whereabouts;
use crate::names;

/// The job that was submitted last.
pub const LATEST: &str = "@latest";
/// The job that was submitted last of those that failed.
pub const FAILED: &str = "@failed";
/// Ids that are named where a beginning fits several.
const NAMED: usize = 5;

/// The id of a job, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Id {
    /// All of it.
    pub whole: String,
    /// The name in the job file.
    pub name: String,
    /// When it was submitted, in UTC: year, month, day, hour, minute, second, 14 digits.
    pub submitted: String,
}

impl Id {
    /// `<name>-<day>-<time>-<four hexadecimal digits>`; nothing for what is no id.
    pub fn parse(id: &str) -> Option<Self> {
        let mut parts = id.rsplitn(4, '-');
        let (last, time, day, name) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let are_digits =
            |text: &str, count| text.len() == count && text.bytes().all(|each| each.is_ascii_digit());
        let is_id = are_digits(day, 8)
            && are_digits(time, 6)
            && last.len() == 4
            && last.bytes().all(|each| each.is_ascii_hexdigit());
        is_id.then(|| Self { whole: id.to_owned(), name: name.to_owned(), submitted: format!("{day}{time}") })
    }

    /// That of a job whose user chose it.
    pub fn of(record: &JobRecord) -> Self {
        let time = format_us(record.submitted_us);
        let submitted = time[..19].chars().filter(char::is_ascii_digit).collect();
        Self { whole: record.job_id.clone(), name: record.spec.name.clone(), submitted }
    }
}

/// A job that may be meant.
struct Candidate {
    id: Id,
    home: Home,
}

/// What commands are to call the job that is named `text`. What fits no job stays as it is: the command says that there is
/// none.
pub async fn resolve(text: &str, whereabouts: &Whereabouts) -> Result<String, Failure> {
    let is_wish = text.starts_with('@');
    if is_wish && ![LATEST, FAILED].contains(&text) {
        return Err(Failure::wrong(format!("{text:?} names no job: {LATEST} and {FAILED} do")));
    }
    let on_fleet = whereabouts.urls.is_some();
    if on_fleet && run_folder::holds_a_job(text, Path::new(run_folder::RUNS)) {
        return Err(Failure::wrong(format!(
            "{text} is a job of this machine, and this command asks a fleet (prs profiles says which and why): add --local"
        )));
    }
    if !is_wish && (Id::parse(text).is_some() || (!on_fleet && is_path(text, whereabouts))) {
        return Ok(text.to_owned());
    }
    let mut candidates = Vec::new();
    for home in super::all(whereabouts).await? {
        if let Some(id) = home.id().await {
            candidates.push(Candidate { id, home });
        }
    }
    let found = match text {
        LATEST => newest(&candidates).await,
        FAILED => newest_that_failed(&mut candidates).await?,
        _ => match choose(text, &candidates.iter().map(|one| &one.id).collect::<Vec<_>>()) {
            Chosen::None => return Ok(text.to_owned()),
            Chosen::ByName(named) => {
                let named: Vec<_> =
                    candidates.into_iter().filter(|one| named.contains(&one.id.whole)).collect();
                newest(&named).await
            }
            Chosen::ByBeginning(id) => {
                candidates.iter().find(|one| one.id.whole == id).map(|one| one.home.called())
            }
            Chosen::Several(ids) => return Err(Failure::wrong(several(text, &ids))),
        },
    };
    let found = found.ok_or_else(|| {
        let what = if text == FAILED { "that failed" } else { "yet" };
        Failure::not_found(format!("there is no job {what}; prs list shows the jobs there are"))
    })?;
    if text != found {
        whereabouts.caller.note(&format_args!("{text} is {found}"));
    }
    Ok(found)
}

/// Whether `text` names a folder, which a command says more about than this. Any other folder may be called as a job is.
fn is_path(text: &str, whereabouts: &Whereabouts) -> bool {
    text.contains('/') || run_folder::holds_a_job(text, &whereabouts.runs)
}

/// The jobs that a text may mean.
#[derive(Debug, PartialEq, Eq)]
enum Chosen {
    None,
    /// All of this name.
    ByName(Vec<String>),
    /// The one whose id begins so.
    ByBeginning(String),
    /// Several ids begin so.
    Several(Vec<String>),
}

fn choose(text: &str, ids: &[&Id]) -> Chosen {
    let whole = |fits: &dyn Fn(&Id) -> bool| -> Vec<String> {
        ids.iter().filter(|id| fits(id)).map(|id| id.whole.clone()).collect()
    };
    if ids.iter().any(|id| id.whole == text) {
        return Chosen::ByBeginning(text.to_owned());
    }
    let of_this_name = whole(&|id| id.name == text);
    if !of_this_name.is_empty() {
        return Chosen::ByName(of_this_name);
    }
    let mut begin_so = whole(&|id| !text.is_empty() && id.whole.starts_with(text));
    begin_so.sort_unstable();
    match begin_so.len() {
        0 => Chosen::None,
        1 => Chosen::ByBeginning(begin_so.remove(0)),
        _ => Chosen::Several(begin_so),
    }
}

fn several(text: &str, ids: &[String]) -> String {
    let (count, named) = (ids.len(), names::first(ids, NAMED));
    format!("{count} jobs begin with {text:?}: {named}; give more of the id")
}

/// The job that was submitted last.
async fn newest(candidates: &[Candidate]) -> Option<String> {
    let second = &candidates.iter().max_by_key(|one| &one.id.submitted)?.id.submitted;
    let mut last: Vec<_> = candidates.iter().filter(|one| one.id.submitted == *second).collect();
    if last.len() > 1 {
        // Their records know the microsecond.
        let mut at = Vec::new();
        for one in &last {
            at.push((one.home.record().await.map_or(0, |record| record.submitted_us), one.home.called()));
        }
        return at.into_iter().max().map(|(_, called)| called);
    }
    last.pop().map(|one| one.home.called())
}

async fn newest_that_failed(candidates: &mut [Candidate]) -> Result<Option<String>, Failure> {
    candidates.sort_by(|one, other| {
        (&other.id.submitted, &other.id.whole).cmp(&(&one.id.submitted, &one.id.whole))
    });
    for Candidate { home, .. } in candidates {
        match home.look().await {
            Ok(seen) if seen.record.state == JobState::Failed => return Ok(Some(home.called())),
            Err(failure) if !failure.is_usage() => return Err(failure),
            Ok(_) | Err(_) => {}
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_taken_apart() {
        let id = Id::parse("some-rows-20261121-210310-fe8c").unwrap();
        assert_eq!((&*id.name, &*id.submitted), ("some-rows", "20261121210310"));
        for other in [
            "some-rows",
            "a-2026112-210310-fe8c",
            "a-20261121-210310-fe8",
            "a-20261121-210310-fg8c",
            "20261121-210310-fe8c",
        ] {
            assert_eq!(Id::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_name_comes_before_a_beginning() {
        let ids = [
            "rows-20261121-210310-fe8c",
            "rows-20261122-000000-0000",
            "rows-2-20261121-210311-aaaa",
            "x-20261121-210310-ffff",
        ];
        let parsed = ids.map(|id| Id::parse(id).unwrap());
        let choose = |text| choose(text, &parsed.iter().collect::<Vec<_>>());
        let owned = |of: &[usize]| of.iter().map(|at| ids[*at].to_owned()).collect::<Vec<_>>();
        let table = [
            ("rows", Chosen::ByName(owned(&[0, 1]))),
            ("rows-2", Chosen::ByName(owned(&[2]))),
            ("rows-20261121", Chosen::ByBeginning(owned(&[0])[0].clone())),
            ("rows-2026112", Chosen::Several(owned(&[0, 1]))),
            ("x-", Chosen::ByBeginning(owned(&[3])[0].clone())),
            ("y", Chosen::None),
            ("", Chosen::None),
        ];
        for (text, expected) in table {
            assert_eq!(choose(text), expected, "{text}");
        }
        let many: Vec<_> = (0..7).map(|number| format!("a{number}")).collect();
        assert_eq!(
            several("a", &many),
            "7 jobs begin with \"a\": a0, a1, a2, a3, a4 and 2 more; give more of the id"
        );
    }
}
