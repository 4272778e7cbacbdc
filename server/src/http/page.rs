//! A page of a list, as all lists have it: in its body the cursor of the next page, and in the header `Link` the address of that.

use axum::Json;
use axum::http::HeaderValue;
use axum::http::header::LINK;
use axum::response::{IntoResponse, Response};
use prs_common::timestamp::{format_us, now_us};
use serde::Serialize;

use super::params::Params;

/// A page of a list.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "PageOf{T}"))]
pub(crate) struct Page<T> {
    pub(crate) value: Vec<T>,
    pub(crate) next_cursor: Option<String>,
    pub(crate) total: Option<u64>,
    pub(crate) as_of: String,
}

impl<T: Serialize> Page<T> {
    /// A page of what is so now.
    pub(crate) fn now(value: Vec<T>, next_cursor: Option<String>, total: Option<u64>) -> Self {
        Self { value, next_cursor, total, as_of: format_us(now_us()) }
    }

    /// All of a list in one page.
    pub(crate) fn whole(value: Vec<T>) -> Self {
        let total = Some(value.len() as u64);
        Self::now(value, None, total)
    }

    /// The answer to a request with these parameters.
    pub(crate) fn answer(self, params: &Params) -> Response {
        let next = self.next_cursor.clone();
        with_next(params, next.as_deref(), Json(self))
    }
}

/// An answer with the address of the next page, which begins at the cursor `next` of the list that was asked for with `params`.
pub(crate) fn with_next(params: &Params, next: Option<&str>, answer: impl IntoResponse) -> Response {
    let mut response = answer.into_response();
    let link = next.and_then(|next| {
        let rest = params.without(&["cursor"]);
        let and = if rest.is_empty() { "" } else { "&" };
        let address = format!("{}?{rest}{and}cursor={next}", params.path());
        HeaderValue::from_str(&format!("<{address}>; rel=\"next\"")).ok()
    });
    response.headers_mut().extend(link.map(|link| (LINK, link)));
    response
}

/// The page of a list that is all there at once and is never long: what is behind the number of entries that stands in its cursor.
pub(crate) fn slice<T: Serialize>(
    all: Vec<T>,
    of: &str,
    params: &Params,
) -> Result<Page<T>, crate::problem::Problem> {
    let limit = params.limit()?;
    let of = format!("{of}?{}", params.without(&["limit", "cursor"]));
    let from: usize =
        params.one("cursor")?.map(|text| super::cursor::read(&of, text)).transpose()?.unwrap_or(0);
    let total = all.len();
    let value: Vec<T> = all.into_iter().skip(from).take(limit).collect();
    let next = from + value.len();
    let next_cursor = (next < total).then(|| super::cursor::write(&of, &next));
    Ok(Page::now(value, next_cursor, Some(total as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_leads_to_the_next() {
        let at = |query: &str| {
            let params = Params::at("/api/v1/endpoints", query);
            let page = slice(vec![1, 2, 3], "endpoints", &params).unwrap();
            let (value, next) = (page.value.clone(), page.next_cursor.clone());
            let link = page.answer(&params).headers().get(LINK).map(|link| link.to_str().unwrap().to_owned());
            (value, next, link)
        };
        let (value, next, link) = at("limit=2&q=a%20b");
        let next = next.unwrap();
        assert_eq!(value, [1, 2]);
        let expected = format!("</api/v1/endpoints?limit=2&q=a+b&cursor={next}>; rel=\"next\"");
        assert_eq!(link, Some(expected));
        assert_eq!(at(&format!("limit=2&q=a+b&cursor={next}")), (vec![3], None, None));
        assert_eq!(at("limit=3"), (vec![1, 2, 3], None, None));
        let other = Params::at("/api/v1/endpoints", &format!("q=c&cursor={next}"));
        assert!(slice(vec![1], "endpoints", &other).is_err(), "a cursor of other filters");
    }
}
