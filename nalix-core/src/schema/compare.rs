//! Whether two contracts that are not equal still fit, by the rules of growth.

use std::collections::{HashSet, VecDeque};

use thiserror::Error;

use super::{Contract, Def, Field, Fields, Schema, Type, Variant, print::type_name};

/// Checks that peers with these contracts understand each other.
///
/// Equal layouts do. Beyond that, at top level and in `extensible` types one side may have further fields at the end, all
/// of them marked `since` and the struct not `exact`, and one side of an enum may have further variants at the end: a
/// value of such a variant is refused by the side that does not know it, and that packet only.
///
/// # Errors
/// The first [`Difference`] that does not fit.
pub fn compare(ours: &Contract, theirs: &Contract) -> Result<(), Difference> {
    Comparison::new("packet", &ours.packet, &theirs.packet).run()?;
    compare_optional("reply", ours.reply.as_ref(), theirs.reply.as_ref())?;
    compare_optional("error", ours.error.as_ref(), theirs.error.as_ref())?;
    compare_optional("stream", ours.item.as_ref(), theirs.item.as_ref())?;
    compare_optional("upload", ours.chunk.as_ref(), theirs.chunk.as_ref())
}

/// What keeps two contracts from fitting.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{path}: {what}")]
#[non_exhaustive]
pub struct Difference {
    /// Where it is: `packet`, `reply`, `error`, `stream` or `upload`, then the names of fields and variants down to it.
    pub path: String,
    /// What is here and what is there.
    pub what: String,
}

fn compare_optional(
    what: &'static str,
    ours: Option<&Schema>,
    theirs: Option<&Schema>,
) -> Result<(), Difference> {
    let missing = |what| Err(Difference { path: "contract".to_owned(), what });
    match (ours, theirs) {
        (Some(ours), Some(theirs)) => Comparison::new(what, ours, theirs).run(),
        (None, None) => Ok(()),
        (Some(ours), None) => missing(format!("{what} is {} here, none there", type_name(ours, &ours.root))),
        (None, Some(theirs)) => {
            missing(format!("{what} is none here, {} there", type_name(theirs, &theirs.root)))
        }
    }
}

/// One walk through two schemas at once.
struct Comparison<'a> {
    ours: &'a Schema,
    theirs: &'a Schema,
    places: Vec<Place>,
    /// Pairs of named types that have been met, and whether at top level. Ends recursive types.
    met: HashSet<Pair>,
    /// Those of them still to be compared. A queue and not recursion: a peer may send long chains of named types.
    queue: VecDeque<(Pair, PlaceId)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Pair {
    ours: usize,
    theirs: usize,
    top: bool,
}

/// A place is its parent's and one step: the text of a path is put together only when it is needed.
struct Place {
    parent: Option<PlaceId>,
    step: String,
}

type PlaceId = usize;

impl<'a> Comparison<'a> {
    fn new(what: &'static str, ours: &'a Schema, theirs: &'a Schema) -> Self {
        let places = vec![Place { parent: None, step: what.to_owned() }];
        Self { ours, theirs, places, met: HashSet::new(), queue: VecDeque::new() }
    }

    fn run(mut self) -> Result<(), Difference> {
        self.types(&self.ours.root, &self.theirs.root, 0, true)?;
        while let Some((pair, at)) = self.queue.pop_front() {
            self.defs(pair, at)?;
        }
        Ok(())
    }

    fn types(&mut self, ours: &'a Type, theirs: &'a Type, at: PlaceId, top: bool) -> Result<(), Difference> {
        match (ours, theirs) {
            (Type::Named(a), Type::Named(b)) => {
                let pair = Pair { ours: *a, theirs: *b, top };
                if self.met.insert(pair) {
                    self.queue.push_back((pair, at));
                }
                Ok(())
            }
            (Type::Option(a), Type::Option(b)) => self.types(a, b, at, false),
            (Type::Seq(a), Type::Seq(b)) | (Type::Set(a), Type::Set(b)) => self.items(a, b, at),
            (Type::Array(a, n), Type::Array(b, m)) if n == m => self.items(a, b, at),
            (Type::Map(key, value), Type::Map(their_key, their_value)) => {
                let of_keys = self.step(at, "[key]".to_owned());
                self.types(key, their_key, of_keys, false)?;
                self.items(value, their_value, at)
            }
            (Type::Tuple(a), Type::Tuple(b)) if a.len() == b.len() => {
                for (i, (a, b)) in a.iter().zip(b).enumerate() {
                    let item = self.step(at, format!(".{i}"));
                    self.types(a, b, item, false)?;
                }
                Ok(())
            }
            (a, b) if a == b => Ok(()),
            (a, b) => {
                let (here, there) = (type_name(self.ours, a), type_name(self.theirs, b));
                Err(self.difference(at, format!("{here} here, {there} there")))
            }
        }
    }

