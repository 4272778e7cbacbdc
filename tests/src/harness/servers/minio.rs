//! MinIO, a server that prs did not write, and its client: what the server of the tests takes for granted of S3 is
//! tried against another idea of it.
//!
//! Both programs are in the folder that `PRS_TEST_MINIO` names; `make test-minio` builds them from their Go modules.

use std::fs::File;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::s3::Rights;
use super::store::Store;
use super::{Supervised, free_port};
use crate::deadline::wait_for;

/// Longer than it takes to start with what the tests leave in it.
const PATIENCE: Duration = Duration::from_mins(1);
/// Times that an object is read which is replaced meanwhile.
const READS: u32 = 10;
const USER: &str = "test-key";
const PASSWORD: &str = "test-secret-that-nobody-may-see";

/// A server on a port of its own; it ends when this is dropped, and when the tests end.
#[derive(Debug)]
pub struct Minio {
    /// Nothing while it is killed. Before the folder: it is ended first.
    server: Option<Supervised>,
    programs: PathBuf,
    port: u16,
    folder: TempDir,
}

impl Minio {
    /// Starts one without buckets.
    pub fn start() -> Self {
        let programs = std::env::var_os("PRS_TEST_MINIO").map(PathBuf::from);
        let programs = programs.expect("PRS_TEST_MINIO names the folder of minio and mc: make test-minio");
        let folder = tempfile::Builder::new().prefix("prs-minio-").tempdir().unwrap();
        let mut minio = Self { server: None, programs, port: free_port(), folder };
        minio.restart();
        minio
    }

    /// The URL that clients call their endpoint.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address())
    }

    /// What MinIO's client says to this; `storage/BUCKET/KEY` names an object.
    fn client(&self, arguments: &[&str], input: &[u8]) -> Output {
        let login = format!("http://{USER}:{PASSWORD}@{}", self.address());
        let mut command = Command::new(self.programs.join("mc"));
        command.arg("--config-dir").arg(self.folder.path().join("mc")).args(arguments);
        command.env("MC_HOST_storage", login).stdin(Stdio::piped());
        let mut client = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = client.stdin.take().unwrap();
        std::thread::scope(|scope| {
            // A client that does not read says why in its output.
            scope.spawn(move || drop(stdin.write_all(input)));
            client.wait_with_output().unwrap()
        })
    }

    /// The same, where it must succeed.
    fn must(&self, arguments: &[&str], input: &[u8]) -> Vec<u8> {
        let output = self.client(arguments, input);
        assert!(output.status.success(), "mc {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// Keys and sizes that a listing in JSON lines has.
    fn listed(&self, arguments: &[&str], bucket: &str) -> Vec<(String, u64)> {
        let place = format!("storage/{bucket}");
        let said = self.must(&[&["ls", "--recursive", "--json"], arguments, &[&place]].concat(), b"");
        let lines = said.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let objects = lines.map(|line| {
            let object: Value = serde_json::from_slice(line).unwrap();
            (object["key"].as_str().unwrap().to_owned(), object["size"].as_u64().unwrap_or(0))
        });
        objects.collect()
    }
}

impl Store for Minio {
    fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    fn env(&self) -> Vec<(String, String)> {
        [
            ("AWS_ACCESS_KEY_ID", USER),
            ("AWS_SECRET_ACCESS_KEY", PASSWORD),
            ("AWS_ENDPOINT_URL_S3", &self.endpoint()),
            ("AWS_REGION", "us-east-1"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
    }

    fn key(&self, rights: Rights) -> (String, String) {
        assert_eq!(rights, Rights::All, "the one user of this server may do everything");
        (USER.to_owned(), PASSWORD.to_owned())
    }

    fn make_bucket(&self, bucket: &str) {
        self.must(&["mb", &format!("storage/{bucket}")], b"");
    }

    fn put_object(&self, bucket: &str, key: &str, bytes: &[u8]) {
        self.must(&["pipe", &format!("storage/{bucket}/{key}")], bytes);
    }

    fn delete_object(&self, bucket: &str, key: &str) {
        self.must(&["rm", &format!("storage/{bucket}/{key}")], b"");
    }

    fn object(&self, bucket: &str, key: &str) -> Option<Vec<u8>> {
        for _ in 0..READS {
            let output = self.client(&["cat", &format!("storage/{bucket}/{key}")], b"");
            if output.status.success() {
                return Some(output.stdout);
            }
            // The client looks at an object before it reads it, and gives up where it is replaced in between.
            if self.objects(bucket).iter().all(|(listed, _)| listed != key) {
                return None;
            }
        }
        panic!("{bucket}/{key} cannot be read:\n{}", said(self.folder.path()));
    }

    fn objects(&self, bucket: &str) -> Vec<(String, u64)> {
        self.listed(&[], bucket)
    }

    fn incomplete_uploads(&self, bucket: &str) -> Vec<String> {
        self.listed(&["--incomplete"], bucket).into_iter().map(|(key, _)| key).collect()
    }

    fn damage(&self, _: &str, key: &str, _: &mut dyn FnMut(&mut Vec<u8>)) {
        panic!("MinIO finds a changed bit of {key} by itself; the server of the tests takes it");
    }

    fn kill(&mut self) {
        self.server = None;
    }

    fn restart(&mut self) {
        self.kill();
        let folder = self.folder.path().to_owned();
        let output = File::options().create(true).append(true).open(folder.join("output")).unwrap();
        let mut command = Command::new(self.programs.join("minio"));
        command.args(["server", "--quiet", "--address", &self.address().to_string()]);
        command.args(["--console-address", &format!("127.0.0.1:{}", free_port())]);
        command.arg(folder.join("data")).stdin(Stdio::null());
        command.env("MINIO_ROOT_USER", USER).env("MINIO_ROOT_PASSWORD", PASSWORD);
        command.env("HOME", &folder).stdout(output.try_clone().unwrap()).stderr(output);
        self.server = Some(Supervised::start(command, Some(&folder)).unwrap());
        wait_for("MinIO to take commands", PATIENCE, || {
            let has_ended = self.server.as_mut().is_none_or(|server| server.ended().is_some());
            assert!(!has_ended, "minio does not start:\n{}", said(&folder));
            let is_up = TcpStream::connect(self.address()).is_ok();
            (is_up && self.client(&["ls", "storage"], b"").status.success()).then_some(())
        });
    }
}

fn said(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("output")).unwrap_or_default()
}
