//! Numbers of things in words.

/// `1 item`, `2 items`.
pub fn count(number: u64, what: &str) -> String {
    match (number, what) {
        (1, _) => format!("1 {what}"),
        (_, "try") => format!("{number} tries"),
        (_, "mini-batch" | "process") => format!("{number} {what}es"),
        _ => format!("{number} {what}s"),
    }
}
