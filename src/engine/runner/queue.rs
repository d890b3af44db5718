//! The ready queue decides which stage is looked up next and which one runs next, without threads, files or a clock.
//!
//! A stage passes through it in two steps, because a stage that is found in the cache needs no processor.
//! [`Queue::next_ready`] returns a stage whose inputs are all known; the caller looks it up, and either finishes it or
//! asks for it to be run. [`Queue::next_to_start`] returns those in the order of the longest path that depends on them, as
//! long as there are free resources.
//!
//! A large stage that does not fit is passed by the stages behind it, so that no processor is idle while it waits for
//! stages that were there before it. Its turn is due as soon as only stages that have passed it keep it from starting: from
//! then on nothing behind it may take the resource that it lacks, so it starts when they have ended.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use crate::spec::pipeline::{InstanceIndex, Resources};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StageState {
    /// Not selected.
    Out,
    /// Waits for this many other stages.
    Waiting(usize),
    /// Its inputs are known; it has not been looked up yet.
    Ready,
    /// Returned by `next_ready`, to be looked up.
    Inspected,
    /// Has to run; waits for resources.
    Pending,
    Running,
    Done,
    Failed,
    Skipped,
}

/// The stages of a run and the free resources.
#[derive(Debug)]
pub struct Queue {
    states: Vec<StageState>,
    dependents: Vec<Vec<InstanceIndex>>,
    demands: Vec<Resources>,
    /// The length of the longest path from this stage to the end, in seconds or stages.
    ranks: Vec<f64>,
    free: Resources,
    capacity: Resources,
    /// Smallest index first.
    ready: BinaryHeap<Reverse<InstanceIndex>>,
    pending: BTreeSet<Turn>,
    /// Whether each stage runs on another machine, and so holds nothing of this one.
    elsewhere: Vec<bool>,
    pending_elsewhere: BTreeSet<Turn>,
    /// The running stages, each with the number of stages that were started before it.
    running: Vec<(InstanceIndex, u64)>,
    /// For each stage, the number of stages that were started before it had to run.
    wanted_at: Vec<Option<u64>>,
    started: u64,
    unfinished: usize,
}

/// The place of a stage among those that wait to run: longest path first, then smallest index. The bits of numbers that
/// are not negative have the order of the numbers.
type Turn = (Reverse<u64>, InstanceIndex);

/// A stage asks for more GPUs than there are, so that it could never run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyGpus {
    pub stage: InstanceIndex,
    pub asked: usize,
    pub present: usize,
}

impl Queue {
    /// Creates a queue from the dependencies of each stage, without duplicates. The dependencies of a `selected` stage must be
    /// `selected`. Demands for more processors or memory than there are are reduced, so that such a stage runs alone.
    pub fn new(
        dependencies: &[Vec<InstanceIndex>],
        demands: &[Resources],
        selected: &[bool],
        capacity: Resources,
    ) -> Result<Self, TooManyGpus> {
        let capacity = Resources { cpu: capacity.cpu.max(1), ..capacity };
        let too_many = |stage: &InstanceIndex| selected[stage.0] && demands[stage.0].gpu > capacity.gpu;
        if let Some(stage) = indices(demands.len()).find(too_many) {
            return Err(TooManyGpus { stage, asked: demands[stage.0].gpu, present: capacity.gpu });
        }
        let mut dependents = vec![Vec::new(); dependencies.len()];
        let mut states = Vec::with_capacity(dependencies.len());
        for (stage, needed) in indices(dependencies.len()).zip(dependencies) {
            states.push(match (selected[stage.0], needed.len()) {
                (false, _) => StageState::Out,
                (true, 0) => StageState::Ready,
                (true, inputs) => StageState::Waiting(inputs),
            });
            if selected[stage.0] {
                for &producer in needed {
                    dependents[producer.0].push(stage);
                }
            }
        }
        let clamp = |demand: &Resources| Resources {
            cpu: demand.cpu.clamp(1, capacity.cpu),
            mem: demand.mem.min(capacity.mem),
            gpu: demand.gpu,
        };
        let mut queue = Self {
            ready: indices(states.len())
                .filter(|stage| states[stage.0] == StageState::Ready)
                .map(Reverse)
                .collect(),
            unfinished: states.iter().filter(|&&state| state != StageState::Out).count(),
            ranks: vec![0.0; states.len()],
            demands: demands.iter().map(clamp).collect(),
            pending: BTreeSet::new(),
            elsewhere: vec![false; states.len()],
            pending_elsewhere: BTreeSet::new(),
            running: Vec::new(),
            wanted_at: vec![None; states.len()],
            started: 0,
            free: capacity,
            capacity,
            states,
            dependents,
        };
        queue.weigh(&vec![1.0; dependencies.len()]);
        Ok(queue)
    }

