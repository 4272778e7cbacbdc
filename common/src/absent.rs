//! Parts that a program may be built without: servers of a fleet, S3, the server for browsers.

/// Returns the message of a program that was built without `what`, which this feature brings.
pub fn absent(what: &str, feature: &str) -> String {
    format!("this build of prs has no {what} (feature {feature})")
}
