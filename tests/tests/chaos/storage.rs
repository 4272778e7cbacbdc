//! A store that fails now and then: a fifth of what is asked of it is refused, late, cut off, or not answered by a
//! store; or what it gives back is not what it was given.

use std::time::Duration;

use prs_tests::harness::servers::proxy::{Fault, HttpFaults, HttpProxy};
use prs_tests::harness::{Fleet, Random};

use crate::chaos_run::{ChaosJob, ChaosRun, Expected};

/// One bit of a tenth of what the workers read is another: found by the checksums, and read again.
pub(crate) fn flips_bits(fleet: &mut Fleet, random: &mut Random) {
    let faults = HttpFaults {
        seed: random.below(1 << 30),
        percent: 10,
        kinds: vec![Fault::Flip],
        ..HttpFaults::default()
    };
    let [_, _, store] = fleet.addresses();
    let proxy = HttpProxy::start(store, faults);
    let mut chaos = ChaosRun::new(fleet, ChaosJob { mini_batches: 160, ..ChaosJob::default() });
    for _ in 0..2 {
        chaos.hire(&[("AWS_ENDPOINT_URL_S3", &proxy.endpoint())]);
    }
    chaos.submit(&[]);
    chaos.ends_with(&Expected::default(), |chaos| {
        assert!(proxy.count(Fault::Flip) > 3, "{} flips\n{}", proxy.count(Fault::Flip), chaos.story());
    });
}

pub(crate) fn fails_now_and_then(fleet: &mut Fleet, random: &mut Random) {
    let faults = HttpFaults {
        seed: random.below(1 << 30),
        percent: 20,
        stall: Duration::from_secs(5),
        ..HttpFaults::default()
    };
    let [_, _, store] = fleet.addresses();
    let proxy = HttpProxy::start(store, faults);
    let endpoint = proxy.endpoint();
    let mut chaos = ChaosRun::new(fleet, ChaosJob::default());
    for _ in 0..2 {
        chaos.hire(&[("AWS_ENDPOINT_URL_S3", &endpoint)]);
    }
    chaos.job = chaos.job.with_own_variable("AWS_ENDPOINT_URL_S3", &endpoint);
    chaos.submit(&[]);
    chaos.ends_with(&Expected::default(), |chaos| {
        for fault in Fault::ALL {
            assert!(
                proxy.count(fault) > 0,
                "no {fault:?} in {} requests\n{}",
                proxy.requests(),
                chaos.story()
            );
        }
    });
}
