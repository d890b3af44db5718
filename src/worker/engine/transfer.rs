//! Copies between host memory and a device.
//!
//! The host must not wait for the device during training, so that it can prepare the next steps. A copy to a GPU starts
//! from pinned memory and does not wait. A copy from the device waits for everything before it, so it is rare: all such
//! copies of an engine go through its [`Reads`], which counts them. An operation whose result has a size that depends on
//! values, such as `unique`, `nonzero` or `masked_select`, waits as well: engines do without them.

use std::cell::Cell;

use tch::kind::Element;
use tch::{Device, Kind, TchError, Tensor};

/// Copies values to a device and converts them to `kind` before.
pub fn upload<T: Element>(values: &[T], kind: Kind, device: Device) -> Result<Tensor, TchError> {
    let tensor = Tensor::f_from_slice(values)?.f_to_kind(kind)?;
    if !device.is_cuda() || values.is_empty() {
        return tensor.f_to_device(device);
    }
    // libtorch keeps the pinned memory until the copy is done, even if its tensor is dropped before.
    tensor.f_pin_memory(device)?.f_to_device_(device, kind, true, false)
}

/// Reads results of a device.
#[derive(Default)]
pub struct Reads {
    count: Cell<u64>,
}

impl Reads {
    /// Copies a tensor, in the order of its elements, into host memory.
    pub fn read<T: Element>(&self, tensor: &Tensor, values: &mut [T]) -> Result<(), TchError> {
        self.count.set(self.count.get() + 1);
        let tensor = tensor.f_detach()?.f_to_device(Device::Cpu)?.f_to_kind(T::KIND)?.f_contiguous()?;
        tensor.f_copy_data(values, values.len())
    }

    /// Returns how often the host has read results.
    pub fn count(&self) -> u64 {
        self.count.get()
    }
}
