//! Records to tables, figures and pages. Pure: data in, strings out.

pub mod diff;
pub mod page;
