//! Where stages run: the profile of a cluster, and `pipe engine init`, which writes one.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::args::EngineCommand;
use super::exit::{Exit, Failure, Outcome};
use super::print_status;
use pipe_core::captured::captured;
use pipe_core::suggest;
use pipe_engine::runner::cluster::Profile;
use pipe_stages::registry;

/// The directory of profiles, in the project and in the user's configuration.
const DIRECTORY: &str = "engines";
/// The name of the engine that runs stages on this machine.
const LOCAL: &str = "local";
const SLURM: &str = "slurm";

/// Returns the profile of the engine that the command line names, or else PIPE_ENGINE; `None` for this machine.
pub(super) fn chosen(named: Option<&str>) -> Result<Option<Profile>, Failure> {
    let variable = std::env::var("PIPE_ENGINE").ok().filter(|name| !name.is_empty());
    match named.map(str::to_owned).or(variable) {
        None => Ok(None),
        Some(name) if name == LOCAL => Ok(None),
        Some(name) => read(&name).map(Some),
    }
}

/// Reads a profile: that of the project, or else that of the user. Slurm needs none.
pub(super) fn read(name: &str) -> Result<Profile, Failure> {
    let places: Vec<PathBuf> =
        directories().iter().map(|directory| directory.join(format!("{name}.yaml"))).collect();
    for path in &places {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(Failure::bad_input(format!("cannot read {}: {error}", path.display()))),
        };
        return parse(name, &text).map_err(|error| {
            Failure::bad_input(format!("the engine profile {} is wrong: {error}", path.display()))
        });
    }
    if name == SLURM {
        return Ok(Profile::slurm());
    }
    let mut known = vec![LOCAL.to_owned(), SLURM.to_owned()];
    known.extend(directories().iter().flat_map(|directory| profiles_in(directory)));
    let hint = suggest::did_you_mean(name, "the engines are", known.iter().map(String::as_str));
    let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
    Err(Failure::bad_input(format!(
        "there is no engine `{name}`: neither {} exists{}",
        places.join(" nor "),
        hint.map(|hint| format!("; {hint}")).unwrap_or_default()
    )))
}

/// Reads the text of a profile.
fn parse(name: &str, text: &str) -> Result<Profile, String> {
    let mut profile: Profile = serde_yaml::from_str(text).map_err(|error| {
        let message = error.to_string();
        let hint = suggest::for_unknown_field(&message).map(|hint| format!("; {hint}")).unwrap_or_default();
        message + &hint
    })?;
    profile.name = name.to_owned();
    let kinds: Vec<&str> = registry::kinds().iter().map(|kind| kind.name()).collect();
    profile.check(&kinds).map(|()| profile)
}

/// Returns where profiles are looked for.
fn directories() -> Vec<PathBuf> {
    let configuration = std::env::var_os("XDG_CONFIG_HOME")
        .filter(|directory| !directory.is_empty())
        .map(PathBuf::from)
        .or_else(|| std::env::home_dir().map(|home| home.join(".config")));
    let of_user = configuration.map(|directory| directory.join("pipe").join(DIRECTORY));
    std::iter::once(PathBuf::from(DIRECTORY)).chain(of_user).collect()
}

fn profiles_in(directory: &Path) -> Vec<String> {
    let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let names = files.filter_map(|file| Some(file.file_name().to_str()?.strip_suffix(".yaml")?.to_owned()));
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    names
}

/// Runs `pipe engine`.
pub(super) fn engine(command: &EngineCommand) -> Outcome {
    let EngineCommand::Init { name } = command;
    let text = match name.as_str() {
        SLURM => slurm_profile(&partitions()),
        "template" => TEMPLATE.to_owned(),
        other => {
            let hint = suggest::did_you_mean(other, "the profiles are", [SLURM, "template"]);
            return Err(Failure::bad_input(format!(
                "there is no profile to start from for `{other}`{}",
                hint.map(|hint| format!("; {hint}")).unwrap_or_default()
            )));
        }
    };
    let path = Path::new(DIRECTORY).join(format!("{name}.yaml"));
    let failure = |error: std::io::Error| {
        Failure::bad_input(match error.kind() {
            ErrorKind::AlreadyExists => {
                format!("{} exists already; edit it, or remove it first", path.display())
            }
            _ => format!("cannot write {}: {error}", path.display()),
        })
    };
    std::fs::create_dir_all(DIRECTORY).map_err(failure)?;
    let mut file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(failure)?;
    file.write_all(text.as_bytes()).map_err(failure)?;
    print_status(&format!(
        "wrote {}\nnext: look through it, then `pipe run FILE --engine {name}`",
        path.display()
    ));
    Ok(Exit::Done)
}

