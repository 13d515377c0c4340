//! What the features need to be built; nothing without them.

#[cfg(feature = "cuda")]
#[path = "build/cuda.rs"]
mod cuda;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "cuda")]
    cuda::build();
}
