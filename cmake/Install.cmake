# cmake --install, and packages by CPack. Both run wherever glibc is as new as here: a Debian package, with systemd units and a
# user of its own, takes from the distribution what it keeps under one name for many releases, where security fixes arrive,
# and brings the rest along; an archive brings all of its libraries.
#   cmake --build build/release --target fulmar && (cd build/release && cpack -G "DEB;TGZ")
function(fulmar_install target)
  include(GNUInstallDirs)
  # DT_RPATH, not DT_RUNPATH: it holds for the libraries' own libraries, too.
  target_link_options(${target} PRIVATE LINKER:--disable-new-dtags)
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/fulmar")
  install(TARGETS ${target} RUNTIME_DEPENDENCY_SET libraries RUNTIME COMPONENT program)
  set(system "/ld-linux[^/]*$" "/lib(c|m|dl|rt|pthread|resolv)\\.so[^/]*$" "/libcuda\\.so[^/]*$")
  set(lasting "/lib(ssl|crypto|sqlite3|z|xxhash|stdc\\+\\+|gcc_s)\\.so[^/]*$")
  install(RUNTIME_DEPENDENCY_SET libraries POST_EXCLUDE_REGEXES ${system} LIBRARY DESTINATION lib/fulmar COMPONENT libraries)
  install(RUNTIME_DEPENDENCY_SET libraries POST_EXCLUDE_REGEXES ${system} ${lasting}
    LIBRARY DESTINATION lib/fulmar COMPONENT passing_libraries)

  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/CHANGELOG.md ${PROJECT_SOURCE_DIR}/web/dist/licences.txt
    DESTINATION share/doc/fulmar COMPONENT program)
  install(FILES ${PROJECT_SOURCE_DIR}/models/fulmar-demo.safetensors ${PROJECT_SOURCE_DIR}/models/fulmar-demo.vocab.txt
    ${PROJECT_SOURCE_DIR}/models/fulmar-demo-draft.safetensors
    DESTINATION share/fulmar/models COMPONENT program)
  foreach(component libraries passing_libraries)
    install(CODE "execute_process(COMMAND python3 ${PROJECT_SOURCE_DIR}/tools/parts.py licences \"${PROJECT_BINARY_DIR}\"
      \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share/doc/fulmar/licences\" COMMAND_ERROR_IS_FATAL ANY)" COMPONENT ${component})
  endforeach()
  # Manual pages and shell completions are made of --help, by the program that is installed.
  install(CODE "execute_process(COMMAND python3 ${PROJECT_SOURCE_DIR}/tools/help_pages.py \"$<TARGET_FILE:${target}>\"
    \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share\" COMMAND_ERROR_IS_FATAL ANY)" COMPONENT program)

  foreach(unit fulmar-control.service fulmar-worker@.service)
    file(READ ${PROJECT_SOURCE_DIR}/deploy/${unit} text)
    string(REPLACE "/usr/local/bin/" "/usr/bin/" text "${text}")
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/package/${unit} CONTENT "${text}" @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/package/${unit} DESTINATION lib/systemd/system COMPONENT service)
  endforeach()
  install(FILES ${PROJECT_SOURCE_DIR}/deploy/sysusers.conf DESTINATION lib/sysusers.d RENAME fulmar.conf COMPONENT service)
  install(FILES ${PROJECT_SOURCE_DIR}/deploy/workers.yaml DESTINATION share/fulmar COMPONENT service)
endfunction()

function(fulmar_packages)
  set(CPACK_PACKAGE_NAME fulmar)
  set(CPACK_PACKAGE_VENDOR "Fulmar")
  set(CPACK_PACKAGE_CONTACT "Fulmar developers")
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "RWKV inference engine and server")
  set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
  set(CPACK_PACKAGE_CHECKSUM SHA256)
  set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
  string(TOLOWER ${CMAKE_SYSTEM_NAME} system)
  set(cuda "")
  if(FULMAR_CUDA_FOUND)
    set(cuda "-cuda")
  endif()
  set(CPACK_ARCHIVE_FILE_NAME fulmar-${PROJECT_VERSION}-${system}-${CMAKE_SYSTEM_PROCESSOR}${cuda})
  set(CPACK_PACKAGE_FILE_NAME ${CPACK_ARCHIVE_FILE_NAME})
  set(CPACK_STRIP_FILES ON)
  set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
  set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
  set(CPACK_DEB_COMPONENT_INSTALL ON)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_NAME fulmar${cuda})
  if(cuda)  # one or the other: both are the program
    set(CPACK_DEBIAN_PACKAGE_PROVIDES fulmar)
    set(CPACK_DEBIAN_PACKAGE_CONFLICTS fulmar)
    set(CPACK_DEBIAN_PACKAGE_REPLACES fulmar)
  endif()
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS ca-certificates)
  set(maintainer ${PROJECT_SOURCE_DIR}/deploy/debian)
  set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${maintainer}/postinst ${maintainer}/prerm ${maintainer}/postrm)
  set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/cmake/PackageParts.cmake)
  include(CPack)
endfunction()
