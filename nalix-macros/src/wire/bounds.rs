//! Which bounds an impl needs: as with serde, the trait itself on every type parameter that a field uses.

use std::collections::HashSet;

use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use syn::{
    Generics, Type, TypePath, parse_quote,
    visit::{self, Visit},
};

/// `generics` with `bound` on each type parameter used in one of `types`, and on associated types of parameters.
///
/// What stands only inside `PhantomData` is not used: it holds no value.
pub(super) fn add<'a>(
    generics: &mut Generics,
    types: impl IntoIterator<Item = &'a Type>,
    bound: &TokenStream,
) {
    let params: HashSet<Ident> = generics.type_params().map(|param| param.ident.clone()).collect();
    if params.is_empty() {
        return;
    }
    let mut uses = Uses { params: &params, used: HashSet::new(), associated: Vec::new() };
    for ty in types {
        uses.visit_type(ty);
    }
    let Uses { used, associated, .. } = uses;
    if used.is_empty() && associated.is_empty() {
        return;
    }
    let used: Vec<Ident> =
        generics.type_params().map(|p| p.ident.clone()).filter(|ident| used.contains(ident)).collect();
    let predicates = &mut generics.make_where_clause().predicates;
    for ident in used {
        predicates.push(parse_quote!(#ident: #bound));
    }
    let mut seen = HashSet::new();
    for ty in associated {
        if seen.insert(ty.to_token_stream().to_string()) {
            predicates.push(parse_quote!(#ty: #bound));
        }
    }
}

struct Uses<'p> {
    params: &'p HashSet<Ident>,
    used: HashSet<Ident>,
    associated: Vec<TypePath>,
}

impl<'ast> Visit<'ast> for Uses<'_> {
    fn visit_type_path(&mut self, ty: &'ast TypePath) {
        let segments = &ty.path.segments;
        if segments.last().is_some_and(|last| last.ident == "PhantomData") {
            return;
        }
        if let Some(qself) = &ty.qself {
            if matches!(&*qself.ty, Type::Path(inner) if inner.path.get_ident().is_some_and(|i| self.params.contains(i)))
            {
                self.associated.push(ty.clone());
                return;
            }
        } else if let Some(first) = segments.first().filter(|first| self.params.contains(&first.ident)) {
            if segments.len() == 1 {
                self.used.insert(first.ident.clone());
            } else {
                self.associated.push(ty.clone());
            }
        }
        visit::visit_type_path(self, ty);
    }
}
