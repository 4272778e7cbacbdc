//! Tokens, and who changed what.

use askama::Template;

use super::Chrome;
use super::simple::rendered;

/// A moment: for people, and as machines have it.
type Moment = (String, String);

/// A token.
#[derive(Debug, Clone, Default)]
pub struct TokenRow {
    /// What it is called by.
    pub id: String,
    /// Who or what has it.
    pub name: String,
    /// What it allows.
    pub role: String,
    /// Of the role `invoke` the endpoints.
    pub endpoints: String,
    /// Whether it is taken.
    pub state: &'static str,
    /// When it was created.
    pub created: Moment,
    /// Who created it, with the id of their token where they had one.
    pub created_by: String,
    /// From when on it is refused; nothing where it never expires.
    pub expires: Option<Moment>,
    /// The last day on which it was shown; empty where it was not yet.
    pub last_used_on: String,
}

impl TokenRow {
    fn is_active(&self) -> bool {
        self.state == "active"
    }
}

/// What a form for a token says.
#[derive(Debug, Clone, Default)]
pub struct GivenToken {
    /// The name.
    pub name: String,
    /// The role.
    pub role: String,
    /// Endpoints, with blanks between them.
    pub endpoints: String,
    /// Days that it is taken.
    pub days: String,
}

/// Tokens as a page.
#[derive(Debug, Template)]
#[template(path = "site/tokens.html")]
pub struct TokensPage<'a> {
    /// What stands around it.
    pub chrome: &'a Chrome,
    /// The tokens that who asks may see, the newest first.
    pub tokens: Vec<TokenRow>,
    /// How many there are.
    pub total: usize,
    /// Whether these are all there are, and not their own alone.
    pub is_admin: bool,
    /// The roles that a token may get which they make; empty where they make none.
    pub roles: Vec<&'a str>,
    /// What they gave.
    pub given: GivenToken,
    /// Another one each time that the form is shown: who presses twice makes one token.
    pub key: &'a str,
    /// What was wrong with it; empty otherwise.
    pub wrong: &'a str,
    /// A token that was made just now: its name, and its secret.
    pub made: Option<(&'a str, &'a str)>,
    /// The id of the token that the same form made before.
    pub made_before: Option<&'a str>,
}

impl TokensPage<'_> {
    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }

    fn is_cut(&self) -> bool {
        self.tokens.len() < self.total
    }
}

/// A line of the audit.
#[derive(Debug, Clone, Default)]
pub struct AuditRow {
    /// When.
    pub at: Moment,
    /// Who; empty where that was not known.
    pub principal: String,
    /// Their role, and how they were known.
    pub role: String,
    /// Where from.
    pub address: String,
    /// What was asked for.
    pub action: String,
    /// The address that was asked.
    pub resource: String,
    /// The page of what was made; empty where nothing was.
    pub made: String,
    /// The status of the answer.
    pub result: u16,
    /// The kind of the problem; empty where there was none.
    pub problem: String,
    /// The number of the request.
    pub request_id: String,
}

impl AuditRow {
    /// What became of it, in a word.
    fn became(&self) -> &'static str {
        match self.result {
            _ if self.problem == "not-done" => "not done",
            200..=399 => "done",
            499 => "left",
            _ => "refused",
        }
    }

    fn is_page(&self) -> bool {
        self.made.starts_with("/jobs/")
    }
}

/// Who changed what, as a page.
#[derive(Debug, Template)]
#[template(path = "site/audit.html")]
pub struct AuditPage<'a> {
    /// What stands around it.
    pub chrome: &'a Chrome,
    /// The lines of this page, the newest first.
    pub lines: Vec<AuditRow>,
    /// The filters as they were given: name, label, value.
    pub filters: Vec<(&'static str, &'static str, String)>,
    /// The query of the next page; empty at the end.
    pub next: String,
    /// The query of the same as JSON.
    pub query: String,
}

impl AuditPage<'_> {
    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const XSS: &str = "<script>alert(1)</script>\"'";

    #[test]
    fn names_are_no_markup_and_a_secret_is_shown_once() {
        let chrome = Chrome::default();
        let text = || XSS.to_owned();
        let row = TokenRow { id: "0a".to_owned(), name: text(), created_by: text(), ..TokenRow::default() };
        let page = TokensPage {
            chrome: &chrome,
            tokens: vec![TokenRow { state: "active", ..row.clone() }, TokenRow { state: "revoked", ..row }],
            total: 3,
            is_admin: true,
            roles: vec!["read"],
            given: GivenToken { name: text(), role: "read".to_owned(), endpoints: text(), days: text() },
            key: XSS,
            wrong: XSS,
            made: Some((XSS, "prs_0a_secret")),
            made_before: None,
        };
        let html = page.html();
        assert!(!html.contains("<script>alert") && !html.contains("style="), "{html}");
        assert_eq!(html.matches("prs_0a_secret").count(), 1);
        assert_eq!(html.matches("/admin/tokens/0a/revoke").count(), 1, "what is revoked stays so");
        assert!(html.contains("2 of 3"), "{html}");
        let again = TokensPage { made: None, made_before: Some("0b"), ..page };
        let html = again.html();
        assert!(!html.contains("prs_0a_secret") && html.contains("/admin/tokens/0b/revoke"), "{html}");
    }

    #[test]
    fn lines_say_what_became_of_requests() {
        let chrome = Chrome::default();
        let row = |result, problem: &str| AuditRow {
            principal: XSS.to_owned(),
            resource: XSS.to_owned(),
            result,
            problem: problem.to_owned(),
            ..AuditRow::default()
        };
        for (row, expected) in [
            (row(201, ""), "done"),
            (row(303, ""), "done"),
            (row(200, "not-done"), "not done"),
            (row(403, "forbidden"), "refused"),
            (row(499, ""), "left"),
        ] {
            assert_eq!(row.became(), expected);
            let filters = vec![("principal", "Who", XSS.to_owned())];
            let (next, query) = (String::new(), String::new());
            let html = AuditPage { chrome: &chrome, lines: vec![row], filters, next, query }.html();
            assert!(!html.contains("<script>alert") && html.contains(expected), "{html}");
        }
    }
}
