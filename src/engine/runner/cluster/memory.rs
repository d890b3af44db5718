//! How much memory a job asks for.

use super::profile::Profile;
use super::scheduler::mebibytes;
use crate::spec::pipeline::Instance;

/// What a job gets at least beyond the largest memory that its stage has used: the job itself needs some of it.
const LEAST_HEAD_ROOM: u64 = 64 << 20;
/// Requests are multiples of this.
const STEP: u64 = 16 << 20;

impl Profile {
    /// Returns the memory that the first job of an instance asks for, in bytes; 0 leaves it to the cluster. `peak` is the
    /// largest memory that its stage has used before.
    pub(super) fn first_memory(&self, instance: &Instance, peak: Option<u64>) -> u64 {
        let usual = self.mem.map_or(0, |mem| mem.bytes);
        let most = self.mem_max.map_or(u64::MAX, |max| max.bytes);
        match peak.filter(|_| instance.cluster.auto_mem) {
            Some(peak) => with_head_room(peak).min(most),
            None if instance.resources.mem > 0 => instance.resources.mem,
            None => usual,
        }
    }

    /// Returns the memory to ask for after a job that asked for `asked` bytes has run out of memory, or a sentence if it must
    /// not be submitted again.
    pub(super) fn more_memory(&self, asked: u64) -> Result<u64, String> {
        let (had, next) = (mebibytes(asked), 2 * mebibytes(asked));
        match self.mem_max.map(|max| max.bytes) {
            Some(most) if asked == 0 => Ok(most),
            None if asked == 0 => {
                Err("it needed more memory than the cluster gives by default; state its memory: \
                                    `resources: { mem: ... }`"
                    .to_owned())
            }
            Some(most) if asked < most => Ok((2 * asked).min(most)),
            Some(_) => Err(format!(
                "it needed more memory than the {had} MiB that it asked for, and `mem_max` of the engine profile allows no \
                 more; ask for more: `resources: {{ mem: {next}MiB }}`"
            )),
            None => Err(format!(
                "it needed more memory than the {had} MiB that it asked for; ask for more: `resources: {{ mem: {next}MiB }}`, \
                 or set `mem_max` in the engine profile, up to which pipe does so by itself"
            )),
        }
    }
}

fn with_head_room(peak: u64) -> u64 {
    (peak + (peak / 4).max(LEAST_HEAD_ROOM)).next_multiple_of(STEP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::sample;
    use crate::spec::resource_request::Memory;

    const MIB: u64 = 1 << 20;

    fn profile(mem: Option<u64>, mem_max: Option<u64>) -> Profile {
        let memory = |mib: u64| Memory { bytes: mib * MIB };
        Profile { mem: mem.map(memory), mem_max: mem_max.map(memory), ..Profile::slurm() }
    }

    #[test]
    fn a_job_asks_for_what_is_stated_or_measured_or_usual() {
        let mut instance = sample::stage("train", &[]);
        let ask = |profile: Profile, instance: &Instance, peak: Option<u64>| {
            profile.first_memory(instance, peak.map(|mib| mib * MIB)) / MIB
        };
        assert_eq!(ask(profile(None, None), &instance, None), 0);
        assert_eq!(ask(profile(Some(500), None), &instance, Some(9000)), 500);
        instance.resources.mem = 3000 * MIB;
        assert_eq!(ask(profile(Some(500), Some(1000)), &instance, None), 3000);
        (instance.resources.mem, instance.cluster.auto_mem) = (0, true);
        assert_eq!(ask(profile(Some(500), None), &instance, None), 500, "it has never run");
        assert_eq!(ask(profile(Some(500), None), &instance, Some(1600)), 2000);
        assert_eq!(ask(profile(Some(500), None), &instance, Some(10)), 80, "a job needs some memory itself");
        assert_eq!(ask(profile(Some(500), Some(1024)), &instance, Some(1600)), 1024);
    }

    #[test]
    fn a_job_that_ran_out_of_memory_gets_twice_as_much_up_to_the_maximum() {
        let limited = profile(None, Some(3000));
        assert_eq!(limited.more_memory(1000 * MIB), Ok(2000 * MIB));
        assert_eq!(limited.more_memory(2000 * MIB), Ok(3000 * MIB));
        let refused = limited.more_memory(3000 * MIB).unwrap_err();
        assert!(refused.contains("`mem_max`") && refused.contains("mem: 6000MiB"), "{refused}");
        let unlimited = profile(None, None).more_memory(1000 * MIB).unwrap_err();
        assert!(unlimited.contains("mem: 2000MiB"), "{unlimited}");
        assert_eq!(limited.more_memory(0), Ok(3000 * MIB), "how much it had is not known");
        assert!(profile(None, None).more_memory(0).unwrap_err().contains("by default"));
    }
}
