// Function multiversioning: hot CPU loops are compiled several times, for the oldest supported machine and for newer
// ones; the loader picks one version.
#pragma once

// Sanitizers run before the loader has resolved such functions, so they get the plain version.
#if defined(__x86_64__) && !defined(ECHOTRAIN_SANITIZED) && defined(__clang__) && __clang_major__ >= 14
// Clang's loader can test only one feature per clone. For Clang, avx512f includes FMA and all of AVX2, and fma includes
// AVX: all of x86-64-v3 that loops over floats need.
#define ECHOTRAIN_HAS_CLONES 1
#define ECHOTRAIN_V4 "avx512f"
#define ECHOTRAIN_V3 "fma"
#elif defined(__x86_64__) && !defined(ECHOTRAIN_SANITIZED) && defined(__GNUC__) && !defined(__clang__)
#define ECHOTRAIN_HAS_CLONES 1
#define ECHOTRAIN_V4 "arch=x86-64-v4"
#define ECHOTRAIN_V3 "arch=x86-64-v3"
#else
#define ECHOTRAIN_HAS_CLONES 0
#endif

// Marks loops that the compiler vectorises for each machine.
#if ECHOTRAIN_HAS_CLONES
#define ECHOTRAIN_CLONES __attribute__((target_clones(ECHOTRAIN_V4, ECHOTRAIN_V3, "default")))
#else
#define ECHOTRAIN_CLONES
#endif

// The same for function templates, which Clang has no clones of.
#ifdef __clang__
#define ECHOTRAIN_TEMPLATE_CLONES
#else
#define ECHOTRAIN_TEMPLATE_CLONES ECHOTRAIN_CLONES
#endif

// Defines, for functions written with vectors, the function `signature` for each machine, which calls `call` and
// returns nothing. There `kVectorBytes` is the size of the machine's vector registers, for templates that keep their
// vectors in them: vectors twice that size take two registers each, and do not fit into them any more. Name a vector
// type by an alias template: GCC 12 takes a vector type of such a size for its element's where a template makes it and
// hands it to another.
#define ECHOTRAIN_VECTOR_CLONE(attributes, bytes, signature, call) \
  attributes signature {                                           \
    constexpr int kVectorBytes = bytes;                            \
    call;                                                          \
  }
#if ECHOTRAIN_HAS_CLONES
#ifdef __clang__
// Clang takes no other attribute beside the target, and reports clones as unused that the loader may pick.
#pragma clang diagnostic ignored "-Wunused-function"
#define ECHOTRAIN_FOR(feature) __attribute__((target(feature)))
#else
#define ECHOTRAIN_FOR(feature) [[maybe_unused]] __attribute__((target(feature)))
#endif
#define ECHOTRAIN_VECTOR_CLONES(signature, ...)                                     \
  ECHOTRAIN_VECTOR_CLONE(ECHOTRAIN_FOR(ECHOTRAIN_V4), 64, signature, (__VA_ARGS__)) \
  ECHOTRAIN_VECTOR_CLONE(ECHOTRAIN_FOR(ECHOTRAIN_V3), 32, signature, (__VA_ARGS__)) \
  ECHOTRAIN_VECTOR_CLONE(ECHOTRAIN_FOR("default"), 16, signature, (__VA_ARGS__))
#else
#define ECHOTRAIN_VECTOR_CLONES(signature, ...) ECHOTRAIN_VECTOR_CLONE(, 16, signature, (__VA_ARGS__))
#endif

// Marks a helper that must be compiled with the instructions of the clone that calls it.
#define ECHOTRAIN_INLINE __attribute__((always_inline)) inline
/// Marks a lambda in the same way, between its parameters and its body.
#define ECHOTRAIN_INLINE_LAMBDA __attribute__((always_inline))
