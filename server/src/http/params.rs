//! The parameters of an address. One that is not known is refused: a slip of the pen must not give a list without its filter.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use prs_common::near_name::nearest;
use url::form_urlencoded::parse;

use super::paths;
use crate::problem::{Kind, Problem};

/// The parameters of a request, as they stand in its address.
#[derive(Debug, Clone, Default)]
pub(crate) struct Params {
    /// The path of the address.
    path: String,
    given: Vec<(String, String)>,
}

impl<S: Sync> FromRequestParts<S> for Params {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let params = Self::at(parts.uri.path(), parts.uri.query().unwrap_or_default());
        params.all("path").into_iter().try_for_each(|path| paths::check(path.as_bytes()))?;
        if parts.uri.path().starts_with(OF_PROGRAMS) {
            params.check_filled()?;
        }
        Ok(params)
    }
}

/// What the addresses for programs begin with. Browsers send fields of forms that nobody filled; a program that does made a mistake.
const OF_PROGRAMS: &str = "/api/";

impl Params {
    /// Refuses one without a value.
    fn check_filled(&self) -> Result<(), Problem> {
        match self.given.iter().find(|(_, value)| value.is_empty()) {
            Some((name, _)) => Err(bad(name, "it is empty: leave it out, or give a value")),
            None => Ok(()),
        }
    }

    /// The parameters in `query`.
    #[cfg(test)]
    pub(crate) fn parse(query: &str) -> Self {
        Self::at("", query)
    }

    /// The parameters in `query` of an address with this path.
    pub(crate) fn at(path: &str, query: &str) -> Self {
        let given = parse(query.as_bytes()).map(|(name, value)| (name.into_owned(), value.into_owned()));
        Self { path: path.to_owned(), given: given.collect() }
    }

    /// The path of the address.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The same parameters but for `names`, and `more` of them.
    pub(crate) fn and(&self, names: &[&str], more: Vec<(String, String)>) -> Self {
        let kept = self.given.iter().filter(|(name, _)| !names.contains(&name.as_str())).cloned();
        Self { path: self.path.clone(), given: kept.chain(more).collect() }
    }

    /// Refuses any that is not `known`.
    pub(crate) fn check(&self, known: &[&str]) -> Result<(), Problem> {
        let Some((name, _)) = self.given.iter().find(|(name, _)| !known.contains(&name.as_str())) else {
            return Ok(());
        };
        let meant = nearest(name, known).map(|meant| format!(" Is {meant} meant?")).unwrap_or_default();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Err(Problem::new(
            Kind::BAD_PARAMETER,
            format_args!("There is no parameter {name:?} here.{meant} Known: {known}."),
        ))
    }

