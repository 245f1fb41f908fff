//! Stand-ins for a type that has errors, so that its uses do not add errors of their own.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{GenericParam, Lifetime, LifetimeParam};

use super::model::Container;

pub(super) fn expand(container: &Container) -> TokenStream {
    let Container { ident, krate, .. } = container;
    let (impl_generics, ty_generics, where_clause) = container.generics.split_for_impl();
    let mut generics = container.generics.clone();
    let input = LifetimeParam::new(Lifetime::new("'__de", Span::call_site()));
    generics.params.insert(0, GenericParam::Lifetime(input));
    let (decode_generics, _, _) = generics.split_for_impl();
    quote! {
        #[automatically_derived]
        impl #impl_generics #krate::wire::Encode for #ident #ty_generics #where_clause {
            fn encode(&self, __w: &mut #krate::wire::Writer<'_>) {
                #krate::wire::Writer::fail(__w, #krate::error::EncodeError::Custom(""));
            }
        }

        #[automatically_derived]
        impl #decode_generics #krate::wire::Decode<'__de> for #ident #ty_generics #where_clause {
            fn decode(
                _: &mut #krate::wire::Reader<'__de>,
            ) -> ::core::result::Result<Self, #krate::error::DecodeError> {
                ::core::result::Result::Err(#krate::__private::fallback())
            }
        }

        #[automatically_derived]
        impl #impl_generics #krate::schema::Describe for #ident #ty_generics #where_clause {
            fn describe(_: &mut #krate::schema::SchemaBuilder) -> #krate::schema::Type {
                #krate::schema::Type::Unit
            }
        }
    }
}