/// One partition of a Slurm cluster, as `sinfo` describes it.
#[derive(Debug, PartialEq)]
struct Partition {
    name: String,
    is_default: bool,
    time_limit: String,
    cpus: String,
    memory_mb: String,
    gres: String,
}

/// Asks `sinfo` for the partitions; none if it is not there.
fn partitions() -> Vec<Partition> {
    let mut command = Command::new("sinfo");
    command.args(["--noheader", "--format=%P|%l|%c|%m|%G"]);
    let answer = captured(&mut command).ok().filter(|output| output.status.success());
    let text = answer.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    parse_partitions(&text)
}

fn parse_partitions(text: &str) -> Vec<Partition> {
    let mut found: Vec<Partition> = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [name, time_limit, cpus, memory_mb, gres] = fields[..] else { continue };
        let partition = Partition {
            name: name.trim_end_matches('*').to_owned(),
            is_default: name.ends_with('*'),
            time_limit: time_limit.to_owned(),
            cpus: cpus.to_owned(),
            memory_mb: memory_mb.to_owned(),
            gres: gres.to_owned(),
        };
        if !found.contains(&partition) {
            found.push(partition);
        }
    }
    found
}

fn slurm_profile(partitions: &[Partition]) -> String {
    let mut text = String::from(
        "# How `pipe run --engine slurm` submits jobs; docs/cluster.md explains the fields.\nengine: slurm\n",
    );
    if partitions.is_empty() {
        text.push_str("# `sinfo` did not answer when this file was written, so the partition is not known.\n#partition: NAME\n");
    } else {
        text.push_str("# The partitions of this cluster:\n");
        for Partition { name, time_limit, cpus, memory_mb, gres, .. } in partitions {
            let gpus = if gres.contains("gpu") { format!(", {gres}") } else { String::new() };
            text.push_str(&format!(
                "#   {name}: time limit {time_limit}, {cpus} processors and {memory_mb} MB per node{gpus}\n"
            ));
        }
        let usual = partitions.iter().find(|partition| partition.is_default).or(partitions.first());
        if let Some(partition) = usual {
            text.push_str(&format!("partition: {}\n", partition.name));
            if let Ok(most) = partition.memory_mb.trim_end_matches('+').parse::<u64>() {
                text.push_str(&format!(
                    "mem_max: {most}MiB           # a job that runs out of memory gets up to this much\n"
                ));
            }
        }
    }
    text.push_str(
        "#account: NAME
#qos: NAME
#constraint: NAME
#flags: [--exclusive]       # further arguments of sbatch
#setup: module load cuda    # shell lines that every job runs first
#time: 4h                   # for stages without `resources: { time: ... }`
#mem: 4GB                   # for stages without `resources: { mem: ... }`
max_jobs: 100               # at most this many jobs in the queue at once
",
    );
    text
}

const TEMPLATE: &str = r#"# How `pipe run --engine template` submits jobs to another scheduler; docs/cluster.md explains the fields.
engine: template
# Prints the id of the job as its last line. Exit code 75 asks pipe to try again later.
submit: qsub -terse -b n -N "$PIPE_JOB_NAME" -pe smp "$PIPE_JOB_CPU" -o /dev/null -j y "$PIPE_JOB_SCRIPT"
# Prints one line per job that has not ended: ID [STATE [NAME]].
status: qstat | awk 'NR > 2 { print $1 }'
# Ends the jobs in $PIPE_JOB_IDS.
cancel: qdel $PIPE_JOB_IDS
max_jobs: 100
"#;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Profile {
        parse("test", text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    #[test]
    fn the_profiles_that_are_written_can_be_read() {
        check(TEMPLATE);
        assert_eq!(check(&slurm_profile(&[])).partition, None);
        let partitions = parse_partitions(
            "short|1:00:00|8|64000|(null)\nlong*|infinite|64|512000|gpu:a100:4\nlong*|infinite|64|512000|gpu:a100:4\n",
        );
        assert_eq!(partitions.len(), 2);
        let text = slurm_profile(&partitions);
        assert!(text.contains("long: time limit infinite, 64 processors and 512000 MB per node, gpu:a100:4"));
        let profile = check(&text);
        assert_eq!(profile.partition.as_deref(), Some("long"));
        assert_eq!(profile.mem_max.map(|memory| memory.bytes), Some(512_000 << 20));
    }
}
