//! Tells the linker where libtorch will be found when `pipe-worker` starts.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=LIBTORCH");
    let Ok(libtorch) = std::env::var("LIBTORCH") else { return };
    let lib = Path::new(&libtorch).join("lib");
    if !lib.is_dir() {
        println!("cargo::error=there is no libtorch in {libtorch}: `make libtorch` fetches it");
        return;
    }
    println!("cargo::rustc-link-arg=-Wl,-rpath,{}", lib.display());

    // No symbol of libtorch_cuda is called by name: its kernels register themselves when it is
    // loaded. The linker would drop it, and CUDA would never be found.
    if lib.join("libtorch_cuda.so").exists() {
        for arg in ["-Wl,--push-state,--no-as-needed", "-ltorch_cuda", "-Wl,--pop-state"] {
            println!("cargo::rustc-link-arg-bin=pipe-worker={arg}");
        }
    }
}
