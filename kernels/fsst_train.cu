// FSST's symbol tables trained on the device, to the byte what src/encoding/fsst/train.rs
// makes of the same pieces; its header has the algorithm and why.
//
//   fsst_train_count       a thread parses a piece: units, and pairs of units
//   fsst_train_candidates  pairs and units that are frequent enough, what each would
//                          save, added up by symbol; pairs are zeroed again
//   fsst_train_grow        the next table: the 255 of most gain, one per slot
//   or fsst_train_refine   some symbols that cost little to lose replaced
//
// These in turn for each generation. Before: trained tables are zeros but for fsst_pick's
// number of pieces, trainers are zeros.
//
// Many tables are trained at a time, so that a column takes as long as one table does.
// Nothing depends on the order in which threads come: counts and gains are sums, and
// candidates are ordered by gain, then by key. A pair is counted where it stands in a
// matrix of 1 MB, candidates are added up in a hash table, both in the second-level cache.
//
// Figures and what was tried: docs/experiments.md.
#include "encode_arguments.cuh"
#include "fsst_parse.cuh"
#include "launch.cuh"

namespace lanepack {

// As in train.rs.
constexpr u32 WHOLE_SHARE = 128;
constexpr u32 MOST_SYMBOLS = 255;
constexpr u32 BYTES_PER_OCCURRENCE = 12288;
constexpr u32 LEAST_COUNT = 2;
constexpr u32 MOST_PAIRS = 65535;
constexpr u32 SINGLE_WEIGHT = 8;
constexpr u32 MOST_SWAPS = 64;
constexpr u32 MOST_ADDITIONS = 128;
constexpr u32 VACANT_BYTE = 158;
constexpr u64 VACANT = u64{VACANT_BYTE} * 0x0101010101010101;
constexpr u64 HASH = 0x9E3779B97F4A7C15;
constexpr u32 KEY_MARK = 0xF8;

struct Symbol {
    u64 word;
    u32 length;
};

LANEPACK_DEVICE Symbol symbol_of_key(u64 key) {
    const u32 top = static_cast<u32>(key >> 56);
    const u64 word = key << 8 >> 8;
    if (top > KEY_MARK && word >> 8 * (top - KEY_MARK) == 0) return {word, top - KEY_MARK};
    return {key, 8};
}

// The key of a symbol; `VACANT` if it has none.
LANEPACK_DEVICE u64 key_of(Symbol symbol) {
    if (symbol.length < 8) return symbol.word | static_cast<u64>(KEY_MARK + symbol.length) << 56;
    return symbol_of_key(symbol.word).length == 8 ? symbol.word : VACANT;
}

// The symbol's bytes as a number that orders symbols of one length as codes.
LANEPACK_DEVICE u64 big_endian(u64 word) {
    const u32 low = __byte_perm(static_cast<u32>(word), 0, 0x0123);
    const u32 high = __byte_perm(static_cast<u32>(word >> 32), 0, 0x0123);
    return static_cast<u64>(low) << 32 | high;
}

// The fewest occurrences of a candidate in so many bytes of sample.
LANEPACK_DEVICE u32 least_count(u32 bytes) { return max(bytes / BYTES_PER_OCCURRENCE, LEAST_COUNT); }

// Whether a table is to be tried.
LANEPACK_DEVICE bool goes_on(const FsstTrainer& trainer, const FsstTrained& trained) {
    return trainer.is_done == 0 && trained.pieces != 0;
}

// Whether the table that was tried is the best so far.
LANEPACK_DEVICE bool is_better(const FsstTrainer& trainer, const FsstTrained& trained) {
    return trained.codes == 0 || trainer.codes < trained.codes;
}

LANEPACK_KERNEL(fsst_train_count, FSST_TRAIN_THREADS, 2, FsstTraining) {
    LANEPACK_SHARED(EncoderTable, table);
    LANEPACK_SHARED(u32[UNITS], units);
    const u32 index = blockIdx.x / args.blocks_per_table;
    const u32 part = blockIdx.x % args.blocks_per_table;
    FsstTrainer& trainer = args.trainers[index];
    if (!goes_on(trainer, args.trained[index])) return;
    for (u32 i = threadIdx.x; i < UNITS; i += FSST_TRAIN_THREADS) units[i] = 0;
    table.load(trainer.table);
    const u32 count = args.trained[index].pieces;
    const FsstPiece* const pieces = args.pieces + u64{index} * args.capacity;
    u32 bytes = 0;
    u32 codes = 0;
    // Neighbours in different warps: the longest of few pieces is what is waited for.
    const u32 thread = threadIdx.x * args.blocks_per_table + part;
    for (u32 i = thread; i < count; i += args.blocks_per_table * FSST_TRAIN_THREADS) {
        if (i * 0x9E3779B1u >> 25 >= args.share) continue;
        const FsstPiece piece = pieces[i];
        bytes += piece.length;
        u32 previous = UNITS;
        parse_piece(table, args.values, piece, [&](const Match& match, u32 first) {
            const u32 unit = match.bytes == 2 ? first : 256 + match.code;
            atomicAdd(units + unit, 1u);
            if (match.length > 1) atomicAdd(units + first, 1u);
            if (previous != UNITS) {
                u32* const row = trainer.pairs + previous * UNITS;
                atomicAdd(row + unit, 1u);
                if (match.length > 1) atomicAdd(row + first, 1u);
            }
            previous = unit;
            codes += match.bytes;
        });
    }
    for (u32 step = WARP / 2; step > 0; step /= 2) {
        bytes += __shfl_down_sync(FULL, bytes, step);
        codes += __shfl_down_sync(FULL, codes, step);
    }
    if (threadIdx.x % WARP == 0 && bytes != 0) {
        atomicAdd(&trainer.bytes, bytes);
        atomicAdd(&trainer.codes, codes);
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < UNITS; i += FSST_TRAIN_THREADS) {
        if (units[i] != 0) atomicAdd(trainer.units + i, units[i]);
    }
}

// A table's symbols, by code, as a block looks them up.
struct TableSymbols {
    u64 words[256];
    u8 lengths[256];
    // The first code of each length; of 9 the number of all.
    u32 first[10];
    // Whether a byte has no symbol.
    u8 literal[256];

