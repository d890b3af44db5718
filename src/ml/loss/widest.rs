//! Compiles a function twice, for any processor and for one with AVX2, and picks at run time.
//!
//! No fused multiply-add is ever formed, and sums run over a fixed number of lanes, so that both
//! versions give the same bits.

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
                #[target_feature(enable = "avx2")]
                fn wide $(<$generic: $bound>)? ($($argument: $type),*) $(-> $result)? {
                    body($($argument),*)
                }
                if std::arch::is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor has just said that it has the feature.
                    return unsafe { wide($($argument),*) };
                }
            }
            body($($argument),*)
        }
    };
}

pub(crate) use widest;
