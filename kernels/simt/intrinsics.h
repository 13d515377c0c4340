// Integer and floating-point functions that CUDA has built in. Plain IEEE
// operations: the kernels are compiled with -ffp-contract=off.
#pragma once

#include <math.h>

#include "collectives.h"

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(unsigned x) { return x == 0 ? 32 : __builtin_clz(x); }
inline int __clzll(unsigned long long x) { return x == 0 ? 64 : __builtin_clzll(x); }
inline int __ffs(unsigned x) { return __builtin_ffs(static_cast<int>(x)); }
inline int __ffsll(unsigned long long x) { return __builtin_ffsll(static_cast<long long>(x)); }

inline unsigned __brev(unsigned x) {
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
}
inline unsigned long long __brevll(unsigned long long x) {
    return static_cast<unsigned long long>(__brev(static_cast<unsigned>(x))) << 32 |
           __brev(static_cast<unsigned>(x >> 32));
}

// Bytes of y:x, chosen by the nibbles of `selector`; bit 3 of a nibble asks for
// the byte's sign in all bits instead.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const unsigned long long bytes = static_cast<unsigned long long>(y) << 32 | x;
    unsigned result = 0;
    for (unsigned at = 0; at < 4; at++) {
        const unsigned nibble = selector >> 4 * at & 15;
        unsigned byte = static_cast<unsigned>(bytes >> 8 * (nibble & 7)) & 255;
        if ((nibble & 8) != 0) byte = (byte & 128) != 0 ? 255 : 0;
        result |= byte << 8 * at;
    }
    return result;
}

// The upper half of high:low shifted left, the lower half of it shifted right;
// by the shift modulo 32, or with `c` by at most 32.
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) << (shift & 31) >> 32);
}
inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? low : __funnelshift_l(low, high, shift);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) >> (shift & 31));
}
inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? high : __funnelshift_r(low, high, shift);
}

inline unsigned __umulhi(unsigned x, unsigned y) {
    return static_cast<unsigned>(static_cast<unsigned long long>(x) * y >> 32);
}
inline int __mulhi(int x, int y) { return static_cast<int>(static_cast<long long>(x) * y >> 32); }
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return static_cast<unsigned long long>(static_cast<unsigned __int128>(x) * y >> 64);
}
inline long long __mul64hi(long long x, long long y) {
    return static_cast<long long>(static_cast<__int128>(x) * y >> 64);
}

#define LANEPACK_REINTERPRET(name, from, to)                                                                  \
    inline to name(from value) {                                                                              \
        to result;                                                                                            \
        static_assert(sizeof(from) == sizeof(to), "a reinterpretation keeps every bit");                      \
        __builtin_memcpy(&result, &value, sizeof(to));                                                        \
        return result;                                                                                        \
    }
LANEPACK_REINTERPRET(__float_as_uint, float, unsigned)
LANEPACK_REINTERPRET(__float_as_int, float, int)
LANEPACK_REINTERPRET(__uint_as_float, unsigned, float)
LANEPACK_REINTERPRET(__int_as_float, int, float)
LANEPACK_REINTERPRET(__double_as_longlong, double, long long)
LANEPACK_REINTERPRET(__longlong_as_double, long long, double)
#undef LANEPACK_REINTERPRET

inline int __double2hiint(double x) { return static_cast<int>(__double_as_longlong(x) >> 32); }
inline int __double2loint(double x) { return static_cast<int>(__double_as_longlong(x)); }
inline double __hiloint2double(int high, int low) {
    return __longlong_as_double(
        static_cast<long long>(static_cast<unsigned long long>(static_cast<unsigned>(high)) << 32 |
                               static_cast<unsigned>(low)));
}

#define LANEPACK_ROUNDED(prefix, type, root)                                                                  \
    inline type prefix##add_rn(type x, type y) { return x + y; }                                              \
    inline type prefix##sub_rn(type x, type y) { return x - y; }                                              \
    inline type prefix##mul_rn(type x, type y) { return x * y; }                                              \
    inline type prefix##div_rn(type x, type y) { return x / y; }                                              \
    inline type prefix##sqrt_rn(type x) { return root(x); }
LANEPACK_ROUNDED(__d, double, __builtin_sqrt)
LANEPACK_ROUNDED(__f, float, __builtin_sqrtf)
#undef LANEPACK_ROUNDED
inline double __fma_rn(double x, double y, double z) { return __builtin_fma(x, y, z); }
inline float __fmaf_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }

