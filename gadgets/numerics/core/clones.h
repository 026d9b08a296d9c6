// Hot CPU loops are compiled several times, for the oldest machine we run on and for newer ones; the loader picks one.
#pragma once

// Sanitizers run before the loader has resolved such functions, so they get the plain ones.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(ECHOTRAIN_SANITIZED)
#define ECHOTRAIN_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define ECHOTRAIN_CLONES
#endif

// A helper that must be compiled with the instructions of the clone that calls it.
#define ECHOTRAIN_INLINE __attribute__((always_inline)) inline
/// The same for a lambda, between its parameters and its body.
#define ECHOTRAIN_INLINE_LAMBDA __attribute__((always_inline))
