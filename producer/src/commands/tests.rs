//! The records as JSON Schemas: those in `docs/schema` are the ones of these types.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use prs_jobs::records::{
    Asset, AssetList, AzureJob, AzureJobs, Collected, CreatedToken, Data, DataList, Deployment, Deployments,
    Downloaded, Endpoint, Endpoints, Errors, FailedItems, Job, Jobs, Logs, Removed, ReportMade, SCHEMA,
    Served, Shown, Submitted, Token, Tokens, Versioned, Workers,
};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;

use super::doctor::Diagnosis;
use super::explain::Explained;
use super::man::ManualPages;
use super::new::Made;
use super::pipeline::ValidatedPipeline;
use super::profiles::ProfilesView;
use super::validate::Validated;
use crate::failure::CommandError;
use crate::trial;

/// The schema of a record, as a file has it.
fn text<R: JsonSchema>() -> String {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let schema = settings.into_generator().into_root_schema_for::<Versioned<R>>();
    serde_json::to_string_pretty(&schema).unwrap() + "\n"
}

/// Every record: the name of its file and its schema.
fn records() -> [(&'static str, String); 35] {
    [
        ("asset-list", text::<AssetList>()),
        ("asset", text::<Asset>()),
        ("azure-job", text::<AzureJob>()),
        ("azure-jobs", text::<AzureJobs>()),
        ("collected", text::<Collected>()),
        ("command-error", text::<CommandError>()),
        ("created-token", text::<CreatedToken>()),
        ("data-list", text::<DataList>()),
        ("data", text::<Data>()),
        ("deployment", text::<Deployment>()),
        ("deployments", text::<Deployments>()),
        ("diagnosis", text::<Diagnosis>()),
        ("downloaded", text::<Downloaded>()),
        ("endpoint", text::<Endpoint>()),
        ("endpoints", text::<Endpoints>()),
        ("errors", text::<Errors>()),
        ("explained", text::<Explained>()),
        ("failed-items", text::<FailedItems>()),
        ("job", text::<Job>()),
        ("jobs", text::<Jobs>()),
        ("logs", text::<Logs>()),
        ("made", text::<Made>()),
        ("manual", text::<ManualPages>()),
        ("profiles", text::<ProfilesView>()),
        ("removed", text::<Removed>()),
        ("report", text::<ReportMade>()),
        ("served", text::<Served>()),
        ("shown", text::<Shown>()),
        ("submitted", text::<Submitted>()),
        ("token", text::<Token>()),
        ("tokens", text::<Tokens>()),
        ("tried", text::<trial::Shown>()),
        ("validated-pipeline", text::<ValidatedPipeline>()),
        ("validated", text::<Validated>()),
        ("workers", text::<Workers>()),
    ]
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/schema")
}

/// With `PRS_WRITE_SCHEMAS` set it writes the files.
#[test]
fn the_schemas_that_are_documented_are_those_of_the_records() {
    let folder = folder();
    for (name, schema) in records() {
        let path = folder.join(format!("{name}.json"));
        if std::env::var_os("PRS_WRITE_SCHEMAS").is_some() {
            fs::write(&path, &schema).unwrap();
        }
        let documented = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            documented == schema,
            "{name} is not as docs/schema/{name}.json says, which is schema {SCHEMA}: where keys were only added, run this \
             test with PRS_WRITE_SCHEMAS=1; else count SCHEMA up first, and list the change in CHANGELOG.md"
        );
    }
    let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name()).collect();
    files.sort();
    let expected = records().map(|(name, _)| OsString::from(format!("{name}.json")));
    assert_eq!(files, expected, "no other record is documented");
}
