// All readers (reader.cuh).
#pragma once

#include "bits.cuh"
#include "delta.cuh"
#include "gcd.cuh"
#include "rle.cuh"
#include "select_codes.cuh"
#include "words.cuh"
