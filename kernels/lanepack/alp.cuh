// ALP on the device: vectors of an alp node, and one lane of them as an iterator
// with exceptions patched.
//
//   packed p -> as_float(BINADE | p) - (BINADE - base) = base + p, exactly
//            -> * 10^f * 10^-e, each product rounded once; of 32 bits also / 10^e
//
// Powers of ten are correctly rounded decimal literals; nothing is fused, so the
// results are the CPU's bit for bit.
#pragma once

#include "exceptions.cuh"

namespace lanepack {

// Correctly rounded powers of ten: 10^i, and behind them 10^-i.
LANEPACK_CONSTANT(double[2][19], POWERS_F64) = {
    {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
     1e17, 1e18},
    {1e-0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12, 1e-13, 1e-14,
     1e-15, 1e-16, 1e-17, 1e-18}};
LANEPACK_CONSTANT(float[2][11], POWERS_F32) = {
    {1e0f, 1e1f, 1e2f, 1e3f, 1e4f, 1e5f, 1e6f, 1e7f, 1e8f, 1e9f, 1e10f},
    {1e-0f, 1e-1f, 1e-2f, 1e-3f, 1e-4f, 1e-5f, 1e-6f, 1e-7f, 1e-8f, 1e-9f, 1e-10f}};

// What turns packed integers into floats; T is the unsigned integer as wide as
// the float, and results are the float's bits.
template <class T>
struct AlpStep;

template <>
struct AlpStep<u64> {
    static constexpr u64 BINADE = 0x4330000000000000;  // 2^52
    double bias;
    double power_f;
    double inverse_e;

    AlpStep() = default;
    LANEPACK_DEVICE explicit AlpStep(u64 scale) {
        bias = __dsub_rn(4503599627370496.0, static_cast<double>(static_cast<i64>(scale) >> 10));
        power_f = POWERS_F64[0][scale & 31];
        inverse_e = POWERS_F64[1][scale >> 5 & 31];
    }

    LANEPACK_DEVICE double decode(u64 packed) const {
        const double sum = __longlong_as_double(static_cast<i64>(packed | BINADE));
        return __dmul_rn(__dmul_rn(__dsub_rn(sum, bias), power_f), inverse_e);
    }
    LANEPACK_DEVICE u64 value(u64 packed) const {
        return static_cast<u64>(__double_as_longlong(decode(packed)));
    }
    LANEPACK_DEVICE uint4 piece(uint4 packed) const {
        const u64 x = value(join(packed.x, packed.y));
        const u64 y = value(join(packed.z, packed.w));
        return uint4{static_cast<u32>(x), static_cast<u32>(x >> 32), static_cast<u32>(y),
                     static_cast<u32>(y >> 32)};
    }
};

// Instead of f: integers are divided by 10^e. Of 32 bits only.
constexpr u32 ALP_DIVIDED = 15;

// Integers of up to 24 bits times 10^f times 10^-e, or divided by 10^e. A quotient by the reciprocal
// is correctly rounded after one Newton step (P. Markstein, "Computation of elementary functions on
// the IBM RISC System/6000 processor", 1990; true of all these integers and powers), which changes
// nothing of products, as their divisor and reciprocal are zero.
struct AlpFactors {
    float power_f;
    float inverse_e;
    // 10^e and its reciprocal; zeros for products.
    float divisor;
    float reciprocal;

    AlpFactors() = default;
    LANEPACK_DEVICE AlpFactors(u32 e, u32 f) {
        const bool divides = f == ALP_DIVIDED;
        power_f = POWERS_F32[0][divides ? 0 : f];
        inverse_e = POWERS_F32[1][e];
        divisor = divides ? POWERS_F32[0][e] : 0.0f;
        reciprocal = divides ? inverse_e : 0.0f;
    }

    LANEPACK_DEVICE float of(float integer) const {
        const float product = __fmul_rn(integer, power_f);
        const float about = __fmul_rn(product, inverse_e);
        return __fmaf_rn(__fmaf_rn(-about, divisor, product), reciprocal, about);
    }
};

template <>
struct AlpStep<u32> {
    static constexpr u32 BINADE = 0x4b000000;  // 2^23
    float bias;
    AlpFactors factors;

    AlpStep() = default;
    LANEPACK_DEVICE explicit AlpStep(u32 scale) : factors(scale >> 4 & 15, scale & 15) {
        bias = __fsub_rn(8388608.0f, static_cast<float>(static_cast<i32>(scale) >> 8));
    }

    LANEPACK_DEVICE float decode(u32 packed) const {
        return factors.of(__fsub_rn(__uint_as_float(packed | BINADE), bias));
    }
    LANEPACK_DEVICE u32 value(u32 packed) const { return __float_as_uint(decode(packed)); }
    LANEPACK_DEVICE uint4 piece(uint4 packed) const {
        return uint4{value(packed.x), value(packed.y), value(packed.z), value(packed.w)};
    }
};

// The places of the vectors of an alp node; behind them their locators, if it has any.
template <class T>
LANEPACK_DEVICE const u32* alp_places(const Node& node) {
    return reinterpret_cast<const u32*>(node.buffer[1] + vectors_of(node) * sizeof(T));
}

// What is known of a vector of an alp node, but for where its packed words lie.
template <class T>
struct AlpParameters {
    u32 place;
    T scale;
    u32 locator;

    LANEPACK_DEVICE AlpParameters(const Node& node, u32 vector) {
        const u32* places = alp_places<T>(node);
        place = __ldg(places + vector);
        scale = __ldg(reinterpret_cast<const T*>(node.buffer[1]) + vector);
        locator = node.parameter > 0 ? __ldg(places + vectors_of(node) + vector) : 0;
    }
};

// A vector of an alp node.
template <class T>
struct AlpVector {
    using Step = AlpStep<T>;
    static constexpr u32 MAX_WIDTH = sizeof(T) == 8 ? 52 : 23;

    Packed<T> packed;
    T scale;
    u32 locator;

    LANEPACK_DEVICE AlpVector(const Node& node, u32 vector) {
        const AlpParameters<T> parameters(node, vector);
        scale = parameters.scale;
        locator = parameters.locator;
        packed = packed_at<T>(node, parameters.place);
    }

    LANEPACK_DEVICE Step step() const { return Step(scale); }
};

// A lane of a vector of an alp node, its values as bits; `AlpStep::decode` gives floats
// where no exceptions matter.
template <class T>
using AlpLane = PatchedLane<T, AlpVector<T>>;

}  // namespace lanepack
