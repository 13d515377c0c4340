// Arithmetic and order of numbers in scans: as src/scan/cpu/compute.rs has them.
//
// Integers of 64 and 128 bits wrap around; where they are wide enough, which the host knows
// from statistics, they never do. Floats round each operation once.
#pragma once

#include "order.cuh"

namespace lanepack {

LANEPACK_DEVICE i64 negative(i64 x) { return static_cast<i64>(u64{0} - static_cast<u64>(x)); }
LANEPACK_DEVICE i64 plus(i64 x, i64 y) { return static_cast<i64>(static_cast<u64>(x) + static_cast<u64>(y)); }
LANEPACK_DEVICE i64 minus(i64 x, i64 y) { return static_cast<i64>(static_cast<u64>(x) - static_cast<u64>(y)); }
LANEPACK_DEVICE i64 times(i64 x, i64 y) { return static_cast<i64>(static_cast<u64>(x) * static_cast<u64>(y)); }

LANEPACK_DEVICE i128 negative(i128 x) { return static_cast<i128>(u128{0} - static_cast<u128>(x)); }
LANEPACK_DEVICE i128 plus(i128 x, i128 y) { return static_cast<i128>(static_cast<u128>(x) + static_cast<u128>(y)); }
LANEPACK_DEVICE i128 minus(i128 x, i128 y) { return static_cast<i128>(static_cast<u128>(x) - static_cast<u128>(y)); }
LANEPACK_DEVICE i128 times(i128 x, i128 y) { return static_cast<i128>(static_cast<u128>(x) * static_cast<u128>(y)); }

// Rounded towards zero. Rows without a value may have a divisor of zero; the negative of the
// least integer wraps around.
template <class T>
LANEPACK_DEVICE T quotient(T x, T y) {
    if (y == 0) return 0;
    return y == -1 ? negative(x) : x / y;
}
template <class T>
LANEPACK_DEVICE T remainder(T x, T y) {
    return y == 0 || y == -1 ? T{0} : x % y;
}

LANEPACK_DEVICE float negative(float x) { return __uint_as_float(__float_as_uint(x) ^ 0x80000000u); }
LANEPACK_DEVICE float plus(float x, float y) { return __fadd_rn(x, y); }
LANEPACK_DEVICE float minus(float x, float y) { return __fsub_rn(x, y); }
LANEPACK_DEVICE float times(float x, float y) { return __fmul_rn(x, y); }
LANEPACK_DEVICE float quotient(float x, float y) { return __fdiv_rn(x, y); }

LANEPACK_DEVICE double negative(double x) {
    return __longlong_as_double(static_cast<i64>(static_cast<u64>(__double_as_longlong(x)) ^ u64{1} << 63));
}
LANEPACK_DEVICE double plus(double x, double y) { return __dadd_rn(x, y); }
LANEPACK_DEVICE double minus(double x, double y) { return __dsub_rn(x, y); }
LANEPACK_DEVICE double times(double x, double y) { return __dmul_rn(x, y); }
LANEPACK_DEVICE double quotient(double x, double y) { return __ddiv_rn(x, y); }

// Integers as doubles, rounded to the nearest, ties to even.
LANEPACK_DEVICE double to_double(i64 x) { return static_cast<double>(x); }
LANEPACK_DEVICE double to_double(i128 x) {
    const u128 size = x < 0 ? u128{0} - static_cast<u128>(x) : static_cast<u128>(x);
    const u64 high = static_cast<u64>(size >> 64);
    // The 64 highest bits, of which the last also stands for what is below; a double keeps 53.
    const u32 shift = high == 0 ? 0 : 64 - static_cast<u32>(__clzll(static_cast<i64>(high)));
    u64 kept = static_cast<u64>(size >> shift);
    if (kept != 0 && static_cast<u128>(kept) << shift != size) kept |= 1;
    // 2^shift.
    const double power = __longlong_as_double(static_cast<i64>(1023 + shift) << 52);
    const double result = __dmul_rn(static_cast<double>(kept), power);
    return x < 0 ? negative(result) : result;
}

// NaN as the positive quiet one without a payload, of computed numbers: processors differ in
// what they make.
LANEPACK_DEVICE float with_one_nan(float x) { return x == x ? x : __uint_as_float(0x7fc00000u); }
LANEPACK_DEVICE double with_one_nan(double x) {
    return x == x ? x : __longlong_as_double(0x7ff8000000000000);
}

// What decides the order of two numbers: of floats IEEE 754 total order.
LANEPACK_DEVICE i64 order_key(i64 x) { return x; }
LANEPACK_DEVICE i128 order_key(i128 x) { return x; }
LANEPACK_DEVICE u32 order_key(float x) { return ordered(__float_as_uint(x), FLOAT); }
LANEPACK_DEVICE u64 order_key(double x) { return ordered(static_cast<u64>(__double_as_longlong(x)), FLOAT); }

}  // namespace lanepack
