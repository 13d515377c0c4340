//! Compiles the kernels, for the features that run them; nothing without them.

#[cfg(feature = "cuda")]
#[path = "build/cuda.rs"]
mod cuda;
#[cfg(feature = "simt")]
#[path = "build/simt.rs"]
mod simt;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "cuda")]
    cuda::build();
    #[cfg(feature = "simt")]
    simt::build();
}
