# libcatenary.so: the C ABI and nothing else is visible.
add_library(catenary SHARED ${PROJECT_SOURCE_DIR}/cmake/empty.cpp)
