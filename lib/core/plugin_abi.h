// The text that says what a program or plug-in was built with. SGTRAIN_ABI_VERSIONS (versions of
// sgtrain and LibTorch) comes from the build; the rest from the compiler.
#pragma once

#include <cstddef>  // any header of the standard library: defines _GLIBCXX_USE_CXX11_ABI

#define SGTRAIN_ABI_TEXT_(x) #x
#define SGTRAIN_ABI_TEXT(x) SGTRAIN_ABI_TEXT_(x)
#if defined(__clang__)
#define SGTRAIN_ABI_COMPILER "clang " SGTRAIN_ABI_TEXT(__clang_major__)
#else
#define SGTRAIN_ABI_COMPILER "g++ " SGTRAIN_ABI_TEXT(__GNUC__)
#endif
#ifndef _GLIBCXX_USE_CXX11_ABI
#error "sgtrain and LibTorch are built with libstdc++"
#endif

#define SGTRAIN_ABI                                                             \
  SGTRAIN_ABI_VERSIONS ", " SGTRAIN_ABI_COMPILER ", C++ ABI " SGTRAIN_ABI_TEXT( \
      __GXX_ABI_VERSION) "/" SGTRAIN_ABI_TEXT(_GLIBCXX_USE_CXX11_ABI)
/// Stands before the text in a plug-in, and is found by searching the file.
#define SGTRAIN_ABI_MARK "sgtrain-plugin-abi:"
