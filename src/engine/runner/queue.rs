//! The ready queue: which stage may be looked at, and which may run, without threads, files or
//! clock.
//!
//! A stage passes through it in two steps, because a stage that is found in the cache needs no
//! processor. [`Queue::next_ready`] hands out a stage whose inputs are all known; the caller
//! looks it up and either finishes it there or asks for it to be run. [`Queue::next_to_start`]
//! hands out those in order of the longest path that hangs on them, as far as resources last.
//! What does not fit keeps its place: nothing behind it may take what it is short of, so that a
//! large stage is not overtaken for ever, while a stage that waits for a GPU leaves the
//! processors to others.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::spec::pipeline::Resources;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not selected: nobody asks for it.
    Out,
    /// Waits for this many inputs.
    Waiting(usize),
    /// Its inputs are known; nobody has looked at it yet.
    Ready,
    /// Handed out to be looked up.
    Inspected,
    /// Has to run; waits for resources.
    Pending,
    Running,
    Done,
    Failed,
    Skipped,
}

#[derive(Debug)]
pub struct Queue {
    states: Vec<State>,
    dependents: Vec<Vec<usize>>,
    demands: Vec<Resources>,
    /// Seconds, or steps, on the longest path from the start of this stage to the end.
    ranks: Vec<f64>,
    free: Resources,
    capacity: Resources,
    /// Smallest index first.
    ready: BinaryHeap<Reverse<usize>>,
    /// Longest path first, then smallest index.
    pending: Vec<usize>,
    unfinished: usize,
}

/// A stage asks for more GPUs than there are: no waiting will help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyGpus {
    pub stage: usize,
    pub asked: usize,
    pub present: usize,
}

impl Queue {
    /// `dependencies` by stage, each named once; `selected` is closed under them. Processors
    /// and memory beyond the capacity are cut to it, so that such a stage runs alone.
    pub fn new(
        dependencies: &[Vec<usize>],
        demands: &[Resources],
        selected: &[bool],
        capacity: Resources,
    ) -> Result<Self, TooManyGpus> {
        let capacity = Resources { cpu: capacity.cpu.max(1), ..capacity };
        let too_many = |&stage: &usize| selected[stage] && demands[stage].gpu > capacity.gpu;
        if let Some(stage) = (0..demands.len()).find(too_many) {
            return Err(TooManyGpus { stage, asked: demands[stage].gpu, present: capacity.gpu });
        }
        let mut dependents = vec![Vec::new(); dependencies.len()];
        let mut states = Vec::with_capacity(dependencies.len());
        for (stage, needed) in dependencies.iter().enumerate() {
            states.push(match (selected[stage], needed.len()) {
                (false, _) => State::Out,
                (true, 0) => State::Ready,
                (true, inputs) => State::Waiting(inputs),
            });
            if selected[stage] {
                for &producer in needed {
                    dependents[producer].push(stage);
                }
            }
        }
        let clamp = |demand: &Resources| Resources {
            cpu: demand.cpu.clamp(1, capacity.cpu),
            mem: demand.mem.min(capacity.mem),
            gpu: demand.gpu,
        };
        let mut queue = Self {
            ready: (0..states.len()).filter(|&s| states[s] == State::Ready).map(Reverse).collect(),
            unfinished: states.iter().filter(|&&state| state != State::Out).count(),
            ranks: vec![0.0; states.len()],
            demands: demands.iter().map(clamp).collect(),
            pending: Vec::new(),
            free: capacity,
            capacity,
            states,
            dependents,
        };
        queue.weigh(&vec![1.0; dependencies.len()]);
        Ok(queue)
    }

