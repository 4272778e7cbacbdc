//! The list of all addresses, from which the `OpenAPI` document and the page `/api` are made. A test compares it with what the server
//! answers.

use axum::Json;
use serde_json::{Map, Value, json};

use super::Route;
use super::answers::{schemas, success, takes};
use super::azure::is_of_azure;
use super::parameters;
use crate::http::params::Params;
use crate::problem::{ALL, Problem};

const LIMIT: (&str, &str) = ("limit", "entries of a page, 1 to 500 [50]");
const VERSION: (&str, &str) = ("api-version", "any");
const LOG_KIND: (&str, &str) = (
    "kind",
    "logs of a kind: result, error, progress, system, process, stdout, stderr, entry_script or perf; several: any of them",
);
const LOG_NODE: (&str, &str) = ("node", "logs of a node; several: any of them");
const CURSOR: (&str, &str) = ("cursor", "next_cursor of the page before");

macro_rules! routes {
    ($($method:ident $path:literal, $role:literal, [$($parameter:expr),*], $does:literal;)*) => {
        /// All addresses.
        pub(crate) const ROUTES: &[Route] = &[$(Route {
            method: stringify!($method),
            path: $path,
            role: $role,
            parameters: &[$($parameter),*],
            does: $does,
        }),*];
    };
}