    /// Says that these stages run on other machines: they need nothing of this one, and start as soon as they have to.
    pub fn run_elsewhere(&mut self, stages: impl Iterator<Item = InstanceIndex>) {
        for stage in stages {
            self.elsewhere[stage.0] = true;
            self.demands[stage.0] = Resources { cpu: 0, mem: 0, gpu: 0 };
        }
    }

    /// Sets how long each stage takes, in seconds, which determines the order of stages that wait to run.
    pub fn weigh(&mut self, weights: &[f64]) {
        let mut missing = vec![0usize; self.states.len()];
        for &dependent in self.dependents.iter().flatten() {
            missing[dependent.0] += 1;
        }
        let mut order: Vec<InstanceIndex> =
            indices(missing.len()).filter(|stage| missing[stage.0] == 0).collect();
        let mut next = 0;
        while let Some(&stage) = order.get(next) {
            next += 1;
            for &dependent in &self.dependents[stage.0] {
                missing[dependent.0] -= 1;
                if missing[dependent.0] == 0 {
                    order.push(dependent);
                }
            }
        }
        for &stage in order.iter().rev() {
            let longest = self.dependents[stage.0].iter().map(|&d| self.ranks[d.0]).fold(0.0, f64::max);
            self.ranks[stage.0] = weights[stage.0].max(0.0) + longest;
        }
        self.pending = self.pending.iter().map(|&(_, stage)| self.turn(stage)).collect();
        self.pending_elsewhere = self.pending_elsewhere.iter().map(|&(_, stage)| self.turn(stage)).collect();
    }

    fn turn(&self, stage: InstanceIndex) -> Turn {
        (Reverse(self.ranks[stage.0].to_bits()), stage)
    }

    /// Returns a stage whose inputs are all known. The caller answers with [`Queue::finish`], [`Queue::fail`] or
    /// [`Queue::want`].
    pub fn next_ready(&mut self) -> Option<InstanceIndex> {
        while let Some(Reverse(stage)) = self.ready.pop() {
            if self.states[stage.0] == StageState::Ready {
                self.states[stage.0] = StageState::Inspected;
                return Some(stage);
            }
        }
        None
    }

    /// Says that the stage has to run as soon as there are resources for it.
    pub fn want(&mut self, stage: InstanceIndex) {
        debug_assert_eq!(self.states[stage.0], StageState::Inspected);
        self.states[stage.0] = StageState::Pending;
        self.wanted_at[stage.0].get_or_insert(self.started);
        let turn = self.turn(stage);
        if self.elsewhere[stage.0] {
            self.pending_elsewhere.insert(turn)
        } else {
            self.pending.insert(turn)
        };
    }

    /// Returns the next stage to run, with the resources that it holds until it finishes, fails or is put back.
    pub fn next_to_start(&mut self) -> Option<(InstanceIndex, Resources)> {
        if let Some((_, stage)) = self.pending_elsewhere.pop_first() {
            self.states[stage.0] = StageState::Running;
            return Some((stage, self.demands[stage.0]));
        }
        let turn = self.next_turn()?;
        self.pending.remove(&turn);
        let (_, stage) = turn;
        let demand = self.demands[stage.0];
        self.states[stage.0] = StageState::Running;
        self.free = minus(self.free, demand);
        self.running.push((stage, self.started));
        self.started += 1;
        Some((stage, demand))
    }

