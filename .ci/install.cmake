# What is installed and packed. Components:
#   programs     the server, the client, the pipelines and the documents
#   development  headers, static libraries and find_package(echotrain)
#   service      systemd's unit and /etc/echotrain: for the Debian package only
#   ranks        echotrain-ranks, where it was built: in no package, because it needs the site's MPI
#   libraries    the shared libraries the programs need, in lib/echotrain: for the relocatable archive only
# `cmake --install build` installs the first two and ranks; `cpack` in build/ makes the Debian package and the archive.
include(GNUInstallDirs)

# The archive keeps its libraries in a folder of their own, beside the programs wherever it is unpacked. The older kind
# of run path (RPATH) also finds the libraries that those need. CUDA's lie where they were when this was built, or where the
# system looks. The build tree has the same path: CMake ends one that it means to change with an empty entry, which is
# the current folder. ECHOTRAIN_SHARED's library lies in the folder of the archive's libraries, in the build tree too, where the
# programs print their manual pages.
set(library_folder ${CMAKE_INSTALL_LIBDIR}/echotrain)
set_target_properties(echotrain_numerics PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${library_folder})
set(cuda_libraries $<$<BOOL:${ECHOTRAIN_HAS_CUDA}>:${CUDAToolkit_LIBRARY_DIR}>)
foreach(program echotrain echotrain-server)
  set_target_properties(${program} PROPERTIES BUILD_WITH_INSTALL_RPATH ON
                        INSTALL_RPATH "\$ORIGIN/../${library_folder};${cuda_libraries}")
  target_link_options(${program} PRIVATE LINKER:--disable-new-dtags)
  install(TARGETS ${program} RUNTIME_DEPENDENCY_SET echotrain_dependencies
          RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT programs)
endforeach()
# Manual pages and completion, which each program prints of itself when it is linked. Zsh of Debian looks for those of
# packages in a folder of its own.
set(pages ${CMAKE_BINARY_DIR}/pages)
file(MAKE_DIRECTORY ${pages}/bash ${pages}/zsh)
foreach(program echotrain echotrain-server)
  add_custom_command(TARGET ${program} POST_BUILD VERBATIM
    COMMAND ${program} --man > ${pages}/${program}.1
    COMMAND ${program} --completion bash > ${pages}/bash/${program}
    COMMAND ${program} --completion zsh > ${pages}/zsh/_${program}
    BYPRODUCTS ${pages}/${program}.1 ${pages}/bash/${program} ${pages}/zsh/_${program})
  install(FILES ${pages}/${program}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT programs)
  install(FILES ${pages}/bash/${program} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT programs)
  install(FILES ${pages}/zsh/_${program} DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT programs)
  install(FILES ${pages}/zsh/_${program} DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions
          COMPONENT service EXCLUDE_FROM_ALL)
endforeach()
if(TARGET echotrain-ranks)
  set_target_properties(echotrain-ranks PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH_USE_LINK_PATH ON
                        INSTALL_RPATH "\$ORIGIN/../${library_folder}")
  install(TARGETS echotrain-ranks RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ranks)