routes! {
    get "/api/v1/jobs", "read", [
        ("state", "a state; incomplete, active or ended; of this and the others: several are any of them"),
        ("name", "what the name begins with"),
        ("q", "part of id, name, display name or reason"),
        ("target", "a compute target"),
        ("endpoint", "calls of this endpoint"),
        ("deployment", "calls that this deployment answered"),
        ("submitted_by", "who handed it in"),
        ("parent", "the id of a pipeline: the jobs of its steps in place of all others"),
        ("tag", "key:value; several of a key: any of them; of several keys: all"),
        ("since", "submitted since: RFC 3339, or 2d, 6h"),
        ("until", "submitted until"),
        ("sort", "submitted_at, ended_at, seconds, state or name, with - before it for the reverse [-submitted_at]"),
        LIMIT, CURSOR
    ], "Lists jobs, with how many there are in each state; with a token of the role invoke those of its own calls.";
    post "/api/v1/jobs", "submit", [("dry_run", "true: nothing is stored, and the answer says what would run")],
        "Hands a job in: JSON with yaml or spec, or a form with the fields job, code or code_folder, input.NAME and input_folder.NAME. Takes an Idempotency-Key.";
    post "/api/v1/job-paths", "submit", [], "Which local paths a job file leads to, so that a program knows what to send with it.";
    post "/api/v1/kept-out", "submit", [], "Which of these paths an ignore file keeps out of the code.";
    get "/api/v1/jobs/{job}", "read", [
        ("wait_for", "ended or changed: answers when that is so, or when timeout is over"),
        ("timeout", "seconds, at most 60 [30]"),
        ("fields", "keys, with commas between them; all without it")
    ], "A job, as prs status -o json has it, with more.";
    patch "/api/v1/jobs/{job}", "submit", [], "Changes what is said of a job, also while it runs: display_name, description, tags, keep_until.";
    delete "/api/v1/jobs/{job}", "submit", [
        ("output", "keep, or remove: whether the result that lies among what the job has goes, too [keep]")
    ], "Removes a job that has ended: one that you handed in; those of others need the role admin.";
    post "/api/v1/jobs/{job}/cancel", "submit", [], "Cancels a job; what is done is kept. JSON with a reason, or nothing. 200 where it is being canceled already, or was.";
    post "/api/v1/jobs/{job}/resume", "submit", [], "Runs what is missing or failed of a job that has ended, in this job. Takes an Idempotency-Key.";
    post "/api/v1/jobs/{job}/resubmit", "submit", [], "Runs all of a job again as a new one, with changes. Takes an Idempotency-Key.";
    get "/api/v1/jobs/{job}/spec", "read", [], "Its settings: JSON, or with Accept: application/yaml a job file.";
    get "/api/v1/jobs/{job}/code", "read", [], "The files of the code that it ran last.";
    get "/api/v1/jobs/{job}/code.tar.gz", "read", [], "All of that code.";
    get "/api/v1/jobs/{job}/code/{path}", "read", [], "A file of it as text, at most 2 MiB.";
    get "/api/v1/jobs/{job}/steps", "read", [], "The steps of a pipeline: what each is, needs and brings, with its job once it has begun.";
    get "/api/v1/jobs/{job}/report.html", "read", [], "The page about it as one file.";
    get "/api/v1/jobs/{job}/errors", "read", [
        ("sort", "-lost, -tries or -last_at [-lost]"), ("lost", "true: those that cost mini-batches"), LIMIT, CURSOR
    ], "Its distinct errors, those of processes that did not start, and what is not told apart.";
    get "/api/v1/jobs/{job}/errors/{group}", "read", [], "One of them: when and where its tries ran, and three of these with their tracebacks.";
    get "/api/v1/jobs/{job}/errors/{group}/items", "read", [LIMIT, CURSOR], "The mini-batches that it cost, with their items; with Accept: text/plain all items, one a line.";
    get "/api/v1/jobs/{job}/failed-items", "read", [LIMIT, CURSOR], "The mini-batches of which items are missing; with Accept: text/plain all items, one a line.";
    get "/api/v1/jobs/{job}/statistics", "read", [
        ("parts", "timeline, activity, durations, plan_map, slowest, recent, running, shares, nodes; several with commas [all but nodes]")
    ], "What it did over time, as its orchestrator publishes it; each part says its resolution.";
    get "/api/v1/jobs/{job}/nodes", "read", [
        ("sort", "node_id, -median_seconds, -failed_tries, -tries or -idle_share [node_id]"), ("live", "true: those that serve it alone"), LIMIT, CURSOR
    ], "Its nodes.";
    get "/api/v1/jobs/{job}/nodes/{node_id}", "read", [], "One of its nodes, with its processes and where their logs are.";
    get "/api/v1/jobs/{job}/perf", "read", [
        ("node", "the number of a node; all without it"),
        ("metric", "cpu, memory, disk_read, disk_write, net_in, net_out, gpu, gpu_memory; several with commas [all]"),
        ("from", "since: RFC 3339, or 15m, 6h"), ("to", "until"), ("points", "of a series, at most 500 [120]")
    ], "What its nodes used of their hosts: points of time, least, mean, most.";
    get "/api/v1/jobs/{job}/mini-batches", "read", [
        ("state", "failed, retried, short, succeeded, all; running and slow list what takes longest, waiting ranges without an outcome [failed]"),
        ("index", "a mini-batch, or a range: 7-12"), ("node", "the number of a node, or a range: 8-15; several: any of them"), ("process", "the name of a process"),
        ("group", "the id of an error group"), ("from", "ran since: RFC 3339, or 15m, 6h"), ("to", "began until"),
        ("min_seconds", "took so long at least"), ("status", "how tries ended, such as RUN_EXCEPTION; several: any of them"),
        ("sort", "index, -seconds, started_at or -started_at [index]"), LIMIT, CURSOR
    ], "Its mini-batches, each by the try that is its outcome. A page may be shorter than its limit, and even empty, while there is a next_cursor.";
    get "/api/v1/jobs/{job}/mini-batches/{index}", "read", [], "A mini-batch: its tries in order, with tracebacks and where what they printed is.";
    get "/api/v1/jobs/{job}/tries", "read", [
        ("index", "a mini-batch, or a range: 7-12"), ("node", "the number of a node, or a range: 8-15; several: any of them"), ("process", "the name of a process"),
        ("group", "the id of an error group"), ("from", "ran since: RFC 3339, or 15m, 6h"), ("to", "began until"),
        ("min_seconds", "took so long at least"), ("status", "how tries ended, such as RUN_EXCEPTION; several: any of them"),
        ("sort", "index, -seconds, started_at or -started_at [index]"), LIMIT, CURSOR
    ], "The tries of its mini-batches; with Accept: text/csv all that fit, as processed_mini-batches.csv has them.";
    get "/api/v1/jobs/{job}/events", "read", [
        ("types", "status, statistics, error, mini_batch_failed, node, log, end; several with commas [status]"),
        ("parts", "parts of the statistics, as /statistics takes them"), ("path", "a log that is followed, as it grows; at most 8"),
        LOG_KIND, LOG_NODE, ("process", "logs of a process; several: any of them"), ("prefix", "beginning of the names of logs")
    ], "Server-sent events of the job: status with the job where it changed, statistics at most every 2 s, error, mini_batch_failed and node with what came since, log with lines of a log, gap with the range of bytes that a log left out, end with the job after the last one. With Last-Event-ID logs continue where the client stopped.";
    get "/api/v1/jobs/{job}/logs", "read", [
        ("prefix", "a folder, or the beginning of the names"), ("delimiter", "/: logs and folders of one folder, none: all logs below it [/; none with one of the filters that follow]"),
        ("q", "part of the name"), LOG_KIND, LOG_NODE, ("process", "logs of a process; several: any of them"), LIMIT, CURSOR
    ], "Lists its logs, and the folders that they are in.";
    get "/api/v1/jobs/{job}/logs/{path}", "read", [("tail", "bytes at its end, at most 4194304"), ("download", "true: as a file to keep")], "A log, or a range of it.";
    get "/api/v1/jobs/{job}/log-lines", "read", [
        ("path", "the log"), ("at", "where the window begins, bytes; or end [0]"), ("around", "a byte that it has in its middle"), ("bytes", "its size, at most 262144 [65536]")
    ], "Lines of a log, each with where it begins.";
    get "/api/v1/jobs/{job}/log-search", "read", [
        ("q", "what to look for, 1 to 200 letters"), ("regex", "true: q is a pattern"), ("case", "true: capital letters are told from small ones"),
        ("path", "one log"), ("prefix", "beginning of the names"), LOG_KIND, LOG_NODE, ("process", "logs of a process; several: any of them"),
        ("context", "lines around a match, at most 5 [0]"), ("limit", "matches, at most 200 [50]"), CURSOR
    ], "Lines of its logs with a text in them. A call reads 64 MiB or 5 s at most, and says how much it has read.";
    get "/api/v1/jobs/{job}/outputs", "read", [
        ("prefix", "beginning of the name"), ("output", "the name of an output of the job; default, and score of a deployment, is all of it [default]"), LIMIT, CURSOR
    ], "Lists the files of its output, or of one of its outputs.";
    get "/api/v1/jobs/{job}/outputs/{path}", "read", [], "A file of its output, or a range of it.";
    get "/api/v1/jobs/{job}/result", "read", [], "Its result file, or a range of it.";
    get "/api/v1/jobs/{job}/output-preview", "read", [
        ("path", "a file of its output [the result]"), ("from", "start or end [start]"), ("rows", "at most 500 [20]")
    ], "The first or the last rows of a file of its output; 256 KiB of it are looked at.";
    get "/api/v1/jobs/{job}/logs.tar.gz", "read", [
        LOG_KIND, LOG_NODE, ("process", "logs of a process; several: any of them"), ("prefix", "beginning of the names")
    ], "Its logs as one archive, 2 GiB at most.";
    get "/api/v1/events", "read", [("types", "job")], "What changes in the list of jobs, as server-sent events: job with the job as a list has it, gone with its id.";
    get "/api/v1/endpoints", "any", [LIMIT, CURSOR], "Lists batch endpoints; with a token of the role invoke those that it names.";
    get "/api/v1/endpoints/{endpoint}", "any", [], "A batch endpoint, and where it is called.";
    put "/api/v1/endpoints/{endpoint}", "submit", [], "Creates it (If-None-Match: *), or replaces what is said of it (If-Match); its deployments stay.";
    patch "/api/v1/endpoints/{endpoint}", "submit", [], "Changes its description, tags or default deployment (If-Match).";
    delete "/api/v1/endpoints/{endpoint}", "submit", [("yes", "true: with its deployments; jobs stay")], "Deletes it (If-Match).";
    get "/api/v1/endpoints/{endpoint}/jobs", "read", [
        ("state", "a state; incomplete, active or ended; of this and the others: several are any of them"),
        ("name", "what the name begins with"), ("q", "part of id, name, display name or reason"), ("target", "a compute target"),
        ("submitted_by", "who called it"), ("tag", "key:value; several of a key: any of them; of several keys: all"),
        ("since", "submitted since: RFC 3339, or 2d, 6h"), ("until", "submitted until"),
        ("sort", "submitted_at, ended_at, seconds, state or name, with - before it for the reverse [-submitted_at]"), LIMIT, CURSOR
    ], "Its calls, as the list of jobs has them; with a token of the role invoke its own.";
    get "/api/v1/endpoints/{endpoint}/deployments/{deployment}/jobs", "read", [
        ("state", "a state; incomplete, active or ended; of this and the others: several are any of them"),
        ("name", "what the name begins with"), ("q", "part of id, name, display name or reason"), ("target", "a compute target"),
        ("submitted_by", "who called it"), ("tag", "key:value; several of a key: any of them; of several keys: all"),
        ("since", "submitted since: RFC 3339, or 2d, 6h"), ("until", "submitted until"),
        ("sort", "submitted_at, ended_at, seconds, state or name, with - before it for the reverse [-submitted_at]"), LIMIT, CURSOR
    ], "The calls that this deployment answered, likewise.";
    get "/api/v1/endpoints/{endpoint}/deployments", "read", [LIMIT, CURSOR], "Lists its deployments.";
    get "/api/v1/endpoints/{endpoint}/deployments/{deployment}", "read", [], "A deployment of it.";
    put "/api/v1/endpoints/{endpoint}/deployments/{deployment}", "submit", [
        ("set_default", "true: it answers calls that name no deployment"),
        ("skip_script_validation", "true: nobody looks whether its script can be compiled")
    ], "Creates a deployment (If-None-Match: *), or a new revision of it (If-Match): its file as JSON or YAML, or a form with the fields file and code.";
    patch "/api/v1/endpoints/{endpoint}/deployments/{deployment}", "submit", [
        ("set_default", "true: it answers calls that name no deployment"),
        ("skip_script_validation", "true: nobody looks whether its script can be compiled")
    ], "Changes settings of a deployment, which is a new revision of it (If-Match).";
    delete "/api/v1/endpoints/{endpoint}/deployments/{deployment}", "submit", [
        ("yes", "true: also where it is the default among several")
    ], "Deletes a deployment (If-Match); jobs stay.";
    post "/api/v1/endpoints/{endpoint}/invoke", "invoke", [], "Calls it: runs its deployment on data, as a job. Takes an Idempotency-Key.";
    post "/endpoints/{endpoint}/jobs", "invoke", [], "Calls it by a body of Azure's REST.";
    get "/endpoints/{endpoint}/jobs", "any", [("$top", "jobs of a page [50]"), ("$skipToken", "from nextLink"), ("api-version", "any")], "Its jobs, as Azure's REST has them.";
    get "/endpoints/{endpoint}/jobs/{job}", "any", [("api-version", "any")], "A job of it, as Azure's REST has it.";
    post "/endpoints/{endpoint}/jobs/{job}/cancel", "invoke", [("api-version", "any")], "Cancels a job of it.";
    put "/batchEndpoints/{endpoint}", "submit", [VERSION], "Creates or replaces a batch endpoint, as Azure's management REST does.";
    get "/batchEndpoints/{endpoint}", "read", [VERSION], "A batch endpoint, as Azure's management REST has it.";
    delete "/batchEndpoints/{endpoint}", "submit", [VERSION], "Deletes a batch endpoint with its deployments, as Azure's management REST does.";
    put "/batchEndpoints/{endpoint}/deployments/{deployment}", "submit", [VERSION], "Creates a deployment or a new revision of it, as Azure's management REST does.";
    get "/batchEndpoints/{endpoint}/deployments/{deployment}", "read", [VERSION], "A deployment, as Azure's management REST has it.";
    delete "/batchEndpoints/{endpoint}/deployments/{deployment}", "submit", [VERSION], "Deletes a deployment, as Azure's management REST does.";
    put "/{kind}/{name}/versions/{version}", "submit", [VERSION], "Registers a version of models, data, datasets, environments, codes or components, as Azure's management REST does.";
    get "/{kind}/{name}/versions/{version}", "read", [VERSION], "A registered version, as Azure's management REST has it.";
    put "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.MachineLearningServices/workspaces/{workspace}/batchEndpoints/{endpoint}", "submit", [VERSION], "Creates or replaces a batch endpoint, as Azure's management REST does, below any workspace.";
    get "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.MachineLearningServices/workspaces/{workspace}/batchEndpoints/{endpoint}", "read", [VERSION], "A batch endpoint, as Azure's management REST has it, below any workspace.";
    delete "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.MachineLearningServices/workspaces/{workspace}/batchEndpoints/{endpoint}", "submit", [VERSION], "Deletes a batch endpoint with its deployments, as Azure's management REST does, below any workspace.";
    put "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.MachineLearningServices/workspaces/{workspace}/batchEndpoints/{endpoint}/deployments/{deployment}", "submit", [VERSION], "Creates a deployment or a new revision of it, as Azure's management REST does, below any workspace.";
    get "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.MachineLearningServices/workspaces/{workspace}/batchEndpoints/{endpoint}/deployments/{deployment}", "read", [VERSION], "A deployment, as Azure's management REST has it, below any workspace.";
    delete "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.MachineLearningServices/workspaces/{workspace}/batchEndpoints/{endpoint}/deployments/{deployment}", "submit", [VERSION], "Deletes a deployment, as Azure's management REST does, below any workspace.";
    put "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.MachineLearningServices/workspaces/{workspace}/{kind}/{name}/versions/{version}", "submit", [VERSION], "Registers a version of models, data, datasets, environments, codes or components, as Azure's management REST does, below any workspace.";
    get "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.MachineLearningServices/workspaces/{workspace}/{kind}/{name}/versions/{version}", "read", [VERSION], "A registered version, as Azure's management REST has it, below any workspace.";
    get "/azure/operations/{operation}", "any", [VERSION], "What Azure's management REST asks for after a PUT: Succeeded.";
    post "/api/v1/uploads/missing", "invoke", [], "Tells which of at most 1,000 blobs are not there: JSON with blobs, each with sha256 and bytes.";
    put "/api/v1/blobs/{sha256}", "invoke", [], "Sends a blob, a file named by its content: application/octet-stream with a Content-Length, 5 GiB at most.";
    get "/api/v1/blobs/{sha256}", "submit", [], "A blob, or a range of it.";
    get "/api/v1/registry/{kind}", "read", [
        ("q", "part of the name or the description"), ("tag", "key:value; several: all of them"),
        ("archived", "true: names whose versions are all archived, too"), LIMIT, CURSOR
    ], "Lists the names of a kind (data, models, environments, components), each with its latest version.";
    get "/api/v1/registry/{kind}/{name}", "read", [LIMIT, CURSOR], "The versions of a name, the newest first.";
    get "/api/v1/registry/{kind}/{name}/versions", "read", [LIMIT, CURSOR], "The same.";
    post "/api/v1/registry/{kind}/{name}/versions", "submit", [],
        "Creates the next version: its file as JSON or YAML, or a form with the fields file and code. 200 where the newest has the same content. Takes an Idempotency-Key.";
    get "/api/v1/registry/{kind}/{name}/versions/{version}", "read", [], "A version, @latest or @LABEL, and what uses it.";
    put "/api/v1/registry/{kind}/{name}/versions/{version}", "submit", [], "Creates this version; 200 where it is there with the same content.";
    patch "/api/v1/registry/{kind}/{name}/versions/{version}", "submit", [], "Changes its description, tags, properties, stage, labels, or whether it is archived (If-Match).";
    delete "/api/v1/registry/{kind}/{name}/versions/{version}", "admin", [], "Deletes a version that nothing uses (If-Match). Its number is not used again.";
    get "/api/v1/registry/{kind}/{name}/versions/{version}/files", "read", [("prefix", "beginning of the name"), LIMIT, CURSOR], "Lists its files in the registry.";
    get "/api/v1/registry/{kind}/{name}/versions/{version}/files/{path}", "read", [], "A file of it, or a range of that.";
    get "/api/v1/targets", "metrics", [], "Lists the compute targets, with what each wants and has.";
    get "/api/v1/targets/{target}", "metrics", [], "What a compute target wants and has, for autoscalers; zeros where nobody named it yet.";
    get "/api/v1/workers", "read", [
        ("target", "a compute target"), ("state", "idle, serving, draining or silent"), ("job", "the job that they serve"),
        ("q", "part of name, host, address, job or version"), LIMIT, CURSOR
    ], "Lists the workers of the fleet.";
    post "/api/v1/workers/{worker}/drain", "admin", [], "Asks a worker to leave, as its first SIGTERM does: what it runs may end. JSON with a reason, or nothing.";
    get "/api/v1/servers", "read", [], "Storage, ledger and broker of the fleet, or the folder of the runs: whether each answers, and how fast; for administrators where it is, its version and what it has room for.";
    get "/metrics", "metrics", [], "Figures of the server and the fleet, as OpenMetrics has them.";
    get "/api/v1/tokens", "any", [LIMIT, CURSOR], "Lists the tokens, without their secrets, the newest first: for administrators all, for others their own.";
    post "/api/v1/tokens", "submit", [], "Creates a token: for administrators any, for who logged in with the role submit one of that role at most, for 90 days at most; JSON with name, role, endpoints of the role invoke, expires_in_days [90; 0 for never]. The answer has its secret, once.";
    delete "/api/v1/tokens/{token}", "any", [], "Revokes the token with this id, of others than administrators their own: within 10 s no server takes it any more.";
    get "/api/v1/audit", "admin", [
        ("principal", "of whom: a name, or the id of a token"), ("action", "what was asked for, such as job.submit; with a dot at its end, such as job., all of those"),
        ("resource", "beginning of the address that was asked"), ("result", "the status of the answer, or its first digit"),
        ("request_id", "the number of a request"), ("since", "RFC 3339, or 2d, 6h [7d]"), ("until", "until"), LIMIT, CURSOR
    ], "Who changed what, and who wanted to and might not, the newest first. A page may be shorter than its limit, and even empty, while there is a next_cursor.";
    get "/api/v1/whoami", "any", [], "Who asks, and what they may.";
    get "/api/v1/version", "", [], "The version of the server.";
    get "/livez", "", [], "Whether the server turns.";
    get "/readyz", "", [("verbose", "true, or no value: all that was looked at, for the role read")], "Whether it can answer: storage and ledger of the jobs answer, lines of the audit are stored, and it is not about to end. 503 with not_ready where it cannot.";
    get "/openapi.json", "", [], "This list, as OpenAPI 3.1 has it.";
}

