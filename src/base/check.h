// Checks: the road for bugs.
//
// A failed check means that the program itself is wrong; it prints the condition, the place and the values and aborts. Input from
// outside (files, sockets, flags) must never reach one: it is answered with a Result (base/result.h).
//
// Cost levels, chosen at build time by QUIRE_CHECK_LEVEL:
//   QUIRE_CHECK      always       preconditions of public functions, cheap
//   QUIRE_DCHECK     level >= 1   inner loops, arguments of kernels
//   QUIRE_INVARIANT  level >= 2   equations over a whole structure
//   QUIRE_EXPENSIVE  level >= 3   full recounts after each step
#pragma once

#include <string>

#ifndef QUIRE_CHECK_LEVEL
#define QUIRE_CHECK_LEVEL 0
#endif

namespace quire {

// Prints "file:line: check failed: condition (detail)" to stderr and aborts. Never returns.
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& detail = {});

}  // namespace quire

#define QUIRE_CHECK_THAT_(condition, ...) \
  (static_cast<bool>(condition) ? (void)0 : ::quire::check_failed(__FILE__, __LINE__, #condition __VA_OPT__(, ) __VA_ARGS__))
#define QUIRE_CHECK_NOT_BUILT_(condition) (void)(true || static_cast<bool>(condition))

// QUIRE_CHECK(condition) or QUIRE_CHECK(condition, "detail as a string").
#define QUIRE_CHECK(condition, ...) QUIRE_CHECK_THAT_(condition __VA_OPT__(, ) __VA_ARGS__)

#if QUIRE_CHECK_LEVEL >= 1
#define QUIRE_DCHECK(condition, ...) QUIRE_CHECK_THAT_(condition __VA_OPT__(, ) __VA_ARGS__)
#else
#define QUIRE_DCHECK(condition, ...) QUIRE_CHECK_NOT_BUILT_(condition)
#endif

#if QUIRE_CHECK_LEVEL >= 2
#define QUIRE_INVARIANT(condition, ...) QUIRE_CHECK_THAT_(condition __VA_OPT__(, ) __VA_ARGS__)
#else
#define QUIRE_INVARIANT(condition, ...) QUIRE_CHECK_NOT_BUILT_(condition)
#endif

#if QUIRE_CHECK_LEVEL >= 3
#define QUIRE_EXPENSIVE(condition, ...) QUIRE_CHECK_THAT_(condition __VA_OPT__(, ) __VA_ARGS__)
#else
#define QUIRE_EXPENSIVE(condition, ...) QUIRE_CHECK_NOT_BUILT_(condition)
#endif
