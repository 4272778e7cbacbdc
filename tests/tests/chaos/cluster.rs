//! A broker of three nodes loses some of them in mid-job: the leader of the job's queue, or the majority. What it holds
//! is safe with the rest, so nobody deletes a queue for its silence, and nothing is lost.

use std::time::Duration;

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Fleet, Random};

use crate::chaos_run::{ChaosJob, ChaosRun, END, Expected};

/// How long the majority is away.
const MINUTE: Duration = Duration::from_mins(1);

/// The job's queue, once the broker has it, and the node that leads it.
fn queue_and_leader(chaos: &ChaosRun<'_>) -> (String, String) {
    let queue = format!("prs.job.{}", chaos.id());
    let leader = wait_for("the leader of the queue", END, || chaos.fleet.living_node().leader_of(&queue));
    (queue, leader)
}

/// Asserts that the nodes which live still know the queue.
fn is_known(chaos: &ChaosRun<'_>, queue: &str) {
    let known = chaos.fleet.living_node().known_queues();
    // It goes with the end of the job.
    let is_known = known.iter().any(|name| name == queue) || chaos.result().is_some();
    assert!(is_known, "{queue} was deleted: {known:?}\n{}", chaos.story());
}

/// The node that leads the job's queue is killed and started again, twice: another one leads, and the job goes on.
pub(crate) fn leader_dies(fleet: &mut Fleet, random: &mut Random) {
    let mut chaos = ChaosRun::begin(fleet, ChaosJob { mini_batches: 800, pause: 150, ..ChaosJob::default() });
    for _ in 0..2 {
        let more = chaos.begun() + 5;
        chaos.wait_for_work(more);
        let (queue, leader) = queue_and_leader(&chaos);
        chaos.pass(Duration::from_millis(random.below(1500)));
        assert!(chaos.result().is_none(), "the job was over before");
        chaos.fleet.node_mut(&leader).kill();
        let (_, next) = wait_for("another leader", END, || {
            Some(queue_and_leader(&chaos)).filter(|(_, next)| *next != leader)
        });
        assert!(next != leader);
        is_known(&chaos, &queue);
        chaos.pass(Duration::from_millis(random.below(4000)));
        chaos.fleet.node_mut(&leader).restart();
        is_known(&chaos, &queue);
    }
    chaos.ends(&Expected::default());
}

/// Two of three nodes are killed, the leader of the job's queue among them or not, and started again a minute later.
pub(crate) fn majority_dies(fleet: &mut Fleet, random: &mut Random) {
    let mut chaos = ChaosRun::begin(fleet, ChaosJob { mini_batches: 400, pause: 150, ..ChaosJob::default() });
    chaos.patience = MINUTE + END;
    chaos.wait_for_work(20);
    let (queue, leader) = queue_and_leader(&chaos);
    chaos.pass(Duration::from_millis(random.below(1500)));
    assert!(chaos.result().is_none(), "the job was over before");
    let nodes: Vec<String> = std::iter::once(&*chaos.fleet.broker)
        .chain(&chaos.fleet.peers)
        .map(prs_tests::harness::servers::RabbitMq::node_name)
        .collect();
    let leads = nodes.iter().position(|name| *name == leader).expect("a node of the cluster");
    // Whom the queue is left with: its leader in one round of three.
    let survivor = (leads + random.below(3) as usize) % 3;
    let killed: Vec<&String> = nodes.iter().filter(|name| **name != nodes[survivor]).collect();
    for name in &killed {
        chaos.fleet.node_mut(name).kill();
    }
    let begun = chaos.begun();
    for _ in 0..6 {
        chaos.pass(MINUTE / 6);
        is_known(&chaos, &queue);
    }
    assert!(
        chaos.result().is_none(),
        "the job ended without its queue, {begun} were begun\n{}",
        chaos.story()
    );
    for name in &killed {
        chaos.fleet.node_mut(name).restart();
    }
    is_known(&chaos, &queue);
    chaos.ends(&Expected::default());
}
