//! The rules that attributes must keep.

use std::collections::HashSet;

use proc_macro2::Ident;
use syn::{
    Member, TypePath, TypeReference,
    visit::{self, Visit},
};

use super::model::{Container, Field, FieldKeys, Shape};
use crate::ctxt::Ctxt;

pub(super) fn check(cx: &mut Ctxt, container: &Container) {
    if let Some(repr) = &container.packed {
        cx.error(repr, "a packed type cannot travel: its fields cannot be borrowed");
    }
    for field in container.all_fields() {
        contradictions(cx, field);
        if field.is_plain() {
            Types(cx).visit_type(&field.ty);
        }
    }
    match &container.shape {
        Shape::Struct(fields) => {
            since_order(cx, fields);
            field_names(cx, fields);
        }
        Shape::Enum(variants) => {
            let mut seen = HashSet::new();
            for variant in variants {
                if !seen.insert(&variant.name) {
                    let message = format!("a variant named `{}` is there already", variant.name);
                    match &variant.rename {
                        Some(rename) => cx.error(rename, message),
                        None => cx.error(&variant.ident, message),
                    }
                }
                field_names(cx, &variant.fields);
                for field in &variant.fields {
                    if let Some((key, _)) = &field.keys.since {
                        cx.error(
                            key,
                            "fields of a variant cannot be added later: add a variant, or put the fields into a \
                             struct of their own that is `extensible`",
                        );
                    }
                }
            }
        }
        Shape::Other => {}
    }
}

/// Keys that say things which cannot both be true.
fn contradictions(cx: &mut Ctxt, field: &Field) {
    let FieldKeys { max_len, varint, default, since, skip, rename, with, max_depth } = &field.keys;
    let max_len = max_len.as_ref().map(|(key, _)| key);
    let since = since.as_ref().map(|(key, _)| key);
    let with = with.as_ref().map(|(key, _)| key);
    let max_depth = max_depth.as_ref().map(|(key, _)| key);
    let mut clash = |key: Option<&Ident>, other: &Option<&Ident>, why: &str| {
        if let (Some(key), Some(other)) = (key, other) {
            cx.error(key, format!("`{key}` cannot go with `{other}`: {why}"));
        }
    };
    let skip = skip.as_ref();
    let varint = varint.as_ref();
    for key in [max_len, varint, since, with, max_depth] {
        clash(key, &skip, "a skipped field is not on the wire");
    }
    for key in [max_len, varint, max_depth] {
        clash(key, &with, "the module alone decides how the field is written");
    }
    for key in [max_len, max_depth] {
        clash(key, &varint, "a varint is a number");
    }
    if let (Some(rename), Some(_)) = (rename, skip) {
        cx.error(rename, "`rename` cannot go with `skip`: a skipped field is not on the wire");
    }
    if let (Some((key, _)), None, None) = (default, since, skip) {
        cx.error(
            key,
            "`default` needs `since` or `skip`: it says what a field becomes that is not in the bytes, and all other \
             fields always are",
        );
    }
}

/// Types that never travel, found where they are written.
struct Types<'c>(&'c mut Ctxt);

impl<'ast> Visit<'ast> for Types<'_> {
    fn visit_type_reference(&mut self, ty: &'ast TypeReference) {
        if let Some(lifetime) = ty.lifetime.as_ref().filter(|lifetime| lifetime.ident == "static") {
            self.0.error(
                lifetime,
                "decoded values borrow from the received bytes, which do not live for `'static`: use an owned type, or \
                 give the type a lifetime parameter",
            );
        }
        visit::visit_type_reference(self, ty);
    }

    fn visit_type_path(&mut self, ty: &'ast TypePath) {
        for (name, others) in [("usize", "`u32` or `u64`"), ("isize", "`i32` or `i64`")] {
            if ty.path.is_ident(name) {
                let message = format!("`{name}` has a different size on other machines: use {others}");
                self.0.error(ty, message);
            }
        }
        visit::visit_type_path(self, ty);
    }
}

/// New fields go last, in the order of the versions that added them.
fn since_order(cx: &mut Ctxt, fields: &[Field]) {
    let mut newest: Option<(u32, &Field)> = None;
    for field in fields.iter().filter(|field| !field.is_skipped()) {
        match (&field.keys.since, newest) {
            (Some((key, version)), Some((before, earlier))) if *version < before => {
                let message = format!(
                    "since {version} behind since {before} of `{}`: fields go in the order in which they were added",
                    earlier.name
                );
                cx.error(key, message);
            }
            (None, Some((_, earlier))) => {
                let message = format!(
                    "a field that was there from the start cannot stand behind `{}`, which was added later",
                    earlier.name
                );
                match &field.member {
                    Member::Named(ident) => cx.error(ident, message),
                    Member::Unnamed(_) => cx.error(&field.ty, message),
                }
            }
            (Some((_, version)), _) => newest = Some((*version, field)),
            (None, None) => {}
        }
    }
}

fn field_names(cx: &mut Ctxt, fields: &[Field]) {
    let mut seen = HashSet::new();
    for field in fields.iter().filter(|field| !field.is_skipped()) {
        if !seen.insert(&field.name) {
            let message = format!("a field named `{}` is there already", field.name);
            match (&field.keys.rename, &field.member) {
                (Some(rename), _) => cx.error(rename, message),
                (None, Member::Named(ident)) => cx.error(ident, message),
                (None, Member::Unnamed(_)) => cx.error(&field.ty, message),
            }
        }
    }
}