    fn items(&mut self, ours: &'a Type, theirs: &'a Type, at: PlaceId) -> Result<(), Difference> {
        let item = self.step(at, "[]".to_owned());
        self.types(ours, theirs, item, false)
    }

    fn defs(&mut self, pair: Pair, at: PlaceId) -> Result<(), Difference> {
        match (self.ours.defs.get(pair.ours), self.theirs.defs.get(pair.theirs)) {
            (Some(Def::Struct { fields: a, .. }), Some(Def::Struct { fields: b, .. })) => {
                self.fields(a, b, at, pair.top)
            }
            (
                Some(Def::Enum { variants: a, extensible, .. }),
                Some(Def::Enum { variants: b, extensible: theirs, .. }),
            ) => {
                self.same_extensible(*extensible, *theirs, at)?;
                self.variants(a, b, at)
            }
            (a, b) => Err(self.difference(at, format!("{} here, {} there", kind(a), kind(b)))),
        }
    }

    fn variants(
        &mut self,
        ours: &'a [Variant],
        theirs: &'a [Variant],
        at: PlaceId,
    ) -> Result<(), Difference> {
        for (i, (a, b)) in ours.iter().zip(theirs).enumerate() {
            if a.name != b.name {
                return Err(self.different_name("variant", i, &a.name, &b.name, at));
            }
            let variant = self.step(at, format!(".{}", a.name.escape_debug()));
            self.fields(&a.fields, &b.fields, variant, false)?;
        }
        Ok(())
    }

    fn fields(
        &mut self,
        ours: &'a Fields,
        theirs: &'a Fields,
        at: PlaceId,
        top: bool,
    ) -> Result<(), Difference> {
        self.same_extensible(ours.extensible, theirs.extensible, at)?;
        for (i, (a, b)) in ours.list.iter().zip(&theirs.list).enumerate() {
            if a.name != b.name {
                return Err(self.different_name("field", i + 1, &a.name, &b.name, at));
            }
            let field = self.step(at, format!(".{}", a.name.escape_debug()));
            self.types(&a.ty, &b.ty, field, false)?;
        }
        let common = ours.list.len().min(theirs.list.len());
        let (extra, side) = match ours.list.len() > common {
            true => (&ours.list[common..], "there"),
            false => (&theirs.list[common..], "here"),
        };
        let may_grow = match (ours.extensible, top) {
            (true, _) => Ok(()),
            (false, true) if ours.exact || theirs.exact => Err("and the packet is exact"),
            (false, true) => Ok(()),
            (false, false) => Err("and the type is neither at top level nor extensible"),
        };
        match (extra, may_grow) {
            ([], _) => Ok(()),
            ([first, ..], Err(why)) => Err(self.missing(first, side, why, at)),
            (extra, Ok(())) => match extra.iter().find(|field| field.since <= 1) {
                None => Ok(()),
                Some(field) => Err(self.missing(field, side, "and has no `since`", at)),
            },
        }
    }

    fn same_extensible(&self, ours: bool, theirs: bool, at: PlaceId) -> Result<(), Difference> {
        match (ours, theirs) {
            (true, false) => Err(self.difference(at, "extensible here, not there".to_owned())),
            (false, true) => Err(self.difference(at, "extensible there, not here".to_owned())),
            _ => Ok(()),
        }
    }

    #[must_use]
    fn step(&mut self, parent: PlaceId, step: String) -> PlaceId {
        self.places.push(Place { parent: Some(parent), step });
        self.places.len() - 1
    }

    fn different_name(&self, what: &str, number: usize, ours: &str, theirs: &str, at: PlaceId) -> Difference {
        let (ours, theirs) = (ours.escape_debug(), theirs.escape_debug());
        self.difference(at, format!("{what} {number} is `{ours}` here and `{theirs}` there"))
    }

    fn missing(&self, field: &Field, side: &str, why: &str, at: PlaceId) -> Difference {
        self.difference(at, format!("field `{}` is missing {side} {why}", field.name.escape_debug()))
    }

    fn difference(&self, at: PlaceId, what: String) -> Difference {
        let mut steps = Vec::new();
        let mut next = Some(at);
        while let Some(place) = next {
            steps.push(self.places[place].step.as_str());
            next = self.places[place].parent;
        }
        steps.reverse();
        Difference { path: steps.concat(), what }
    }
}

fn kind(def: Option<&Def>) -> &'static str {
    match def {
        Some(Def::Struct { .. }) => "a struct",
        Some(Def::Enum { .. }) => "an enum",
        None => "nothing",
    }
}
