// UNSAFETY: calls thunks with arguments that are bad on purpose.
//! Every thunk and every pointer in what it is handed, from the declarations.

use std::ffi::c_void;
use std::ptr::with_exposed_provenance_mut;

use wddm_ddi::kmt::*;
use wddm_ddi::types::*;

use super::structure::{Member, Pointer, Structure, Word};
use super::structures::STRUCTURES;
use crate::kmt::Kmt;

/// The structure of a name, if the table has it.
pub(super) fn structure_of(name: &str) -> Option<&'static Structure> {
    STRUCTURES.iter().find(|structure| structure.name == name)
}

/// A parameter of a thunk, which fits a word.
trait Parameter {
    fn of(word: usize) -> Self;
}

impl Parameter for u32 {
    fn of(word: usize) -> Self {
        word as Self
    }
}

impl Parameter for D3DKMT_SCHEDULINGPRIORITYCLASS {
    fn of(word: usize) -> Self {
        Self(word as i32)
    }
}

impl<T> Parameter for *mut T {
    fn of(word: usize) -> Self {
        with_exposed_provenance_mut(word)
    }
}

impl<T> Parameter for *const T {
    fn of(word: usize) -> Self {
        with_exposed_provenance_mut::<T>(word).cast_const()
    }
}

/// Most parameters of a thunk.
pub(super) const PARAMETERS: usize = 5;

/// A thunk, called with a word for each parameter.
pub(super) struct Call {
    pub(super) name: &'static str,
    /// Name and type of each parameter.
    pub(super) parameters: &'static [(&'static str, &'static str)],
    pub(super) call: fn(Kmt, [usize; PARAMETERS]) -> NTSTATUS,
}

trait Table: Sized + 'static {
    fn of(kmt: Kmt) -> &'static Self;
}

impl Table for Thunks {
    fn of(kmt: Kmt) -> &'static Self {
        kmt.table()
    }
}

impl Table for FurtherThunks {
    fn of(kmt: Kmt) -> &'static Self {
        kmt.further()
    }
}

macro_rules! calls {
    ($(
        $(#[doc = $about:literal])*
        $table:ident { $( $module:literal { $( $(#[doc = $doc:literal])* $name:ident($($argument:ident: $ty:ty),+); )* } )* }
    )*) => {
        /// Every thunk.
        pub(super) const CALLS: &[Call] = &[$($($(Call {
            name: stringify!($name),
            parameters: &[$((stringify!($argument), stringify!($ty))),+],
            call: |kmt, words| {
                let mut words = words.into_iter();
                let mut next = || words.next().unwrap_or_default();
                // SAFETY: thunks take any arguments: that is what the case finds out.
                unsafe { (<$table as Table>::of(kmt).$name)($(<$ty as Parameter>::of(next())),+) }
            },
        }),*),*),*];
    };
}

wddm_ddi::for_each_thunk!(calls);

/// The type that a parameter points to; `None` for what is no pointer. A kernel handle is none.
pub(super) fn pointee(ty: &str) -> Option<&str> {
    let (kind, to) = ty.strip_prefix('*')?.trim_start().split_once(' ')?;
    ["mut", "const"].contains(&kind).then_some(to)
}

/// Where a pointer is: the parameter itself, a member of what it points to, or a member of what that points to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) parameter: usize,
    pub(super) path: [Option<&'static Member>; 2],
}

impl Place {
    /// False for kernel handles.
    pub(super) fn is_pointer(&self, call: &Call) -> bool {
        match self.path.iter().flatten().last() {
            Some(member) => member.kind == Pointer,
            None => call.parameters.get(self.parameter).is_some_and(|(_, ty)| pointee(ty).is_some()),
        }
    }

    /// True for the pointer to the argument structure.
    pub(super) fn is_whole(&self, call: &Call) -> bool {
        let ty = call.parameters.get(self.parameter).and_then(|(_, ty)| pointee(ty));
        self.path[0].is_none() && ty.is_some_and(|ty| structure_of(ty).is_some())
    }

    /// As a list names it.
    pub(super) fn name(&self, call: &Call) -> String {
        let parameter = call.parameters.get(self.parameter).map_or("", |(name, _)| name);
        let path = self.path.iter().flatten().map(|member| member.path);
        std::iter::once(parameter).chain(path).collect::<Vec<_>>().join("->")
    }
}

fn pointers(structure: &'static Structure) -> impl Iterator<Item = &'static Member> {
    structure.members.iter().filter(|member| member.kind != Word)
}

/// Every pointer of a thunk.
pub(super) fn places(call: &Call) -> Vec<Place> {
    let mut places = Vec::new();
    for (parameter, (_, ty)) in call.parameters.iter().enumerate() {
        let place = |path| Place { parameter, path };
        if *ty == "HANDLE" {
            places.push(place([None, None]));
        }
        let Some(to) = pointee(ty) else { continue };
        places.push(place([None, None]));
        let Some(outer) = structure_of(to) else { continue };
        for member in pointers(outer) {
            places.push(place([Some(member), None]));
            let inner = structure_of(member.ty).into_iter().flat_map(pointers);
            places.extend(inner.map(|inner| place([Some(member), Some(inner)])));
        }
    }
    places
}
