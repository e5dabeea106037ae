//! Enums whose variants have names outside of the code.

/// An enum with its variants' names as one table: `ALL` in order, `name()`, and `named()` for the way back.
#[macro_export]
macro_rules! named {
    ($(#[$about:meta])* $vis:vis enum $id:ident { $($(#[$of:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$about])*
        $vis enum $id {
            $($(#[$of])* $variant,)*
        }

        impl $id {
            /// Every variant.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// The name, as it is stored, logged and shown.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The variant of that name.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|variant| variant.name() == name)
            }
        }
    };
}
