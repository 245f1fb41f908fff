//! `impl Decode`.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{GenericParam, Lifetime, LifetimeParam, spanned::Spanned};

use super::{
    bounds,
    model::{Container, Field, Form, Shape},
};

pub(super) fn expand(container: &Container) -> TokenStream {
    let Container { ident, krate, lints, .. } = container;
    let mut generics = container.generics.clone();
    let fields = container.all_fields();
    let plain = fields.iter().filter(|field| field.is_plain()).map(|field| &field.ty);
    bounds::add(&mut generics, plain, &quote!(#krate::wire::Decode<'__de>));
    let defaulted = fields.iter().filter(|field| field.uses_default()).map(|field| &field.ty);
    bounds::add(&mut generics, defaulted, &quote!(::core::default::Default));
    // What is borrowed is borrowed from the input, which must live as long.
    let mut input = LifetimeParam::new(Lifetime::new("'__de", Span::call_site()));
    input.bounds.extend(generics.lifetimes().map(|param| param.lifetime.clone()));
    generics.params.insert(0, GenericParam::Lifetime(input));
    let (impl_generics, _, where_clause) = generics.split_for_impl();
    let (_, ty_generics, _) = container.generics.split_for_impl();

    let min_size = min_size(container);
    let body = body(container);
    let inline = container.inline();
    quote! {
        #[automatically_derived]
        #lints
        impl #impl_generics #krate::wire::Decode<'__de> for #ident #ty_generics #where_clause {
            const MIN_SIZE: ::core::primitive::usize = #min_size;

            #inline
            fn decode(
                __r: &mut #krate::wire::Reader<'__de>,
            ) -> ::core::result::Result<Self, #krate::error::DecodeError> {
                #body
            }
        }
    }
}

fn min_size(container: &Container) -> TokenStream {
    let krate = &container.krate;
    match &container.shape {
        Shape::Struct(fields) if !container.extensible => {
            let always = fields.iter().filter(|field| field.keys.since.is_none());
            let sizes = always.filter_map(|field| match field.form() {
                Form::Plain => {
                    let ty = &field.ty;
                    Some(quote!(<#ty as #krate::wire::Decode<'__de>>::MIN_SIZE))
                }
                Form::Varint => Some(quote!(1)),
                Form::With(_) | Form::Skip => None,
            });
            quote!(#krate::__private::sum_of_min(&[#(#sizes),*]))
        }
        // The length, or the variant's number.
        _ => quote!(1),
    }
}

fn body(container: &Container) -> TokenStream {
    let krate = &container.krate;
    let body = match &container.shape {
        Shape::Struct(fields) => {
            let fields = fields.iter().map(|field| read_member(krate, field));
            quote!(::core::result::Result::Ok(Self { #(#fields,)* }))
        }
        Shape::Enum(variants) => {
            let name = &container.name;
            let arms = variants.iter().zip(0u64..).map(|(variant, number)| {
                let ident = &variant.ident;
                let fields = variant.fields.iter().map(|field| read_member(krate, field));
                quote!(#number => ::core::result::Result::Ok(Self::#ident { #(#fields,)* }),)
            });
            quote! {
                match #krate::wire::Reader::varint(__r)? {
                    #(#arms)*
                    __found => ::core::result::Result::Err(#krate::__private::unknown_variant(#name, __found)),
                }
            }
        }
        Shape::Other => TokenStream::new(),
    };
    let body = match container.extensible {
        true => quote!(#krate::__private::in_scope(__r, |__r| { #body })),
        false => body,
    };
    match &container.max_depth {
        Some(levels) => quote!(#krate::wire::Reader::with_max_depth(__r, #levels, |__r| { #body })),
        None => body,
    }
}

fn read_member(krate: &TokenStream, field: &Field) -> TokenStream {
    let member = &field.member;
    let value = read_field(krate, field);
    quote!(#member: #value)
}

fn read_field(krate: &TokenStream, field: &Field) -> TokenStream {
    let ty = &field.ty;
    let read = match field.form() {
        Form::Skip => return absent(field),
        Form::Plain => quote!(<#ty as #krate::wire::Decode<'__de>>::decode(__r)),
        Form::Varint => quote! {
            #krate::__private::narrow(
                #krate::wire::Reader::varint(__r),
                <#ty as #krate::wire::varint::Varint>::from_wire,
                <#ty as #krate::wire::varint::Varint>::NAME,
            )
        },
        Form::With(module) => {
            let r = quote!(__r);
            let read = quote_spanned!(module.span()=> #module::decode(#r));
            // Says what is expected, for a module that reads something else.
            quote!({
                let __read: ::core::result::Result<#ty, #krate::error::DecodeError> = #read;
                __read
            })
        }
    };
    let read = match &field.keys.max_len {
        Some((_, limit)) => quote!(#krate::wire::Reader::with_max_len(__r, #limit, |__r| #read)),
        None => read,
    };
    let read = match &field.keys.max_depth {
        Some((_, levels)) => quote!(#krate::wire::Reader::with_max_depth(__r, #levels, |__r| #read)),
        None => read,
    };
    let path = &field.path;
    // A `match` rather than `map_err`: the code that names the field is cold and the same for all types.
    let read = quote! {
        match #read {
            ::core::result::Result::Ok(__value) => __value,
            ::core::result::Result::Err(__error) => {
                return ::core::result::Result::Err(#krate::__private::in_field(__error, #path));
            }
        }
    };
    if field.keys.since.is_none() {
        return read;
    }
    let absent = absent(field);
    quote!(if #krate::wire::Reader::is_empty(__r) { #absent } else { #read })
}

/// What a field becomes that is not in the bytes.
fn absent(field: &Field) -> TokenStream {
    match &field.keys.default {
        Some((_, Some(path))) => quote_spanned!(path.span()=> #path()),
        _ => {
            let ty = &field.ty;
            quote!(<#ty as ::core::default::Default>::default())
        }
    }
}
