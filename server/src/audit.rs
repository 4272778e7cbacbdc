//! A line of the audit for every request that changes something, or was refused to: one layer around all addresses, so that no handler
//! can forget it. What is done is told by the address alone, so an address that is new has its line, too.

use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{CONTENT_TYPE, ETAG, IF_MATCH, LOCATION};
use axum::http::{HeaderMap, HeaderName, Method};
use axum::middleware::Next;
use axum::response::Response;
use prs_common::timestamp::{format_us, now_us};
use prs_jobs::audit::{Audit, AuditLine, without_tokens};
use tracing::info;

use crate::app::App;
use crate::auth::oidc::RETURN;
use crate::auth::{How, Principal};
use crate::http::addresses;
use crate::problem::{Kind, Problem};

/// The number of a request.
#[derive(Debug, Clone)]
pub(crate) struct RequestId(pub(crate) String);

/// Where what was made is, for an answer that shows it at once and leads nowhere.
#[derive(Debug, Clone)]
pub(crate) struct Made(pub(crate) String);

/// Who asks, once that is known; the layers further in say it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asking(Arc<Mutex<Option<Principal>>>);

impl Asking {
    /// Says who asks.
    pub(crate) fn is(&self, who: &Principal) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(who.clone());
    }

    fn who(&self) -> Option<Principal> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What is said of a request that nobody waits for any longer.
const LEFT: u16 = 499;

/// What is said of a form that came back with what was wrong with it.
const NOT_DONE: &str = "not-done";

/// What changes nothing but how pages look to one reader.
const UNNOTED: &str = "/display";

/// Actions whose names do not follow from their addresses.
const NAMES: &[(&str, &str)] = &[
    ("job.create", "job.submit"),
    ("submit.create", "job.submit"),
    ("job.delete", "job.remove"),
    ("token.delete", "token.revoke"),
    ("login.create", "session.create"),
    ("logout.create", "session.end"),
];

/// Serves one request, and notes what became of it where it may change something.
pub(crate) async fn audited(
    State(app): State<App>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str).unwrap_or_default();
    // A browser that comes back from the identity provider can only get, and begins a session.
    let begins_session = route == RETURN;
    if (request.method().is_safe() && !begins_session) || request.uri().path() == UNNOTED {
        return Ok(next.run(request).await);
    }
    let action = if begins_session { "session.create".to_owned() } else { action(request.method(), route) };
    let path = request.uri().path();
    if app.audit.is_stuck() && !action.starts_with("session.") {
        return Err(Problem::new(
            Kind::SERVERS_UNREACHABLE,
            "Nothing is changed for now: the lines that say who changed what cannot be stored.",
        )
        .retry_after(5));
    }
    let id = request.extensions().get::<RequestId>().map(|RequestId(id)| id.clone());
    let line = AuditLine {
        request_id: id.unwrap_or_default(),
        address: addresses::of(request.extensions()).to_string(),
        action,
        resource: without_tokens(path),
        before: text(request.headers(), &IF_MATCH),
        ..AuditLine::default()
    };
    let mut noting = Noting { audit: app.audit.clone(), asking: Asking::default(), line: Some(line) };
    request.extensions_mut().insert(noting.asking.clone());
    let response = next.run(request).await;
    noting.note(response.status().as_u16(), Some(&response));
    Ok(response)
}

/// A line that is about to be noted: also where the request is left before it has an answer.
struct Noting {
    audit: Audit,
    asking: Asking,
    line: Option<AuditLine>,
}

impl Noting {
    fn note(&mut self, result: u16, response: Option<&Response>) {
        let Some(mut line) = self.line.take() else { return };
        line.at = format_us(now_us());
        line.result = result;
        if let Some(who) = self.asking.who() {
            line.how = Some(how(who.how).to_owned());
            line.role = Some(who.role.to_string());
            line.token_id = who.token_id;
            line.principal = Some(who.name);
        }
        if let Some(response) = response {
            let problem = response.extensions().get::<Problem>().map(|problem| problem.kind.slug);
            line.problem =
                problem.or_else(|| is_shown_again(&line, response).then_some(NOT_DONE)).map(str::to_owned);
            let made = text(response.headers(), &LOCATION);
            let made = made.or_else(|| response.extensions().get::<Made>().map(|Made(at)| at.clone()));
            // Of a login it says where the browser came from.
            line.made = made
                .filter(|_| !line.action.starts_with("session."))
                .map(|at| without_tokens(at.split(['?', '#']).next().unwrap_or_default()));
            line.after = text(response.headers(), &ETAG);
        }
        info!(
            request_id = line.request_id,
            principal = line.principal,
            action = line.action,
            resource = line.resource,
            result,
            "audit"
        );
        self.audit.note(&line);
    }
}

