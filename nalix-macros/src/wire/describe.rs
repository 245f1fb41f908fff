//! `impl Describe`.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;

use super::{
    bounds,
    model::{Container, Field, Form, Shape},
};

pub(super) fn expand(container: &Container) -> TokenStream {
    let Container { ident, krate, lints, name, .. } = container;
    let mut generics = container.generics.clone();
    let plain = container.all_fields().into_iter().filter(|field| field.is_plain()).map(|field| &field.ty);
    bounds::add(&mut generics, plain, &quote!(#krate::schema::Describe));
    let (impl_generics, _, where_clause) = generics.split_for_impl();
    let (_, ty_generics, _) = container.generics.split_for_impl();

    let def = match &container.shape {
        Shape::Struct(list) => {
            let fields = fields(container, list, container.extensible);
            quote!(#krate::schema::Def::structure(#name, #fields))
        }
        Shape::Enum(variants) => {
            let variants = variants.iter().map(|variant| {
                let name = &variant.name;
                let fields = fields(container, &variant.fields, false);
                quote!(#krate::schema::Variant::new(#name, #fields))
            });
            let variants = list(krate, variants);
            let extensible = container.extensible;
            quote!(#krate::schema::Def::enumeration(#name, #variants, #extensible))
        }
        Shape::Other => return TokenStream::new(),
    };
    quote! {
        #[automatically_derived]
        #lints
        impl #impl_generics #krate::schema::Describe for #ident #ty_generics #where_clause {
            fn describe(__schema: &mut #krate::schema::SchemaBuilder) -> #krate::schema::Type {
                let __key = #krate::schema::TypeKey::of::<Self>(
                    ::core::file!(),
                    ::core::line!(),
                    ::core::column!(),
                );
                #krate::schema::SchemaBuilder::named(__schema, __key, |__schema| #def)
            }
        }
    }
}

fn fields(container: &Container, fields: &[Field], extensible: bool) -> TokenStream {
    let krate = &container.krate;
    let entries = fields.iter().filter(|field| !field.is_skipped()).map(|field| entry(krate, field));
    let list = list(krate, entries);
    let mut out = quote!(#krate::schema::Fields::new(#list));
    if extensible {
        out = quote!(#krate::schema::Fields::extensible(#out));
    }
    if container.exact {
        out = quote!(#krate::schema::Fields::exact(#out));
    }
    out
}

fn entry(krate: &TokenStream, field: &Field) -> TokenStream {
    let (name, ty) = (&field.name, &field.ty);
    let ty = match field.form() {
        Form::Plain | Form::Skip => quote!(<#ty as #krate::schema::Describe>::describe(__schema)),
        Form::Varint => {
            quote!(#krate::schema::Type::varint(<#ty as #krate::wire::varint::Varint>::NAME))
        }
        Form::With(module) => {
            let schema = quote!(__schema);
            quote_spanned!(module.span()=> #module::describe(#schema))
        }
    };
    let mut out = quote!(#krate::schema::Field::new(#name, #ty));
    if let Some((_, version)) = &field.keys.since {
        out = quote!(#krate::schema::Field::since(#out, #version));
    }
    if let Some((_, limit)) = &field.keys.max_len {
        out = quote!(#krate::schema::Field::max_len(#out, #krate::__private::as_u64(#limit)));
    }
    out
}

fn list(krate: &TokenStream, items: impl Iterator<Item = TokenStream>) -> TokenStream {
    quote!(#krate::__private::std::vec![#(#items),*])
}
