//! A structure that is handed to a thunk, with the kinds of its members.

/// Kind of a member: a pointer, a kernel handle, or any other word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Word,
    Pointer,
    /// A kernel handle.
    Handle,
}

pub(super) use Kind::{Handle, Pointer, Word};

/// A member of a structure, or of a structure in it.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) path: &'static str,
    pub(super) offset: usize,
    pub(super) kind: Kind,
    /// Size of the word, or of what the pointer points to.
    pub(super) size: usize,
    /// Type of the word, or of what the pointer points to.
    pub(super) ty: &'static str,
}

/// A structure that is handed to a thunk.
#[derive(Debug)]
pub(super) struct Structure {
    pub(super) name: &'static str,
    pub(super) size: usize,
    pub(super) members: &'static [Member],
}

macro_rules! structure {
    ($name:ident, [$(($path:literal, $($field:ident).+, $kind:ident, $ty:ty)),*]) => {
        Structure {
            name: stringify!($name),
            size: size_of::<$name>(),
            members: &[$(Member {
                path: $path,
                offset: std::mem::offset_of!($name, $($field).+),
                kind: $kind,
                size: size_of::<$ty>(),
                ty: stringify!($ty),
            }),*],
        }
    };
}
pub(super) use structure;
