//! Compiles the kernels, for the features that run them.

#[cfg(feature = "simt")]
#[path = "build/simt.rs"]
mod simt;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "simt")]
    simt::build();
}
