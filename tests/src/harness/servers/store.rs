//! What a fleet of the tests needs of the S3 server under it, whichever that is.

use std::fmt::Debug;
use std::net::SocketAddr;

use super::s3::Rights;

/// An S3 server that tests start, look into and change behind everybody's back.
pub trait Store: Debug + Send + Sync {
    /// Where it listens.
    fn address(&self) -> SocketAddr;

    /// The variables with which a program reaches it.
    fn env(&self) -> Vec<(String, String)>;

    /// Access key and secret of a user with these rights.
    fn key(&self, rights: Rights) -> (String, String);

    /// Makes a bucket that is not there yet.
    fn make_bucket(&self, bucket: &str);

    /// Puts an object, as a client would.
    fn put_object(&self, bucket: &str, key: &str, bytes: &[u8]);

    /// Deletes an object, as a client would.
    fn delete_object(&self, bucket: &str, key: &str);

    /// What an object holds; nothing where there is none.
    fn object(&self, bucket: &str, key: &str) -> Option<Vec<u8>>;

    /// Names and sizes of all objects, whatever the clients believe.
    fn objects(&self, bucket: &str) -> Vec<(String, u64)>;

    /// Names of objects whose upload was begun and neither completed nor aborted.
    fn incomplete_uploads(&self, bucket: &str) -> Vec<String>;

    /// Changes an object's bytes where they lie, as a disk does that flips a bit.
    fn damage(&self, bucket: &str, key: &str, change: &mut dyn FnMut(&mut Vec<u8>));

    /// Ends it in the middle of whatever it does.
    fn kill(&mut self);

    /// Serves again on the same port, with what it held.
    fn restart(&mut self);
}
