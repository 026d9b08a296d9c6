// Hot CPU loops are compiled several times, for the oldest machine we run on and for newer ones; the loader picks one.
#pragma once

// Sanitizers run before the loader has resolved such functions, so they get the plain ones.
#if defined(__x86_64__) && !defined(ECHOTRAIN_SANITIZED) && defined(__clang__) && __clang_major__ >= 14
// Clang's loader can ask for one feature of a clone only. For Clang, avx512f has FMA and all that AVX2 has, and fma has
// AVX: what loops over floats need of x86-64-v3.
#define ECHOTRAIN_CLONES __attribute__((target_clones("avx512f", "fma", "default")))
#define ECHOTRAIN_HAS_CLONES 1
#elif defined(__x86_64__) && !defined(ECHOTRAIN_SANITIZED) && defined(__GNUC__) && !defined(__clang__)
#define ECHOTRAIN_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#define ECHOTRAIN_HAS_CLONES 1
#else
#define ECHOTRAIN_CLONES
#define ECHOTRAIN_HAS_CLONES 0
#endif

// A helper that must be compiled with the instructions of the clone that calls it.
#define ECHOTRAIN_INLINE __attribute__((always_inline)) inline
/// The same for a lambda, between its parameters and its body.
#define ECHOTRAIN_INLINE_LAMBDA __attribute__((always_inline))
