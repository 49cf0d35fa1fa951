# For building against the ROS 2 wheels from PyPI, whose install prefix is the Python environment itself; included with
# -DCMAKE_PROJECT_INCLUDE. An ordinary ROS 2 installation needs none of this.
cmake_minimum_required(VERSION 3.21)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
execute_process(COMMAND ${Python3_EXECUTABLE} -c "import sys; print(sys.prefix)"
  OUTPUT_VARIABLE _prefix OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
list(PREPEND CMAKE_PREFIX_PATH ${_prefix})
# Packages that colcon has built before this one are in it already.
set(ENV{AMENT_PREFIX_PATH} "$ENV{AMENT_PREFIX_PATH}:${_prefix}")

# Rewrites the include directories that each target of one kind passes on: "" drops one, anything else replaces it.
function(rewrite_interface_includes kind condition replacement)
  get_property(targets DIRECTORY PROPERTY ${kind})
  foreach(target IN LISTS targets)
    get_target_property(directories ${target} INTERFACE_INCLUDE_DIRECTORIES)
    if(NOT directories)
      continue()
    endif()
    set(kept "")
    foreach(directory IN LISTS directories)
      cmake_language(CALL ${condition} matches ${directory})
      if(matches)
        string(CONFIGURE "${replacement}" directory @ONLY)
      endif()
      list(APPEND kept ${directory})
    endforeach()
    set_target_properties(${target} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${kept}")
  endforeach()
endfunction()

function(is_missing result directory)
  if(IS_ABSOLUTE "${directory}" AND NOT EXISTS "${directory}")
    set(${result} TRUE PARENT_SCOPE)
  else()
    set(${result} FALSE PARENT_SCOPE)
  endif()
endfunction()

function(is_in_source_tree result directory)
  cmake_path(IS_PREFIX PROJECT_SOURCE_DIR "${directory}" NORMALIZE inside)
  set(${result} ${inside} PARENT_SCOPE)
endfunction()

# The wheels' rosidl targets name the include directories of the machine that built them, and CMake rejects imported targets
# with missing directories; the generated extensions get the right ones from FindPython3 anyway.
cmake_language(DEFER CALL rewrite_interface_includes IMPORTED_TARGETS is_missing "")
# With .venv inside the source tree NumPy's headers are too, and CMake does not let exported targets name those.
cmake_language(DEFER CALL rewrite_interface_includes BUILDSYSTEM_TARGETS is_in_source_tree "$<BUILD_INTERFACE:@directory@>")
