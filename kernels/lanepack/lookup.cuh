// Key tables of lookups, as src/scan/lookup/keys.rs makes them: whether a key is there, and the entry
// of its row, which is made of the codes of the lookup's columns.
//
//   dense    bit `key - least` is set for each key, entry `key - least` is its own
//   hashed   open addressing with linear probing, some slots are empty
//
// Bits of a million keys take 125 kB, which stay in the first-level cache: an NVIDIA H100 looks up 750
// billion keys/s in these, 143 billion entries/s of as many keys. So entries are read only for rows
// that pass all tests. All functions take any key; those that a table does not have get entry 0.
#pragma once

#include "base.cuh"

namespace lanepack {

// Shared with the host.
struct DenseKeys {
    const u32* bits;
    const u8* entries;
    u64 least;
    // Bits.
    u64 span;
};

// Shared with the host.
struct HashedKeys {
    const u64* slots;
    const u8* entries;
    // Holds no key.
    u64 empty;
    u64 seed;
    u64 mask;
    u64 shift;
};

// Places are computed in words of type `Place`: u32 where keys of the scan have no more bits, all keys
// of the lookup are among these, and there are fewer than 2^32 bits.
template <class Place>
struct DenseLookup : DenseKeys {
    // Places outside become that of the bit behind the last one, which is never set: no branch.
    LANEPACK_DEVICE bool find(i64 key, u64& slot) const {
        const Place own = static_cast<Place>(key) - static_cast<Place>(least);
        const Place end = static_cast<Place>(span);
        const Place place = own < end ? own : end;
        slot = place;
        return (__ldg(bits + place / 32) >> (place % 32) & 1) != 0;
    }

    // Whether no key from `low` to `high` can be there.
    LANEPACK_DEVICE bool excludes(i64 low, i64 high) const {
        const i64 first = static_cast<i64>(least);
        return high < first || (low >= first && static_cast<u64>(low) - least >= span);
    }
};

struct HashedLookup : HashedKeys {
    LANEPACK_DEVICE bool find(i64 key, u64& slot) const {
        // The finalizer of MurmurHash3, with a seed.
        u64 hash = static_cast<u64>(key) ^ seed;
        hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccd;
        hash = (hash ^ hash >> 33) * 0xc4ceb9fe1a85ec53;
        slot = hash >> shift;
        u64 found = __ldg(slots + slot);
#pragma unroll 1
        while (found != static_cast<u64>(key) && found != empty) {
            slot = (slot + 1) & mask;
            found = __ldg(slots + slot);
        }
        return found != empty;
    }

    LANEPACK_DEVICE bool excludes(i64, i64) const { return false; }
};

// Whether a lookup has a key.
template <class Keys>
LANEPACK_DEVICE bool has_key(const Keys& keys, i64 key) {
    u64 slot;
    return keys.find(key, slot);
}

// The entry of a key, of type `Entry`; whether there is one.
template <class Entry, class Keys>
LANEPACK_DEVICE bool find_entry(const Keys& keys, i64 key, u64& entry) {
    u64 slot;
    const bool has = keys.find(key, slot);
    entry = has ? __ldg(reinterpret_cast<const Entry*>(keys.entries) + slot) : 0;
    return has;
}
template <class Entry, class Keys>
LANEPACK_DEVICE u64 entry_of(const Keys& keys, i64 key) {
    u64 entry;
    find_entry<Entry>(keys, key, entry);
    return entry;
}

// Where the code of a column is in entries.
struct CodeField {
    // Its first bit, and all of its bits at the place of bit 0.
    u64 shift;
    u64 mask;

    LANEPACK_DEVICE u32 of(u64 entry) const { return static_cast<u32>(entry >> shift & mask); }
};

// Whether a code is in a set, a bit for each.
LANEPACK_DEVICE bool has_code(const u32* set, u32 code) { return (__ldg(set + code / 32) >> (code % 32) & 1) != 0; }

// The memory of a dense table that is being made.
// Shared with the host.
struct LookupMemory {
    u32* bits;
    u8* entries;
    u64 least;
    u64 span;
    // The number of rows, and the least place of a key that comes twice.
    u64* status;
    // For each code of each column whether a row has it.
    u8* used;
};

// Adds rows to a table, in any order.
struct LookupBuilder : LookupMemory {
    // Adds the key of a row; `outside` is set if it is not among those that the table has room for.
    LANEPACK_DEVICE bool add(i64 key, bool& outside) const {
        const u64 place = static_cast<u64>(key) - least;
        if (place >= span) {
            outside = true;
            return false;
        }
        const u32 bit = 1u << place % 32;
        if ((atomicOr(bits + place / 32, bit) & bit) != 0) atomicMin(status + 1, place);
        return true;
    }
    // The same with its entry.
    template <class Entry>
    LANEPACK_DEVICE void add(i64 key, u64 entry, bool& outside) const {
        if (!add(key, outside)) return;
        reinterpret_cast<Entry*>(entries)[static_cast<u64>(key) - least] = static_cast<Entry>(entry);
    }

    // Notes a code of the column whose codes begin with number `first`.
    LANEPACK_DEVICE void mark(u64 first, u32 code) const {
        // Others store the same.
        if (used[first + code] == 0) used[first + code] = 1;
    }

    // Counts the rows of a warp, whose threads have `own` each. All threads of a warp.
    LANEPACK_DEVICE void count(u32 own) const {
        const u32 all = __reduce_add_sync(FULL, own);
        if (threadIdx.x % WARP == 0 && all != 0) atomicAdd(status, static_cast<u64>(all));
    }
};

}  // namespace lanepack
