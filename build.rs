//! Generates the structs that kernels and host share, and compiles the kernels for the features
//! that run them.

#[path = "build/arguments.rs"]
mod arguments;
#[cfg(feature = "cuda")]
#[path = "build/cuda.rs"]
mod cuda;
#[cfg(feature = "_simt")]
#[path = "build/simt.rs"]
mod simt;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-check-cfg=cfg(lanepack_simt)");
    arguments::build();
    // nvcc uses one core for most of its time: g++ uses the others meanwhile.
    std::thread::scope(|_scope| {
        #[cfg(feature = "cuda")]
        _scope.spawn(cuda::build);
        #[cfg(feature = "_simt")]
        simt::build();
    });
}