    // By all threads of a block of at least 256. Ends with a barrier.
    LANEPACK_DEVICE void load(const u8* serialised) {
        const SerialisedTable table(serialised);
        const u32 code = threadIdx.x;
        if (code < 256) literal[code] = 1;
        if (code >= 1 && code < 10) first[code] = table.first(code);
        if (code < 256) {
            u64 word;
            lengths[code] = static_cast<u8>(table.symbol(code, word));
            words[code] = word;
        }
        __syncthreads();
        if (code < 256 && lengths[code] == 1) literal[words[code]] = 0;
        __syncthreads();
    }

    // The bytes of a unit; no length if there is none.
    LANEPACK_DEVICE Symbol of_unit(u32 unit) const {
        if (unit < 256) return {unit, 1};
        return {words[unit - 256], lengths[unit - 256]};
    }

    LANEPACK_DEVICE bool has(Symbol symbol) const {
        u32 from = first[symbol.length];
        u32 end = first[symbol.length + 1];
        const u64 wanted = big_endian(symbol.word);
        while (from < end) {
            const u32 middle = (from + end) / 2;
            const u64 found = big_endian(words[middle]);
            if (found == wanted) return true;
            if (found < wanted) {
                from = middle + 1;
            } else {
                end = middle;
            }
        }
        return false;
    }
};

LANEPACK_DEVICE void add_candidate(FsstTrainer& trainer, Symbol symbol, u32 gain) {
    const u64 key = key_of(symbol);
    if (key == VACANT) return;
    u32 place = static_cast<u32>(key * HASH >> 48);
    for (;; place = (place + 1) % CANDIDATES) {
        const u64 found = atomicCAS(trainer.keys + place, 0, key ^ VACANT);
        if (found == 0) trainer.places[atomicAdd(&trainer.candidates, 1u)] = place;
        if (found == 0 || found == (key ^ VACANT)) break;
    }
    atomicAdd(trainer.gains + place, gain);
}

LANEPACK_KERNEL(fsst_train_candidates, FSST_TRAIN_THREADS, 1, FsstTraining) {
    LANEPACK_SHARED(TableSymbols, symbols);
    const u32 index = blockIdx.x / args.blocks_per_table;
    const u32 part = blockIdx.x % args.blocks_per_table;
    FsstTrainer& trainer = args.trainers[index];
    // Whether the table is better than those before, fsst_train_refine finds out too.
    const bool refines = args.refines != 0;
    const FsstTrained& trained = args.trained[index];
    if (!goes_on(trainer, trained) || (refines && !is_better(trainer, trained))) return;
    const u32 known = 256 + SerialisedTable(trainer.table).first(9);
    const u32 share = UNITS / args.blocks_per_table;
    const u32 from = part * share;
    const u32 until = min(from + share, known);
    if (from >= until) return;
    symbols.load(trainer.table);
    const u32 least = least_count(trainer.bytes);
    if (part == 0) {
        for (u32 unit = threadIdx.x; unit < UNITS; unit += FSST_TRAIN_THREADS) {
            const u32 count = trainer.units[unit];
            if (count < least) continue;
            const Symbol symbol = symbols.of_unit(unit);
            if (!refines) {
                add_candidate(trainer, symbol, count * (symbol.length == 1 ? SINGLE_WEIGHT : symbol.length));
            } else if (unit < 256 && symbols.literal[unit] != 0) {
                add_candidate(trainer, symbol, count);
            }
        }
    }
    constexpr u32 ROW = UNITS / 4;
    for (u32 i = from * ROW + threadIdx.x; i < until * ROW; i += FSST_TRAIN_THREADS) {
        const u32 left = i / ROW;
        // Nothing stands behind what does not occur.
        if (trainer.units[left] == 0) continue;
        uint4* const at = reinterpret_cast<uint4*>(trainer.pairs) + i;
        const uint4 found = *at;
        if ((found.x | found.y | found.z | found.w) == 0) continue;
        *at = make_uint4(0, 0, 0, 0);
        const u32 counts[4] = {found.x, found.y, found.z, found.w};
        const Symbol before = symbols.of_unit(left);
#pragma unroll 1
        for (u32 j = 0; j < 4; ++j) {
            const u32 count = min(counts[j], MOST_PAIRS);
            if (count < least) continue;
            const u32 right = i % ROW * 4 + j;
            const Symbol behind = symbols.of_unit(right);
            const u32 length = before.length + behind.length;
            if (length > 8) continue;
            const Symbol symbol{before.word | behind.word << 8 * before.length, length};
            if (!refines) {
                add_candidate(trainer, symbol, count * length);
            } else if ((right >= 256 || symbols.literal[right] != 0) && !symbols.has(symbol)) {
                add_candidate(trainer, symbol, count * (1 + (left < 256) + (right < 256)));
            }
        }
    }
}

// A candidate, and its order among others.
struct Candidate {
    u64 key;
    u32 gain;

