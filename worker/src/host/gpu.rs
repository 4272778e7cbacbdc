//! Which GPU a process gets: the lowest one that no process of the host has (spec G1).
//!
//! The devices are those that this program was given by the variables of CUDA and of AMD's runtimes, in the form in which they were given;
//! without these, as many as are declared, else those of the driver's library (spec G2). Workers of one host do not know of
//! each other, so a GPU that is taken is a name in the kernel that all of them see: an abstract socket. It needs no folder
//! and no rights, and is gone with the program that holds it, however that ends.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device as NvmlDevice, Nvml};

/// Overrides the number of GPUs.
pub(crate) const COUNT_VARIABLE: &str = "AZ_BATCHAI_GPU_COUNT_FOUND";
const CUDA: &str = "CUDA_VISIBLE_DEVICES";
const HIP: &str = "HIP_VISIBLE_DEVICES";
const ROCR: &str = "ROCR_VISIBLE_DEVICES";
/// How CUDA counts devices; its default order is not that of the driver's library.
const CUDA_ORDER: (&str, &str) = ("CUDA_DEVICE_ORDER", "PCI_BUS_ID");

/// The GPUs that processes of this program may use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Gpus {
    devices: Vec<Gpu>,
    /// Variables that hide all of them from a process that gets none.
    hiding: Vec<Variable>,
    /// What this program was given them by: the variables, as they stand in its environment.
    given: Vec<Variable>,
}

/// A variable of a process.
pub(crate) type Variable = (&'static str, String);

/// A GPU, or a slice of one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Gpu {
    /// A name that no other GPU of the host has: its identity where that is known, so that containers that see different
    /// GPUs as number 0 do not keep each other from them.
    name: String,
    /// Variables that let a process see it and no other.
    showing: Vec<Variable>,
}

/// A GPU that one process has, until it is dropped.
#[derive(Debug)]
pub(crate) struct TakenGpu {
    /// Its place among those of this program.
    pub(crate) index: usize,
    /// Nobody sends to it: its name says that the GPU is taken. Absent where the system refuses such names.
    _taken: Option<UnixDatagram>,
}

impl Gpus {
    /// Looks which ones there are for this program.
    pub(crate) fn detect() -> Self {
        let environment: BTreeMap<_, _> = [CUDA, HIP, ROCR, COUNT_VARIABLE]
            .into_iter()
            .filter_map(|name| Some((name, std::env::var(name).ok()?)))
            .collect();
        let found = Nvml::init().and_then(|nvml| listed(&nvml)).unwrap_or_default();
        Self::of(&environment, &found)
    }

    /// Decides by these variables of the environment, and the GPUs that the driver's library tells.
    fn of(environment: &BTreeMap<&'static str, String>, found: &[Found]) -> Self {
        let has = |name: &str| environment.contains_key(name);
        // The devices of HIP are counted among those that ROCR_VISIBLE_DEVICES leaves.
        let narrowed: Vec<_> = [CUDA, HIP, ROCR]
            .into_iter()
            .filter(|name| has(name) && (*name != ROCR || !has(HIP) && !has(CUDA)))
            .collect();
        if !narrowed.is_empty() {
            return Self::given(&narrowed, environment, found);
        }
        let declared = environment.get(COUNT_VARIABLE).and_then(|count| count.trim().parse::<u32>().ok());
        let numbered = |index: u32| Gpu { name: index.to_string(), showing: vec![(CUDA, index.to_string())] };
        let devices: Vec<Gpu> = match declared {
            Some(count) => (0..count).map(numbered).collect(),
            None => found.iter().flat_map(|gpu| gpu.devices(found)).collect(),
        };
        let hiding = if devices.is_empty() { Vec::new() } else { vec![(CUDA, String::new())] };
        Self { devices, hiding, given: Vec::new() }
    }