    /// Says how long each stage takes, in seconds; the order of what waits to run follows.
    pub fn weigh(&mut self, weights: &[f64]) {
        let mut missing = vec![0usize; self.states.len()];
        for &dependent in self.dependents.iter().flatten() {
            missing[dependent] += 1;
        }
        let mut order: Vec<usize> = (0..missing.len()).filter(|&stage| missing[stage] == 0).collect();
        let mut next = 0;
        while let Some(&stage) = order.get(next) {
            next += 1;
            for &dependent in &self.dependents[stage] {
                missing[dependent] -= 1;
                if missing[dependent] == 0 {
                    order.push(dependent);
                }
            }
        }
        for &stage in order.iter().rev() {
            let longest = self.dependents[stage].iter().map(|&d| self.ranks[d]).fold(0.0, f64::max);
            self.ranks[stage] = weights[stage].max(0.0) + longest;
        }
        let ranks = &self.ranks;
        self.pending.sort_by(|&a, &b| ranks[b].total_cmp(&ranks[a]).then(a.cmp(&b)));
    }

    /// A stage whose inputs are all known. The caller answers with [`Queue::finish`],
    /// [`Queue::fail`] or [`Queue::want`].
    pub fn next_ready(&mut self) -> Option<usize> {
        while let Some(Reverse(stage)) = self.ready.pop() {
            if self.states[stage] == State::Ready {
                self.states[stage] = State::Inspected;
                return Some(stage);
            }
        }
        None
    }

    /// The stage has to run, as soon as there is room for it.
    pub fn want(&mut self, stage: usize) {
        debug_assert_eq!(self.states[stage], State::Inspected);
        self.states[stage] = State::Pending;
        let ranks = &self.ranks;
        let before =
            |&other: &usize| ranks[other].total_cmp(&ranks[stage]).reverse().then(other.cmp(&stage)).is_lt();
        let position = self.pending.partition_point(before);
        self.pending.insert(position, stage);
    }

    /// The next stage to run, with the resources that it now holds until it finishes, fails or
    /// is put back.
    pub fn next_to_start(&mut self) -> Option<(usize, Resources)> {
        let mut available = self.free;
        for position in 0..self.pending.len() {
            let stage = self.pending[position];
            let demand = self.demands[stage];
            if fits(demand, available) {
                self.pending.remove(position);
                self.states[stage] = State::Running;
                self.free = minus(self.free, demand);
                return Some((stage, demand));
            }
            // What it is short of is kept for it.
            if demand.cpu > available.cpu {
                return None;
            }
            if demand.mem > available.mem {
                available.mem = 0;
            }
            if demand.gpu > available.gpu {
                available.gpu = 0;
            }
        }
        None
    }

    /// It cannot run now after all (another process computes it): gives its resources back and
    /// has it looked at again later, when the caller calls [`Queue::want`] or finishes it.
    pub fn put_back(&mut self, stage: usize) {
        debug_assert_eq!(self.states[stage], State::Running);
        self.release(stage);
        self.states[stage] = State::Inspected;
    }

    /// Its result is there: what needs it may become ready.
    pub fn finish(&mut self, stage: usize) {
        self.release(stage);
        self.settle(stage, State::Done);
        for position in 0..self.dependents[stage].len() {
            let dependent = self.dependents[stage][position];
            if let State::Waiting(inputs) = self.states[dependent] {
                if inputs == 1 {
                    self.states[dependent] = State::Ready;
                    self.ready.push(Reverse(dependent));
                } else {
                    self.states[dependent] = State::Waiting(inputs - 1);
                }
            }
        }
    }

    /// It gave no result. Returns what can therefore not run, in order of index: all that comes
    /// after it.
    pub fn fail(&mut self, stage: usize) -> Vec<usize> {
        self.release(stage);
        self.settle(stage, State::Failed);
        let mut skipped = Vec::new();
        let mut reached = vec![stage];
        while let Some(failed) = reached.pop() {
            for position in 0..self.dependents[failed].len() {
                let dependent = self.dependents[failed][position];
                if matches!(self.states[dependent], State::Waiting(_)) {
                    self.settle(dependent, State::Skipped);
                    skipped.push(dependent);
                    reached.push(dependent);
                }
            }
        }
        skipped.sort_unstable();
        skipped
    }

