//! The element types of arrays, converted to f32.

/// The type of the numbers in an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ElementType {
    Bool,
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F16,
    BF16,
    F32,
    F64,
}

impl ElementType {
    /// Returns the size in bytes.
    pub(super) fn size(self) -> usize {
        match self {
            Self::Bool | Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 | Self::F16 | Self::BF16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// Returns whether numbers of the type may have a fraction.
    pub(crate) fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::BF16 | Self::F32 | Self::F64)
    }

    /// Converts one number from its [`ElementType::size`] little-endian bytes; `None` if it is negative or the type has
    /// fractions.
    pub(super) fn read_index(self, bytes: &[u8]) -> Option<u64> {
        let size = self.size();
        let mut wide = [0; 8];
        wide[..size].copy_from_slice(&bytes[..size]);
        let is_signed = matches!(self, Self::I8 | Self::I16 | Self::I32 | Self::I64);
        let is_negative = is_signed && bytes[size - 1] >= 0x80;
        (!self.is_float() && !is_negative).then_some(u64::from_le_bytes(wide))
    }

    /// Converts one number from its [`ElementType::size`] little-endian bytes.
    pub(super) fn read(self, bytes: &[u8]) -> f32 {
        let mut wide = [0; 8];
        wide[..self.size()].copy_from_slice(&bytes[..self.size()]);
        let bits = u64::from_le_bytes(wide);
        match self {
            Self::Bool => f32::from(u8::from(bits != 0)),
            Self::I8 => f32::from(bits as i8),
            Self::U8 => f32::from(bits as u8),
            Self::I16 => f32::from(bits as i16),
            Self::U16 => f32::from(bits as u16),
            Self::I32 => bits as i32 as f32,
            Self::U32 => bits as u32 as f32,
            Self::I64 => bits as i64 as f32,
            Self::U64 => bits as f32,
            Self::F16 => half(bits as u16),
            Self::BF16 => f32::from_bits((bits as u32) << 16),
            Self::F32 => f32::from_bits(bits as u32),
            Self::F64 => f64::from_bits(bits) as f32,
        }
    }
}

/// Converts an IEEE 754 binary16 number.
fn half(bits: u16) -> f32 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let exponent = i32::from(bits >> 10 & 0x1f);
    let fraction = f32::from(bits & 0x3ff);
    sign * match exponent {
        0 => fraction * 2_f32.powi(-24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1024.0 + fraction) * 2_f32.powi(exponent - 25),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_is_converted_to_its_value() {
        for (element, bytes, value) in [
            (ElementType::Bool, &[2][..], 1.0),
            (ElementType::I8, &[0xff], -1.0),
            (ElementType::U8, &[0xff], 255.0),
            (ElementType::I16, &[0xfe, 0xff], -2.0),
            (ElementType::U32, &[0, 0, 0, 0x80], 2_147_483_648.0),
            (ElementType::I64, &[0xff; 8], -1.0),
            (ElementType::F16, &[0x00, 0x3c], 1.0),
            (ElementType::F16, &[0x55, 0x35], 0.333_251_95),
            (ElementType::F16, &[0x01, 0x80], -5.960_464_5e-8),
            (ElementType::BF16, &[0x80, 0x3f], 1.0),
            (ElementType::F32, &1.5_f32.to_le_bytes(), 1.5),
            (ElementType::F64, &0.1_f64.to_le_bytes(), 0.1),
        ] {
            assert_eq!(element.read(bytes), value, "{element:?}");
        }
        for (element, bytes, index) in [
            (ElementType::Bool, &[1][..], Some(1)),
            (ElementType::I16, &[0xff, 0x7f], Some(32_767)),
            (ElementType::I32, &[0xff; 4], None),
            (ElementType::I64, &0x100_0001_i64.to_le_bytes(), Some(0x100_0001)),
            (ElementType::U64, &[0xff; 8], Some(u64::MAX)),
            (ElementType::F32, &1.0_f32.to_le_bytes(), None),
        ] {
            assert_eq!(element.read_index(bytes), index, "{element:?}");
        }
        assert!(!ElementType::F16.read(&[0x00, 0x7c]).is_finite());
        assert!(ElementType::F16.read(&[0x01, 0x7c]).is_nan());
        assert!(!ElementType::F64.read(&1e300_f64.to_le_bytes()).is_finite());
    }
}
