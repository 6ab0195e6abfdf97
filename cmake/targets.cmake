# What tools/run-tests --unit and tools/fuzz build.
add_custom_target(unit_tests)
add_custom_target(fuzzers)

# quire_library(base SOURCES a.cc b.cc DEPS other libraries): the library quire_base of the folder src/base.
# Headers are included from src/ ("base/result.h").
function(quire_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(quire_${name} STATIC ${ARG_SOURCES})
  target_include_directories(quire_${name} PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/src>)
  target_link_libraries(quire_${name} PUBLIC ${ARG_DEPS})
endfunction()

# quire_test(kv_test SOURCES a_test.cc b_test.cc DEPS quire_kv): one GoogleTest program, run by ctest as one test.
# A test finds the repository's files by the definition QUIRE_SOURCE_DIR.
function(quire_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  if(QUIRE_FUZZ)
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_definitions(${name} PRIVATE QUIRE_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS unit)
  add_dependencies(unit_tests ${name})
endfunction()

# quire_fuzzer(gguf_fuzz SOURCES gguf_fuzz.cc DEPS quire_gguf): a libFuzzer program in build/<preset>/fuzz, its corpus beside the
# source in corpus/<name>. Built by the fuzz preset alone.
function(quire_fuzzer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  if(NOT QUIRE_FUZZ)
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  add_dependencies(fuzzers ${name})
endfunction()
