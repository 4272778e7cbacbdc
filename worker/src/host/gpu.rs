//! Which GPU a process gets: the lowest one that no process of the host has (spec G1).
//!
//! Workers of one host do not know of each other, so a GPU that is taken is a name in the kernel that all of them see: an
//! abstract socket. It needs no folder and no rights, and is gone with the program that holds it, however that ends.

use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use nvml_wrapper::Nvml;

/// A GPU that one process has, until it is dropped.
#[derive(Debug)]
pub(crate) struct Gpu {
    /// Its place among those of the host, as CUDA counts them.
    pub(crate) index: u32,
    /// Nobody sends to it: its name says that the GPU is taken. Absent where the system refuses such names.
    _taken: Option<UnixDatagram>,
}

/// Takes the lowest of the GPUs with these [names] that is neither one of `used` nor with another program of the host.
///
/// [names]: names
pub(crate) fn take_lowest_free(names: &[String], used: impl Iterator<Item = u32>) -> Option<Gpu> {
    let used: Vec<u32> = used.collect();
    let free = (0..).zip(names).filter(|(index, _)| !used.contains(index));
    free.into_iter().find_map(|(index, name)| match take(name) {
        Ok(taken) => Some(Gpu { index, _taken: Some(taken) }),
        Err(error) if error.kind() == ErrorKind::AddrInUse => None,
        Err(_) => Some(Gpu { index, _taken: None }),
    })
}

fn take(name: &str) -> std::io::Result<UnixDatagram> {
    UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(format!("prs-gpu-{name}"))?)
}

/// The names of the host's GPUs, in the order of their indices: `declared` many without further question, else those of which the
/// driver's library knows (spec G2).
///
/// A name is the GPU's identity, so that containers that see different GPUs as number 0 do not keep each other from them;
/// a declared one has its index. A host without the library has none.
pub(super) fn names(declared: Option<u32>) -> Vec<String> {
    let found = |nvml: Nvml| {
        let count = nvml.device_count()?;
        Ok((0..count).map(|index| identity(&nvml, index).unwrap_or_else(|| index.to_string())).collect())
    };
    match declared {
        Some(count) => (0..count).map(|index| index.to_string()).collect(),
        None => Nvml::init().and_then(found).unwrap_or_default(),
    }
}

fn identity(nvml: &Nvml, index: u32) -> Option<String> {
    nvml.device_by_index(index).ok()?.uuid().ok()
}

#[cfg(test)]
mod tests {
    use super::{Gpu, take_lowest_free};

    fn named(name: &str, count: u32) -> Vec<String> {
        (0..count).map(|index| format!("{name}-{}-{index}", std::process::id())).collect()
    }

    fn index(gpu: Option<&Gpu>) -> Option<u32> {
        gpu.map(|gpu| gpu.index)
    }

    #[test]
    fn the_lowest_free_index_is_taken() {
        let table: [(u32, &[u32], Option<u32>); 6] = [
            (0, &[], None),
            (2, &[], Some(0)),
            (2, &[0], Some(1)),
            (2, &[1], Some(0)),
            (2, &[0, 1], None),
            (4, &[2, 0], Some(1)),
        ];
        for (row, (count, used, expected)) in table.into_iter().enumerate() {
            let names = named(&format!("table{row}"), count);
            let gpu = take_lowest_free(&names, used.iter().copied());
            assert_eq!(index(gpu.as_ref()), expected, "{count} {used:?}");
        }
    }

    #[test]
    fn a_gpu_is_free_again_when_its_process_is_gone() {
        // Two GPUs, four processes that know nothing of each other; then process 0 ends and process 4 takes its place.
        let names = named("contract", 2);
        let take = || take_lowest_free(&names, std::iter::empty());
        let mut taken = [take(), take(), take(), take()];
        assert_eq!(taken.each_ref().map(|gpu| index(gpu.as_ref())), [Some(0), Some(1), None, None]);
        taken[0] = None;
        assert_eq!(index(take().as_ref()), Some(0));
    }
}
