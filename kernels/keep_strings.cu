// Offsets and bytes of kept strings.
//
// A thread has 32 neighbouring strings of a vector, whose kept ones stand one behind the
// other in the output: it writes one run of bytes, whole words of 8, and only where runs of
// threads meet bytes. Codes of strings that are not kept are passed over.
//
// Lengths and codes are not trusted: a string writes no more bytes than its length says, and
// lengths no more than their vector has (keep_lengths).
#include "keep.cuh"
#include "lanepack/fsst.cuh"

namespace lanepack {

// Bytes to one place behind the other, of which words are written as soon as they are whole.
struct RunWriter {
    u64* to;
    u64 word;
    // Bytes of the word that are there, and how many of these are another's.
    u32 filled;
    u32 others;

    LANEPACK_DEVICE explicit RunWriter(u8* address) {
        filled = static_cast<u32>(reinterpret_cast<u64>(address) % 8);
        to = reinterpret_cast<u64*>(address - filled);
        word = 0;
        others = filled;
    }

    // The lowest `count` bytes, up to 8; what stands above them is zero.
    LANEPACK_DEVICE void put(u64 bytes, u32 count) {
        word |= bytes << filled * 8;
        filled += count;
        if (filled < 8) return;
        if (others == 0) {
            *to = word;
        } else {
            write_bytes(8);
            others = 0;
        }
        filled -= 8;
        // The bytes that did not fit; a shift by 64 is none.
        word = filled == 0 ? 0 : bytes >> (count - filled) * 8;
        to++;
    }

    LANEPACK_DEVICE void finish() { write_bytes(filled); }

private:
    LANEPACK_DEVICE void write_bytes(u32 end) {
        for (u32 i = others; i < end; i++) reinterpret_cast<u8*>(to)[i] = static_cast<u8>(word >> i * 8);
    }
};

// Writes a string of `length` bytes as it is.
LANEPACK_DEVICE void copy_string(RunWriter& writer, const u8* from, u32 length) {
#pragma unroll 1
    for (u32 at = 0; at < length; at += 4) writer.put(bytes_at(from + at, length - at), min(length - at, 4u));
}

// Writes what codes stand for, `length` bytes; gives what is wrong with them, or 0.
LANEPACK_DEVICE u32 decode_string(RunWriter& writer, const SymbolTable& table, const u8* codes, u32 stored, u32 length) {
    FsstValue value(table, codes, stored);
    u32 left = length;
#pragma unroll 1
    for (Piece piece; value.next(piece);) {
        const u32 count = min(piece.length, left);
        writer.put(count < 8 ? piece.word & ((u64{1} << count * 8) - 1) : piece.word, count);
        if (count < piece.length) return FAULT_LENGTHS;
        left -= count;
    }
    if (value.invalid) return FAULT_CODE;
    if (value.literal) return FAULT_ESCAPE;
    if (left > 0) return FAULT_LENGTHS;
    return 0;
}

// For other architectures than 9.0 the compiler wants more registers, or spills.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ != 900
constexpr u32 KEEP_STRINGS_BLOCKS = 3;
#else
constexpr u32 KEEP_STRINGS_BLOCKS = 4;
#endif

LANEPACK_KERNEL(keep_strings, KEEP_THREADS, KEEP_STRINGS_BLOCKS, KeepStringsArguments) {
    LANEPACK_SHARED(StoredLengths[KEEP_THREADS / WARP], all);
    LANEPACK_SHARED(SymbolTable, table);
    StoredLengths& shared = all[warp_in_block()];
    const u32 chunk = blockIdx.x >> args.keep.node_shift;
    const Node& strings = args.keep.nodes[chunk];
    // A chunk of which no row is kept, or more blocks than it has.
    const u32 part = blockIdx.x & ((1u << args.keep.node_shift) - 1);
    if (part * (KEEP_THREADS / WARP) * args.keep.each >= vectors_of(strings)) return;
    if (args.keep.places[chunk] == args.keep.places[chunk + 1]) return;
    if (strings.encoding == FSST) table.load(strings.buffer[0]);
    __syncthreads();
    keep_vectors(args.keep, [&](const Node& node, u32 vector, const KeptRows& kept, u64 place) {
        const Node& stored = args.stored_lengths[chunk];
        const KeptLengths lengths(node, args.value_lengths[chunk], vector);
        // Of these the lengths of values say all.
        const bool is_constant = node.encoding == CONSTANT || node.encoding == DICT;
        u64 whole;
        const u64 before = before_in_rows(lengths.sum(kept.word), whole);
        u64 from = 0;
        const bool is_sound = lengths.hold(whole) && (is_constant || find_strings(node, stored, vector, shared, from));
        if (!is_sound) {
            if (threadIdx.x % WARP == 0) report(args.status, chunk, FAULT_LENGTHS);
            return;
        }
        u64 at = args.byte_places[chunk] + args.bytes_before[chunk * args.keep.stride + vector] + before;
        u64 row = place + kept.before;
        RunWriter writer(args.bytes + at);
        u32 fault = 0;
        u32 i = 0;
#pragma unroll 1
        for (u32 left = kept.word; left != 0; left &= left - 1) {
            const u32 next = static_cast<u32>(__ffs(static_cast<int>(left))) - 1;
            if (!is_constant) {
#pragma unroll 1
                for (; i < next; i++) from += shared.of(stored, vector, i);
            }
            const u32 length = lengths.of(next);
            if (args.offset_bytes == 4) {
                reinterpret_cast<u32*>(args.keep.out)[row] = static_cast<u32>(at);
            } else {
                reinterpret_cast<u64*>(args.keep.out)[row] = at;
            }
            const u8* string = stored_bytes(node) + from;
            if (node.encoding == DICT) {
                const VectorValues<u32, WORD_ENCODINGS> codes(stored, vector);
                const u32 code = codes.at(step_position(threadIdx.x % WARP) + next);
                string = node.buffer[0] + __ldg(reinterpret_cast<const u64*>(node.buffer[2]) + code);
            }
            if (node.encoding != FSST) {
                copy_string(writer, string, length);
            } else {
                fault = decode_string(writer, table, string, shared.of(stored, vector, next), length);
                if (fault != 0) break;
            }
            at += length;
            row++;
        }
        writer.finish();
        if (fault != 0) report(args.status, chunk, static_cast<Fault>(fault));
    });
}

}  // namespace lanepack
