//! Which engine a method runs on.

use super::cpu::CpuEngine;
use super::torch::TorchEngine;
use super::{Engine, State};
use pipe_ml::config::device::{Device, Precision};
use pipe_ml::config::method::Method;
use pipe_ml::signal::idf::Idf;

/// What libtorch reads when it starts; it has no call for this.
pub const TF32: &str = "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE";

#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    #[error(
        "`device: {asked}` asks for a GPU, and libtorch sees none here: write `device: auto` or \
         `device: cpu`, or run where there is one with a CUDA build of libtorch"
    )]
    NoCuda { asked: Device },
    #[error("`device: {asked}` asks for GPU number {number}, and there are only {count}")]
    TooFew { asked: Device, number: usize, count: i64 },
    #[error(
        "`precision: tf32` must be known before libtorch starts: set {TF32}=1 in the environment of the \
         program that trains"
    )]
    Tf32,
    #[error("libtorch: {0}")]
    Torch(#[from] tch::TchError),
}

/// The device that is meant on this machine.
pub fn choose(asked: Device) -> Result<tch::Device, DeviceError> {
    let count = if tch::Cuda::is_available() { tch::Cuda::device_count() } else { 0 };
    match asked {
        Device::Cpu => Ok(tch::Device::Cpu),
        Device::Auto if count == 0 => Ok(tch::Device::Cpu),
        Device::Auto => Ok(tch::Device::Cuda(0)),
        Device::Cuda(_) if count == 0 => Err(DeviceError::NoCuda { asked }),
        Device::Cuda(number) if number as i64 >= count => Err(DeviceError::TooFew { asked, number, count }),
        Device::Cuda(number) => Ok(tch::Device::Cuda(number)),
    }
}

/// As a user would write it.
pub fn name(device: tch::Device) -> String {
    match device {
        tch::Device::Cuda(number) => Device::Cuda(number).to_string(),
        _ => Device::Cpu.to_string(),
    }
}

/// The engine for a method, at a state.
pub fn engine(method: &Method, idf: &Idf, state: State) -> Result<Box<dyn Engine + Send>, DeviceError> {
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
    fn a_gpu_that_is_not_there_is_refused_with_a_sentence() {
        if !tch::Cuda::is_available() {
            let error = choose(Device::Cuda(1)).unwrap_err().to_string();
            assert!(error.contains("cuda:1") && error.contains("device: cpu"), "{error}");
            assert_eq!(choose(Device::Auto).unwrap(), tch::Device::Cpu);
        }
    }
}
