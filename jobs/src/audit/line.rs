//! What is kept of a request.

use serde::{Deserialize, Serialize};

/// A change, or one that was refused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AuditLine {
    /// When it had its answer: UTC, RFC 3339.
    pub at: String,
    /// The number of the request.
    pub request_id: String,
    /// Who asked; nothing where that was not known.
    pub principal: Option<String>,
    /// The id of their token.
    pub token_id: Option<String>,
    /// How they were known: `local`, `session`, `token`.
    pub how: Option<String>,
    /// Their role.
    pub role: Option<String>,
    /// Where the request came from.
    pub address: String,
    /// What was asked for, such as `job.submit`, `token.revoke`.
    pub action: String,
    /// The address of the server that was asked, without its query.
    pub resource: String,
    /// Where what was made is, such as the address of a new job.
    pub made: Option<String>,
    /// The status of the answer.
    pub result: u16,
    /// The kind of the problem, where the request was refused.
    pub problem: Option<String>,
    /// What the request expected to be there: `If-Match`.
    pub before: Option<String>,
    /// What is there now: `ETag`.
    pub after: Option<String>,
}

impl AuditLine {
    /// As it is written, without a line end.
    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// `text` with no more than the id of each token in it: some addresses take a whole token.
pub fn without_tokens(text: &str) -> String {
    const PREFIX: &str = "prs_";
    let mut told = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(PREFIX) {
        let (before, from) = rest.split_at(at + PREFIX.len());
        told.push_str(before);
        let length = |part: &str| part.bytes().take_while(u8::is_ascii_alphanumeric).count();
        let id = length(from);
        told.push_str(&from[..id]);
        rest = &from[id..];
        if let Some(secret) = rest.strip_prefix('_').filter(|secret| id > 0 && length(secret) >= 16) {
            told.push_str("_***");
            rest = &secret[length(secret)..];
            if let Some(sum) = rest.strip_prefix('_') {
                rest = &sum[length(sum)..];
            }
        }
    }
    told.push_str(rest);
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_told_by_its_id() {
        let secret = "ab".repeat(32);
        for (text, expected) in [
            (
                format!("/api/v1/tokens/prs_0123456789ab_{secret}_0a1b2c3d"),
                "/api/v1/tokens/prs_0123456789ab_***",
            ),
            (
                format!("prs_0123456789ab_{secret}_0a1b2c3d/x prs_1_{secret}"),
                "prs_0123456789ab_***/x prs_1_***",
            ),
            ("/jobs/prs_job_1".to_owned(), "/jobs/prs_job_1"),
            ("prs_".to_owned(), "prs_"),
            ("/jobs/a".to_owned(), "/jobs/a"),
        ] {
            assert_eq!(without_tokens(&text), expected, "{text}");
        }
    }
}
