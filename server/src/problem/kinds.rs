//! The kinds of problems: the end of their address, their status, and what the page about each says.

/// A kind of problem.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// The end of its address, below `/problems/`.
    pub(crate) slug: &'static str,
    /// The status of the answer.
    pub(crate) status: u16,
    /// What it is, in a few words.
    pub(crate) title: &'static str,
    /// What it means, and what to do.
    pub(crate) meaning: &'static str,
}

macro_rules! kinds {
    ($($name:ident, $slug:literal, $status:literal, $title:literal, $meaning:literal;)*) => {
        impl Kind {
            $(pub(crate) const $name: &'static Kind =
                &Kind { slug: $slug, status: $status, title: $title, meaning: $meaning };)*
        }

        /// All of them.
        pub(crate) const ALL: &[&Kind] = &[$(Kind::$name),*];
    };
}

kinds! {
    BAD_PARAMETER, "bad-parameter", 400, "A parameter cannot be used",
        "A parameter of the address or of the request is unknown, stands twice, or has a value that it cannot have. Unknown parameters are refused, so that a slip of the pen does not give a list without its filter. The detail names the parameter and what it takes.";
    BAD_CURSOR, "bad-cursor", 400, "A cursor cannot be used",
        "A cursor goes on with the list that it came from, with the same filters and the same order. Ask for the list again without it.";
    BAD_REQUEST, "bad-request", 400, "The request cannot be read",
        "The address or the body is not text, or not of the form that the address takes.";
    UNAUTHENTICATED, "unauthenticated", 401, "Who asks is not known",
        "A program sends a token in the header Authorization: Bearer. A browser logs in at /login: with a token, or with the link that the server prints when it starts and that prs serve --link prints again.";
    WRONG_CREDENTIALS, "wrong-credentials", 401, "The credentials are not accepted",
        "The token, the link or the session is unknown, has expired or was revoked. A link works once and for five minutes; prs serve --link prints another.";
    FORBIDDEN, "forbidden", 403, "The role is too low",
        "Who asks is known and may not do this. The detail names the role that is needed; who administers the server gives it with a token.";
    CROSS_ORIGIN, "cross-origin", 403, "The request came from a page of another site",
        "A browser sends its session along with every request, also where another site makes it. So a change is taken from pages of this server alone. Programs send a token and no cookie.";
    NOT_FOUND, "not-found", 404, "There is nothing at this address",
        "The address is not one of this server. /api lists the addresses for programs, / leads to the pages.";
    JOB_NOT_FOUND, "job-not-found", 404, "There is no such job",
        "No job has this id: it was removed, it lives in another folder or fleet than this server looks at, or the id is misspelt. The list of jobs has all that there are.";
    TOKEN_NOT_FOUND, "token-not-found", 404, "There is no such token",
        "No token of this registry has this id. The list of tokens has all that there are, those that expired or were revoked among them.";
    FILE_NOT_FOUND, "file-not-found", 404, "There is no such file",
        "The job has no log, or no file in its output, of this name. The list above it has those that there are; logs of a fleet arrive some seconds after they are written.";
    ERROR_NOT_FOUND, "error-not-found", 404, "There is no such error",
        "The job has no error group of this id, or it was run by an older prs, which did not group its errors. The list of errors has all groups; each keeps its id in every start of the job.";
    MINI_BATCH_NOT_FOUND, "mini-batch-not-found", 404, "Nothing is known of this mini-batch",
        "The plan of the job has no such mini-batch, or not yet: mini-batches are numbered from 0 in the order of the input. Of what waits or runs for the first time little is told; on a fleet a try is known some seconds after it ended.";
    NODE_NOT_FOUND, "node-not-found", 404, "The job has no such node",
        "No node of the job has this number: nodes are numbered from 0 in the order in which they joined it. The list of nodes has all that there were.";
    NO_STATISTICS, "no-statistics", 404, "There are no statistics",
        "The orchestrator of a job publishes them some seconds after it begins. There are none of a pipeline, whose steps have their own, and none of what an older prs ran; what hosts did is known where resource_monitor_interval is not 0.";
    ENDPOINT_NOT_FOUND, "endpoint-not-found", 404, "There is no such endpoint, or no such deployment",
        "No endpoint has this name, or it has no deployment that answers: none was created, none is the default among several, or its name is misspelt. A token of the role invoke sees the endpoints that it names.";
    ASSET_NOT_FOUND, "asset-not-found", 404, "Nothing is registered so",
        "The registry has no such kind, no such name, or no such version of it. The detail names those that there are. Kinds are data, models, environments and components.";
    METHOD_NOT_ALLOWED, "method-not-allowed", 405, "The address does not take this method",
        "The header Allow of the answer names those that it takes.";
    NO_RESULT, "no-result", 404, "The job brings no result file",
        "With output_action: summary_only rows are counted, and stay with the script; commands and pipelines have outputs and no result file. The output of the job has all files that there are.";
    NO_RESULT_YET, "no-result-yet", 409, "The job has no result yet",
        "A job has a result once it has completed; the detail says how it stands. One that failed or was canceled keeps what is done, and resume goes on with it.";
    JOB_HAS_ENDED, "job-has-ended", 409, "The job has ended",
        "What has ended cannot be canceled.";
    JOB_IS_ACTIVE, "job-is-active", 409, "The job has not ended",
        "It can be removed, and resumed, once it has ended; cancel ends it.";
    IN_PROGRESS, "request-in-progress", 409, "The same request is being served",
        "A request with this Idempotency-Key has come before and has no answer yet. Send it again after the seconds in Retry-After: the answer will be that of the first. Where the server that had it is gone, another goes on with it after ten seconds.";
    OUTPUT_IN_USE, "output-in-use", 409, "The output of the job is in use",
        "What the job brought is registered, so others read it where it lies. With output=keep the job goes and its output stays; or remove the registered version before.";
    NOTHING_TO_RESUME, "nothing-to-resume", 409, "Nothing of the job is missing",
        "A job that has completed with all items has nothing left to run. resubmit runs all of it again as a new job.";
    OUTPUT_EXISTS, "output-exists", 409, "Something lies where the output is to go",
        "Nothing is overwritten: move away what is there, or give the job another output. The detail names it.";
    NAME_TAKEN, "name-taken", 409, "There is a job of this name",
        "The request chose the id of the new job, and another job has it. Choose another one, or leave it out.";
    VERSION_EXISTS, "version-exists", 409, "There is such a version, with other content",
        "Versions do not change: jobs and deployments that name one get what it was. Leave the version out (POST) for the next number, or choose another. A version that was deleted stays taken.";
    IN_USE, "in-use", 409, "Something uses it",
        "A version that deployments, components or jobs at work use is not deleted. The detail names them. Archive it to hide it from lists and from @latest.";
    REFUSED, "refused", 409, "The state of things forbids it",
        "The request was understood, and what it is about does not allow it now. The detail says why.";
    LENGTH_REQUIRED, "length-required", 411, "The size of the body is not known",
        "A blob comes with the header Content-Length, so that what does not fit is refused before it is sent. Send no Transfer-Encoding: chunked.";
    CURSOR_GONE, "cursor-gone", 410, "The job of this list was removed",
        "The cursor goes on with a list of a job, and there is no such job any more: it was removed since the page before, or it never was one that this token sees.";
    PRECONDITION_FAILED, "precondition-failed", 412, "It is not what was expected",
        "The header If-Match names another version than there is, or If-None-Match: * expects that there is none: it was changed meanwhile. Get it again, and decide anew.";
    TOO_LARGE, "too-large", 413, "Too large",
        "The body of the request, or what was asked for, is larger than the server takes or gives at once. The detail names the limit.";
    ADDRESS_TOO_LONG, "address-too-long", 414, "The address is too long",
        "Address and query have 8 KiB together at most. Filters that name many jobs are better asked for one by one.";
    WRONG_MEDIA_TYPE, "wrong-media-type", 415, "The body has another media type",
        "The address takes the media type that the detail names, in the header Content-Type.";
    BAD_RANGE, "bad-range", 416, "The range cannot be given",
        "The file ends before the range begins. The header Content-Range of the answer has its size.";
    JOB_FILE, "job-file", 422, "The job is refused",
        "The job file, or a setting beside it, cannot be used. errors names all that is wrong, each with its key, its line, and where in the request it stands. The page about the key, prs explain KEY, says what it takes.";
    BAD_FIELD, "bad-field", 422, "A field has a value that it cannot have",
        "The request was understood, and something in it cannot be as it is said. errors names each with its place in the request.";
    UPLOAD_MISSING, "upload-missing", 422, "It names files that did not come with it",
        "What is handed in to a server reads nothing of the server's own disk. Send code as an archive and inputs as files beside the job file, or before it as blobs (PUT /api/v1/blobs/SHA256); give s3:// or https:// URLs; or have the server started with --allow-path for a folder that it shares with you. Where blobs are missing, errors names them.";
    BAD_UPLOAD, "bad-upload", 422, "A file that came with the job cannot be used",
        "Code comes as one archive, tar.gz or zip, without links and without names that lead out of its folder, of 512 MiB and 100,000 files at most. Inputs come as files, or as such archives.";
    ASSET_FILE, "asset-file", 422, "What is to be registered is refused",
        "The file, a key of it, or what it names cannot be used. errors names all that is wrong, each with its key and where in the request it stands.";
    IMMUTABLE, "immutable", 422, "That does not change",
        "Of a version description, tags, properties, stage, labels and archived change. What it holds, its type and its path do not: create another version.";
    SCORING_SCRIPT, "scoring-script", 422, "The scoring script cannot be used",
        "The script of a deployment is looked at when that is created: it has to be there, to compile, and to have a function run. ?skip_script_validation=true does not look.";
    ENVIRONMENT_MISSING, "environment-missing", 422, "The deployment has no environment",
        "A deployment with a scoring script names the environment that runs it: packages (conda_file), azureml:NAME:VERSION, or local for the Python of the workers. A model of MLflow brings its own.";
    DIGEST_MISMATCH, "digest-mismatch", 422, "The content is not what its name says",
        "A blob is named by the SHA-256 of its content, which is computed while it comes. Nothing is kept of one that has another: send it again.";
    KEY_REUSED, "idempotency-key-reused", 422, "The Idempotency-Key was used for something else",
        "A key stands for one request of one user: sent again with another body it would hide a mistake. Make a new key for each request that is meant once, such as a UUID, and use it again for retries of the same request alone.";
    PRECONDITION_MISSING, "precondition-missing", 428, "The request does not say what it expects",
        "What is replaced is named by the header If-Match with its ETag, so that no change of another caller is lost; If-None-Match: * creates what is not there.";
    UNKNOWN_HOST, "unknown-host", 421, "The server is not called so",
        "The server answers under the names that it knows, so that no page of another site reaches it through a name of its own. Start it with --url or --allow-host to add a name.";
    TOO_MANY_REQUESTS, "too-many-requests", 429, "Too many requests",
        "The header Retry-After says when to ask again.";
    INTERNAL, "internal", 500, "The server failed",
        "That is an error of prs. Its log has the details under the number of the request.";
    BAD_SERVERS, "bad-servers", 502, "A server behind this one answers wrongly",
        "Storage or ledger gave an answer that cannot be used. The log of this server has the details under the number of the request.";
    SERVERS_UNREACHABLE, "servers-unreachable", 503, "A server behind this one cannot be reached",
        "Storage or ledger does not answer. Jobs go on as far as they can; ask again after the seconds in Retry-After.";
    BUSY, "busy", 503, "The server has no room",
        "As many requests as it serves at once are under way, or it is about to end. Ask again after the seconds in Retry-After.";
    NO_ROOM, "no-room", 507, "The server has no room for it",
        "The disk of the server, or the storage behind it, is full. prs rm and prs gc make room.";
    TIMEOUT, "timeout", 503, "The answer took too long",
        "Storage or ledger, behind this server, did not answer in time. Ask again after the seconds in Retry-After, or for less at once. --read-timeout and --write-timeout of the server say what its time is.";
}

impl Kind {
    /// The kind with this address.
    pub(crate) fn of(slug: &str) -> Option<&'static Self> {
        ALL.iter().copied().find(|kind| kind.slug == slug)
    }
}
