//! Options from configuration files and environment variables, with the feature `serde`.
//!
//! Every struct of options implements `Deserialize`: what a file does not mention has its default. Times are text with a
//! unit (`"5s"`, `"100ms"`), or `"none"` where there may be none; sizes are numbers of bytes, or text with a unit
//! (`"16 MiB"`); lists are lists of texts, or one text with commas in it. A key that does not exist is an error that lists
//! those that do, and so is a value outside its range.
//!
//! From the environment: [`from_env`] changes options that are there, for instance from a file. `NALIX_DRAIN_TIMEOUT=5s`
//! sets `drain_timeout`; the fields of a group within a group have two underscores in front:
//! `NALIX_CONNECTION__MAX_MESSAGE="1 MiB"`.

mod env;
mod limits;
mod section;
mod value;

pub use self::{
    env::{EnvError, from_env, from_vars},
    section::{Over, Section},
    value::{Raw, flag, list, number, optional_time, size, text, time, word},
};
