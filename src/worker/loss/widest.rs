//! Compiles a function twice, for any processor and for one with AVX2 and fused multiply-add, and
//! picks at run time.
//!
//! Multiply-adds are fused where the code says so and nowhere else, and sums run over a fixed
//! number of lanes, so that both versions give the same bits; the plain one is much slower.

macro_rules! widest {
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
                fn wide $(<$generic: $bound>)? ($($argument: $type),*) $(-> $result)? {
                    body($($argument),*)
                }
                if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
                    // SAFETY: the processor has just said that it has both features.
                    return unsafe { wide($($argument),*) };
                }
            }
            body($($argument),*)
        }
    };
}

pub(crate) use widest;
