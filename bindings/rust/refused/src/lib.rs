//! Programs that `cargo check` refuses are in `src/bin`; a comment `//~` says what the compiler says of its line.
