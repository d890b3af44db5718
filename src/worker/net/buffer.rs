//! Numbers aligned to cache lines. Products of matrices may depend in their last bits on how
//! their operands are aligned; here it is always the same.

use std::ops::{Deref, DerefMut};

#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct Line([f32; 16]);

#[derive(Clone, Default)]
pub struct Buffer {
    lines: Vec<Line>,
    len: usize,
}

impl Buffer {
    pub fn zeros(len: usize) -> Self {
        Self { lines: vec![Line([0.0; 16]); len.div_ceil(16)], len }
    }

    pub fn from_values(values: impl ExactSizeIterator<Item = f32>) -> Self {
        let mut buffer = Self::zeros(values.len());
        buffer.iter_mut().zip(values).for_each(|(slot, value)| *slot = value);
        buffer
    }

    /// Changes the length; what was in it stays as far as it fits, what is new is anything.
    pub fn resize(&mut self, len: usize) {
        self.lines.resize(len.div_ceil(16), Line([0.0; 16]));
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
