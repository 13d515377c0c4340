// What comes before a source that is compiled at run time (src/gpu/simt/object.rs) to an
// object that is loaded into this program: the emulation is the program's, whose linker
// has to export it (build/simt.rs), the table of kernels is the object's own.
#pragma once

#include "simt.h"

const lanepack::simt::Kernel* lanepack::simt::kernels = nullptr;

extern "C" [[gnu::visibility("default")]] const lanepack::simt::Kernel** lanepack_simt_object() {
    return &lanepack::simt::kernels;
}