/// The addresses as an `OpenAPI` document.
pub(crate) async fn openapi(params: Params) -> Result<Json<Value>, Problem> {
    params.check(&[])?;
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES {
        let entry = paths.entry(route.path).or_insert_with(|| json!({}));
        entry[route.method] = operation(route);
    }
    let mut schemas = schemas();
    schemas.insert("Problem".to_owned(), problem());
    schemas.insert("AzureError".to_owned(), azure_error());
    Ok(Json(json!({
        "openapi": "3.1.0",
        "info": {
            "title": "prs",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Jobs of prs: hand them in, list them, look at them, end them, read what they brought.",
        },
        "paths": paths,
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": schemas,
        },
    })))
}

fn operation(route: &Route) -> Value {
    let in_path = route.path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    let in_path = in_path.map(|name| {
        json!({ "name": name, "in": "path", "required": true, "schema": parameters::of_path(route.path, name) })
    });
    let in_query = route.parameters.iter().map(|(name, takes)| {
        let mut parameter = json!({
            "name": name, "in": "query", "required": parameters::is_required(route.path, name), "description": takes,
            "schema": parameters::of_query(route.path, name),
        });
        if parameters::is_repeatable(route.path, name) {
            let items = parameter["schema"].take();
            parameter["schema"] = json!({ "type": "array", "items": items });
        }
        parameter
    });
    let in_header = parameters::headers(route.method, route.path).into_iter().map(|(name, schema, takes)| {
        json!({ "name": name, "in": "header", "description": takes, "schema": schema })
    });
    let parameters: Vec<Value> = in_path.chain(in_query).chain(in_header).collect();
    let mut operation = json!({
        "summary": route.does,
        "operationId": format!("{} {}", route.method, route.path),
        "parameters": parameters,
        "responses": responses(route),
    });
    if let Some(body) = takes(route.method, route.path) {
        operation["requestBody"] = body;
    }
    if !route.role.is_empty() {
        operation["security"] = json!([{ "token": [] }]);
        operation["description"] = json!(match route.role {
            "any" => "Needs a token or a session of any role.".to_owned(),
            role => format!("Needs the role {role} at least."),
        });
    }
    operation
}

