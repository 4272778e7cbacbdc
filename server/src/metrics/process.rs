//! What this process uses of its host, under the names that all programs have for it.

use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

/// What this process uses.
#[derive(Debug)]
pub(super) struct OwnProcess {
    /// Nothing where the system does not tell.
    system: Mutex<Option<System>>,
    cpu: Counter<f64, AtomicU64>,
    resident: Gauge,
    virtual_memory: Gauge,
    descriptors: Gauge,
    most_descriptors: Gauge,
    started: Gauge,
}

impl Default for OwnProcess {
    fn default() -> Self {
        Self {
            system: Mutex::new(System::new().ok()),
            cpu: Counter::default(),
            resident: Gauge::default(),
            virtual_memory: Gauge::default(),
            descriptors: Gauge::default(),
            most_descriptors: Gauge::default(),
            started: Gauge::default(),
        }
    }
}

impl OwnProcess {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "process_cpu",
            "Time of processors that the server has used",
            Unit::Seconds,
            self.cpu.clone(),
        );
        for (name, help, unit, gauge) in [
            ("resident_memory", "Memory of the server that is in use", Unit::Bytes, &self.resident),
            ("virtual_memory", "Address space of the server", Unit::Bytes, &self.virtual_memory),
            ("start_time", "When the server started, since the Unix epoch", Unit::Seconds, &self.started),
        ] {
            registry.register_with_unit(format!("process_{name}"), help, unit, gauge.clone());
        }
        for (name, help, gauge) in [
            ("open_fds", "Files and connections that the server has open", &self.descriptors),
            ("max_fds", "Files and connections that it may have open", &self.most_descriptors),
        ] {
            registry.register(format!("process_{name}"), help, gauge.clone());
        }
    }

    /// Looks at the process.
    pub(super) fn look(&self) {
        let mut system = self.system.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(system) = system.as_mut() else { return };
        let pid = Pid::from_u32(std::process::id());
        let kind = ProcessRefreshKind::nothing().with_cpu().with_memory();
        system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), false, kind);
        let Some(seen) = system.process(pid) else { return };
        let used = seen.accumulated_cpu_time() as f64 / 1000.0;
        self.cpu.inc_by((used - self.cpu.get()).max(0.0));
        self.resident.set(seen.memory() as i64);
        self.virtual_memory.set(seen.virtual_memory() as i64);
        self.started.set(seen.start_time() as i64);
        let count = |count: Option<usize>| count.unwrap_or_default() as i64;
        self.descriptors.set(count(seen.open_files()));
        self.most_descriptors.set(count(seen.open_files_limit()));
    }
}
