//! Around every request: its number, its line in the log, its time limit, who asks; and in its answer the headers that all have and
//! the problem in the form that who asks can read.

use std::time::{Duration, Instant};

use axum::Json;
use axum::body::HttpBody;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName,
    REFERRER_POLICY, STRICT_TRANSPORT_SECURITY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use prs_common::near_name::nearest;
use prs_common::traces;
use prs_jobs::audit::without_tokens;
use prs_portal::view::{Chrome, ProblemPage};
use tracing::field::Empty;
use tracing::{Instrument, info, trace_span};

use crate::api::azure::{document, is_of_azure};
use crate::app::App;
use crate::audit::{Asking, RequestId};
use crate::auth::proxy::Forwarded;
use crate::auth::{Principal, random_text};
use crate::http::addresses::{self, Client};
use crate::http::rates::Times;
use crate::http::unread::Unread;
use crate::http::{cors, look, paths};
use crate::problem::{Kind, Problem};
use crate::traced::Traced;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// How much longer a request waits that asks for an answer at the end of a job, or of a change.
const LONGEST_WAIT: Duration = Duration::from_mins(1);
/// How long an answer may take to begin where files come with the request.
const LONGEST_UPLOAD: Duration = Duration::from_mins(30);
/// The same of a blob, which may be large.
const LONGEST_BLOB: Duration = Duration::from_hours(6);
/// Ends of addresses that jobs, code or files are handed in at, as blobs that came before are: what they name is put together and
/// stored before the answer.
const HANDS_IN: [&str; 9] = [
    "/jobs",
    "/resume",
    "/resubmit",
    "/invoke",
    "/versions",
    "/versions/{version}",
    "/deployments/{deployment}",
    "/job-paths",
    "/kept-out",
];
/// Jobs that are offered where an address names none, and jobs that are compared for it.
const NEAR: usize = 5;
const COMPARED: usize = 1_000;
/// What a page may do: use what comes from this server, and send forms to it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types prs";
/// What pages may use of a browser's devices and of what it knows: nothing.
const PERMISSIONS: &str = "accelerometer=(), autoplay=(), browsing-topics=(), camera=(), display-capture=(), encrypted-media=(), fullscreen=(), geolocation=(), gyroscope=(), hid=(), idle-detection=(), local-fonts=(), magnetometer=(), microphone=(), midi=(), payment=(), picture-in-picture=(), publickey-credentials-get=(), screen-wake-lock=(), serial=(), usb=(), xr-spatial-tracking=()";

/// Who asked, for the line of the request in the log.
#[derive(Debug, Clone)]
struct Asker(String);

