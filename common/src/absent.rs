//! Parts that a program may be built without: servers of a fleet, S3, the server for browsers.

/// What a program says to someone who needs `what`, which it was built without.
pub fn absent(what: &str, feature: &str) -> String {
    format!("this build of prs has no {what} (feature {feature})")
}
