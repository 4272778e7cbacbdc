//! The name of this host.

use crate::checksum::Crc64;

/// What the kernel calls this host.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// A number of this host: its name's.
pub fn host_id() -> u64 {
    let mut sum = Crc64::default();
    sum.update(host_name().as_bytes());
    sum.finish()
}