    /// Whether `name` stands there, with a value or without.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.given.iter().any(|(each, _)| each == name)
    }

    /// All values of `name`, none of them empty.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        let values = self.given.iter().filter(|(each, value)| each == name && !value.is_empty());
        values.map(|(_, value)| value.as_str()).collect()
    }

    /// The value of `name`, which may stand once.
    pub(crate) fn one(&self, name: &str) -> Result<Option<&str>, Problem> {
        match self.all(name).as_slice() {
            [] => Ok(None),
            [value] => Ok(Some(value)),
            _ => Err(bad(name, "it stands there several times")),
        }
    }

    /// The value of `name` as what it stands for; `takes` says what that is.
    pub(crate) fn value<T: FromStr>(&self, name: &str, takes: &str) -> Result<Option<T>, Problem> {
        let parse =
            |value: &str| value.parse().map_err(|_| bad(name, format_args!("{value:?} is not {takes}")));
        self.one(name)?.map(parse).transpose()
    }

    /// All values of `name`, as what they stand for; `takes` says what that is.
    pub(crate) fn values<T: FromStr>(&self, name: &str, takes: &str) -> Result<Vec<T>, Problem> {
        let parse =
            |value: &str| value.parse().map_err(|_| bad(name, format_args!("{value:?} is not {takes}")));
        self.all(name).into_iter().map(parse).collect()
    }

    /// All values of `name`, as texts of their own.
    pub(crate) fn texts(&self, name: &str) -> Vec<String> {
        self.all(name).into_iter().map(str::to_owned).collect()
    }

    /// The value of `name`, true or false, or 1 or 0 for them.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, Problem> {
        match self.one(name)? {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1") => Ok(true),
            Some(other) => Err(bad(name, format_args!("{other:?} is not true or false"))),
        }
    }

    /// The number `name` between `least` and `most`.
    pub(crate) fn number(&self, name: &str, (least, most): (u64, u64)) -> Result<Option<u64>, Problem> {
        let takes = format!("a number from {least} to {most}");
        let value: Option<u64> = self.value(name, &takes)?;
        match value {
            Some(value) if !(least..=most).contains(&value) => {
                Err(bad(name, format_args!("{value} is not {takes}")))
            }
            value => Ok(value),
        }
    }

    /// How many entries a page of a list has at most.
    pub(crate) fn limit(&self) -> Result<usize, Problem> {
        Ok(self.number("limit", (1, 500))?.unwrap_or(50) as usize)
    }

    /// The moment `name`, microseconds since the Unix epoch: RFC 3339 in UTC, or how long before `now_us`: `2d`.
    pub(crate) fn moment(&self, name: &str, now_us: u64) -> Result<Option<u64>, Problem> {
        let Some(value) = self.one(name)? else { return Ok(None) };
        let ago = ago(value).map(|ago| now_us.saturating_sub(ago.as_micros() as u64));
        let at = || u64::try_from(value.parse::<jiff::Timestamp>().ok()?.as_microsecond()).ok();
        ago.or_else(at).map(Some).ok_or_else(|| {
            bad(
                name,
                format_args!("{value:?} is neither a moment such as 2026-11-21T12:00:00Z nor a time ago such as 90s, 15m, 6h, 2d"),
            )
        })
    }

    /// The same parameters but for `names`, for an address.
    pub(crate) fn without(&self, names: &[&str]) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        for (name, value) in
            self.given.iter().filter(|(name, value)| !names.contains(&name.as_str()) && !value.is_empty())
        {
            query.append_pair(name, value);
        }
        query.finish()
    }
}

/// A parameter that cannot be used.
pub(crate) fn bad(name: &str, why: impl Display) -> Problem {
    Problem::new(Kind::BAD_PARAMETER, format_args!("The parameter {name:?} cannot be used: {why}."))
}

/// `90s`, `15m`, `6h`, `2d`.
fn ago(text: &str) -> Option<Duration> {
    let unit = text.chars().last()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return None,
    };
    let amount: u64 = text[..text.len() - 1].parse().ok()?;
    Some(Duration::from_secs(amount.checked_mul(seconds)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_refused_with_what_is() {
        let params = Params::parse("state=failed&state=running&limt=5");
        assert_eq!(params.all("state"), ["failed", "running"]);
        let problem = params.check(&["state", "limit"]).unwrap_err();
        assert_eq!(
            problem.detail,
            "There is no parameter \"limt\" here. Is limit meant? Known: state, limit."
        );
        assert!(params.one("state").is_err(), "one value is wanted");
        assert!(params.check_filled().is_ok() && Params::parse("state=&q=a").check_filled().is_err());
    }

    #[test]
    fn values_have_a_form() {
        let params = Params::parse("limit=0&flag=yes&n=7&since=2d&until=2026-11-21T12:00:00Z&x=soon");
        assert!(params.limit().is_err() && params.flag("flag").is_err());
        let flags = Params::parse("a=1&b=true&c=0&d=false");
        assert_eq!(
            ["a", "b", "c", "d", "e"].map(|name| flags.flag(name).unwrap()),
            [true, true, false, false, false]
        );
        assert_eq!(params.number("n", (0, 10)).unwrap(), Some(7));
        let day = 86_400_000_000;
        assert_eq!(params.moment("since", 3 * day).unwrap(), Some(day));
        assert_eq!(params.moment("until", 0).unwrap(), Some(1_795_262_400_000_000));
        assert!(params.moment("x", 0).is_err());
        for (text, expected) in [("1h", Some(3600)), ("h", None), ("-1h", None), ("1w", None), ("", None)] {
            assert_eq!(ago(text).map(|ago| ago.as_secs()), expected, "{text}");
        }
    }

    #[test]
    fn an_address_keeps_the_other_parameters() {
        assert_eq!(Params::parse("q=a%20b&cursor=x&state=").without(&["cursor"]), "q=a+b");
    }
}
