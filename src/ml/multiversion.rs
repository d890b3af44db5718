//! The macro [`multiversion!`](crate::multiversion), which compiles a function three times: for every processor, for one with
//! AVX2 and fused multiply-add, and for one with AVX-512. The choice is made at run time.
//!
//! All versions give the same bits, because multiply-adds are fused only where the code says so and sums use a fixed
//! number of lanes. The version without AVX2 is much slower.

use std::sync::atomic::{AtomicU8, Ordering};

/// The instructions that a processor has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Instructions {
    /// Those of every processor.
    Plain = 1,
    /// AVX2 and fused multiply-add.
    Avx2 = 2,
    /// AVX-512 as servers have had it since 2017.
    Avx512 = 3,
}

impl Instructions {
    /// Returns the best instructions of this processor.
    #[inline]
    pub fn of_this_processor() -> Self {
        static FOUND: AtomicU8 = AtomicU8::new(0);
        match FOUND.load(Ordering::Relaxed) {
            1 => Self::Plain,
            2 => Self::Avx2,
            3 => Self::Avx512,
            _ => {
                let found = Self::detect();
                FOUND.store(found as u8, Ordering::Relaxed);
                found
            }
        }
    }

    #[cold]
    fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            if has!("avx2") && has!("fma") {
                let wide = has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl");
                return if wide { Self::Avx512 } else { Self::Avx2 };
            }
        }
        Self::Plain
    }
}

/// Compiles a function for several kinds of processors; see the module [`mod@crate::multiversion`].
#[macro_export]
macro_rules! multiversion {
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident $(<$generic:ident: $bound:path>)? (
            $($argument:ident: $type:ty),* $(,)?
        ) $(-> $result:ty)? $body:block
    ) => {
        $(#[$meta])*
        $vis fn $name $(<$generic: $bound>)? ($($argument: $type),*) $(-> $result)? {
            #[allow(clippy::too_many_arguments)]
            #[inline(always)]
            fn body $(<$generic: $bound>)? ($($argument: $type),*) $(-> $result)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[allow(clippy::too_many_arguments)]
                #[target_feature(enable = "avx2,fma")]
                fn avx2 $(<$generic: $bound>)? ($($argument: $type),*) $(-> $result)? {
                    body($($argument),*)
                }
                #[allow(clippy::too_many_arguments)]
                #[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
                fn avx512 $(<$generic: $bound>)? ($($argument: $type),*) $(-> $result)? {
                    body($($argument),*)
                }
                match $crate::multiversion::Instructions::of_this_processor() {
                    // SAFETY: the processor has these instructions.
                    $crate::multiversion::Instructions::Avx512 => return unsafe { avx512($($argument),*) },
                    // SAFETY: the processor has these instructions.
                    $crate::multiversion::Instructions::Avx2 => return unsafe { avx2($($argument),*) },
                    $crate::multiversion::Instructions::Plain => {}
                }
            }
            body($($argument),*)
        }
    };
}
