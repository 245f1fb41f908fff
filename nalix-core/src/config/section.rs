//! Groups of options whose fields are set by their names.

use std::fmt;

use serde::{
    Deserializer,
    de::{DeserializeSeed, Error, MapAccess, Visitor},
};

/// A group of options.
pub trait Section {
    /// The names of its fields.
    const FIELDS: &'static [&'static str];

    /// Sets the field of this name, one of [`Section::FIELDS`], to the next value of `map`.
    ///
    /// # Errors
    /// What is wrong with the value.
    fn set<'de, A: MapAccess<'de>>(&mut self, field: &str, map: &mut A) -> Result<(), A::Error>;
}

/// Deserialises over options that are there: what is not mentioned stays as it is.
#[derive(Debug)]
pub struct Over<'a, S>(pub &'a mut S);

impl<'de, S: Section> DeserializeSeed<'de> for Over<'_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, S: Section> Visitor<'de> for Over<'_, S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a group of options")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(field) = map.next_key::<String>()? {
            if !S::FIELDS.contains(&field.as_str()) {
                return Err(A::Error::unknown_field(&field, S::FIELDS));
            }
            self.0.set(&field, &mut map)?;
        }
        Ok(())
    }
}

/// Makes a struct of options a section that can be deserialised. `|raw|` is an expression for the value of a field, with
/// a text as its error; `nested` fields are sections themselves.
#[doc(hidden)]
#[macro_export]
macro_rules! __section {
    ($ty:ty { $($field:ident: |$raw:ident| $value:expr,)* } $(nested { $($inner:ident,)* })?) => {
        impl $crate::config::Section for $ty {
            const FIELDS: &'static [&'static str] = &[$(stringify!($field),)* $($(stringify!($inner),)*)?];

            fn set<'de, A: $crate::__private::serde::de::MapAccess<'de>>(
                &mut self,
                field: &str,
                map: &mut A,
            ) -> Result<(), A::Error> {
                let wrong = |why: String| <A::Error as $crate::__private::serde::de::Error>::custom(
                    format_args!("{field}: {why}"),
                );
                match field {
                    $(stringify!($field) => {
                        let $raw = &map.next_value::<$crate::config::Raw>()?;
                        self.$field = $value.map_err(wrong)?;
                    })*
                    $($(stringify!($inner) => {
                        map.next_value_seed($crate::config::Over(&mut self.$inner))?;
                    })*)?
                    _ => return Err(wrong("unknown".into())),
                }
                Ok(())
            }
        }

        impl<'de> $crate::__private::serde::Deserialize<'de> for $ty {
            fn deserialize<D: $crate::__private::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let mut options = Self::default();
                let over = $crate::config::Over(&mut options);
                $crate::__private::serde::de::DeserializeSeed::deserialize(over, deserializer)?;
                Ok(options)
            }
        }
    };
}