impl Drop for Noting {
    fn drop(&mut self) {
        self.note(LEFT, None);
    }
}

/// Whether a form was shown again: one that did what it is for leads elsewhere.
fn is_shown_again(line: &AuditLine, response: &Response) -> bool {
    let kind = text(response.headers(), &CONTENT_TYPE).unwrap_or_default();
    !line.resource.starts_with("/api/")
        && response.extensions().get::<Made>().is_none()
        && response.status().is_success()
        && kind.starts_with("text/html")
}

fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}

fn how(how: How) -> &'static str {
    match how {
        How::Local => "local",
        How::Proxy => "proxy",
        How::Session => "session",
        How::Token => "token",
    }
}

/// What a request at the address `route`, as the router has it, does: `job.cancel`, `token.create`.
fn action(method: &Method, route: &str) -> String {
    let route = route.strip_prefix("/api/v1").unwrap_or(route);
    let mut words: Vec<&str> =
        route.split('/').filter(|part| !part.is_empty() && !part.starts_with('{')).collect();
    let parts: Vec<&str> = route.split('/').filter(|part| !part.is_empty()).collect();
    let ends_in_word = parts.len() > 1 && parts.last().is_some_and(|last| !last.starts_with('{'));
    let is_list = words.last().is_some_and(|last| last.ends_with('s'));
    let verb = match method.as_str() {
        "POST" if ends_in_word && !is_list && words.len() > 1 => words.pop().unwrap_or_default(),
        "POST" => "create",
        "PUT" => "put",
        "PATCH" => "change",
        "DELETE" => "delete",
        other => return format!("{}.{route}", other.to_ascii_lowercase()),
    };
    let noun = words.last().copied().unwrap_or("address");
    // "address" is one, and no plural.
    let one = noun.strip_suffix('s').filter(|one| !one.ends_with('s')).unwrap_or(noun);
    let name = format!("{one}.{verb}");
    let known = NAMES.iter().find(|(derived, _)| *derived == name);
    known.map_or(name, |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ROUTES;
    use crate::pages::PAGES;

    #[test]
    fn actions_are_named_by_their_addresses() {
        for (method, route, expected) in [
            (Method::POST, "/api/v1/jobs", "job.submit"),
            (Method::POST, "/submit", "job.submit"),
            (Method::DELETE, "/api/v1/jobs/{job}", "job.remove"),
            (Method::POST, "/jobs/{job}/remove", "job.remove"),
            (Method::POST, "/api/v1/jobs/{job}/cancel", "job.cancel"),
            (Method::POST, "/endpoints/{endpoint}/jobs", "job.submit"),
            (Method::POST, "/endpoints/{endpoint}/jobs/{job}/cancel", "job.cancel"),
            (Method::POST, "/api/v1/endpoints/{endpoint}/invoke", "endpoint.invoke"),
            (Method::PUT, "/api/v1/endpoints/{endpoint}", "endpoint.put"),
            (Method::PATCH, "/api/v1/endpoints/{endpoint}", "endpoint.change"),
            (Method::DELETE, "/api/v1/endpoints/{endpoint}/deployments/{deployment}", "deployment.delete"),
            (Method::POST, "/api/v1/tokens", "token.create"),
            (Method::DELETE, "/api/v1/tokens/{token}", "token.revoke"),
            (Method::POST, "/login", "session.create"),
            (Method::POST, "/logout", "session.end"),
            (Method::PUT, "/api/v1/blobs/{sha256}", "blob.put"),
            (Method::POST, "", "address.create"),
        ] {
            assert_eq!(action(&method, route), expected, "{method} {route}");
        }
    }

    #[test]
    fn every_change_has_a_name() {
        let of_api = ROUTES.iter().map(|route| (route.method, route.path));
        let all = of_api.chain(PAGES.iter().map(|(method, path, _)| (*method, *path)));
        for (method, path) in all.filter(|(method, _)| *method != "get") {
            let method = Method::from_bytes(method.to_ascii_uppercase().as_bytes()).unwrap();
            let name = action(&method, path);
            let (noun, verb) = name.split_once('.').unwrap_or_default();
            let is_word = |word: &str| !word.is_empty() && !word.contains(['{', '/', '.']);
            assert!(is_word(noun) && is_word(verb) && noun != "address", "{method} {path}: {name}");
        }
    }
}
