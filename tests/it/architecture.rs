//! The part of the architecture that cargo cannot check: `pipe` starts without libtorch.

use std::process::Command;

#[test]
fn only_the_worker_loads_libtorch() {
    let libraries = |program: &str| {
        let ldd = Command::new("ldd").arg(program).output().expect("ldd comes with the C library");
        String::from_utf8(ldd.stdout).unwrap()
    };
    let pipe = libraries(env!("CARGO_BIN_EXE_pipe"));
    assert!(pipe.contains("libc.so"), "{pipe}");
    assert!(!pipe.contains("torch") && !pipe.contains("c10"), "pipe must start without libtorch:\n{pipe}");
    let worker = libraries(crate::support::worker_program().to_str().unwrap());
    assert!(worker.contains("libtorch_cpu.so => /"), "pipe-worker must find libtorch:\n{worker}");
}