/// Serves one request.
pub(crate) async fn frame(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let id = request_id(request.headers());
    request.extensions_mut().insert(RequestId(id.clone()));
    let client = app.access.proxies.client(addresses::peer(request.extensions()), request.headers());
    request.extensions_mut().insert(Client(client));
    request.extensions_mut().insert(app.limits.sizes);
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let wants_page = wants_page(&path, request.headers());
    let origin = cors::of(&app.access.hosts.others, &path, request.headers()).cloned();
    let look = look::chosen(request.headers());
    let is_of_cursor = request.uri().query().is_some_and(|query| query.contains("cursor="));
    let route = request.extensions().get::<MatchedPath>().cloned();
    let under_way = app.metrics.comes();
    let longest = longest(&request, route.as_ref().map(MatchedPath::as_str), &app.limits.times);
    let (request, unread) = Unread::of(request);
    let request = {
        let (parts, body) = request.into_parts();
        let body = app.metrics.comes_with(&parts.headers, body);
        Request::from_parts(parts, body)
    };
    let mut kind = None;
    let traced = Traced::begin(request.headers(), route.as_ref().map(MatchedPath::as_str));
    let around =
        trace_span!(target: "context", "request", request_id = id, trace_id = Empty, span_id = Empty);
    let answering = traces::within(traced.span(), next.run(request)).instrument(around.clone());
    let answered = tokio::time::timeout(longest, answering).await;
    let mut response = answered.unwrap_or_else(|_| late(longest).into_response());
    drop(under_way);
    let asker = response.extensions_mut().remove::<Asker>();
    if let Some(problem) = problem_of(&mut response) {
        let problem = app.places.without(if is_of_cursor && problem.kind == Kind::JOB_NOT_FOUND {
            Problem::new(Kind::CURSOR_GONE, problem.detail)
        } else {
            problem
        });
        kind = Some(problem.kind);
        let mut headers = std::mem::take(response.headers_mut());
        headers.remove(CONTENT_LENGTH);
        response = if wants_page {
            let near = if problem.kind == Kind::JOB_NOT_FOUND { near(&app, &path).await } else { Vec::new() };
            page(&app.chrome, &problem, &id, near)
        } else if is_of_azure(route.as_ref().map_or(&path, MatchedPath::as_str)) {
            azure(&problem)
        } else {
            problem.answer(&path, &id)
        };
        for (name, value) in headers {
            if let Some(name) = name.filter(|name| !response.headers().contains_key(name)) {
                response.headers_mut().insert(name, value);
            }
        }
    }
    let mut response = if wants_page { look::applied(look, response).await } else { response };
    add_headers(response.headers_mut(), &id);
    if let Some(origin) = &origin {
        cors::let_read(origin, response.headers_mut());
    }
    if app.is_secure {
        let only_https = HeaderValue::from_static("max-age=31536000");
        response.headers_mut().insert(STRICT_TRANSPORT_SECURITY, only_https);
    }
    if let Some(unread) = unread {
        unread.told(&mut response).await;
    }
    let status = response.status().as_u16();
    let route = route.as_ref().map(MatchedPath::as_str);
    let response = response.map(|body| app.metrics.goes_with(route, body));
    app.metrics.answered(&method, route, (status, kind), began.elapsed());
    if let Some(span) = traced.span() {
        around.record("trace_id", span.trace.to_string()).record("span_id", span.span.to_string());
    }
    traced.end(&method, route, status, &id);
    info!(
        parent: &around,
        request_id = id,
        %method,
        path = without_tokens(&path),
        route,
        status,
        ms = began.elapsed().as_millis() as u64,
        bytes = response.body().size_hint().exact(),
        principal = asker.map(|who| who.0),
        "answered"
    );
    response
}

/// How long the answer to a request for the address `route` may take to begin.
fn longest(request: &Request, route: Option<&str>, times: &Times) -> Duration {
    let kind = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let hands_in = |route: &str| HANDS_IN.iter().any(|end| route.ends_with(end));
    match *request.method() {
        Method::GET | Method::HEAD => {
            let waits = request.uri().query().is_some_and(|query| query.contains("wait_for="));
            times.read + if waits { LONGEST_WAIT } else { Duration::ZERO }
        }
        // One that rests is ended by its handler.
        _ if kind == "application/octet-stream" => LONGEST_BLOB,
        _ if kind.starts_with("multipart/") => LONGEST_UPLOAD,
        Method::POST | Method::PUT if route.is_some_and(hands_in) => times.write.max(times.handing_in),
        _ => times.write,
    }
}

/// The problem that there was no answer in time.
fn late(longest: Duration) -> Problem {
    let seconds = longest.as_secs();
    let detail =
        format_args!("Storage or ledger of the jobs did not give within {seconds} s what the answer needs.");
    Problem::new(Kind::TIMEOUT, detail).retry_after(5)
}

