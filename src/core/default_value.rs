//! Fields that are not stored while they have their default value.

/// Returns whether a value is the default of its type.
///
/// Fields that are serialised with `skip_serializing_if = "is_default"` can be added later without a change of any key or
/// byte.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
