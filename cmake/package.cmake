# The package that other projects find: find_package(quire) gives them the target quire::kv, the KV cache without the engine, with
# all that it stands on. `cmake --install DIR --component kv` installs it alone.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/quire)
foreach(folder base port kv)
  set_target_properties(quire_${folder} PROPERTIES EXPORT_NAME ${folder})
  target_compile_features(quire_${folder} PUBLIC cxx_std_20)
  # Headers include one another as "kv/segment.h", as in src/.
  install(TARGETS quire_${folder} EXPORT quire
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT kv
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/quire)
  install(DIRECTORY src/${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/quire COMPONENT kv
    FILES_MATCHING PATTERN "*.h" PATTERN corpus EXCLUDE)
endforeach()
if(QUIRE_SANITIZE)
  target_link_options(quire_base INTERFACE $<INSTALL_INTERFACE:-fsanitize=${QUIRE_SANITIZE}>)
endif()

install(EXPORT quire NAMESPACE quire:: FILE quire-targets.cmake DESTINATION ${package_folder} COMPONENT kv)
# Before 1.0 a minor version may break what another was built for.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/quire-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES cmake/quire-config.cmake ${CMAKE_BINARY_DIR}/quire-config-version.cmake
  DESTINATION ${package_folder} COMPONENT kv)
