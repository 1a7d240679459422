// SPDX-License-Identifier: Apache-2.0
// FIPS 180-4. With the SHA extensions of x86, sha256rnds2 does two rounds, and sha256msg1 and
// sha256msg2 extend the message by four words.
#include "ir/sha256.h"

#include <algorithm>
#include <cstring>

#include "llvm/Support/SHA256.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace catenary {

Sha256 portable_sha256_digest(llvm::ArrayRef<u8> bytes) {
  Sha256 digest;
  std::ranges::copy(llvm::SHA256::hash(bytes), digest.begin());
  return digest;
}

#if defined(__x86_64__)

namespace {

constexpr size_t kBlockBytes = 64;

alignas(16) constexpr u32 kRoundConstants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

bool has_sha_instructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kSsse3 = 1u << 9, kSse41 = 1u << 19, kSha = 1u << 29;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kSsse3) == 0 || (c & kSse41) == 0) return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & kSha) != 0;
}

// The state is in two registers, {f, e, b, a} and {h, g, d, c} from the lowest word.
struct State {
  __m128i abef;
  __m128i cdgh;
};

__attribute__((target("sha,sse4.1,ssse3"))) void add_blocks(State& state, const u8* blocks,
                                                            size_t count) {
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0bll, 0x0405060700010203ll);
  for (; count > 0; --count, blocks += kBlockBytes) {
    State s = state;
    __m128i words[4];  // the last 16 words of the message; step i replaces those of step i - 4
    for (int i = 0; i < 16; ++i) {
      __m128i& w = words[i % 4];
      if (i < 4) {
        w = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(blocks) + i),
                             big_endian);
      } else {
        const __m128i &next = words[(i + 1) % 4], &third = words[(i + 2) % 4],
                      &last = words[(i + 3) % 4];
        w = _mm_add_epi32(_mm_sha256msg1_epu32(w, next), _mm_alignr_epi8(last, third, 4));
        w = _mm_sha256msg2_epu32(w, last);
      }
      const auto* constants = reinterpret_cast<const __m128i*>(kRoundConstants) + i;
      __m128i sum = _mm_add_epi32(w, _mm_load_si128(constants));
      s.cdgh = _mm_sha256rnds2_epu32(s.cdgh, s.abef, sum);
      sum = _mm_shuffle_epi32(sum, 0x0e);
      s.abef = _mm_sha256rnds2_epu32(s.abef, s.cdgh, sum);
    }
    state.abef = _mm_add_epi32(state.abef, s.abef);
    state.cdgh = _mm_add_epi32(state.cdgh, s.cdgh);
  }
}

Sha256 fast_digest(llvm::ArrayRef<u8> bytes) {
  State state = {_mm_set_epi32(0x6a09e667, static_cast<int>(0xbb67ae85), 0x510e527f,
                               static_cast<int>(0x9b05688c)),
                 _mm_set_epi32(0x3c6ef372, static_cast<int>(0xa54ff53a), 0x1f83d9ab, 0x5be0cd19)};
  const size_t whole = bytes.size() / kBlockBytes;
  add_blocks(state, bytes.data(), whole);
  // The rest, a bit of 1, and the number of bits at the end of a block.
  u8 tail[2 * kBlockBytes] = {};
  const llvm::ArrayRef<u8> rest = bytes.drop_front(whole * kBlockBytes);
  if (!rest.empty()) std::memcpy(tail, rest.data(), rest.size());
  tail[rest.size()] = 0x80;
  const size_t blocks = rest.size() + 9 > kBlockBytes ? 2 : 1;
  const u64 bits = static_cast<u64>(bytes.size()) * 8;
  for (size_t i = 0; i < 8; ++i) {
    tail[blocks * kBlockBytes - 1 - i] = static_cast<u8>(bits >> (8 * i));
  }
  add_blocks(state, tail, blocks);
  alignas(16) u32 abef[4], cdgh[4];
  _mm_store_si128(reinterpret_cast<__m128i*>(abef), state.abef);
  _mm_store_si128(reinterpret_cast<__m128i*>(cdgh), state.cdgh);
  const u32 hash[8] = {abef[3], abef[2], cdgh[3], cdgh[2], abef[1], abef[0], cdgh[1], cdgh[0]};
  Sha256 digest;
  for (size_t i = 0; i < digest.size(); ++i) {
    digest[i] = static_cast<u8>(hash[i / 4] >> (24 - 8 * (i % 4)));
  }
  return digest;
}

}  // namespace

Sha256 sha256_digest(llvm::ArrayRef<u8> bytes) {
  static const bool fast = has_sha_instructions();
  return fast ? fast_digest(bytes) : portable_sha256_digest(bytes);
}

#else

Sha256 sha256_digest(llvm::ArrayRef<u8> bytes) { return portable_sha256_digest(bytes); }

#endif

}  // namespace catenary