    /// The devices that the variables `narrowed` of the environment name.
    fn given(
        narrowed: &[&'static str],
        environment: &BTreeMap<&'static str, String>,
        found: &[Found],
    ) -> Self {
        let lists: Vec<(&'static str, Vec<&str>)> =
            narrowed.iter().map(|name| (*name, entries(&environment[name]))).collect();
        let count = lists.iter().map(|(_, entries)| entries.len()).min().unwrap_or(0);
        let device = |at: usize| Gpu {
            name: identity_of(lists[0].0, lists[0].1[at], found),
            showing: lists.iter().map(|(name, entries)| (*name, entries[at].to_owned())).collect(),
        };
        // CUDA takes an empty list for none, ROCm may not.
        let hidden = |name| if name == CUDA { String::new() } else { "-1".to_owned() };
        Self {
            devices: (0..count).map(device).collect(),
            hiding: narrowed.iter().map(|name| (*name, hidden(*name))).collect(),
            given: narrowed.iter().map(|name| (*name, environment[name].clone())).collect(),
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.devices.len()
    }

    /// Tells how many of so many processes of a node get none; nothing where each has one, or there is none at all.
    pub(crate) fn shortage(&self, processes: u32) -> Option<String> {
        let (processes, count) = (processes as usize, self.count());
        let are_short = count > 0 && processes > count;
        are_short.then(|| {
            let gpus = if count == 1 { "GPU" } else { "GPUs" };
            let without = processes - count;
            format!("{processes} processes share {count} {gpus}{}: {without} of them see none", self.origin())
        })
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }

    /// What this program was given them by, for people: ` (CUDA_VISIBLE_DEVICES=2,3)`; empty where by nothing.
    pub(crate) fn origin(&self) -> String {
        let given: Vec<_> = self.given.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if given.is_empty() { String::new() } else { format!(" ({})", given.join(" ")) }
    }

    /// Takes the lowest one that is neither at one of the places `used` nor with another program of the host.
    pub(crate) fn take_lowest_free(&self, used: impl Iterator<Item = usize>) -> Option<TakenGpu> {
        let used: Vec<usize> = used.collect();
        let free = self.devices.iter().enumerate().filter(|(index, _)| !used.contains(index));
        free.into_iter().find_map(|(index, gpu)| match take(&gpu.name) {
            Ok(taken) => Some(TakenGpu { index, _taken: Some(taken) }),
            Err(error) if error.kind() == ErrorKind::AddrInUse => None,
            Err(_) => Some(TakenGpu { index, _taken: None }),
        })
    }

    /// The variables of a process that has this one, or none of them.
    pub(crate) fn variables(&self, taken: Option<&TakenGpu>) -> &[Variable] {
        taken.and_then(|gpu| self.devices.get(gpu.index)).map_or(&self.hiding, |gpu| &gpu.showing)
    }
}

impl TakenGpu {
    /// Names it among `gpus`, for people.
    pub(crate) fn shown(&self, gpus: &Gpus) -> String {
        let showing = gpus.variables(Some(self)).first();
        showing.map(|(_, value)| value.clone()).unwrap_or_default()
    }
}

/// The devices that a list names: those before the first entry that cannot be one, as CUDA reads it.
fn entries(list: &str) -> Vec<&str> {
    let is_device =
        |entry: &&str| entry.parse::<u32>().is_ok() || entry.starts_with("GPU-") || entry.starts_with("MIG-");
    list.split(',').map(str::trim).take_while(is_device).collect()
}

/// The name of a device that an entry of `variable` names.
fn identity_of(variable: &str, entry: &str, found: &[Found]) -> String {
    let by_index = || found.get(entry.parse::<usize>().ok()?).filter(|_| variable == CUDA);
    let by_name = || found.iter().find(|gpu| entry.starts_with("GPU-") && gpu.identity.starts_with(entry));
    match by_index().or_else(by_name) {
        Some(gpu) => gpu.identity.clone(),
        None if variable == CUDA => entry.to_owned(),
        None => format!("{variable}-{entry}"),
    }
}

fn take(name: &str) -> std::io::Result<UnixDatagram> {
    UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(format!("prs-gpu-{name}"))?)
}

/// A GPU that the driver's library tells of.
#[derive(Debug, Clone, Default)]
struct Found {
    index: u32,
    /// Its identity; its index where that is not known.
    identity: String,
    /// The identities of its slices (MIG), where it is cut into such; it is no device itself then.
    slices: Option<Vec<String>>,
}

impl Found {
    /// What of it a process may have. Where one of `all` is cut, CUDA counts in another way, and names tell.
    fn devices(&self, all: &[Self]) -> Vec<Gpu> {
        let named = |name: &String| Gpu { name: name.clone(), showing: vec![(CUDA, name.clone())] };
        let is_any_cut = all.iter().any(|gpu| gpu.slices.is_some());
        match &self.slices {
            Some(slices) => slices.iter().map(named).collect(),
            None if is_any_cut => vec![named(&self.identity)],
            None => {
                let (order, pci) = CUDA_ORDER;
                let showing = vec![(CUDA, self.index.to_string()), (order, pci.to_owned())];
                vec![Gpu { name: self.identity.clone(), showing }]
            }
        }
    }
}

fn listed(nvml: &Nvml) -> Result<Vec<Found>, NvmlError> {
    let of = |index| {
        let device = nvml.device_by_index(index).ok();
        let identity = device.as_ref().and_then(|device| device.uuid().ok());
        let identity = identity.unwrap_or_else(|| index.to_string());
        Found { index, identity, slices: device.as_ref().and_then(slices) }
    };
    Ok((0..nvml.device_count()?).map(of).collect())
}

/// The identities of the slices of a GPU; `None` where it is not cut.
fn slices(device: &NvmlDevice<'_>) -> Option<Vec<String>> {
    device.mig_mode().ok().filter(|mode| mode.current == 1)?;
    let most = device.mig_device_count().ok()?;
    // There are gaps where slices were removed.
    Some((0..most).filter_map(|at| device.mig_device_by_index(at).ok()?.uuid().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(name: &str, count: u32) -> Gpus {
        let own = |index| format!("{name}-{}-{index}", std::process::id());
        let devices = (0..count).map(|index| Gpu { name: own(index), showing: Vec::new() }).collect();
        Gpus { devices, ..Gpus::default() }
    }

    fn index(gpu: Option<&TakenGpu>) -> Option<usize> {
        gpu.map(|gpu| gpu.index)
    }

    #[test]
    fn the_lowest_free_index_is_taken() {
        let table: [(u32, &[usize], Option<usize>); 6] = [
            (0, &[], None),
            (2, &[], Some(0)),
            (2, &[0], Some(1)),
            (2, &[1], Some(0)),
            (2, &[0, 1], None),
            (4, &[2, 0], Some(1)),
        ];
        for (row, (count, used, expected)) in table.into_iter().enumerate() {
            let gpus = declared(&format!("table{row}"), count);
            let gpu = gpus.take_lowest_free(used.iter().copied());
            assert_eq!(index(gpu.as_ref()), expected, "{count} {used:?}");
        }
    }

    #[test]
    fn a_gpu_is_free_again_when_its_process_is_gone() {
        // Two GPUs, four processes that know nothing of each other; then process 0 ends and process 4 takes its place.
        let gpus = declared("contract", 2);
        let take = || gpus.take_lowest_free(std::iter::empty());
        let mut taken = [take(), take(), take(), take()];
        assert_eq!(taken.each_ref().map(|gpu| index(gpu.as_ref())), [Some(0), Some(1), None, None]);
        taken[0] = None;
        assert_eq!(index(take().as_ref()), Some(0));
    }

    /// Two whole GPUs, as the driver's library tells them.
    fn two() -> Vec<Found> {
        let of = |index, identity: &str| Found { index, identity: identity.to_owned(), slices: None };
        vec![of(0, "GPU-aa-1"), of(1, "GPU-bb-2")]
    }

    /// For each device of a program with these variables its name, and what its process gets; then what one without gets.
    fn told(variables: &[(&'static str, &str)], found: &[Found]) -> Vec<String> {
        let environment = variables.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let gpus = Gpus::of(&environment, found);
        let shown = |variables: &[Variable]| {
            let all: Vec<_> = variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
            all.join(" ").replace("_VISIBLE_DEVICES", "")
        };
        let devices = gpus.devices.iter().map(|gpu| format!("{}: {}", gpu.name, shown(&gpu.showing)));
        devices.chain([shown(gpus.variables(None))]).collect()
    }

    /// Variables of the program, GPUs of the host; devices, and what a process without one gets.
    type Row<'a> = (&'a [(&'static str, &'a str)], &'a [Found], &'a [&'a str]);

    #[test]
    fn processes_get_what_the_program_was_given() {
        let none: &[Found] = &[];
        let two = &*two();
        let table: [Row<'_>; 22] = [
            (&[], none, &[""]),
            (
                &[],
                two,
                &[
                    "GPU-aa-1: CUDA=0 CUDA_DEVICE_ORDER=PCI_BUS_ID",
                    "GPU-bb-2: CUDA=1 CUDA_DEVICE_ORDER=PCI_BUS_ID",
                    "CUDA=",
                ],
            ),
            (&[(COUNT_VARIABLE, "1")], two, &["0: CUDA=0", "CUDA="]),
            (&[(COUNT_VARIABLE, "0")], two, &[""]),
            (&[(COUNT_VARIABLE, "many")], none, &[""]),
            // A given list is stronger than a count.
            (&[(CUDA, "6,7"), (COUNT_VARIABLE, "1")], none, &["6: CUDA=6", "7: CUDA=7", "CUDA="]),
            (&[(CUDA, "1")], two, &["GPU-bb-2: CUDA=1", "CUDA="]),
            (&[(CUDA, " 1 , 0 ")], two, &["GPU-bb-2: CUDA=1", "GPU-aa-1: CUDA=0", "CUDA="]),
            (&[(CUDA, "GPU-bb")], two, &["GPU-bb-2: CUDA=GPU-bb", "CUDA="]),
            (&[(CUDA, "MIG-1/2,MIG-3")], two, &["MIG-1/2: CUDA=MIG-1/2", "MIG-3: CUDA=MIG-3", "CUDA="]),
            // What cannot be a device ends the list.
            (&[(CUDA, "0,-1,1")], two, &["GPU-aa-1: CUDA=0", "CUDA="]),
            (&[(CUDA, "-1")], two, &["CUDA="]),
            (&[(CUDA, "")], two, &["CUDA="]),
            (&[(CUDA, "NoDevFiles")], two, &["CUDA="]),
            (&[(CUDA, "none")], two, &["CUDA="]),
            (&[(CUDA, "9")], two, &["9: CUDA=9", "CUDA="]),
            (
                &[(HIP, "2,3")],
                none,
                &["HIP_VISIBLE_DEVICES-2: HIP=2", "HIP_VISIBLE_DEVICES-3: HIP=3", "HIP=-1"],
            ),
            (&[(ROCR, "2")], none, &["ROCR_VISIBLE_DEVICES-2: ROCR=2", "ROCR=-1"]),
            // HIP counts among those that ROCR leaves, which stays as it is.
            (&[(ROCR, "4,5"), (HIP, "1")], none, &["HIP_VISIBLE_DEVICES-1: HIP=1", "HIP=-1"]),
            (&[(CUDA, "2,3"), (HIP, "2,3")], none, &["2: CUDA=2 HIP=2", "3: CUDA=3 HIP=3", "CUDA= HIP=-1"]),
            (&[(CUDA, "0,1"), (HIP, "-1")], two, &["CUDA= HIP=-1"]),
            (&[(ROCR, "-1")], none, &["ROCR=-1"]),
        ];
        for (variables, found, expected) in table {
            assert_eq!(told(variables, found), expected, "{variables:?}");
        }
    }

    #[test]
    fn slices_of_a_gpu_are_devices() {
        let mut found = two();
        found[1].slices = Some(vec!["MIG-x".to_owned(), "MIG-y".to_owned()]);
        let slices = ["MIG-x: CUDA=MIG-x", "MIG-y: CUDA=MIG-y", "CUDA="];
        assert_eq!(told(&[], &found)[1..], slices);
        assert_eq!(told(&[], &found)[0], "GPU-aa-1: CUDA=GPU-aa-1", "its index may be another one to CUDA");
        found[0].slices = Some(Vec::new());
        assert_eq!(told(&[], &found), slices, "a GPU that is cut into nothing is no device");
    }

    #[test]
    fn a_program_tells_by_what_it_was_given_its_gpus() {
        let of = |variables: &[(&'static str, &str)]| {
            let environment = variables.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
            Gpus::of(&environment, &[]).origin()
        };
        assert_eq!(of(&[]), "");
        assert_eq!(of(&[(CUDA, "2,3")]), " (CUDA_VISIBLE_DEVICES=2,3)");
    }
}