    LANEPACK_DEVICE bool operator>=(const Candidate& other) const {
        return gain != other.gain ? gain > other.gain : key >= other.key;
    }
    LANEPACK_DEVICE bool operator>(const Candidate& other) const { return !(other >= *this); }
};

// Candidates as a block of FSST_CHOOSE_THREADS goes through them, again and again: the
// first few of each thread in registers.
struct CandidateReader {
    static constexpr u32 KEPT = 8;

    const FsstTrainer& trainer;
    const u32 count;
    Candidate kept[KEPT];

    LANEPACK_DEVICE explicit CandidateReader(const FsstTrainer& trainer_) : trainer(trainer_), count(trainer_.candidates) {
#pragma unroll
        for (u32 i = 0; i < KEPT; ++i) {
            const u32 index = i * FSST_CHOOSE_THREADS + threadIdx.x;
            kept[i] = index < count ? at(index) : Candidate{0, 0};
        }
    }

    LANEPACK_DEVICE Candidate at(u32 index) const {
        const u32 place = trainer.places[index];
        return {trainer.keys[place] ^ VACANT, trainer.gains[place]};
    }

    // Those that have a gain.
    template <class Take>
    LANEPACK_DEVICE void each(Take take) const {
#pragma unroll
        for (u32 i = 0; i < KEPT; ++i) {
            if (kept[i].gain != 0) take(kept[i]);
        }
        for (u32 i = KEPT * FSST_CHOOSE_THREADS + threadIdx.x; i < count; i += FSST_CHOOSE_THREADS) {
            const Candidate candidate = at(i);
            if (candidate.gain != 0) take(candidate);
        }
    }

