//! HTML pages that are one file each: style, script, figures and data are inside, and the content security policy forbids
//! the network.
//!
//! A page can be read without scripts. With them, tables can be sorted and searched, and the theme can be chosen.

pub mod audit_card;
pub mod claim_card;
pub mod dag;
mod dag_layout;
mod document;
pub mod evaluation;
pub mod grid;
pub mod html;
pub mod label_tail;
pub mod number;
pub mod oracle_mark;
pub mod picture;
pub mod result_table;
pub mod status;
pub mod table_file;
pub mod verdict;

pub use document::{Page, PageScript, Section, facts};