    fn next_turn(&self) -> Option<Turn> {
        let mut available = self.free;
        for &turn in &self.pending {
            if available.cpu == 0 {
                return None;
            }
            let demand = self.demands[turn.1.0];
            if fits(demand, available) {
                return Some(turn);
            }
            if self.is_due(turn) {
                // What it lacks is reserved for it.
                for (wanted, left) in [(demand.cpu, &mut available.cpu), (demand.gpu, &mut available.gpu)] {
                    *left = if wanted > *left { 0 } else { *left };
                }
                if demand.mem > available.mem {
                    available.mem = 0;
                }
            }
        }
        None
    }

    /// Returns whether a stage would fit if the stages that have passed it had ended: those behind it that were started
    /// after it had to run.
    fn is_due(&self, turn: Turn) -> bool {
        let stage = turn.1;
        let has_passed = |&&(other, at): &&(InstanceIndex, u64)| {
            self.wanted_at[stage.0].is_some_and(|wanted| at >= wanted) && self.turn(other) > turn
        };
        let passed = self.running.iter().filter(has_passed);
        let free = passed.fold(self.free, |free, (other, _)| plus(free, self.demands[other.0]));
        fits(self.demands[stage.0], free)
    }

    /// Returns the resources of a stage that cannot run now (another process computes it). The caller later calls
    /// [`Queue::want`] again, or finishes it.
    pub fn put_back(&mut self, stage: InstanceIndex) {
        debug_assert_eq!(self.states[stage.0], StageState::Running);
        self.release(stage);
        self.states[stage.0] = StageState::Inspected;
    }

    /// Says that the stage has a result: its dependents may become ready.
    pub fn finish(&mut self, stage: InstanceIndex) {
        self.release(stage);
        self.settle(stage, StageState::Done);
        for position in 0..self.dependents[stage.0].len() {
            let dependent = self.dependents[stage.0][position];
            if let StageState::Waiting(inputs) = self.states[dependent.0] {
                if inputs == 1 {
                    self.states[dependent.0] = StageState::Ready;
                    self.ready.push(Reverse(dependent));
                } else {
                    self.states[dependent.0] = StageState::Waiting(inputs - 1);
                }
            }
        }
    }

    /// Says that the stage has no result. Returns all stages after it, which therefore cannot run, in order of index.
    pub fn fail(&mut self, stage: InstanceIndex) -> Vec<InstanceIndex> {
        self.release(stage);
        self.settle(stage, StageState::Failed);
        let mut skipped = Vec::new();
        let mut reached = vec![stage];
        while let Some(failed) = reached.pop() {
            for position in 0..self.dependents[failed.0].len() {
                let dependent = self.dependents[failed.0][position];
                if matches!(self.states[dependent.0], StageState::Waiting(_)) {
                    self.settle(dependent, StageState::Skipped);
                    skipped.push(dependent);
                    reached.push(dependent);
                }
            }
        }
        skipped.sort_unstable();
        skipped
    }

    /// Starts nothing more. Returns the stages that had not started, in order of index.
    pub fn close(&mut self) -> Vec<InstanceIndex> {
        self.ready.clear();
        self.pending.clear();
        self.pending_elsewhere.clear();
        let mut skipped = Vec::new();
        for stage in indices(self.states.len()) {
            if matches!(
                self.states[stage.0],
                StageState::Waiting(_) | StageState::Ready | StageState::Inspected | StageState::Pending
            ) {
                self.settle(stage, StageState::Skipped);
                skipped.push(stage);
            }
        }
        skipped
    }

    /// Returns whether every selected stage is done, failed or skipped.
    pub fn is_drained(&self) -> bool {
        self.unfinished == 0
    }

    /// Returns whether a demand is larger than the capacity, and was reduced.
    pub fn was_clamped(&self, asked: Resources) -> bool {
        asked.cpu > self.capacity.cpu || asked.mem > self.capacity.mem
    }

    fn release(&mut self, stage: InstanceIndex) {
        if self.states[stage.0] == StageState::Running {
            self.free = plus(self.free, self.demands[stage.0]);
            self.running.retain(|(running, _)| *running != stage);
        }
    }