    // Takes their gain from those that `loses` says.
    template <class Loses>
    LANEPACK_DEVICE void drop(FsstTrainer& own, Loses loses) {
#pragma unroll
        for (u32 i = 0; i < KEPT; ++i) {
            if (kept[i].gain != 0 && loses(kept[i])) kept[i].gain = 0;
        }
        for (u32 i = KEPT * FSST_CHOOSE_THREADS + threadIdx.x; i < count; i += FSST_CHOOSE_THREADS) {
            if (loses(at(i))) own.gains[own.places[i]] = 0;
        }
    }
};

// The best candidates, as the least of them: by a block of FSST_CHOOSE_THREADS, digit by
// digit of the order. Ends with a barrier.
LANEPACK_DEVICE Candidate best(const CandidateReader& candidates, u32 most) {
    LANEPACK_SHARED(u32[256], counts);
    LANEPACK_SHARED(u32[3], found);
    Candidate least = {0, 0};
    // Of gain and key, the bits that are known.
    u32 gain_mask = 0;
    u64 key_mask = 0;
    u32 greatest = 0;
    candidates.each([&](const Candidate& candidate) { greatest = max(greatest, candidate.gain); });
    greatest = __reduce_max_sync(FULL, greatest);
    if (threadIdx.x == 0) found[0] = 0;
    __syncthreads();
    if (threadIdx.x % WARP == 0) atomicMax(found, greatest);
    __syncthreads();
    // Digits that all have in common are zeros.
    const u32 first = min(static_cast<u32>(__clz(static_cast<i32>(found[0]))) / 8, 3u);
    for (u32 digit = first; digit < 12; ++digit) {
        const bool of_gain = digit < 4;
        const u32 shift = of_gain ? 24 - 8 * digit : 88 - 8 * digit;
        if (threadIdx.x < 256) counts[threadIdx.x] = 0;
        __syncthreads();
        candidates.each([&](const Candidate& candidate) {
            if ((candidate.gain & gain_mask) != least.gain || (candidate.key & key_mask) != least.key) return;
            const u64 bits = of_gain ? candidate.gain >> shift : candidate.key >> shift;
            atomicAdd(counts + (bits & 255), 1u);
        });
        __syncthreads();
        // The digit at which they come to `most`, counted from the greatest.
        if (threadIdx.x < WARP) {
            u32 own[8];
            u32 sum = 0;
#pragma unroll
            for (u32 i = 0; i < 8; ++i) {
                own[i] = counts[255 - (threadIdx.x * 8 + i)];
                sum += own[i];
            }
            const u32 upto = sum_upto(sum);
            const u32 all = __shfl_sync(FULL, upto, WARP - 1);
            u32 before = upto - sum;
            if (threadIdx.x == 0 && all <= most) found[0] = 256;
            const bool has = all > most && before < most && upto >= most;
            bool is_done = !has;
#pragma unroll
            for (u32 i = 0; i < 8; ++i) {
                if (!is_done && before + own[i] >= most) {
                    found[0] = 255 - (threadIdx.x * 8 + i);
                    found[1] = before;
                    found[2] = own[i];
                    is_done = true;
                }
                before += own[i];
            }
        }
        __syncthreads();
        const u32 value = found[0];
        // All of those that are left.
        if (value == 256) break;
        if (of_gain) {
            least.gain |= value << shift;
            gain_mask |= 255u << shift;
        } else {
            least.key |= u64{value} << shift;
            key_mask |= u64{255} << shift;
        }
        most -= found[1];
        if (most == found[2]) break;
        __syncthreads();
    }
    __syncthreads();
    return least;
}

// The table of some symbols, by a block of FSST_CHOOSE_THREADS.
LANEPACK_DEVICE void write_table(u8* out, const Symbol* symbols, u32 count) {
    LANEPACK_SHARED(u64[256], words);
    LANEPACK_SHARED(u32[256], codes);
    LANEPACK_SHARED(u32[9], lengths);
    constexpr u32 SHARES = FSST_CHOOSE_THREADS / 256;
    const u32 index = threadIdx.x / SHARES;
    if (threadIdx.x < 9) lengths[threadIdx.x] = 0;
    if (threadIdx.x < count) words[threadIdx.x] = big_endian(symbols[threadIdx.x].word);
    if (threadIdx.x < 256) codes[threadIdx.x] = 0;
    __syncthreads();
    if (threadIdx.x < count) atomicAdd(lengths + symbols[threadIdx.x].length, 1u);
    if (index < count) {
        const u64 word = words[index];
        const u32 length = symbols[index].length;
        // How many of its length come before.
        u32 before = 0;
        for (u32 i = threadIdx.x % SHARES; i < count; i += SHARES) {
            before += symbols[i].length == length && words[i] < word ? 1 : 0;
        }
        atomicAdd(codes + index, before);
    }
    __syncthreads();
    if (threadIdx.x < 8) out[threadIdx.x] = static_cast<u8>(lengths[threadIdx.x + 1]);
    if (threadIdx.x >= count) return;
    const Symbol own = symbols[threadIdx.x];
    u32 at = 8 + codes[threadIdx.x] * own.length;
    for (u32 length = 1; length < own.length; ++length) at += lengths[length] * length;
    for (u32 i = 0; i < own.length; ++i) out[at + i] = static_cast<u8>(own.word >> 8 * i);
}

// Takes the table that was tried if it is the best one. Ends with a barrier.
LANEPACK_DEVICE bool keep_if_best(FsstTrainer& trainer, FsstTrained& trained) {
    const bool is_best = is_better(trainer, trained);
    __syncthreads();
    if (is_best) {
        const u32* const from = reinterpret_cast<const u32*>(trainer.table);
        u32* const to = reinterpret_cast<u32*>(trained.table);
        for (u32 i = threadIdx.x; i < MAX_TABLE / 4; i += FSST_CHOOSE_THREADS) to[i] = from[i];
        if (threadIdx.x == 0) {
            trained.codes = trainer.codes;
            trained.bytes = trainer.bytes;
        }
    }
    __syncthreads();
    return is_best;
}

// Leaves what is counted as it was before.
LANEPACK_DEVICE void clear_counts(FsstTrainer& trainer) {
    for (u32 i = threadIdx.x; i < trainer.candidates; i += FSST_CHOOSE_THREADS) {
        const u32 place = trainer.places[i];
        trainer.keys[place] = 0;
        trainer.gains[place] = 0;
    }
    for (u32 i = threadIdx.x; i < UNITS; i += FSST_CHOOSE_THREADS) trainer.units[i] = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        trainer.bytes = 0;
        trainer.codes = 0;
        trainer.candidates = 0;
    }
}

