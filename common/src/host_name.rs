//! The name of this host.

use std::sync::LazyLock;

use crate::checksum::Crc64;

/// What the kernel calls this host.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// A number of this host: its name's, as it was when this program first asked.
pub fn host_id() -> u64 {
    static ID: LazyLock<u64> = LazyLock::new(|| {
        let mut sum = Crc64::default();
        sum.update(host_name().as_bytes());
        sum.finish()
    });
    *ID
}