    /// Returns whether a stage is done, failed or skipped, or was not selected.
    pub fn is_settled(&self, stage: InstanceIndex) -> bool {
        matches!(
            self.states[stage.0],
            StageState::Done | StageState::Failed | StageState::Skipped | StageState::Out
        )
    }

    fn settle(&mut self, stage: InstanceIndex, state: StageState) {
        debug_assert!(!self.is_settled(stage));
        self.states[stage.0] = state;
        self.unfinished -= 1;
    }
}

/// Returns the indices of `count` instances.
fn indices(count: usize) -> impl Iterator<Item = InstanceIndex> {
    (0..count).map(InstanceIndex)
}

fn fits(demand: Resources, free: Resources) -> bool {
    demand.cpu <= free.cpu && demand.mem <= free.mem && demand.gpu <= free.gpu
}

fn minus(from: Resources, demand: Resources) -> Resources {
    Resources { cpu: from.cpu - demand.cpu, mem: from.mem - demand.mem, gpu: from.gpu - demand.gpu }
}

fn plus(to: Resources, demand: Resources) -> Resources {
    Resources { cpu: to.cpu + demand.cpu, mem: to.mem + demand.mem, gpu: to.gpu + demand.gpu }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ONE: Resources = Resources { cpu: 1, mem: 0, gpu: 0 };

    fn queue(dependencies: &[&[usize]], demands: &[Resources], capacity: Resources) -> Queue {
        Queue::new(&indexed(dependencies), demands, &vec![true; demands.len()], capacity).unwrap()
    }

    fn indexed(dependencies: &[impl AsRef<[usize]>]) -> Vec<Vec<InstanceIndex>> {
        let index = |needed: &[usize]| needed.iter().map(|&needed| InstanceIndex(needed)).collect();
        dependencies.iter().map(|needed| index(needed.as_ref())).collect()
    }

    fn numbers(stages: Vec<InstanceIndex>) -> Vec<usize> {
        stages.into_iter().map(|stage| stage.0).collect()
    }

    fn want_all_ready(queue: &mut Queue) -> Vec<usize> {
        let mut ready = Vec::new();
        while let Some(stage) = queue.next_ready() {
            queue.want(stage);
            ready.push(stage.0);
        }
        ready
    }

    fn started(queue: &mut Queue) -> Vec<usize> {
        std::iter::from_fn(|| queue.next_to_start()).map(|(stage, _)| stage.0).collect()
    }

    #[test]
    fn a_stage_that_is_found_in_the_cache_needs_no_processor() {
        let mut queue = queue(&[&[], &[0], &[1]], &[ONE; 3], ONE);
        for expected in 0..3 {
            assert_eq!(queue.next_ready(), Some(InstanceIndex(expected)));
            assert_eq!(queue.next_ready(), None, "its dependents wait for it");
            queue.finish(InstanceIndex(expected));
        }
        assert!(queue.is_drained());
    }

    #[test]
    fn the_longest_path_goes_first() {
        // 0; 1 -> 2 -> 3; 4 -> 5
        let mut queue = queue(&[&[], &[], &[1], &[2], &[], &[4]], &[ONE; 6], ONE);
        assert_eq!(want_all_ready(&mut queue), [0, 1, 4]);
        assert_eq!(started(&mut queue), [1]);
        queue.weigh(&[9.0, 1.0, 1.0, 1.0, 1.0, 1.5]);
        queue.finish(InstanceIndex(1));
        assert_eq!(want_all_ready(&mut queue), [2]);
        assert_eq!(started(&mut queue), [0], "known to take nine seconds");
        queue.finish(InstanceIndex(0));
        assert_eq!(started(&mut queue), [4], "2.5 seconds against 2");
    }

    #[test]
    fn a_stage_that_waits_for_a_gpu_leaves_the_processors_to_others() {
        let gpu = Resources { cpu: 1, mem: 0, gpu: 1 };
        let mut queue = queue(&[&[], &[], &[]], &[gpu, gpu, ONE], Resources { cpu: 2, mem: 0, gpu: 1 });
        want_all_ready(&mut queue);
        assert_eq!(started(&mut queue), [0, 2]);
    }

    const TWO: Resources = Resources { cpu: 2, mem: 0, gpu: 0 };

    #[test]
    fn processors_are_filled_while_a_large_stage_waits_for_stages_that_were_there_before_it() {
        let mut queue = queue(&[&[], &[], &[], &[], &[]], &[ONE, TWO, ONE, ONE, ONE], TWO);
        queue.weigh(&[9.0, 8.0, 1.0, 1.0, 1.0]);
        want_all_ready(&mut queue);
        assert_eq!(started(&mut queue), [0, 2], "1 is before 2, but has to wait for 0 anyway");
        queue.finish(InstanceIndex(2));
        assert_eq!(started(&mut queue), [3]);
        queue.finish(InstanceIndex(0));
        assert_eq!(started(&mut queue), [0; 0], "only 3, which has passed it, keeps 1 from starting");
        queue.finish(InstanceIndex(3));
        assert_eq!(started(&mut queue), [1]);
    }

    #[test]
    fn large_stages_in_a_row_leave_the_processors_that_they_do_not_need() {
        let three = Resources { cpu: 3, mem: 0, gpu: 0 };
        let mut queue = queue(&[&[], &[], &[], &[]], &[TWO, TWO, ONE, ONE], three);
        queue.weigh(&[9.0, 8.0, 1.0, 1.0]);
        want_all_ready(&mut queue);
        assert_eq!(started(&mut queue), [0, 2]);
        queue.finish(InstanceIndex(2));
        assert_eq!(started(&mut queue), [3]);
        queue.finish(InstanceIndex(0));
        assert_eq!(started(&mut queue), [1]);
    }

    #[test]
    fn a_stage_that_asks_for_more_than_there_is_runs_alone() {
        let huge = Resources { cpu: 64, mem: 1 << 40, gpu: 0 };
        let capacity = Resources { cpu: 2, mem: 1 << 30, gpu: 0 };
        let mut queue = queue(&[&[], &[]], &[huge, ONE], capacity);
        want_all_ready(&mut queue);
        assert!(queue.was_clamped(huge) && !queue.was_clamped(ONE));
        assert_eq!(queue.next_to_start(), Some((InstanceIndex(0), capacity)));
        assert_eq!(queue.next_to_start(), None);
        queue.finish(InstanceIndex(0));
        assert_eq!(started(&mut queue), [1]);
    }

    #[test]
    fn more_gpus_than_there_are_is_an_error_unless_the_stage_is_not_selected() {
        let gpus = Resources { cpu: 1, mem: 0, gpu: 2 };
        let make = |selected| Queue::new(&[vec![]], &[gpus], &[selected], ONE).map(|_| ());
        assert_eq!(make(true), Err(TooManyGpus { stage: InstanceIndex(0), asked: 2, present: 0 }));
        assert_eq!(make(false), Ok(()));
    }

    #[test]
    fn a_failure_skips_all_stages_after_it_and_no_others() {
        let mut queue = queue(&[&[], &[0], &[1], &[], &[3, 1]], &[ONE; 5], ONE);
        want_all_ready(&mut queue);
        assert_eq!(started(&mut queue), [0]);
        assert_eq!(numbers(queue.fail(InstanceIndex(0))), [1, 2, 4]);
        assert_eq!(started(&mut queue), [3]);
        queue.finish(InstanceIndex(3));
        assert!(queue.is_drained());
    }

    #[test]
    fn a_closed_queue_starts_nothing_and_drains_when_running_stages_have_ended() {
        let mut queue = queue(&[&[], &[], &[0]], &[ONE; 3], ONE);
        want_all_ready(&mut queue);
        assert_eq!(started(&mut queue), [0]);
        assert_eq!(numbers(queue.close()), [1, 2]);
        assert!(!queue.is_drained());
        queue.finish(InstanceIndex(0));
        assert!(queue.is_drained());
        assert_eq!(queue.next_ready(), None);
    }

    #[test]
    fn a_stage_that_is_put_back_frees_its_resources_and_can_run_later() {
        let mut queue = queue(&[&[], &[]], &[ONE; 2], ONE);
        want_all_ready(&mut queue);
        assert_eq!(started(&mut queue), [0]);
        queue.put_back(InstanceIndex(0));
        assert_eq!(started(&mut queue), [1]);
        queue.want(InstanceIndex(0));
        queue.finish(InstanceIndex(1));
        assert_eq!(started(&mut queue), [0]);
    }

    #[test]
    fn a_stage_that_runs_elsewhere_waits_for_its_inputs_but_not_for_a_processor() {
        let gpus = Resources { cpu: 64, mem: 1 << 40, gpu: 0 };
        let mut queue = queue(&[&[], &[], &[], &[1]], &[ONE, gpus, gpus, gpus], ONE);
        queue.run_elsewhere([1, 2, 3].into_iter().map(InstanceIndex));
        want_all_ready(&mut queue);
        let mut all = started(&mut queue);
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2], "one here and two elsewhere");
        queue.finish(InstanceIndex(1));
        want_all_ready(&mut queue);
        assert_eq!(started(&mut queue), [3]);
        for stage in [0, 2, 3] {
            queue.finish(InstanceIndex(stage));
        }
        assert!(queue.is_drained());
        assert_eq!(queue.free, ONE);
    }

    /// What a random driver does with a stage that is ready or running.
    #[derive(Debug, Clone, Copy)]
    enum Fate {
        Hit,
        Runs,
        Fails,
    }

    #[derive(Debug, Clone)]
    struct Case {
        dependencies: Vec<Vec<usize>>,
        demands: Vec<Resources>,
        weights: Vec<f64>,
        fates: Vec<Fate>,
        capacity: Resources,
    }

    fn case() -> impl Strategy<Value = Case> {
        (1..24usize).prop_flat_map(|n| {
            let edges: Vec<_> = (0..n).map(|i| prop::collection::btree_set(0..i.max(1), 0..4)).collect();
            let demand =
                (0..5usize, 0..9u64, 0..3usize).prop_map(|(cpu, mem, gpu)| Resources { cpu, mem, gpu });
            let fate = prop_oneof![2 => Just(Fate::Hit), 5 => Just(Fate::Runs), 1 => Just(Fate::Fails)];
            (
                edges,
                prop::collection::vec(demand, n),
                prop::collection::vec(0.0..10.0f64, n),
                prop::collection::vec(fate, n),
                (1..5usize, 0..9u64),
            )
                .prop_map(|(edges, demands, weights, fates, (cpu, mem))| Case {
                    dependencies: edges
                        .into_iter()
                        .enumerate()
                        .map(|(i, set)| set.into_iter().filter(|&d| d < i).collect())
                        .collect(),
                    demands,
                    weights,
                    fates,
                    capacity: Resources { cpu, mem, gpu: 2 },
                })
        })
    }

    /// A stage that waits to run, and the stages behind it that were started before it.
    struct Waiting {
        stage: InstanceIndex,
        demand: Resources,
        passed_by: Vec<InstanceIndex>,
    }

    impl Waiting {
        /// Returns whether only stages that have passed it keep it from starting.
        fn is_due(&self, running: &[(InstanceIndex, Resources)], free: Resources) -> bool {
            let passed = running.iter().filter(|(stage, _)| self.passed_by.contains(stage));
            let without_them = passed.fold(free, |free, (_, held)| plus(free, *held));
            !fits(self.demand, free) && fits(self.demand, without_them)
        }

        /// Returns whether it lacks a resource that the other demand would take.
        fn lacks_part_of(&self, other: Resources, free: Resources) -> bool {
            (self.demand.cpu > free.cpu && other.cpu > 0)
                || (self.demand.mem > free.mem && other.mem > 0)
                || (self.demand.gpu > free.gpu && other.gpu > 0)
        }
    }

    /// Runs the queue to its end and checks the invariants. Returns what happened, in order.
    fn drive(case: &Case, pick: u64) -> Vec<String> {
        let n = case.demands.len();
        let mut queue =
            Queue::new(&indexed(&case.dependencies), &case.demands, &vec![true; n], case.capacity).unwrap();
        queue.weigh(&case.weights);
        let (mut trace, mut finished, mut settled) = (Vec::new(), vec![false; n], vec![false; n]);
        let mut running: Vec<(InstanceIndex, Resources)> = Vec::new();
        let mut waiting: Vec<Waiting> = Vec::new();
        let mut free = case.capacity;
        let ranks = queue.ranks.clone();
        let before =
            |a: InstanceIndex, b: InstanceIndex| ranks[b.0].total_cmp(&ranks[a.0]).then(a.cmp(&b)).is_lt();
        let mut random = pick;
        while !queue.is_drained() {
            while let Some(stage) = queue.next_ready() {
                assert!(
                    case.dependencies[stage.0].iter().all(|&d| finished[d]),
                    "{stage:?} before its inputs"
                );
                assert!(!settled[stage.0], "{stage:?} was handed out twice");
                if let Fate::Hit = case.fates[stage.0] {
                    queue.finish(stage);
                    (finished[stage.0], settled[stage.0]) = (true, true);
                    trace.push(format!("hit {}", stage.0));
                } else {
                    queue.want(stage);
                    let demand = queue.demands[stage.0];
                    waiting.push(Waiting { stage, demand, passed_by: Vec::new() });
                }
            }
            while let Some((stage, holds)) = queue.next_to_start() {
                waiting.retain(|waiting| waiting.stage != stage);
                for waiting in waiting.iter_mut().filter(|waiting| before(waiting.stage, stage)) {
                    let harms = waiting.is_due(&running, free) && waiting.lacks_part_of(holds, free);
                    assert!(!harms, "{stage:?} started before {:?}, whose turn was due", waiting.stage);
                    waiting.passed_by.push(stage);
                }
                free = minus(free, holds);
                running.push((stage, holds));
                let sum =
                    running.iter().fold(Resources { cpu: 0, mem: 0, gpu: 0 }, |sum, (_, r)| plus(sum, *r));
                assert!(fits(sum, case.capacity), "{sum:?} of {:?}", case.capacity);
                assert!(running.len() <= case.capacity.cpu);
                trace.push(format!("start {}", stage.0));
            }
            for idle in waiting.iter().filter(|waiting| fits(waiting.demand, free)) {
                let has_priority = waiting.iter().any(|other| {
                    before(other.stage, idle.stage)
                        && other.is_due(&running, free)
                        && other.lacks_part_of(idle.demand, free)
                });
                assert!(has_priority, "{:?} fits, but does not start", idle.stage);
            }
            if queue.is_drained() {
                break;
            }
            assert!(!running.is_empty(), "stuck: nothing runs and nothing is ready");
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (stage, held) = running.swap_remove((random >> 33) as usize % running.len());
            free = plus(free, held);
            settled[stage.0] = true;
            if let Fate::Fails = case.fates[stage.0] {
                for skipped in queue.fail(stage) {
                    assert!(!settled[skipped.0], "{skipped:?} was settled before");
                    settled[skipped.0] = true;
                    trace.push(format!("skip {}", skipped.0));
                }
            } else {
                finished[stage.0] = true;
                queue.finish(stage);
            }
        }
        assert!(running.is_empty() && settled.iter().all(|&s| s), "drained, but not all is settled");
        trace
    }

    proptest! {
        #[test]
        fn it_never_releases_a_stage_before_its_inputs_never_exceeds_capacity_and_always_drains(
            case in case(), pick: u64,
        ) {
            let trace = drive(&case, pick);
            prop_assert_eq!(drive(&case, pick), trace, "the same questions get the same answers");
        }

        #[test]
        fn no_processor_is_idle_and_no_large_stage_is_passed_once_its_turn_is_due(
            large in prop::collection::vec(any::<bool>(), 1..24), weights in prop::collection::vec(0.0..10.0f64, 24),
            cpu in 2..5usize, pick: u64,
        ) {
            let n = large.len();
            drive(&Case {
                dependencies: vec![Vec::new(); n],
                demands: large.iter().map(|&large| if large { Resources { cpu, ..ONE } } else { ONE }).collect(),
                weights: weights[..n].to_vec(),
                fates: vec![Fate::Runs; n],
                capacity: Resources { cpu, ..ONE },
            }, pick);
        }
    }
}