    /// Nothing more is to start. Returns what had not started, in order of index.
    pub fn close(&mut self) -> Vec<usize> {
        self.ready.clear();
        self.pending.clear();
        let mut skipped = Vec::new();
        for stage in 0..self.states.len() {
            if matches!(
                self.states[stage],
                State::Waiting(_) | State::Ready | State::Inspected | State::Pending
            ) {
                self.settle(stage, State::Skipped);
                skipped.push(stage);
            }
        }
        skipped
    }

    /// Every selected stage is done, failed or skipped.
    pub fn is_drained(&self) -> bool {
        self.unfinished == 0
    }

    /// The demand was larger than what there is, and was cut.
    pub fn was_clamped(&self, asked: Resources) -> bool {
        asked.cpu > self.capacity.cpu || asked.mem > self.capacity.mem
    }

    fn release(&mut self, stage: usize) {
        if self.states[stage] == State::Running {
            self.free = plus(self.free, self.demands[stage]);
        }
    }

    fn settle(&mut self, stage: usize, state: State) {
        debug_assert!(!matches!(
            self.states[stage],
            State::Done | State::Failed | State::Skipped | State::Out
        ));
        self.states[stage] = state;
        self.unfinished -= 1;
    }
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
        let dependencies: Vec<Vec<usize>> = dependencies.iter().map(|d| d.to_vec()).collect();
        Queue::new(&dependencies, demands, &vec![true; demands.len()], capacity).unwrap()
    }

    fn want_all_ready(queue: &mut Queue) -> Vec<usize> {
        let mut ready = Vec::new();
        while let Some(stage) = queue.next_ready() {
            queue.want(stage);
            ready.push(stage);
        }
        ready
    }

    fn started(queue: &mut Queue) -> Vec<usize> {
        std::iter::from_fn(|| queue.next_to_start()).map(|(stage, _)| stage).collect()
    }

    #[test]
    fn a_stage_that_is_found_in_the_cache_needs_no_processor() {
        let mut queue = queue(&[&[], &[0], &[1]], &[ONE; 3], ONE);
        for expected in 0..3 {
            assert_eq!(queue.next_ready(), Some(expected));
            assert_eq!(queue.next_ready(), None, "its dependents wait for it");
            queue.finish(expected);
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
        queue.finish(1);
        assert_eq!(want_all_ready(&mut queue), [2]);
        assert_eq!(started(&mut queue), [0], "known to take nine seconds");
        queue.finish(0);
        assert_eq!(started(&mut queue), [4], "2.5 seconds against 2");
    }

    #[test]
    fn a_stage_that_waits_for_a_gpu_leaves_the_processors_to_others() {
        let gpu = Resources { cpu: 1, mem: 0, gpu: 1 };
        let mut queue = queue(&[&[], &[], &[]], &[gpu, gpu, ONE], Resources { cpu: 2, mem: 0, gpu: 1 });
        want_all_ready(&mut queue);
        assert_eq!(started(&mut queue), [0, 2]);
    }

    #[test]
    fn a_large_stage_is_not_overtaken_for_ever() {
        let two = Resources { cpu: 2, mem: 0, gpu: 0 };
        let mut queue = queue(&[&[], &[], &[], &[1]], &[ONE, two, ONE, ONE], two);
        want_all_ready(&mut queue);
        queue.weigh(&[9.0, 1.0, 1.0, 1.0]);
        assert_eq!(started(&mut queue), [0], "stage 2 would fit beside 0, but 1 is before it");
        queue.finish(0);
        assert_eq!(started(&mut queue), [1]);
    }

    #[test]
    fn what_asks_for_more_than_there_is_runs_alone() {
        let huge = Resources { cpu: 64, mem: 1 << 40, gpu: 0 };
        let capacity = Resources { cpu: 2, mem: 1 << 30, gpu: 0 };
        let mut queue = queue(&[&[], &[]], &[huge, ONE], capacity);
        want_all_ready(&mut queue);
        assert!(queue.was_clamped(huge) && !queue.was_clamped(ONE));
        assert_eq!(queue.next_to_start(), Some((0, capacity)));
        assert_eq!(queue.next_to_start(), None);
        queue.finish(0);
        assert_eq!(started(&mut queue), [1]);
    }

    #[test]
    fn more_gpus_than_there_are_is_an_error_unless_nobody_asks_for_the_stage() {
        let gpus = Resources { cpu: 1, mem: 0, gpu: 2 };
        let make = |selected| Queue::new(&[vec![]], &[gpus], &[selected], ONE).map(|_| ());
        assert_eq!(make(true), Err(TooManyGpus { stage: 0, asked: 2, present: 0 }));
        assert_eq!(make(false), Ok(()));
    }

    #[test]
    fn a_failure_skips_all_that_comes_after_it_and_nothing_else() {
        let mut queue = queue(&[&[], &[0], &[1], &[], &[3, 1]], &[ONE; 5], ONE);
        want_all_ready(&mut queue);
        assert_eq!(started(&mut queue), [0]);
        assert_eq!(queue.fail(0), [1, 2, 4]);
        assert_eq!(started(&mut queue), [3]);
        queue.finish(3);
        assert!(queue.is_drained());
    }

    #[test]
    fn a_closed_queue_starts_nothing_and_drains_when_what_runs_has_ended() {
        let mut queue = queue(&[&[], &[], &[0]], &[ONE; 3], ONE);
        want_all_ready(&mut queue);
        assert_eq!(started(&mut queue), [0]);
        assert_eq!(queue.close(), [1, 2]);
        assert!(!queue.is_drained());
        queue.finish(0);
        assert!(queue.is_drained());
        assert_eq!(queue.next_ready(), None);
    }

    #[test]
    fn what_is_put_back_frees_its_place_and_can_run_later() {
        let mut queue = queue(&[&[], &[]], &[ONE; 2], ONE);
        want_all_ready(&mut queue);
        assert_eq!(started(&mut queue), [0]);
        queue.put_back(0);
        assert_eq!(started(&mut queue), [1]);
        queue.want(0);
        queue.finish(1);
        assert_eq!(started(&mut queue), [0]);
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

    /// Drives the queue to its end, checking the invariants; returns what happened, in order.
    fn drive(case: &Case, pick: u64) -> Vec<String> {
        let n = case.demands.len();
        let mut queue = Queue::new(&case.dependencies, &case.demands, &vec![true; n], case.capacity).unwrap();
        queue.weigh(&case.weights);
        let (mut trace, mut finished, mut settled) = (Vec::new(), vec![false; n], vec![false; n]);
        let mut running: Vec<(usize, Resources)> = Vec::new();
        let mut random = pick;
        while !queue.is_drained() {
            while let Some(stage) = queue.next_ready() {
                assert!(case.dependencies[stage].iter().all(|&d| finished[d]), "{stage} before its inputs");
                assert!(!settled[stage], "{stage} was handed out twice");
                if let Fate::Hit = case.fates[stage] {
                    queue.finish(stage);
                    (finished[stage], settled[stage]) = (true, true);
                    trace.push(format!("hit {stage}"));
                } else {
                    queue.want(stage);
                }
            }
            while let Some((stage, holds)) = queue.next_to_start() {
                running.push((stage, holds));
                let sum =
                    running.iter().fold(Resources { cpu: 0, mem: 0, gpu: 0 }, |sum, (_, r)| plus(sum, *r));
                assert!(fits(sum, case.capacity), "{sum:?} of {:?}", case.capacity);
                assert!(running.len() <= case.capacity.cpu);
                trace.push(format!("start {stage}"));
            }
            if queue.is_drained() {
                break;
            }
            assert!(!running.is_empty(), "stuck: nothing runs and nothing is ready");
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (stage, _) = running.swap_remove((random >> 33) as usize % running.len());
            settled[stage] = true;
            if let Fate::Fails = case.fates[stage] {
                for skipped in queue.fail(stage) {
                    assert!(!settled[skipped], "{skipped} was settled before");
                    settled[skipped] = true;
                    trace.push(format!("skip {skipped}"));
                }
            } else {
                finished[stage] = true;
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
    }
}
