//! How pages look to one reader: which theme, whose clock, whether single letters are keys. Three cookies hold it, and the first tag of each page
//! says it, so that nothing flashes before the script runs.

use axum::body::{Body, to_bytes};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, COOKIE};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;

/// How every page begins.
const BEGINS: &str = "<!DOCTYPE html>\n<html lang=\"en\"";

/// What can be chosen: its name, and the words, of which the first is taken where nothing is chosen.
pub(crate) const CHOICES: [(&str, &[&str]); 3] =
    [("theme", &["system", "light", "dark"]), ("zone", &["local", "utc"]), ("keys", &["on", "off"])];

/// The name of the cookie of a choice.
pub(crate) fn cookie(choice: &str) -> String {
    format!("prs-{choice}")
}

/// What the reader chose, in the order of [`CHOICES`]; nothing for what is as it is from the beginning.
pub(crate) fn chosen(headers: &HeaderMap) -> [Option<&'static str>; 3] {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs: Vec<(&str, &str)> =
        cookies.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('=')).collect();
    CHOICES.map(|(name, words)| {
        let of_it = cookie(name);
        let value = pairs.iter().find_map(|(name, value)| (*name == of_it).then_some(*value));
        words[1..].iter().copied().find(|word| Some(*word) == value)
    })
}

/// The page as the reader wants it; what is no page stays as it is.
pub(crate) async fn applied(chosen: [Option<&'static str>; 3], response: Response) -> Response {
    let kind = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    if chosen.iter().all(Option::is_none) || kind != Some(b"text/html; charset=utf-8") {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // A page is in memory as a whole.
    let Ok(page) = to_bytes(body, usize::MAX).await else {
        return Response::from_parts(parts, Body::empty());
    };
    let Some(rest) = page.strip_prefix(BEGINS.as_bytes()) else {
        return Response::from_parts(parts, Body::from(page));
    };
    let mut whole = BEGINS.to_owned().into_bytes();
    for ((name, _), word) in CHOICES.iter().zip(chosen) {
        if let Some(word) = word {
            whole.extend_from_slice(format!(" data-{name}=\"{word}\"").as_bytes());
        }
    }
    whole.extend_from_slice(rest);
    parts.headers.remove(CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(whole))
}

#[cfg(test)]
mod tests {
    use axum::response::{Html, IntoResponse};

    use super::*;

    #[test]
    fn only_known_words_are_taken_from_cookies() {
        let of = |text: &str| chosen(&HeaderMap::from_iter([(COOKIE, text.parse().unwrap())]));
        assert_eq!(of("a=b; prs-theme=dark; prs-zone=utc"), [Some("dark"), Some("utc"), None]);
        assert_eq!(of("prs-theme=system; prs-zone=\"><script>; prs-keys=off"), [None, None, Some("off")]);
        assert_eq!(chosen(&HeaderMap::new()), [None; 3]);
    }

    #[tokio::test]
    async fn the_first_tag_of_a_page_says_it() {
        let text = async |response: Response| {
            String::from_utf8(to_bytes(response.into_body(), 1 << 20).await.unwrap().to_vec()).unwrap()
        };
        let page = || Html(format!("{BEGINS}>\n<head>")).into_response();
        let chosen = [Some("dark"), None, Some("off")];
        assert_eq!(
            text(applied(chosen, page()).await).await,
            "<!DOCTYPE html>\n<html lang=\"en\" data-theme=\"dark\" data-keys=\"off\">\n<head>"
        );
        assert_eq!(text(applied([None; 3], page()).await).await, format!("{BEGINS}>\n<head>"));
        assert_eq!(text(applied(chosen, Html("<tr>").into_response()).await).await, "<tr>");
        assert_eq!(text(applied(chosen, "x".into_response()).await).await, "x");
    }
}
