//! Who may ask what: one table for all addresses, looked at before any handler runs.
//!
//! What the API has stands in its list of addresses, and what the pages have in theirs. An address in neither is for administrators.

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{ACCEPT, ALLOW, LOCATION};
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::api::ROUTES;
use crate::app::App;
use crate::auth::proxy::WithoutRole;
use crate::auth::{OwnOnly, Principal, Role, check, not_known};
use crate::pages::PAGES;
use crate::problem::{Kind, Problem};

/// What an address asks of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    /// Nothing.
    Nothing,
    /// To be known.
    Known,
    /// A role.
    Role(Role),
}

/// Lists that who calls endpoints gets their own jobs of.
const OWN_LISTS: [&str; 3] = [
    "/api/v1/jobs",
    "/api/v1/endpoints/{endpoint}/jobs",
    "/api/v1/endpoints/{endpoint}/deployments/{deployment}/jobs",
];
/// What who called an endpoint may ask of the job that came of it, below its address: how it stands, its logs, and what it brought. How
/// it was made (code, settings) and how it ran (statistics, nodes, tries, errors) are the business of who deployed it.
const OF_OWN: [&str; 11] = [
    "",
    "/events",
    "/logs",
    "/logs/{*path}",
    "/logs.tar.gz",
    "/log-lines",
    "/log-search",
    "/outputs",
    "/outputs/{*path}",
    "/output-preview",
    "/result",
];

/// Lets a request through whose caller may make it. A browser that is not logged in is sent to the login, and back behind it.
pub(crate) async fn authorize(
    State(app): State<App>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let Some(path) = request.extensions().get::<MatchedPath>() else {
        // There is nothing at this address, which is no secret.
        return Ok(next.run(request).await);
    };
    if let Some(allowed) = instead_of(request.method(), path.as_str()) {
        // That is no secret either.
        let problem = Problem::new(Kind::METHOD_NOT_ALLOWED, "The address does not take this method.");
        let mut response = problem.into_response();
        response.headers_mut().extend(HeaderValue::from_str(&allowed).ok().map(|allowed| (ALLOW, allowed)));
        return Ok(response);
    }
    let need = need(request.method(), path.as_str());
    let of_own = may_be_own(need, path.as_str());
    let who = request.extensions().get::<Principal>().cloned();
    match (need, who) {
        (Need::Nothing, _) | (Need::Known, Some(_)) => {}
        (Need::Role(Role::Read), Some(who))
            if who.role == Role::Invoke && OWN_LISTS.contains(&path.as_str()) =>
        {
            request.extensions_mut().insert(OwnOnly);
            request.extensions_mut().insert(Principal { role: Role::Read, ..who });
        }
        (Need::Role(role), Some(who)) if of_own && who.role == Role::Invoke => {
            check_own(&app, &who, request.uri().path()).await?;
            // Of a job of its own it may do what the address is for.
            request.extensions_mut().insert(Principal { role, ..who });
        }
        (Need::Role(role), Some(who)) => check(&who, role)?,
        (_, None) if request.extensions().get::<WithoutRole>().is_some() => {
            let name = request.extensions().get::<WithoutRole>().map_or("", |WithoutRole(name)| name);
            return Err(without_role(name));
        }
        (_, None) if is_page(&request) => return Ok(to_login(request.uri())),
        (_, None) => return Err(not_known()),
    }
    Ok(next.run(request).await)
}

/// The problem of a user whom a proxy knows, and whose groups have no role.
fn without_role(name: &str) -> Problem {
    Problem::new(
        Kind::FORBIDDEN,
        format_args!("{name} has no role here: no group that the proxy names is among those that have one."),
    )
    .hint("who administers the server gives groups roles with --role-map")
}

/// Whether who called an endpoint may use this address of the job that came of it.
fn may_be_own(need: Need, path: &str) -> bool {
    path.strip_prefix("/api/v1/jobs/{job}")
        .is_some_and(|rest| rest == "/cancel" || (need == Need::Role(Role::Read) && OF_OWN.contains(&rest)))
}

/// Refuses a job that is no call of this token, as if there were none.
async fn check_own(app: &App, who: &Principal, path: &str) -> Result<(), Problem> {
    let id = path.split('/').nth(4).unwrap_or_default();
    let absent = || Problem::new(Kind::JOB_NOT_FOUND, format_args!("there is no job {id:?}"));
    let (_, seen) = app.seen(id).await.map_err(|problem| match problem.kind {
        Kind::JOB_NOT_FOUND => absent(),
        _ => problem,
    })?;
    let deployed = seen.record.spec.deployed.as_ref();
    let is_own = deployed.is_some_and(|it| it.called_by.as_deref() == Some(who.id()));
    if is_own { Ok(()) } else { Err(absent()) }
}

