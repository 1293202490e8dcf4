//! Builds the C sources of the core, or finds the installed library (feature `system`).

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_SYSTEM").is_some() {
        system();
    } else {
        vendored();
    }
}

fn probe(name: &str) {
    let version = env::var("CARGO_PKG_VERSION").unwrap();
    if let Err(error) = pkg_config::Config::new().atleast_version(&version).probe(name) {
        panic!("tslab-sys: the feature `system` needs {name} {version} by pkg-config (make install): {error}");
    }
}

fn system() {
    probe("tslab");
    if env::var_os("CARGO_FEATURE_MALLOC").is_some() {
        probe("tslab-malloc");
        // Rust code calls no function of it: without this the linker would leave the library out.
        println!("cargo:rustc-link-arg=-Wl,--no-as-needed");
    }
    if env::var_os("CARGO_FEATURE_HTTP").is_some() {
        probe("tslab-http");
    }
}

/// All files with this ending below a folder, in the order of their names.
fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            files(&path, ending, found);
        } else if path.extension().is_some_and(|e| e == ending) {
            found.push(path);
        }
    }
}

fn vendored() {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap()).join("vendor");
    let (include, core) = (root.join("include"), root.join("src/core"));
    println!("cargo:rerun-if-changed={}", include.display());
    println!("cargo:rerun-if-changed={}", core.display());
    let others = ["src/observe", "src/advice"].map(|folder| root.join(folder));
    for folder in &others {
        println!("cargo:rerun-if-changed={}", folder.display());
    }

    // The name of the build, by which the project's C libraries know that they belong together: no other is built here.
    let generated = PathBuf::from(env::var("OUT_DIR").unwrap()).join("generated");
    fs::create_dir_all(&generated).unwrap();
    let name = format!("#define TSLAB_BUILD \"{} cargo\"\n", env::var("CARGO_PKG_VERSION").unwrap());
    fs::write(generated.join("tslab_build.h"), name).unwrap();

    let mut sources = Vec::new();
    files(&core, "c", &mut sources);
    for folder in &others {
        files(folder, "c", &mut sources);
    }
    assert!(!sources.is_empty(), "tslab-sys: no C sources in {}", core.display());
    let mut build = cc::Build::new();
    build
        .files(&sources)
        .include(&include)
        .include(&core)
        .include(root.join("src"))
        .include(&generated)
        .std("c11")
        .pic(true);
    // Call stacks go through the library also where C code has no tables by default.
    build.flag("-funwind-tables").flag_if_supported("-fno-semantic-interposition").flag("-fvisibility=hidden");
    if env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|e| e == "gnu") {
        build.flag("-ftls-model=initial-exec"); // glibc keeps room for it; others do not
    }
    if env::var("OPT_LEVEL").is_ok_and(|o| o == "0") {
        build.opt_level(1); // the fast paths are inline functions, and without any optimization they are not
    }
    build.warnings(true).compile("tslab");
    println!("cargo:rustc-link-lib=pthread");
    println!("cargo:include={}", include.display());
}
