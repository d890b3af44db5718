//! Tells the linker where `pipe-worker` finds libtorch at run time, and passes the version of libtorch to the code.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=LIBTORCH");
    let libtorch = std::env::var("LIBTORCH").unwrap_or_default();
    let libtorch = Path::new(&libtorch);
    let lib = libtorch.join("lib");
    if !lib.is_dir() {
        println!(
            "cargo::error=there is no libtorch in {}: run `make libtorch` to fetch it",
            libtorch.display()
        );
        return;
    }
    println!("cargo::rustc-link-arg=-Wl,-rpath,{}", lib.display());
    println!("cargo::rustc-env=PIPE_LIBTORCH_VERSION={}", header_version(libtorch).unwrap_or_default());

    // No symbol of libtorch_cuda is called by name, because its kernels register themselves when it is loaded.
    // Without these arguments the linker would drop it, and CUDA would never be available.
    if lib.join("libtorch_cuda.so").exists() {
        for arg in ["-Wl,--push-state,--no-as-needed", "-ltorch_cuda", "-Wl,--pop-state"] {
            println!("cargo::rustc-link-arg-bin=pipe-worker={arg}");
        }
    }
}

/// Returns the version of libtorch, such as `2.13.0`, from the three macros in its header.
fn header_version(libtorch: &Path) -> Option<String> {
    let header = libtorch.join("include/torch/headeronly/version.h");
    println!("cargo::rerun-if-changed={}", header.display());
    let text = std::fs::read_to_string(header).ok()?;
    let parts: Option<Vec<&str>> = ["MAJOR", "MINOR", "PATCH"]
        .iter()
        .map(|part| {
            let prefix = format!("#define TORCH_VERSION_{part} ");
            text.lines().find_map(|line| line.strip_prefix(prefix.as_str())).map(str::trim)
        })
        .collect();
    Some(parts?.join("."))
}