endif()
install(DIRECTORY config/pipelines clients/cpp/schemas DESTINATION ${CMAKE_INSTALL_DATADIR}/echotrain COMPONENT programs)
file(GLOB documents CONFIGURE_DEPENDS docs/*.md docs/*.png docs/*.gif)
list(FILTER documents EXCLUDE REGEX "/stream\\.gif$")  # large, and only the README on the web shows it
install(FILES README.md ${documents} DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/echotrain COMPONENT programs)
install(DIRECTORY docs/operations docs/pictures docs/plugin docs/client docs/tutorials DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/echotrain COMPONENT programs)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/echotrain RENAME copyright COMPONENT programs)

# Libraries of every Linux host, and of every CUDA host, stay out of the archive.
install(RUNTIME_DEPENDENCY_SET echotrain_dependencies
  PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|resolv|stdc\\+\\+|gcc_s|cuda|cudart|cufft|cublas|cublasLt|nvrtc|nvJitLink)\\.so"
  LIBRARY DESTINATION ${library_folder} COMPONENT libraries EXCLUDE_FROM_ALL)

# For other projects' programs and gadgets: find_package(echotrain). Headers lie in a folder of their own, so that they
# never hide another project's "config/node.h".
foreach(room config gadgets protocol clients/cpp)
  install(DIRECTORY ${room}/ DESTINATION include/echotrain/${room} COMPONENT development FILES_MATCHING PATTERN "*.h" PATTERN "*.cuh")
endforeach()
install(FILES ${CMAKE_BINARY_DIR}/generated/gadgets/numerics/core/backends_built.h DESTINATION include/echotrain/gadgets/numerics/core
        COMPONENT development)
install(FILES ${sdk_digest} DESTINATION include/echotrain/gadgets/api COMPONENT development)
install(TARGETS echotrain_options echotrain_protocol echotrain_config echotrain_numerics echotrain_gadgets echotrain_client
        EXPORT echotrain_targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
        LIBRARY DESTINATION ${library_folder} COMPONENT programs)
set(cmake_folder ${CMAKE_INSTALL_LIBDIR}/cmake/echotrain)
install(EXPORT echotrain_targets FILE echotrain-targets.cmake NAMESPACE echotrain:: DESTINATION ${cmake_folder}
        COMPONENT development)
set(include_folder include/echotrain)
include(CMakePackageConfigHelpers)
configure_package_config_file(.ci/echotrain-config.cmake.in ${CMAKE_BINARY_DIR}/package/echotrain-config.cmake
                              INSTALL_DESTINATION ${cmake_folder} PATH_VARS include_folder)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/package/echotrain-config-version.cmake COMPATIBILITY ExactVersion)
install(FILES ${CMAKE_BINARY_DIR}/package/echotrain-config.cmake ${CMAKE_BINARY_DIR}/package/echotrain-config-version.cmake
        DESTINATION ${cmake_folder} COMPONENT development)

# Packages put the programs into /usr/bin; installing from source (docs/configure.md) puts them into /usr/local/bin.
set(unit ${CMAKE_SOURCE_DIR}/docs/operations/echotrain-server.service)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${unit})
file(READ ${unit} unit_text)
string(REPLACE "/usr/local/bin/" "/usr/bin/" unit_text "${unit_text}")
file(WRITE ${CMAKE_BINARY_DIR}/package/echotrain-server.service "${unit_text}")
install(FILES ${CMAKE_BINARY_DIR}/package/echotrain-server.service DESTINATION lib/systemd/system
        COMPONENT service EXCLUDE_FROM_ALL)
install(FILES docs/operations/echotrain.yaml DESTINATION /etc/echotrain COMPONENT service EXCLUDE_FROM_ALL)

# --- cpack ------------------------------------------------------------------------------------------------------------
set(CPACK_GENERATOR DEB TXZ)
set(CPACK_PACKAGE_NAME echotrain)
set(CPACK_PACKAGE_VENDOR "Echotrain")
set(CPACK_PACKAGE_CONTACT "The Echotrain authors <echotrain@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "streaming MRI reconstruction server and client")
set(CPACK_PACKAGE_DESCRIPTION "A scanner or a client sends ISMRMRD readouts over TCP as they are acquired; a pipeline turns them into
images, which go back while the scan still runs. This package has the server, as a service for systemd
that is started by hand (systemctl enable --now echotrain-server), the client and the shipped pipelines.")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_THREADS 0)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_SOURCE_DIR}/.ci/cpack.cmake)
set(CPACK_COMPONENTS_ALL programs development service libraries)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME echotrain)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION science)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS systemd)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/.ci/debian/conffiles
    ${CMAKE_SOURCE_DIR}/.ci/debian/postinst ${CMAKE_SOURCE_DIR}/.ci/debian/prerm ${CMAKE_SOURCE_DIR}/.ci/debian/postrm)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME echotrain-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "Echotrain's client and gadget API for C++
 Headers and static libraries, for find_package(echotrain) of CMake: programs that send scans and take images, and
 gadgets that a server loads from its folder of plugins.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "echotrain (= ${PROJECT_VERSION}), libismrmrd-dev, libhdf5-dev, libfftw3-dev, libzfp-dev, libyaml-cpp-dev, libfmt-dev, libcli11-dev, libpng-dev, libpugixml-dev, libqhull-dev, libssl-dev, libeigen3-dev, nlohmann-json3-dev, pkg-config")
if(ECHOTRAIN_HAS_DCMTK)
  string(APPEND CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS ", libdcmtk-dev")
endif()
if(ECHOTRAIN_HAS_CUDA)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CUDAToolkit_LIBRARY_DIR})  # for libraries that belong to no package
endif()
include(CPack)
cpack_add_component_group(runtime)
cpack_add_component_group(development)
cpack_add_component(programs GROUP runtime)
cpack_add_component(service GROUP runtime)
cpack_add_component(development GROUP development)
