//! Enums whose variants have external names.

/// Declares an enum with a table of its variants' names: `ALL` in order, `name()`, and `named()` for the
/// inverse.
#[macro_export]
macro_rules! named {
    ($(#[$about:meta])* $vis:vis enum $id:ident { $($(#[$of:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$about])*
        $vis enum $id {
            $($(#[$of])* $variant,)*
        }

        impl $id {
            /// All variants.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// Name of the variant in stored data, logs and output.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Finds a variant by its name.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|variant| variant.name() == name)
            }
        }
    };
}