/// Finds who asks, and refuses what comes under a foreign name or from a foreign page.
pub(crate) async fn admit(
    State(app): State<App>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let access = &app.access;
    let longest = app.limits.sizes.address;
    if request.uri().path_and_query().is_some_and(|whole| whole.as_str().len() > longest) {
        let detail = format_args!("An address has {longest} bytes at most, with its query.");
        return Err(Problem::new(Kind::ADDRESS_TOO_LONG, detail));
    }
    paths::check_address(request.uri().path())?;
    let _place = app.counts.begin()?;
    access.hosts.check(request.uri(), request.headers())?;
    let path = request.uri().path();
    if cors::of(&access.hosts.others, path, request.headers()).is_some()
        && let Some(response) = cors::preflight(request.method(), request.headers())
    {
        app.counts.check(&Method::GET, None, addresses::of(request.extensions()))?;
        return Ok(response);
    }
    let (address, peer) = (addresses::of(request.extensions()), addresses::peer(request.extensions()));
    let forwarded = match access.proxies.take(peer, request.headers_mut())? {
        Forwarded::Known(who) => Some(who),
        Forwarded::Other(without_role) => {
            request.extensions_mut().insert(without_role);
            None
        }
        Forwarded::Nobody => None,
    };
    let principal = access.principal(request.headers(), address, forwarded).await.or_else(|problem| {
        // Who shows wrong credentials is nobody.
        app.counts.check(request.method(), None, address)?;
        Err(problem)
    })?;
    if let (Some(asking), Some(who)) = (request.extensions().get::<Asking>(), &principal) {
        asking.is(who);
    }
    let who = principal.as_ref().map(Principal::id);
    // A blob changes nothing that another sees, and they are many.
    let is_blob = request.uri().path().starts_with("/api/v1/blobs/");
    let method = if is_blob { &Method::GET } else { request.method() };
    app.counts.check(method, who, address)?;
    let _place_of_one = who.map(|who| app.counts.begin_of(who)).transpose()?;
    let is_ambient = principal.as_ref().is_some_and(Principal::is_ambient);
    let change = (request.method(), request.uri().path());
    access.hosts.check_origin(change, request.headers(), is_ambient)?;
    if let Some(principal) = principal {
        let asker = Asker(principal.name.clone());
        request.extensions_mut().insert(principal);
        let mut response = next.run(request).await;
        response.extensions_mut().insert(asker);
        return Ok(response);
    }
    Ok(next.run(request).await)
}

/// The problem in an answer; what the library around the handlers refuses is one, too.
fn problem_of(response: &mut Response) -> Option<Problem> {
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        return Some(problem);
    }
    let (kind, detail) = match response.status() {
        StatusCode::METHOD_NOT_ALLOWED => {
            (Kind::METHOD_NOT_ALLOWED, "The address does not take this method.")
        }
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => {
            (Kind::BAD_REQUEST, "The address or the body of the request cannot be read.")
        }
        StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            (Kind::WRONG_MEDIA_TYPE, "The address takes application/x-www-form-urlencoded.")
        }
        StatusCode::PAYLOAD_TOO_LARGE => (Kind::TOO_LARGE, "The body is larger than the address takes."),
        StatusCode::INTERNAL_SERVER_ERROR => (Kind::INTERNAL, "The log of the server says why."),
        _ => return None,
    };
    Some(Problem::new(kind, detail))
}

/// The number that who asks gave the request, or a new one.
fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    let is_fine = |id: &&str| {
        (1..=64).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    given.filter(is_fine).map_or_else(random_text::<8>, str::to_owned)
}

/// Whether a person reads the answer.
fn wants_page(path: &str, headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    !path.starts_with("/api/") && accept.contains("text/html")
}

/// A problem as callers of Azure's REST read it.
fn azure(problem: &Problem) -> Response {
    let status = StatusCode::from_u16(problem.kind.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, Json(document(problem))).into_response();
    problem.add_headers(&mut response);
    response
}

/// The ids of jobs that may be meant by the one in the address of a page: the newest of those that begin alike, or as good as.
async fn near(app: &App, path: &str) -> Vec<String> {
    let wanted = path.split('/').nth(2).unwrap_or_default();
    let Ok(snapshot) = app.index.snapshot().await else { return Vec::new() };
    let ids: Vec<&str> = snapshot.jobs.iter().map(|job| job.job_id.as_str()).collect();
    near_ids(wanted, &ids)
}

fn near_ids(wanted: &str, ids: &[&str]) -> Vec<String> {
    if wanted.is_empty() {
        return Vec::new();
    }
    let alike = |id: &&&str| id.starts_with(wanted) || wanted.starts_with(**id);
    let mut near: Vec<String> = ids.iter().filter(alike).take(NEAR).map(|id| (*id).to_owned()).collect();
    if near.is_empty() {
        // To compare letter by letter takes time.
        near.extend(nearest(wanted, &ids[..ids.len().min(COMPARED)]).map(str::to_owned));
    }
    near
}