LANEPACK_DEVICE u32 slot_of(u64 word) { return EncoderTable::slot_of(static_cast<u32>(word)); }

LANEPACK_KERNEL(fsst_train_grow, FSST_CHOOSE_THREADS, 1, FsstTraining) {
    // The best candidate of each slot.
    LANEPACK_SHARED(u64[SLOTS], keys);
    LANEPACK_SHARED(u32[SLOTS], gains);
    LANEPACK_SHARED(Symbol[256], chosen);
    LANEPACK_SHARED(u32, count);
    FsstTrainer& trainer = args.trainers[blockIdx.x];
    if (!goes_on(trainer, args.trained[blockIdx.x])) return;
    if (args.share == WHOLE_SHARE) keep_if_best(trainer, args.trained[blockIdx.x]);
    for (u32 i = threadIdx.x; i < SLOTS; i += FSST_CHOOSE_THREADS) {
        keys[i] = 0;
        gains[i] = 0;
    }
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    CandidateReader candidates(trainer);
    candidates.each([&](const Candidate& candidate) {
        const Symbol symbol = symbol_of_key(candidate.key);
        if (symbol.length >= 3) atomicMax(gains + slot_of(symbol.word), candidate.gain);
    });
    __syncthreads();
    candidates.each([&](const Candidate& candidate) {
        const Symbol symbol = symbol_of_key(candidate.key);
        const u32 slot = slot_of(symbol.word);
        if (symbol.length >= 3 && candidate.gain == gains[slot]) atomicMax(keys + slot, candidate.key);
    });
    __syncthreads();
    candidates.drop(trainer, [&](const Candidate& candidate) {
        const Symbol symbol = symbol_of_key(candidate.key);
        const u32 slot = slot_of(symbol.word);
        return symbol.length >= 3 && (candidate.gain != gains[slot] || candidate.key != keys[slot]);
    });
    const Candidate least = best(candidates, MOST_SYMBOLS);
    candidates.each([&](const Candidate& candidate) {
        if (candidate >= least) chosen[atomicAdd(&count, 1u)] = symbol_of_key(candidate.key);
    });
    __syncthreads();
    write_table(trainer.table, chosen, count);
    clear_counts(trainer);
}