/// The methods that the address `path`, as the router has it, takes in the place of this one; nothing where it takes this one, or the
/// lists do not have it.
fn instead_of(method: &Method, path: &str) -> Option<String> {
    let path = path.replace("{*", "{");
    let of_api = ROUTES.iter().map(|route| (route.method, route.path));
    let all = of_api.chain(PAGES.iter().map(|(method, at, _)| (*method, *at)));
    let mut taken: Vec<String> =
        all.filter(|(_, at)| *at == path).map(|(each, _)| each.to_ascii_uppercase()).collect();
    if taken.iter().any(|each| each == "GET") {
        taken.push("HEAD".to_owned());
    }
    let is_taken = taken.is_empty() || taken.iter().any(|each| each == method.as_str());
    (!is_taken).then(|| taken.join(","))
}

/// What the address `path`, as the router has it, needs for `method`.
fn need(method: &Method, path: &str) -> Need {
    let method = if *method == Method::HEAD { Method::GET } else { method.clone() };
    let path = path.replace("{*", "{");
    let of_api = ROUTES.iter().map(|route| (route.method, route.path, route.role));
    let mut all = of_api.chain(PAGES.iter().copied());
    let found = all.find(|(each, at, _)| method.as_str().eq_ignore_ascii_case(each) && *at == path);
    match found.map(|(.., role)| role) {
        Some("") => Need::Nothing,
        Some("any") => Need::Known,
        Some(role) => Need::Role(Role::parse(role).unwrap_or(Role::Admin)),
        None => Need::Role(Role::Admin),
    }
}

/// Whether a person looks.
fn is_page(request: &Request) -> bool {
    let accepts = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_api = request.uri().path().starts_with("/api/");
    request.method().is_safe() && !is_api && accepts.contains("text/html")
}

fn to_login(uri: &Uri) -> Response {
    let back = uri.path_and_query().map_or("/", |back| back.as_str());
    let query = url::form_urlencoded::Serializer::new(String::new()).append_pair("next", back).finish();
    let at = HeaderValue::from_str(&format!("/login?{query}")).unwrap_or(HeaderValue::from_static("/login"));
    (StatusCode::SEE_OTHER, [(LOCATION, at)]).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_needs_what_its_list_says() {
        for (method, path, expected) in [
            (Method::GET, "/livez", Need::Nothing),
            (Method::GET, "/login", Need::Nothing),
            (Method::GET, "/api/v1/whoami", Need::Known),
            (Method::GET, "/api/v1/jobs", Need::Role(Role::Read)),
            (Method::HEAD, "/api/v1/jobs/{job}/logs/{*path}", Need::Role(Role::Read)),
            (Method::POST, "/api/v1/jobs/{job}/cancel", Need::Role(Role::Submit)),
            (Method::DELETE, "/api/v1/jobs/{job}", Need::Role(Role::Submit)),
            (Method::POST, "/jobs/{job}/remove", Need::Role(Role::Submit)),
            (Method::PUT, "/api/v1/jobs", Need::Role(Role::Admin)),
            (Method::GET, "/api/v1/of-tomorrow", Need::Role(Role::Admin)),
        ] {
            assert_eq!(need(&method, path), expected, "{method} {path}");
        }
    }

    #[test]
    fn of_a_job_of_its_own_a_caller_sees_how_it_stands_and_what_it_brought() {
        let of = |method: Method, rest: &str| {
            let path = format!("/api/v1/jobs/{{job}}{rest}");
            may_be_own(need(&method, &path), &path)
        };
        for rest in OF_OWN {
            assert!(of(Method::GET, rest), "{rest}");
        }
        assert!(of(Method::POST, "/cancel") && !of(Method::PATCH, "") && !of(Method::DELETE, ""));
        for rest in [
            "/spec",
            "/code",
            "/code/{*path}",
            "/errors",
            "/nodes",
            "/perf",
            "/statistics",
            "/tries",
            "/resume",
        ] {
            assert!(!of(Method::GET, rest), "{rest}");
        }
        let known = |path: &&str| ROUTES.iter().any(|route| route.path == path.replace("{*", "{"));
        assert!(OWN_LISTS.iter().all(known));
        assert!(OF_OWN.iter().all(|rest| known(&&*format!("/api/v1/jobs/{{job}}{rest}"))));
    }

    #[test]
    fn an_address_says_which_methods_it_takes() {
        for (method, path, expected) in [
            (Method::GET, "/livez", None),
            (Method::HEAD, "/livez", None),
            (Method::POST, "/livez", Some("GET,HEAD")),
            (Method::DELETE, "/api/v1/jobs/{job}/logs/{*path}", Some("GET,HEAD")),
            (Method::PUT, "/api/v1/jobs/{job}/cancel", Some("POST")),
            (Method::GET, "/api/v1/of-tomorrow", None),
        ] {
            assert_eq!(instead_of(&method, path).as_deref(), expected, "{method} {path}");
        }
    }

    #[test]
    fn each_word_of_the_lists_is_a_role() {
        let words = ROUTES.iter().map(|route| route.role).chain(PAGES.iter().map(|(.., role)| *role));
        for word in words {
            assert!(matches!(word, "" | "any") || Role::parse(word).is_some(), "{word}");
        }
    }
}
