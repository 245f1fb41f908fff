//! Options from environment variables.

use std::collections::BTreeMap;

use serde::{
    Deserializer,
    de::{
        DeserializeSeed, IntoDeserializer, Visitor,
        value::{Error, MapDeserializer},
    },
    forward_to_deserialize_any,
};

use super::section::{Over, Section};

/// An environment variable names no option, or has a value that its option cannot have.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("environment variables NALIX_...: {message}")]
pub struct EnvError {
    message: String,
}

/// Changes options as the environment says: all variables that start with `NALIX_`.
///
/// # Errors
/// [`EnvError`] if one of them names no option, which lists the options, or has a value outside the range; some of the
/// others may have been set by then.
pub fn from_env<S: Section>(options: &mut S) -> Result<(), EnvError> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
    };
    from_vars(options, std::env::vars_os().filter_map(text))
}

/// As [`from_env`], from variables that somebody else has read.
///
/// # Errors
/// As [`from_env`].
pub fn from_vars<S: Section>(
    options: &mut S,
    vars: impl IntoIterator<Item = (String, String)>,
) -> Result<(), EnvError> {
    let mut fields: BTreeMap<String, Value> = BTreeMap::new();
    for (name, value) in vars {
        let Some(name) = name.strip_prefix(PREFIX) else { continue };
        let name = name.to_ascii_lowercase();
        match name.split_once("__") {
            None => drop(fields.insert(name, Value::Text(value))),
            Some((group, field)) => {
                let group = fields.entry(group.to_owned()).or_insert_with(|| Value::Group(Vec::new()));
                if let Value::Group(group) = group {
                    group.push((field.to_owned(), Value::Text(value)));
                }
            }
        }
    }
    let fields = MapDeserializer::<_, Error>::new(fields.into_iter());
    Over(options).deserialize(fields).map_err(|error| EnvError { message: error.to_string() })
}

enum Value {
    Text(String),
    Group(Vec<(String, Value)>),
}

impl IntoDeserializer<'_, Error> for Value {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Value {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Value::Text(text) => visitor.visit_string(text),
            Value::Group(fields) => visitor.visit_map(MapDeserializer::new(fields.into_iter())),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

const PREFIX: &str = "NALIX_";
