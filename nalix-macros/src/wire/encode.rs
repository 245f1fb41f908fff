//! `impl Encode`.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;

use super::{
    bounds,
    model::{Container, Field, Form, Shape, Variant},
};
use crate::span;

pub(super) fn expand(container: &Container) -> TokenStream {
    let Container { ident, krate, lints, .. } = container;
    let mut generics = container.generics.clone();
    let plain = container.all_fields().into_iter().filter(|field| field.is_plain()).map(|field| &field.ty);
    bounds::add(&mut generics, plain, &quote!(#krate::wire::Encode));
    let (impl_generics, _, where_clause) = generics.split_for_impl();
    let (_, ty_generics, _) = container.generics.split_for_impl();

    let fixed_size = fixed_size(container);
    let size_hint = size_hint(container);
    let body = body(container);
    let inline = container.inline();
    quote! {
        #[automatically_derived]
        #lints
        impl #impl_generics #krate::wire::Encode for #ident #ty_generics #where_clause {
            const FIXED_SIZE: ::core::option::Option<::core::primitive::usize> = #fixed_size;

            #inline
            fn encode(&self, __w: &mut #krate::wire::Writer<'_>) {
                #body
            }

            #inline
            fn size_hint(&self) -> ::core::primitive::usize {
                #size_hint
            }
        }
    }
}

/// The pattern that binds a variant's fields, by reference.
pub(super) fn pattern(variant: &Variant) -> TokenStream {
    let ident = &variant.ident;
    let fields = variant.fields.iter().enumerate().filter(|(_, field)| !field.is_skipped());
    let bindings = fields.map(|(i, field)| {
        let member = &field.member;
        let name = binding(i);
        quote!(#member: #name)
    });
    let rest = variant.fields.iter().any(Field::is_skipped).then(|| quote!(..));
    quote!(Self::#ident { #(#bindings,)* #rest })
}

fn binding(i: usize) -> Ident {
    format_ident!("__field{i}")
}

fn fixed_size(container: &Container) -> TokenStream {
    let krate = &container.krate;
    match &container.shape {
        Shape::Struct(fields) if !container.extensible => {
            let sizes = fields.iter().filter(|field| !field.is_skipped()).map(|field| match field.form() {
                Form::Plain => {
                    let ty = &field.ty;
                    quote!(<#ty as #krate::wire::Encode>::FIXED_SIZE)
                }
                _ => quote!(::core::option::Option::None),
            });
            quote!(#krate::__private::sum_of_fixed(&[#(#sizes),*]))
        }
        // A number below 128 is one byte.
        Shape::Enum(variants)
            if !container.extensible
                && (1..=128).contains(&variants.len())
                && variants.iter().all(|v| v.fields.iter().all(Field::is_skipped)) =>
        {
            quote!(::core::option::Option::Some(1))
        }
        _ => quote!(::core::option::Option::None),
    }
}

fn body(container: &Container) -> TokenStream {
    let krate = &container.krate;
    let body = match &container.shape {
        Shape::Struct(fields) => {
            let reserve = (fields.len() > 1).then(|| quote!(#krate::__private::reserve::<Self>(__w);));
            let fields = fields.iter().map(|field| {
                let member = &field.member;
                write_field(krate, field, &quote!(&self.#member), &quote!(self.#member))
            });
            quote!(#reserve #(#fields)*)
        }
        Shape::Enum(variants) if variants.is_empty() => return quote!(match *self {}),
        Shape::Enum(variants) => {
            let arms = variants.iter().zip(0u64..).map(|(variant, number)| {
                let pattern = pattern(variant);
                let fields = variant.fields.iter().enumerate().map(|(i, field)| {
                    let name = binding(i);
                    write_field(krate, field, &quote!(#name), &quote!(*#name))
                });
                quote! {
                    #pattern => {
                        #krate::wire::Writer::put_varint(__w, #number);
                        #(#fields)*
                    }
                }
            });
            quote!(match self { #(#arms)* })
        }
        Shape::Other => TokenStream::new(),
    };
    let body = match container.extensible {
        true => quote!(#krate::wire::Writer::scope(__w, |__w| { #body })),
        false => body,
    };
    match &container.max_depth {
        Some(levels) => quote!(#krate::wire::Writer::with_max_depth(__w, #levels, |__w| { #body })),
        None => body,
    }
}

/// Writes one field; `value` is a reference to it, `place` the field itself.
fn write_field(krate: &TokenStream, field: &Field, value: &TokenStream, place: &TokenStream) -> TokenStream {
    let ty = &field.ty;
    let write = match field.form() {
        Form::Skip => return TokenStream::new(),
        Form::Plain => quote!(<#ty as #krate::wire::Encode>::encode(#value, __w)),
        Form::Varint => quote! {
            #krate::wire::Writer::put_varint(__w, <#ty as #krate::wire::varint::Varint>::to_wire(#place))
        },
        Form::With(module) => {
            let (value, w) = (span::at(span::place(module.span()), value.clone()), quote!(__w));
            quote_spanned!(module.span()=> #module::encode(#value, #w))
        }
    };
    let check = field.keys.max_len.as_ref().map(|(_, limit)| {
        let path = &field.path;
        quote! {
            #krate::wire::Writer::check_len(__w, #path, <#ty as #krate::wire::Len>::wire_len(#value), #limit);
        }
    });
    match &field.keys.max_depth {
        Some((_, levels)) => quote! {
            #check
            #krate::wire::Writer::with_max_depth(__w, #levels, |__w| #write);
        },
        None => quote!(#check #write;),
    }
}

fn size_hint(container: &Container) -> TokenStream {
    let krate = &container.krate;
    match &container.shape {
        Shape::Struct(fields) => sum(fields.iter().filter_map(|field| {
            let member = &field.member;
            hint(krate, field, &quote!(&self.#member))
        })),
        Shape::Enum(variants) if variants.is_empty() => quote!(match *self {}),
        Shape::Enum(variants) => {
            let arms = variants.iter().map(|variant| {
                let pattern = pattern(variant);
                let fields = variant.fields.iter().enumerate().filter_map(|(i, field)| {
                    let name = binding(i);
                    hint(krate, field, &quote!(#name))
                });
                let sum = sum(std::iter::once(quote!(1)).chain(fields));
                quote!(#pattern => #sum,)
            });
            quote!(match self { #(#arms)* })
        }
        Shape::Other => quote!(0),
    }
}

fn hint(krate: &TokenStream, field: &Field, value: &TokenStream) -> Option<TokenStream> {
    let ty = &field.ty;
    match field.form() {
        Form::Skip => None,
        Form::Plain => Some(quote!(<#ty as #krate::wire::Encode>::size_hint(#value))),
        Form::Varint => Some(quote!(3)),
        Form::With(_) => Some(quote!(16)),
    }
}

fn sum(parts: impl Iterator<Item = TokenStream>) -> TokenStream {
    let parts: Vec<_> = parts.collect();
    match parts.is_empty() {
        true => quote!(0),
        false => quote!(#(#parts)+*),
    }
}