/// What an address answers, by status.
fn responses(route: &Route) -> Value {
    let mut responses = Map::new();
    let number = json!({ "description": "The number of the request.", "required": true, "schema": { "type": "string" } });
    if let Some(success) = success(route.method, route.path) {
        for status in success.statuses {
            let mut answer = json!({
                "description": match status {
                    304 => "It is what the request has.",
                    307 => "It is in the storage, at Location.",
                    _ => "What was asked for.",
                },
                "headers": { "X-Request-Id": number },
            });
            for header in success.headers {
                answer["headers"][*header] = json!({ "required": true, "schema": { "type": "string" } });
            }
            let content = success.content(*status);
            if !content.is_null() {
                answer["content"] = content;
            }
            responses.insert(status.to_string(), answer);
        }
    }
    let is_of_azure = is_of_azure(route.path);
    let (media_type, schema) = if is_of_azure {
        ("application/json", "AzureError")
    } else {
        ("application/problem+json", "Problem")
    };
    let schema = json!({ "$ref": format!("#/components/schemas/{schema}") });
    for status in parameters::problems(route) {
        let titles: Vec<&str> =
            ALL.iter().filter(|kind| kind.status == status).map(|kind| kind.title).collect();
        let problem = json!({
            "description": titles.join(". "),
            "headers": { "X-Request-Id": number },
            "content": { media_type: { "schema": schema } },
        });
        let problem = match (route.path, status) {
            // What is not ready is told in place of a problem.
            ("/readyz", 503) => success(route.method, route.path).map_or(problem, |of| {
                json!({ "description": "It cannot answer.", "headers": { "X-Request-Id": number }, "content": of.content(200) })
            }),
            _ => problem,
        };
        responses.insert(status.to_string(), problem);
    }
    responses.into()
}

