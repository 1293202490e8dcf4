//! Writes tslab-sys/src/bindings.rs from the headers. `--check` compares instead, and fails if they differ.

use std::path::Path;
use std::process::exit;

fn main() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let include = here.join("../../../include");
    let output = here.join("../tslab-sys/src/bindings.rs");
    let text = bindgen::Builder::default()
        .header_contents(
            "all.h",
            "#include <tslab/tslab.h>\n#include <tslab/stats.h>\n#include <tslab/malloc.h>\n#include <tslab/http.h>\n",
        )
        .clang_arg(format!("-I{}", include.display()))
        .use_core()
        .allowlist_item(
            "(slab|epoch|alloc_obj|free_obj|get_perf|Slab|Epoch|EPOCH|SLAB|TSLAB_VERSION|PerfCounters|ThreadStats).*",
        )
        .blocklist_function(".*vprintf") // va_list has no stable type in Rust
        .blocklist_type("va_list|__builtin_va_list|__va_list_tag")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .generate_comments(false)
        .rust_target(bindgen::RustTarget::stable(78, 0).unwrap_or_else(|_| panic!("no such Rust")))
        .generate()
        .expect("the headers are C")
        .to_string();
    let text = format!("// Generated from include/tslab/*.h by `cargo run -p generate`: do not edit.\n{text}");
    match std::env::args().nth(1).as_deref() {
        Some("--check") => {
            if std::fs::read_to_string(&output).ok().as_deref() != Some(text.as_str()) {
                eprintln!("{}: not what the headers say; run `cargo run -p generate`", output.display());
                exit(1);
            }
            println!("tslab-sys/src/bindings.rs is what the headers say");
        }
        None => std::fs::write(&output, text).expect("bindings.rs"),
        Some(other) => {
            eprintln!("generate: unknown argument '{other}': --check, or none");
            exit(2);
        }
    }
}
