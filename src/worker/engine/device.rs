//! The choice of device and engine for a method.

use super::cpu::CpuEngine;
use super::torch::TorchEngine;
use super::{Engine, EngineState};
use pipe_ml::config::device::{Device, Precision};
use pipe_ml::config::method::Method;
use pipe_ml::signal::idf::Idf;

/// The environment variable that allows TF32. libtorch reads it while it is being loaded and has no function for it.
pub const TF32: &str = "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE";

/// The reason why a method cannot run on its device.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    #[error(
        "`device: {device}` needs a GPU, but libtorch finds none on this machine: write `device: auto` or \
         `device: cpu`, or run on a machine with a GPU and a CUDA build of libtorch"
    )]
    NoCuda { device: Device },
    #[error(
        "`device: {device}` needs GPU number {number}, but this machine has only {count}; the first is `cuda:0`"
    )]
    TooFew { device: Device, number: usize, count: i64 },
    #[error(
        "`precision: tf32` must be set before libtorch is loaded: set {TF32}=1 in the environment of `pipe-worker`"
    )]
    Tf32,
    #[error("libtorch: {0}")]
    Torch(#[from] tch::TchError),
}

/// Returns the device of this machine that a setting stands for.
pub fn choose(device: Device) -> Result<tch::Device, DeviceError> {
    let count = if tch::Cuda::is_available() { tch::Cuda::device_count() } else { 0 };
    match device {
        Device::Cpu => Ok(tch::Device::Cpu),
        Device::Auto if count == 0 => Ok(tch::Device::Cpu),
        Device::Auto => Ok(tch::Device::Cuda(0)),
        Device::Cuda(_) if count == 0 => Err(DeviceError::NoCuda { device }),
        Device::Cuda(number) if number as i64 >= count => Err(DeviceError::TooFew { device, number, count }),
        Device::Cuda(number) => Ok(tch::Device::Cuda(number)),
    }
}

/// Returns the name of a device as a pipeline file spells it.
pub fn name(device: tch::Device) -> String {
    match device {
        tch::Device::Cuda(number) => Device::Cuda(number).to_string(),
        _ => Device::Cpu.to_string(),
    }
}

/// Returns the engine for a method, starting from `state`: the CPU engine on the CPU, libtorch's on a GPU.
pub fn engine(method: &Method, idf: &Idf, state: EngineState) -> Result<Box<dyn Engine + Send>, DeviceError> {
    match choose(method.device)? {
        tch::Device::Cpu => Ok(Box::new(CpuEngine::new(method, idf, state))),
        _ if method.precision == Precision::Tf32 && std::env::var(TF32).as_deref() != Ok("1") => {
            Err(DeviceError::Tf32)
        }
        device => Ok(Box::new(TorchEngine::new(method, idf, state, device)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_gpu_is_an_error_that_says_what_to_write_instead() {
        if !tch::Cuda::is_available() {
            let error = choose(Device::Cuda(1)).unwrap_err().to_string();
            assert!(error.contains("cuda:1") && error.contains("device: cpu"), "{error}");
            assert_eq!(choose(Device::Auto).unwrap(), tch::Device::Cpu);
        }
    }
}