/// The schema of an error as Azure's REST has it.
fn azure_error() -> Value {
    let text = json!({ "type": "string" });
    json!({
        "type": "object",
        "required": ["error"],
        "properties": { "error": {
            "type": "object",
            "required": ["code", "message", "details"],
            "properties": {
                "code": { "enum": ["UserError", "ServiceError"] },
                "message": text,
                "details": { "type": "array", "items": {
                    "type": "object",
                    "required": ["code", "target", "message"],
                    "properties": { "code": text, "target": text, "message": text },
                } },
            },
        } },
    })
}

/// The schema of a problem.
fn problem() -> Value {
    let types: Vec<String> = ALL.iter().map(|kind| format!("/problems/{}", kind.slug)).collect();
    json!({
        "type": "object",
        "required": ["type", "title", "status", "detail", "instance", "request_id", "hint", "errors"],
        "properties": {
            "type": { "enum": types },
            "title": { "type": "string" },
            "status": { "type": "integer" },
            "detail": { "type": "string" },
            "instance": { "type": "string" },
            "request_id": { "type": "string" },
            "hint": { "type": ["string", "null"] },
            "errors": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["pointer", "key", "line", "detail", "allowed"],
                    "properties": {
                        "pointer": { "type": "string" },
                        "key": { "type": "string" },
                        "line": { "type": ["integer", "null"] },
                        "detail": { "type": "string" },
                        "allowed": { "type": ["array", "null"], "items": { "type": "string" } },
                    },
                },
            },
        },
    })
}
