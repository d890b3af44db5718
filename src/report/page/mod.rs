//! One page that needs nothing else: style, script, figures and data are inside, and its policy forbids the network.
//!
//! It reads without scripts; with them, tables sort and search, and the theme can be chosen.

pub mod card;
pub mod dag;
mod document;
pub mod evaluation;
pub mod grid;
pub mod html;
mod layout;
pub mod mark;
pub mod number;
pub mod picture;
pub mod sheet;
pub mod status;
pub mod table_file;
pub mod tail;

pub use document::{Live, Page, Section, facts};