// Code bytes for a symbol's bytes without it.
LANEPACK_DEVICE u32 bytes_without(const EncoderTable& table, Symbol symbol) {
    const u32 low = static_cast<u32>(symbol.word);
    // What two bytes, or one, begin with: of the symbol itself less.
    const u32 left = symbol.length <= 2 ? 1 : 2;
    Match match = table.short_match(low, left);
    if (symbol.length == 1) match = {ESCAPE, 1, 2};
    u32 bytes = match.bytes;
    for (u32 at = match.length; at < symbol.length; at += match.length) {
        const u64 word = symbol.word >> 8 * at;
        match = table.match(static_cast<u32>(word), static_cast<u32>(word >> 32), symbol.length - at, table.eights);
        bytes += match.bytes;
    }
    return bytes;
}

LANEPACK_KERNEL(fsst_train_refine, FSST_CHOOSE_THREADS, 1, FsstTraining) {
    LANEPACK_SHARED(EncoderTable, table);
    LANEPACK_SHARED(Candidate[MOST_ADDITIONS], found);
    LANEPACK_SHARED(Candidate[MOST_ADDITIONS], additions);
    LANEPACK_SHARED(Symbol[256], symbols);
    LANEPACK_SHARED(u32[256], losses);
    // Codes by what they cost to lose.
    LANEPACK_SHARED(u8[256], cheapest);
    LANEPACK_SHARED(u8[256], swapped);
    LANEPACK_SHARED(u32, count);
    constexpr u32 NONE = 255;
    FsstTrainer& trainer = args.trainers[blockIdx.x];
    if (!goes_on(trainer, args.trained[blockIdx.x])) return;
    if (!keep_if_best(trainer, args.trained[blockIdx.x]) || args.is_last != 0) {
        if (threadIdx.x == 0) trainer.is_done = 1;
        return;
    }
    if (threadIdx.x == 0) count = 0;
    table.load(trainer.table);
    const SerialisedTable serialised(trainer.table);
    const u32 known = serialised.first(9);
    const u32 code = threadIdx.x;
    if (code < known) {
        Symbol symbol;
        symbol.length = serialised.symbol(code, symbol.word);
        symbols[code] = symbol;
        swapped[code] = 0;
        losses[code] = trainer.units[256 + code] * (bytes_without(table, symbol) - 1);
    }
    const CandidateReader candidates(trainer);
    const Candidate least = best(candidates, MOST_ADDITIONS);
    candidates.each([&](const Candidate& candidate) {
        if (candidate >= least) found[atomicAdd(&count, 1u)] = candidate;
    });
    __syncthreads();
    if (code < count) {
        u32 rank = 0;
        for (u32 i = 0; i < count; ++i) rank += found[i] > found[code] ? 1 : 0;
        additions[rank] = found[code];
    }
    if (code < known) {
        u32 rank = 0;
        for (u32 i = 0; i < known; ++i) rank += losses[i] < losses[code] || (losses[i] == losses[code] && i < code);
        cheapest[rank] = static_cast<u8>(code);
    }
    // The table's slots are done with: now the codes that hold them.
    u8* const holders = reinterpret_cast<u8*>(table.pairs);
    __syncthreads();
    for (u32 i = threadIdx.x; i < SLOTS; i += FSST_CHOOSE_THREADS) holders[i] = NONE;
    __syncthreads();
    if (code < known && symbols[code].length >= 3) holders[slot_of(symbols[code].word)] = static_cast<u8>(code);
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 next = 0;
        u32 swaps = 0;
        for (u32 i = 0; i < count; ++i) {
            const Candidate addition = additions[i];
            const Symbol symbol = symbol_of_key(addition.key);
            while (next < known && swapped[cheapest[next]] != 0) ++next;
            if (next == known) break;
            const u32 cheap = cheapest[next];
            if (swaps == MOST_SWAPS || losses[cheap] >= addition.gain) break;
            // A slot has one symbol: who wants it must replace its holder.
            const u32 holder = symbol.length >= 3 ? holders[slot_of(symbol.word)] : NONE;
            const u32 victim = holder == NONE ? cheap : holder;
            if (swapped[victim] != 0 || losses[victim] >= addition.gain) continue;
            if (symbols[victim].length >= 3) holders[slot_of(symbols[victim].word)] = NONE;
            if (symbol.length >= 3) holders[slot_of(symbol.word)] = static_cast<u8>(victim);
            symbols[victim] = symbol;
            swapped[victim] = 1;
            ++swaps;
        }
    }
    __syncthreads();
    write_table(trainer.table, symbols, known);
    clear_counts(trainer);
}

}  // namespace lanepack
