//! Methods that set one field each of a struct of options, so that they chain.

/// Writes a setter for every field of a struct, under the field's name, that takes the type given, or what turns into it.
/// A field that is left out does not compile.
#[doc(hidden)]
#[macro_export]
macro_rules! __setters {
    ($name:ident { $($field:ident: $ty:ty),* $(,)? }) => {
        impl $name {
            $(
                #[doc = concat!("Sets the field [`", stringify!($field), "`](field@", stringify!($name), "::", stringify!($field), ").")]
                #[must_use]
                pub fn $field(mut self, $field: $ty) -> Self {
                    self.$field = $field.into();
                    self
                }
            )*
        }

        const _: fn(&$name) = |options| {
            let $name { $($field: _,)* } = options;
        };
    };
}

pub(crate) use __setters as setters;
