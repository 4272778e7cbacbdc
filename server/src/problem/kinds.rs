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
    METHOD_NOT_ALLOWED, "method-not-allowed", 405, "The address does not take this method",
        "The header Allow of the answer names those that it takes.";
    NO_RESULT, "no-result", 409, "The job has no result",
        "A job has a result once it has completed; one that failed or was canceled keeps what is done, and prs resume goes on with it. With summary_only there is no result file: the rows stay with the script.";
    JOB_HAS_ENDED, "job-has-ended", 409, "The job has ended",
        "What has ended cannot be canceled.";
    JOB_IS_ACTIVE, "job-is-active", 409, "The job has not ended",
        "It can be removed once it has ended; cancel ends it.";
    REFUSED, "refused", 409, "The state of things forbids it",
        "The request was understood, and what it is about does not allow it now. The detail says why.";
    TOO_LARGE, "too-large", 413, "Too large",
        "The body of the request, or what was asked for, is larger than the server takes or gives at once. The detail names the limit.";
    WRONG_MEDIA_TYPE, "wrong-media-type", 415, "The body has another media type",
        "The address takes the media type that the detail names, in the header Content-Type.";
    BAD_RANGE, "bad-range", 416, "The range cannot be given",
        "The file ends before the range begins. The header Content-Range of the answer has its size.";
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
    TIMEOUT, "timeout", 504, "The answer took too long",
        "What is behind this server did not answer in time. Ask again, or for less at once.";
}

impl Kind {
    /// The kind with this address.
    pub(crate) fn of(slug: &str) -> Option<&'static Self> {
        ALL.iter().copied().find(|kind| kind.slug == slug)
    }
}
