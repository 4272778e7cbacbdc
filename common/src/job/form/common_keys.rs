//! Keys that several forms of Azure have.

/// Those of a parallel job, a command and a pipeline.
const COMMON: [&str; 15] = [
    "$schema",
    "type",
    "name",
    "display_name",
    "experiment_name",
    "description",
    "tags",
    "properties",
    "version",
    "is_deterministic",
    "inputs",
    "outputs",
    "compute",
    "identity",
    "services",
];

/// Those below `resources`.
pub(super) const RESOURCES: [&str; 7] = [
    "instance_count",
    "instance_type",
    "shm_size",
    "docker_args",
    "properties",
    "locations",
    "max_instance_count",
];

/// The keys of a form that has `own` beside those that all have.
pub(super) fn with_common(own: &[&'static str]) -> Vec<&'static str> {
    [&COMMON[..], own].concat()
}
