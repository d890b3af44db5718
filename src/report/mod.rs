//! Records to tables and figures. Pure: strings and bytes come out, nothing is read or written.

pub mod figure;
