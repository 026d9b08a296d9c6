# How sources are compiled: warnings, hardening, sanitizers, precompiled headers.
add_library(echotrain_options INTERFACE)
target_include_directories(echotrain_options INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}> $<INSTALL_INTERFACE:include/echotrain>)
set(warnings -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wno-missing-field-initializers)
if(ECHOTRAIN_WERROR)
  list(APPEND warnings -Werror)
endif()
foreach(flag ${warnings})
  target_compile_options(echotrain_options INTERFACE $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:${flag}>>)
endforeach()
if(ECHOTRAIN_UNITY)
  # It takes what is private to a source for what several sources see.
  target_compile_options(echotrain_options INTERFACE $<BUILD_INTERFACE:$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-subobject-linkage>>)
endif()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  # The oldest supported machine; hot loops have clones for newer ones, which the program chooses when it starts.
  target_compile_options(echotrain_options INTERFACE $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-march=x86-64-v2>>)
endif()
# What makes faults in memory harder to use (tests/integration/robustness/test_hardening.py reads the programs). In all objects, also the
# precompiled headers'. The sanitizers watch the same calls.
if(NOT ECHOTRAIN_SANITIZE AND NOT ECHOTRAIN_FUZZ)
  foreach(flag -fstack-protector-strong -fcf-protection)
    add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:${flag}> $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${flag}>)
  endforeach()
  # Without optimisation it only warns. Distributions may define another level by default.
  add_compile_options($<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<NOT:$<CONFIG:Debug>>>:-U_FORTIFY_SOURCE>
                      $<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<NOT:$<CONFIG:Debug>>>:-D_FORTIFY_SOURCE=3>)
  add_link_options(LINKER:-z,relro LINKER:-z,now)
endif()
if(ECHOTRAIN_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "ECHOTRAIN_FUZZ=ON needs Clang with libFuzzer, and this is ${CMAKE_CXX_COMPILER_ID}. "
                        "Use the preset: cmake --preset fuzz")
  endif()
  set(ECHOTRAIN_SANITIZE "fuzzer-no-link,address,undefined,float-cast-overflow")
endif()
if(ECHOTRAIN_SANITIZE)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${ECHOTRAIN_SANITIZE}>
                      $<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer>
                      $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize-recover=all>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # "function" marks functions with their types, which Clang 14 cannot do for coroutines. The others find little that
    # AddressSanitizer does not, for a fifth of the time that compiling takes.
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=function,null,object-size,vptr>)
  endif()
  add_link_options(-fsanitize=${ECHOTRAIN_SANITIZE})
  target_compile_definitions(echotrain_options INTERFACE ECHOTRAIN_SANITIZED=1)
endif()

# echotrain_precompile(TARGET HEADER [ALONE | LIBRARY...]): .ci/pch/HEADER_pch.h, precompiled once for all targets that name it,
# with what LIBRARY... define; ALONE: with the target's own flags. With -fpch-preprocess (GCC) and without the time of compiling in it
# (Clang) a compiler cache can look into it. Builds with sanitizers have none, which proves that includes are complete.
function(echotrain_precompile target header)
  if(NOT ECHOTRAIN_PCH OR ECHOTRAIN_SANITIZE)
    return()
  endif()
  get_target_property(position_independent ${target} POSITION_INDEPENDENT_CODE)
  get_target_property(kind ${target} TYPE)
  if(position_independent OR kind STREQUAL "SHARED_LIBRARY" OR ARGN STREQUAL "ALONE")
    set(once ${target})
  else()
    set(once echotrain_pch_${header})
    if(NOT TARGET ${once})
      file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/${once}.cc CONTENT "// Nothing: its target precompiles a header." @ONLY)
      add_library(${once} OBJECT ${CMAKE_BINARY_DIR}/generated/${once}.cc)
      target_link_libraries(${once} PRIVATE echotrain_options Threads::Threads fmt::fmt ${ARGN})
    endif()
  endif()
  foreach(compiled ${target} ${once})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # GCC 12 warns of its own std::string (gcc.gnu.org/PR105651), and with precompiled headers takes that for our code.
      target_compile_options(${compiled} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>
        $<$<COMPILE_LANGUAGE:CXX>:-Wno-array-bounds> $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
    elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
      target_compile_options(${compiled} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")
    endif()
  endforeach()
  get_target_property(begun ${once} PRECOMPILE_HEADERS)
  if(NOT begun)
    target_precompile_headers(${once} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${CMAKE_SOURCE_DIR}/.ci/pch/${header}_pch.h>)
  endif()
  if(NOT once STREQUAL target)
    target_precompile_headers(${target} REUSE_FROM ${once})
  endif()
endfunction()
