//! The macro `multiversion!`, which compiles a function twice: for every processor, and for one with AVX2 and fused
//! multiply-add. The choice is made at run time.
//!
//! Both versions give the same bits, because multiply-adds are fused only where the code says so and sums use a fixed
//! number of lanes. The version without AVX2 is much slower.

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
                fn wide $(<$generic: $bound>)? ($($argument: $type),*) $(-> $result)? {
                    body($($argument),*)
                }
                if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
                    // SAFETY: the line above checked that the processor has both features.
                    return unsafe { wide($($argument),*) };
                }
            }
            body($($argument),*)
        }
    };
}

pub(crate) use multiversion;
