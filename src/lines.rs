//! Which cache lines the fields of a type lie in, for the tests that hold a layout.
//!
//! A line that one thread writes has to come from its core to each other one that uses it. So the
//! fields that a call writes lie together, apart from those that all threads only read. The
//! compiler chooses the order of fields, and a new field moves the others, so a test beside each
//! such type has a table of its lines.

/// The bytes that move at once from one core to another.
pub(crate) const LINE: usize = 64;

/// The name of each field, with the number of its first and of its last line within the type.
macro_rules! lines {
    ($type:ty: $($field:ident),+) => {
        [$({
            let size = crate::lines::size_of_field(|value: &$type| &value.$field);
            let first = std::mem::offset_of!($type, $field);
            let last = first + std::cmp::max(size, 1) - 1;
            (stringify!($field), [first / crate::lines::LINE, last / crate::lines::LINE])
        }),+]
    };
}
pub(crate) use lines;

pub(crate) fn size_of_field<T, F>(_: fn(&T) -> &F) -> usize {
    size_of::<F>()
}