namespace lanepack::simt {

// A float, already rounded, as an integer: clamped to what the integer holds, as
// the GPU's conversion is. NaN gives 0 from 32 to 32 bits, else the top bit alone.
template <class To, class From>
To clamped(From rounded) {
    constexpr int width = 8 * sizeof(To);
    constexpr bool is_signed = static_cast<To>(-1) < 0;
    constexpr To top = static_cast<To>(1ull << (width - 1));
    constexpr To lowest = is_signed ? top : 0;
    constexpr To highest = is_signed ? static_cast<To>(~top) : static_cast<To>(~To{0});
    if (rounded != rounded) return sizeof(To) == 4 && sizeof(From) == 4 ? 0 : top;
    if (rounded >= static_cast<From>(is_signed ? 2.0 : 4.0) * static_cast<From>(1ull << (width - 2))) return highest;
    if (rounded < static_cast<From>(lowest)) return lowest;
    return static_cast<To>(rounded);
}

}  // namespace lanepack::simt

#define LANEPACK_TO_INTEGER(from, from_name, to, to_name)                                                     \
    inline to __##from_name##2##to_name##_rn(from x) { return ::lanepack::simt::clamped<to>(::rint(x)); }       \
    inline to __##from_name##2##to_name##_rz(from x) { return ::lanepack::simt::clamped<to>(::trunc(x)); }      \
    inline to __##from_name##2##to_name##_rd(from x) { return ::lanepack::simt::clamped<to>(::floor(x)); }      \
    inline to __##from_name##2##to_name##_ru(from x) { return ::lanepack::simt::clamped<to>(::ceil(x)); }       \
    inline from __##to_name##2##from_name##_rn(to x) { return static_cast<from>(x); }
#define LANEPACK_TO_INTEGERS(from, from_name)                                                                 \
    LANEPACK_TO_INTEGER(from, from_name, int, int)                                                            \
    LANEPACK_TO_INTEGER(from, from_name, unsigned, uint)                                                      \
    LANEPACK_TO_INTEGER(from, from_name, long long, ll)                                                       \
    LANEPACK_TO_INTEGER(from, from_name, unsigned long long, ull)
LANEPACK_TO_INTEGERS(float, float)
LANEPACK_TO_INTEGERS(double, double)
#undef LANEPACK_TO_INTEGER
#undef LANEPACK_TO_INTEGERS
inline float __double2float_rn(double x) { return static_cast<float>(x); }

// The pairs that CUDA has overloads for; mixed integers compare as unsigned.
#define LANEPACK_MINMAX(x_type, y_type, type)                                                                 \
    constexpr type min(x_type x, y_type y) {                                                                  \
        return static_cast<type>(x) < static_cast<type>(y) ? static_cast<type>(x) : static_cast<type>(y);     \
    }                                                                                                         \
    constexpr type max(x_type x, y_type y) {                                                                  \
        return static_cast<type>(x) > static_cast<type>(y) ? static_cast<type>(x) : static_cast<type>(y);     \
    }
#define LANEPACK_MINMAX_MIXED(integer)                                                                        \
    LANEPACK_MINMAX(integer, integer, integer)                                                                \
    LANEPACK_MINMAX(unsigned integer, unsigned integer, unsigned integer)                                     \
    LANEPACK_MINMAX(integer, unsigned integer, unsigned integer)                                              \
    LANEPACK_MINMAX(unsigned integer, integer, unsigned integer)
LANEPACK_MINMAX_MIXED(int)
LANEPACK_MINMAX_MIXED(long)
LANEPACK_MINMAX_MIXED(long long)
#undef LANEPACK_MINMAX
#undef LANEPACK_MINMAX_MIXED
inline float min(float x, float y) { return __builtin_fminf(x, y); }
inline float max(float x, float y) { return __builtin_fmaxf(x, y); }
inline double min(double x, double y) { return __builtin_fmin(x, y); }
inline double max(double x, double y) { return __builtin_fmax(x, y); }

// nvcc believes this; here it is checked.
inline void __builtin_assume(bool condition, LANEPACK_SITE) {
    if (!condition) ::lanepack::simt::fail("__builtin_assume of what is not so", site);
}