fn page(chrome: &Chrome, problem: &Problem, id: &str, near: Vec<String>) -> Response {
    let Problem { kind, detail, hint, .. } = problem;
    let page = ProblemPage {
        chrome,
        title: kind.title,
        detail,
        hint: hint.as_deref(),
        meaning: kind.meaning,
        request_id: id,
        near,
    };
    let status = StatusCode::from_u16(kind.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, Html(page.html())).into_response();
    problem.add_headers(&mut response);
    response
}

fn add_headers(headers: &mut HeaderMap, id: &str) {
    let mut add = |name: HeaderName, value: &'static str| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    add(CONTENT_SECURITY_POLICY, POLICY);
    add(CACHE_CONTROL, "no-store");
    add(X_CONTENT_TYPE_OPTIONS, "nosniff");
    add(REFERRER_POLICY, "same-origin");
    add(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    add(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    add(HeaderName::from_static("permissions-policy"), PERMISSIONS);
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID, id);
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;
    use crate::http::rates::Limits;

    #[test]
    fn requests_are_numbered_by_who_asks_or_by_the_server() {
        let given =
            |value: &'static str| HeaderMap::from_iter([(REQUEST_ID, HeaderValue::from_static(value))]);
        assert_eq!(request_id(&given("a-1.B_2")), "a-1.B_2");
        for refused in ["", "a b", "a\"b"] {
            assert_ne!(request_id(&given(refused)), refused);
        }
        assert_ne!(request_id(&HeaderMap::new()), request_id(&HeaderMap::new()));
    }

    #[test]
    fn requests_have_the_time_that_they_need() {
        let of = |method: &str, address: &str, kind: &str, route: &str| {
            let request = Request::builder().method(method).uri(address).header(CONTENT_TYPE, kind);
            longest(&request.body(Body::empty()).unwrap(), Some(route), &Limits::DEFAULT.times).as_secs()
        };
        let json = "application/json";
        for (method, address, kind, route, expected) in [
            ("GET", "/api/v1/jobs", "", "/api/v1/jobs", 15),
            ("HEAD", "/jobs", "", "/jobs", 15),
            ("GET", "/api/v1/jobs/a?wait_for=ended&timeout=60", "", "/api/v1/jobs/{job}", 75),
            ("POST", "/api/v1/tokens", json, "/api/v1/tokens", 30),
            ("PATCH", "/api/v1/jobs/a", json, "/api/v1/jobs/{job}", 30),
            ("DELETE", "/api/v1/tokens/a", "", "/api/v1/tokens/{token}", 30),
            ("POST", "/api/v1/jobs", json, "/api/v1/jobs", 75),
            ("PUT", "/x", json, "/api/v1/registry/{kind}/{name}/versions/{version}", 75),
            ("POST", "/x", json, "/api/v1/endpoints/{endpoint}/invoke", 75),
            ("POST", "/api/v1/jobs", "multipart/form-data; boundary=x", "/api/v1/jobs", 30 * 60),
            ("PUT", "/x", "application/octet-stream", "/api/v1/blobs/{sha256}", 6 * 60 * 60),
        ] {
            assert_eq!(of(method, address, kind, route), expected, "{method} {address} {kind}");
        }
    }

    #[test]
    fn jobs_are_offered_whose_ids_are_near() {
        let ids = ["score-20261121-120000-1a2b", "score-20261120-120000-3c4d", "words-20261121-120000-5e6f"];
        for (wanted, expected) in [
            ("score", &ids[..2]),
            ("words-20261121-120000-5e6f-prep", &ids[2..]),
            ("wrods-20261121-120000-5e6f", &ids[2..]),
            ("nothing", &[]),
            ("", &[]),
        ] {
            assert_eq!(near_ids(wanted, &ids), expected, "{wanted}");
        }
    }

    #[test]
    fn people_get_pages_and_programs_get_documents() {
        let html = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("text/html,*/*;q=0.8"))]);
        assert!(wants_page("/jobs/x", &html) && !wants_page("/api/v1/jobs/x", &html));
        assert!(!wants_page("/jobs/x", &HeaderMap::new()));
    }
}
