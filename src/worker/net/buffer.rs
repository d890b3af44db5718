//! A vector of f32 aligned to cache lines.
//!
//! The last bits of a matrix product may depend on the alignment of its operands. Buffers always have the same
//! alignment, so that results can be reproduced to the bit.

use std::ops::{Deref, DerefMut};

#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct CacheLine([f32; 16]);

/// A vector of f32 that starts on a cache line.
#[derive(Clone, Default)]
pub struct Buffer {
    lines: Vec<CacheLine>,
    len: usize,
}

impl Buffer {
    /// Returns a buffer of zeros.
    pub fn zeros(len: usize) -> Self {
        Self { lines: vec![CacheLine([0.0; 16]); len.div_ceil(16)], len }
    }

    /// Returns a buffer with the given values.
    pub fn from_values(values: impl ExactSizeIterator<Item = f32>) -> Self {
        let mut buffer = Self::zeros(values.len());
        for (slot, value) in buffer.iter_mut().zip(values) {
            *slot = value;
        }
        buffer
    }

    /// Changes the length. Values that still fit are kept; new values are unspecified.
    pub fn resize(&mut self, len: usize) {
        self.lines.resize(len.div_ceil(16), CacheLine([0.0; 16]));
        self.len = len;
    }
}

impl Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &bytemuck::cast_slice(&self.lines)[..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_starts_on_a_cache_line_and_keeps_its_length() {
        for len in [0, 1, 16, 17, 1000] {
            let buffer = Buffer::zeros(len);
            assert_eq!(buffer.len(), len);
            assert_eq!(buffer.as_ptr() as usize % 64, 0);
        }
        let values = Buffer::from_values((0..20u8).map(f32::from));
        assert_eq!(values[19], 19.0);
    }
}
