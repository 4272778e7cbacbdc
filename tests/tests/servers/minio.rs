//! The storage over S3 passes on MinIO, which prs did not write, what it passes on the server of the tests:
//! `make test-minio`.

use std::time::Instant;

use prs_common::storage::{S3Credentials, S3Options, S3Storage};
use prs_tests::conformance::storage::{CASES, run};
use prs_tests::harness::servers::s3::Rights;
use prs_tests::harness::servers::{Minio, Store};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs MinIO: make test-minio"]
async fn every_case_of_the_conformance_suite() {
    let server = Minio::start();
    server.make_bucket("bucket");
    let (access_key, secret_key) = server.key(Rights::All);
    let options = S3Options {
        endpoint: Some(server.endpoint()),
        credentials: Some(S3Credentials { access_key, secret_key }),
        ..S3Options::default()
    };
    for case in CASES {
        let start = Instant::now();
        let storage = S3Storage::open("bucket", &format!("some/{case}"), &options).await.unwrap();
        run(case, &storage).await;
        println!("{case}: {:?}", start.elapsed());
    }
    assert_eq!(server.incomplete_uploads("bucket"), Vec::<String>::new());
}
